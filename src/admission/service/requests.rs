//! What callers ask for.

use crate::admission::model::{AgentId, Bytes, InboxEntry, RequestKey, SessionId, Sha256};
use std::time::Duration;

/// What a command carries, as its caller gives it.
#[derive(Clone)]
pub enum RequestPayload {
    /// The content, of any length up to [`PAYLOAD_MAX`](super::PAYLOAD_MAX).
    Bytes(Bytes),
    /// A content that was stored for the session before.
    Stored(Sha256),
}

impl std::fmt::Debug for RequestPayload {
    /// A payload may be anything, so it is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Stored(sha256) => sha256.fmt(f),
        }
    }
}

/// Asks for a session.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// The same key again resumes the same create.
    pub key: RequestKey,
    /// What to launch.
    pub agent: AgentId,
    /// What the create carries.
    pub payload: RequestPayload,
    /// How long a host has to begin; the service's default otherwise.
    pub apply_within: Option<Duration>,
}

/// Sends a session something to take in.
#[derive(Clone, Debug)]
pub struct InputRequest {
    /// The session.
    pub session: SessionId,
    /// The same key again is the same command.
    pub key: RequestKey,
    /// What to take in.
    pub payload: RequestPayload,
    /// How long a host has to begin.
    pub apply_within: Option<Duration>,
}

/// Stops what is under way.
#[derive(Clone, Debug)]
pub struct InterruptRequest {
    /// The session.
    pub session: SessionId,
    /// The same key again is the same command.
    pub key: RequestKey,
    /// Why, or empty.
    pub payload: RequestPayload,
    /// How long a host has to begin.
    pub apply_within: Option<Duration>,
}

/// Lets a waiting player in, or not (rule H6 of the directory).
#[derive(Clone, Debug)]
pub struct GateResponseRequest {
    /// The session.
    pub session: SessionId,
    /// The same key again is the same command.
    pub key: RequestKey,
    /// The join attempt that waits at the session's gate.
    pub attempt_id: u128,
    /// Whether it may come in.
    pub admit: bool,
    /// How long a host has to begin.
    pub apply_within: Option<Duration>,
}

/// Takes a session back to a saved state.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The session.
    pub session: SessionId,
    /// The same key again is the same command.
    pub key: RequestKey,
    /// The state, or where it lies.
    pub payload: RequestPayload,
    /// How long a host has to begin.
    pub apply_within: Option<Duration>,
}

/// Asks for a session of the legacy family.
#[derive(Clone, Debug)]
pub struct LegacyCreateRequest {
    /// What to launch.
    pub agent_id: AgentId,
    /// What the create carries, as JSON.
    pub blocks: Bytes,
}

/// A session of the legacy family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyCreateResult {
    /// Its id.
    pub session_id: SessionId,
    /// Its first command.
    pub entry: InboxEntry,
}
