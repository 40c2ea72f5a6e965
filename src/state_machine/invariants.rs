//! What must hold after every transition; checked in tests and debug builds.

use super::record::{CompactSource, Ended, Place};
use super::state::{guest, joiner, joining_guest, owner, tenant};
use super::{ListingObject, Machine};
use crate::domain::{Family, MonoTime};

/// Up to this many records every transition is checked in full; above, one accepted one in [`SAMPLE`] is. A rejection
/// changes nothing and would otherwise repeat, at the price of a walk over everything, the check that was just made.
const ALWAYS_BELOW: usize = 64;
const SAMPLE: u64 = 1024;
/// One commit in so many has its tables counted as well.
const TABLES_COUNTED_EVERY: u64 = 16;

impl<O: ListingObject> Machine<O> {
    pub(crate) fn check_after_transition(&self, before: u64, now: MonoTime) {
        let sampled = before / SAMPLE != self.commit / SAMPLE;
        if self.state.remembered_len() <= ALWAYS_BELOW || sampled {
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
        assert_eq!(state.attempts_due.len(), state.attempts.len());
        assert_eq!(state.remembered_due.len(), state.remembered.len());
        let listings = state.remembered.iter().filter(|(_, record)| record.listing_id().is_some()).count();
        let attempts = state.remembered.len() - listings;
        let lens = [state.listings.len() + listings, state.attempts.len() + attempts, state.remembered_len()];
        // Counting the tables walks all of their parts.
        if self.commit.is_multiple_of(TABLES_COUNTED_EVERY) {
            assert_eq!(state.table_lens(), lens);
        }
        assert!(state.listings.len() <= self.limits.listings as usize);
        assert!(state.attempts.len() <= self.limits.attempts as usize);
        assert!(state.present <= self.limits.presence);
        assert!(state.remembered_len() <= self.limits.idempotency as usize);
        assert!(state.unproven <= self.limits.unproven_listings);
    }

    fn check_listings(&self) {
        let state = &self.state;
        let (mut unproven, mut present) = (0, 0);
        for (slot, listing) in &state.listings {
            let place = Some(Place::Listing(slot as u32));
            assert_eq!(state.listing_place(listing.id), place);
            assert_eq!(state.request_place(listing.request.key), place);
            assert_eq!(state.listings_due.filed(slot as u32), Some(listing.due_at()));
            unproven += u32::from(listing.is_unproven);
            for family in [Family::V4, Family::V6] {
                let known = listing.known(family);
                present += u32::from(known.is_some_and(|known| known.is_counted));
                assert!(known.is_none_or(|known| known.endpoint.family() == family));
            }
            assert!(!listing.is_unproven || listing.presence.iter().all(Option::is_none));
        }
        assert_eq!(unproven, state.unproven);
        assert_eq!(present, state.present);
        let slots = || state.listings.iter().map(|(slot, _)| slot as u32);
        state.by_owner.check(slots(), |slot| owner(&state.listings, slot));
        let is_guest = |slot: &u32| state.listings[*slot as usize].source != CompactSource::None;
        state.listings_by_source.check(slots().filter(is_guest), |slot| guest(&state.listings, slot));
        state.scopes.check(state.listings.iter().map(|(_, listing)| listing.scope));
    }

    fn check_attempts(&self, now: MonoTime) {
        let state = &self.state;
        for (slot, attempt) in &state.attempts {
            let place = Some(Place::Attempt(slot as u32));
            assert_eq!(state.attempt_place(attempt.id), place);
            assert_eq!(state.request_place(attempt.request.key), place);
            assert_eq!(state.attempts_due.filed(slot as u32), Some(attempt.dead_at()));
            assert!(state.listings.contains(attempt.listing as usize), "an attempt without its listing");
            assert_eq!(state.filed_in_listing(slot as u32), Some(attempt.dead_at()));
            assert!(attempt.introduced_at.is_none_or(|at| at <= now));
        }
        let in_listings: usize = state.listings.iter().map(|(_, listing)| listing.attempts().len()).sum();
        assert_eq!(in_listings, state.attempts.len());
        let slots = || state.attempts.iter().map(|(slot, _)| slot as u32);
        state.by_tenant.check(slots(), |slot| tenant(&state.attempts, slot));
        state.by_joiner.check(slots(), |slot| joiner(&state.attempts, slot));
        let is_guest = |slot: &u32| state.attempts[*slot as usize].source != CompactSource::None;
        state.attempts_by_source.check(slots().filter(is_guest), |slot| joining_guest(&state.attempts, slot));
    }

    fn check_remembered(&self) {
        let state = &self.state;
        for (slot, record) in &state.remembered {
            let place = Some(Place::Memory(slot as u32));
            assert_eq!(state.request_place(record.request.key), place);
            assert_eq!(state.remembered_due.filed(slot as u32), Some(record.until));
            match &record.ended {
                Ended::Listing { id, .. } => assert_eq!(state.listing_place(*id), place),
                Ended::Attempt(tombstone) => assert_eq!(state.attempt_place(tombstone.id), place),
            }
        }
    }
}
