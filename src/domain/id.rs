//! Identifiers: 128-bit values that print as 32 lower-case hex digits, and opaque keys that never print.

use std::fmt;

/// The value of each lower-case hex digit, and for every other byte one that no digit has.
const HEX_DIGITS: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    values
};
const NO_DIGIT: u8 = 0x80;

/// Parses exactly 32 lower-case hex digits. Each request and datagram has one, with digits that no branch can foretell.
pub(crate) fn parse_hex32(text: &str) -> Option<u128> {
    let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
    let (mut bytes, mut seen) = ([0; 16], 0);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let (high, low) = (HEX_DIGITS[usize::from(pair[0])], HEX_DIGITS[usize::from(pair[1])]);
        seen |= high | low;
        *byte = high << 4 | low;
    }
    (seen & NO_DIGIT == 0).then_some(u128::from_be_bytes(bytes))
}

/// A 128-bit id that prints as 32 lower-case hex digits.
macro_rules! public_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// Reads 32 lower-case hex digits; anything else is `None`.
            pub fn parse(text: &str) -> Option<Self> {
                $crate::domain::id::parse_hex32(text).map(Self)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:032x})"), self.0)
            }
        }
    };
}
#[cfg(any(feature = "admission", feature = "client"))]
pub(crate) use public_id;

public_id!(
    /// A listing. The upper 48 bits are its creation time in Unix milliseconds, the lower 32 bits are the
    /// [scope tag](crate::domain::Scope::tag) that lets a reader find it by id alone; the rest is random. Never a secret.
    ListingId
);
public_id!(
    /// A join attempt: 48 bits of creation time, then random. Never a secret.
    AttemptId
);
public_id!(
    /// A session of the command plane, as the directory knows it: by its id, inside of the listing's tenant. Never a secret.
    SessionRef
);
public_id!(
    /// One life of the process, random.
    InstanceId
);

impl ListingId {
    /// Builds an id from its creation time (Unix milliseconds), 48 random bits and the scope tag.
    pub fn compose(created_ms: u64, random: u64, tag: u32) -> Self {
        let time = u128::from(created_ms & 0xFFFF_FFFF_FFFF) << 80;
        Self(time | (u128::from(random & 0xFFFF_FFFF_FFFF) << 32) | u128::from(tag))
    }

    /// The scope tag in the lower 32 bits.
    pub fn tag(self) -> u32 {
        self.0 as u32
    }

    /// The creation time in Unix milliseconds.
    pub fn created_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }
}

impl AttemptId {
    /// Builds an id from its creation time (Unix milliseconds) and 80 random bits.
    pub fn compose(created_ms: u64, random: u128) -> Self {
        Self((u128::from(created_ms & 0xFFFF_FFFF_FFFF) << 80) | (random & ((1 << 80) - 1)))
    }
}

/// A configured tenant, by its position in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u16);

macro_rules! opaque_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "([redacted])"))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[redacted]")
            }
        }
    };
}

opaque_key!(
    /// A principal, as a keyed 128-bit digest of (tenant, kind, name). Equal exactly for the same principal of the same tenant.
    PrincipalKey
);
opaque_key!(
    /// The digest of (tenant, principal, operation, idempotency key).
    IdempotencyKey
);
opaque_key!(
    /// The digest of an operator's single-use key (rule H7).
    ReplayKey
);

/// 128 bits that stand for a secret, a datagram or a canonical command: the first of a SHA-256 over it, or for a datagram
/// of the HMAC-SHA256 that covers it. The store keeps only this.
#[derive(Clone, Copy, Eq)]
pub struct Fingerprint(pub u128);

impl PartialEq for Fingerprint {
    /// Compares without a branch on the content, so that timing tells nothing about a prefix.
    fn eq(&self, other: &Self) -> bool {
        let difference = std::hint::black_box(self.0 ^ other.0);
        difference == 0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_refuse_other_spellings() {
        let id = ListingId::compose(1_700_000_000_123, 0xABCD_EF01_2345, 0xDEAD_BEEF);
        assert_eq!(ListingId::parse(&id.to_string()), Some(id));
        assert_eq!((id.tag(), id.created_ms()), (0xDEAD_BEEF, 1_700_000_000_123));
        for bad in ["", "0", &"A".repeat(32), &"0".repeat(31), &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
            assert_eq!(ListingId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn rule_f4_fingerprints_print_redacted() {
        let shown = format!("{:?} {} {:?}", Fingerprint(0xABCD), Fingerprint(0xABCD), PrincipalKey(0xABCD));
        assert!(!shown.to_lowercase().contains("abcd"), "{shown}");
    }
}
