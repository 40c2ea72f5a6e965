//! One request under the long-term mechanism (RFC 8489 section 9.2), safe against forged challenges.
//!
//! A 401 or 438 isn't signed, so anybody on the way can forge it. It therefore never replaces what was sent: the request
//! with the new nonce is sent *beside* it, everything goes on being repeated, and the first signed answer decides.

use crate::credentials::{REALM, Secret, long_term_key};
use crate::domain::InstanceId;
use crate::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, FingerprintCheck, Message, MessageBuilder, Method,
    PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use bytes::Bytes;
use std::fmt;

/// Nonces tried for one request: one to begin with, one when that is too old, one when a forger was faster.
pub(super) const NONCES_MAX: usize = 3;
/// The first request is as long as this, so that the challenge is never longer than what provoked it.
const FIRST_REQUEST_BYTES: usize = 160;
/// RFC 8489 section 14.10: a nonce has fewer than 128 characters.
const NONCE_BYTES_MAX: usize = 128;

/// A USERNAME and the key that signs under it.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) username: String,
    pub(super) key: [u8; 32],
}

impl Credential {
    pub(super) fn new(username: String, password: &Secret) -> Self {
        let key = long_term_key(&username, REALM, password);
        Self { username, key }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("username", &self.username).field("key", &"[redacted]").finish()
    }
}

/// One spelling of the request: each nonce makes another.
#[derive(Clone, Debug)]
struct Variant {
    transaction: TransactionId,
    nonce: Option<Vec<u8>>,
    bytes: Bytes,
}

/// What an answer means.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Not ours, not verifiable, or nothing new.
    Nothing,
    /// A challenge with a nonce that has not been tried: call [`Exchange::add`] and send.
    Challenge { nonce: Vec<u8>, instance: Option<InstanceId> },
    /// A challenge whose nonce is not worth trying.
    Stale { instance: Option<InstanceId> },
    /// Signed yes. Only the accepted spelling remains.
    Success,
    /// Signed no to one spelling, which is dropped.
    Refused(Refusal),
}

/// A signed refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    /// RV-REASON, 0 when absent.
    pub(super) reason: u16,
    pub(super) retry_after_ms: Option<u32>,
    /// RV-SEQUENCE: the highest that the server has accepted.
    pub(super) sequence: Option<u64>,
}

/// RV-REASON (`docs/udp-protocol.md`).
pub(super) mod reason {
    pub(in super::super) const GONE: u16 = 1;
    pub(in super::super) const OTHER_ENDPOINT: u16 = 2;
    pub(in super::super) const OTHER_DATAGRAM: u16 = 3;
    pub(in super::super) const DRAINING: u16 = 4;
    pub(in super::super) const NO_COMMON_FAMILY: u16 = 6;
    pub(in super::super) const OLD_SEQUENCE: u16 = 9;
    pub(in super::super) const REFUSED: u16 = 10;
    pub(in super::super) const SAME_ENDPOINT: u16 = 12;
}

/// A request in all its spellings.
#[derive(Debug)]
pub(super) struct Exchange {
    variants: Vec<Variant>,
    tried: Vec<Vec<u8>>,
}

impl Exchange {
    /// Begins without a nonce: the answer will be a challenge.
    pub(super) fn first(credential: &Credential, transaction: TransactionId) -> Self {
        let message = MessageBuilder::binding_request(transaction)
            .text(AttributeType::USERNAME, &credential.username)
            .pad_to(FIRST_REQUEST_BYTES, FINGERPRINT_ATTRIBUTE_BYTES)
            .fingerprint();
        let mut exchange = Self { variants: Vec::new(), tried: Vec::new() };
        exchange.push(message, transaction, None);
        exchange
    }

    /// Begins with a nonce that a server gave earlier.
    pub(super) fn with_nonce(
        credential: &Credential,
        transaction: TransactionId,
        nonce: Vec<u8>,
        sequence: Option<u64>,
    ) -> Self {
        let mut exchange = Self { variants: Vec::new(), tried: Vec::new() };
        exchange.add(credential, transaction, nonce, sequence);
        exchange
    }

    /// Adds a spelling with another nonce and gives its bytes.
    pub(super) fn add(
        &mut self,
        credential: &Credential,
        transaction: TransactionId,
        nonce: Vec<u8>,
        sequence: Option<u64>,
    ) -> Option<Bytes> {
        let mut message = MessageBuilder::binding_request(transaction)
            .text(AttributeType::USERNAME, &credential.username)
            .text(AttributeType::REALM, REALM)
            .attribute(AttributeType::NONCE, &nonce)
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
        if let Some(sequence) = sequence {
            message = message.u64(AttributeType::RV_SEQUENCE, sequence);
        }
        self.tried.push(nonce.clone());
        self.push(message.integrity(&credential.key).fingerprint(), transaction, Some(nonce))
    }

    fn push(&mut self, message: MessageBuilder, transaction: TransactionId, nonce: Option<Vec<u8>>) -> Option<Bytes> {
        // Names and nonces are bounded far below the longest message, so this always fits.
        let bytes = Bytes::from(message.finish().ok()?);
        self.variants.push(Variant { transaction, nonce, bytes: bytes.clone() });
        Some(bytes)
    }

    /// Everything that is to be repeated, oldest first.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &Bytes> {
        self.variants.iter().map(|variant| &variant.bytes)
    }

    /// Whether every spelling that could be accepted was refused.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.tried.is_empty() && self.variants.iter().all(|variant| variant.nonce.is_none())
    }

    /// The nonce of the accepted spelling, after [`Verdict::Success`].
    pub(super) fn accepted_nonce(&self) -> Option<&[u8]> {
        self.variants.first().and_then(|variant| variant.nonce.as_deref())
    }

    /// Judges an answer.
    pub(super) fn judge(&mut self, message: &Message<'_>, credential: &Credential) -> Verdict {
        let position = self.variants.iter().position(|variant| variant.transaction == message.transaction());
        let (Some(position), true) = (position, message.method() == Method::BINDING) else { return Verdict::Nothing };
        if message.check_fingerprint() == FingerprintCheck::Wrong {
            return Verdict::Nothing;
        }
        let signed = message.verify_integrity(&credential.key);
        match message.class() {
            Class::Request | Class::Indication => Verdict::Nothing,
            Class::Success if signed => {
                let accepted = self.variants.swap_remove(position);
                self.variants = vec![accepted];
                Verdict::Success
            }
            Class::Success => Verdict::Nothing,
            Class::Error => self.judge_error(message, position, signed),
        }
    }

    fn judge_error(&mut self, message: &Message<'_>, position: usize, signed: bool) -> Verdict {
        let Ok(Some(code)) = message.error_code() else { return Verdict::Nothing };
        if matches!(code, 401 | 438) {
            if signed {
                self.variants.remove(position);
            }
            return self.judge_challenge(message);
        }
        if !signed {
            return Verdict::Nothing;
        }
        self.variants.remove(position);
        Verdict::Refused(Refusal {
            code,
            reason: message.u16(AttributeType::RV_REASON).ok().flatten().unwrap_or(0),
            retry_after_ms: message.u32(AttributeType::RV_RETRY_AFTER).ok().flatten(),
            sequence: message.u64(AttributeType::RV_SEQUENCE).ok().flatten(),
        })
    }

    fn judge_challenge(&self, message: &Message<'_>) -> Verdict {
        let instance = message.id(AttributeType::RV_INSTANCE).ok().flatten().map(InstanceId);
        let nonce = message.attribute(AttributeType::NONCE).unwrap_or_default();
        let usable = !nonce.is_empty() && nonce.len() < NONCE_BYTES_MAX;
        let new = self.tried.iter().all(|tried| tried != nonce) && self.tried.len() < NONCES_MAX;
        if usable && new { Verdict::Challenge { nonce: nonce.to_vec(), instance } } else { Verdict::Stale { instance } }
    }
}
