//! `[turn]`, `[trust]`, `[http]` and `[udp]`.

use super::{Access, Key};
use crate::config::Config;

const DAY_MS: u32 = 86_400_000;

pub(super) static KEYS: &[Key<Config>] = &[
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
];
