//! The collections, and the only places where their indexes are changed together.

use super::due::{DueHeap, NOWHERE};
use super::pool::{FoldMap, Groups, PREALLOCATED, TimedPool, fold_map};
use super::record::{
    Attempt, AttemptMemory, FamilyPresence, Listing, ListingMemory, Remembered, Resource, Whereabouts,
};
use crate::domain::{
    AttemptId, Family, IdempotencyKey, Limits, ListingId, MonoTime, PrincipalKey, ReplayKey, Scope, Source, Subject,
    TenantId,
};
use slab::Slab;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that drain lets go of at once.
#[derive(Debug)]
pub(crate) struct State<O> {
    pub(crate) listings: Slab<Listing<O>>,
    pub(crate) listing_ids: FoldMap<ListingId, Whereabouts>,
    pub(crate) listings_due: DueHeap,
    pub(crate) by_owner: Groups<PrincipalKey>,
    pub(crate) listings_by_source: Groups<Source>,
    /// Listings that never had presence.
    pub(crate) unproven: u32,
    /// Live presences by deadline; the slot is twice the listing's plus the family's index.
    pub(crate) presence_due: DueHeap,
    pub(crate) attempts: Slab<Attempt>,
    pub(crate) attempt_ids: FoldMap<AttemptId, Whereabouts>,
    pub(crate) attempts_due: DueHeap,
    pub(crate) by_tenant: Groups<TenantId>,
    pub(crate) by_joiner: Groups<PrincipalKey>,
    pub(crate) attempts_by_source: Groups<Source>,
    pub(crate) remembered: Slab<Remembered>,
    pub(crate) remembered_keys: FoldMap<IdempotencyKey, u32>,
    /// Remembered requests whose resource has ended.
    pub(crate) remembered_due: DueHeap,
    pub(crate) revocations: TimedPool<Subject>,
    pub(crate) replay: TimedPool<ReplayKey>,
    /// Protocols in use, each text kept once, with the number of listings.
    protocols: BTreeMap<Arc<str>, u32>,
}

impl<O> State<O> {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = |ceiling: u32| (ceiling as usize).min(PREALLOCATED);
        let (listings, attempts, remembered) = (room(limits.listings), room(limits.attempts), room(limits.idempotency));
        Self {
            listings: Slab::with_capacity(listings),
            listing_ids: fold_map(listings),
            listings_due: DueHeap::with_capacity(listings),
            by_owner: Groups::new(),
            listings_by_source: Groups::new(),
            unproven: 0,
            presence_due: DueHeap::with_capacity(listings),
            attempts: Slab::with_capacity(attempts),
            attempt_ids: fold_map(attempts),
            attempts_due: DueHeap::with_capacity(attempts),
            by_tenant: Groups::new(),
            by_joiner: Groups::new(),
            attempts_by_source: Groups::new(),
            remembered: Slab::with_capacity(remembered),
            remembered_keys: fold_map(remembered),
            remembered_due: DueHeap::default(),
            revocations: TimedPool::with_capacity(limits.revocations as usize),
            replay: TimedPool::with_capacity(limits.replay as usize),
            protocols: BTreeMap::new(),
        }
    }

    // ---- listings ----

    pub(crate) fn insert_listing(&mut self, mut listing: Listing<O>) -> u32 {
        listing.scope = self.intern(listing.scope);
        let (id, owner, source, dead_at) = (listing.id, listing.owner.key, listing.source, listing.dead_at());
        let remembered = listing.remembered as usize;
        let slot = self.listings.insert(listing) as u32;
        self.listing_ids.insert(id, Whereabouts::Live(slot));
        if let Resource::Listing { state, .. } = &mut self.remembered[remembered].resource {
            *state = ListingMemory::Live { slot };
        }
        self.unproven += 1;
        let listings = &mut self.listings;
        self.listings_due.push(dead_at, slot, &mut |slot, at| listings[slot as usize].due = at);
        self.by_owner.push(owner, dead_at, slot, &mut |slot, at| listings[slot as usize].in_owner = at);
        if let Some(source) = source {
            self.listings_by_source.push(source, dead_at, slot, &mut |slot, at| listings[slot as usize].in_source = at);
        }
        slot
    }

    /// Moves a listing to its present deadline in every index.
    pub(crate) fn reschedule_listing(&mut self, slot: u32) {
        let listings = &mut self.listings;
        let listing = &listings[slot as usize];
        let (dead_at, owner, source) = (listing.dead_at(), listing.owner.key, listing.source);
        let (due, in_owner, in_source) = (listing.due, listing.in_owner, listing.in_source);
        self.listings_due.reschedule(due, dead_at, &mut |slot, at| listings[slot as usize].due = at);
        self.by_owner.reschedule(owner, in_owner, dead_at, &mut |slot, at| listings[slot as usize].in_owner = at);
        if let Some(source) = source {
            let place = &mut |slot: u32, at| listings[slot as usize].in_source = at;
            self.listings_by_source.reschedule(source, in_source, dead_at, place);
        }
    }

    /// Takes a listing out of every collection but the remembered requests. Its attempts are gone already.
    pub(crate) fn remove_listing(&mut self, slot: u32) -> Listing<O> {
        let listings = &mut self.listings;
        let listing = &listings[slot as usize];
        let (owner, source) = (listing.owner.key, listing.source);
        let (due, in_owner, in_source) = (listing.due, listing.in_owner, listing.in_source);
        self.listings_due.remove(due, &mut |slot, at| listings[slot as usize].due = at);
        self.by_owner.remove(owner, in_owner, &mut |slot, at| listings[slot as usize].in_owner = at);
        if let Some(source) = source {
            let place = &mut |slot: u32, at| listings[slot as usize].in_source = at;
            self.listings_by_source.remove(source, in_source, place);
        }
        self.lapse_presence(slot, Family::V4);
        self.lapse_presence(slot, Family::V6);
        let listing = self.listings.remove(slot as usize);
        debug_assert!(listing.attempts.is_empty());
        self.unproven -= u32::from(listing.unproven_until.is_some());
        self.release(&listing.scope);
        listing
    }

    // ---- presence ----

    /// Sets a family's deadline and counts it as live.
    pub(crate) fn schedule_presence(&mut self, slot: u32, family: Family) {
        let listings = &mut self.listings;
        let Some(presence) = listings[slot as usize].presence[family.index()].as_deref() else { return };
        let (due, deadline) = (presence.due, presence.deadline);
        let mut place = |slot: u32, at| place_presence(listings, slot, at);
        if due == NOWHERE {
            self.presence_due.push(deadline, slot * 2 + family.index() as u32, &mut place);
        } else {
            self.presence_due.reschedule(due, deadline, &mut place);
        }
    }

    /// Stops counting a family's presence as live; its endpoint and sequence stay (G1).
    pub(crate) fn lapse_presence(&mut self, slot: u32, family: Family) {
        let listings = &mut self.listings;
        let Some(presence) = listings[slot as usize].presence[family.index()].as_deref() else { return };
        if presence.due != NOWHERE {
            self.presence_due.remove(presence.due, &mut |slot, at| place_presence(listings, slot, at));
        }
    }

    // ---- attempts ----

    pub(crate) fn insert_attempt(&mut self, attempt: Attempt, tenant: TenantId) -> u32 {
        let (id, joiner, source, dead_at) = (attempt.id, attempt.joiner.key, attempt.source, attempt.dead_at());
        let (listing, remembered) = (attempt.listing as usize, attempt.remembered as usize);
        let slot = self.attempts.insert(attempt) as u32;
        self.attempt_ids.insert(id, Whereabouts::Live(slot));
        if let Resource::Attempt { state, .. } = &mut self.remembered[remembered].resource {
            *state = AttemptMemory::Live { slot };
        }
        let attempts = &mut self.attempts;
        self.attempts_due.push(dead_at, slot, &mut |slot, at| attempts[slot as usize].due = at);
        self.listings[listing].attempts.push(dead_at, slot, &mut |slot, at| attempts[slot as usize].in_listing = at);
        self.by_tenant.push(tenant, dead_at, slot, &mut |slot, at| attempts[slot as usize].in_tenant = at);
        self.by_joiner.push(joiner, dead_at, slot, &mut |slot, at| attempts[slot as usize].in_joiner = at);
        if let Some(source) = source {
            self.attempts_by_source.push(source, dead_at, slot, &mut |slot, at| attempts[slot as usize].in_source = at);
        }
        slot
    }

    /// Moves an attempt to its present deadline in every index.
    pub(crate) fn reschedule_attempt(&mut self, slot: u32) {
        let attempts = &mut self.attempts;
        let attempt = &attempts[slot as usize];
        let (dead_at, listing, joiner, source) = (attempt.dead_at(), attempt.listing, attempt.joiner, attempt.source);
        let (due, in_listing, in_tenant) = (attempt.due, attempt.in_listing, attempt.in_tenant);
        let (in_joiner, in_source) = (attempt.in_joiner, attempt.in_source);
        let in_its_listing = &mut self.listings[listing as usize].attempts;
        self.attempts_due.reschedule(due, dead_at, &mut |slot, at| attempts[slot as usize].due = at);
        in_its_listing.reschedule(in_listing, dead_at, &mut |slot, at| attempts[slot as usize].in_listing = at);
        let place = &mut |slot: u32, at| attempts[slot as usize].in_tenant = at;
        self.by_tenant.reschedule(joiner.tenant, in_tenant, dead_at, place);
        let place = &mut |slot: u32, at| attempts[slot as usize].in_joiner = at;
        self.by_joiner.reschedule(joiner.key, in_joiner, dead_at, place);
        if let Some(source) = source {
            let place = &mut |slot: u32, at| attempts[slot as usize].in_source = at;
            self.attempts_by_source.reschedule(source, in_source, dead_at, place);
        }
    }

    /// Takes an attempt out of every collection but the remembered requests.
    pub(crate) fn remove_attempt(&mut self, slot: u32) -> Attempt {
        let attempts = &mut self.attempts;
        let attempt = &attempts[slot as usize];
        let (listing, joiner, source) = (attempt.listing, attempt.joiner, attempt.source);
        let (due, in_listing, in_tenant) = (attempt.due, attempt.in_listing, attempt.in_tenant);
        let (in_joiner, in_source) = (attempt.in_joiner, attempt.in_source);
        let in_its_listing = &mut self.listings[listing as usize].attempts;
        self.attempts_due.remove(due, &mut |slot, at| attempts[slot as usize].due = at);
        in_its_listing.remove(in_listing, &mut |slot, at| attempts[slot as usize].in_listing = at);
        self.by_tenant.remove(joiner.tenant, in_tenant, &mut |slot, at| attempts[slot as usize].in_tenant = at);
        self.by_joiner.remove(joiner.key, in_joiner, &mut |slot, at| attempts[slot as usize].in_joiner = at);
        if let Some(source) = source {
            let place = &mut |slot: u32, at| attempts[slot as usize].in_source = at;
            self.attempts_by_source.remove(source, in_source, place);
        }
        self.attempts.remove(slot as usize)
    }

    // ---- remembered requests ----

    pub(crate) fn remember(&mut self, record: Remembered) -> u32 {
        let key = record.key;
        let slot = self.remembered.insert(record) as u32;
        self.remembered_keys.insert(key, slot);
        slot
    }

    /// Starts the retention of a remembered request whose resource has ended.
    pub(crate) fn retain_until(&mut self, slot: u32, until: MonoTime) {
        let remembered = &mut self.remembered;
        remembered[slot as usize].until = until;
        self.remembered_due.push(until, slot, &mut |slot, at| remembered[slot as usize].due = at);
    }

    /// Forgets a request whose resource has ended.
    pub(crate) fn forget(&mut self, slot: u32) {
        let remembered = &mut self.remembered;
        let position = remembered[slot as usize].due;
        self.remembered_due.remove(position, &mut |slot, at| remembered[slot as usize].due = at);
        let record = self.remembered.remove(slot as usize);
        self.remembered_keys.remove(&record.key);
        match record.resource {
            Resource::Listing { id, .. } => self.listing_ids.remove(&id),
            Resource::Attempt { id, .. } => self.attempt_ids.remove(&id),
        };
    }

    // ---- protocols ----

    fn intern(&mut self, scope: Scope) -> Scope {
        if let Some((known, _)) = self.protocols.get_key_value(&scope.protocol) {
            let known = known.clone();
            self.protocols.entry(known.clone()).and_modify(|count| *count += 1);
            return Scope { protocol: known, ..scope };
        }
        self.protocols.insert(scope.protocol.clone(), 1);
        scope
    }

    fn release(&mut self, scope: &Scope) {
        if let Some(count) = self.protocols.get_mut(&scope.protocol) {
            *count -= 1;
            if *count == 0 {
                self.protocols.remove(&scope.protocol);
            }
        }
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn protocol_counts(&self) -> &BTreeMap<Arc<str>, u32> {
        &self.protocols
    }
}

/// Tells a presence its position in the due index.
fn place_presence<O>(listings: &mut Slab<Listing<O>>, slot: u32, at: u32) {
    let presence: &mut Option<Box<FamilyPresence>> = &mut listings[slot as usize / 2].presence[slot as usize % 2];
    if let Some(presence) = presence.as_deref_mut() {
        presence.due = at;
    }
}
