//! What runs by itself: sweeps, placement, forgetting, in every process that has the store open.

use super::counters::Counters;
use super::model::{Principal, ProtocolMode, Timestamp};
use super::store::Store;
use super::sweep::{DispositionReconciler, Reconciler, SweepBoard};
use super::traits::Clock;
use super::waits::Timer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Most sessions that one step of placement looks at; more wait for the next step.
const PLACED_PER_STEP: usize = 256;
/// Most sessions that one step forgets a part of.
const FORGOTTEN_PER_STEP: usize = 16;

/// What an [`Upkeep`] is made of.
pub struct UpkeepParts {
    /// The store whose sessions are placed.
    pub store: Store,
    /// The sweep of what is admitted today.
    pub disposition: DispositionReconciler,
    /// The sweep of what an older deployment left.
    pub legacy: Reconciler,
    /// Who sweeps: the deployment itself.
    pub principal: Principal,
    /// When.
    pub clock: Arc<dyn Clock>,
    /// Where the last sweeps are put up.
    pub board: Arc<SweepBoard>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// Between two steps. Each step sweeps one shard of each family, so all are visited once in as many steps as there
    /// are shards.
    pub period: Duration,
}

/// Runs sweeps, placement and forgetting. Several processes may do so over one store.
pub struct Upkeep {
    parts: UpkeepParts,
}

impl Upkeep {
    /// Composes it; [`Self::run`] starts it.
    pub fn new(parts: UpkeepParts) -> Self {
        Self { parts }
    }

    /// One step of each. What fails is counted, and tried again in the next step.
    pub async fn step(&self) {
        let UpkeepParts { store, disposition, legacy, principal, clock, board, counters, .. } = &self.parts;
        // What is due is so by the store's time (rule P5), from which this process's clock may be off by any amount. When
        // the store does not say it, the sweeps below find that out as well, and are counted.
        let due_by = store.now().await.unwrap_or_else(|_| Timestamp::from_system(clock.now()));
        let sweeps = [
            (ProtocolMode::Disposition, disposition.sweep_up_to(principal, due_by).await),
            (ProtocolMode::Legacy, legacy.sweep_up_to(principal, due_by).await),
        ];
        for (family, swept) in sweeps {
            match swept {
                Ok(result) => {
                    counters.count_sweep(&result);
                    board.post(family, Timestamp::from_system(clock.now()), result);
                }
                Err(_) => counters.count_failed_sweep(),
            }
        }
        // Each of them whatever became of the other.
        for done in [store.place_due(PLACED_PER_STEP).await, store.forget_due(FORGOTTEN_PER_STEP).await] {
            if done.is_err() {
                counters.count_failed_sweep();
            }
        }
        counters.count_unreadable(store.take_unreadable());
    }

    /// Steps until `stop` says so, or is gone.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow_and_update() {
            self.step().await;
            let timer = Timer::start(&*self.parts.clock, self.parts.period);
            tokio::select! {
                () = timer.over() => {}
                changed = stop.changed() => if changed.is_err() { return },
            }
        }
    }
}
