//! The keys of one life of the process, all from one root (HKDF-SHA256, RFC 5869).
//!
//! Every derivation mixes in the instance id: a configured root never brings back an earlier life's nonces, tokens or
//! digests (rule J4).

use super::ids::EntropyError;
use crate::credentials::{InstanceKey, hmac_sha256};
use crate::domain::InstanceId;
use std::fmt;

/// 32 bytes that never print.
#[derive(Clone)]
pub struct KeyBytes([u8; 32]);

impl KeyBytes {
    /// The bytes, for the one place that keys a MAC with them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// One independent key for each purpose.
#[derive(Clone, Debug)]
pub struct InstanceKeys {
    /// Derives the passwords and tokens of listings and attempts.
    pub credentials: InstanceKey,
    /// The UDP edge's secret: nonces, transaction ids and the hash of its budget table.
    pub nonces: KeyBytes,
    /// Signs the HTTP edge's guest tokens.
    pub guest_tokens: KeyBytes,
    /// Keys the digests of principals and idempotency keys, so that nobody can aim at the store's hash tables.
    pub digests: KeyBytes,
}

impl InstanceKeys {
    /// Derives all keys from `root` for one instance.
    pub fn derive(root: &[u8; 32], instance: InstanceId) -> Self {
        let instance = instance.0.to_be_bytes();
        let key = |purpose: &str| {
            let info = [purpose.as_bytes(), &instance].concat();
            hkdf_sha256(b"rendezvous instance keys", root, &info)
        };
        Self {
            credentials: InstanceKey::new(key("credentials")),
            nonces: KeyBytes(key("nonces")),
            guest_tokens: KeyBytes(key("guest tokens")),
            digests: KeyBytes(key("digests")),
        }
    }

    /// A new instance with keys from the operating system's entropy.
    pub fn random() -> Result<(InstanceId, Self), EntropyError> {
        let mut root = [0; 32];
        getrandom::fill(&mut root).map_err(EntropyError)?;
        let instance = InstanceId(super::ids::random_bits()?);
        Ok((instance, Self::derive(&root, instance)))
    }
}

/// HKDF with SHA-256 for an output of exactly one block of 32 bytes (RFC 5869, section 2).
fn hkdf_sha256(salt: &[u8], input: &[u8], info: &[u8]) -> [u8; 32] {
    let pseudorandom = hmac_sha256(salt, &[input]);
    hmac_sha256(&pseudorandom, &[info, &[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn hkdf_matches_the_first_block_of_rfc_5869_a1() {
        let salt = hex("000102030405060708090a0b0c");
        let block = hkdf_sha256(&salt, &[0x0b; 22], &hex("f0f1f2f3f4f5f6f7f8f9"));
        assert_eq!(block.to_vec(), hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
    }

    #[test]
    fn rule_j4_one_root_gives_every_instance_and_every_purpose_its_own_key() {
        let first = InstanceKeys::derive(&[7; 32], InstanceId(1));
        let second = InstanceKeys::derive(&[7; 32], InstanceId(2));
        let all = |keys: &InstanceKeys| [&keys.nonces, &keys.guest_tokens, &keys.digests].map(|key| *key.expose());
        let mut seen: Vec<_> = all(&first).into_iter().chain(all(&second)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 6);
        let token = |keys: &InstanceKeys| keys.credentials.lease_token(crate::domain::ListingId(5));
        assert_ne!(token(&first).expose(), token(&second).expose());
        assert_eq!(token(&first), token(&InstanceKeys::derive(&[7; 32], InstanceId(1))));
    }
}
