//! What a worker is told to be, and what it tells.

use crate::client::error::Error;
use crate::client::http::{Carried, CommandView, Held, SessionView};
use bytes::Bytes;
use std::time::Duration;

/// What a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// What it can run: the key of one of the server's profiles.
    pub target_key: String,
    /// Most sessions.
    pub capacity: u32,
    /// Lifetime of leases and claims; the server's default when absent.
    pub ttl: Option<Duration>,
}

/// A command that was begun: apply it, then [`Worker::complete`](super::Worker::complete).
#[derive(Clone)]
pub struct Assignment {
    /// The lease under which it was begun.
    pub held: Held,
    /// The command.
    pub command: CommandView,
    /// What it carries, fetched if it was stored.
    pub content: Bytes,
}

impl std::fmt::Debug for Assignment {
    /// What it carries is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Assignment({:?}, {:?}, {} bytes)", self.held, self.command, self.content.len())
    }
}

/// What happened.
#[derive(Debug)]
pub enum WorkerNews {
    /// The server knows the host.
    Registered {
        /// `host:port`.
        server: String,
    },
    /// It runs a session now.
    Acquired {
        /// The lease.
        held: Held,
        /// The session.
        session: Box<SessionView>,
    },
    /// A command is in hand, and not begun.
    Claimed {
        /// Which.
        command: Box<CommandView>,
    },
    /// A command was begun.
    Apply(Box<Assignment>),
    /// What an earlier host left was settled.
    Settled {
        /// As it ended.
        command: Box<CommandView>,
    },
    /// A command was not begun after all: too late, or somebody else's.
    Passed {
        /// Which.
        command: Box<CommandView>,
        /// The server's word.
        error: Error,
    },
    /// The session is run by somebody else, or will be: stop it here.
    Lost {
        /// The lease that is over.
        held: Held,
    },
    /// Nobody wants the session any more, and it was let go: stop it here.
    Released {
        /// The lease that was.
        held: Held,
    },
    /// Another server is asked from now on.
    Moved {
        /// `host:port`.
        server: String,
    },
    /// No server answered; it is tried again.
    Retrying {
        /// Why.
        error: Error,
    },
}

/// What a command carries, if it is inline.
pub(super) fn inline(carried: Carried) -> Result<Bytes, String> {
    match carried {
        Carried::Nothing => Ok(Bytes::new()),
        Carried::Text(text) => Ok(text.into()),
        Carried::Json(value) => Ok(value.to_string().into()),
        Carried::Bytes(bytes) => Ok(bytes),
        Carried::Stored(sha256) => Err(sha256),
    }
}
