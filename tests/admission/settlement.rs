//! What a newer lease settles (rule P5), and what the sweep may reject (rule P6).

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(
    adm_p5_an_abandoned_application_expires_as_what_may_have_run,
    adm_p5_a_finished_one_is_settled_as_the_journal_says,
    adm_p5_nothing_else_is_settled,
    adm_p5_a_begin_that_never_reached_the_command_is_settled_by_its_own_epoch,
    adm_p5_a_lapsed_lease_with_an_application_wants_a_host,
    adm_p5_never_claimed_and_claimed_end_differently,
    adm_p6_a_beginning_in_the_journal_forbids_rejection,
    adm_p6_each_refusal_has_its_own_reason,
    adm_p6_the_same_rejection_again_is_the_same,
    adm_p5_the_stores_clock_decides,
);

const FIRST: CommandSeq = CommandSeq(1);

async fn applying(world: &World) -> (SessionId, LeaseRef) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.begin(&lease, FIRST).await.expect("begun");
    (session, lease)
}

/// The next holder, once the lease of the last one lapsed.
async fn successor(world: &World, session: SessionId) -> LeaseRef {
    world.clock.advance(TTL);
    let host = world.host("eu-2").await;
    world.lease(&host, session).await
}

async fn adm_p5_an_abandoned_application_expires_as_what_may_have_run(world: World) {
    let (session, _) = applying(&world).await;
    let next = successor(&world, session).await;
    let work = world.hosts().work(&credential(), &next.host, Duration::ZERO).await.expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Settle(entry)] if entry.seq == FIRST), "{work:?}");
    let ended = world.settle(&next, FIRST).await.expect("settled");
    assert_eq!(world.view(session, FIRST).await, (CallerState::Expired, Some("claimed_not_applied".into())));
    assert_eq!(ended.outcome.as_ref().map(|outcome| outcome.by.as_str()), Some("eu-2"));
    assert_eq!(world.counters.counts().settled, 1);
}

async fn adm_p5_a_finished_one_is_settled_as_the_journal_says(world: World) {
    let refused = Completion::Rejected(OutcomeCode::new("map_missing").unwrap());
    for (n, (completion, state)) in
        [(Completion::Applied, CallerState::Applied), (refused, CallerState::Rejected)].into_iter().enumerate()
    {
        let session = world.session(&format!("k{n}")).await;
        let host = world.host("eu-1").await;
        let lease = world.lease(&host, session).await;
        world.claim(&lease, FIRST).await.expect("claimed");
        world.begin(&lease, FIRST).await.expect("begun");
        world.store.journal_finish(CompleteCommandRequest { lease, seq: FIRST, completion }).await.expect("journaled");
        let next = successor(&world, session).await;
        let ended = world.settle(&next, FIRST).await.expect("settled");
        assert_eq!(world.view(session, FIRST).await.0, state);
        assert!(ended.outcome.as_ref().is_some_and(|outcome| !outcome.late), "it had finished in time");
    }
}

async fn adm_p5_nothing_else_is_settled(world: World) {
    let (session, lease) = applying(&world).await;
    let second = world.input(session, "i").await.seq;
    let not_settleable = Some(Refusal::NotSettleable);
    assert_eq!(world.settle(&lease, FIRST).await.expect_err("its own").refusal(), not_settleable);
    assert_eq!(world.settle(&lease, second).await.expect_err("pending").refusal(), not_settleable);
    world.clock.advance(DEADLINE);
    assert_eq!(world.settle(&lease, FIRST).await.expect_err("its own, late").refusal(), not_settleable);
    assert_eq!(world.settle(&lease, second).await.expect_err("the sweep's").refusal(), not_settleable);
    // In time, a newer epoch is handed it again.
    let long = InputRequest { apply_within: Some(TTL * 10), ..input(session, "long") };
    let (long, _) = world.service().admit_input(&alice(), long).await.expect("admitted");
    world.claim(&lease, long.seq).await.expect("claimed");
    world.begin(&lease, long.seq).await.expect("begun");
    let next = successor(&world, session).await;
    assert_eq!(world.settle(&next, long.seq).await.expect_err("in time").refusal(), not_settleable);
    world.settle(&next, FIRST).await.expect("late");
    let stale = LeaseRef { epoch: lease.epoch, ..next };
    assert_eq!(code(world.settle(&stale, long.seq).await), ErrorCode::LeaseLost);
}

/// The process died between the two writes of a begin, and the host was never told that it may begin.
async fn adm_p5_a_begin_that_never_reached_the_command_is_settled_by_its_own_epoch(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.store.journal_begin(BeginCommandRequest { lease: lease.clone(), seq: FIRST }).await.expect("journaled");
    assert_eq!(world.settle(&lease, FIRST).await.expect_err("in time").refusal(), Some(Refusal::NotSettleable));
    world.clock.advance(DEADLINE);
    assert_eq!(world.sweep_all(&world.sweeper("a")).await, [(Disposition::Evidence, 1)].into());
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Settle(_)]), "{work:?}");
    world.settle(&lease, FIRST).await.expect("settled");
    assert_eq!(world.view(session, FIRST).await, (CallerState::Expired, Some("claimed_not_applied".into())));
}

async fn adm_p5_a_lapsed_lease_with_an_application_wants_a_host(world: World) {
    let (session, _) = applying(&world).await;
    world.store.release_placement(arena(), session).await.expect("no longer wanted");
    world.clock.advance(TTL);
    let next = world.host("eu-2").await;
    world.store.place_due(10).await.expect("placement");
    let work = world.hosts().work(&credential(), &next, Duration::ZERO).await.expect("work");
    assert_eq!(work.iter().map(|work| &work.tasks[..]).collect::<Vec<_>>(), [[Task::Acquire]]);
    let lease = world.lease(&next, session).await;
    world.settle(&lease, FIRST).await.expect("settled");
    let work = world.hosts().work(&credential(), &next, Duration::ZERO).await.expect("work");
    assert_eq!(work[0].tasks, [Task::Release], "and then it owes nothing");
    world.hosts().release_lease(&credential(), lease, false).await.expect("released");
    assert_eq!(world.hosts().work(&credential(), &next, Duration::ZERO).await, Ok(Vec::new()));
}

async fn adm_p5_never_claimed_and_claimed_end_differently(world: World) {
    let session = world.session("k").await;
    let second = world.input(session, "i").await.seq;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, second).await.expect("claimed");
    world.clock.advance(DEADLINE);
    assert_eq!(world.sweep_all(&world.sweeper("a")).await, [(Disposition::Rejected, 2)].into());
    assert_eq!(world.view(session, FIRST).await, (CallerState::Expired, Some("never_claimed".into())));
    assert_eq!(world.view(session, second).await, (CallerState::Expired, Some("claimed_not_applied".into())));
}

async fn adm_p6_a_beginning_in_the_journal_forbids_rejection(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.store.journal_begin(BeginCommandRequest { lease, seq: FIRST }).await.expect("journaled");
    // The lease is gone, its holder as well; the evidence stays.
    world.clock.advance(TTL * 3);
    let read = world.read(session, FIRST).await;
    assert_eq!(reject(&world, session, read.revision).await, Err(StoreError::Refused(Refusal::Evidence)));
}

async fn reject(world: &World, session: SessionId, revision: Revision) -> Result<bool, StoreError> {
    let by = name("service:sweep");
    let request = RejectDispositionCommandRequest { tenant: arena(), session, seq: FIRST, revision, by };
    world.store.reject_disposition_command(request).await.map(|(_, rejected)| rejected)
}

async fn adm_p6_each_refusal_has_its_own_reason(world: World) {
    let session = world.session("k").await;
    let refused = |refusal| Err(StoreError::Refused(refusal));
    let read = world.read(session, FIRST).await;
    world.clock.set(Timestamp(read.deadline.0 - 1));
    assert_eq!(reject(&world, session, read.revision).await, refused(Refusal::Unexpired));
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let claimed = world.claim(&lease, FIRST).await.expect("claimed");
    let moved = Refusal::RevisionMoved { current: claimed.revision };
    assert_eq!(reject(&world, session, read.revision).await, refused(moved));
    let begun = world.begin(&lease, FIRST).await.expect("begun");
    world.clock.set(read.deadline);
    assert_eq!(reject(&world, session, begun.revision).await, refused(Refusal::Applying));
    world.complete(&lease, FIRST).await.expect("completed");
    let ended = world.read(session, FIRST).await;
    assert_eq!(reject(&world, session, ended.revision).await, refused(Refusal::Settled));
    assert_eq!(reject(&world, SessionId(404), ended.revision).await, refused(Refusal::UnknownCommand));
}

/// A reply that was lost, and the sweep that asks again.
async fn adm_p6_the_same_rejection_again_is_the_same(world: World) {
    let session = world.session("k").await;
    let read = world.read(session, FIRST).await;
    world.clock.set(read.deadline);
    assert_eq!(reject(&world, session, read.revision).await, Ok(true));
    assert_eq!(reject(&world, session, read.revision).await, Ok(false));
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    assert_eq!(entry.open, 0, "counted once");
}

/// Processes' clocks decide nothing: a sweeper whose clock is hours ahead reads rows that it may not settle.
async fn adm_p5_the_stores_clock_decides(world: World) {
    let session = world.session("k").await;
    let hours = 3_600_000 * 5;
    let ahead = DispositionReconcilerConfig {
        clock: std::sync::Arc::new(Skewed(world.clock.clone(), hours)),
        ..world.sweep_config("ahead")
    };
    let ahead = DispositionReconciler::new(ahead).expect("valid");
    assert_eq!(world.sweep_all(&ahead).await, [(Disposition::Unexpired, 1)].into());
    let service =
        Service::new(Config { clock: std::sync::Arc::new(Skewed(world.clock.clone(), hours)), ..world.config() })
            .expect("valid");
    let (entry, _) = service.admit_input(&alice(), input(session, "i")).await.expect("admitted");
    assert_eq!(entry.deadline, world.clock.time().plus(DEADLINE));
    let behind = DispositionReconcilerConfig {
        clock: std::sync::Arc::new(Skewed(world.clock.clone(), -5_000)),
        ..world.sweep_config("behind")
    };
    let behind = DispositionReconciler::new(behind).expect("valid");
    world.clock.advance(DEADLINE);
    assert_eq!(world.sweep_all(&behind).await, [].into(), "merely later");
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.sweep_all(&behind).await, [(Disposition::Rejected, 2)].into());
}
