//! `[turn]`, `[trust]`, `[http]`, `[rates]` and `[udp]`.

use super::{Access, Key};
use crate::config::Config;

const DAY_MS: u32 = 86_400_000;
const MILLION: u32 = 1_000_000;

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
        "trust.proxy_protocol",
        "true or false",
        "Every HTTP connection has to begin with a PROXY protocol header (version 2) from one of trust.proxies; others are closed.",
        "",
        Access::Flag { get: |c| c.trust.proxy_protocol, set: |c, value| c.trust.proxy_protocol = value }
    ),
    key!(
        "http.cors_origins",
        "origins",
        "Web pages that may read listings from a browser; \"*\" stands for all.",
        "[\"https://play.example.net\"]",
        Access::Texts { get: |c| &c.http.cors_origins, set: |c, value| c.http.cors_origins = value }
    ),
    number!(
        "http.guest_token_ttl_ms",
        1_000..=2_592_000_000,
        "ms",
        "Lifetime of a guest's token; a guest renews it with the old one and keeps the name.",
        http.guest_token_ttl_ms
    ),
    millis!(
        "http.header_timeout_ms",
        100..=60_000,
        "A request's head has to arrive in this time.",
        http.limits.header_timeout
    ),
    millis!(
        "http.body_timeout_ms",
        100..=60_000,
        "A request's body has to arrive in this time.",
        http.limits.body_timeout
    ),
    millis!("http.idle_timeout_ms", 100..=600_000, "An idle connection is closed after it.", http.limits.idle_timeout),
    millis!(
        "http.write_timeout_ms",
        100..=60_000,
        "An answer has to be taken in this time.",
        http.limits.write_timeout
    ),
    millis!(
        "http.connection_age_ms",
        1_000..=86_400_000,
        "A connection of this age ends with its next answer, so that clients spread over a proxy's servers anew.",
        http.limits.connection_age
    ),
    count!("http.body_bytes", 4_096..=1_048_576, "bytes", "Longest body on directory routes.", http.limits.body_bytes),
    number!(
        "rates.guests_per_s",
        1..=MILLION,
        "requests a second",
        "New guests of one source.",
        http.rates.guests.per_second
    ),
    number!("rates.guests_burst", 1..=MILLION, "requests", "The same at once.", http.rates.guests.burst),
    number!(
        "rates.creations_per_s",
        1..=MILLION,
        "requests a second",
        "Registrations and attempts of one source.",
        http.rates.creations.per_second
    ),
    number!("rates.creations_burst", 1..=MILLION, "requests", "The same at once.", http.rates.creations.burst),
    number!(
        "rates.browsing_per_s",
        1..=MILLION,
        "requests a second",
        "Browsing of one source; generous, for a table of fixed size is shared.",
        http.rates.browsing.per_second
    ),
    number!("rates.browsing_burst", 1..=MILLION, "requests", "The same at once.", http.rates.browsing.burst),
    number!(
        "rates.principal_creations_per_s",
        1..=MILLION,
        "requests a second",
        "Registrations and attempts of one principal.",
        http.rates.principal_creations.per_second
    ),
    number!(
        "rates.principal_creations_burst",
        1..=MILLION,
        "requests",
        "The same at once.",
        http.rates.principal_creations.burst
    ),
    number!(
        "rates.principal_keep_alives_per_s",
        1..=MILLION,
        "requests a second",
        "Renewals, deletions, closes, gate answers and reports of one principal; by source there is no bound, so that keep-alives get through. Looks at its own listings and attempts, polls included, have as much again.",
        http.rates.principal_keep_alives.per_second
    ),
    number!(
        "rates.principal_keep_alives_burst",
        1..=MILLION,
        "requests",
        "The same at once.",
        http.rates.principal_keep_alives.burst
    ),
    number!(
        "rates.principal_commands_per_s",
        1..=MILLION,
        "requests a second",
        "Creates, commands and payloads of one principal; a back end speaks for many players. Looks at sessions, commands and gates, polls included, have as much again.",
        http.rates.principal_commands.per_second
    ),
    number!(
        "rates.principal_commands_burst",
        1..=MILLION,
        "requests",
        "The same at once.",
        http.rates.principal_commands.burst
    ),
    number!(
        "rates.host_calls_per_s",
        1..=MILLION,
        "requests a second",
        "What hosts with one credential of the command plane ask for: looks for work, claims, begins, payloads. Heartbeats, leases and completions have as much again.",
        http.rates.host_calls.per_second
    ),
    number!("rates.host_calls_burst", 1..=MILLION, "requests", "The same at once.", http.rates.host_calls.burst),
    key!(
        "udp.rfc3489",
        "true or false",
        "Whether Binding requests without the magic cookie (RFC 3489) are answered.",
        "",
        Access::Flag { get: |c| c.udp.rfc3489, set: |c, value| c.udp.rfc3489 = value }
    ),
    number!(
        "udp.unproven_per_source_per_s",
        1..=MILLION,
        "answers a second",
        "Answers longer than their request to one source that has proven nothing: keeps reflection small.",
        udp.budgets.unproven_per_source_per_s
    ),
    number!(
        "udp.unproven_global_per_s",
        1..=MILLION,
        "answers a second",
        "The same over all sources, whatever their number.",
        udp.budgets.unproven_global_per_s
    ),
    number!(
        "udp.per_credential_per_s",
        1..=MILLION,
        "requests a second",
        "Authenticated requests of one credential; more are answered 486.",
        udp.budgets.per_credential_per_s
    ),
    count!(
        "udp.questions",
        1..=MILLION,
        "requests",
        "Authenticated requests that wait for the store; more are answered 500 with RV-RETRY-AFTER.",
        udp.budgets.questions_max
    ),
];
