//! A million sources, and no more memory than for one (cases Q9, S12): what the edges keep by source has a fixed size.
//!
//! Counted are bytes that were allocated and not given back, on the one thread that serves. The HTTP edge's tables are not
//! public; the tests `case_q9_...` in `src/edge/http/limiter.rs` and `src/edge/http/registry.rs` count theirs.
#![cfg(feature = "server")]

#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "support/say.rs"]
mod say;

use rendezvous::credentials::{InstanceKey, REALM, long_term_key, presence_username};
use rendezvous::domain::{InstanceId, ListingId, MonoTime};
use rendezvous::edge::udp::{Arrival, Budgets, Decision, Entropy, Listener, Local, Protocol, Responder};
use rendezvous::stun::{
    AttributeType, FINGERPRINT_ATTRIBUTE_BYTES, Message, MessageBuilder, PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const SOURCES: u32 = 1_000_000;
/// Sources that prove themselves: three for each place of the table of the proven.
const PROVEN: u32 = 200_000;
/// The table's own bound: 65,536 places, each with at most so much behind it.
const PROVEN_BYTES_MAX: i64 = 65_536 * 512;

fn responder() -> Responder {
    let protocol = Protocol {
        credentials: key(),
        entropy: Entropy::new([9; 32]),
        instance: InstanceId(77),
        nonce_fresh_ms: 120_000,
    };
    Responder::new(&protocol, &Budgets::default(), Vec::new(), true)
}

fn key() -> InstanceKey {
    InstanceKey::new([3; 32])
}

/// IPv4 and IPv6 in turn, each an address of its own.
fn source(n: u32) -> SocketAddr {
    if n.is_multiple_of(2) {
        SocketAddr::from((Ipv4Addr::from_bits(0x0B00_0000 + n), 4_000))
    } else {
        SocketAddr::from((Ipv6Addr::from_bits((0x2001_0DB8 << 96) | (u128::from(n) << 64) | 1), 4_000))
    }
}

fn arrival(source: SocketAddr) -> Arrival {
    Arrival { source, local: Local { socket: 0, ip: None }, listener: Listener::Plain }
}

fn first(username: &str) -> Vec<u8> {
    let first = MessageBuilder::binding_request(TransactionId([1; 12])).text(AttributeType::USERNAME, username);
    first.pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES).fingerprint().finish().unwrap()
}

/// What is left of the memory that `work` took.
fn left_over(work: impl FnOnce()) -> i64 {
    allocation_counter::measure(work).bytes_current
}

#[test]
fn case_s12_a_million_unproven_sources_leave_no_memory() {
    let mut responder = responder();
    let plain = MessageBuilder::binding_request(TransactionId([1; 12])).finish().unwrap();
    let padded = first(&presence_username(ListingId(1)));
    let mut classic = plain.clone();
    classic[4..8].fill(0);
    let mut answered = 0_u32;
    let left = left_over(|| {
        for n in 0..SOURCES {
            // A thousand a millisecond, so that every budget is met.
            let now = MonoTime(1_000_000_000).plus_ms(u64::from(n / 1_000));
            for bytes in [&plain, &padded, &classic] {
                let decision = responder.receive(bytes, arrival(source(n)), now);
                answered += u32::from(matches!(decision, Decision::Transmit(_)));
            }
        }
    });
    say::say(format_args!("{SOURCES} unproven sources, {answered} answers: {left} bytes left"));
    assert_eq!(left, 0, "bytes that are left");
    assert!(answered >= SOURCES, "who pays for its answer by its length gets one: {answered}");
}

#[test]
fn case_s12_proven_sources_share_one_table() {
    let mut responder = responder();
    let username = presence_username(ListingId(1));
    let secret = long_term_key(&username, REALM, &key().presence_password(ListingId(1)));
    let first = first(&username);
    // One listing's budget is not the subject: time passes.
    let at = |n: u32| MonoTime(1_000_000_000).plus_ms(u64::from(n) * 100);
    let mut proven = 0;
    let left = left_over(|| {
        for n in 0..PROVEN {
            let Decision::Transmit(challenge) = responder.receive(&first, arrival(source(n)), at(n)) else { continue };
            let challenge = Message::parse(&challenge.bytes).unwrap();
            let request = MessageBuilder::binding_request(TransactionId([2; 12]))
                .text(AttributeType::USERNAME, &username)
                .text(AttributeType::REALM, REALM)
                .text(AttributeType::NONCE, challenge.text(AttributeType::NONCE).unwrap().unwrap())
                .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
                .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256)
                .u64(AttributeType::RV_SEQUENCE, u64::from(n) + 1)
                .integrity(&secret)
                .fingerprint()
                .finish()
                .unwrap();
            proven += u32::from(matches!(responder.receive(&request, arrival(source(n)), at(n)), Decision::Ask(_)));
        }
    });
    say::say(format_args!("{proven} proven sources: {left} bytes, of {PROVEN_BYTES_MAX} at most"));
    assert_eq!(proven, PROVEN);
    assert!((1..=PROVEN_BYTES_MAX).contains(&left), "{left} bytes");
}
