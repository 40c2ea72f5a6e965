//! What a source has proven a moment ago: its nonce, and the key of the credential that it speaks for.
//!
//! A host repeats its credential and its nonce with every refresh, and deriving the key costs as much as all other checks
//! together. So it is remembered once a datagram's integrity has held, and only for the source that sent it: a
//! flood of made-up names evicts nobody, and nobody can tell from the time of an answer which names others use.
//! Forgetting costs the derivation and nothing else.

use super::cookie::NONCE_CHARS;
use super::username::{MessageKey, Username};
use crate::domain::{Endpoint, MonoTime};
use std::hash::{BuildHasher, RandomState};
use subtle::ConstantTimeEq;

/// Pairs that are remembered, one per place of a table that is indexed by a keyed hash; two that meet take turns. As many
/// as there are budgets: 512 KiB of empty places, and at most 32 MiB when each is taken.
const PLACES: usize = 65_536;

/// One proven pair of source and credential, in one piece of memory.
#[derive(Debug)]
struct Conversation {
    source: Endpoint,
    username: Username,
    nonce: [u8; NONCE_CHARS],
    issued: MonoTime,
    key: MessageKey,
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

    fn place(&self, source: Endpoint, username: Username) -> usize {
        self.hasher.hash_one((source, username)) as usize % PLACES
    }

    /// Issue time and key, if this source has proven the credential with this nonce.
    pub(super) fn find(&self, source: Endpoint, username: Username, nonce: &[u8]) -> Option<(MonoTime, &MessageKey)> {
        let known = self.places[self.place(source, username)].as_deref()?;
        let same = known.source == source && known.username == username && bool::from(known.nonce[..].ct_eq(nonce));
        same.then_some((known.issued, &known.key))
    }

    /// Remembers what has been proven.
    pub(super) fn note(
        &mut self,
        source: Endpoint,
        username: Username,
        nonce: &[u8],
        issued: MonoTime,
        key: &MessageKey,
    ) {
        // Every nonce that was found authentic has this length.
        let Ok(nonce) = nonce.try_into() else { return };
        let proven = Conversation { source, username, nonce, issued, key: key.clone() };
        let place = self.place(source, username);
        self.places[place] = Some(Box::new(proven));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::InstanceKey;
    use crate::domain::ListingId;

    const NONCE: &[u8; NONCE_CHARS] = &[b'n'; NONCE_CHARS];

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::new(text.parse().unwrap()).unwrap()
    }

    fn name(n: u128) -> Username {
        Username::Presence(ListingId(n))
    }

    #[test]
    fn only_the_same_source_name_and_nonce_find_a_key() {
        let mut conversations = Conversations::new();
        let key = name(1).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        conversations.note(source, name(1), NONCE, MonoTime(7), &key);
        assert!(conversations.find(source, name(1), NONCE).is_some_and(|found| found == (MonoTime(7), &key)));
        assert!(conversations.find(endpoint("192.0.2.1:4001"), name(1), NONCE).is_none());
        assert!(conversations.find(source, name(2), NONCE).is_none());
        assert!(conversations.find(source, name(1), &NONCE[1..]).is_none());
        let mut later = *NONCE;
        later[NONCE_CHARS - 1] = b'm';
        assert!(conversations.find(source, name(1), &later).is_none());
        conversations.note(source, name(1), &later, MonoTime(8), &key);
        assert!(conversations.find(source, name(1), NONCE).is_none(), "one nonce at a time");
    }

    #[test]
    fn case_s12_the_table_never_grows() {
        let mut conversations = Conversations::new();
        let key = name(1).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        for n in 0..2 * PLACES as u128 {
            conversations.note(source, name(n), NONCE, MonoTime(7), &key);
        }
        let remembered = (0..2 * PLACES as u128).filter(|n| conversations.find(source, name(*n), NONCE).is_some());
        assert!((1..=PLACES).contains(&remembered.count()));
    }
}
