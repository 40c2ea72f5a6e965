//! Presence datagrams from a template: what changes from one to the next is patched and signed again, nothing is built.

use crate::credentials::{REALM, Secret, long_term_key};
use crate::stun::{
    AttributeType, FINGERPRINT_ATTRIBUTE_BYTES, HEADER_BYTES, INTEGRITY_ATTRIBUTE_BYTES, MessageBuilder,
    PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of the first request: the challenge is never longer than what provoked it, so it spends no budget.
const FIRST_REQUEST_BYTES: usize = 160;
/// A value's bytes behind its attribute header.
const SEQUENCE_BYTES: usize = 8;
const MAC_BYTES: usize = 32;
const CRC_BYTES: usize = 4;
/// Turns a CRC-32 into a FINGERPRINT (RFC 8489 section 14.7).
const FINGERPRINT_MASK: u32 = 0x5354_554E;

/// Asks for a challenge.
pub(crate) fn first_request(username: &str, transaction: TransactionId) -> Option<Vec<u8>> {
    MessageBuilder::binding_request(transaction)
        .text(AttributeType::USERNAME, username)
        .pad_to(FIRST_REQUEST_BYTES, FINGERPRINT_ATTRIBUTE_BYTES)
        .fingerprint()
        .finish()
        .ok()
}

/// An authenticated request under a nonce; `sequence` for presence, none for a bind.
pub(crate) fn request(
    username: &str,
    key: &[u8],
    nonce: &[u8],
    transaction: TransactionId,
    sequence: Option<u64>,
) -> Option<Vec<u8>> {
    let mut message = MessageBuilder::binding_request(transaction)
        .text(AttributeType::USERNAME, username)
        .text(AttributeType::REALM, REALM)
        .attribute(AttributeType::NONCE, nonce)
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
        .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
    if let Some(sequence) = sequence {
        message = message.u64(AttributeType::RV_SEQUENCE, sequence);
    }
    message.integrity(key).fingerprint().finish().ok()
}

/// One listing's presence datagram under one nonce.
#[derive(Clone)]
pub(crate) struct Datagram {
    bytes: Vec<u8>,
    mac: Hmac<Sha256>,
    sequence: u64,
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagram").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Datagram {
    /// The template of a listing whose last sequence was `sequence`. `None` for names and nonces too long for a message.
    pub(crate) fn new(username: &str, password: &Secret, nonce: &[u8], sequence: u64) -> Option<Self> {
        let key = long_term_key(username, REALM, password);
        let bytes = request(username, &key, nonce, TransactionId([0; 12]), Some(sequence))?;
        let mac =
            Hmac::<Sha256>::new_from_slice(&key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        Some(Self { bytes, mac, sequence })
    }

    /// The next datagram: the following sequence, another transaction, signed.
    pub(crate) fn next(&mut self, transaction: TransactionId) -> &[u8] {
        self.sequence += 1;
        let end = self.bytes.len();
        let fingerprint = end - FINGERPRINT_ATTRIBUTE_BYTES;
        let integrity = fingerprint - INTEGRITY_ATTRIBUTE_BYTES;
        self.bytes[8..HEADER_BYTES].copy_from_slice(&transaction.0);
        self.bytes[integrity - SEQUENCE_BYTES..integrity].copy_from_slice(&self.sequence.to_be_bytes());
        // Both checksums cover a length field that ends with their own attribute (RFC 8489 sections 14.6 and 14.7).
        self.set_length(fingerprint);
        let mut mac = self.mac.clone();
        mac.update(&self.bytes[..integrity]);
        let value: [u8; MAC_BYTES] = mac.finalize().into_bytes().into();
        self.bytes[fingerprint - MAC_BYTES..fingerprint].copy_from_slice(&value);
        self.set_length(end);
        let crc = crc32fast::hash(&self.bytes[..fingerprint]) ^ FINGERPRINT_MASK;
        self.bytes[end - CRC_BYTES..].copy_from_slice(&crc.to_be_bytes());
        &self.bytes
    }

    fn set_length(&mut self, end: usize) {
        // A message has at most 1,200 bytes, so this fits.
        let length = (end - HEADER_BYTES) as u16;
        self.bytes[2..4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stun::{FingerprintCheck, Message};

    #[test]
    fn a_patched_datagram_is_the_one_that_the_builder_writes() {
        let (username, password, nonce) = ("p1.00", Secret::new("a password"), b"obMatJos2gAAA-and-more");
        let mut datagram = Datagram::new(username, &password, nonce, 41).unwrap();
        let transaction = TransactionId([7; 12]);
        let key = long_term_key(username, REALM, &password);
        let built = request(username, &key, nonce, transaction, Some(42)).unwrap();
        assert_eq!(datagram.next(transaction), built);
        let second = datagram.next(TransactionId([8; 12])).to_vec();
        let message = Message::parse(&second).unwrap();
        assert!(message.verify_integrity(&key));
        assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
        assert_eq!(message.u64(AttributeType::RV_SEQUENCE), Ok(Some(43)));
    }

    #[test]
    fn the_first_request_is_as_long_as_its_answer_may_be() {
        assert_eq!(first_request("p1.00", TransactionId([1; 12])).unwrap().len(), FIRST_REQUEST_BYTES);
    }
}
