//! One pass over one shard, for both families.

use super::{Bounds, SweepResult};
use crate::admission::disposition::Disposition;
use crate::admission::model::{
    AcquireReconciliationClaimRequest, DueCommand, DueCommandPage, DuePosition, ListDueCommandsRequest, PrincipalName,
    Refusal, ReleaseReconciliationClaimRequest, SessionId, StoreError, Tenant, Timestamp,
};
use crate::admission::traits::{Claims, StoreAnswer};
use std::collections::BTreeMap;

/// What differs between the families.
pub(super) trait Family: Sync {
    fn list(&self, request: ListDueCommandsRequest) -> StoreAnswer<'_, DueCommandPage>;

    /// Rejects; `false` when this very rejection had happened.
    fn reject(&self, command: &DueCommand, by: &PrincipalName) -> StoreAnswer<'_, bool>;
}

/// Where a pass is: the bound is fixed when it begins, so it ends however fast new rows become due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) due_by: Timestamp,
    /// After which row; absent at the head.
    pub(super) after: Option<DuePosition>,
}

/// What a pass works with.
pub(super) struct Pass<'a, F> {
    pub(super) family: &'a F,
    pub(super) claims: &'a dyn Claims,
    pub(super) bounds: &'a Bounds,
    pub(super) by: &'a PrincipalName,
}

impl<F: Family> Pass<'_, F> {
    /// Reads at most the pass's pages from `position` on and does what may be done about each row. `position` moves with
    /// each finished page, and becomes `None` at the end; an error leaves it at the page that failed.
    pub(super) async fn run(
        &self,
        shard: u32,
        position: &mut Option<Position>,
        result: &mut SweepResult,
    ) -> Result<(), StoreError> {
        result.shard = shard;
        for _ in 0..self.bounds.max_pages {
            let Some(Position { due_by, after }) = position.clone() else { return Ok(()) };
            let limit = self.bounds.page_limit;
            result.queries += 1;
            let page = self.family.list(ListDueCommandsRequest { shard, due_by, after, limit }).await?;
            result.pages += 1;
            result.examined += page.examined;
            result.unreadable += page.unreadable;
            result.due += page.commands.len();
            self.settle(&page, result).await?;
            *position = page.next.map(|next| Position { due_by, after: Some(next) });
        }
        result.truncated = position.is_some();
        Ok(())
    }

    /// Records what may not be settled, and settles the rest, session by session.
    async fn settle(&self, page: &DueCommandPage, result: &mut SweepResult) -> Result<(), StoreError> {
        let mut sessions: BTreeMap<(&Tenant, SessionId), Vec<&DueCommand>> = BTreeMap::new();
        for command in &page.commands {
            let fate = Disposition::of(command, page.read_at);
            if fate == Disposition::Settleable {
                sessions.entry((&command.tenant, command.session)).or_default().push(command);
            } else {
                result.record(fate, 1);
            }
        }
        for ((tenant, session), commands) in sessions {
            self.session(tenant, session, &commands, result).await?;
        }
        Ok(())
    }

    async fn session(
        &self,
        tenant: &Tenant,
        session: SessionId,
        commands: &[&DueCommand],
        result: &mut SweepResult,
    ) -> Result<(), StoreError> {
        result.queries += 1;
        let claim = AcquireReconciliationClaimRequest {
            tenant: tenant.clone(),
            session,
            holder: self.bounds.holder_id.clone(),
            ttl: self.bounds.claim_ttl,
        };
        match self.claims.acquire_reconciliation_claim(claim).await {
            Ok(_) => result.claimed += 1,
            // A claim licenses nothing (rule P8), so one that can't be read forbids nothing, and is nobody's to give back.
            Err(StoreError::Unreadable(_)) => {
                result.unreadable += 1;
                return self.reject_all(commands, result).await;
            }
            Err(StoreError::Refused(Refusal::ReconciliationClaimHeld)) => {
                result.record(Disposition::Deferred, commands.len());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let settled = self.reject_all(commands, result).await;
        result.queries += 1;
        let release = ReleaseReconciliationClaimRequest {
            tenant: tenant.clone(),
            session,
            holder: self.bounds.holder_id.clone(),
        };
        match self.claims.release_reconciliation_claim(release).await {
            Ok(_) => result.released += 1,
            // Swallowed and counted: see `SweepResult::release_failures`.
            Err(_) => result.release_failures += 1,
        }
        settled
    }

    async fn reject_all(&self, commands: &[&DueCommand], result: &mut SweepResult) -> Result<(), StoreError> {
        for command in commands {
            result.queries += 1;
            match self.family.reject(command, self.by).await {
                Ok(true) => {
                    result.rejected += 1;
                    result.record(Disposition::Rejected, 1);
                }
                Ok(false) => result.record(Disposition::Terminal, 1),
                Err(StoreError::Refused(refusal)) => match Disposition::of_refusal(&refusal) {
                    Some(fate) => result.record(fate, 1),
                    None => return Err(refusal.into()),
                },
                // A row beside the command's own: its session's, or its journal's.
                Err(StoreError::Unreadable(_)) => result.unreadable += 1,
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
            }
        }
        Ok(())
    }
}
