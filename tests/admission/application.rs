//! Claim, begin, complete (rule P5, cases Q3 to Q5).

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(
    adm_p5_a_command_is_claimed_begun_and_completed,
    adm_p5_claim_and_begin_are_refused_from_the_deadline_on,
    adm_p5_a_late_completion_is_accepted_and_marked,
    adm_p5_a_claim_never_outlives_the_deadline,
    adm_p5_the_journal_comes_first,
    adm_p5_redelivery_goes_to_the_next_lease_holder_only,
    adm_p5_what_was_finished_is_never_handed_out_again,
    case_q3_a_late_completion_of_an_outdated_claim,
    case_q4_work_after_its_deadline,
    case_q5_a_claim_that_is_extended_is_not_lost,
    a_host_refuses_in_a_word_of_its_own,
    a_terminal_command_is_immutable,
    a_claim_may_lose_a_race_on_purpose,
    a_command_that_crashes_its_hosts_is_handed_out_so_often_and_no_more,
);

async fn resident(world: &World) -> (SessionId, LeaseRef) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    (session, world.lease(&host, session).await)
}

const FIRST: CommandSeq = CommandSeq(1);

async fn adm_p5_a_command_is_claimed_begun_and_completed(world: World) {
    let (session, lease) = resident(&world).await;
    assert_eq!(world.view(session, FIRST).await.0, CallerState::Admitted);
    let claimed = world.claim(&lease, FIRST).await.expect("claimed");
    assert_eq!((claimed.deliveries, claimed.claim.as_ref().map(|claim| claim.epoch)), (1, Some(lease.epoch)));
    assert_eq!(world.view(session, FIRST).await.0, CallerState::Claimed);
    world.begin(&lease, FIRST).await.expect("begun");
    world.begin(&lease, FIRST).await.expect("again is the same");
    assert_eq!(world.view(session, FIRST).await.0, CallerState::Applying);
    let ended = world.complete(&lease, FIRST).await.expect("completed");
    assert_eq!(world.view(session, FIRST).await, (CallerState::Applied, Some("applied".into())));
    let outcome = ended.outcome.as_ref().expect("an outcome");
    assert_eq!((outcome.by.as_str(), outcome.at, outcome.late), ("eu-1", world.clock.time(), false));
    assert_eq!(world.due().await, 0, "it left the due view");
    let steps = world.store.read_journal(arena(), session, FIRST, 10).await.expect("a journal");
    assert_eq!(
        steps.iter().map(|entry| entry.step).collect::<Vec<_>>(),
        [JournalStep::Begin, JournalStep::FinishApplied]
    );
    let counts = world.counters.counts();
    assert_eq!((counts.claims, counts.begun, counts.applied, counts.late, counts.redeliveries), (1, 2, 1, 0, 0));
}

async fn adm_p5_claim_and_begin_are_refused_from_the_deadline_on(world: World) {
    let (session, lease) = resident(&world).await;
    let second = world.input(session, "i").await;
    let deadline = second.deadline;
    world.clock.set(Timestamp(deadline.0 - 1));
    world.claim(&lease, FIRST).await.expect("one millisecond before");
    world.clock.set(deadline);
    let late = Some(Refusal::Late { deadline });
    assert_eq!(world.claim(&lease, second.seq).await.expect_err("late").refusal(), late);
    assert_eq!(world.claim(&lease, FIRST).await.expect_err("no extension either").refusal(), late);
    assert_eq!(world.begin(&lease, FIRST).await.expect_err("late").refusal(), late);
    // Also when the journal has its beginning already: both writes compare.
    let third = InputRequest { apply_within: Some(SECOND), ..input(session, "j") };
    let (third, _) = world.service().admit_input(&alice(), third).await.expect("admitted");
    world.claim(&lease, third.seq).await.expect("claimed");
    let request = BeginCommandRequest { lease, seq: third.seq };
    world.store.journal_begin(request.clone()).await.expect("in time");
    world.clock.advance(SECOND);
    let refused = world.store.begin_applying(request).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::Late { deadline: third.deadline })));
}

async fn adm_p5_a_late_completion_is_accepted_and_marked(world: World) {
    let (session, lease) = resident(&world).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.begin(&lease, FIRST).await.expect("begun in time");
    // Long after the deadline, and after the lease too: nobody wrote a newer fence.
    world.clock.advance(DEADLINE + TTL * 2);
    let fates = world.sweep_all(&world.sweeper("a")).await;
    assert_eq!(fates, [(Disposition::Applying, 1)].into(), "the sweep leaves it alone");
    let ended = world.complete(&lease, FIRST).await.expect("accepted");
    assert!(ended.outcome.as_ref().is_some_and(|outcome| outcome.late));
    assert_eq!(world.view(session, FIRST).await.0, CallerState::Applied);
    assert_eq!(world.counters.counts().late, 1);
}

async fn adm_p5_a_claim_never_outlives_the_deadline(world: World) {
    let (_, lease) = resident(&world).await;
    let claimed = world.claim(&lease, FIRST).await.expect("claimed");
    assert!(TTL > DEADLINE);
    assert_eq!(claimed.claim.as_ref().map(|claim| claim.until), Some(claimed.deadline));
}

async fn adm_p5_the_journal_comes_first(world: World) {
    let (session, lease) = resident(&world).await;
    let begin = BeginCommandRequest { lease: lease.clone(), seq: FIRST };
    let finish = CompleteCommandRequest { lease: lease.clone(), seq: FIRST, completion: Completion::Applied };
    let refused = |refusal| Err(StoreError::Refused(refusal));
    assert_eq!(world.store.journal_begin(begin.clone()).await.map(drop), refused(Refusal::ClaimLost));
    world.claim(&lease, FIRST).await.expect("claimed");
    assert_eq!(world.store.begin_applying(begin.clone()).await.map(drop), refused(Refusal::NotBegun));
    assert_eq!(world.store.journal_finish(finish.clone()).await.map(drop), refused(Refusal::NotBegun));
    world.store.journal_begin(begin.clone()).await.expect("journaled");
    assert_eq!(world.store.journal_finish(finish.clone()).await.map(drop), refused(Refusal::NotBegun));
    world.store.begin_applying(begin).await.expect("begun");
    assert_eq!(world.store.complete_command(finish.clone()).await.map(drop), refused(Refusal::NotBegun));
    world.store.journal_finish(finish.clone()).await.expect("journaled");
    assert_eq!(world.view(session, FIRST).await.0, CallerState::Applying);
    world.store.complete_command(finish).await.expect("completed");
}

/// A host crashed while it applied: its command is offered to whoever fences it, and to nobody else.
async fn adm_p5_redelivery_goes_to_the_next_lease_holder_only(world: World) {
    let (session, old) = resident(&world).await;
    let long = InputRequest { apply_within: Some(TTL * 10), ..input(session, "long") };
    let (long, _) = world.service().admit_input(&alice(), long).await.expect("admitted");
    world.claim(&old, long.seq).await.expect("claimed");
    world.begin(&old, long.seq).await.expect("begun");
    let other = world.host("eu-2").await;
    let without = LeaseRef { host: other.clone(), ..old.clone() };
    assert_eq!(code(world.claim(&without, long.seq).await), ErrorCode::LeaseLost);
    world.clock.advance(TTL);
    assert_eq!(code(world.claim(&old, long.seq).await), ErrorCode::LeaseLost, "lapsed, though unfenced");
    world.host("eu-2").await;
    let new = world.lease(&other, session).await;
    let work = world.hosts().work(&credential(), &other, Duration::ZERO).await.expect("work");
    let is_offered = |task: &Task| matches!(task, Task::Deliver(entry) if entry.seq == long.seq);
    assert!(work[0].tasks.iter().any(is_offered), "{work:?}");
    let again = world.claim(&new, long.seq).await.expect("claimed by the next holder");
    assert_eq!((again.deliveries, again.applying), (2, None));
    world.begin(&new, long.seq).await.expect("begun again");
    world.complete(&new, long.seq).await.expect("completed");
    assert_eq!(code(world.complete(&old, long.seq).await), ErrorCode::LeaseLost);
    assert_eq!(world.counters.counts().redeliveries, 1);
}

/// The host died between the journal and the command's row: the journal says that it was done.
async fn adm_p5_what_was_finished_is_never_handed_out_again(world: World) {
    let (session, old) = resident(&world).await;
    world.claim(&old, FIRST).await.expect("claimed");
    world.begin(&old, FIRST).await.expect("begun");
    let finish = CompleteCommandRequest { lease: old.clone(), seq: FIRST, completion: Completion::Applied };
    world.store.journal_finish(finish).await.expect("journaled");
    // The same host, restarted.
    let new = world.lease(&old.host, session).await;
    let work = world.hosts().work(&credential(), &old.host, Duration::ZERO).await.expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Settle(entry)] if entry.seq == FIRST), "{work:?}");
    let settled = world.claim(&new, FIRST).await.expect("settled instead");
    assert_eq!(settled.state, CommandState::Applied);
    assert_eq!(world.view(session, FIRST).await, (CallerState::Applied, Some("applied".into())));
}

async fn case_q3_a_late_completion_of_an_outdated_claim(world: World) {
    let session = world.session("k").await;
    let (one, two) = (world.host("eu-1").await, world.host("eu-2").await);
    let long = InputRequest { apply_within: Some(TTL * 10), ..input(session, "long") };
    let (long, _) = world.service().admit_input(&alice(), long).await.expect("admitted");
    let first = world.lease(&one, session).await;
    world.claim(&first, long.seq).await.expect("claimed");
    // The claim lapsed and nobody claimed again: begin is refused, for the claim is what allows it.
    world.clock.advance(TTL - SECOND);
    world.hosts().renew_lease(&credential(), first.clone(), Some(TTL)).await.expect("the lease goes on");
    world.clock.advance(SECOND);
    assert_eq!(code(world.begin(&first, long.seq).await), ErrorCode::ClaimLost);
    assert_eq!(world.view(session, long.seq).await.0, CallerState::Admitted, "a lapsed claim shows as none");
    world.clock.advance(TTL);
    world.host("eu-2").await;
    let second = world.lease(&two, session).await;
    world.claim(&second, long.seq).await.expect("claimed");
    assert_eq!(code(world.complete(&first, long.seq).await), ErrorCode::LeaseLost);
    world.begin(&second, long.seq).await.expect("untouched");
    world.complete(&second, long.seq).await.expect("completed");
    world.complete(&second, long.seq).await.expect("twice is once");
    let foreign = host_principal("host:us", &["arena"]);
    let refused = world.hosts().complete(&foreign, second, long.seq, Completion::Applied).await;
    assert_eq!(code(refused), ErrorCode::UnknownHost);
}

async fn case_q4_work_after_its_deadline(world: World) {
    let (session, lease) = resident(&world).await;
    // Claimed just before, never begun: not handed out any more, and expired as what may have run.
    let deadline = world.read(session, FIRST).await.deadline;
    world.clock.set(Timestamp(deadline.0 - 1));
    world.claim(&lease, FIRST).await.expect("claimed");
    world.clock.set(deadline);
    assert_eq!(world.hosts().work(&credential(), &lease.host, Duration::ZERO).await, Ok(Vec::new()));
    assert_eq!(world.sweep_all(&world.sweeper("a")).await, [(Disposition::Rejected, 1)].into());
    assert_eq!(world.view(session, FIRST).await, (CallerState::Expired, Some("claimed_not_applied".into())));
    assert_eq!(code(world.begin(&lease, FIRST).await), ErrorCode::AlreadySettled);
    assert_eq!(code(world.complete(&lease, FIRST).await), ErrorCode::AlreadySettled);
}

async fn case_q5_a_claim_that_is_extended_is_not_lost(world: World) {
    let (session, lease) = resident(&world).await;
    let long = InputRequest { apply_within: Some(TTL * 100), ..input(session, "long") };
    let (long, _) = world.service().admit_input(&alice(), long).await.expect("admitted");
    world.claim(&lease, long.seq).await.expect("claimed");
    for _ in 0..20 {
        world.clock.advance(TTL / 2);
        world.host("eu-1").await;
        world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("renewed");
        let extended = world.claim(&lease, long.seq).await.expect("extended");
        assert_eq!((extended.deliveries, world.view(session, long.seq).await.0), (1, CallerState::Claimed));
        let work = world.hosts().work(&credential(), &lease.host, Duration::ZERO).await.expect("work");
        assert!(!format!("{work:?}").contains("Deliver"), "not handed out while it is extended");
    }
    world.clock.advance(TTL - SECOND);
    world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("renewed");
    world.clock.advance(SECOND);
    let work = world.hosts().work(&credential(), &lease.host, Duration::ZERO).await.expect("work");
    assert!(
        matches!(&work[0].tasks[..], [Task::Deliver(entry)] if entry.seq == long.seq),
        "once after the last extension"
    );
}

async fn a_host_refuses_in_a_word_of_its_own(world: World) {
    let (session, lease) = resident(&world).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.begin(&lease, FIRST).await.expect("begun");
    let completion = Completion::Rejected(OutcomeCode::new("map_missing").unwrap());
    world.hosts().complete(&credential(), lease.clone(), FIRST, completion.clone()).await.expect("completed");
    assert_eq!(world.view(session, FIRST).await, (CallerState::Rejected, Some("map_missing".into())));
    world.hosts().complete(&credential(), lease.clone(), FIRST, completion).await.expect("again is the same");
    assert_eq!(code(world.complete(&lease, FIRST).await), ErrorCode::AlreadySettled, "but not something else");
    assert_eq!(world.counters.counts().rejected_by_hosts, 2);
}

async fn a_terminal_command_is_immutable(world: World) {
    let (session, lease) = resident(&world).await;
    world.clock.advance(DEADLINE);
    world.sweep_all(&world.sweeper("a")).await;
    let ended = world.read(session, FIRST).await;
    assert_eq!(ended.outcome.as_ref().map(|outcome| outcome.code.as_str()), Some("never_claimed"));
    let refused = [
        code(world.claim(&lease, FIRST).await),
        code(world.begin(&lease, FIRST).await),
        code(world.complete(&lease, FIRST).await),
    ];
    assert_eq!(refused, [ErrorCode::AlreadySettled; 3]);
    assert_eq!(world.settle(&lease, FIRST).await, Ok(ended.clone()), "settling what has ended tells how");
    world.sweep_all(&world.sweeper("b")).await;
    assert_eq!(world.read(session, FIRST).await, ended);
}

async fn a_claim_may_lose_a_race_on_purpose(world: World) {
    let (_, lease) = resident(&world).await;
    let seen = world.claim(&lease, FIRST).await.expect("claimed").revision;
    let hosts = world.hosts();
    let moved =
        hosts.claim(&credential(), lease.clone(), FIRST, Some(TTL), Some(seen)).await.expect("as seen").revision;
    for wrong in [seen, Revision(0), Revision(moved.0 + 1)] {
        let error = hosts.claim(&credential(), lease.clone(), FIRST, Some(TTL), Some(wrong)).await.expect_err("moved");
        assert_eq!(error.refusal(), Some(Refusal::RevisionMoved { current: moved }), "case L5");
    }
}

/// Each lease that begins it lapses. What lies behind it is served, and it ends at its deadline as what may have run.
async fn a_command_that_crashes_its_hosts_is_handed_out_so_often_and_no_more(world: World) {
    let limit = 3;
    let world = world.with(Settings { deliveries_max: limit, ..small() }).expect("as the first");
    let (session, lease) = resident(&world).await;
    world.claim(&lease, FIRST).await.expect("claimed");
    world.begin(&lease, FIRST).await.expect("begun");
    world.complete(&lease, FIRST).await.expect("completed");
    let long = |key| InputRequest { apply_within: Some(TTL * 100), ..input(session, key) };
    let (poison, _) = world.service().admit_input(&alice(), long("poison")).await.expect("admitted");
    let (other, _) = world.service().admit_input(&alice(), long("other")).await.expect("admitted");
    for delivery in 1..=limit {
        world.clock.advance(TTL);
        let host = world.host("eu-1").await;
        let lease = world.lease(&host, session).await;
        assert_eq!(world.claim(&lease, poison.seq).await.expect("handed out").deliveries, delivery);
        world.claim(&lease, poison.seq).await.expect("extended: the same delivery");
        world.begin(&lease, poison.seq).await.expect("begun, and then it crashes");
    }
    world.clock.advance(TTL);
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Deliver(entry)] if entry.seq == other.seq), "{work:?}");
    let refused = world.claim(&lease, poison.seq).await.expect_err("no more");
    assert_eq!((refused.code, refused.refusal()), (ErrorCode::NotReady, Some(Refusal::DeliveredTooOften { limit })));
    world.claim(&lease, other.seq).await.expect("claimed");
    assert_eq!(world.settle(&lease, poison.seq).await.expect_err("in time").refusal(), Some(Refusal::NotSettleable));
    assert_eq!(
        world.view(session, poison.seq).await.0,
        CallerState::Applying,
        "it may have run: nothing ends it early"
    );

    world.clock.set(poison.deadline);
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.settle(&lease, poison.seq).await.expect("settled");
    assert_eq!(world.view(session, poison.seq).await, (CallerState::Expired, Some("claimed_not_applied".into())));
}
