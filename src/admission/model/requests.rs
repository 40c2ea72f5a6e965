//! What a store is asked. Every field that decides is here; the store adds its own time and nothing else.

use super::command::{CommandKind, Payload};
use super::ids::{
    AgentId, CommandSeq, Epoch, HostId, HostTargetKey, OutcomeCode, PrincipalName, RequestKey, Revision, SessionId,
    Sha256, Tenant,
};
use super::session::{SessionBinding, SessionBindingTemplate, Target};
use super::time::Timestamp;
use bytes::Bytes;
use std::time::Duration;

/// Asks for a session's catalog entry.
#[derive(Clone, Debug)]
pub struct GetCatalogEntryRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
}

/// Enters a session without a command: what a migration does, and a legacy create.
#[derive(Clone, Debug)]
pub struct CreateCatalogEntryRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// What it is bound to.
    pub binding: SessionBinding,
    /// The profile.
    pub agent: AgentId,
    /// What it launches.
    pub target: Target,
    /// Who asks.
    pub principal: PrincipalName,
}

/// What makes two requests the same one (rule P4).
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// Who asks.
    pub principal: PrincipalName,
    /// Under which key.
    pub key: RequestKey,
    /// The digest of everything the request says.
    pub fingerprint: Sha256,
}

/// Admits a command.
#[derive(Clone, Debug)]
pub struct AdmitDispositionCommandRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// What is asked.
    pub kind: CommandKind,
    /// Who asks, under which key.
    pub idempotency: Idempotency,
    /// What it carries.
    pub payload: Payload,
    /// The deadline is the admission's instant and this.
    pub apply_within: Duration,
}

/// Asks for a command.
#[derive(Clone, Debug)]
pub struct GetDispositionCommandRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The command.
    pub seq: CommandSeq,
}

/// For whom a payload is stored.
#[derive(Clone, Debug)]
pub enum PayloadOwner {
    /// An admitted session.
    Session,
    /// A prepared create that proposes the session.
    Create {
        /// Who prepared it.
        principal: PrincipalName,
        /// Under which key.
        key: RequestKey,
    },
}

/// Stores a payload by its content.
#[derive(Clone, Debug)]
pub struct PutCommandPayloadRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session whose commands may refer to it.
    pub session: SessionId,
    /// For whom.
    pub owner: PayloadOwner,
    /// The content.
    pub bytes: Bytes,
}

/// Asks for a payload's content.
#[derive(Clone, Debug)]
pub struct GetCommandPayloadRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The digest.
    pub sha256: Sha256,
}

/// What a stored payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectMetadata {
    /// Its digest.
    pub sha256: Sha256,
    /// Its length in bytes.
    pub len: u64,
    /// When it was stored first.
    pub stored_at: Timestamp,
}

/// First step of a create: reserves the session id under the key.
#[derive(Clone, Debug)]
pub struct PreparePublicCreateRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// Who asks, under which key.
    pub idempotency: Idempotency,
    /// The id to use unless the key has one.
    pub proposed: SessionId,
    /// What the session will be bound to.
    pub template: SessionBindingTemplate,
}

/// A prepared create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicCreatePreparation {
    /// The session id: the one proposed, or that of the first call with this key.
    pub session: SessionId,
    /// The binding that is pinned.
    pub binding: SessionBinding,
    /// Whether an earlier call had prepared it.
    pub resumed: bool,
    /// Whether an earlier call has admitted it already.
    pub admitted: bool,
}

/// Last step of a create: the session and its first command, at once.
#[derive(Clone, Debug)]
pub struct AdmitPublicCreateRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// As prepared.
    pub idempotency: Idempotency,
    /// As prepared.
    pub session: SessionId,
    /// The profile.
    pub agent: AgentId,
    /// What it launches.
    pub target: Target,
    /// What the create carries.
    pub payload: Payload,
    /// The deadline is the admission's instant and this.
    pub apply_within: Duration,
}

/// Admits the create of a legacy session.
#[derive(Clone, Debug)]
pub struct AdmitLegacyCommandRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Who asks.
    pub idempotency: Idempotency,
    /// What it carries.
    pub payload: Payload,
    /// The deadline is the admission's instant and this.
    pub apply_within: Duration,
}

/// Rejects an expired command of the disposition family, as the sweep does.
#[derive(Clone, Debug)]
pub struct RejectDispositionCommandRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The command.
    pub seq: CommandSeq,
    /// The revision that was read.
    pub revision: Revision,
    /// Who settles it.
    pub by: PrincipalName,
}

/// Rejects an expired command of the legacy family.
#[derive(Clone, Debug)]
pub struct RejectCommandRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The command.
    pub seq: CommandSeq,
    /// The revision that was read.
    pub revision: Revision,
    /// Who settles it.
    pub by: PrincipalName,
}

/// Where a due query goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePosition {
    /// The deadline of the last row.
    pub deadline: Timestamp,
    /// Its tenant, as stored: a row that can't be read has a position all the same.
    pub tenant: String,
    /// Its session, as stored.
    pub session: Vec<u8>,
    /// Its command.
    pub seq: u64,
}

/// Asks for due commands of one control shard, in the order of their deadlines.
#[derive(Clone, Debug)]
pub struct ListDueCommandsRequest {
    /// The shard.
    pub shard: u32,
    /// Deadlines up to and with this one.
    pub due_by: Timestamp,
    /// After this row; absent at the head.
    pub after: Option<DuePosition>,
    /// Most rows.
    pub limit: usize,
}

/// The same query over the disposition family.
pub type ListDueDispositionCommandsRequest = ListDueCommandsRequest;

/// What a sweep needs to know about a due command. The payload stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCommand {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The command.
    pub seq: CommandSeq,
    /// How far it has come.
    pub state: super::CommandState,
    /// What a settlement compares.
    pub revision: Revision,
    /// Its deadline.
    pub deadline: Timestamp,
    /// When its last claim lapses, if it was ever claimed.
    pub claimed_until: Option<Timestamp>,
}

/// A page of due commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCommandPage {
    /// The readable rows.
    pub commands: Vec<DueCommand>,
    /// Rows that the store returned, readable or not.
    pub examined: usize,
    /// Rows that could not be read (rule P9).
    pub unreadable: usize,
    /// Where the next page begins; absent at the end.
    pub next: Option<DuePosition>,
    /// The store's time at the reading.
    pub read_at: Timestamp,
}

/// A page of the disposition family.
pub type DispositionDueCommandPage = DueCommandPage;

/// How much is due in a control shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueInShard {
    /// The shard.
    pub shard: u32,
    /// Due commands, counted up to a bound.
    pub due: usize,
    /// Whether there are more than were counted.
    pub is_more: bool,
    /// The oldest deadline among them.
    pub oldest: Option<Timestamp>,
    /// The store's time at the reading.
    pub read_at: Timestamp,
}

/// Claims the sweeping of a session. Suppresses duplicate work; never a fence.
#[derive(Clone, Debug)]
pub struct AcquireReconciliationClaimRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Who claims. Stable for a process: extending one's own claim and taking over a lapsed one are the same write.
    pub holder: String,
    /// For how long.
    pub ttl: Duration,
}

/// Gives a claim back.
#[derive(Clone, Debug)]
pub struct ReleaseReconciliationClaimRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Who claimed.
    pub holder: String,
}

/// A reconciliation claim. It names a holder and a time, and no epoch: nothing could be fenced with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconciliationClaimEntry {
    /// Who sweeps.
    pub holder: String,
    /// Until when.
    pub until: Timestamp,
}

/// Asks for hosts that could take a session.
#[derive(Clone, Debug)]
pub struct ListCompatibleHostsRequest {
    /// What they must be able to run.
    pub key: HostTargetKey,
    /// After this host; absent at the head.
    pub after: Option<HostId>,
    /// Most rows examined.
    pub limit: usize,
}

/// Registers a host, or refreshes its registration.
#[derive(Clone, Debug)]
pub struct RegisterHostRequest {
    /// The host.
    pub host: HostId,
    /// The credential it belongs to.
    pub credential: PrincipalName,
    /// What it can run.
    pub key: HostTargetKey,
    /// Most sessions at a time; zero takes no new one.
    pub capacity: u32,
    /// How long this heartbeat counts.
    pub ttl: Duration,
}

/// A lease that its holder names.
#[derive(Clone, Debug)]
pub struct LeaseRef {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The holder.
    pub host: HostId,
    /// The number.
    pub epoch: Epoch,
}

/// Acquires a session's lease: a new epoch, and its fence in the journal, in one write.
#[derive(Clone, Debug)]
pub struct AcquireLeaseRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Who will hold it; its key must be the session's.
    pub host: HostId,
    /// The host's key.
    pub key: HostTargetKey,
    /// For how long.
    pub ttl: Duration,
}

/// Releases a lease.
#[derive(Clone, Debug)]
pub struct ReleaseLeaseRequest {
    /// Which.
    pub lease: LeaseRef,
    /// Whether the session is over: it is closed and never placed again.
    pub close: bool,
}

/// Claims a command, or extends the claim.
#[derive(Clone, Debug)]
pub struct ClaimCommandRequest {
    /// Under which lease.
    pub lease: LeaseRef,
    /// The command.
    pub seq: CommandSeq,
    /// For how long; cut off at the deadline.
    pub ttl: Duration,
    /// The revision that was read, where the caller wants to lose a race.
    pub revision: Option<Revision>,
}

/// Begins to apply a command.
#[derive(Clone, Debug)]
pub struct BeginCommandRequest {
    /// Under which lease.
    pub lease: LeaseRef,
    /// The command.
    pub seq: CommandSeq,
}

/// What a host reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It did what was asked.
    Applied,
    /// It refused, in a word of its own.
    Rejected(OutcomeCode),
}

/// Completes a command.
#[derive(Clone, Debug)]
pub struct CompleteCommandRequest {
    /// Under which lease.
    pub lease: LeaseRef,
    /// The command.
    pub seq: CommandSeq,
    /// How it went.
    pub completion: Completion,
}

/// Settles what an older epoch left.
#[derive(Clone, Debug)]
pub struct SettleCommandRequest {
    /// The newer lease.
    pub lease: LeaseRef,
    /// The command.
    pub seq: CommandSeq,
}
