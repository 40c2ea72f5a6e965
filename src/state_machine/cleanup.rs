//! Removal of what is dead: oldest deadline first, bounded, at the cost of what is removed (C2).

use super::due::Due;
use super::record::{Attempt, Ended, Tombstone};
use super::{Change, ListingObject, Machine};
use crate::domain::{EndReason, Event, Family, ListingEnd, MonoTime};

/// Most records that one transition removes before its own work (C2; a listing takes its presence and attempts along).
const REMOVED_MAX: usize = 256;
/// Up to this many records the above is a matter of microseconds, because everything is at hand in a core's caches.
const SMALL: usize = 4_096;
/// The same for a large store: there a removal waits for memory a dozen times, and whoever comes first after a mass
/// expiry must not pay for all. Eight keep a transition within a tenth of a millisecond.
const REMOVED_OF_MANY: usize = 8;
/// Most records that one sweep removes of a large store. The tick sweeps in many slices and lets waiting commands in
/// between two, so this bounds what they wait for to under a millisecond.
const SWEPT_OF_MANY: usize = 64;

/// The collections with a due index; the order breaks ties between equal deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pool {
    Attempts,
    Listings,
    Remembered,
    Revocations,
    Replay,
}

impl<O: ListingObject> Machine<O> {
    /// Removes a slice of the dead records; the next transition goes on.
    pub(crate) fn clean_up(&mut self, now: MonoTime, is_sweep: bool) {
        let slice = match self.state.remembered_len() {
            ..=SMALL => REMOVED_MAX,
            _ if is_sweep => SWEPT_OF_MANY,
            _ => REMOVED_OF_MANY,
        };
        for _ in 0..slice {
            if !self.remove_oldest_dead(now) {
                break;
            }
        }
    }

    /// Goes on removing until `fits` or nothing dead is left: for creations that meet a ceiling.
    pub(crate) fn clean_up_until(&mut self, now: MonoTime, fits: impl Fn(&Self) -> bool) -> bool {
        while !fits(self) {
            if !self.remove_oldest_dead(now) {
                return false;
            }
        }
        true
    }

    fn remove_oldest_dead(&mut self, now: MonoTime) -> bool {
        let Some((due, pool)) = self.oldest(now) else { return false };
        super::work::count();
        match pool {
            Pool::Attempts => self.expire_attempt(due.slot),
            Pool::Listings => self.expire_listing_or_presence(due),
            Pool::Remembered => self.state.forget(due.slot),
            Pool::Revocations => self.state.revocations.remove_slot(due.slot),
            Pool::Replay => self.state.replay.remove_slot(due.slot),
        }
        true
    }

    /// The dead record with the oldest deadline.
    pub(crate) fn oldest(&self, now: MonoTime) -> Option<(Due, Pool)> {
        let state = &self.state;
        let heads = [
            (state.attempts_due.first_dead(now), Pool::Attempts),
            (state.listings_due.first_dead(now), Pool::Listings),
            (state.remembered_due.first_dead(now), Pool::Remembered),
            (state.revocations.first_dead(now), Pool::Revocations),
            (state.replay.first_dead(now), Pool::Replay),
        ];
        heads.into_iter().filter_map(|(due, pool)| due.map(|due| (due, pool))).min_by_key(|(due, pool)| (due.at, *pool))
    }

    /// Takes the cleanup's number, once per transition: it removed something visible (A2).
    fn number_cleanup(&mut self) {
        if !self.cleanup_numbered {
            self.cleanup_numbered = true;
            self.commit += 1;
        }
    }

    /// Ends an attempt that is dead by its own deadlines.
    pub(crate) fn expire_attempt(&mut self, slot: u32) {
        self.number_cleanup();
        let attempt = &self.state.attempts[slot as usize];
        let (reason, at) = (attempt.end_by_time(), attempt.dead_at());
        self.end_attempt(slot, reason, at);
    }

    /// Ends a listing that is dead by its own deadline.
    pub(crate) fn expire_listing(&mut self, slot: u32) {
        self.number_cleanup();
        let listing = &self.state.listings[slot as usize];
        let (end, at) = (listing.end_by_time(), listing.dead_at());
        self.end_listing(slot, end, at);
    }

    /// Ends a listing that is due, or lets one family's presence lapse: then the listing lives on, hidden if that was
    /// its last.
    fn expire_listing_or_presence(&mut self, due: Due) {
        let slot = due.slot;
        let listing = &self.state.listings[slot as usize];
        if listing.dead_at() <= due.at {
            return self.expire_listing(slot);
        }
        let is_over =
            |family: &Family| listing.known(*family).is_some_and(|known| known.is_counted && known.deadline <= due.at);
        let Some(family) = Family::BOTH.into_iter().find(is_over) else { return };
        self.state.lapse_presence(slot, family);
        let listing = &self.state.listings[slot as usize];
        if !listing.is_shown() {
            let (id, scope) = (listing.id, self.state.scopes.get(listing.scope).clone());
            self.number_cleanup();
            self.changes.push(Change::Hide { id, scope, parked: Some(slot) });
        }
    }

    /// Ends a listing: its attempts first, then presence and listing; what remains is the memory of the request.
    /// Returns how many attempts were still alive.
    pub(crate) fn end_listing(&mut self, slot: u32, end: ListingEnd, at: MonoTime) -> u32 {
        let mut attempts: Vec<u32> = self.state.listings[slot as usize].attempts().iter().map(|due| due.slot).collect();
        attempts.sort_unstable();
        let reason = match end {
            ListingEnd::Revoked => EndReason::Revoked,
            ListingEnd::Drained => EndReason::Drained,
            ListingEnd::Deleted | ListingEnd::Expired | ListingEnd::NeverPresent => EndReason::ListingGone,
        };
        let mut ended = 0;
        for attempt in attempts {
            let before = self.state.attempts[attempt as usize].end_before(at);
            ended += u32::from(before.is_none());
            let (reason, at) = before.unwrap_or((reason, at));
            self.end_attempt(attempt, reason, at);
        }
        let was_shown = self.state.listings[slot as usize].is_shown();
        let until = at.plus_ms(self.limits.idempotency_retention_ms.into());
        let (listing, scope) = self.state.remove_listing(slot, end, until);
        if was_shown {
            self.changes.push(Change::Hide { id: listing.id, scope, parked: None });
        }
        self.events.push(Event::ListingEnded { listing: listing.id, reason: end });
        ended
    }

    /// Ends an attempt and leaves its tombstone.
    pub(crate) fn end_attempt(&mut self, slot: u32, reason: EndReason, at: MonoTime) {
        let attempt = &self.state.attempts[slot as usize];
        let listing = &self.state.listings[attempt.listing as usize];
        let (id, listing, host, commit) = (attempt.id, listing.id, listing.owner(), self.commit);
        let until = at.plus_ms(self.limits.idempotency_retention_ms.into());
        self.state.remove_attempt(slot, until, |attempt| {
            Ended::Attempt(Box::new(Tombstone {
                id,
                listing,
                reason,
                commit,
                joiner: attempt.joiner,
                host,
                capabilities: attempt.capabilities,
                reported: attempt.reported,
                family: attempt.introduced_family(),
            }))
        });
        self.events.push(Event::AttemptEnded { attempt: id, listing, reason });
    }
}

impl Attempt {
    /// How and when the attempt died by itself, if that was no later than `at`.
    fn end_before(&self, at: MonoTime) -> Option<(EndReason, MonoTime)> {
        self.dead_at().is_past(at).then(|| (self.end_by_time(), self.dead_at()))
    }

    /// The family over which peers were introduced, IPv6 first.
    pub(crate) fn introduced_family(&self) -> Option<Family> {
        self.introduced_at?;
        Family::BOTH.into_iter().find(|family| self.pair(*family).is_some())
    }
}
