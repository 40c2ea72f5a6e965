//! How scripts are drawn.

use super::{Beat, Bid, Joining, Nonce, Op, Opening, Proof, Renewing, Sequence, Span};
use proptest::prelude::*;

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
    let (v6, consume) = (prop::bool::weighted(0.3), prop::bool::weighted(0.5));
    let port = prop_oneof![8 => Just(0_u16), 1 => Just(1), 1 => Just(2)];
    (joining(), any::<bool>(), v6, port, consume).prop_map(|(joining, joiner, v6, port, consume)| {
        Op::Meet(joining, Bid { attempt: 0, joiner, v6, port, nonce: Nonce::Ms(0), consume, wrong: 0 })
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
