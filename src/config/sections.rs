//! The sections of the configuration and their built-in values.

use crate::credentials::Secret;
use crate::domain::Limits;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Which store holds the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// One writer at a time behind two queues, readers on a published snapshot.
    #[default]
    Lane,
    /// Everything under one lock: the baseline.
    SingleLock,
}

/// `[server]`: addresses and the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSection {
    /// HTTP listener.
    pub http: SocketAddr,
    /// UDP listeners that answer plain Binding requests.
    pub udp: Vec<SocketAddr>,
    /// UDP listeners that challenge every request.
    pub udp_auth: Vec<SocketAddr>,
    /// Listener of `GET /metrics`.
    pub metrics: Option<SocketAddr>,
    /// The store.
    pub store: StoreKind,
    /// STUN URIs handed out; derived from the UDP listeners when empty.
    pub stun: Vec<String>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            http: loopback(8080),
            udp: vec![loopback(3478)],
            udp_auth: vec![loopback(3479)],
            metrics: None,
            store: StoreKind::Lane,
            stun: Vec::new(),
        }
    }
}

/// `[operator]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorSection {
    /// Keys, any of which is good.
    pub keys: Vec<Secret>,
    /// A file with one key a line.
    pub keys_file: Option<PathBuf>,
}

/// Who may browse a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Browse {
    /// Anyone.
    #[default]
    Public,
    /// Who has a token.
    Principal,
}

/// One `[[tenant]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Its name in paths.
    pub name: String,
    /// Who may browse.
    pub browse: Browse,
    /// Whether anybody may become a guest.
    pub guests: bool,
    /// `[tenant.jwt]`
    pub jwt: JwtSection,
}

/// Signature algorithm of a tenant's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256 and a shared secret.
    Hs256,
    /// Ed25519.
    EdDsa,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

/// `[tenant.jwt]` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtSection {
    /// The only accepted algorithm.
    pub algorithm: Option<JwtAlgorithm>,
    /// Shared secret, or public key as PEM.
    pub key: Option<Secret>,
    /// A file with the same.
    pub key_file: Option<PathBuf>,
    /// A file with a JSON Web Key Set.
    pub jwks_file: Option<PathBuf>,
    /// Required `aud`.
    pub audience: Option<String>,
    /// The content of `jwks_file`, once read.
    pub jwks: Option<String>,
}

/// Where a tenant's verification key comes from, once everything has been read.
#[derive(Clone, Copy, Debug)]
pub enum JwtKey<'a> {
    /// A shared secret or a PEM public key.
    Key(&'a Secret),
    /// A JSON Web Key Set.
    Jwks(&'a str),
}

impl JwtSection {
    /// Algorithm and key, when tokens are configured.
    pub fn verification(&self) -> Option<(JwtAlgorithm, JwtKey<'_>)> {
        let key = self.key.as_ref().map(JwtKey::Key).or_else(|| self.jwks.as_deref().map(JwtKey::Jwks))?;
        Some((self.algorithm?, key))
    }
}

/// `[limits]`: ceilings and quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsSection {
    /// Live listings.
    pub listings: u32,
    /// Listings without presence; half of the listings when not set.
    pub unproven_listings: Option<u32>,
    /// Live presences; twice the listings when not set.
    pub presence: Option<u32>,
    /// Live attempts.
    pub attempts: u32,
    /// Idempotency records.
    pub idempotency: u32,
    /// Single-use operator keys.
    pub replay: u32,
    /// Revocations in force.
    pub revocations: u32,
    /// Listings of one owner.
    pub listings_per_owner: u32,
    /// Active attempts of one tenant.
    pub attempts_per_tenant: u32,
    /// Active attempts on one listing.
    pub attempts_per_listing: u32,
    /// Active attempts of one joiner.
    pub attempts_per_principal: u32,
    /// Guests' listings of one source.
    pub guest_listings_per_source: u32,
    /// Guests' attempts of one source.
    pub guest_attempts_per_source: u32,
    /// Creations that wait in the lane.
    pub lane_creations: u32,
    /// Keep-alives that wait in the lane.
    pub lane_keep_alives: u32,
    /// HTTP connections.
    pub connections: u32,
    /// HTTP connections of one source.
    pub connections_per_source: u32,
    /// Waiting long polls; listings + 2 x attempts + 1,024 when not set.
    pub long_polls: Option<u32>,
}

impl Default for LimitsSection {
    fn default() -> Self {
        let store = Limits::default();
        Self {
            listings: store.listings,
            unproven_listings: None,
            presence: None,
            attempts: store.attempts,
            idempotency: store.idempotency,
            replay: store.replay,
            revocations: store.revocations,
            listings_per_owner: 4,
            attempts_per_tenant: 5_000,
            attempts_per_listing: 64,
            attempts_per_principal: 8,
            guest_listings_per_source: 32,
            guest_attempts_per_source: 128,
            lane_creations: 4_096,
            lane_keep_alives: 4_096,
            connections: 8_192,
            connections_per_source: 512,
            long_polls: None,
        }
    }
}

impl LimitsSection {
    /// As set, or half of the listings.
    pub fn unproven_listings(&self) -> u32 {
        self.unproven_listings.unwrap_or((self.listings / 2).max(1))
    }

    /// As set, or both families of every listing.
    pub fn presence(&self) -> u32 {
        self.presence.unwrap_or(self.listings.saturating_mul(2))
    }

    /// As set, or one for each listing and two for each attempt, and some for what is just being replaced.
    pub fn long_polls(&self) -> u32 {
        let every = self.attempts.saturating_mul(2).saturating_add(self.listings).saturating_add(1_024);
        self.long_polls.unwrap_or(every)
    }
}

/// `[lease]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSection {
    /// Lifetime when a registration names none.
    pub ttl_ms: u32,
    /// Least lifetime.
    pub ttl_min_ms: u32,
    /// Greatest lifetime.
    pub ttl_max_ms: u32,
    /// Time to prove presence.
    pub unproven_window_ms: u32,
}

impl Default for LeaseSection {
    fn default() -> Self {
        let store = Limits::default();
        Self {
            ttl_ms: store.lease_ttl.default_ms,
            ttl_min_ms: store.lease_ttl.min_ms,
            ttl_max_ms: store.lease_ttl.max_ms,
            unproven_window_ms: store.unproven_window_ms,
        }
    }
}

/// `[presence]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceSection {
    /// How long one datagram keeps a family fresh.
    pub ttl_ms: u32,
    /// Whether stock STUN clients may refresh without RV-SEQUENCE.
    pub sequence_optional: bool,
}

impl Default for PresenceSection {
    fn default() -> Self {
        let store = Limits::default();
        Self { ttl_ms: store.presence_ttl_ms, sequence_optional: store.sequence_optional }
    }
}

/// `[attempt]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSection {
    /// Lifetime.
    pub ttl_ms: u32,
    /// Time for the joiner to bind.
    pub bind_window_ms: u32,
    /// Patience with two sides that share no family.
    pub no_common_family_ms: u32,
}

impl Default for AttemptSection {
    fn default() -> Self {
        let store = Limits::default();
        Self {
            ttl_ms: store.attempt_ttl_ms,
            bind_window_ms: store.bind_window_ms,
            no_common_family_ms: store.no_common_family_ms,
        }
    }
}

/// `[idempotency]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencySection {
    /// How long a record outlives its resource.
    pub retention_ms: u32,
}

impl Default for IdempotencySection {
    fn default() -> Self {
        Self { retention_ms: Limits::default().idempotency_retention_ms }
    }
}

/// `[drain]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSection {
    /// How long live state remains after drain began.
    pub window_ms: u32,
}

impl Default for DrainSection {
    fn default() -> Self {
        Self { window_ms: 10_000 }
    }
}

/// `[snapshot]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSection {
    /// How often additions become visible.
    pub publish_interval_ms: u32,
}

impl Default for SnapshotSection {
    fn default() -> Self {
        Self { publish_interval_ms: 20 }
    }
}

/// `[turn]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSection {
    /// URIs.
    pub uris: Vec<String>,
    /// The secret shared with the TURN server.
    pub secret: Option<Secret>,
    /// A file with the secret.
    pub secret_file: Option<PathBuf>,
    /// Lifetime of a minted credential.
    pub ttl_ms: u32,
}

impl Default for TurnSection {
    fn default() -> Self {
        Self { uris: Vec::new(), secret: None, secret_file: None, ttl_ms: 3_600_000 }
    }
}

/// `[trust]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustSection {
    /// Address ranges of proxies whose `X-Forwarded-For` counts.
    pub proxies: Vec<String>,
}

/// `[http]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSection {
    /// Origins that may read from a browser.
    pub cors_origins: Vec<String>,
}

/// `[udp]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpSection {
    /// Whether Binding requests without the magic cookie are answered.
    pub rfc3489: bool,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSection {
    /// Format.
    pub format: LogFormat,
    /// Least severe level that is written.
    pub level: &'static str,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info" }
    }
}
