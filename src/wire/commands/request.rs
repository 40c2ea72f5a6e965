//! What back ends and hosts send.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// What a command carries: nothing, or exactly one of the three.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct PayloadBody {
    /// A text, which is carried as its UTF-8 bytes; or an object or array, which is carried as its compact JSON text with
    /// the members of each object sorted by name. Up to 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub payload: Option<serde_json::Value>,
    /// Any bytes, in base64 with padding (RFC 4648 section 4). Up to 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub payload_base64: Option<String>,
    /// The SHA-256, as 64 lower-case hex digits, of a content that is stored for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, pattern = "^[0-9a-f]{64}$"))]
    pub payload_ref: Option<String>,
}

impl std::fmt::Debug for PayloadBody {
    /// A payload may be anything, so it is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadBody").field("payload_ref", &self.payload_ref).finish_non_exhaustive()
    }
}

/// `POST /v1/tenants/{tenant}/sessions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CreateSessionBody {
    /// A configured profile: what to launch.
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 64, example = "arena"))]
    pub profile: String,
    /// What the create carries.
    #[serde(flatten)]
    pub payload: PayloadBody,
    /// How long a host has to begin, 100 ms to 7 days; the server's default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, example = 30000))]
    pub apply_within_ms: Option<u64>,
}

/// What a command asks of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum KindName {
    /// Start the session: always the first command, and never sent by itself.
    Create,
    /// Take something in.
    Input,
    /// Stop what is under way.
    Interrupt,
    /// Let a waiting player in, or not; the payload is a [`GateResponseBody`].
    GateResponse,
    /// Go back to a saved state.
    Restore,
}

impl KindName {
    /// All kinds with their words.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Create, "create"),
        (Self::Input, "input"),
        (Self::Interrupt, "interrupt"),
        (Self::GateResponse, "gate_response"),
        (Self::Restore, "restore"),
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// `POST /v1/tenants/{tenant}/sessions/{session_id}/commands`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SendCommandBody {
    /// Anything but `create`.
    pub kind: KindName,
    /// What the command carries.
    #[serde(flatten)]
    pub payload: PayloadBody,
    /// How long a host has to begin; the server's default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub apply_within_ms: Option<u64>,
}

/// The payload of a `gate_response`, when it is sent and when a host gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct GateResponseBody {
    /// The join attempt, as 32 lower-case hex digits.
    #[cfg_attr(feature = "server", schema(pattern = "^[0-9a-f]{32}$"))]
    pub attempt_id: String,
    /// Whether it may come in.
    pub admit: bool,
}

/// `PUT /v1/hosts/{host}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct HostBody {
    /// What it can run; one of its credential's.
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 128))]
    pub target_key: String,
    /// Most sessions at a time; with zero it takes no new one.
    #[cfg_attr(feature = "server", schema(maximum = 4096))]
    pub capacity: u32,
}

/// What to do with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeaseAction {
    /// Take it, under a new epoch.
    Acquire,
    /// Extend it.
    Renew,
    /// Let go of it.
    Release,
}

/// `POST /v1/tenants/{tenant}/sessions/{session_id}/lease`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct LeaseBody {
    /// What to do.
    pub action: LeaseAction,
    /// Which of the credential's hosts does it.
    pub host: String,
    /// The lease's number; with `renew` and `release` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub epoch: Option<u64>,
    /// For how long, cut to the server's bounds; with `acquire` and `renew` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub ttl_ms: Option<u64>,
    /// Whether the session is over and takes no more commands; with `release` only, false when left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "server", schema(required = false, default = false))]
    pub close: bool,
}

/// `POST .../commands/{command}/claim`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ClaimBody {
    /// The host.
    pub host: String,
    /// Its lease's number.
    pub epoch: u64,
    /// For how long, cut to the server's bounds and at the command's deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub ttl_ms: Option<u64>,
}

/// `POST .../commands/{command}/begin` and `.../settle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct BeginBody {
    /// The host.
    pub host: String,
    /// Its lease's number.
    pub epoch: u64,
}

/// How an application went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResultName {
    /// The host did what was asked.
    Applied,
    /// It refused.
    Rejected,
}

/// `POST .../commands/{command}/complete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CompleteBody {
    /// The host.
    pub host: String,
    /// Its lease's number.
    pub epoch: u64,
    /// How it went.
    pub result: ResultName,
    /// With `rejected`: why, in a word of the host's own, 1 to 64 visible ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub code: Option<String>,
}
