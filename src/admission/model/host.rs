//! Hosts: processes that run sessions and apply their commands.

use super::command::DispositionInboxEntry;
use super::ids::{CommandSeq, Epoch, HostId, HostTargetKey, PrincipalName, SessionId, Tenant};
use super::session::{CatalogEntry, Lease};
use super::time::Timestamp;

/// A registered host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Its id.
    pub host: HostId,
    /// The credential it belongs to.
    pub credential: PrincipalName,
    /// What it can run.
    pub key: HostTargetKey,
    /// Most sessions at a time. Never authority: only a lease is.
    pub capacity: u32,
    /// Sessions placed here.
    pub placed: u32,
    /// Until when its last heartbeat counts.
    pub seen_until: Timestamp,
}

impl HostEntry {
    /// Whether a session may be proposed to it.
    pub fn accepts(&self, now: Timestamp) -> bool {
        self.placed < self.capacity && !self.seen_until.has_passed(now)
    }
}

/// Who runs a session, as the store saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerObservation {
    /// The live lease.
    pub lease: Lease,
    /// What the host can run.
    pub key: HostTargetKey,
    /// When this was true.
    pub observed_at: Timestamp,
}

/// A page of hosts that could take a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTargetPage {
    /// Accepting hosts, by id.
    pub hosts: Vec<HostEntry>,
    /// Where the next page begins; absent at the end.
    pub next: Option<HostId>,
}

/// What a host finds to do about one of its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The session.
    pub session: CatalogEntry,
    /// What is to be done.
    pub tasks: Vec<Task>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The session is placed here and nobody holds its lease: acquire it.
    Acquire,
    /// A command to claim, begin and complete.
    Deliver(Box<DispositionInboxEntry>),
    /// A command that an older epoch left, to be settled by what the journal says, without a begin (rule P5).
    Settle(Box<DispositionInboxEntry>),
    /// The session is no longer wanted here and owes nothing: release its lease.
    Release,
}

/// An entry of a session's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its tenant.
    pub tenant: Tenant,
    /// Its session.
    pub session: SessionId,
    /// The command; zero for a fence.
    pub seq: CommandSeq,
    /// The epoch that wrote it.
    pub epoch: Epoch,
    /// What happened.
    pub step: JournalStep,
    /// When.
    pub at: Timestamp,
    /// The place in the journal: 1, 2, 3 and so on.
    pub position: u64,
}

/// What a journal can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JournalStep {
    /// A lease was granted: nothing of an older epoch is written behind this.
    Fence,
    /// The host begins to apply a command.
    Begin,
    /// The host has applied it.
    FinishApplied,
    /// The host has refused it.
    FinishRejected,
}

impl JournalStep {
    /// As stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Begin => "begin",
            Self::FinishApplied => "finish_applied",
            Self::FinishRejected => "finish_rejected",
        }
    }

    /// Reads what [`Self::as_str`] gives.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Fence, Self::Begin, Self::FinishApplied, Self::FinishRejected]
            .into_iter()
            .find(|step| step.as_str() == text)
    }
}
