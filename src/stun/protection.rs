//! MESSAGE-INTEGRITY-SHA256 and FINGERPRINT (RFC 8489 sections 14.6 and 14.7).
//!
//! Both cover the header with a length field that ends with the attribute itself, whatever stands behind it.

use super::{
    AttributeType, FINGERPRINT_ATTRIBUTE_BYTES, HEADER_BYTES, INTEGRITY_ATTRIBUTE_BYTES, Message, MessageBuilder,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Turns a CRC-32 into a FINGERPRINT that no application's own CRC equals ("STUN" in ASCII).
const FINGERPRINT_MASK: u32 = 0x5354_554E;

/// What FINGERPRINT says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintCheck {
    /// There is none.
    Absent,
    /// It is right.
    Right,
    /// It is wrong, or has a wrong length.
    Wrong,
}

/// A key with its HMAC schedule worked out: half of the work of a short message is done once for all messages.
#[derive(Clone)]
pub struct IntegrityKey(Hmac<Sha256>);

impl IntegrityKey {
    /// Prepares a key of any length.
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")))
    }
}

impl std::fmt::Debug for IntegrityKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The HMAC over everything before the attribute at `offset`, with the length field set to end with that attribute.
fn integrity_mac(bytes: &[u8], offset: usize, key: &IntegrityKey) -> Hmac<Sha256> {
    let mut mac = key.0.clone();
    let length = covered_length(offset, INTEGRITY_ATTRIBUTE_BYTES);
    mac.update(&bytes[..2]);
    mac.update(&length);
    mac.update(&bytes[4..offset]);
    mac
}

/// The CRC-32 over everything before the attribute at `offset`, masked.
fn masked_crc(bytes: &[u8], offset: usize) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..2]);
    crc.update(&covered_length(offset, FINGERPRINT_ATTRIBUTE_BYTES));
    crc.update(&bytes[4..offset]);
    crc.finalize() ^ FINGERPRINT_MASK
}

/// The length field of a message that ends with an attribute of `attribute_bytes` at `offset`.
fn covered_length(offset: usize, attribute_bytes: usize) -> [u8; 2] {
    // A message has at most MESSAGE_BYTES_MAX bytes, so this fits.
    ((offset + attribute_bytes - HEADER_BYTES) as u16).to_be_bytes()
}

impl Message<'_> {
    /// Whether MESSAGE-INTEGRITY-SHA256 is there, has its full 32 bytes and was made with `key`. Constant time in the value.
    pub fn verify_integrity(&self, key: &[u8]) -> bool {
        self.verify_integrity_by(&IntegrityKey::new(key))
    }

    /// The same with a key that is prepared already.
    pub fn verify_integrity_by(&self, key: &IntegrityKey) -> bool {
        let (Some(offset), Some(value)) = (self.integrity_offset(), self.integrity_sha256()) else { return false };
        // `verify_slice` refuses every length but 32 and compares through `subtle`.
        integrity_mac(self.bytes(), offset, key).verify_slice(value).is_ok()
    }

    /// Checks FINGERPRINT.
    pub fn check_fingerprint(&self) -> FingerprintCheck {
        match self.fingerprint_at() {
            None => FingerprintCheck::Absent,
            Some((offset, value)) if value == masked_crc(self.bytes(), offset).to_be_bytes() => FingerprintCheck::Right,
            Some(_) => FingerprintCheck::Wrong,
        }
    }
}

impl MessageBuilder {
    /// Appends MESSAGE-INTEGRITY-SHA256 of 32 bytes over what has been written.
    pub fn integrity(self, key: &[u8]) -> Self {
        self.integrity_by(&IntegrityKey::new(key))
    }

    /// The same with a key that is prepared already.
    pub fn integrity_by(self, key: &IntegrityKey) -> Self {
        let mac = integrity_mac(self.written(), self.len(), key);
        let value: [u8; 32] = mac.finalize().into_bytes().into();
        self.attribute(AttributeType::MESSAGE_INTEGRITY_SHA256, &value)
    }

    /// Appends FINGERPRINT over what has been written.
    pub fn fingerprint(self) -> Self {
        let value = masked_crc(self.written(), self.len()).to_be_bytes();
        self.attribute(AttributeType::FINGERPRINT, &value)
    }
}
