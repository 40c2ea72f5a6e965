//! `[server]`, `[operator]` and `[log]`.

use super::{Access, Key};
use crate::config::Config;
use crate::config::sections::{LogFormat, StoreKind};

pub(super) static KEYS: &[Key<Config>] = &[
    key!(
        "server.http",
        "ip:port",
        "The HTTP listener. Port 0 lets the system choose; the ready line tells. [::] takes IPv4 as well.",
        "",
        Access::Address { get: |c| Some(c.server.http), set: |c, value| c.server.http = value }
    ),
    key!(
        "server.udp",
        "ip:port, one or several",
        "UDP listeners that also answer plain STUN Binding requests. Whoever names udp or udp_auth gets only what is named. [::] takes IPv4 as well, unless an IPv4 listener of the same port is named.",
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
            get: |c| Some(c.server.store.name()),
            set: |c, word| c.server.store = if word == "lane" { StoreKind::Lane } else { StoreKind::SingleLock },
        }
    ),
    key!(
        "server.insecure",
        "true or false",
        "Takes keys of operators and hosts over plain HTTP from other machines too, where anybody on the way can read them. Not needed with TLS or behind a proxy of trust.proxies.",
        "",
        Access::Flag { get: |c| c.server.insecure, set: |c, value| c.server.insecure = value }
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
        "secrets of 8 characters and more, better 32",
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
