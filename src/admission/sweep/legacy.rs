//! The sweep of the legacy family.

use super::pass::{Family, Pass, Position};
use super::{Bounds, SweepResult};
use crate::admission::model::{
    DueCommand, DueCommandPage, Error, ListDueCommandsRequest, Principal, PrincipalName, RejectCommandRequest,
    Timestamp,
};
use crate::admission::traits::{Authorizer, Claims, Clock, DueCommands, Settlement, StoreAnswer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A [`Reconciler`]'s parts and bounds.
#[derive(Clone)]
pub struct ReconcilerConfig {
    /// Decides the sweep, by `authorize_service_sweep` and never by `authorize_control`.
    pub authorizer: Arc<dyn Authorizer>,
    /// What is due, and in how many shards.
    pub due: Arc<dyn DueCommands>,
    /// The one write.
    pub settlement: Arc<dyn Settlement>,
    /// Claims that spare two sweepers the same work.
    pub claims: Arc<dyn Claims>,
    /// Up to when commands are looked at. What may be settled, the store decides by its own.
    pub clock: Arc<dyn Clock>,
    /// Names this process in claims. No authority, but stable for a process: extending one's own claim and taking over a
    /// crashed process's lapsed one are the same write, and the holder tells them apart.
    pub holder_id: String,
    /// How long a session's sweeping is claimed for.
    pub claim_ttl: Duration,
    /// Most rows of a page.
    pub page_limit: usize,
    /// Most pages of one sweep. Bounds a pass, not the work: a shard with more is reported truncated and finished by the
    /// next pass over it, so that one busy shard does not hold the rotor for as long as its backlog lasts.
    pub max_pages: usize,
}

/// Sweeps the legacy family: shards in turn, one per call, each from its head.
///
/// It remembers one thing, the rotor, and that is advice: after a restart it begins at shard zero and learns everything
/// else from the store within the call.
pub struct Reconciler {
    config: ReconcilerConfig,
    bounds: Bounds,
    rotor: AtomicU32,
}

impl Reconciler {
    /// Checks the bounds.
    pub fn new(config: ReconcilerConfig) -> Result<Self, Error> {
        let bounds = Bounds {
            holder_id: config.holder_id.clone(),
            claim_ttl: config.claim_ttl,
            page_limit: config.page_limit,
            max_pages: config.max_pages,
        };
        bounds.check()?;
        Ok(Self { config, bounds, rotor: AtomicU32::new(0) })
    }

    /// Sweeps the next shard, by this process's clock.
    pub async fn sweep(&self, principal: &Principal) -> Result<SweepResult, Error> {
        self.sweep_up_to(principal, Timestamp::from_system(self.config.clock.now())).await
    }

    /// Sweeps the next shard: what is due by `due_by`.
    pub(in crate::admission) async fn sweep_up_to(
        &self,
        principal: &Principal,
        due_by: Timestamp,
    ) -> Result<SweepResult, Error> {
        self.config.authorizer.authorize_service_sweep(principal).await?;
        let shards = self.config.due.control_shards().max(1);
        // Relaxed: the rotor is advice, and orders nothing. It moves on first, so that no shard that fails holds it.
        let shard = self.rotor.fetch_add(1, Ordering::Relaxed) % shards;
        let mut result = SweepResult::default();
        let mut head = Some(Position { due_by, after: None });
        let claims = &*self.config.claims;
        let pass = Pass { family: &self.config, claims, bounds: &self.bounds, by: principal.name() };
        pass.run(shard, &mut head, &mut result).await?;
        Ok(result)
    }
}

impl Family for ReconcilerConfig {
    fn list(&self, request: ListDueCommandsRequest) -> StoreAnswer<'_, DueCommandPage> {
        self.due.list_due_commands(request)
    }

    fn reject(&self, command: &DueCommand, by: &PrincipalName) -> StoreAnswer<'_, bool> {
        let request = RejectCommandRequest {
            tenant: command.tenant.clone(),
            session: command.session,
            seq: command.seq,
            revision: command.revision,
            by: by.clone(),
        };
        let answer = self.settlement.reject_command(request);
        Box::pin(async move { answer.await.map(|_| true) })
    }
}
