//! Names and ids of the command plane. All are valid by construction.

use crate::domain::id::public_id;
use std::fmt;
use std::sync::Arc;

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameError {
    /// What the name is for.
    pub what: &'static str,
    /// Longest accepted name in bytes.
    pub max: usize,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} has 1 to {} visible ASCII characters", self.what, self.max)
    }
}

impl std::error::Error for NameError {}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Longest accepted text in bytes.
            pub const MAX: usize = $max;

            /// Accepts 1 to [`Self::MAX`] visible ASCII characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                let text = text.as_ref();
                let ok = (1..=$max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
                if ok { Ok(Self(text.into())) } else { Err(NameError { what: $what, max: $max }) }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

name!(
    /// A tenant by name. Positions in a configuration may move, durable rows may not.
    Tenant, "tenant", 64
);
name!(
    /// Who asks, as its edge authenticated it: `user:alice`, `host:eu-1`, `operator:root`.
    PrincipalName, "principal name", 256
);
name!(
    /// A host: one process that runs sessions.
    HostId, "host id", 64
);
name!(
    /// What a host can run: a build, a region, a size. Sessions go to hosts of their target's key.
    HostTargetKey, "host target key", 128
);
name!(
    /// The name of a configured [`Target`](super::Target); `profile` on the wire.
    AgentId, "profile", 64
);
name!(
    /// A caller's idempotency key. Its scope is (tenant, principal, kind of command, session).
    RequestKey, "idempotency key", 128
);
name!(
    /// How a command ended, in a word: a host's own when it rejects, else one of the constants.
    OutcomeCode, "outcome code", 64
);

impl OutcomeCode {
    /// The host did what was asked.
    pub const APPLIED: &'static str = "applied";
    /// The deadline passed before any host claimed it: it never ran.
    pub const NEVER_CLAIMED: &'static str = "never_claimed";
    /// A host claimed it and nobody reported an end in time: it may have run.
    pub const CLAIMED_NOT_APPLIED: &'static str = "claimed_not_applied";

    /// One of the constants above.
    pub(crate) fn known(code: &'static str) -> Self {
        Self(code.into())
    }

    /// Rule P5: whether the command ended because its time was over.
    pub fn is_expiry(&self) -> bool {
        matches!(self.as_str(), Self::NEVER_CLAIMED | Self::CLAIMED_NOT_APPLIED)
    }
}

public_id!(
    /// A durable session inside a tenant. Time-ordered, so that rows of sessions that live at the same time lie together.
    /// Never a secret.
    SessionId
);
public_id!(
    /// The id under which the host runs the session, derived from the create; see
    /// [`SessionBinding::derive`](super::SessionBinding::derive).
    RuntimeSessionId
);
public_id!(
    /// What a [`UuidSource`](crate::admission::UuidSource) gives.
    Uuid
);

/// A command's place in its session's inbox: 1, 2, 3 and so on without a gap, in the order of admission. Together with
/// the session it is the command's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandSeq(pub u64);

impl fmt::Display for CommandSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a lease of a session: it only ever grows, and the greatest that wrote its fence is the only one that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// How often a row was written; what a compare-and-swap compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Reads 64 lower-case hex digits; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let (high, low) = (text.get(..32)?, text.get(32..)?);
        let (high, low) = (SessionId::parse(high)?.0, SessionId::parse(low)?.0);
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&high.to_be_bytes());
        bytes[16..].copy_from_slice(&low.to_be_bytes());
        Some(Self(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

/// The control shard of a session: a pure function, the same in the process that writes and in the one that sweeps.
/// `shards` is read from the store, where it was fixed when the store was created.
pub fn control_shard(tenant: &Tenant, session: SessionId, shards: u32) -> u32 {
    let bytes = tenant.as_str().bytes().chain([0]).chain(session.0.to_be_bytes());
    (mixed(fnv1a(bytes)) % u64::from(shards.max(1))) as u32
}

/// The finaliser of MurmurHash3: FNV alone puts ids that differ in their last bits side by side.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// FNV-1a, 64 bits: fixed for ever, for shards are stored.
pub(crate) fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_visible() {
        assert!(Tenant::new("arena").is_ok());
        for bad in ["", " ", "a b", "ä", &"x".repeat(65), "a\n"] {
            assert_eq!(Tenant::new(bad), Err(NameError { what: "tenant", max: 64 }), "{bad:?}");
        }
        assert!(Tenant::new("x".repeat(64)).is_ok());
    }

    #[test]
    fn digests_round_trip() {
        let digest = Sha256::of(b"abc");
        assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Sha256::parse(&digest.to_string()), Some(digest));
        for bad in ["", "ba78", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert_eq!(Sha256::parse(bad), None, "{bad}");
        }
    }

    /// A store that was written by one build is swept by the next: the function may never change.
    #[test]
    fn shards_are_fixed_for_ever_and_spread() {
        let tenant = Tenant::new("arena").expect("valid");
        let shard = |n| control_shard(&tenant, SessionId(n), 16);
        assert_eq!([shard(1), shard(2), shard(3), shard(1 << 80)], [15, 13, 0, 12]);
        let mut counts = [0u32; 16];
        // Ids in sequence, and ids that differ in their time only.
        (0..8_000).for_each(|n| counts[shard(n) as usize] += 1);
        (0..8_000).for_each(|n| counts[shard(n << 80) as usize] += 1);
        assert!(counts.iter().all(|count| (700..1_300).contains(count)), "{counts:?}");
    }
}
