//! What the server answers. Clients ignore members that they don't know.

use crate::credentials::Secret;
use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// Secrets travel as strings and print as `[redacted]`.
mod secret_text {
    use super::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// A guest's identity.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct GuestAnswer {
    /// The full name, with its `guest:` prefix.
    pub principal: String,
    /// To be sent as `Authorization: Bearer <token>`.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub token: Secret,
    /// When the token ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
}

/// A STUN long-term credential.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CredentialAnswer {
    /// USERNAME.
    pub username: String,
    /// The password, used as its ASCII bytes.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub password: Secret,
}

/// A TURN server with a credential for one attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct TurnAnswer {
    /// `turn:` and `turns:` URIs.
    pub uris: Vec<String>,
    /// USERNAME.
    pub username: String,
    /// The password.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub credential: Secret,
    /// Lifetime from now.
    pub ttl_ms: u64,
}

/// How a host proves its presence.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct PresenceAnswer {
    /// USERNAME.
    pub username: String,
    /// The password, used as its ASCII bytes.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub password: Secret,
    /// REALM.
    pub realm: String,
    /// Advised interval between presence datagrams.
    pub interval_ms: u32,
    /// How long one datagram keeps its address family fresh.
    pub ttl_ms: u32,
    /// Where to send them.
    pub stun: Vec<String>,
}

/// A registered listing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ListingAnswer {
    /// 32 lower-case hex digits; the invitation to an unlisted session.
    pub listing_id: String,
    /// Always 1.
    pub version: u64,
    /// When the lease ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The lease's lifetime.
    pub ttl_ms: u32,
    /// Proves the lease; sent as `Lease-Token`.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub lease_token: Secret,
    /// The presence credential.
    pub presence: PresenceAnswer,
}

/// A renewed lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct RenewAnswer {
    /// The listing.
    pub listing_id: String,
    /// The new version, also in `ETag`.
    pub version: u64,
    /// When the lease ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The lifetime in force.
    pub ttl_ms: u32,
    /// `public` or `unlisted`.
    pub visibility: String,
}

/// A join attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct AttemptAnswer {
    /// 32 lower-case hex digits.
    pub attempt_id: String,
    /// When the attempt ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The joiner's bind credential.
    pub bind: CredentialAnswer,
    /// With it the two peers recognise each other.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub peer_key: Secret,
    /// REALM of the bind credential.
    pub realm: String,
    /// Where to bind.
    pub stun: Vec<String>,
    /// Relays, when the server has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub turn: Vec<TurnAnswer>,
}

/// A pending attempt as its host sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct OfferAnswer {
    /// The attempt.
    pub attempt_id: String,
    /// When it ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The joiner's opaque payload, when it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub joiner_payload: Option<String>,
    /// True while the host still has to admit or refuse it.
    #[serde(default)]
    pub gated: bool,
    /// The host's bind credential.
    pub bind: CredentialAnswer,
    /// With it the two peers recognise each other.
    #[serde(with = "secret_text")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub peer_key: Secret,
    /// Relays, when the server has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub turn: Vec<TurnAnswer>,
}

/// Pending attempts of a listing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct OffersAnswer {
    /// Newer than `after`.
    pub attempts: Vec<OfferAnswer>,
    /// To be sent as `after` next time.
    pub commit: u64,
    /// True when the listing ended while the poll waited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub ended: bool,
    /// Why it ended: `deleted`, `expired`, `never_present`, `revoked` or `drained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub reason: Option<String>,
}

/// One side's view of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct AttemptStateAnswer {
    /// The attempt.
    pub attempt_id: String,
    /// `waiting`, `introduced`, or how it ended: `done`, `closed`, `refused`, `expired`, `revoked`, `listing_gone`,
    /// `drained`, `no_common_family`.
    pub state: String,
    /// Why it ended, finer than the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub reason: Option<String>,
    /// When it ends, while it lives; informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub expires_at: Option<String>,
    /// The caller's own endpoints as observed, `ip:port`.
    #[serde(default)]
    pub own: Vec<String>,
    /// The other side's endpoints, after the introduction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub peer: Option<Vec<String>>,
    /// The commit of its last change; to be sent as `after` next time.
    pub commit: u64,
    /// Relays, while it lives and the server has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub turn: Vec<TurnAnswer>,
}

/// One address family's endpoint in the owner's view.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct EndpointAnswer {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// `ip:port` as observed.
    pub address: String,
    /// `none`, `unverified`, `verified` or `stale`.
    pub presence: String,
}

/// The owner's view of its lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct LeaseAnswer {
    /// The current version.
    pub version: u64,
    /// When the lease ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
    /// The best of all families.
    pub presence: String,
    /// What is known of each family.
    pub endpoints: Vec<EndpointAnswer>,
}

/// What a revocation removed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct RemovedAnswer {
    /// Listings.
    pub listings: u32,
    /// Attempts.
    pub attempts: u32,
}

/// A revocation in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct RevocationAnswer {
    /// What went with it.
    pub removed: RemovedAnswer,
    /// When it ends; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub expires_at: String,
}

/// A drain under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct DrainAnswer {
    /// When everything left is let go; informational.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub drain_deadline: String,
}

/// One pool against its ceiling.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CountAnswer {
    /// Live records.
    pub live: u32,
    /// The ceiling.
    pub ceiling: u32,
}

/// All pools.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct CountsAnswer {
    /// Live listings.
    pub listings: CountAnswer,
    /// Listings that never had presence.
    pub unproven_listings: CountAnswer,
    /// Live presences.
    pub presence: CountAnswer,
    /// Live attempts.
    pub attempts: CountAnswer,
    /// Idempotency records.
    pub idempotency: CountAnswer,
    /// Single-use keys.
    pub replay: CountAnswer,
    /// Revocations in force.
    pub revocations: CountAnswer,
}

/// The view that browsing reads.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SnapshotAnswer {
    /// Its commit.
    pub commit: u64,
    /// How long browsing has been behind the last commit; 0 while it is not.
    pub age_ms: u64,
}

/// Commands that wait.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct LaneAnswer {
    /// Of the class that is shed first.
    pub queued_creations: usize,
    /// Of the class that is served first.
    pub queued_keep_alives: usize,
}

/// `GET /v1/operator/status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct StatusAnswer {
    /// This life of the process.
    pub instance: String,
    /// `available`, `draining` or `unavailable`.
    pub availability: String,
    /// Set once drain has begun.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub drain_deadline: Option<String>,
    /// The last accepted transition.
    pub commit: u64,
    /// What browsing sees.
    pub snapshot: SnapshotAnswer,
    /// Queue depths.
    pub lane: LaneAnswer,
    /// Null when the store can't count any more.
    pub counts: Option<CountsAnswer>,
}

/// `GET /livez` and `GET /readyz`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct HealthAnswer {
    /// `ok`, `draining` or `unavailable`.
    pub status: String,
    /// In words.
    pub reason: String,
    /// Set once drain has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub drain_deadline: Option<String>,
}

/// A listing as browsers see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ListingRow {
    /// 32 lower-case hex digits.
    pub listing_id: String,
    /// The protocol.
    pub protocol: String,
    /// When it was registered.
    #[cfg_attr(feature = "server", schema(format = DateTime))]
    pub created_at: String,
    /// The session's name.
    pub name: String,
    /// When given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub map: Option<String>,
    /// When given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub mode: Option<String>,
    /// When given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub region: Option<String>,
    /// Players now.
    pub players: u16,
    /// Places in all.
    pub max_players: u16,
    /// Whether the host asks for a password.
    pub password_required: bool,
    /// In the host's order.
    pub tags: Vec<String>,
    /// Strings, integers and booleans, by name.
    #[cfg_attr(feature = "server", schema(value_type = std::collections::BTreeMap<String, super::request::AttributeBody>))]
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// One page of browsing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct PageAnswer {
    /// In listing-id order.
    pub listings: Vec<ListingRow>,
    /// To be sent as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// One refused field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct FieldErrorAnswer {
    /// JSON pointer into the body; empty for the body as a whole, for a header and for a query parameter.
    pub pointer: String,
    /// The query parameter, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub parameter: Option<String>,
    /// The header, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub header: Option<String>,
    /// Where in a filter, in characters from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, minimum = 1))]
    pub position: Option<usize>,
    /// What is expected.
    pub detail: String,
}

/// `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ProblemAnswer {
    /// `urn:rendezvous:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every problem of a code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was expected and what to do.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// Finer than the code, where there is something finer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub reason: Option<String>,
    /// `unknown` when the change may have happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub outcome: Option<String>,
    /// What is full, with `capacity_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub resource: Option<String>,
    /// The version in force, with a stale `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub current_version: Option<u64>,
    /// The session that a create has prepared, when what it carries is still missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub session_id: Option<String>,
    /// With `draining`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false, format = DateTime))]
    pub drain_deadline: Option<String>,
    /// With `invalid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub errors: Vec<FieldErrorAnswer>,
}
