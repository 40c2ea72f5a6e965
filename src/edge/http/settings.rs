//! What the HTTP edge is told at start: plain data, made by the composition layer from the configuration.

use super::auth::host::HostCredential;
use super::auth::jwt::JwtVerifier;
use super::forwarded::Cidr;
use super::tls::TlsSettings;
use crate::credentials::Secret;
use crate::service::KeyBytes;
use crate::service::commands::CommandPlane;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything that the HTTP edge is told. [`HttpSettings::new`] has the defaults of the contract.
pub struct HttpSettings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// In the order of [`crate::domain::TenantId`].
    pub tenants: Vec<TenantSettings>,
    /// Operators' keys, as fingerprints.
    pub operators: Vec<KeyFingerprint>,
    /// Signs guest tokens; differs between instances (rule J4).
    pub guest_key: KeyBytes,
    /// Lifetime of a guest token.
    pub guest_token_ttl: Duration,
    /// Peers whose `X-Forwarded-For` is believed, and who have no ceiling of connections per source.
    pub trusted_proxies: Vec<Cidr>,
    /// Every connection begins with a header of the PROXY protocol, version 2, from a trusted proxy.
    pub proxy_protocol: bool,
    /// TLS; without it HTTP is spoken in the open.
    pub tls: Option<TlsSettings>,
    /// Takes keys of operators and hosts also where somebody on the way could read them.
    pub plain_keys: bool,
    /// Origins whose pages may read the GETs.
    pub cors: Cors,
    /// Ceilings and deadlines.
    pub limits: HttpLimits,
    /// Token buckets; `None` lifts them (`--dev` on loopback).
    pub rates: Option<Rates>,
    /// Answers `GET /metrics` on this listener (`--dev`); a listener of its own is a [`super::MetricsServer`].
    pub metrics: Option<MetricsText>,
    /// The command plane, where the server has one.
    pub commands: Option<CommandSettings>,
    /// Threads that serve connections; with none the runtime that accepts them serves them as well.
    pub workers: usize,
}

impl HttpSettings {
    /// Defaults: no operators, no proxies, no TLS, no CORS, rates on, no metrics on this listener.
    pub fn new(listen: SocketAddr, tenants: Vec<TenantSettings>, guest_key: KeyBytes) -> Self {
        Self {
            listen,
            tenants,
            operators: Vec::new(),
            guest_key,
            guest_token_ttl: Duration::from_secs(86_400),
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            tls: None,
            plain_keys: false,
            cors: Cors::Off,
            limits: HttpLimits::default(),
            rates: Some(Rates::default()),
            metrics: None,
            commands: None,
            workers: 0,
        }
    }
}

/// What the edge is told of the command plane.
pub struct CommandSettings {
    /// The plane.
    pub plane: Arc<CommandPlane>,
    /// Credentials of hosts.
    pub hosts: Vec<HostCredential>,
    /// What a JWT's `scope` must name; absent, every JWT of the tenant will do.
    pub scope: Option<String>,
    /// Whether guests may ask for sessions and send commands (`--dev`).
    pub guests: bool,
    /// Longest payload.
    pub payload_bytes: usize,
    /// Uploads at a time.
    pub uploads: usize,
    /// Downloads at a time.
    pub downloads: usize,
}

/// Renders the Prometheus text of the whole process.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// One tenant as the HTTP edge sees it.
pub struct TenantSettings {
    /// Its name in paths and in JWTs.
    pub name: String,
    /// Who may browse.
    pub browse: BrowsePolicy,
    /// Whether `POST guests` is allowed.
    pub guests: bool,
    /// Verifies the tenant's JWTs; without it there are only guests.
    pub jwt: Option<JwtVerifier>,
}

/// Who may browse a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowsePolicy {
    /// Anyone; answers may be cached for a second.
    Public,
    /// Principals of the tenant.
    Principal,
}

/// The SHA-256 of an operator's key.
#[derive(Clone)]
pub struct KeyFingerprint(pub(super) [u8; 32]);

impl KeyFingerprint {
    /// Forgets everything about the key but its fingerprint.
    pub fn of(key: &Secret) -> Self {
        use sha2::{Digest, Sha256};
        Self(Sha256::digest(key.expose().as_bytes()).into())
    }
}

impl std::fmt::Debug for KeyFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Which pages of other origins may read the GETs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// None.
    #[default]
    Off,
    /// Any.
    Any,
    /// These, as browsers send them in `Origin`.
    Origins(Vec<String>),
}

/// Ceilings and deadlines of connections and requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections in all; those with a waiting long poll are not counted.
    pub connections: usize,
    /// Connections of one source (IPv4 address, IPv6 /64).
    pub connections_per_source: usize,
    /// A head must have arrived after this time.
    pub header_timeout: Duration,
    /// A body must have arrived after this time.
    pub body_timeout: Duration,
    /// An idle connection is closed after this time.
    pub idle_timeout: Duration,
    /// An answer must have been taken after this time.
    pub write_timeout: Duration,
    /// A connection of this age ends with its next answer.
    pub connection_age: Duration,
    /// Most bytes of a body.
    pub body_bytes: usize,
    /// After shutdown has begun, requests in progress get this long.
    pub shutdown_grace: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 8_192,
            connections_per_source: 512,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(10),
            connection_age: Duration::from_secs(600),
            body_bytes: 16 * 1024,
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// A token bucket: `per_second` on average, `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a second.
    pub per_second: u32,
    /// Tokens of a full bucket.
    pub burst: u32,
}

/// All token buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// New guests, by source.
    pub guests: Rate,
    /// Registrations and attempts, by source.
    pub creations: Rate,
    /// Browsing, by source.
    pub browsing: Rate,
    /// Registrations and attempts, by principal.
    pub principal_creations: Rate,
    /// Renewals, deletions, closes, gate answers and reports, by principal; there is none by source (rule D4). Looks at one's
    /// own listings and attempts have as much, in a bucket of their own.
    pub principal_keep_alives: Rate,
    /// Creates, commands and payloads of the command plane, by principal: a back end speaks for many players. Looks at
    /// sessions, commands and gates have as much, in a bucket of their own.
    pub principal_commands: Rate,
    /// What hosts of the command plane ask for, by credential, which may be that of many machines. Heartbeats, leases
    /// and completions have as much, in a bucket of their own.
    pub host_calls: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        let rate = |per_second, burst| Rate { per_second, burst };
        Self {
            guests: rate(10, 100),
            creations: rate(200, 1_000),
            browsing: rate(2_000, 4_000),
            principal_creations: rate(20, 100),
            principal_keep_alives: rate(50, 200),
            principal_commands: rate(1_000, 4_000),
            // A command takes a look for work, a claim and a begin: for as many as one back end may send, and some.
            host_calls: rate(5_000, 20_000),
        }
    }
}
