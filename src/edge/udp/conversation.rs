//! What a source has proven a moment ago: its nonce, and the key of the credential that it speaks for.
//!
//! A host repeats its credential and its nonce with every refresh, and deriving the key costs as much as all other checks
//! together. So it is remembered once a datagram's integrity has held, and only for the source that sent it: a
//! flood of made-up names evicts nobody, and nobody can tell from the time of an answer which names others use.
//! Forgetting costs the derivation and nothing else.

use super::username::MessageKey;
use crate::domain::{Endpoint, MonoTime};
use std::hash::{BuildHasher, RandomState};
use subtle::ConstantTimeEq;

/// Sources that are remembered, one per place of a table that is indexed by a keyed hash; two that meet take turns. As
/// many as there are budgets; 512 KiB of empty places, and at some 500 bytes each at most 32 MiB when all are taken.
const PLACES: usize = 65_536;
/// Longest USERNAME that is remembered; ours have at most 68 bytes.
const NAME_BYTES_MAX: usize = 96;

/// One proven pair of source and credential.
#[derive(Debug)]
pub(super) struct Conversation {
    source: Endpoint,
    name: Box<[u8]>,
    nonce: Box<[u8]>,
    pub(super) issued: MonoTime,
    pub(super) key: MessageKey,
}

/// A fixed table of them.
#[derive(Debug)]
pub(super) struct Conversations {
    places: Box<[Option<Box<Conversation>>]>,
    hasher: RandomState,
}

impl Conversations {
    pub(super) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| None).collect(), hasher: RandomState::new() }
    }

    fn place(&self, source: Endpoint, name: &[u8]) -> usize {
        self.hasher.hash_one((source, name)) as usize % PLACES
    }

    /// What is known of this source under this name, if `nonce` is still the one that proved it.
    pub(super) fn find(&self, source: Endpoint, name: &[u8], nonce: &[u8]) -> Option<&Conversation> {
        let known = self.places[self.place(source, name)].as_deref()?;
        let same = known.source == source && *known.name == *name && bool::from(known.nonce.ct_eq(nonce));
        same.then_some(known)
    }

    /// Remembers what has been proven.
    pub(super) fn note(&mut self, source: Endpoint, name: &[u8], nonce: &[u8], issued: MonoTime, key: &MessageKey) {
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let place = self.place(source, name);
        let proven = Conversation { source, name: name.into(), nonce: nonce.into(), issued, key: key.clone() };
        self.places[place] = Some(Box::new(proven));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::InstanceKey;
    use crate::domain::ListingId;
    use crate::edge::udp::username::Username;

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::new(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn only_the_same_source_name_and_nonce_find_a_key() {
        let mut conversations = Conversations::new();
        let key = Username::Presence(ListingId(1)).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        conversations.note(source, b"p1.x", b"nonce", MonoTime(7), &key);
        let found = conversations.find(source, b"p1.x", b"nonce").unwrap();
        assert!(found.issued == MonoTime(7) && found.key == key);
        assert!(conversations.find(endpoint("192.0.2.1:4001"), b"p1.x", b"nonce").is_none());
        assert!(conversations.find(source, b"p1.y", b"nonce").is_none());
        assert!(conversations.find(source, b"p1.x", b"nonc").is_none());
        assert!(conversations.find(source, b"p1.x", b"noncf").is_none());
        conversations.note(source, b"p1.x", b"later", MonoTime(8), &key);
        assert!(conversations.find(source, b"p1.x", b"nonce").is_none(), "one nonce at a time");
    }

    #[test]
    fn case_s12_the_table_never_grows() {
        let mut conversations = Conversations::new();
        let key = Username::Presence(ListingId(1)).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        for n in 0..2 * PLACES {
            conversations.note(source, format!("p1.{n}").as_bytes(), b"nonce", MonoTime(7), &key);
        }
        assert_eq!(conversations.places.len(), PLACES);
        conversations.note(source, &[b'x'; NAME_BYTES_MAX + 1], b"nonce", MonoTime(7), &key);
        assert!(conversations.find(source, &[b'x'; NAME_BYTES_MAX + 1], b"nonce").is_none());
    }
}
