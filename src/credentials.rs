//! Derived credentials (`docs/udp-protocol.md`, table of credentials): nothing here is ever stored.
//!
//! Server and client derive the same values: the server from the instance's key, a host from its presence password.

use crate::domain::{AttemptId, Fingerprint, ListingId};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// The realm of every long-term credential.
pub const REALM: &str = "rendezvous";

/// Text that never prints, and whose comparison takes the same time wherever two of a length differ.
#[derive(Clone)]
pub struct Secret(String);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that has to send or check it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// HMAC-SHA256 as base64url without padding; used as its ASCII bytes.
pub fn derive(key: &[u8], text: &str) -> Secret {
    Secret(URL_SAFE_NO_PAD.encode(hmac_sha256(key, &[text.as_bytes()])))
}

/// HMAC-SHA256 over the concatenation of `parts`.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The first 128 bits of SHA-256.
pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    Fingerprint(u128::from_be_bytes(first))
}

/// USERNAME of a listing's presence credential.
pub fn presence_username(listing: ListingId) -> String {
    format!("p1.{listing}")
}

/// USERNAME of a joiner.
pub fn joiner_username(attempt: AttemptId) -> String {
    format!("j1.{attempt}")
}

/// USERNAME of a host for one attempt.
pub fn host_username(listing: ListingId, attempt: AttemptId) -> String {
    format!("h1.{listing}.{attempt}")
}

/// A host's password for one attempt, from its presence password.
pub fn host_password(presence: &Secret, attempt: AttemptId) -> Secret {
    derive(presence.expose().as_bytes(), &attempt.to_string())
}

/// The key with which two peers recognise each other.
pub fn peer_key(presence: &Secret, attempt: AttemptId) -> Secret {
    derive(presence.expose().as_bytes(), &format!("peer.{attempt}"))
}

/// The key of RFC 8489's long-term mechanism with SHA-256 (section 18.5.1.2).
pub fn long_term_key(username: &str, realm: &str, password: &Secret) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [username, ":", realm, ":", password.expose()] {
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// The key from which one instance derives every presence and joiner password.
#[derive(Clone)]
pub struct InstanceKey([u8; 32]);

impl InstanceKey {
    /// Wraps 32 bytes of entropy or of a derivation.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Password of a listing's presence credential.
    pub fn presence_password(&self, listing: ListingId) -> Secret {
        derive(&self.0, &presence_username(listing))
    }

    /// Password of a joiner.
    pub fn joiner_password(&self, attempt: AttemptId) -> Secret {
        derive(&self.0, &joiner_username(attempt))
    }

    /// Password of the host of one attempt.
    pub fn host_password(&self, listing: ListingId, attempt: AttemptId) -> Secret {
        host_password(&self.presence_password(listing), attempt)
    }

    /// The peers' key of one attempt.
    pub fn peer_key(&self, listing: ListingId, attempt: AttemptId) -> Secret {
        peer_key(&self.presence_password(listing), attempt)
    }

    /// The lease token of a listing.
    pub fn lease_token(&self, listing: ListingId) -> Secret {
        derive(&self.0, &format!("lease.{listing}"))
    }
}

impl fmt::Debug for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
