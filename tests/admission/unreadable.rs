//! Rows that can't be read, and states of a newer build (rules P6, P9). Databases only: they are damaged past the store.

use crate::support::*;
use rendezvous::admission::*;

database_contract!(
    adm_p9_a_row_that_cannot_be_read_is_counted,
    adm_p6_a_state_of_a_newer_build_is_left_alone,
    adm_p9_a_legacy_state_that_nobody_knows_is_unreadable,
    adm_p9_a_broken_session_row_is_counted_at_the_settlement,
    adm_p6_a_live_claim_of_an_older_deployment_is_left_alone,
    case_r4_a_crashed_sweeps_claim_is_taken_over,
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
