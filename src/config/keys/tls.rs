//! `[tls]`.

use super::{Access, Key};
use crate::config::Config;

pub(super) static KEYS: &[Key<Config>] = &[
    key!(
        "tls.certificate_file",
        "path",
        "The chain of certificates as PEM, the server's own first. With it the HTTP listener speaks TLS and nothing else. Looked at again on SIGHUP and by itself.",
        "\"/etc/rendezvous/fullchain.pem\"",
        Access::File { set: |c, value| c.tls.certificate_file = Some(value) }
    ),
    key!(
        "tls.key_file",
        "path",
        "The private key of that certificate as PEM.",
        "\"/etc/rendezvous/privkey.pem\"",
        Access::File { set: |c, value| c.tls.key_file = Some(value) }
    ),
    key!(
        "tls.http2",
        "true or false",
        "Whether HTTP/2 is offered beside HTTP/1.1 (ALPN). Without TLS only HTTP/1.1 is spoken.",
        "",
        Access::Flag { get: |c| c.tls.http2, set: |c, value| c.tls.http2 = value }
    ),
    millis!(
        "tls.handshake_timeout_ms",
        100..=60_000,
        "A handshake has to be over in this time, waiting for its turn included.",
        tls.handshake_timeout
    ),
    count!(
        "tls.handshakes",
        1..=8_192,
        "handshakes",
        "Handshakes at a time, an eighth of them by one source; more wait for their turn.",
        tls.handshakes
    ),
    millis!(
        "tls.reload_ms",
        100..=86_400_000,
        "How often the two files are looked at for a new certificate.",
        tls.reload
    ),
];
