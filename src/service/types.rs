//! What edges hand to the service and get from it. No format of the wire appears here.

use crate::credentials::Secret;
use crate::domain::{
    AttemptId, Candidates, Details, ListingId, PendingAttempt, Principal, Scope, SessionRef, Source, Ttl, Visibility,
    WallTime,
};
use crate::domain::{AttemptState, ListingEnd};
use std::sync::Arc;

/// What browsing hands to an edge, and whether the store answers.
pub mod view {
    pub use crate::store::page::{PAGE_DEFAULT, PAGE_MAX};
    pub use crate::store::{Availability, BrowseQuery, PageView};
}

/// An authenticated principal at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Tenant and digest.
    pub principal: Principal,
    /// The source prefix, for guests only.
    pub guest_source: Option<Source>,
}

/// A result and what its answer has to carry besides.
#[derive(Clone, Debug)]
pub struct Applied<T> {
    /// The result.
    pub value: T,
    /// The commit after the transition.
    pub commit: u64,
    /// True when an idempotency key gave the original result again.
    pub replayed: bool,
}

/// A registration as parsed and defaulted by an edge.
#[derive(Clone, Debug)]
pub struct RegisterRequest {
    /// Tenant and protocol.
    pub scope: Scope,
    /// Whether browsing shows it.
    pub visibility: Visibility,
    /// What browsers see.
    pub details: Details,
    /// Lifetime of the lease.
    pub ttl: Ttl,
    /// Whether joins wait for the owner's answer.
    pub gate: bool,
    /// The session of the command plane that the listing is for; whoever asks for it has shown that it runs it.
    pub session: Option<SessionRef>,
    /// Private addresses.
    pub candidates: Candidates,
}

/// What a host gets for a registration.
#[derive(Clone, Debug)]
pub struct ListingGrant {
    /// The listing.
    pub listing: ListingId,
    /// Always 1.
    pub version: u64,
    /// When the lease ends, as first returned.
    pub expires_at: WallTime,
    /// The lease's lifetime as granted.
    pub ttl_ms: u32,
    /// Proves the lease.
    pub lease_token: Secret,
    /// The presence credential.
    pub presence: Credential,
    /// Advised interval of presence datagrams, drawn per listing.
    pub presence_interval_ms: u32,
    /// How long one datagram keeps a family fresh.
    pub presence_ttl_ms: u32,
    /// STUN URIs of this server's UDP listeners.
    pub stun: Arc<[String]>,
}

/// A STUN long-term credential.
#[derive(Clone, Debug)]
pub struct Credential {
    /// USERNAME.
    pub username: String,
    /// The password, used as its ASCII bytes.
    pub password: Secret,
}

/// A TURN server with a credential minted for one attempt.
#[derive(Clone, Debug)]
pub struct TurnGrant {
    /// URIs.
    pub uris: Arc<[String]>,
    /// `<unix expiry>:<attempt id>`.
    pub username: String,
    /// base64(HMAC-SHA1(secret, username)).
    pub credential: Secret,
    /// Lifetime from now.
    pub ttl_ms: u64,
}

/// A renewal as parsed by an edge.
#[derive(Clone, Debug)]
pub struct RenewRequest {
    /// The version that the caller saw.
    pub version: u64,
    /// Keeps the last lifetime when absent.
    pub ttl: Option<Ttl>,
    /// Replaces the details as a whole.
    pub details: Option<Details>,
    /// Replaces the visibility.
    pub visibility: Option<Visibility>,
}

/// A join attempt as parsed by an edge.
#[derive(Clone, Debug)]
pub struct AttemptRequest {
    /// The listing.
    pub listing: ListingId,
    /// When given it must equal the listing's.
    pub protocol: Option<Arc<str>>,
    /// Private addresses.
    pub candidates: Candidates,
    /// Opaque, for the host.
    pub payload: Option<Arc<str>>,
}

/// What a joiner gets for an attempt.
#[derive(Clone, Debug)]
pub struct AttemptGrant {
    /// The attempt.
    pub attempt: AttemptId,
    /// When it ends, as first returned.
    pub expires_at: WallTime,
    /// The joiner's bind credential.
    pub bind: Credential,
    /// The peers' key.
    pub peer_key: Secret,
    /// STUN URIs.
    pub stun: Arc<[String]>,
    /// TURN, when configured.
    pub turn: Vec<TurnGrant>,
}

/// A pending attempt with what its host needs to answer it.
#[derive(Clone, Debug)]
pub struct HostOffer {
    /// As the store holds it.
    pub pending: PendingAttempt,
    /// The host's bind credential.
    pub bind: Credential,
    /// The peers' key.
    pub peer_key: Secret,
    /// TURN, when configured.
    pub turn: Vec<TurnGrant>,
}

/// Answer of a host's long poll.
#[derive(Clone, Debug)]
pub struct HostOffers {
    /// Newer than asked for.
    pub attempts: Vec<HostOffer>,
    /// To be sent as `after` next time.
    pub commit: u64,
    /// Set when the listing ended while the poll waited.
    pub ended: Option<ListingEnd>,
}

/// One side's view of an attempt, with TURN when configured.
#[derive(Clone, Debug)]
pub struct AttemptStatus {
    /// Live or ended.
    pub state: AttemptState,
    /// The commit of its last change.
    pub commit: u64,
    /// TURN, while it is live and configured.
    pub turn: Vec<TurnGrant>,
}

/// The policy that the service attaches to commands.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Listings per owner.
    pub listings_per_owner: u32,
    /// Active attempts per tenant.
    pub attempts_per_tenant: u32,
    /// Active attempts per listing.
    pub attempts_per_listing: u32,
    /// Active attempts per joining principal.
    pub attempts_per_principal: u32,
    /// Listings per guest source.
    pub guest_listings_per_source: u32,
    /// Active attempts per guest source.
    pub guest_attempts_per_source: u32,
    /// Waiting long polls.
    pub long_polls: u32,
    /// Default drain window.
    pub drain_window_ms: u32,
    /// TURN, when configured.
    pub turn: Option<TurnPolicy>,
}

/// A coturn-compatible server.
#[derive(Clone, Debug)]
pub struct TurnPolicy {
    /// URIs.
    pub uris: Arc<[String]>,
    /// The shared secret.
    pub secret: Secret,
    /// Lifetime of a minted credential.
    pub ttl_ms: u64,
}

/// A revocation's subject by name, as an operator gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedSubject {
    /// A listing of the tenant.
    Listing(ListingId),
    /// A principal of the tenant, by its full name (`guest:` prefix for guests).
    Principal(String),
}

/// How an answer to a session's gate was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswered {
    /// The gate is open, or the attempt refused.
    AsAsked,
    /// The attempt is over, or was never at this gate.
    Gone,
}

/// Who waits at a session's gate.
#[derive(Clone, Debug)]
pub struct GateItems {
    /// In the order of their creation.
    pub attempts: Vec<PendingAttempt>,
    /// To ask on after.
    pub commit: u64,
}
