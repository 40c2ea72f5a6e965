//! What a generated script may do, in small numbers: few principals, keys, endpoints and instants, so that they collide.

mod strategy;

use rendezvous::domain::Limits;
use rendezvous::domain::time::TtlBounds;
pub(crate) use strategy::script;

/// Ceilings that a short script reaches, and windows whose multiples meet.
pub(crate) fn small_limits(sequence_optional: bool) -> Limits {
    Limits {
        listings: 6,
        unproven_listings: 3,
        presence: 7,
        attempts: 5,
        idempotency: 13,
        replay: 4,
        revocations: 3,
        lease_ttl: TtlBounds { min_ms: 10_000, max_ms: 40_000, default_ms: 20_000 },
        unproven_window_ms: 8_000,
        presence_ttl_ms: 15_000,
        attempt_ttl_ms: 10_000,
        bind_window_ms: 5_000,
        no_common_family_ms: 2_000,
        idempotency_retention_ms: 40_000,
        drain_window_max_ms: 30_000,
        revocation_ttl: TtlBounds { min_ms: 1_000, max_ms: 100_000, default_ms: 10_000 },
        nonce_fresh_ms: 20_000,
        one_way_tolerance_ms: 2_000,
        sequence_optional,
    }
}

/// How far time moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// To the n-th deadline ahead, off by some nanoseconds.
    Deadline { nth: usize, off_ns: i8 },
    /// By so much.
    Ms(u64),
}

/// How a presence datagram's sequence is chosen, relative to what the listing has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sequence {
    Absent,
    Plus(i64),
    /// The anchor's sequence plus elapsed milliseconds plus this.
    Paced(i64),
    Exactly(u64),
}

/// How old the nonce of a datagram is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nonce {
    Ms(u64),
    /// The last one accepted for the family.
    Same,
    /// Exactly at the end of freshness, plus this many nanoseconds of age.
    Border(i8),
}

/// Which proof accompanies a request: the right one, or one of the wrong ones.
pub(crate) type Proof = Option<usize>;

/// One presence datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    pub(crate) listing: usize,
    pub(crate) v6: bool,
    pub(crate) port: u16,
    pub(crate) sequence: Sequence,
    pub(crate) nonce: Nonce,
}

/// One bind datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bid {
    pub(crate) attempt: usize,
    pub(crate) joiner: bool,
    pub(crate) v6: bool,
    pub(crate) port: u16,
    pub(crate) nonce: Nonce,
    pub(crate) consume: bool,
    pub(crate) wrong: u8,
}

/// A registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) tenant: u16,
    pub(crate) owner: u64,
    pub(crate) protocol: usize,
    pub(crate) key: u64,
    pub(crate) body: u64,
    pub(crate) ttl_ms: u32,
    pub(crate) unlisted: bool,
    pub(crate) gate: bool,
    pub(crate) source: Option<u8>,
    /// Whether the policy that comes with the command is strict.
    pub(crate) tight: bool,
}

/// A join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) listing: usize,
    pub(crate) tenant: Option<u16>,
    pub(crate) joiner: u64,
    pub(crate) protocol: Option<usize>,
    pub(crate) key: u64,
    pub(crate) body: u64,
    pub(crate) source: Option<u8>,
    pub(crate) tight: bool,
}

/// A renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewing {
    pub(crate) listing: usize,
    pub(crate) proof: Proof,
    pub(crate) version: i64,
    pub(crate) ttl_ms: Option<u32>,
    pub(crate) rename: bool,
    pub(crate) unlisted: Option<bool>,
}

/// One step of a script. Numbers name the most recent things first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Time passes while somebody ticks every publish interval.
    Wait(Span),
    /// Time passes while nobody does anything.
    Jump(Span),
    StepWall {
        years: i64,
    },
    Register(Opening),
    /// A registration with its first presence datagram.
    Open(Opening),
    Renew(Renewing),
    Delete {
        listing: usize,
        proof: Proof,
    },
    Presence(Beat),
    PresenceAgain {
        listing: usize,
    },
    NoteUnverified(Beat),
    CreateAttempt(Joining),
    /// One of the last creations once more, with a new id, and perhaps with another body.
    Again {
        nth: usize,
        other_body: bool,
    },
    /// An attempt that both sides bind at once.
    Meet(Joining, Bid),
    Bind(Bid),
    BindAgain {
        attempt: usize,
        consume: bool,
    },
    Consume {
        attempt: usize,
    },
    Gate {
        attempt: usize,
        admit: bool,
        by: u8,
    },
    Close {
        attempt: usize,
        by: u8,
    },
    Report {
        attempt: usize,
        by: u8,
    },
    RevokeListing {
        listing: usize,
        ttl_ms: u32,
        key: u64,
    },
    RevokePrincipal {
        tenant: u16,
        principal: u64,
        ttl_ms: u32,
        key: u64,
    },
    LiftListing {
        listing: usize,
    },
    LiftPrincipal {
        tenant: u16,
        principal: u64,
    },
    Drain {
        window_ms: u32,
    },
    Sweep,
    Tick,
    /// Compare all live state through queries.
    Look,
}
