//! `[lease]`, `[presence]`, `[attempt]`, `[idempotency]`, `[drain]` and `[snapshot]`.

use super::{Access, Key};
use crate::config::Config;

const DAY_MS: u32 = 86_400_000;

pub(super) static KEYS: &[Key<Config>] = &[
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
];
