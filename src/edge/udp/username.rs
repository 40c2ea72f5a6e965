//! USERNAME: which credential a datagram claims.

use crate::credentials::{
    InstanceKey, REALM, Secret, host_username, joiner_username, long_term_key, presence_username,
};
use crate::domain::{AttemptId, ListingId};
use crate::stun::IntegrityKey;
use std::fmt;
use subtle::ConstantTimeEq;

/// The three kinds of USERNAME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Username {
    /// `p1.<listing>`.
    Presence(ListingId),
    /// `j1.<attempt>`.
    Joiner(AttemptId),
    /// `h1.<listing>.<attempt>`.
    Host(ListingId, AttemptId),
}

impl Username {
    /// Reads the exact spelling: ids are 32 lower-case hex digits.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (kind, ids) = text.split_once('.')?;
        match kind {
            "p1" => ListingId::parse(ids).map(Self::Presence),
            "j1" => AttemptId::parse(ids).map(Self::Joiner),
            "h1" => {
                let (listing, attempt) = ids.split_once('.')?;
                Some(Self::Host(ListingId::parse(listing)?, AttemptId::parse(attempt)?))
            }
            _ => None,
        }
    }

    /// The spelling on the wire.
    pub(super) fn text(self) -> String {
        match self {
            Self::Presence(listing) => presence_username(listing),
            Self::Joiner(attempt) => joiner_username(attempt),
            Self::Host(listing, attempt) => host_username(listing, attempt),
        }
    }

    /// The long-term key, derived, so names that exist and that don't take the same time.
    pub(super) fn key(self, instance: &InstanceKey) -> MessageKey {
        let password: Secret = match self {
            Self::Presence(listing) => instance.presence_password(listing),
            Self::Joiner(attempt) => instance.joiner_password(attempt),
            Self::Host(listing, attempt) => instance.host_password(listing, attempt),
        };
        MessageKey::new(long_term_key(&self.text(), REALM, &password))
    }
}

/// The key of one credential's messages, ready to verify and to sign with.
#[derive(Clone)]
pub(super) struct MessageKey {
    bytes: [u8; 32],
    pub(super) prepared: IntegrityKey,
}

impl MessageKey {
    fn new(bytes: [u8; 32]) -> Self {
        Self { prepared: IntegrityKey::new(&bytes), bytes }
    }
}

impl PartialEq for MessageKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&other.bytes).into()
    }
}

impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let (listing, attempt) = (ListingId(1 << 127), AttemptId(2));
        for name in [Username::Presence(listing), Username::Joiner(attempt), Username::Host(listing, attempt)] {
            assert_eq!(Username::parse(name.text().as_bytes()), Some(name));
        }
        let id = "0".repeat(32);
        for bad in [
            String::new(),
            "p1".into(),
            "p1.".into(),
            format!("p2.{id}"),
            format!("P1.{id}"),
            format!("p1.{id}0"),
            format!("p1.{id}."),
            format!("p1.{}", "A".repeat(32)),
            format!("h1.{id}"),
            format!("h1.{id}.{id}.{id}"),
            format!("j1.{id}.{id}"),
            format!("p1.{id}\0"),
        ] {
            assert_eq!(Username::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Username::parse(&[0xFF, 0xFE]), None);
    }
}
