//! How a sweep goes on (rules P6 to P8).

use crate::support::*;
use rendezvous::admission::*;
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

contract!(
    adm_p7_shards_are_visited_in_turn,
    adm_p7_a_pass_is_bounded_and_says_so,
    adm_p7_a_truncated_pass_is_resumed_and_the_end_re_arms,
    adm_p7_the_bound_of_a_pass_is_fixed,
    adm_p7_rows_that_may_not_be_rejected_starve_nobody,
    adm_p7_a_restart_loses_only_time,
    adm_p7_the_counters_add_up,
    adm_p7_a_failed_release_is_swallowed_and_counted,
    adm_p7_a_failure_keeps_the_place,
    adm_p7_bounds_are_checked,
    adm_p8_two_sweeps_need_no_claims,
    adm_p8_a_claim_defers_and_fences_nothing,
    adm_p8_a_lapsed_claim_is_taken_over,
    adm_p6_a_row_that_moves_under_the_sweep,
    case_r5_the_due_view_shrinks_to_nothing,
);

/// One shard, so that a test knows where its rows are.
fn one_shard() -> Settings {
    Settings { control_shards: 1, ..small() }
}

/// A world like this one with a single shard.
fn single(world: &World) -> Option<World> {
    world.with(one_shard())
}

/// `count` sessions with one command each, all due at the same instant, in the order of their ids.
async fn sessions(world: &World, count: usize, prefix: &str) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for n in 0..count {
        sessions.push(world.session(&format!("{prefix}{n}")).await);
    }
    sessions
}

/// Makes the sessions' first commands such that no sweep may reject them.
async fn begin_all(world: &World, sessions: &[SessionId]) {
    let host = world.host("eu-1").await;
    for session in sessions {
        let lease = world.lease(&host, *session).await;
        world.claim(&lease, CommandSeq(1)).await.expect("claimed");
        world.begin(&lease, CommandSeq(1)).await.expect("begun");
    }
}

async fn adm_p7_shards_are_visited_in_turn(world: World) {
    let sweeper = world.sweeper("a");
    let legacy = Reconciler::new(world.legacy_config("a")).expect("valid");
    let mut visited = Vec::new();
    for _ in 0..6 {
        visited.push(sweeper.sweep(&operator()).await.expect("a sweep").shard);
        assert_eq!(legacy.sweep(&operator()).await.expect("a sweep").shard, *visited.last().unwrap());
    }
    assert_eq!(visited, [0, 1, 2, 3, 0, 1], "as many as the store says, not as a configuration does");
    // Every session is in exactly one of them.
    let sessions = sessions(&world, 20, "k").await;
    world.clock.advance(DEADLINE);
    let mut rejected = 0;
    for _ in 0..4 {
        rejected += sweeper.sweep(&operator()).await.expect("a sweep").rejected;
    }
    assert_eq!(rejected, sessions.len());
}

async fn adm_p7_a_pass_is_bounded_and_says_so(world: World) {
    let Some(world) = single(&world) else { return };
    sessions(&world, 13, "k").await;
    world.clock.advance(DEADLINE);
    let sweeper = world.sweeper("a");
    let first = sweeper.sweep(&operator()).await.expect("a sweep");
    assert_eq!((first.pages, first.examined, first.rejected, first.truncated), (3, 12, 12, true));
    let second = sweeper.sweep(&operator()).await.expect("a sweep");
    assert_eq!((second.pages, second.rejected, second.truncated, second.resumed), (1, 1, false, true));
}

async fn adm_p7_a_truncated_pass_is_resumed_and_the_end_re_arms(world: World) {
    let Some(world) = single(&world) else { return };
    let stuck = sessions(&world, 14, "stuck").await;
    begin_all(&world, &stuck).await;
    world.clock.advance(DEADLINE);
    let sweeper = world.sweeper("a");
    let pass = async || {
        let result = sweeper.sweep(&operator()).await.expect("a sweep");
        (result.examined, result.truncated, result.resumed)
    };
    assert_eq!(pass().await, (12, true, false));
    assert_eq!(pass().await, (2, false, true), "goes on where it stopped");
    assert_eq!(pass().await, (12, true, false), "and then at the head, afresh");
    assert_eq!(pass().await, (2, false, true));
}

/// New rows that become due while a pass is on the way belong to the next one, so a pass ends.
async fn adm_p7_the_bound_of_a_pass_is_fixed(world: World) {
    let Some(world) = single(&world) else { return };
    let stuck = sessions(&world, 13, "stuck").await;
    begin_all(&world, &stuck).await;
    world.clock.advance(SECOND);
    sessions(&world, 3, "later").await;
    world.clock.advance(DEADLINE - SECOND);
    let sweeper = world.sweeper("a");
    assert!(sweeper.sweep(&operator()).await.expect("a sweep").truncated);
    world.clock.advance(SECOND);
    let second = sweeper.sweep(&operator()).await.expect("a sweep");
    assert_eq!((second.examined, second.rejected, second.truncated), (1, 0, false), "the old bound");
    let third = sweeper.sweep(&operator()).await.expect("a sweep");
    let fourth = sweeper.sweep(&operator()).await.expect("a sweep");
    assert_eq!((third.resumed, third.rejected + fourth.rejected), (false, 3), "the fresh bound");
}

/// What the sweep may not reject gathers at the head; what lies behind it is settled all the same.
async fn adm_p7_rows_that_may_not_be_rejected_starve_nobody(world: World) {
    let Some(world) = single(&world) else { return };
    let stuck = sessions(&world, 30, "stuck").await;
    begin_all(&world, &stuck).await;
    world.clock.advance(SECOND);
    let free = sessions(&world, 5, "free").await;
    world.clock.advance(DEADLINE);
    let sweeper = world.sweeper("a");
    let mut rejected = 0;
    // 35 rows, 12 a pass.
    for _ in 0..3 {
        rejected += sweeper.sweep(&operator()).await.expect("a sweep").rejected;
    }
    assert_eq!(rejected, free.len());
}

async fn adm_p7_a_restart_loses_only_time(world: World) {
    let Some(world) = single(&world) else { return };
    let stuck = sessions(&world, 14, "stuck").await;
    begin_all(&world, &stuck).await;
    world.clock.advance(SECOND);
    sessions(&world, 2, "free").await;
    world.clock.advance(DEADLINE);
    assert!(world.sweeper("a").sweep(&operator()).await.expect("a sweep").truncated);
    let restarted = world.sweeper("a");
    let first = restarted.sweep(&operator()).await.expect("a sweep");
    assert_eq!((first.shard, first.resumed, first.examined), (0, false, 12));
    assert_eq!(restarted.sweep(&operator()).await.expect("a sweep").rejected, 2);
}

async fn adm_p7_the_counters_add_up(world: World) {
    let Some(world) = single(&world) else { return };
    let session = world.session("one").await;
    world.input(session, "i").await;
    let stuck = sessions(&world, 1, "stuck").await;
    begin_all(&world, &stuck).await;
    world.clock.advance(DEADLINE);
    let result = world.sweeper("a").sweep(&operator()).await.expect("a sweep");
    let expected = SweepResult {
        shard: 0,
        pages: 1,
        examined: 3,
        unreadable: 0,
        due: 3,
        rejected: 2,
        claimed: 1,
        released: 1,
        dispositions: [(Disposition::Rejected, 2), (Disposition::Applying, 1)].into(),
        // One page, one claim for both commands of the session, two settlements, one release.
        queries: 5,
        release_failures: 0,
        truncated: false,
        resumed: false,
    };
    assert_eq!(result, expected);
    world.counters.counts();
    let idle = world.sweeper("b").sweep(&operator()).await.expect("a sweep");
    assert_eq!((idle.queries, idle.due, idle.dispositions.get(&Disposition::Applying)), (1, 1, Some(&1)));
}

/// Claims as somebody wants them.
struct Claimed {
    inner: Store,
    always: bool,
    release_fails: bool,
    acquired: AtomicUsize,
}

impl Claimed {
    fn of(world: &World, always: bool, release_fails: bool) -> Arc<Self> {
        Arc::new(Self { inner: world.store.clone(), always, release_fails, acquired: AtomicUsize::new(0) })
    }
}

impl Claims for Claimed {
    fn acquire_reconciliation_claim(
        &self,
        request: AcquireReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        self.acquired.fetch_add(1, Ordering::Relaxed);
        if self.always {
            let entry = ReconciliationClaimEntry { holder: request.holder, until: Timestamp(0) };
            return Box::pin(ready(Ok(entry)));
        }
        self.inner.acquire_reconciliation_claim(request)
    }

    fn release_reconciliation_claim(
        &self,
        request: ReleaseReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        if self.release_fails {
            return Box::pin(ready(Err(Unavailable::outcome_unknown("the reply was lost").into())));
        }
        if self.always {
            let entry = ReconciliationClaimEntry { holder: request.holder, until: Timestamp(0) };
            return Box::pin(ready(Ok(entry)));
        }
        self.inner.release_reconciliation_claim(request)
    }
}

async fn adm_p7_a_failed_release_is_swallowed_and_counted(world: World) {
    let Some(world) = single(&world) else { return };
    world.session("k").await;
    world.clock.advance(DEADLINE);
    let config = DispositionReconcilerConfig { claims: Claimed::of(&world, false, true), ..world.sweep_config("a") };
    let result = DispositionReconciler::new(config).expect("valid").sweep(&operator()).await.expect("a sweep");
    assert_eq!((result.rejected, result.claimed, result.released, result.release_failures), (1, 1, 0, 1));
    assert_eq!(result.queries, 4, "a release that failed was asked all the same");
}

/// Fails the n-th settlement.
struct Fails {
    inner: Store,
    left: AtomicUsize,
}

impl DispositionSettlement for Fails {
    fn reject_disposition_command(
        &self,
        request: RejectDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Box::pin(ready(Err(Unavailable::nothing_happened("the disk is full").into())));
        }
        self.inner.reject_disposition_command(request)
    }
}

async fn adm_p7_a_failure_keeps_the_place(world: World) {
    let Some(world) = single(&world) else { return };
    sessions(&world, 9, "k").await;
    world.clock.advance(DEADLINE);
    // Two pages of four pass, the ninth settlement fails.
    let settlement = Arc::new(Fails { inner: world.store.clone(), left: AtomicUsize::new(9) });
    let config = DispositionReconcilerConfig { settlement, ..world.sweep_config("a") };
    let sweeper = DispositionReconciler::new(config).expect("valid");
    assert_eq!(code(sweeper.sweep(&operator()).await), ErrorCode::Unavailable);
    let next = sweeper.sweep(&operator()).await.expect("a sweep");
    assert_eq!(
        (next.resumed, next.examined, next.rejected),
        (true, 1, 1),
        "at the page that failed, which it had claimed"
    );
}

async fn adm_p7_bounds_are_checked(world: World) {
    let base = || world.sweep_config("a");
    let wrong = [
        ("holder_id", DispositionReconcilerConfig { holder_id: String::new(), ..base() }),
        ("claim_ttl", DispositionReconcilerConfig { claim_ttl: std::time::Duration::ZERO, ..base() }),
        ("page_limit", DispositionReconcilerConfig { page_limit: 0, ..base() }),
        ("max_pages", DispositionReconcilerConfig { max_pages: 0, ..base() }),
    ];
    for (field, config) in wrong {
        let error = DispositionReconciler::new(config).err().expect("refused");
        assert!(matches!(error.cause, Some(Cause::Field { field: named, .. }) if named == field), "{error}");
    }
    assert!(Reconciler::new(ReconcilerConfig { page_limit: 0, ..world.legacy_config("a") }).is_err());
}

/// Rule P8: with claims that never say no, two sweeps work on the same rows at once, and each row is settled once.
async fn adm_p8_two_sweeps_need_no_claims(world: World) {
    let Some(world) = single(&world) else { return };
    let count = 12;
    sessions(&world, count, "k").await;
    world.clock.advance(DEADLINE);
    let sweeper = |holder: &str| {
        let claims = Claimed::of(&world, true, false);
        let config = DispositionReconcilerConfig { claims, ..world.sweep_config(holder) };
        Arc::new(DispositionReconciler::new(config).expect("valid"))
    };
    let (one, two) = (sweeper("one"), sweeper("two"));
    let name = |text: &str| Principal::Service(ServicePrincipal { name: crate::support::name(text) });
    let (by_one, by_two) = (name("service:one"), name("service:two"));
    let (one, two) = tokio::join!(one.sweep(&by_one), two.sweep(&by_two));
    let (one, two) = (one.expect("a sweep"), two.expect("a sweep"));
    assert_eq!(one.rejected + two.rejected, count, "{one:?} {two:?}");
    let mut fates: BTreeMap<Disposition, usize> = one.dispositions;
    two.dispositions.into_iter().for_each(|(fate, n)| *fates.entry(fate).or_default() += n);
    let others = fates.iter().filter(|(fate, _)| **fate != Disposition::Rejected);
    assert!(others.clone().all(|(fate, _)| matches!(fate, Disposition::Terminal | Disposition::RaceLost)), "{fates:?}");
    let usage = world.service().session(&alice(), SessionId(0)).await;
    assert!(usage.is_err());
}

/// A claim makes another sweep step back, and stops no host and no sweep without claims.
async fn adm_p8_a_claim_defers_and_fences_nothing(world: World) {
    let Some(world) = single(&world) else { return };
    let session = world.session("k").await;
    let second = world.input(session, "i").await.seq;
    let claim = AcquireReconciliationClaimRequest { tenant: arena(), session, holder: "other".into(), ttl: TTL };
    world.store.acquire_reconciliation_claim(claim).await.expect("claimed");
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, second).await.expect("no fence for a host");
    world.begin(&lease, second).await.expect("no fence for a host");
    world.complete(&lease, second).await.expect("no fence for a host");
    world.clock.advance(DEADLINE);
    let result = world.sweeper("a").sweep(&operator()).await.expect("a sweep");
    assert_eq!((result.rejected, result.claimed, result.queries), (0, 0, 2));
    assert_eq!(result.dispositions, [(Disposition::Deferred, 1)].into());
    let claims = Claimed::of(&world, true, false);
    let config = DispositionReconcilerConfig { claims, ..world.sweep_config("without") };
    let result = DispositionReconciler::new(config).expect("valid").sweep(&operator()).await.expect("a sweep");
    assert_eq!(result.rejected, 1, "no fence for a sweep either");
}

async fn adm_p8_a_lapsed_claim_is_taken_over(world: World) {
    let session = world.session("k").await;
    let claim = |holder: &str| AcquireReconciliationClaimRequest {
        tenant: arena(),
        session,
        holder: holder.into(),
        ttl: SECOND * 5,
    };
    let release = |holder: &str| ReleaseReconciliationClaimRequest { tenant: arena(), session, holder: holder.into() };
    let held = Err(StoreError::Refused(Refusal::ReconciliationClaimHeld));
    world.store.acquire_reconciliation_claim(claim("a")).await.expect("claimed");
    world.clock.advance(SECOND * 4);
    world.store.acquire_reconciliation_claim(claim("a")).await.expect("extended by its holder");
    world.clock.advance(SECOND * 5 - std::time::Duration::from_millis(1));
    assert_eq!(world.store.acquire_reconciliation_claim(claim("b")).await, held);
    world.clock.advance(std::time::Duration::from_millis(1));
    world.store.acquire_reconciliation_claim(claim("b")).await.expect("taken over at its end");
    assert_eq!(world.store.release_reconciliation_claim(release("a")).await, held, "not the holder's any more");
    world.store.release_reconciliation_claim(release("b")).await.expect("released");
    world.store.acquire_reconciliation_claim(claim("c")).await.expect("free");
}

/// Lets a host complete a command between the page and the write.
struct Interferes {
    inner: Store,
    lease: LeaseRef,
}

impl DispositionSettlement for Interferes {
    fn reject_disposition_command(
        &self,
        request: RejectDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
        Box::pin(async move {
            let other = RejectDispositionCommandRequest { by: name("service:other"), ..request.clone() };
            if request.seq == CommandSeq(1) {
                self.inner.reject_disposition_command(other).await?;
            } else {
                // Bought time before the store's clock goes on: the row moves and is still open.
                self.inner
                    .settle_command(SettleCommandRequest { lease: self.lease.clone(), seq: request.seq })
                    .await
                    .expect_err("nothing to settle");
                let stale = RejectDispositionCommandRequest { revision: Revision(request.revision.0 + 5), ..request };
                return self.inner.reject_disposition_command(stale).await;
            }
            self.inner.reject_disposition_command(request).await
        })
    }
}

async fn adm_p6_a_row_that_moves_under_the_sweep(world: World) {
    let Some(world) = single(&world) else { return };
    let session = world.session("k").await;
    world.input(session, "i").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.clock.advance(DEADLINE);
    let settlement = Arc::new(Interferes { inner: world.store.clone(), lease });
    let config = DispositionReconcilerConfig { settlement, ..world.sweep_config("a") };
    let result = DispositionReconciler::new(config).expect("valid").sweep(&operator()).await.expect("a sweep");
    assert_eq!(result.dispositions, [(Disposition::Terminal, 1), (Disposition::RaceLost, 1)].into());
    assert_eq!(result.rejected, 0);
}

async fn case_r5_the_due_view_shrinks_to_nothing(world: World) {
    sessions(&world, 20, "k").await;
    assert_eq!(world.due().await, 20);
    world.clock.advance(DEADLINE);
    let sweeper = world.sweeper("a");
    for _ in 0..3 {
        world.sweep_all(&sweeper).await;
    }
    assert_eq!(world.due().await, 0);
}
