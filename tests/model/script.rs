//! What a generated script may do, in small numbers: few principals, keys, endpoints and instants, so that they collide.

use proptest::prelude::*;
use rendezvous::domain::Limits;
use rendezvous::domain::time::TtlBounds;

/// Ceilings that a short script reaches, and windows whose multiples meet.
pub(crate) fn small_limits(sequence_optional: bool) -> Limits {
    Limits {
        listings: 6,
        unproven_listings: 4,
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

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        3 => (0_usize..4, -1_i8..=1).prop_map(|(nth, off_ns)| Span::Deadline { nth, off_ns }),
        8 => (0_u64..900).prop_map(Span::Ms),
        1 => prop_oneof![4 => Just(5_000_u64), 2 => Just(20_000), 1 => Just(60_000)].prop_map(Span::Ms),
    ]
}

fn sequence() -> impl Strategy<Value = Sequence> {
    prop_oneof![
        6 => (1_i64..500).prop_map(Sequence::Plus),
        1 => Just(Sequence::Plus(0)),
        1 => Just(Sequence::Plus(-1)),
        1 => Just(Sequence::Plus(1 << 40)),
        1 => Just(Sequence::Plus((1 << 40) + 1)),
        3 => prop_oneof![Just(0_i64), Just(2_000), Just(-2_000), Just(2_001), Just(-2_001)].prop_map(Sequence::Paced),
        1 => prop_oneof![Just(0_u64), Just((1 << 62) - 1), Just(1 << 62), Just(u64::MAX)].prop_map(Sequence::Exactly),
        2 => Just(Sequence::Absent),
    ]
}

fn nonce() -> impl Strategy<Value = Nonce> {
    prop_oneof![
        5 => (0_u64..3_000).prop_map(Nonce::Ms),
        1 => Just(Nonce::Ms(0)),
        1 => Just(Nonce::Same),
        2 => (-1_i8..=1).prop_map(Nonce::Border),
        1 => Just(Nonce::Ms(25_000)),
    ]
}

fn proof() -> impl Strategy<Value = Proof> {
    prop_oneof![5 => Just(None), 1 => (0_usize..4).prop_map(Some)]
}

fn beat() -> impl Strategy<Value = Beat> {
    (0_usize..4, any::<bool>(), 4_000_u16..4_002, sequence(), nonce())
        .prop_map(|(listing, v6, port, sequence, nonce)| Beat { listing, v6, port, sequence, nonce })
}

/// A plain first datagram, so that most listings become fresh.
fn healthy_beat() -> impl Strategy<Value = Beat> {
    (0_usize..3, prop::bool::weighted(0.2)).prop_map(|(listing, v6)| Beat {
        listing,
        v6,
        port: 4_000,
        sequence: Sequence::Plus(10),
        nonce: Nonce::Ms(0),
    })
}

fn bid() -> impl Strategy<Value = Bid> {
    let wrong = prop_oneof![12 => Just(0_u8), 1 => 1_u8..4];
    let port = prop_oneof![4 => Just(0_u16), 1 => Just(1), 1 => Just(2)];
    (0_usize..4, any::<bool>(), prop::bool::weighted(0.3), port, nonce(), prop::bool::weighted(0.7), wrong).prop_map(
        |(attempt, joiner, v6, port, nonce, consume, wrong)| Bid { attempt, joiner, v6, port, nonce, consume, wrong },
    )
}

fn guest() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![3 => Just(None), 1 => (0_u8..2).prop_map(Some)]
}

/// A fifth of the keys collide with earlier ones.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![1 => 0_u64..6, 4 => 100_u64..100_000]
}

fn opening() -> impl Strategy<Value = Opening> {
    let ttl_ms = prop_oneof![Just(10_000_u32), Just(20_000), Just(40_000)];
    let who = (0_u16..2, 0_u64..4, 0_usize..2);
    let kind = (prop::bool::weighted(0.2), any::<bool>(), prop::bool::weighted(0.3));
    (who, (key(), 0_u64..2), ttl_ms, kind, guest()).prop_map(
        |((tenant, owner, protocol), (key, body), ttl_ms, (unlisted, gate, tight), source)| Opening {
            tenant,
            owner,
            protocol,
            key,
            body,
            ttl_ms,
            unlisted,
            gate: gate && owner == 0,
            source,
            tight,
        },
    )
}

fn joining() -> impl Strategy<Value = Joining> {
    let tenant = prop_oneof![12 => Just(None), 1 => (0_u16..2).prop_map(Some)];
    let protocol = prop_oneof![6 => Just(None), 1 => (0_usize..2).prop_map(Some)];
    (0_usize..3, tenant, 0_u64..6, protocol, (key(), 0_u64..2), (guest(), prop::bool::weighted(0.3))).prop_map(
        |(listing, tenant, joiner, protocol, (key, body), (source, tight))| Joining {
            listing,
            tenant,
            joiner,
            protocol,
            key,
            body,
            source,
            tight,
        },
    )
}

fn renewing() -> impl Strategy<Value = Renewing> {
    let version = prop_oneof![8 => Just(0_i64), 1 => Just(-1), 1 => Just(1)];
    let ttl_ms = prop::option::of(prop_oneof![Just(10_000_u32), Just(40_000)]);
    (0_usize..4, proof(), version, ttl_ms, any::<bool>(), prop::option::weighted(0.2, any::<bool>())).prop_map(
        |(listing, proof, version, ttl_ms, rename, unlisted)| Renewing {
            listing,
            proof,
            version,
            ttl_ms,
            rename,
            unlisted,
        },
    )
}

fn operator() -> impl Strategy<Value = Op> {
    let ttl_ms = prop_oneof![Just(1_000_u32), Just(5_000), Just(60_000)].boxed();
    prop_oneof![
        2 => (0_usize..4, ttl_ms.clone(), 0_u64..8)
            .prop_map(|(listing, ttl_ms, key)| Op::RevokeListing { listing, ttl_ms, key }),
        2 => (0_u16..2, 0_u64..6, ttl_ms, 0_u64..8)
            .prop_map(|(tenant, principal, ttl_ms, key)| Op::RevokePrincipal { tenant, principal, ttl_ms, key }),
        1 => (0_usize..4).prop_map(|listing| Op::LiftListing { listing }),
        2 => (0_u16..2, 0_u64..6).prop_map(|(tenant, principal)| Op::LiftPrincipal { tenant, principal }),
    ]
}

fn meeting() -> impl Strategy<Value = Op> {
    let consume = prop::bool::weighted(0.5);
    (joining(), any::<bool>(), prop::bool::weighted(0.3), consume).prop_map(|(joining, joiner, v6, consume)| {
        Op::Meet(joining, Bid { attempt: 0, joiner, v6, port: 0, nonce: Nonce::Ms(0), consume, wrong: 0 })
    })
}

fn time() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => span().prop_map(Op::Wait),
        3 => span().prop_map(Op::Jump),
        1 => (-30_i64..30).prop_map(|years| Op::StepWall { years }),
    ]
}

fn of_hosts() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => opening().prop_map(Op::Open),
        6 => opening().prop_map(Op::Register),
        6 => renewing().prop_map(Op::Renew),
        2 => (0_usize..4, proof()).prop_map(|(listing, proof)| Op::Delete { listing, proof }),
        6 => healthy_beat().prop_map(Op::Presence),
        12 => beat().prop_map(Op::Presence),
        2 => (0_usize..4).prop_map(|listing| Op::PresenceAgain { listing }),
        2 => beat().prop_map(Op::NoteUnverified),
    ]
}

fn of_attempts() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => meeting(),
        10 => joining().prop_map(Op::CreateAttempt),
        20 => bid().prop_map(Op::Bind),
        3 => (0_usize..4, any::<bool>()).prop_map(|(attempt, consume)| Op::BindAgain { attempt, consume }),
        4 => (0_usize..3).prop_map(|attempt| Op::Consume { attempt }),
        3 => (0_usize..4, prop::bool::weighted(0.8), 0_u8..4)
            .prop_map(|(attempt, admit, by)| Op::Gate { attempt, admit, by }),
        2 => (0_usize..4, 0_u8..3).prop_map(|(attempt, by)| Op::Close { attempt, by }),
        2 => (0_usize..4, 0_u8..3).prop_map(|(attempt, by)| Op::Report { attempt, by }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let window_ms = prop_oneof![1 => Just(0_u32), 3 => Just(5_000), 3 => Just(30_000)];
    prop_oneof![
        90 => time(),
        400 => of_hosts(),
        450 => of_attempts(),
        60 => operator(),
        40 => (0_usize..6, prop::bool::weighted(0.2)).prop_map(|(nth, other_body)| Op::Again { nth, other_body }),
        2 => window_ms.prop_map(|window_ms| Op::Drain { window_ms }),
        10 => Just(Op::Sweep),
        40 => Just(Op::Tick),
        50 => Just(Op::Look),
    ]
}

/// A whole script.
pub(crate) fn script(longest: usize) -> impl Strategy<Value = (bool, Vec<Op>)> {
    (prop::bool::weighted(0.9), prop::collection::vec(op(), 1..longest))
}
