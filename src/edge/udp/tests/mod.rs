//! Tests of the edge: rules on the responder with an explicit clock, the loop on loopback sockets with a lane that can be
//! stalled.

mod amplification;
mod answers;
mod checks;
mod hostile;
mod indications;
mod replay;
mod sockets;

use super::*;
use crate::credentials::{InstanceKey, REALM, host_username, joiner_username, long_term_key, presence_username};
use crate::domain::{AttemptId, InstanceId, ListingId, MonoTime};
use crate::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, FingerprintCheck, Message, MessageBuilder,
    PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use std::net::SocketAddr;

pub(super) const LISTING: ListingId = ListingId(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF);
pub(super) const ATTEMPT: AttemptId = AttemptId(0xFEDC_BA98_7654_3210_FEDC_BA98_7654_3210);
pub(super) const START: MonoTime = MonoTime(1_000_000_000_000);
pub(super) const HOST: &str = "192.0.2.1:4000";
pub(super) const JOINER: &str = "198.51.100.7:5000";

pub(super) fn protocol() -> Protocol {
    Protocol {
        credentials: InstanceKey::new([3; 32]),
        entropy: Entropy::new([9; 32]),
        instance: InstanceId(77),
        nonce_fresh_ms: 120_000,
    }
}

pub(super) fn responder() -> Responder {
    let own = vec!["127.0.0.1:3478".parse().unwrap(), "0.0.0.0:3479".parse().unwrap()];
    Responder::new(&protocol(), &Budgets::default(), own, false)
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A datagram from `source` at the plain listener.
pub(super) fn from(source: &str) -> Arrival {
    Arrival { source: address(source), local: Local { socket: 0, ip: None }, listener: Listener::Plain }
}

/// The same at the challenging listener.
pub(super) fn from_auth(source: &str) -> Arrival {
    Arrival { listener: Listener::Challenging, ..from(source) }
}

/// Whoever can derive a credential's password.
#[derive(Clone)]
pub(super) struct Speaker {
    pub(super) username: String,
    pub(super) key: [u8; 32],
}

impl Speaker {
    pub(super) fn host_presence() -> Self {
        Self::new(presence_username(LISTING), protocol().credentials.presence_password(LISTING))
    }

    pub(super) fn joiner() -> Self {
        Self::new(joiner_username(ATTEMPT), protocol().credentials.joiner_password(ATTEMPT))
    }

    pub(super) fn host() -> Self {
        let password = protocol().credentials.host_password(LISTING, ATTEMPT);
        Self::new(host_username(LISTING, ATTEMPT), password)
    }

    fn new(username: String, password: crate::credentials::Secret) -> Self {
        let key = long_term_key(&username, REALM, &password);
        Self { username, key }
    }

    /// The first request of our clients.
    pub(super) fn first(&self) -> Vec<u8> {
        begun()
            .text(AttributeType::USERNAME, &self.username)
            .pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES)
            .fingerprint()
            .finish()
            .unwrap()
    }

    /// An authenticated request up to its integrity attribute.
    pub(super) fn claiming(&self, nonce: &str) -> MessageBuilder {
        begun()
            .text(AttributeType::USERNAME, &self.username)
            .text(AttributeType::REALM, REALM)
            .text(AttributeType::NONCE, nonce)
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256)
    }

    pub(super) fn sign(&self, builder: MessageBuilder) -> Vec<u8> {
        builder.integrity(&self.key).fingerprint().finish().unwrap()
    }

    /// An authenticated request with RV-SEQUENCE.
    pub(super) fn sequenced(&self, nonce: &str, sequence: u64) -> Vec<u8> {
        self.sign(self.claiming(nonce).u64(AttributeType::RV_SEQUENCE, sequence))
    }

    /// An authenticated request.
    pub(super) fn plain(&self, nonce: &str) -> Vec<u8> {
        self.sign(self.claiming(nonce))
    }
}

pub(super) fn begun() -> MessageBuilder {
    MessageBuilder::binding_request(TransactionId([5; 12]))
}

/// The nonce that `source` gets for a first request.
pub(super) fn nonce(responder: &mut Responder, source: &str, now: MonoTime) -> String {
    let answer = sent(responder.receive(&Speaker::host_presence().first(), from(source), now));
    Message::parse(&answer.bytes).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned()
}

pub(super) fn sent(decision: Decision) -> Transmit {
    let Decision::Transmit(transmit) = decision else { panic!("expected an answer, got {decision:?}") };
    transmit
}

pub(super) fn asked(decision: Decision) -> Question {
    let Decision::Ask(question) = decision else { panic!("expected a question, got {decision:?}") };
    *question
}

/// The error code of an answer, and whether `speaker` can verify it.
pub(super) fn error_of(transmit: &Transmit, speaker: &Speaker) -> (u16, bool) {
    let message = Message::parse(&transmit.bytes).unwrap();
    assert_eq!(message.class(), Class::Error);
    (message.error_code().unwrap().unwrap(), message.verify_integrity(&speaker.key))
}

pub(super) fn code(decision: Decision) -> u16 {
    let transmit = sent(decision);
    Message::parse(&transmit.bytes).unwrap().error_code().unwrap().unwrap_or(200)
}
