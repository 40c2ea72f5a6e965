//! Bodies as a client sees them: every field that it doesn't know is ignored, so a newer server stays readable.

use crate::credentials::Secret;
use crate::domain::{AttemptId, InstanceId, ListingId};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A guest's identity.
#[derive(Clone, Debug, Deserialize)]
pub struct Guest {
    /// `guest:` and a name.
    pub principal: String,
    /// Bearer token.
    #[serde(deserialize_with = "secret")]
    pub token: Secret,
    /// RFC 3339.
    pub expires_at: String,
}

/// What browsers see of a session. Only `name` and `max_players` are required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListingDetails {
    /// 1 to 64 characters.
    pub name: String,
    /// Map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Players now.
    pub players: u16,
    /// Room for so many.
    pub max_players: u16,
    /// Whether the game asks for a password.
    pub password_required: bool,
    /// At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// At most 32; text, integer or boolean.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, serde_json::Value>,
}

/// Who sees a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everybody who browses.
    #[default]
    Public,
    /// Only who has its id.
    Unlisted,
}

/// A registration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// 1 to 64 of `a-z 0-9 . _ - /`; players find and join only their own protocol.
    pub protocol: String,
    /// Who sees it.
    pub visibility: Visibility,
    /// Lease in milliseconds; the server's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u32>,
    /// What browsers see.
    pub details: ListingDetails,
    /// Private addresses for players behind the same NAT, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<SocketAddr>,
    /// Whether joins wait for the host's answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// The session of the command plane that the game is, for who runs it: its gate is the session's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<super::SessionId>,
}

/// What a host gets for a registration.
#[derive(Clone, Debug, Deserialize)]
pub struct Registered {
    /// The listing; never a secret.
    #[serde(deserialize_with = "listing_id")]
    pub listing_id: ListingId,
    /// For `If-Match` of the next renewal.
    pub version: u64,
    /// RFC 3339.
    pub expires_at: String,
    /// As granted.
    pub ttl_ms: u32,
    /// Proves the lease.
    #[serde(deserialize_with = "secret")]
    pub lease_token: Secret,
    /// How to prove presence.
    pub presence: PresenceGrant,
    /// The instance that granted it.
    #[serde(skip)]
    pub instance: Option<InstanceId>,
}

/// How to prove presence.
#[derive(Clone, Debug, Deserialize)]
pub struct PresenceGrant {
    /// USERNAME.
    pub username: String,
    /// The long-term password.
    #[serde(deserialize_with = "secret")]
    pub password: Secret,
    /// REALM.
    pub realm: String,
    /// Advised interval.
    pub interval_ms: u32,
    /// How long one datagram counts.
    pub ttl_ms: u32,
    /// STUN URIs.
    #[serde(default)]
    pub stun: Vec<String>,
}

/// A renewal's answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Renewed {
    /// For the next `If-Match`.
    pub version: u64,
    /// RFC 3339.
    pub expires_at: String,
    /// As granted; the last one when the answer doesn't say.
    #[serde(default)]
    pub ttl_ms: Option<u32>,
}

/// What a renewal changes besides the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Renewal {
    /// Another lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u32>,
    /// Other details, as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<ListingDetails>,
    /// Another visibility.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
}

/// The owner's view of its lease.
#[derive(Clone, Debug, Deserialize)]
pub struct LeaseView {
    /// The current version.
    pub version: u64,
    /// RFC 3339.
    pub expires_at: String,
    /// `none`, `unverified`, `verified` or `stale`.
    pub presence: String,
    /// Endpoints as the server observed them.
    #[serde(default)]
    pub endpoints: Vec<EndpointView>,
    /// The instance that answered.
    #[serde(skip)]
    pub instance: Option<InstanceId>,
}

/// One observed endpoint.
#[derive(Clone, Debug, Deserialize)]
pub struct EndpointView {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// `ip:port`.
    pub address: SocketAddr,
    /// As in [`LeaseView::presence`].
    pub presence: String,
}

/// A row of browsing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// What a joiner needs.
    #[serde(deserialize_with = "listing_id", serialize_with = "display")]
    pub listing_id: ListingId,
    /// The game's protocol.
    pub protocol: String,
    /// RFC 3339.
    pub created_at: String,
    /// What the host says.
    #[serde(flatten)]
    pub details: ListingDetails,
}

/// One page of browsing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Page {
    /// In listing-id order.
    pub listings: Vec<Listing>,
    /// Where the next page begins.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// For `If-None-Match` of the next fetch of this page.
    #[serde(skip)]
    pub etag: Option<String>,
}

/// What a joiner sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinRequest {
    /// When given it must be the listing's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Private addresses for a host behind the same NAT, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<SocketAddr>,
    /// For the host, up to 1 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}

/// A STUN long-term credential.
#[derive(Clone, Debug, Deserialize)]
pub struct BindGrant {
    /// USERNAME.
    pub username: String,
    /// The password.
    #[serde(deserialize_with = "secret")]
    pub password: Secret,
}

/// A TURN relay with a credential for one attempt.
#[derive(Clone, Debug, Deserialize)]
pub struct TurnGrant {
    /// `turn:` and `turns:` URIs.
    pub uris: Vec<String>,
    /// USERNAME.
    pub username: String,
    /// The password.
    #[serde(deserialize_with = "secret")]
    pub credential: Secret,
    /// Lifetime from now.
    pub ttl_ms: u64,
}

/// What a joiner gets for an attempt.
#[derive(Clone, Debug, Deserialize)]
pub struct JoinTicket {
    /// The attempt; never a secret.
    #[serde(deserialize_with = "attempt_id")]
    pub attempt_id: AttemptId,
    /// RFC 3339.
    pub expires_at: String,
    /// For binding over UDP.
    pub bind: BindGrant,
    /// With which the peers know each other.
    #[serde(deserialize_with = "secret")]
    pub peer_key: Secret,
    /// REALM.
    pub realm: String,
    /// STUN URIs.
    #[serde(default)]
    pub stun: Vec<String>,
    /// Relays for the game's own use, when the server names any.
    #[serde(default)]
    pub turn: Vec<TurnGrant>,
}

/// A pending attempt as its host sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct PendingAttempt {
    /// The attempt.
    #[serde(deserialize_with = "attempt_id")]
    pub attempt_id: AttemptId,
    /// RFC 3339.
    pub expires_at: String,
    /// What the joiner sent along.
    #[serde(default)]
    pub joiner_payload: Option<String>,
    /// The host still has to admit or refuse it.
    #[serde(default)]
    pub gated: bool,
    /// The host's bind credential, equal to the one it can derive.
    pub bind: BindGrant,
    /// With which the peers know each other.
    #[serde(deserialize_with = "secret")]
    pub peer_key: Secret,
    /// Relays for the game's own use, when the server names any.
    #[serde(default)]
    pub turn: Vec<TurnGrant>,
}

/// Answer of a host's long poll.
#[derive(Clone, Debug, Deserialize)]
pub struct PendingAttempts {
    /// Newer than asked for.
    #[serde(default)]
    pub attempts: Vec<PendingAttempt>,
    /// To be sent as `after`.
    pub commit: u64,
    /// The listing ended while the poll waited.
    #[serde(default)]
    pub ended: bool,
    /// Why it ended.
    #[serde(default)]
    pub reason: Option<String>,
}

/// One side's view of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AttemptView {
    /// `waiting`, `introduced`, or how it ended (rule H5).
    pub state: String,
    /// Why it ended.
    #[serde(default)]
    pub reason: Option<String>,
    /// Own endpoints as observed.
    #[serde(default)]
    pub own: Vec<SocketAddr>,
    /// The other side's, after the introduction.
    #[serde(default)]
    pub peer: Vec<SocketAddr>,
    /// To be sent as `after`.
    #[serde(default)]
    pub commit: u64,
}

impl AttemptView {
    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        !matches!(self.state.as_str(), "waiting" | "introduced")
    }
}

/// How two peers met, for `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Packets go from peer to peer.
    Direct,
    /// Packets go through a relay.
    Relayed,
    /// They didn't meet.
    Failed,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

fn listing_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ListingId, D::Error> {
    let text = String::deserialize(deserializer)?;
    ListingId::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a listing id of 32 lower-case hex digits"))
}

pub(super) fn attempt_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AttemptId, D::Error> {
    let text = String::deserialize(deserializer)?;
    AttemptId::parse(&text)
        .ok_or_else(|| serde::de::Error::custom("expected an attempt id of 32 lower-case hex digits"))
}

pub(super) fn display<S: serde::Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
