//! The NONCE: a stateless cookie that proves that its bearer receives at the address it sends from.
//!
//! RFC 8489 integrity covers everything but the source address; the nonce does it, so a captured datagram is worthless
//! from elsewhere. Nothing is remembered between challenge and use (case S12).

use super::settings::Entropy;
use crate::credentials::hmac_sha256;
use crate::domain::{Endpoint, InstanceId, MonoTime};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Nonce cookie and security feature bits (RFC 8489 section 9.2): password algorithms are offered, anonymity is not.
pub const NONCE_PREFIX: &str = "obMatJos2gAAA";

/// Bytes of the issue time.
const TIME_BYTES: usize = 8;
/// Bytes of the authenticator: 96 bits, so that the whole challenge stays below a padded first request.
const TAG_BYTES: usize = 12;
/// Characters behind the prefix.
const TAIL_CHARS: usize = 27;
/// Characters of a nonce.
pub(super) const NONCE_CHARS: usize = NONCE_PREFIX.len() + TAIL_CHARS;

/// The key behind one instance's nonces, with its HMAC schedule worked out.
#[derive(Clone)]
pub struct CookieKey(Hmac<Sha256>);

impl CookieKey {
    /// Derives the key from entropy of this life of the process and the instance id, which is always mixed in.
    pub fn new(entropy: &Entropy, instance: InstanceId) -> Self {
        let key = hmac_sha256(entropy.bytes(), &[b"udp nonce", &instance.0.to_be_bytes()]);
        Self(Hmac::new_from_slice(&key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")))
    }

    /// A nonce for `source`, issued at `now`.
    pub fn issue(&self, source: Endpoint, now: MonoTime) -> String {
        let mut tail = [0; TIME_BYTES + TAG_BYTES];
        tail[..TIME_BYTES].copy_from_slice(&now.0.to_be_bytes());
        tail[TIME_BYTES..].copy_from_slice(&self.tag(source, now));
        let mut nonce = String::with_capacity(NONCE_CHARS);
        nonce.push_str(NONCE_PREFIX);
        URL_SAFE_NO_PAD.encode_string(tail, &mut nonce);
        nonce
    }

    /// The issue time of a nonce that this instance gave to `source`; of any age.
    pub fn check(&self, nonce: &[u8], source: Endpoint) -> Option<MonoTime> {
        let tail = nonce.strip_prefix(NONCE_PREFIX.as_bytes()).filter(|tail| tail.len() == TAIL_CHARS)?;
        let mut decoded = [0; TIME_BYTES + TAG_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(tail, &mut decoded).ok()?;
        if length != decoded.len() {
            return None;
        }
        let (time, tag) = decoded.split_at(TIME_BYTES);
        let issued = MonoTime(u64::from_be_bytes(time.try_into().ok()?));
        bool::from(self.tag(source, issued).ct_eq(tag)).then_some(issued)
    }

    /// The authenticator over prefix, issue time, folded family, address and port.
    fn tag(&self, source: Endpoint, issued: MonoTime) -> [u8; TAG_BYTES] {
        let address = source.address();
        let (family, ip) = match address.ip() {
            IpAddr::V4(ip) => (4_u8, ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => (6_u8, ip.octets()),
        };
        let parts: [&[u8]; 5] =
            [NONCE_PREFIX.as_bytes(), &issued.0.to_be_bytes(), &[family], &ip, &address.port().to_be_bytes()];
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..TAG_BYTES]);
        tag
    }
}

impl std::fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::new(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn case_s3_a_nonce_is_good_for_its_source_and_instance_only() {
        let key = CookieKey::new(&Entropy::new([1; 32]), InstanceId(7));
        let (source, now) = (endpoint("192.0.2.1:4000"), MonoTime(1_234_567_890));
        let nonce = key.issue(source, now);
        assert_eq!(nonce.len(), NONCE_CHARS);
        assert_eq!(key.check(nonce.as_bytes(), source), Some(now));
        for other in ["192.0.2.1:4001", "192.0.2.2:4000", "[2001:db8::1]:4000"] {
            assert_eq!(key.check(nonce.as_bytes(), endpoint(other)), None, "{other}");
        }
        assert_eq!(
            CookieKey::new(&Entropy::new([1; 32]), InstanceId(8)).check(nonce.as_bytes(), source),
            None,
            "rule J4"
        );
        assert_eq!(CookieKey::new(&Entropy::new([2; 32]), InstanceId(7)).check(nonce.as_bytes(), source), None);
    }

    #[test]
    fn case_p7_a_mapped_address_is_the_same_source() {
        let key = CookieKey::new(&Entropy::new([1; 32]), InstanceId(7));
        let nonce = key.issue(endpoint("[::ffff:192.0.2.1]:4000"), MonoTime(1));
        assert_eq!(key.check(nonce.as_bytes(), endpoint("192.0.2.1:4000")), Some(MonoTime(1)));
    }

    #[test]
    fn every_changed_or_missing_character_is_refused() {
        let key = CookieKey::new(&Entropy::new([1; 32]), InstanceId(7));
        let source = endpoint("192.0.2.1:4000");
        let nonce = key.issue(source, MonoTime(99)).into_bytes();
        for position in 0..nonce.len() {
            for character in (0..=u8::MAX).filter(|c| *c != nonce[position]) {
                let mut changed = nonce.clone();
                changed[position] = character;
                assert_eq!(key.check(&changed, source), None, "{position} {character}");
            }
            assert_eq!(key.check(&nonce[..position], source), None);
        }
        assert_eq!(key.check(&[&nonce[..], b"A"].concat(), source), None);
    }
}
