//! What must hold after every transition; checked in tests and debug builds.

use super::due::NOWHERE;
use super::record::{AttemptMemory, ListingMemory, Resource, Whereabouts};
use super::{ListingObject, Machine};
use crate::domain::{Family, MonoTime};
use std::collections::BTreeMap;

/// Up to this many records every transition is checked in full; above, one accepted one in [`SAMPLE`] is. A rejection
/// changes nothing and would otherwise repeat, at the price of a walk over everything, the check that was just made.
const ALWAYS_BELOW: usize = 64;
const SAMPLE: u64 = 1024;

impl<O: ListingObject> Machine<O> {
    pub(crate) fn check_after_transition(&self, before: u64, now: MonoTime) {
        let records = self.state.listings.len() + self.state.attempts.len() + self.state.remembered.len();
        let sampled = before / SAMPLE != self.commit / SAMPLE;
        if records <= ALWAYS_BELOW || sampled {
            self.check_invariants(now);
        }
    }

    /// Indexes agree, counts agree, and no live record is missing from its index.
    pub fn check_invariants(&self, now: MonoTime) {
        let state = &self.state;
        self.check_listings();
        self.check_attempts(now);
        self.check_remembered();
        state.revocations.check();
        state.replay.check();
        assert_eq!(state.listings_due.len(), state.listings.len());
        assert_eq!(state.by_owner.total(), state.listings.len());
        assert_eq!(state.attempts_due.len(), state.attempts.len());
        assert_eq!(state.by_tenant.total(), state.attempts.len());
        assert_eq!(state.by_joiner.total(), state.attempts.len());
        assert!(state.listings.len() <= self.limits.listings as usize);
        assert!(state.attempts.len() <= self.limits.attempts as usize);
        assert!(state.remembered.len() <= self.limits.idempotency as usize);
        assert!(state.unproven <= self.limits.unproven_listings);
    }

    fn check_listings(&self) {
        let state = &self.state;
        let (mut unproven, mut present, mut guests) = (0, 0, 0);
        let mut protocols: BTreeMap<&str, u32> = BTreeMap::new();
        for (slot, listing) in &state.listings {
            assert_eq!(state.listing_ids.get(&listing.id), Some(&Whereabouts::Live(slot as u32)));
            assert_ne!(listing.due, NOWHERE);
            unproven += u32::from(listing.unproven_until.is_some());
            guests += usize::from(listing.source.is_some());
            *protocols.entry(&listing.scope.protocol).or_default() += 1;
            for family in [Family::V4, Family::V6] {
                let known = listing.presence[family.index()].as_deref();
                present += usize::from(known.is_some_and(|known| known.due != NOWHERE));
                assert!(known.is_none_or(|known| known.endpoint.family() == family));
            }
            assert!(listing.unproven_until.is_none() || listing.presence.iter().all(Option::is_none));
            let memory = &state.remembered[listing.remembered as usize].resource;
            let is_remembered = matches!(memory, Resource::Listing { id, state: ListingMemory::Live { slot: back }, .. }
                if *id == listing.id && *back == slot as u32);
            assert!(is_remembered);
        }
        assert_eq!(unproven, state.unproven);
        assert_eq!(present, state.presence_due.len());
        assert_eq!(guests, state.listings_by_source.total());
        let counted: BTreeMap<&str, u32> =
            state.protocol_counts().iter().map(|(text, count)| (&**text, *count)).collect();
        assert_eq!(protocols, counted);
    }

    fn check_attempts(&self, now: MonoTime) {
        let state = &self.state;
        let (mut in_listings, mut guests) = (0, 0);
        for (slot, attempt) in &state.attempts {
            assert_eq!(state.attempt_ids.get(&attempt.id), Some(&Whereabouts::Live(slot as u32)));
            assert!(state.listings.contains(attempt.listing as usize), "an attempt without its listing");
            guests += usize::from(attempt.source.is_some());
            assert!(attempt.introduced_at.is_none_or(|at| at <= now));
            let memory = &state.remembered[attempt.remembered as usize].resource;
            let is_remembered = matches!(memory, Resource::Attempt { id, state: AttemptMemory::Live { slot: back }, .. }
                if *id == attempt.id && *back == slot as u32);
            assert!(is_remembered);
        }
        for (_, listing) in &state.listings {
            in_listings += listing.attempts.len();
        }
        assert_eq!(in_listings, state.attempts.len());
        assert_eq!(guests, state.attempts_by_source.total());
    }

    fn check_remembered(&self) {
        let state = &self.state;
        let mut ended = 0;
        for (slot, record) in &state.remembered {
            assert_eq!(state.remembered_keys.get(&record.key), Some(&(slot as u32)));
            let whereabouts = Some(&Whereabouts::Remembered(slot as u32));
            match &record.resource {
                Resource::Listing { id, state: ListingMemory::Ended { .. }, .. } => {
                    ended += 1;
                    assert_eq!(state.listing_ids.get(id), whereabouts);
                }
                Resource::Attempt { id, state: AttemptMemory::Ended(_), .. } => {
                    ended += 1;
                    assert_eq!(state.attempt_ids.get(id), whereabouts);
                }
                Resource::Listing { .. } | Resource::Attempt { .. } => {}
            }
        }
        assert_eq!(ended, state.remembered_due.len());
        assert_eq!(state.listing_ids.len() + state.attempt_ids.len(), state.remembered.len());
    }
}
