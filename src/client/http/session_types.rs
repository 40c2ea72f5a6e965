//! Bodies of the command plane as its callers and hosts see them. As everywhere in this client, fields that it doesn't know
//! are ignored, and words that it doesn't know are kept.

use crate::domain::AttemptId;
use crate::domain::id::public_id;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;

public_id!(
    /// A session of the command plane. Never a secret.
    SessionId
);

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a session id of 32 lower-case hex digits"))
    }
}

/// A word of a vocabulary that may grow.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A word of a newer server.
            Unrecognised(String),
        }

        impl $name {
            /// The word.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unrecognised(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Unrecognised(other.to_owned()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|word| Self::from(word.as_str()))
            }
        }
    };
}

words! {
    /// What a command asks for.
    CommandKind {
        /// The session itself; always its first command.
        Create = "create",
        /// Something to take in.
        Input = "input",
        /// To stop what is under way.
        Interrupt = "interrupt",
        /// The answer to a player who waits at the session's gate.
        GateResponse = "gate_response",
        /// To go back to a saved state.
        Restore = "restore",
    }
}

words! {
    /// How far a command has come.
    CommandState {
        /// Durable, and no host has it.
        Admitted = "admitted",
        /// A host has it and has not begun.
        Claimed = "claimed",
        /// A host has begun.
        Applying = "applying",
        /// Over: the host did it.
        Applied = "applied",
        /// Over: the host refused it, in its own word.
        Rejected = "rejected",
        /// Over: nobody did it in time; the disposition says whether it may have run.
        Expired = "expired",
    }
}

impl CommandState {
    /// Whether it will never change again.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Applied | Self::Rejected | Self::Expired)
    }
}

/// What a command carries.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Carried {
    /// Nothing.
    #[default]
    Nothing,
    /// A text.
    Text(String),
    /// An object or an array; a host gets its text.
    Json(serde_json::Value),
    /// Anything, inline.
    Bytes(Bytes),
    /// A content that is stored for the session, by its digest; see [`digest`].
    Stored(String),
}

impl fmt::Debug for Carried {
    /// A payload may be anything, so it is never printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Json(_) => f.write_str("Json"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Stored(sha256) => write!(f, "Stored({sha256})"),
        }
    }
}

/// The SHA-256 of a content, as the command plane writes it.
pub fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Serialize for Carried {
    /// As the one member that carries it, beside those of the request; none for nothing.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        match self {
            Self::Nothing => {}
            Self::Text(text) => members.serialize_entry("payload", text)?,
            Self::Json(value) => members.serialize_entry("payload", value)?,
            Self::Bytes(bytes) => members.serialize_entry("payload_base64", &BASE64.encode(bytes))?,
            Self::Stored(sha256) => members.serialize_entry("payload_ref", sha256)?,
        }
        members.end()
    }
}

/// Asks for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionCreate {
    /// A profile that the server's configuration names.
    pub profile: String,
    /// What the create carries.
    #[serde(flatten)]
    pub payload: Carried,
    /// How long a host has to begin; the server's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_within_ms: Option<u64>,
}

/// A command to a session that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandRequest {
    /// What it asks for; not `create`.
    pub kind: CommandKind,
    /// What it carries. Its members stand beside the others.
    #[serde(flatten)]
    pub payload: Carried,
    /// How long a host has to begin; the server's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_within_ms: Option<u64>,
}

impl CommandRequest {
    /// A command of this kind.
    pub fn new(kind: CommandKind, payload: Carried) -> Self {
        Self { kind, payload, apply_within_ms: None }
    }

    /// The answer to a player who waits at the session's gate.
    pub fn gate_response(attempt: AttemptId, admit: bool) -> Self {
        let payload = serde_json::json!({ "attempt_id": attempt.to_string(), "admit": admit });
        Self::new(CommandKind::GateResponse, Carried::Json(payload))
    }
}

/// Who has a command in hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimView {
    /// The host.
    pub host: String,
    /// Its lease's number.
    pub epoch: u64,
    /// RFC 3339.
    pub until: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeView {
    /// `applied`, a host's own word, `never_claimed` (it did not run) or `claimed_not_applied` (it may have run).
    pub code: String,
    /// The host, or the deployment.
    pub by: String,
    /// RFC 3339.
    pub at: String,
    /// Begun in time and reported after the deadline.
    #[serde(default)]
    pub late: bool,
}

/// A stored content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPayload {
    /// Its digest.
    pub sha256: String,
    /// Bytes.
    pub len: u64,
}

/// A command.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandView {
    /// Its session.
    pub session_id: SessionId,
    /// Its number in the session: 1, 2, 3 and so on, without a gap.
    pub command: u64,
    /// What it asks for.
    pub kind: CommandKind,
    /// How far it has come.
    pub state: CommandState,
    /// Counts its changes.
    pub revision: u64,
    /// RFC 3339, by the store's clock as all times here.
    pub admitted_at: String,
    /// The principal.
    pub admitted_by: String,
    /// RFC 3339: until when a host may begin.
    pub deadline: String,
    /// How many leases it was handed to.
    #[serde(default)]
    pub deliveries: u32,
    /// Who has it in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeView>,
    /// For hosts: what it carries, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// For hosts: what it carries, if that is anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// For hosts: where what it carries is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_ref: Option<StoredPayload>,
}

impl fmt::Debug for CommandView {
    /// What it carries is never printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session_id, command, kind, state, revision, outcome, .. } = self;
        write!(f, "CommandView({session_id} {command} {kind} {state}, revision {revision}, {outcome:?})")
    }
}

impl CommandView {
    /// For hosts: what it carries. `None` when that is no base64.
    pub fn carried(&self) -> Option<Carried> {
        Some(match (&self.payload, &self.payload_base64, &self.payload_ref) {
            (Some(text), _, _) => Carried::Text(text.clone()),
            (None, Some(text), _) => Carried::Bytes(BASE64.decode(text).ok()?.into()),
            (None, None, Some(stored)) => Carried::Stored(stored.sha256.clone()),
            (None, None, None) => Carried::Nothing,
        })
    }
}

/// What a create is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The session.
    pub session_id: SessionId,
    /// Its create, command 1.
    pub command: CommandView,
}

/// Who runs a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerView {
    /// The host.
    pub host: String,
    /// Its lease's number.
    pub epoch: u64,
    /// RFC 3339.
    pub expires_at: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// The session.
    pub session_id: SessionId,
    /// As asked for.
    pub profile: String,
    /// Which hosts may run it.
    pub target_key: String,
    /// What they are to run.
    pub workload: String,
    /// `open`, or `closed`: it takes no more commands.
    pub state: String,
    /// RFC 3339.
    pub created_at: String,
    /// The number of the last command.
    pub commands: u64,
    /// Commands that have not ended.
    pub open_commands: u32,
    /// The host that it is proposed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<String>,
    /// The host that holds its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerView>,
}

/// A player who waits at a session's gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateItem {
    /// For [`CommandRequest::gate_response`].
    #[serde(deserialize_with = "super::types::attempt_id", serialize_with = "super::types::display")]
    pub attempt_id: AttemptId,
    /// RFC 3339: until when it waits.
    pub expires_at: String,
    /// What the player sent along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joiner_payload: Option<String>,
}

/// Who waits at a session's gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// Newer than asked for, and not answered.
    #[serde(default)]
    pub attempts: Vec<GateItem>,
    /// To be sent as `after`.
    pub commit: u64,
}
