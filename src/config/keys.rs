//! The one table of keys: path, unit, reason, and how the value gets in and out.

use super::Config;
use super::sections::{Browse, JwtAlgorithm, LogFormat, StoreKind, Tenant};
use crate::credentials::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One key of a `T`: the whole configuration or a tenant.
pub(crate) struct Key<T: 'static> {
    /// For example `limits.listings`.
    pub(crate) path: &'static str,
    /// What a value counts or is.
    pub(crate) unit: &'static str,
    /// Why it exists and why its built-in value is what it is.
    pub(crate) reason: &'static str,
    /// A value to show where there is no built-in one, as TOML.
    pub(crate) example: &'static str,
    /// In and out.
    pub(crate) access: Access<T>,
}

/// The shape of a value, and how it gets in and out.
pub(crate) enum Access<T: 'static> {
    /// An integer from `min` to `max`; `None` comes out where the value follows from other keys.
    Number { min: u32, max: u32, get: fn(&T) -> Option<u32>, set: fn(&mut T, u32) },
    /// `true` or `false`.
    Flag { get: fn(&T) -> bool, set: fn(&mut T, bool) },
    /// One of a few words.
    Word { words: &'static [&'static str], get: fn(&T) -> Option<&'static str>, set: fn(&mut T, &'static str) },
    /// `ip:port`.
    Address { get: fn(&T) -> Option<SocketAddr>, set: fn(&mut T, SocketAddr) },
    /// One `ip:port` or several.
    Addresses { get: fn(&T) -> &[SocketAddr], set: fn(&mut T, Vec<SocketAddr>) },
    /// A text.
    Text { get: fn(&T) -> Option<&str>, set: fn(&mut T, String) },
    /// One text or several.
    Texts { get: fn(&T) -> &[String], set: fn(&mut T, Vec<String>) },
    /// A secret; never comes out.
    Secret { set: fn(&mut T, Secret) },
    /// One secret or several; never come out.
    Secrets { set: fn(&mut T, Vec<Secret>) },
    /// The path of a file that is read at start.
    File { set: fn(&mut T, PathBuf) },
}

macro_rules! number {
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: "",
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| Some(c.$($field).+),
                set: |c, value| c.$($field).+ = value,
            },
        }
    };
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, derived $example:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: $example,
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| c.$($field).+,
                set: |c, value| c.$($field).+ = Some(value),
            },
        }
    };
}

macro_rules! key {
    ($path:literal, $unit:literal, $reason:literal, $example:expr, $access:expr) => {
        Key { path: $path, unit: $unit, reason: $reason, example: $example, access: $access }
    };
}

/// A million, the ceiling of ceilings (rule D1).
const MILLION: u32 = 1_000_000;
/// For quotas: no bound of their own.
const ANY: u32 = u32::MAX;
const DAY_MS: u32 = 86_400_000;

/// Every key outside of `[[tenant]]`, in the order in which they are printed.
pub(crate) static KEYS: &[Key<Config>] = &[
    key!(
        "server.http",
        "ip:port",
        "The HTTP listener. Port 0 lets the system choose; the ready line tells.",
        "",
        Access::Address { get: |c| Some(c.server.http), set: |c, value| c.server.http = value }
    ),
    key!(
        "server.udp",
        "ip:port, one or several",
        "UDP listeners that also answer plain STUN Binding requests. Whoever names udp or udp_auth gets only what is named.",
        "",
        Access::Addresses { get: |c| &c.server.udp, set: |c, value| c.server.udp = value }
    ),
    key!(
        "server.udp_auth",
        "ip:port, one or several",
        "UDP listeners that challenge every request, for stock STUN clients with long-term credentials.",
        "",
        Access::Addresses { get: |c| &c.server.udp_auth, set: |c, value| c.server.udp_auth = value }
    ),
    key!(
        "server.metrics",
        "ip:port",
        "Listener of GET /metrics, apart from players' traffic. Without it there is none (with --dev: on the HTTP listener).",
        "\"127.0.0.1:9464\"",
        Access::Address { get: |c| c.server.metrics, set: |c, value| c.server.metrics = Some(value) }
    ),
    key!(
        "server.store",
        "lane or single-lock",
        "lane reads from a published snapshot and is the product; single-lock is the baseline it is measured against.",
        "",
        Access::Word {
            words: &["lane", "single-lock"],
            get: |c| Some(match c.server.store {
                StoreKind::Lane => "lane",
                StoreKind::SingleLock => "single-lock",
            }),
            set: |c, word| c.server.store = if word == "lane" { StoreKind::Lane } else { StoreKind::SingleLock },
        }
    ),
    key!(
        "server.stun",
        "URIs",
        "STUN URIs that clients are told. Without it they follow from the UDP listeners; set it where those are wildcards or behind a mapped address.",
        "[\"stun:203.0.113.1:3478\"]",
        Access::Texts { get: |c| &c.server.stun, set: |c, value| c.server.stun = value }
    ),
    key!(
        "operator.keys",
        "secrets of 16 characters and more",
        "Keys for /v1/operator, any of which is good, so that they can be rotated.",
        "[\"change-me-to-a-long-random-text\"]",
        Access::Secrets { set: |c, value| c.operator.keys = value }
    ),
    key!(
        "operator.keys_file",
        "path",
        "The same from a file with one key a line; empty lines and lines that begin with # don't count.",
        "\"/run/secrets/rendezvous-operator\"",
        Access::File { set: |c, value| c.operator.keys_file = Some(value) }
    ),
    number!(
        "limits.listings",
        1..=MILLION,
        "records",
        "Live listings. Bounds memory: about 2 KiB each with full details.",
        limits.listings
    ),
    number!("limits.unproven_listings", 1..=MILLION, "records", "Listings that never had presence; half of limits.listings when not set, so that unproven ones can't fill the store.", derived "12500", limits.unproven_listings),
    number!("limits.presence", 1..=2_000_000, "records", "Live presences, one per listing and address family; twice limits.listings when not set.", derived "50000", limits.presence),
    number!("limits.attempts", 1..=MILLION, "records", "Live join attempts.", limits.attempts),
    number!(
        "limits.idempotency",
        1..=16_000_000,
        "records",
        "Remembered creations. Divided by idempotency.retention_ms it bounds the sustained rate of creations: 833 a second.",
        limits.idempotency
    ),
    number!("limits.replay", 1..=MILLION, "records", "Remembered single-use keys of operators.", limits.replay),
    number!("limits.revocations", 1..=65_536, "records", "Revocations in force.", limits.revocations),
    number!(
        "limits.listings_per_owner",
        1..=ANY,
        "records",
        "Listings of one principal: a host has one or a few.",
        limits.listings_per_owner
    ),
    number!(
        "limits.attempts_per_tenant",
        1..=ANY,
        "records",
        "Active attempts of one tenant: half of limits.attempts, so that one game can't lock out the others.",
        limits.attempts_per_tenant
    ),
    number!(
        "limits.attempts_per_listing",
        1..=ANY,
        "records",
        "Active attempts on one listing: a full lobby and those who retry.",
        limits.attempts_per_listing
    ),
    number!(
        "limits.attempts_per_principal",
        1..=ANY,
        "records",
        "Active attempts of one joiner.",
        limits.attempts_per_principal
    ),
    number!(
        "limits.guest_listings_per_source",
        1..=ANY,
        "records",
        "Guests' listings of one source (IPv4 address, IPv6 /64): identity is free for guests, addresses are not.",
        limits.guest_listings_per_source
    ),
    number!(
        "limits.guest_attempts_per_source",
        1..=ANY,
        "records",
        "Guests' active attempts of one source.",
        limits.guest_attempts_per_source
    ),
    number!(
        "limits.lane_creations",
        1..=MILLION,
        "commands",
        "Creations that wait for the writer; more are refused at once.",
        limits.lane_creations
    ),
    number!(
        "limits.lane_keep_alives",
        1..=MILLION,
        "commands",
        "Keep-alives that wait for the writer, in a room of their own, so that a flood of creations makes no listing expire.",
        limits.lane_keep_alives
    ),
    number!(
        "limits.connections",
        1..=MILLION,
        "connections",
        "HTTP connections; at the ceiling the one that is idle for longest goes.",
        limits.connections
    ),
    number!(
        "limits.connections_per_source",
        1..=MILLION,
        "connections",
        "HTTP connections of one source; a carrier's shared address has many players behind it.",
        limits.connections_per_source
    ),
    number!("limits.long_polls", 1..=4_000_000, "requests", "Waiting long polls; limits.listings + 2 x limits.attempts + 1024 when not set: one per listing and two per attempt always fit.", derived "46024", limits.long_polls),
    number!(
        "lease.ttl_ms",
        100..=3_600_000,
        "ms",
        "Lifetime of a lease when the registration names none.",
        lease.ttl_ms
    ),
    number!(
        "lease.ttl_min_ms",
        100..=3_600_000,
        "ms",
        "Least lifetime that a host may ask for: bounds the renewals.",
        lease.ttl_min_ms
    ),
    number!(
        "lease.ttl_max_ms",
        100..=3_600_000,
        "ms",
        "Greatest lifetime that a host may ask for: bounds how long a dead host is shown.",
        lease.ttl_max_ms
    ),
    number!(
        "lease.unproven_window_ms",
        100..=3_600_000,
        "ms",
        "A listing without any presence this long after its registration is removed.",
        lease.unproven_window_ms
    ),
    number!(
        "presence.ttl_ms",
        100..=300_000,
        "ms",
        "How long one datagram keeps a family fresh; hosts send about four in that time, so two may be lost in a row.",
        presence.ttl_ms
    ),
    key!(
        "presence.sequence_optional",
        "true or false",
        "Whether stock STUN clients may keep presence without RV-SEQUENCE.",
        "",
        Access::Flag { get: |c| c.presence.sequence_optional, set: |c, value| c.presence.sequence_optional = value }
    ),
    number!(
        "attempt.ttl_ms",
        100..=120_000,
        "ms",
        "Lifetime of a join attempt: long enough for a host that hears of it by a long poll.",
        attempt.ttl_ms
    ),
    number!(
        "attempt.bind_window_ms",
        100..=120_000,
        "ms",
        "An attempt that its joiner has not bound this long after creation is removed.",
        attempt.bind_window_ms
    ),
    number!(
        "attempt.no_common_family_ms",
        100..=120_000,
        "ms",
        "How long two sides that have bound, but no common address family, may still bind another.",
        attempt.no_common_family_ms
    ),
    number!(
        "idempotency.retention_ms",
        100..=DAY_MS,
        "ms",
        "How long a creation is remembered after its resource has gone; at least the longest lease and attempt.",
        idempotency.retention_ms
    ),
    number!(
        "drain.window_ms",
        0..=30_000,
        "ms",
        "How long live state remains after a signal or a drain without a window of its own.",
        drain.window_ms
    ),
    number!(
        "snapshot.publish_interval_ms",
        1..=1_000,
        "ms",
        "How soon an addition becomes visible. Removals are visible before they are acknowledged.",
        snapshot.publish_interval_ms
    ),
    key!(
        "turn.uris",
        "URIs",
        "TURN servers for players who can't reach each other directly.",
        "[\"turn:turn.example.net:3478?transport=udp\"]",
        Access::Texts { get: |c| &c.turn.uris, set: |c, value| c.turn.uris = value }
    ),
    key!(
        "turn.secret",
        "secret",
        "The secret shared with the TURN server (coturn: static-auth-secret).",
        "\"change-me\"",
        Access::Secret { set: |c, value| c.turn.secret = Some(value) }
    ),
    key!(
        "turn.secret_file",
        "path",
        "The same from a file.",
        "\"/run/secrets/turn\"",
        Access::File { set: |c, value| c.turn.secret_file = Some(value) }
    ),
    number!(
        "turn.ttl_ms",
        1_000..=DAY_MS,
        "ms",
        "Lifetime of a credential minted for one attempt: as long as a match may last.",
        turn.ttl_ms
    ),
    key!(
        "trust.proxies",
        "address ranges",
        "Proxies whose X-Forwarded-For is believed; from anybody else it is ignored.",
        "[\"10.0.0.0/8\"]",
        Access::Texts { get: |c| &c.trust.proxies, set: |c, value| c.trust.proxies = value }
    ),
    key!(
        "http.cors_origins",
        "origins",
        "Web pages that may read listings from a browser; \"*\" stands for all.",
        "[\"https://play.example.net\"]",
        Access::Texts { get: |c| &c.http.cors_origins, set: |c, value| c.http.cors_origins = value }
    ),
    key!(
        "udp.rfc3489",
        "true or false",
        "Whether Binding requests without the magic cookie (RFC 3489) are answered.",
        "",
        Access::Flag { get: |c| c.udp.rfc3489, set: |c, value| c.udp.rfc3489 = value }
    ),
    key!(
        "log.format",
        "text or json",
        "text for people, json for collectors: one object a line, with the same fields.",
        "",
        Access::Word {
            words: &["text", "json"],
            get: |c| Some(match c.log.format {
                LogFormat::Text => "text",
                LogFormat::Json => "json",
            }),
            set: |c, word| c.log.format = if word == "json" { LogFormat::Json } else { LogFormat::Text },
        }
    ),
    key!(
        "log.level",
        "error, warn, info, debug or trace",
        "The least severe level that is written.",
        "",
        Access::Word {
            words: &["error", "warn", "info", "debug", "trace"],
            get: |c| Some(c.log.level),
            set: |c, word| c.log.level = word,
        }
    ),
];

/// Every key of a `[[tenant]]`.
pub(crate) static TENANT_KEYS: &[Key<Tenant>] = &[
    key!(
        "name",
        "1 to 64 of a-z 0-9 . _ -",
        "The name in paths.",
        "\"demo\"",
        Access::Text {
            get: |t| Some(&t.name).filter(|name| !name.is_empty()).map(String::as_str),
            set: |t, value| t.name = value,
        }
    ),
    key!(
        "browse",
        "public or principal",
        "Who may browse: anyone, or who has a token.",
        "\"public\"",
        Access::Word {
            words: &["public", "principal"],
            get: |t| Some(match t.browse {
                Browse::Public => "public",
                Browse::Principal => "principal",
            }),
            set: |t, word| t.browse = if word == "public" { Browse::Public } else { Browse::Principal },
        }
    ),
    key!(
        "guests",
        "true or false",
        "Whether anybody may become a guest: for games without accounts.",
        "false",
        Access::Flag { get: |t| t.guests, set: |t, value| t.guests = value }
    ),
    key!(
        "jwt.algorithm",
        "HS256, EdDSA, RS256 or ES256",
        "The only signature algorithm that is accepted.",
        "\"HS256\"",
        Access::Word {
            words: &["HS256", "EdDSA", "RS256", "ES256"],
            get: |t| t.jwt.algorithm.map(JwtAlgorithm::name),
            set: |t, word| t.jwt.algorithm = JwtAlgorithm::parse(word),
        }
    ),
    key!(
        "jwt.key",
        "secret or PEM",
        "HS256: the shared secret, 32 bytes and more. Else the public key as PEM.",
        "\"a-shared-secret-of-at-least-32-bytes\"",
        Access::Secret { set: |t, value| t.jwt.key = Some(value) }
    ),
    key!(
        "jwt.key_file",
        "path",
        "The same from a file.",
        "\"/etc/rendezvous/demo.pem\"",
        Access::File { set: |t, value| t.jwt.key_file = Some(value) }
    ),
    key!(
        "jwt.jwks_file",
        "path",
        "A JSON Web Key Set instead, read at start.",
        "\"/etc/rendezvous/demo.jwks.json\"",
        Access::File { set: |t, value| t.jwt.jwks_file = Some(value) }
    ),
    key!(
        "jwt.audience",
        "text",
        "When set, a token's aud has to name it.",
        "\"rendezvous\"",
        Access::Text { get: |t| t.jwt.audience.as_deref(), set: |t, value| t.jwt.audience = Some(value) }
    ),
];

impl JwtAlgorithm {
    /// The name in a token's header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Hs256, Self::EdDsa, Self::Rs256, Self::Es256].into_iter().find(|algorithm| algorithm.name() == name)
    }
}
