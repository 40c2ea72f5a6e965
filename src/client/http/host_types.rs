//! Bodies of the command plane as its hosts see them.

use super::session_types::{CommandView, SessionId, SessionView};
use serde::Deserialize;

/// A host, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HostView {
    /// Its name.
    pub host: String,
    /// What it can run.
    pub target_key: String,
    /// Most sessions.
    pub capacity: u32,
    /// Sessions that are proposed to it or run on it.
    pub placed: u32,
    /// How long this heartbeat counts; repeat it three times as often.
    pub heartbeat_ttl_ms: u64,
}

/// A granted lease of a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SessionLease {
    /// Its number: ever greater, and everything before it is fenced.
    pub epoch: u64,
    /// For how long, from the answer on.
    pub ttl_ms: u64,
}

/// One thing that a host finds to do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum HostTask {
    /// Acquire the session's lease.
    Acquire,
    /// Claim this command, begin, apply it, complete.
    Deliver {
        /// With what it carries.
        command: Box<CommandView>,
    },
    /// Settle what an older lease left.
    Settle {
        /// Which.
        command: Box<CommandView>,
    },
    /// Let the session go: nobody wants it any more.
    Release,
    /// Something of a newer server.
    #[serde(other)]
    Unrecognised,
}

/// What there is to do about one session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HostWork {
    /// Whose session.
    pub tenant: String,
    /// The session.
    pub session: SessionView,
    /// In order.
    pub tasks: Vec<HostTask>,
}

/// A lease, as the host that holds it names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whose session.
    pub tenant: String,
    /// The session.
    pub session: SessionId,
    /// The lease's number.
    pub epoch: u64,
}

/// How an application ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It was done.
    Applied,
    /// It was not, for this reason: 1 to 64 visible ASCII characters.
    Rejected(String),
}
