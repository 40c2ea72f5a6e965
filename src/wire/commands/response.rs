//! What the command plane answers. Times are the store's, and informational.

use super::request::KindName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// How far a command has come; the last three never change again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Durable, and nobody works on it.
    Admitted,
    /// A host says that it works on it.
    Claimed,
    /// A host has begun.
    Applying,
    /// Done.
    Applied,
    /// The host refused.
    Rejected,
    /// Its time was over; `disposition` says whether it may have run.
    Expired,
}

impl StateName {
    /// Whether nothing will change any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Applied | Self::Rejected | Self::Expired)
    }
}

/// A host's claim on a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ClaimAnswer {
    /// Who claimed.
    pub host: String,
    /// Under which lease.
    pub epoch: u64,
    /// When it lapses or lapsed.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub until: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct OutcomeAnswer {
    /// In a word: `applied`, `never_claimed`, `claimed_not_applied`, `attempt_gone`, or the host's own.
    pub code: String,
    /// Who settled it.
    pub by: String,
    /// When.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub at: String,
    /// Finished after the deadline by a host that had begun in time.
    pub late: bool,
}

/// A stored payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct PayloadRefAnswer {
    /// Its digest, 64 lower-case hex digits.
    pub sha256: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A command. What it carries is shown to hosts only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CommandAnswer {
    /// Its session.
    pub session_id: String,
    /// Its number in the session, from 1 without gaps.
    pub command: u64,
    /// What it asks.
    pub kind: KindName,
    /// How far it has come.
    pub state: StateName,
    /// Once it has ended: how, in a word; the same as `outcome.code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub disposition: Option<String>,
    /// Grows with every change; also in `ETag`.
    pub revision: u64,
    /// When it was admitted.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub admitted_at: String,
    /// Who asked.
    pub admitted_by: String,
    /// From this instant on it is neither claimed nor begun.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub deadline: String,
    /// How often it was handed to a lease holder; more than once is a redelivery.
    pub deliveries: u32,
    /// The last claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub claim: Option<ClaimAnswer>,
    /// The lease under which it is, or was last, applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub applying_epoch: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub outcome: Option<OutcomeAnswer>,
    /// For hosts: an inline content that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub payload: Option<String>,
    /// For hosts: an inline content that is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub payload_base64: Option<String>,
    /// For hosts: a content to be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub payload_ref: Option<PayloadRefAnswer>,
}

impl std::fmt::Debug for CommandAnswer {
    /// A payload may be anything, so it is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandAnswer")
            .field("session_id", &self.session_id)
            .field("command", &self.command)
            .field("kind", &self.kind)
            .field("state", &self.state)
            .field("disposition", &self.disposition)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// An accepted create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CreatedAnswer {
    /// The session.
    pub session_id: String,
    /// Its first command.
    pub command: CommandAnswer,
}

/// What a session is bound to, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct BindingAnswer {
    /// Where its objects lie.
    pub storage_binding_id: String,
    /// The version of that place's layout.
    pub binding_version: String,
    /// The id under which the host runs it.
    pub runtime_session_id: String,
    /// `disposition`; `legacy` for what an older deployment left.
    pub protocol_mode: String,
}

/// The holder of a session's live lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct OwnerAnswer {
    /// The host.
    pub host: String,
    /// The lease's number.
    pub epoch: u64,
    /// When it lapses.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SessionAnswer {
    /// The session.
    pub session_id: String,
    /// The profile it was created from.
    pub profile: String,
    /// What a host must be able to run.
    pub target_key: String,
    /// What the host launches.
    pub workload: String,
    /// `open` or `closed`.
    pub state: String,
    /// When it was admitted.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub created_at: String,
    /// Who asked for it.
    pub created_by: String,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub closed_at: Option<String>,
    /// Commands admitted so far.
    pub commands: u64,
    /// Commands that have not ended.
    pub open_commands: u32,
    /// The host that it is proposed to. Never authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub placed: Option<String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub owner: Option<OwnerAnswer>,
    /// What it is bound to.
    pub binding: BindingAnswer,
}

/// A payload that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct StoredPayloadAnswer {
    /// Its digest.
    pub sha256: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A join attempt that waits at a session's gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct GateItem {
    /// The attempt.
    pub attempt_id: String,
    /// When it ends unanswered.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The joiner's opaque payload, when it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub joiner_payload: Option<String>,
}

/// Who waits at a session's gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct GateAnswer {
    /// Unanswered and newer than `after`, oldest first.
    pub attempts: Vec<GateItem>,
    /// To be sent as `after` next time.
    pub commit: u64,
}

/// A registered host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct HostAnswer {
    /// Its id.
    pub host: String,
    /// What it can run.
    pub target_key: String,
    /// Most sessions at a time.
    pub capacity: u32,
    /// Sessions placed at it.
    pub placed: u32,
    /// Until when this heartbeat counts.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// For how long a heartbeat counts; repeat it three times in that time.
    pub heartbeat_ttl_ms: u64,
}

/// What kind of work there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskName {
    /// Take the session's lease.
    Acquire,
    /// Claim, begin and complete the command.
    Deliver,
    /// Settle what an older lease left.
    Settle,
    /// Let go of the session's lease.
    Release,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct TaskAnswer {
    /// What.
    pub task: TaskName,
    /// With `deliver` and `settle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub command: Option<CommandAnswer>,
}

/// What there is to do about one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct WorkItem {
    /// Its tenant, to be named in the path of what follows.
    pub tenant: String,
    /// The session.
    pub session: SessionAnswer,
    /// What to do, in this order.
    pub tasks: Vec<TaskAnswer>,
}

/// `GET /v1/hosts/{host}/work`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct WorkAnswer {
    /// Empty when there was nothing until the wait was over.
    pub work: Vec<WorkItem>,
}

/// A lease as granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct LeaseGrantAnswer {
    /// The session.
    pub session_id: String,
    /// The holder.
    pub host: String,
    /// The lease's number, to be sent with all that is done under it.
    pub epoch: u64,
    /// When it lapses.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// For how long it was granted.
    pub ttl_ms: u64,
}

/// How much is due in a control shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct DueAnswer {
    /// The shard.
    pub shard: u32,
    /// Due commands, counted up to a bound.
    pub due: usize,
    /// Whether there are more than were counted.
    pub is_more: bool,
    /// The oldest deadline among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub oldest: Option<String>,
}

/// The last sweep of a shard by this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SweepAnswer {
    /// The shard.
    pub shard: u32,
    /// When it ended.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub at: String,
    /// Pages read.
    pub pages: usize,
    /// Rows that the store returned.
    pub examined: usize,
    /// Rows that could not be read.
    pub unreadable: usize,
    /// Readable due rows.
    pub due: usize,
    /// Commands that it rejected.
    pub rejected: usize,
    /// Reconciliation claims taken.
    pub claimed: usize,
    /// Reconciliation claims given back.
    pub released: usize,
    /// Reconciliation claims that could not be given back.
    pub release_failures: usize,
    /// Questions to the database.
    pub queries: usize,
    /// Whether the bound of the pass was reached with rows left.
    pub truncated: bool,
    /// Whether it went on where an earlier one had stopped.
    pub resumed: bool,
    /// How many rows had which fate.
    pub dispositions: BTreeMap<String, usize>,
}

/// What the process has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct AdmissionCounts {
    /// Admitted commands by kind.
    pub admitted: BTreeMap<String, u64>,
    /// Refused calls by reason.
    pub refused: BTreeMap<String, u64>,
    /// What sweeps did with due rows.
    pub dispositions: BTreeMap<String, u64>,
    /// Everything else, by name.
    pub events: BTreeMap<String, u64>,
}

/// `GET /v1/operator/admission`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct AdmissionAnswer {
    /// `memory`, `sqlite` or `postgres`.
    pub store: String,
    /// How many shards the store has, for ever.
    pub control_shards: u32,
    /// What is due, by shard, over all tenants.
    pub due: Vec<DueAnswer>,
    /// The oldest deadline that has passed and is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub oldest_due: Option<String>,
    /// For how long; 0 when nothing is due.
    pub oldest_due_age_ms: u64,
    /// The last sweep of each shard: what is admitted today.
    pub disposition_sweeps: Vec<SweepAnswer>,
    /// The last sweep of each shard: what an older deployment left.
    pub legacy_sweeps: Vec<SweepAnswer>,
    /// Long polls that wait.
    pub waiting_polls: usize,
    /// What was counted.
    pub counts: AdmissionCounts,
}
