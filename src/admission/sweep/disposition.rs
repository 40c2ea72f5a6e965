//! The sweep of the disposition family.

use super::pass::{Family, Pass, Position};
use super::{Bounds, SweepResult};
use crate::admission::model::{
    DueCommand, DueCommandPage, Error, ListDueDispositionCommandsRequest, Principal, PrincipalName,
    RejectDispositionCommandRequest, Timestamp,
};
use crate::admission::traits::{Authorizer, Claims, Clock, DispositionDue, DispositionSettlement, StoreAnswer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A [`DispositionReconciler`]'s parts and bounds; they mean what those of
/// [`ReconcilerConfig`](super::ReconcilerConfig) mean.
#[derive(Clone)]
pub struct DispositionReconcilerConfig {
    /// Decides the sweep.
    pub authorizer: Arc<dyn Authorizer>,
    /// What is due, and in how many shards.
    pub due: Arc<dyn DispositionDue>,
    /// The one write.
    pub settlement: Arc<dyn DispositionSettlement>,
    /// Claims that spare two sweepers the same work.
    pub claims: Arc<dyn Claims>,
    /// Up to when commands are looked at.
    pub clock: Arc<dyn Clock>,
    /// Names this process in claims.
    pub holder_id: String,
    /// How long a session's sweeping is claimed for.
    pub claim_ttl: Duration,
    /// Most rows of a page.
    pub page_limit: usize,
    /// Most pages of one sweep.
    pub max_pages: usize,
}

/// Sweeps the disposition family: shards in turn, one per call.
///
/// It remembers where each shard's pass stopped, and that keeps it from starving. Due rows are in the order of their
/// deadlines, and at the head is where those gather that it may *not* reject: commands that are being applied, a
/// successor's business. A sweep that began at the head each time would, with more of these than a pass reads, never again
/// reach what lies behind them. So a truncated pass keeps its place, the next one over the shard goes on there, and only
/// one that reached the end begins at the head again, with a fresh bound. The place is advice, like the rotor: after a
/// restart every shard begins at its head, and nothing is lost but time.
pub struct DispositionReconciler {
    config: DispositionReconcilerConfig,
    bounds: Bounds,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    rotor: u32,
    /// At most one per shard.
    positions: BTreeMap<u32, Position>,
}

impl DispositionReconciler {
    /// Checks the bounds.
    pub fn new(config: DispositionReconcilerConfig) -> Result<Self, Error> {
        let bounds = Bounds {
            holder_id: config.holder_id.clone(),
            claim_ttl: config.claim_ttl,
            page_limit: config.page_limit,
            max_pages: config.max_pages,
        };
        bounds.check()?;
        Ok(Self { config, bounds, memory: Mutex::default() })
    }

    /// Sweeps the next shard, by this process's clock.
    pub async fn sweep(&self, principal: &Principal) -> Result<SweepResult, Error> {
        self.sweep_up_to(principal, Timestamp::from_system(self.config.clock.now())).await
    }

    /// Sweeps the next shard: what is due by `due_by`, unless a pass over it that began earlier goes on.
    pub(in crate::admission) async fn sweep_up_to(
        &self,
        principal: &Principal,
        due_by: Timestamp,
    ) -> Result<SweepResult, Error> {
        self.config.authorizer.authorize_service_sweep(principal).await?;
        let (shard, kept) = self.next_shard();
        let mut result = SweepResult { resumed: kept.is_some(), ..SweepResult::default() };
        let mut position = Some(kept.unwrap_or(Position { due_by, after: None }));
        let claims = &*self.config.claims;
        let pass = Pass { family: &self.config, claims, bounds: &self.bounds, by: principal.name() };
        let outcome = pass.run(shard, &mut position, &mut result).await;
        self.keep(shard, position);
        outcome?;
        Ok(result)
    }

    /// Moves the rotor on, first, so that no shard that fails holds it; and takes the shard's place.
    fn next_shard(&self) -> (u32, Option<Position>) {
        let shards = self.config.due.control_shards().max(1);
        let mut memory = self.memory();
        let shard = memory.rotor % shards;
        memory.rotor = (shard + 1) % shards;
        (shard, memory.positions.remove(&shard))
    }

    /// Keeps the place of a pass that did not reach the end. One that failed on its first page had none to keep.
    fn keep(&self, shard: u32, position: Option<Position>) {
        if let Some(position) = position.filter(|position| position.after.is_some()) {
            self.memory().positions.insert(shard, position);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing that holds the lock can leave it half changed.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family for DispositionReconcilerConfig {
    fn list(&self, request: ListDueDispositionCommandsRequest) -> StoreAnswer<'_, DueCommandPage> {
        self.due.list_due_disposition_commands(request)
    }

    fn reject(&self, command: &DueCommand, by: &PrincipalName) -> StoreAnswer<'_, bool> {
        let request = RejectDispositionCommandRequest {
            tenant: command.tenant.clone(),
            session: command.session,
            seq: command.seq,
            revision: command.revision,
            by: by.clone(),
        };
        let answer = self.settlement.reject_disposition_command(request);
        Box::pin(async move { answer.await.map(|(_, rejected)| rejected) })
    }
}
