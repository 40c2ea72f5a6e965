//! What a source has proven a moment ago: its nonce, and the key of the credential that it speaks for.
//!
//! A host repeats its credential and its nonce with every refresh, and deriving the key costs as much as all other checks
//! together. So it is remembered once a datagram's integrity has held, and only for the source that sent it: a
//! flood of made-up names evicts nobody, and nobody can tell from the time of an answer which names others use.
//! Forgetting costs the derivation and nothing else.

use super::budget::Place;
use super::cookie::NONCE_CHARS;
use super::username::{MessageKey, Username};
use crate::domain::{Endpoint, MonoTime};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Pairs that are remembered, one per place of a table that is indexed by a keyed hash; a third that meets two takes
/// the place of one. As many
/// as there are budgets: 512 KiB of empty places, and at most 32 MiB when each is taken.
const PLACES: usize = 65_536;

/// One proven pair of source and credential, in one piece of memory that the answers share.
#[derive(Debug, PartialEq)]
pub(super) struct Conversation {
    pub(super) source: Endpoint,
    pub(super) username: Username,
    pub(super) nonce: [u8; NONCE_CHARS],
    /// When the nonce was issued.
    pub(super) issued: MonoTime,
    /// The credential's key.
    pub(super) key: MessageKey,
    /// The bucket of the credential's budget.
    pub(super) budget: Place,
}

impl Conversation {
    fn is_of(&self, source: Endpoint, username: Username) -> bool {
        self.source == source && self.username == username
    }
}

/// A fixed table of them.
#[derive(Debug)]
pub(super) struct Conversations {
    places: Box<[Option<Arc<Conversation>>]>,
    hasher: RandomState,
}

impl Conversations {
    pub(super) fn new() -> Self {
        Self { places: vec![None; PLACES].into_boxed_slice(), hasher: RandomState::new() }
    }

    /// Two places that lie side by side, so that two pairs that meet both stay.
    fn places(&self, source: Endpoint, username: Username) -> [usize; 2] {
        let place = self.hasher.hash_one((source, username)) as usize % PLACES;
        [place, place ^ 1]
    }

    /// What this source has proven about the credential with this nonce.
    pub(super) fn find(&self, source: Endpoint, username: Username, nonce: &[u8]) -> Option<&Arc<Conversation>> {
        let places = self.places(source, username).into_iter();
        let known =
            places.filter_map(|place| self.places[place].as_ref()).find(|known| known.is_of(source, username))?;
        bool::from(known.nonce[..].ct_eq(nonce)).then_some(known)
    }

    /// Remembers what has been proven, in place of what was before by the same pair; else where room is, or of whoever
    /// has the first place.
    pub(super) fn note(&mut self, proven: Arc<Conversation>) {
        let places = self.places(proven.source, proven.username);
        let known = |place: &usize| self.places[*place].as_deref();
        let same = |place: &usize| known(place).is_some_and(|known| known.is_of(proven.source, proven.username));
        let free = |place: &usize| known(place).is_none();
        let place = places.iter().find(|place| same(place)).or_else(|| places.iter().find(|place| free(place)));
        self.places[*place.unwrap_or(&places[0])] = Some(proven);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::InstanceKey;
    use crate::domain::ListingId;
    use crate::edge::udp::budget::{BucketTable, Rate};

    const NONCE: &[u8; NONCE_CHARS] = &[b'n'; NONCE_CHARS];

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::new(text.parse().unwrap()).unwrap()
    }

    fn name(n: u128) -> Username {
        Username::Presence(ListingId(n))
    }

    fn proven(source: Endpoint, username: Username, nonce: &[u8; NONCE_CHARS], key: &MessageKey) -> Arc<Conversation> {
        let budget = BucketTable::new(Rate::new(1, 1)).place(username);
        Arc::new(Conversation { source, username, nonce: *nonce, issued: MonoTime(7), key: key.clone(), budget })
    }

    #[test]
    fn only_the_same_source_name_and_nonce_find_a_key() {
        let mut conversations = Conversations::new();
        let key = name(1).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        let first = proven(source, name(1), NONCE, &key);
        conversations.note(Arc::clone(&first));
        assert_eq!(conversations.find(source, name(1), NONCE), Some(&first));
        assert!(conversations.find(endpoint("192.0.2.1:4001"), name(1), NONCE).is_none());
        assert!(conversations.find(source, name(2), NONCE).is_none());
        assert!(conversations.find(source, name(1), &NONCE[1..]).is_none());
        let mut later = *NONCE;
        later[NONCE_CHARS - 1] = b'm';
        assert!(conversations.find(source, name(1), &later).is_none());
        conversations.note(proven(source, name(1), &later, &key));
        assert!(conversations.find(source, name(1), NONCE).is_none(), "one nonce at a time");
    }

    #[test]
    fn two_that_meet_both_stay_and_a_third_takes_the_place_of_one() {
        let mut conversations = Conversations::new();
        let key = name(1).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        let pair = |n: u128| conversations.places(source, name(n))[0] / 2;
        let wanted = pair(0);
        let meeting: Vec<u128> = (0..).filter(|n| pair(*n) == wanted).take(3).collect();
        let found = |conversations: &Conversations| -> Vec<bool> {
            meeting.iter().map(|n| conversations.find(source, name(*n), NONCE).is_some()).collect()
        };
        conversations.note(proven(source, name(meeting[0]), NONCE, &key));
        conversations.note(proven(source, name(meeting[1]), NONCE, &key));
        assert_eq!(found(&conversations), [true, true, false]);
        conversations.note(proven(source, name(meeting[2]), NONCE, &key));
        assert_eq!(found(&conversations).iter().filter(|found| **found).count(), 2);
        assert!(found(&conversations)[2]);
    }

    #[test]
    fn case_s12_the_table_never_grows() {
        let mut conversations = Conversations::new();
        let key = name(1).key(&InstanceKey::new([1; 32]));
        let source = endpoint("192.0.2.1:4000");
        let budget = BucketTable::new(Rate::new(1, 1)).place(1);
        for n in 0..2 * PLACES as u128 {
            let (username, nonce, issued) = (name(n), *NONCE, MonoTime(7));
            conversations.note(Arc::new(Conversation { source, username, nonce, issued, key: key.clone(), budget }));
        }
        let remembered = (0..2 * PLACES as u128).filter(|n| conversations.find(source, name(*n), NONCE).is_some());
        assert!((1..=PLACES).contains(&remembered.count()));
    }
}
