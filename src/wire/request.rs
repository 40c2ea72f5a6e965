//! What clients send. Absent members are left out, never `null`.

use serde::Serialize;
use std::collections::BTreeMap;
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// Whether browsing shows a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VisibilityName {
    /// Shown to browsers.
    Public,
    /// Reachable by its id only.
    Unlisted,
}

/// A game's own attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(untagged)]
pub enum AttributeBody {
    /// Up to 256 characters.
    Text(String),
    /// Within plus or minus 2^53 - 1.
    Integer(i64),
    /// True or false.
    Boolean(bool),
}

/// What browsers see of a session; at most 2 KiB of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DetailsBody {
    /// 1 to 64 visible characters after NFC normalisation.
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 64, example = "Friday night"))]
    pub name: String,
    /// 1 to 64 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, min_length = 1, max_length = 64))]
    pub map: Option<String>,
    /// 1 to 64 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, min_length = 1, max_length = 64))]
    pub mode: Option<String>,
    /// 1 to 64 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, min_length = 1, max_length = 64))]
    pub region: Option<String>,
    /// Players now; 0 when left out, at most `max_players`.
    #[cfg_attr(feature = "server", schema(required = false, default = 0))]
    pub players: u16,
    /// Places in all.
    pub max_players: u16,
    /// False when left out.
    #[cfg_attr(feature = "server", schema(required = false, default = false))]
    pub password_required: bool,
    /// At most 16, each 1 to 32 characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false, max_items = 16))]
    pub tags: Vec<String>,
    /// At most 32, names of 1 to 32 characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub attributes: BTreeMap<String, AttributeBody>,
}

/// `POST /v1/tenants/{tenant}/listings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterBody {
    /// 1 to 64 of `a-z 0-9 . _ - /`.
    #[cfg_attr(feature = "server", schema(pattern = "^[a-z0-9._/-]{1,64}$", example = "arena/3"))]
    pub protocol: String,
    /// Public when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub visibility: Option<VisibilityName>,
    /// Lifetime of the lease; the server's default when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, example = 60000))]
    pub ttl_ms: Option<u64>,
    /// What browsers see.
    pub details: DetailsBody,
    /// At most 4 private or unique-local `ip:port`, for peers behind the same NAT only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false, max_items = 4))]
    pub candidates: Vec<String>,
    /// Whether joins wait for the owner's answer; false when left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "server", schema(required = false, default = false))]
    pub gate: bool,
    /// The command plane's session that this listing is for; for a host that holds its lease. With `gate`, join attempts
    /// are items of the session's gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, pattern = "^[0-9a-f]{32}$"))]
    pub session_id: Option<String>,
}

/// `POST /v1/tenants/{tenant}/listings/{listing_id}/renew`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewBody {
    /// Keeps the last lifetime when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub ttl_ms: Option<u64>,
    /// Replaces the details as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub details: Option<DetailsBody>,
    /// Replaces the visibility.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub visibility: Option<VisibilityName>,
}

/// `POST /v1/tenants/{tenant}/listings/{listing_id}/attempts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AttemptBody {
    /// When given it must equal the listing's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub protocol: Option<String>,
    /// At most 4 private or unique-local `ip:port`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false, max_items = 4))]
    pub candidates: Vec<String>,
    /// Opaque, up to 1 KiB of UTF-8, shown to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, max_length = 1024))]
    pub payload: Option<String>,
}

/// `POST /v1/tenants/{tenant}/attempts/{attempt_id}/admission`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdmissionBody {
    /// True opens the gate, false ends the attempt.
    pub admit: bool,
}

/// The path over which two peers finally spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathName {
    /// Peer to peer.
    Direct,
    /// Over a relay.
    Relayed,
    /// Not at all.
    Failed,
}

/// `POST /v1/tenants/{tenant}/attempts/{attempt_id}/outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OutcomeBody {
    /// What this side saw.
    pub path: PathName,
}

/// `POST /v1/operator/revocations`. Exactly one of `listing_id` and `principal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RevocationBody {
    /// The tenant's name.
    pub tenant: String,
    /// The listing to revoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub listing_id: Option<String>,
    /// The principal to revoke, by its full name (`guest:` prefix for guests).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub principal: Option<String>,
    /// 1 s to 30 days.
    #[cfg_attr(feature = "server", schema(minimum = 1000, maximum = 2592000000_u64))]
    pub ttl_ms: u64,
}

/// `POST /v1/operator/drain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// The configured window when left out; 0 to 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, maximum = 30000))]
    pub window_ms: Option<u32>,
}
