//! What a sweep may do: read what is due, claim a session's sweeping, and reject. Nothing else.

use super::StoreAnswer;
use crate::admission::model::{
    AcquireReconciliationClaimRequest, DispositionDueCommandPage, DispositionInboxEntry, DueCommandPage, InboxEntry,
    ListDueCommandsRequest, ListDueDispositionCommandsRequest, ReconciliationClaimEntry, RejectCommandRequest,
    RejectDispositionCommandRequest, ReleaseReconciliationClaimRequest,
};

/// The one durable write of the legacy sweep, and exactly one method: of what a due row invites (reject, claim, begin,
/// complete) the other three belong to a lease holder, and a sweep holds no lease and names no epoch.
pub trait Settlement: Send + Sync {
    /// Rejects an expired command, if rule P6 allows it at the store's own time.
    fn reject_command(&self, request: RejectCommandRequest) -> StoreAnswer<'_, InboxEntry>;
}

/// The one durable write of the disposition sweep, for the same reason.
pub trait DispositionSettlement: Send + Sync {
    /// Rejects an expired command, if rule P6 allows it at the store's own time; `false` when this very rejection had
    /// happened.
    fn reject_disposition_command(
        &self,
        request: RejectDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)>;
}

/// The due commands of the legacy family.
///
/// Two methods, for a sweep needs both and can't get them elsewhere: the number of shards is what the *store* committed
/// to, so that a sweep with a number of its own can't exist, which would silently never visit some shards; and a page is
/// one shard's, so that no call holds the work of a whole deployment.
pub trait DueCommands: Send + Sync {
    /// How many control shards there are. Known since the store was opened: not a query.
    fn control_shards(&self) -> u32;

    /// A page of one shard, by deadline.
    fn list_due_commands(&self, request: ListDueCommandsRequest) -> StoreAnswer<'_, DueCommandPage>;
}

/// The due commands of the disposition family; the same two methods over the other index.
pub trait DispositionDue: Send + Sync {
    /// How many control shards there are. Known since the store was opened: not a query.
    fn control_shards(&self) -> u32;

    /// A page of one shard, by deadline.
    fn list_due_disposition_commands(
        &self,
        request: ListDueDispositionCommandsRequest,
    ) -> StoreAnswer<'_, DispositionDueCommandPage>;
}

/// Short-lived claims on the sweeping of a session.
///
/// They suppress duplicate work and are never a fence: no write reads one. Two sweeps on one shard are safe because a
/// rejection compares the command's revision and asks the journal; a claim only spares one of them the cost (rule P8).
pub trait Claims: Send + Sync {
    /// Claims, extends one's own claim, or takes over a lapsed one.
    fn acquire_reconciliation_claim(
        &self,
        request: AcquireReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry>;

    /// Gives a claim back; one that is not the holder's is left alone and refused.
    fn release_reconciliation_claim(
        &self,
        request: ReleaseReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry>;
}
