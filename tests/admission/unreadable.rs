//! Rows that can't be read, and states of a newer build (rules P6, P9). Databases only: they are damaged past the store.

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

database_contract!(
    adm_p9_a_row_that_cannot_be_read_is_counted,
    adm_p6_a_state_of_a_newer_build_is_left_alone,
    adm_p9_a_legacy_state_that_nobody_knows_is_unreadable,
    adm_p9_a_broken_session_row_is_counted_at_the_settlement,
    adm_p6_a_live_claim_of_an_older_deployment_is_left_alone,
    case_r4_a_crashed_sweeps_claim_is_taken_over,
    adm_p9_placement_goes_past_what_cannot_be_read,
    adm_p9_hosts_that_cannot_be_read_are_passed_over,
    adm_p9_an_inbox_goes_on_behind_a_command_that_cannot_be_read,
    adm_p9_what_cannot_be_forgotten_is_put_off,
    adm_p8_a_claim_that_cannot_be_read_holds_up_nothing,
);

async fn due(world: &World, count: usize) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for n in 0..count {
        sessions.push(world.session(&format!("k{n}")).await);
    }
    world.clock.advance(DEADLINE);
    sessions
}

async fn totals(world: &World) -> SweepResult {
    let sweeper = world.sweeper("a");
    let mut sum = SweepResult::default();
    for _ in 0..DispositionDue::control_shards(&world.store) {
        let result = sweeper.sweep(&operator()).await.expect("a sweep");
        sum.examined += result.examined;
        sum.unreadable += result.unreadable;
        sum.due += result.due;
        sum.rejected += result.rejected;
        result.dispositions.into_iter().for_each(|(fate, n)| *sum.dispositions.entry(fate).or_default() += n);
    }
    sum
}

/// The sweep's write, of which the store decides.
async fn reject(world: &World, session: SessionId, revision: Revision) -> Result<(), StoreError> {
    let by = name("service:sweep");
    let request = RejectDispositionCommandRequest { tenant: arena(), session, seq: CommandSeq(1), revision, by };
    world.store.reject_disposition_command(request).await.map(drop)
}

async fn adm_p9_a_row_that_cannot_be_read_is_counted(world: World) {
    due(&world, 6).await;
    world.execute("UPDATE command SET revision = -1 WHERE request_key = 'k2'");
    let swept = totals(&world).await;
    assert_eq!((swept.examined, swept.unreadable, swept.due, swept.rejected), (6, 1, 5, 5));
    let again = totals(&world).await;
    assert_eq!((again.examined, again.unreadable, again.rejected), (1, 1, 0), "never guessed, never forgotten");
}

async fn adm_p6_a_state_of_a_newer_build_is_left_alone(world: World) {
    let sessions = due(&world, 3).await;
    world.execute("UPDATE command SET state = 'suspended' WHERE request_key = 'k1'");
    let swept = totals(&world).await;
    assert_eq!((swept.due, swept.rejected, swept.unreadable), (3, 2, 0));
    assert_eq!(swept.dispositions[&Disposition::Unrecognized], 1);
    // Nobody else touches it either.
    let read = world.read(sessions[1], CommandSeq(1)).await;
    assert_eq!(read.state, CommandState::Unrecognized("suspended".into()));
    let refused = reject(&world, sessions[1], read.revision).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::Unrecognized)));
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, sessions[1]).await;
    let unrecognized = Some(Refusal::Unrecognized);
    assert_eq!(world.claim(&lease, CommandSeq(1)).await.expect_err("not ours").refusal(), unrecognized);
    assert_eq!(world.settle(&lease, CommandSeq(1)).await.expect_err("not ours").refusal(), unrecognized);
}

async fn adm_p9_a_legacy_state_that_nobody_knows_is_unreadable(world: World) {
    due(&world, 2).await;
    world.execute("UPDATE command SET family = 'legacy'");
    world.execute("UPDATE command SET state = 'suspended' WHERE request_key = 'k1'");
    let legacy = Reconciler::new(world.legacy_config("a")).expect("valid");
    let (mut unreadable, mut rejected) = (0, 0);
    for _ in 0..DueCommands::control_shards(&world.store) {
        let result = legacy.sweep(&operator()).await.expect("a sweep");
        assert!(!result.dispositions.contains_key(&Disposition::Unrecognized), "only the disposition sweep has this");
        unreadable += result.unreadable;
        rejected += result.rejected;
    }
    assert_eq!((unreadable, rejected), (1, 1));
}

async fn adm_p9_a_broken_session_row_is_counted_at_the_settlement(world: World) {
    due(&world, 3).await;
    world.execute("UPDATE session SET mode = 'quantum' WHERE placement_due IS NOT NULL AND created_by = 'user:alice'");
    let swept = totals(&world).await;
    assert_eq!((swept.examined, swept.due, swept.rejected, swept.unreadable), (3, 3, 0, 3));
}

/// Rule P5 cuts claims at the deadline, but an older deployment's rows may have longer ones.
async fn adm_p6_a_live_claim_of_an_older_deployment_is_left_alone(world: World) {
    let sessions = due(&world, 1).await;
    let until = world.clock.time().plus(TTL).0;
    world.execute(&format!(
        "UPDATE command SET state = 'claimed', claim_host = 'old', claim_epoch = 1, claim_until = {until}, deliveries = 1"
    ));
    assert_eq!(totals(&world).await.dispositions, [(Disposition::ClaimLive, 1)].into());
    // A sweep that read the row before it was claimed asks the store all the same.
    let refused = reject(&world, sessions[0], Revision(1)).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::ClaimLive)));
    world.clock.advance(TTL);
    assert_eq!(totals(&world).await.rejected, 1);
    assert_eq!(world.view(sessions[0], CommandSeq(1)).await.1.as_deref(), Some("claimed_not_applied"));
}

async fn case_r4_a_crashed_sweeps_claim_is_taken_over(world: World) {
    due(&world, 1).await;
    let until = world.clock.time().plus(SECOND).0;
    world.execute(&format!("INSERT INTO reconciliation_claim SELECT tenant, session, 'crashed', {until} FROM session"));
    assert_eq!(totals(&world).await.dispositions, [(Disposition::Deferred, 1)].into());
    world.clock.advance(SECOND);
    assert_eq!(totals(&world).await.rejected, 1);
    let claim =
        AcquireReconciliationClaimRequest { tenant: arena(), session: SessionId(1), holder: "b".into(), ttl: SECOND };
    world.store.acquire_reconciliation_claim(claim).await.expect("nobody else's is left");
}

/// Damages the row of the session whose create has this key.
fn damage(world: &World, column: &str, value: &str, key: &str) {
    world.execute(&format!(
        "UPDATE session SET {column} = {value} WHERE session = (SELECT session FROM command WHERE request_key = '{key}')"
    ));
}

async fn sessions_with_work(world: &World, host: &HostId) -> Vec<SessionId> {
    let work = world.hosts().work(&credential(), host, Duration::ZERO).await.expect("work");
    work.iter().map(|work| work.session.session).collect()
}

/// Also when as many as one step looks at stand in front.
async fn adm_p9_placement_goes_past_what_cannot_be_read(world: World) {
    let mut sessions = Vec::new();
    for n in 0..4 {
        sessions.push(world.session(&format!("k{n}")).await);
        world.clock.advance(Duration::from_millis(1));
    }
    let host = world.host("eu-1").await;
    damage(&world, "mode", "'quantum'", "k0");
    damage(&world, "epoch", "-1", "k1");
    for _ in 0..2 {
        assert_eq!(world.store.place_due(1).await, Ok(1));
    }
    assert_eq!(sessions_with_work(&world, &host).await, sessions[2..]);
    damage(&world, "epoch", "-1", "k2");
    assert_eq!(sessions_with_work(&world, &host).await, sessions[3..], "one of a host's sessions hides no other");
    world.upkeep(std::sync::Arc::default()).step().await;
    let counts = world.counters.counts();
    assert!(counts.unreadable >= 3 && counts.failed_sweeps == 0, "{counts:?}");
}

async fn adm_p9_hosts_that_cannot_be_read_are_passed_over(world: World) {
    let session = world.session("k").await;
    let (one, two) = (world.host("eu-1").await, world.host("eu-2").await);
    world.store.place_due(1).await.expect("placement");
    assert_eq!(sessions_with_work(&world, &one).await, [session]);
    world.execute("UPDATE host SET capacity = -1 WHERE host = 'eu-1'");
    let page = ListCompatibleHostsRequest { key: key(), after: None, limit: 1 };
    let first = world.store.candidates(page.clone()).await.expect("a page");
    assert_eq!((first.hosts.len(), &first.next), (0, &Some(one)), "the list goes on behind it");
    let second =
        world.store.candidates(ListCompatibleHostsRequest { after: first.next, ..page }).await.expect("a page");
    assert_eq!(second.hosts[0].host, two);
    world.clock.advance(world.store.settings().placement_grace);
    world.store.place_due(1).await.expect("placement");
    assert_eq!(sessions_with_work(&world, &two).await, [session]);
}

async fn adm_p9_an_inbox_goes_on_behind_a_command_that_cannot_be_read(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let broken = world.input(session, "broken").await.seq;
    let behind = world.input(session, "behind").await.seq;
    world.execute("UPDATE command SET deliveries = -1 WHERE request_key = 'broken'");
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    let offered = |task: &Task| if let Task::Deliver(entry) = task { entry.seq } else { panic!("{task:?}") };
    assert_eq!(work[0].tasks.iter().map(offered).collect::<Vec<_>>(), [CommandSeq(1), behind]);
    for seq in [CommandSeq(1), behind] {
        world.claim(&lease, seq).await.expect("claimed");
        world.begin(&lease, seq).await.expect("begun");
        world.complete(&lease, seq).await.expect("completed, whatever lies before it");
    }
    world.execute("UPDATE command SET deliveries = 0 WHERE request_key = 'broken'");
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    assert_eq!(work[0].tasks.iter().map(offered).collect::<Vec<_>>(), [broken], "never taken for one that ended");
}

async fn adm_p9_what_cannot_be_forgotten_is_put_off(world: World) {
    let host = world.host("eu-1").await;
    let mut sessions = Vec::new();
    for key in ["broken", "sound"] {
        let session = world.session(key).await;
        let lease = world.lease(&host, session).await;
        world.claim(&lease, CommandSeq(1)).await.expect("claimed");
        world.begin(&lease, CommandSeq(1)).await.expect("begun");
        world.complete(&lease, CommandSeq(1)).await.expect("completed");
        world.hosts().release_lease(&credential(), lease, true).await.expect("closed");
        world.clock.advance(Duration::from_millis(1));
        sessions.push(session);
    }
    world.execute("UPDATE command SET revision = -1 WHERE request_key = 'broken'");
    let kept = world.store.settings().closed_for;
    world.clock.advance(kept);
    for _ in 0..2 {
        assert_eq!(world.store.forget_due(1).await, Ok(1));
    }
    let known = |session| world.store.get_catalog_entry(GetCatalogEntryRequest { tenant: arena(), session });
    assert!(known(sessions[0]).await.is_ok() && known(sessions[1]).await.is_err());
    world.execute("UPDATE command SET revision = 1 WHERE request_key = 'broken'");
    world.clock.advance(kept);
    world.store.forget_due(1).await.expect("a step");
    assert!(known(sessions[0]).await.is_err(), "once it can be read");
}

/// A claim is never a fence: what it says, or does not, decides nothing.
async fn adm_p8_a_claim_that_cannot_be_read_holds_up_nothing(world: World) {
    due(&world, 3).await;
    world.execute(
        "INSERT INTO reconciliation_claim SELECT tenant, session, 'somebody', -1 FROM command WHERE request_key = 'k1'",
    );
    let swept = totals(&world).await;
    assert_eq!((swept.rejected, swept.unreadable), (3, 1));
}
