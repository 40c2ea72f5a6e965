//! Guest tokens: an identity for players of games without accounts. Stateless: what the token says, its MAC proves.
//!
//! `g1.` and base64url of: instance id (16 bytes), tenant (2), expiry in nanoseconds of the instance's monotonic clock (8),
//! guest (16), HMAC-SHA256 over all before (32). The instance id tells a token of an earlier life from a forged one.

use crate::credentials::{Secret, hmac_sha256};
use crate::domain::{InstanceId, MonoTime, TenantId};
use crate::service::KeyBytes;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// What a guest's name begins with, and no JWT subject may.
pub const GUEST_PREFIX: &str = "guest:";

const PREFIX: &str = "g1.";
const SIGNED: usize = 16 + 2 + 8 + 16;
const LEN: usize = SIGNED + 32;

/// A guest whose token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge::http) struct Guest {
    pub(in crate::edge::http) tenant: TenantId,
    pub(in crate::edge::http) id: u128,
    /// The token's end.
    pub(in crate::edge::http) until: MonoTime,
}

impl Guest {
    /// The full name.
    pub(in crate::edge::http) fn name(self) -> String {
        format!("{GUEST_PREFIX}{:032x}", self.id)
    }
}

/// Why a guest token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge::http) enum GuestError {
    /// Malformed, forged or past its end.
    Invalid,
    /// Of another life of the process.
    StaleInstance,
}

/// Issues and checks guest tokens.
pub(in crate::edge::http) struct GuestTokens {
    key: KeyBytes,
    ttl: Duration,
    instance: InstanceId,
}

impl GuestTokens {
    pub(in crate::edge::http) fn new(key: KeyBytes, ttl: Duration, instance: InstanceId) -> Self {
        Self { key, ttl, instance }
    }

    /// Lifetime of a token.
    pub(in crate::edge::http) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the text looks like a guest token.
    pub(in crate::edge::http) fn is_one(token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    /// A token for a guest of `tenant`. `id` is entropy for a new guest, or that of the guest who renews.
    pub(in crate::edge::http) fn issue(&self, tenant: TenantId, id: u128, now: MonoTime) -> Secret {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(&self.instance.0.to_be_bytes());
        bytes.extend_from_slice(&tenant.0.to_be_bytes());
        bytes.extend_from_slice(&now.plus_ms(self.ttl_ms()).0.to_be_bytes());
        bytes.extend_from_slice(&id.to_be_bytes());
        let mac = hmac_sha256(self.key.expose(), &[PREFIX.as_bytes(), &bytes]);
        bytes.extend_from_slice(&mac);
        Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Checks a token's MAC in constant time, then its end.
    pub(in crate::edge::http) fn check(&self, token: &str, now: MonoTime) -> Result<Guest, GuestError> {
        let text = token.strip_prefix(PREFIX).ok_or(GuestError::Invalid)?;
        let decoded = URL_SAFE_NO_PAD.decode(text).map_err(|_| GuestError::Invalid)?;
        let bytes: [u8; LEN] = decoded.try_into().map_err(|_| GuestError::Invalid)?;
        let (signed, mac) = bytes.split_at(SIGNED);
        let [instance, tenant, expiry, id] = fields(signed).ok_or(GuestError::Invalid)?;
        if instance != self.instance.0 {
            return Err(GuestError::StaleInstance);
        }
        let expected = hmac_sha256(self.key.expose(), &[PREFIX.as_bytes(), signed]);
        let genuine: bool = expected.ct_eq(mac).into();
        let deadline = MonoTime(u64::try_from(expiry).unwrap_or(0));
        if !genuine || deadline.is_past(now) {
            return Err(GuestError::Invalid);
        }
        Ok(Guest { tenant: TenantId(u16::try_from(tenant).unwrap_or(u16::MAX)), id, until: deadline })
    }
}

/// Big-endian integers of 16, 2, 8 and 16 bytes.
fn fields(mut signed: &[u8]) -> Option<[u128; 4]> {
    let mut values = [0; 4];
    for (value, len) in values.iter_mut().zip([16, 2, 8, 16]) {
        let (field, rest) = signed.split_at_checked(len)?;
        *value = field.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        signed = rest;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonoTime = MonoTime(1_000_000_000);

    fn key(root: u8) -> KeyBytes {
        crate::service::InstanceKeys::derive(&[root; 32], InstanceId(42)).guest_tokens
    }

    fn tokens() -> GuestTokens {
        GuestTokens::new(key(3), Duration::from_secs(60), InstanceId(42))
    }

    #[test]
    fn a_token_lives_as_long_as_the_monotonic_clock_says() {
        let token = tokens().issue(TenantId(3), 9, NOW);
        let check = |ms| tokens().check(token.expose(), NOW.plus_ms(ms));
        let until = NOW.plus_ms(60_000);
        assert_eq!(check(59_999), Ok(Guest { tenant: TenantId(3), id: 9, until }));
        assert_eq!(check(60_000), Err(GuestError::Invalid));
        assert_eq!(format!("{token:?}"), "[redacted]");
    }

    #[test]
    fn a_changed_token_is_refused() {
        let token = tokens().issue(TenantId(3), 9, NOW);
        for position in PREFIX.len()..token.expose().len() {
            let mut bytes = token.expose().as_bytes().to_vec();
            bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(tokens().check(&changed, NOW).is_err(), "{position}");
        }
        let other = GuestTokens::new(key(4), Duration::from_secs(60), InstanceId(42));
        assert_eq!(other.check(token.expose(), NOW), Err(GuestError::Invalid));
        let later = GuestTokens::new(key(3), Duration::from_secs(60), InstanceId(43));
        assert_eq!(later.check(token.expose(), NOW), Err(GuestError::StaleInstance));
        for bad in ["", "g1.", "g1.AAAA", "g1.!!!"] {
            assert_eq!(tokens().check(bad, NOW), Err(GuestError::Invalid), "{bad}");
        }
    }
}
