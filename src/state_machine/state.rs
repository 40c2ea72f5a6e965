//! The collections, and the only places where their indexes are changed together.

use super::due::{DueIndex, Positions};
use super::groups::Groups;
use super::pool::TimedPool;
use super::record::{Attempt, CompactSource, Ended, FamilyPresence, Listing, Place, Remembered, Request};
use super::scopes::Scopes;
use super::table::{Table, fold};
use crate::domain::{
    AttemptId, Family, IdempotencyKey, Limits, ListingId, MonoTime, PrincipalKey, ReplayKey, Scope, SessionRef,
    Subject, TenantId,
};
use slab::Slab;
use std::collections::BTreeSet;

/// Records for which address space is reserved at start, so that growth does not copy them inside a transition; pages
/// are touched when they are used. Only idempotency records can be more, their room then grows by doubling.
const RESERVED: usize = 1 << 20;

/// Everything that drain lets go of at once.
#[derive(Debug)]
pub(crate) struct State<O> {
    pub(crate) listings: Slab<Listing<O>>,
    listing_ids: Table,
    /// Live listings by [`Listing::due_at`]: one timer for the lease and both presences.
    pub(crate) listings_due: DueIndex,
    pub(crate) by_owner: Groups<PrincipalKey>,
    pub(crate) listings_by_source: Groups<CompactSource>,
    /// The slots of listings that are for a session of the command plane.
    by_session: BTreeSet<(TenantId, SessionRef, u32)>,
    /// Listings that never had presence.
    pub(crate) unproven: u32,
    /// Presences that are counted as live.
    pub(crate) present: u32,
    pub(crate) attempts: Slab<Attempt>,
    attempt_ids: Table,
    pub(crate) attempts_due: DueIndex,
    /// Positions in the heaps of attempts that listings have.
    in_listing: Positions,
    pub(crate) by_tenant: Groups<TenantId>,
    pub(crate) by_joiner: Groups<PrincipalKey>,
    pub(crate) attempts_by_source: Groups<CompactSource>,
    /// Requests whose resource has ended; those of live resources are remembered by the resource itself.
    pub(crate) remembered: Slab<Remembered>,
    pub(crate) remembered_due: DueIndex,
    request_keys: Table,
    pub(crate) revocations: TimedPool<Subject>,
    pub(crate) replay: TimedPool<ReplayKey>,
    pub(crate) scopes: Scopes,
}

impl<O> State<O> {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = |ceiling: u32| (ceiling as usize).min(RESERVED);
        let (listings, attempts, remembered) = (room(limits.listings), room(limits.attempts), room(limits.idempotency));
        Self {
            listings: Slab::with_capacity(listings),
            listing_ids: Table::new(),
            listings_due: DueIndex::with_capacity(listings),
            by_owner: Groups::new(),
            listings_by_source: Groups::new(),
            by_session: BTreeSet::new(),
            unproven: 0,
            present: 0,
            attempts: Slab::with_capacity(attempts),
            attempt_ids: Table::new(),
            attempts_due: DueIndex::with_capacity(attempts),
            in_listing: Positions::default(),
            by_tenant: Groups::new(),
            by_joiner: Groups::new(),
            attempts_by_source: Groups::new(),
            remembered: Slab::with_capacity(remembered),
            remembered_due: DueIndex::with_capacity(remembered),
            request_keys: Table::new(),
            revocations: TimedPool::new(),
            replay: TimedPool::new(),
            scopes: Scopes::default(),
        }
    }

    // ---- listings ----

    /// Where a listing's id leads to.
    pub(crate) fn listing_place(&self, id: ListingId) -> Option<Place> {
        let is_it = |entry| match Place::unpack(entry) {
            Place::Listing(slot) => self.listings[slot as usize].id == id,
            Place::Memory(slot) => self.remembered[slot as usize].listing_id() == Some(id),
            Place::Attempt(_) => false,
        };
        self.listing_ids.get(fold(id), is_it).map(Place::unpack)
    }

    pub(crate) fn insert_listing(&mut self, listing: Listing<O>) -> u32 {
        let (id, key, dead_at, is_guest) =
            (listing.id, listing.request.key, listing.dead_at(), listing.source != CompactSource::None);
        let session = listing.session().map(|session| (listing.owner_tenant, session));
        let slot = self.listings.insert(listing) as u32;
        let place = Place::Listing(slot).pack();
        self.file_listing_id(id, place);
        self.file_request(key, place);
        self.unproven += 1;
        self.listings_due.push(dead_at, slot);
        let listings = &self.listings;
        self.by_owner.push(slot, |slot| owner(listings, slot));
        if is_guest {
            self.listings_by_source.push(slot, |slot| guest(listings, slot));
        }
        if let Some((tenant, session)) = session {
            self.by_session.insert((tenant, session, slot));
        }
        slot
    }

    /// The slots of the listings that are for a session.
    pub(crate) fn listings_of_session(&self, tenant: TenantId, session: SessionRef) -> impl Iterator<Item = u32> {
        self.by_session.range((tenant, session, 0)..=(tenant, session, u32::MAX)).map(|(_, _, slot)| *slot)
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn sessions_filed(&self) -> usize {
        self.by_session.len()
    }

    /// Files a listing under its present deadlines in every index.
    pub(crate) fn reschedule_listing(&mut self, slot: u32) {
        self.listings_due.reschedule(slot, self.listings[slot as usize].due_at());
        let listings = &self.listings;
        self.by_owner.reschedule(slot, |slot| owner(listings, slot));
        self.listings_by_source.reschedule(slot, |slot| guest(listings, slot));
    }

    /// Takes a listing out of every collection and leaves the memory of its request. Its attempts are gone already.
    pub(crate) fn remove_listing(
        &mut self,
        slot: u32,
        end: crate::domain::ListingEnd,
        until: MonoTime,
    ) -> (Listing<O>, Scope) {
        self.listings_due.remove(slot);
        let listings = &self.listings;
        self.by_owner.remove(slot, |slot| owner(listings, slot));
        if listings[slot as usize].source != CompactSource::None {
            self.listings_by_source.remove(slot, |slot| guest(listings, slot));
        }
        let listing = self.listings.remove(slot as usize);
        debug_assert!(listing.attempts().is_empty());
        if let Some(session) = listing.session() {
            self.by_session.remove(&(listing.owner_tenant, session, slot));
        }
        self.unproven -= u32::from(listing.is_unproven);
        self.present -= listing.presence.iter().flatten().map(|known| u32::from(known.is_counted)).sum::<u32>();
        let (id, owner, owner_tenant, lease) = (listing.id, listing.owner, listing.owner_tenant, listing.lease);
        let ended = Ended::Listing { id, end, owner, owner_tenant, lease };
        let memory = self.retain(Place::Listing(slot), Remembered { request: listing.request, until, ended });
        self.listing_ids.replace(fold(id), Place::Listing(slot).pack(), memory.pack());
        let scope = self.scopes.release(listing.scope);
        (listing, scope)
    }

    fn file_listing_id(&mut self, id: ListingId, place: u32) {
        let (listings, remembered) = (&self.listings, &self.remembered);
        self.listing_ids.insert(fold(id), place, |entry| match Place::unpack(entry) {
            Place::Listing(slot) => fold(listings[slot as usize].id),
            Place::Memory(slot) => remembered[slot as usize].listing_id().map_or(0, fold),
            Place::Attempt(_) => 0,
        });
    }

    // ---- presence ----

    /// Sets a family's presence and counts it as live.
    pub(crate) fn set_presence(&mut self, slot: u32, family: Family, presence: FamilyPresence) {
        let known = &mut self.listings[slot as usize].presence[family.index()];
        self.present += u32::from(known.as_ref().is_none_or(|known| !known.is_counted));
        match known {
            Some(known) => **known = presence,
            none => *none = Some(Box::new(presence)),
        }
    }

    /// Stops counting a family's presence as live; its endpoint and sequence stay (G1).
    pub(crate) fn lapse_presence(&mut self, slot: u32, family: Family) {
        if let Some(known) = &mut self.listings[slot as usize].presence[family.index()] {
            self.present -= u32::from(std::mem::take(&mut known.is_counted));
        }
        self.listings_due.reschedule(slot, self.listings[slot as usize].due_at());
    }

    // ---- attempts ----

    /// Where an attempt's id leads to.
    pub(crate) fn attempt_place(&self, id: AttemptId) -> Option<Place> {
        let is_it = |entry| match Place::unpack(entry) {
            Place::Attempt(slot) => self.attempts[slot as usize].id == id,
            Place::Memory(slot) => self.remembered[slot as usize].attempt_id() == Some(id),
            Place::Listing(_) => false,
        };
        self.attempt_ids.get(fold(id), is_it).map(Place::unpack)
    }

    pub(crate) fn insert_attempt(&mut self, attempt: Attempt) -> u32 {
        let (id, key, dead_at, listing) = (attempt.id, attempt.request.key, attempt.dead_at(), attempt.listing);
        let is_guest = attempt.source != CompactSource::None;
        let slot = self.attempts.insert(attempt) as u32;
        let place = Place::Attempt(slot).pack();
        self.file_attempt_id(id, place);
        self.file_request(key, place);
        self.attempts_due.push(dead_at, slot);
        self.listings[listing as usize].rare_mut().attempts.push(dead_at, slot, &mut self.in_listing);
        let attempts = &self.attempts;
        self.by_tenant.push(slot, |slot| tenant(attempts, slot));
        self.by_joiner.push(slot, |slot| joiner(attempts, slot));
        if is_guest {
            self.attempts_by_source.push(slot, |slot| joining_guest(attempts, slot));
        }
        slot
    }

    /// Files an attempt under its present deadline in every index.
    pub(crate) fn reschedule_attempt(&mut self, slot: u32) {
        let attempts = &self.attempts;
        let (dead_at, listing) = (attempts[slot as usize].dead_at(), attempts[slot as usize].listing);
        self.attempts_due.reschedule(slot, dead_at);
        self.listings[listing as usize].rare_mut().attempts.reschedule(slot, dead_at, &mut self.in_listing);
        self.by_tenant.reschedule(slot, |slot| tenant(attempts, slot));
        self.by_joiner.reschedule(slot, |slot| joiner(attempts, slot));
        self.attempts_by_source.reschedule(slot, |slot| joining_guest(attempts, slot));
    }

    /// Takes an attempt out of every collection and leaves what `ended` makes of it as the memory of its request.
    pub(crate) fn remove_attempt(&mut self, slot: u32, until: MonoTime, ended: impl FnOnce(&Attempt) -> Ended) {
        self.attempts_due.remove(slot);
        let attempts = &self.attempts;
        let attempt = &attempts[slot as usize];
        self.listings[attempt.listing as usize].rare_mut().attempts.remove(slot, &mut self.in_listing);
        self.by_tenant.remove(slot, |slot| tenant(attempts, slot));
        self.by_joiner.remove(slot, |slot| joiner(attempts, slot));
        if attempt.source != CompactSource::None {
            self.attempts_by_source.remove(slot, |slot| joining_guest(attempts, slot));
        }
        let attempt = self.attempts.remove(slot as usize);
        let remembered = Remembered { request: attempt.request, until, ended: ended(&attempt) };
        let memory = self.retain(Place::Attempt(slot), remembered);
        self.attempt_ids.replace(fold(attempt.id), Place::Attempt(slot).pack(), memory.pack());
    }

    fn file_attempt_id(&mut self, id: AttemptId, place: u32) {
        let (attempts, remembered) = (&self.attempts, &self.remembered);
        self.attempt_ids.insert(fold(id), place, |entry| match Place::unpack(entry) {
            Place::Attempt(slot) => fold(attempts[slot as usize].id),
            Place::Memory(slot) => remembered[slot as usize].attempt_id().map_or(0, fold),
            Place::Listing(_) => 0,
        });
    }

    pub(crate) fn attempts_of_tenant(&self, key: TenantId) -> usize {
        self.by_tenant.len_of(key, |slot| tenant(&self.attempts, slot))
    }

    pub(crate) fn attempts_of_joiner(&self, key: PrincipalKey) -> usize {
        self.by_joiner.len_of(key, |slot| joiner(&self.attempts, slot))
    }

    pub(crate) fn attempts_of_source(&self, key: CompactSource) -> usize {
        self.attempts_by_source.len_of(key, |slot| joining_guest(&self.attempts, slot))
    }

    // ---- remembered requests ----

    /// Requests that are remembered, by their live resource or after it.
    pub(crate) fn remembered_len(&self) -> usize {
        self.listings.len() + self.attempts.len() + self.remembered.len()
    }

    /// The request that the record at `place` remembers.
    pub(crate) fn request(&self, place: Place) -> &Request {
        match place {
            Place::Listing(slot) => &self.listings[slot as usize].request,
            Place::Attempt(slot) => &self.attempts[slot as usize].request,
            Place::Memory(slot) => &self.remembered[slot as usize].request,
        }
    }

    /// Where a request's key leads to.
    pub(crate) fn request_place(&self, key: IdempotencyKey) -> Option<Place> {
        let is_it = |entry| self.request(Place::unpack(entry)).key == key;
        self.request_keys.get(fold(key), is_it).map(Place::unpack)
    }

    fn file_request(&mut self, key: IdempotencyKey, place: u32) {
        let (listings, attempts, remembered) = (&self.listings, &self.attempts, &self.remembered);
        self.request_keys.insert(fold(key), place, |entry| match Place::unpack(entry) {
            Place::Listing(slot) => fold(listings[slot as usize].request.key),
            Place::Attempt(slot) => fold(attempts[slot as usize].request.key),
            Place::Memory(slot) => fold(remembered[slot as usize].request.key),
        });
    }

    /// Keeps the memory of a request whose resource at `was` has ended, and starts its retention.
    fn retain(&mut self, was: Place, record: Remembered) -> Place {
        let (key, until) = (record.request.key, record.until);
        let slot = self.remembered.insert(record) as u32;
        self.remembered_due.push(until, slot);
        self.request_keys.replace(fold(key), was.pack(), Place::Memory(slot).pack());
        Place::Memory(slot)
    }

    /// Forgets a request whose resource has ended.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.remembered_due.remove(slot);
        let record = self.remembered.remove(slot as usize);
        let place = Place::Memory(slot).pack();
        self.request_keys.remove(fold(record.request.key), place);
        match record.ended {
            Ended::Listing { id, .. } => self.listing_ids.remove(fold(id), place),
            Ended::Attempt(tombstone) => self.attempt_ids.remove(fold(tombstone.id), place),
        }
    }

    /// The deadline under which an attempt is filed in its listing.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn filed_in_listing(&self, slot: u32) -> Option<MonoTime> {
        let listing = self.attempts[slot as usize].listing;
        self.listings[listing as usize].attempts().filed(slot, &self.in_listing)
    }

    /// Entries of the three tables: listing ids, attempt ids, keys of requests.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn table_lens(&self) -> [usize; 3] {
        [self.listing_ids.len(), self.attempt_ids.len(), self.request_keys.len()]
    }
}

// What the groups ask of their members: key and deadline.

pub(crate) fn owner<O>(listings: &Slab<Listing<O>>, slot: u32) -> (PrincipalKey, MonoTime) {
    let listing = &listings[slot as usize];
    (listing.owner, listing.dead_at())
}

pub(crate) fn guest<O>(listings: &Slab<Listing<O>>, slot: u32) -> (CompactSource, MonoTime) {
    let listing = &listings[slot as usize];
    (listing.source, listing.dead_at())
}

pub(crate) fn tenant(attempts: &Slab<Attempt>, slot: u32) -> (TenantId, MonoTime) {
    let attempt = &attempts[slot as usize];
    (attempt.joiner.tenant, attempt.dead_at())
}

pub(crate) fn joiner(attempts: &Slab<Attempt>, slot: u32) -> (PrincipalKey, MonoTime) {
    let attempt = &attempts[slot as usize];
    (attempt.joiner.key, attempt.dead_at())
}

pub(crate) fn joining_guest(attempts: &Slab<Attempt>, slot: u32) -> (CompactSource, MonoTime) {
    let attempt = &attempts[slot as usize];
    (attempt.source, attempt.dead_at())
}

impl Remembered {
    pub(crate) fn listing_id(&self) -> Option<ListingId> {
        match &self.ended {
            Ended::Listing { id, .. } => Some(*id),
            Ended::Attempt(_) => None,
        }
    }

    pub(crate) fn attempt_id(&self) -> Option<AttemptId> {
        match &self.ended {
            Ended::Attempt(tombstone) => Some(tombstone.id),
            Ended::Listing { .. } => None,
        }
    }
}
