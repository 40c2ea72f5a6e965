//! Builds answers: the unsigned ones of the responder, and the signed ones from what the lane said.

use super::cookie::{CookieKey, NONCE_CHARS};
use super::question::{ReplyTo, Transmit};
use super::reason::{Reason, Refusal, refusal};
use super::username::Username;
use crate::credentials::REALM;
use crate::domain::{Bound, Endpoint, Failure, InstanceId, Introduction, MonoTime, Present, Role};
use crate::service::{Applied, Told};
use crate::stun::{
    AttributeType, Class, FingerprintCheck, HEADER_BYTES, Message, MessageBuilder, Method, PASSWORD_ALGORITHM_SHA256,
    TransactionId,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Bytes of a 401 or unsigned 438: header, ERROR-CODE 8, REALM 16, NONCE 44, PASSWORD-ALGORITHMS 8, RV-INSTANCE 20,
/// FINGERPRINT 8.
pub(super) const CHALLENGE_BYTES: usize =
    HEADER_BYTES + 8 + (4 + REALM.len().next_multiple_of(4)) + (4 + NONCE_CHARS.next_multiple_of(4)) + 8 + 20 + 8;

/// How long both sides wait after the introduction before they punch: long enough that both have heard of it.
pub(super) const START_DELAY_MS: u64 = 150;

/// Hosts of a draining server come back over this span after its end, so that 25,000 of them are 1,250 a second.
const DRAIN_SPREAD_MS: u32 = 20_000;

/// An overloaded server is asked again after this, and up to as long again.
const OVERLOAD_RETRY_MS: u32 = 1_000;

/// Builds answers. Holds no state but secrets and ids; cheap to clone.
#[derive(Clone, Debug)]
pub struct Answerer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cookie: CookieKey,
    instance: InstanceId,
    own: Vec<SocketAddr>,
}

impl Answerer {
    pub(super) fn new(cookie: CookieKey, instance: InstanceId, own: Vec<SocketAddr>) -> Self {
        Self { shared: Arc::new(Shared { cookie, instance, own }) }
    }

    /// The signed answer to a question, with lifetimes as of `now`.
    pub fn answer(&self, reply: &ReplyTo, result: Result<Applied<Told>, Failure>, now: MonoTime) -> Transmit {
        let Applied { value, commit, .. } = match result {
            Ok(told) => told,
            Err(failure) => return self.refused(reply, failure, now),
        };
        let answer = match &value {
            Told::Present(present) => Self::present(reply, present, commit, now),
            Told::Bound(bound) => self.bound(reply, bound, commit, now),
        };
        signed(reply, answer)
    }

    fn present(reply: &ReplyTo, present: &Present, commit: u64, now: MonoTime) -> MessageBuilder {
        let mut answer = success(reply)
            .u32(AttributeType::RV_LIFETIME, left_ms(present.deadline, now))
            .u64(AttributeType::RV_COMMIT, commit);
        for offer in present.offers.iter() {
            answer = answer.offer(offer.attempt.0, left_ms(offer.deadline, now));
        }
        if let Some(deadline) = present.draining {
            let retry = left_ms(deadline, now).saturating_add(reply.spread_ms(DRAIN_SPREAD_MS));
            answer = answer.u32(AttributeType::RV_RETRY_AFTER, retry);
        }
        answer
    }

    /// Success without RV-INTRODUCTION means wait.
    fn bound(&self, reply: &ReplyTo, bound: &Bound, commit: u64, now: MonoTime) -> MessageBuilder {
        let mut answer = success(reply)
            .u32(AttributeType::RV_LIFETIME, left_ms(bound.deadline, now))
            .u64(AttributeType::RV_COMMIT, commit);
        if let Some(introduction) = &bound.introduction {
            let role = match reply.proven.username {
                Username::Host(..) => Role::Host,
                Username::Presence(_) | Username::Joiner(_) => Role::Joiner,
            };
            answer = self.introduction(answer, introduction, role, now);
        }
        answer
    }

    /// Appends what `role` may know of an introduction.
    pub(super) fn introduction(
        &self,
        mut answer: MessageBuilder,
        introduction: &Introduction,
        role: Role,
        now: MonoTime,
    ) -> MessageBuilder {
        answer = answer.id(AttributeType::RV_INTRODUCTION, introduction.attempt.0);
        let peers = introduction.peers_of(role).map(Endpoint::address);
        for peer in peers.filter(|peer| !self.shared.own.contains(peer)) {
            answer = answer.xor_address(AttributeType::RV_PEER_ADDRESS, peer);
        }
        for candidate in introduction.candidates_for(role).iter().filter(|one| !self.shared.own.contains(one)) {
            answer = answer.xor_address(AttributeType::RV_CANDIDATE, *candidate);
        }
        let start = introduction.at.plus_ms(START_DELAY_MS);
        answer.u32(AttributeType::RV_START_AFTER, left_ms(start, now))
    }

    /// The signed answer to a request that the lane has no room for.
    pub fn overloaded(&self, reply: &ReplyTo, now: MonoTime) -> Transmit {
        self.refused(reply, Failure::Overloaded, now)
    }

    fn refused(&self, reply: &ReplyTo, failure: Failure, now: MonoTime) -> Transmit {
        let error = |code| error(code, reply.transaction);
        let answer = match refusal(failure) {
            Refusal::Forbidden(reason @ Reason::Draining) => {
                let spread = reply.spread_ms(DRAIN_SPREAD_MS);
                error(403).u16(AttributeType::RV_REASON, reason.number()).u32(AttributeType::RV_RETRY_AFTER, spread)
            }
            Refusal::Forbidden(reason) => error(403).u16(AttributeType::RV_REASON, reason.number()),
            Refusal::OldSequence(highest) => error(403)
                .u16(AttributeType::RV_REASON, Reason::OldSequence.number())
                .u64(AttributeType::RV_SEQUENCE, highest),
            Refusal::StaleNonce => self.with_challenge(error(438), reply.endpoint(), now),
            Refusal::Later => later(error(500), reply),
        };
        signed(reply, answer)
    }

    /// 486: this credential asks more often than it may.
    pub(super) fn over_quota(&self, reply: &ReplyTo) -> Transmit {
        signed(reply, later(error(486, reply.transaction), reply))
    }

    /// 420, signed.
    pub(super) fn unknown_attributes_signed(&self, reply: &ReplyTo, unknown: &[AttributeType]) -> Transmit {
        signed(reply, error(420, reply.transaction).unknown_attributes(unknown))
    }

    /// 401 or 438, unsigned, always [`CHALLENGE_BYTES`] long.
    pub(super) fn challenge(&self, code: u16, to: TransactionId, source: Endpoint, now: MonoTime) -> Vec<u8> {
        let bytes = finished(self.with_challenge(error(code, to), source, now).fingerprint());
        debug_assert_eq!(bytes.len(), CHALLENGE_BYTES);
        bytes
    }

    /// 420 to a plain request.
    pub(super) fn unknown_attributes(&self, to: TransactionId, unknown: &[AttributeType]) -> Vec<u8> {
        finished(error(420, to).unknown_attributes(unknown))
    }

    /// 400: no use in trying the same again.
    pub(super) fn bad_request(&self, to: TransactionId) -> Vec<u8> {
        finished(error(400, to))
    }

    /// The success of a plain request; with a fingerprint when the request has one, since its sender shares its socket.
    pub(super) fn mapped_address(&self, request: &Message<'_>, source: Endpoint) -> Vec<u8> {
        let answer = MessageBuilder::new(Class::Success, Method::BINDING, request.transaction())
            .xor_address(AttributeType::XOR_MAPPED_ADDRESS, source.address());
        match request.check_fingerprint() {
            FingerprintCheck::Absent => finished(answer),
            FingerprintCheck::Right | FingerprintCheck::Wrong => finished(answer.fingerprint()),
        }
    }

    /// The success of an RFC 3489 request: its 16-byte transaction id where the cookie would be, and MAPPED-ADDRESS.
    pub(super) fn classic(&self, request: &[u8], source: Endpoint) -> Vec<u8> {
        let address = source.address();
        let (family, ip) = match address.ip() {
            IpAddr::V4(ip) => (1, ip.octets().to_vec()),
            IpAddr::V6(ip) => (2, ip.octets().to_vec()),
        };
        let value_bytes = 4 + ip.len() as u8;
        let mut answer = vec![0x01, 0x01, 0, 4 + value_bytes];
        answer.extend_from_slice(&request[4..HEADER_BYTES]);
        answer.extend_from_slice(&AttributeType::MAPPED_ADDRESS.0.to_be_bytes());
        answer.extend_from_slice(&[0, value_bytes, 0, family]);
        answer.extend_from_slice(&address.port().to_be_bytes());
        answer.extend_from_slice(&ip);
        answer
    }

    fn with_challenge(&self, answer: MessageBuilder, source: Endpoint, now: MonoTime) -> MessageBuilder {
        answer
            .text(AttributeType::REALM, REALM)
            .text(AttributeType::NONCE, &self.shared.cookie.issue(source, now))
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .id(AttributeType::RV_INSTANCE, self.shared.instance.0)
    }
}

/// Milliseconds until `deadline`, as the wire counts them.
pub(super) fn left_ms(deadline: MonoTime, now: MonoTime) -> u32 {
    u32::try_from(deadline.ms_since(now)).unwrap_or(u32::MAX)
}

fn error(code: u16, to: TransactionId) -> MessageBuilder {
    MessageBuilder::new(Class::Error, Method::BINDING, to).error_code(code)
}

fn success(reply: &ReplyTo) -> MessageBuilder {
    MessageBuilder::new(Class::Success, Method::BINDING, reply.transaction)
        .xor_address(AttributeType::XOR_MAPPED_ADDRESS, reply.endpoint().address())
}

fn later(answer: MessageBuilder, reply: &ReplyTo) -> MessageBuilder {
    let retry = OVERLOAD_RETRY_MS + reply.spread_ms(OVERLOAD_RETRY_MS);
    answer.u16(AttributeType::RV_REASON, Reason::Overloaded.number()).u32(AttributeType::RV_RETRY_AFTER, retry)
}

fn signed(reply: &ReplyTo, answer: MessageBuilder) -> Transmit {
    let bytes = finished(answer.integrity_by(&reply.proven.key.prepared).fingerprint());
    Transmit { to: reply.source, local: reply.local, bytes }
}

/// The largest answer is far below the bound: four offers or two peers with four candidates are below 400 bytes, and
/// UNKNOWN-ATTRIBUTES takes two bytes for at least four of a request that is itself below the bound.
pub(super) fn finished(answer: MessageBuilder) -> Vec<u8> {
    answer.finish().unwrap_or_else(|error| unreachable!("{error}"))
}
