//! The machines on a scripted network.

mod bind;
mod lease;
mod presence;
mod punch;
mod survey;
mod world;

use super::exchange::Credential;
use super::{Entropy, Transmit};
use crate::credentials::{REALM, Secret};
use crate::domain::{AttemptId, ListingId, MonoTime};
use crate::stun::{AttributeType, Class, Message, MessageBuilder, Method, PASSWORD_ALGORITHM_SHA256};
use std::net::SocketAddr;

const LISTING: ListingId = ListingId(0x1234);
const ATTEMPT: AttemptId = AttemptId(0x5678);

fn at(ms: u64) -> MonoTime {
    MonoTime(1_000_000_000).plus_ms(ms)
}

fn entropy(seed: u8) -> Entropy {
    Entropy::new([seed; 32])
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn server() -> SocketAddr {
    address("203.0.113.1:3478")
}

fn credential(username: &str) -> Credential {
    Credential::new(username.to_owned(), &Secret::new("a password"))
}

/// A challenge as a server, or anybody on the way, makes it.
fn challenge(request: &[u8], code: u16, nonce: &str) -> Vec<u8> {
    let request = Message::parse(request).unwrap();
    challenge_parts(&request, code, nonce).fingerprint().finish().unwrap()
}

fn challenge_parts(request: &Message<'_>, code: u16, nonce: &str) -> MessageBuilder {
    MessageBuilder::new(Class::Error, Method::BINDING, request.transaction())
        .error_code(code)
        .text(AttributeType::REALM, REALM)
        .text(AttributeType::NONCE, nonce)
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
        .id(AttributeType::RV_INSTANCE, 77)
}

/// A signed success with more attributes.
fn success(request: &[u8], key: &[u8], more: impl FnOnce(MessageBuilder) -> MessageBuilder) -> Vec<u8> {
    let request = Message::parse(request).unwrap();
    let answer = MessageBuilder::new(Class::Success, Method::BINDING, request.transaction())
        .xor_address(AttributeType::XOR_MAPPED_ADDRESS, address("198.51.100.7:40000"));
    more(answer).integrity(key).fingerprint().finish().unwrap()
}

/// A signed refusal.
fn refusal(request: &[u8], key: &[u8], reason: u16, sequence: Option<u64>) -> Vec<u8> {
    let request = Message::parse(request).unwrap();
    let mut answer = MessageBuilder::new(Class::Error, Method::BINDING, request.transaction())
        .error_code(403)
        .u16(AttributeType::RV_REASON, reason);
    if let Some(sequence) = sequence {
        answer = answer.u64(AttributeType::RV_SEQUENCE, sequence);
    }
    answer.integrity(key).fingerprint().finish().unwrap()
}

fn drain(mut next: impl FnMut() -> Option<Transmit>) -> Vec<Transmit> {
    std::iter::from_fn(&mut next).collect()
}
