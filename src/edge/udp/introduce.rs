//! Introduce indications: what the server says without being asked.

use super::answerer::{Answerer, finished, left_ms};
use super::notices::Offer;
use super::responder::Protocol;
use super::username::Username;
use crate::credentials::{InstanceKey, hmac_sha256};
use crate::domain::{AttemptId, Endpoint, Introduction, MonoTime, Role};
use crate::stun::{AttributeType, Class, MessageBuilder, Method, TransactionId};

/// Builds indications, each signed with the key of the credential that it addresses.
#[derive(Debug)]
pub(super) struct Introducer {
    credentials: InstanceKey,
    transaction_key: TransactionKey,
    answerer: Answerer,
}

impl Introducer {
    pub(super) fn new(protocol: &Protocol, answerer: Answerer) -> Self {
        let key = hmac_sha256(protocol.entropy.bytes(), &[b"udp transactions", &protocol.instance.0.to_be_bytes()]);
        Self { credentials: protocol.credentials.clone(), transaction_key: TransactionKey(key), answerer }
    }

    /// Tells a host of an attempt. The repetitions of one offer have one transaction id.
    pub(super) fn offer(&self, offer: &Offer, now: MonoTime) -> Vec<u8> {
        let username = Username::Presence(offer.listing);
        let transaction = self.transaction_key.derive(b"offer", offer.attempt);
        let message = self.addressed(username, transaction).offer(offer.attempt.0, left_ms(offer.deadline, now));
        self.signed(username, message)
    }

    /// Tells one side of its introduction, and where.
    pub(super) fn introduction(&self, introduction: &Introduction, role: Role, now: MonoTime) -> (Endpoint, Vec<u8>) {
        let attempt = introduction.attempt;
        let (username, kind): (_, &[u8]) = match role {
            Role::Host => (Username::Host(introduction.listing, attempt), b"host"),
            Role::Joiner => (Username::Joiner(attempt), b"joiner"),
        };
        let message = self.addressed(username, self.transaction_key.derive(kind, attempt));
        let message = message.u32(AttributeType::RV_LIFETIME, left_ms(introduction.deadline, now));
        let message = self.answerer.introduction(message, introduction, role, now);
        (introduction.last_bound[role.index()], self.signed(username, message))
    }

    fn addressed(&self, username: Username, transaction: TransactionId) -> MessageBuilder {
        MessageBuilder::new(Class::Indication, Method::INTRODUCE, transaction)
            .text(AttributeType::USERNAME, &username.text())
    }

    fn signed(&self, username: Username, message: MessageBuilder) -> Vec<u8> {
        finished(message.integrity_by(&username.key(&self.credentials).prepared).fingerprint())
    }
}

/// Transaction ids that nobody can guess and that a repetition shares, without a table.
struct TransactionKey([u8; 32]);

impl TransactionKey {
    fn derive(&self, kind: &[u8], attempt: AttemptId) -> TransactionId {
        let mut id = [0; 12];
        id.copy_from_slice(&hmac_sha256(&self.0, &[kind, &attempt.0.to_be_bytes()])[..12]);
        TransactionId(id)
    }
}

impl std::fmt::Debug for TransactionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}
