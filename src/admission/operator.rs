//! What an operator sees.

use super::counters::{Counters, Counts};
use super::model::{DueInShard, Error, Principal, ProtocolMode, Timestamp};
use super::store::Store;
use super::sweep::{LastSweep, SweepBoard};
use super::traits::Authorizer;
use std::sync::Arc;
use std::time::Duration;

/// The state of the plane, across tenants: for the deployment's own eyes (rule P1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionView {
    /// What is due, by shard.
    pub due: Vec<DueInShard>,
    /// The last sweep of each shard, disposition family.
    pub disposition_sweeps: Vec<LastSweep>,
    /// The last sweep of each shard, legacy family.
    pub legacy_sweeps: Vec<LastSweep>,
    /// Long polls that wait.
    pub waiting: usize,
    /// What this process counted.
    pub counts: Counts,
}

impl AdmissionView {
    /// The oldest deadline that has passed unsettled, over all shards, and for how long.
    pub fn oldest_due(&self) -> Option<(Timestamp, Duration)> {
        let oldest = |due: &DueInShard| due.oldest.map(|deadline| (deadline, due.read_at.since(deadline)));
        self.due.iter().filter_map(oldest).min()
    }
}

/// Answers the operator.
pub struct OperatorService {
    /// Decides by `authorize_service_sweep`: what it shows is what a sweep reads.
    pub authorizer: Arc<dyn Authorizer>,
    /// The store.
    pub store: Store,
    /// The last sweeps of this process.
    pub board: Arc<SweepBoard>,
    /// The counters of this process.
    pub counters: Arc<Counters>,
}

impl OperatorService {
    /// The state now. Errors: `forbidden`, `unavailable`.
    pub async fn view(&self, principal: &Principal) -> Result<AdmissionView, Error> {
        self.authorizer.authorize_service_sweep(principal).await?;
        Ok(AdmissionView {
            due: self.store.due_by_shard().await?,
            disposition_sweeps: self.board.of(ProtocolMode::Disposition),
            legacy_sweeps: self.board.of(ProtocolMode::Legacy),
            waiting: self.store.waits().waiting(),
            counts: self.counters.counts(),
        })
    }
}
