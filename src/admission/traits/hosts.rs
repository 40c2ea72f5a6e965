//! What a host asks of the store, through [`HostService`](crate::admission::HostService).

use super::StoreAnswer;
use crate::admission::model::{
    AcquireLeaseRequest, BeginCommandRequest, Bytes, CatalogEntry, ClaimCommandRequest, CommandSeq,
    CompleteCommandRequest, DispositionInboxEntry, GetCommandPayloadRequest, HostEntry, HostId, JournalEntry, Lease,
    LeaseRef, RegisterHostRequest, ReleaseLeaseRequest, SessionId, SettleCommandRequest, Tenant, Work,
};
use std::time::Duration;

/// Registration, leases, journal and the three steps of an application.
///
/// The journal comes first, as a write of its own (rule P5): what it does not say did not happen, and what it says is
/// evidence even if the process died before the command's row was written.
pub trait HostStore: super::OwnerDirectory {
    /// Registers a host or refreshes its registration.
    fn register_host(&self, request: RegisterHostRequest) -> StoreAnswer<'_, HostEntry>;

    /// A host as registered.
    fn get_host(&self, host: HostId) -> StoreAnswer<'_, HostEntry>;

    /// What there is to do for a host: up to `limit` sessions with their tasks.
    fn list_work(&self, host: HostId, limit: usize) -> StoreAnswer<'_, Vec<Work>>;

    /// Acquires a session's lease with a new epoch and writes its fence.
    fn acquire_lease(&self, request: AcquireLeaseRequest) -> StoreAnswer<'_, Lease>;

    /// Extends a live lease to `ttl` from now. A lapsed one is lost, also to its own holder.
    fn renew_lease(&self, lease: LeaseRef, ttl: Duration) -> StoreAnswer<'_, Lease>;

    /// Releases a lease; again is the same.
    fn release_lease(&self, request: ReleaseLeaseRequest) -> StoreAnswer<'_, CatalogEntry>;

    /// Claims a command or extends the claim.
    fn claim_command(&self, request: ClaimCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry>;

    /// Journals that the host begins.
    fn journal_begin(&self, request: BeginCommandRequest) -> StoreAnswer<'_, JournalEntry>;

    /// Marks the command as applying. The journal must have its beginning.
    fn begin_applying(&self, request: BeginCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry>;

    /// Journals how the application went.
    fn journal_finish(&self, request: CompleteCommandRequest) -> StoreAnswer<'_, JournalEntry>;

    /// Ends the command. The journal must have its end.
    fn complete_command(&self, request: CompleteCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry>;

    /// Ends what an older epoch left, as the journal has it; see rule P5.
    fn settle_command(&self, request: SettleCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry>;

    /// A payload's content.
    fn get_command_payload(&self, request: GetCommandPayloadRequest) -> StoreAnswer<'_, Bytes>;

    /// What the journal says about a command, at most `limit` entries; about number zero, the session's fences.
    fn read_journal(
        &self,
        tenant: Tenant,
        session: SessionId,
        seq: CommandSeq,
        limit: usize,
    ) -> StoreAnswer<'_, Vec<JournalEntry>>;
}
