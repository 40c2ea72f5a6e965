//! The sections of the configuration and their built-in values.

use crate::credentials::Secret;
use crate::domain::Limits;
use crate::edge::http::{HttpLimits, JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier, Rates};
use crate::edge::udp::Budgets;
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

impl StoreKind {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::SingleLock => "single-lock",
        }
    }
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
    /// Operators' keys are taken also where somebody on the way could read them.
    pub insecure: bool,
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
            insecure: false,
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
    /// The content of `jwks_file`, once read; symmetric keys in it are secrets.
    pub jwks: Option<Secret>,
}

impl JwtSection {
    /// The verifier, when tokens are configured; reads and checks the key.
    pub fn verifier(&self) -> Option<Result<JwtVerifier, JwtKeyError>> {
        let algorithm = self.algorithm?;
        let key = match (&self.key, &self.jwks) {
            (Some(secret), _) if algorithm == JwtAlgorithm::Hs256 => JwtKey::Secret(secret.clone()),
            (Some(pem), _) => JwtKey::Pem(pem.expose().to_owned()),
            (None, Some(jwks)) => JwtKey::Jwks(jwks.expose().as_bytes().to_vec()),
            (None, None) => return None,
        };
        Some(JwtVerifier::new(algorithm, &key, self.audience.as_deref()))
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
    /// Every connection of the HTTP listener begins with a header of the PROXY protocol, version 2, from one of them.
    pub proxy_protocol: bool,
}

/// `[http]` and `[rates]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSection {
    /// Origins that may read from a browser.
    pub cors_origins: Vec<String>,
    /// Lifetime of a guest token.
    pub guest_token_ttl_ms: u32,
    /// Ceilings and deadlines of connections and requests.
    pub limits: HttpLimits,
    /// `[rates]`: token buckets.
    pub rates: Rates,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            cors_origins: Vec::new(),
            guest_token_ttl_ms: 86_400_000,
            limits: HttpLimits::default(),
            rates: Rates::default(),
        }
    }
}

/// `[udp]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpSection {
    /// Whether Binding requests without the magic cookie are answered.
    pub rfc3489: bool,
    /// Who may make the server work, and how much.
    pub budgets: Budgets,
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
