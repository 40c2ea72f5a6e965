//! `[limits]`: ceilings and quotas.

use super::{Access, Key};
use crate::config::Config;

/// A million, the ceiling of ceilings (rule D1).
const MILLION: u32 = 1_000_000;
/// For quotas: no bound of their own.
const ANY: u32 = u32::MAX;

pub(super) static KEYS: &[Key<Config>] = &[
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
        "Listings of one principal: a host has one or a few. Of a host of the command plane, those of each of its sessions.",
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
    count!(
        "limits.connections",
        1..=MILLION,
        "connections",
        "HTTP connections; at the ceiling the one that is idle for longest goes.",
        http.limits.connections
    ),
    count!(
        "limits.connections_per_source",
        1..=MILLION,
        "connections",
        "HTTP connections of one source; a carrier's shared address has many players behind it.",
        http.limits.connections_per_source
    ),
    number!("limits.long_polls", 1..=4_000_000, "requests", "Waiting long polls; limits.listings + 2 x limits.attempts + 1024 when not set: one per listing and two per attempt always fit.", derived "46024", limits.long_polls),
];
