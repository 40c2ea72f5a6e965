//! Registration, renewal and deletion (section E), and the memory of requests (section F).

use super::due::{DueHeap, NOWHERE};
use super::record::{Listing, ListingMemory, Remembered, Resource, Whereabouts};
use super::{Change, ListingObject, Machine};
use crate::domain::{
    At, Family, Idempotency, LeaseProof, ListingEnd, ListingId, MonoTime, Outcome, Principal, Register, Registered,
    Rejection, Renew, Renewed, Resource as Limited, Subject, Visibility,
};

impl<O: ListingObject> Machine<O> {
    pub(crate) fn register(&mut self, at: At, command: Register) -> Result<Outcome, Rejection> {
        let now = at.mono;
        self.refuse_if_revoked(command.owner, now)?;
        if let Some(slot) = self.recall(&command.idempotency, now)? {
            return self.registered_before(slot, now);
        }
        self.refuse_if_draining()?;
        self.check_listing_quotas(&command, now)?;
        self.check_listing_ceilings(now)?;
        self.commit_next();
        let expires_at = at.wall.plus_ms(command.ttl.ms().into());
        let resource = Resource::Listing {
            id: command.id,
            ttl_ms: command.ttl.ms(),
            state: ListingMemory::Live { slot: NOWHERE },
        };
        let remembered = self.state.remember(Remembered::of(&command.idempotency, expires_at, resource));
        let object = O::build(command.id, &command.scope, command.details);
        self.state.insert_listing(Listing {
            id: command.id,
            owner: command.owner,
            source: command.source,
            scope: command.scope,
            visibility: command.visibility,
            gate: command.gate,
            sequenced: false,
            version: 1,
            ttl: command.ttl,
            lease_deadline: now.plus_ms(command.ttl.ms().into()),
            unproven_until: Some(now.plus_ms(self.limits.unproven_window_ms.into())),
            expires_at,
            lease: command.lease,
            object,
            presence: [None, None],
            refreshed_last: Family::V4,
            unverified: None,
            candidates: command.candidates,
            attempts: DueHeap::default(),
            remembered,
            due: NOWHERE,
            in_owner: NOWHERE,
            in_source: NOWHERE,
        });
        Ok(Outcome::Registered(Registered { id: command.id, expires_at, ttl_ms: command.ttl.ms(), replayed: false }))
    }

    fn registered_before(&self, slot: u32, now: MonoTime) -> Result<Outcome, Rejection> {
        let record = &self.state.remembered[slot as usize];
        match &record.resource {
            Resource::Listing { id, ttl_ms, state: ListingMemory::Live { .. } }
                if self.live_listing(*id, now).is_some() =>
            {
                let (id, ttl_ms, expires_at) = (*id, *ttl_ms, record.expires_at);
                Ok(Outcome::Registered(Registered { id, expires_at, ttl_ms, replayed: true }))
            }
            Resource::Listing { .. } | Resource::Attempt { .. } => Err(Rejection::Expired),
        }
    }

    fn check_listing_quotas(&mut self, command: &Register, now: MonoTime) -> Result<(), Rejection> {
        while self.state.by_owner.len_of(command.owner.key) >= command.quota_per_owner as usize {
            match self.state.by_owner.first_dead(command.owner.key, now) {
                Some(due) => self.expire_listing(due.slot),
                None => return Err(Rejection::CapacityExceeded(Limited::ListingsPerOwner)),
            }
        }
        let Some(source) = command.source else { return Ok(()) };
        while self.state.listings_by_source.len_of(source) >= command.quota_per_source as usize {
            match self.state.listings_by_source.first_dead(source, now) {
                Some(due) => self.expire_listing(due.slot),
                None => return Err(Rejection::CapacityExceeded(Limited::ListingsPerSource)),
            }
        }
        Ok(())
    }

    fn check_listing_ceilings(&mut self, now: MonoTime) -> Result<(), Rejection> {
        let full = |resource| Err(Rejection::CapacityExceeded(resource));
        if !self.clean_up_until(now, |it| it.state.listings.len() < it.limits.listings as usize) {
            return full(Limited::Listings);
        }
        if !self.clean_up_until(now, |it| it.state.unproven < it.limits.unproven_listings) {
            return full(Limited::UnprovenListings);
        }
        self.check_room_to_remember(now)
    }

    /// Every creation needs a record that outlives it.
    pub(crate) fn check_room_to_remember(&mut self, now: MonoTime) -> Result<(), Rejection> {
        if self.clean_up_until(now, |it| it.state.remembered.len() < it.limits.idempotency as usize) {
            return Ok(());
        }
        Err(Rejection::CapacityExceeded(Limited::Idempotency))
    }

    pub(crate) fn renew(&mut self, at: At, command: Renew) -> Result<Outcome, Rejection> {
        let now = at.mono;
        self.refuse_if_draining()?;
        let slot = self.owned_listing(&command.proof, now)?;
        let listing = &mut self.state.listings[slot as usize];
        if command.version != listing.version {
            return Err(Rejection::VersionConflict { current: listing.version });
        }
        let fresh_before = listing.fresh_until();
        let shown = listing.is_shown();
        listing.version += 1;
        listing.ttl = command.ttl.unwrap_or(listing.ttl);
        listing.lease_deadline = now.plus_ms(listing.ttl.ms().into());
        listing.expires_at = at.wall.plus_ms(listing.ttl.ms().into());
        let mut replaced = false;
        if let Some(details) = command.details {
            listing.object = O::build(listing.id, &listing.scope, *details);
            replaced = true;
        }
        if let Some(visibility) = command.visibility.filter(|visibility| *visibility != listing.visibility) {
            listing.visibility = visibility;
            replaced = true;
            self.took_away |= shown && visibility == Visibility::Unlisted;
        }
        let renewed = Renewed {
            version: listing.version,
            expires_at: listing.expires_at,
            ttl_ms: listing.ttl.ms(),
            visibility: listing.visibility,
        };
        let moved = listing.fresh_until() != fresh_before;
        self.state.reschedule_listing(slot);
        self.commit_next();
        // The deadline first: it moves in what is published already, a new object waits for the next publication.
        if shown && moved {
            self.changes.push(Change::Moved { slot });
        }
        if shown && replaced {
            self.changes.push(Change::Show { slot });
        }
        Ok(Outcome::Renewed(renewed))
    }

    pub(crate) fn delete(&mut self, now: MonoTime, proof: LeaseProof) -> Result<Outcome, Rejection> {
        match self.owned_listing(&proof, now) {
            Ok(slot) => {
                self.commit_next();
                self.took_away = true;
                self.end_listing(slot, ListingEnd::Deleted, now);
                Ok(Outcome::Deleted)
            }
            Err(_absent) if self.was_deleted_by(&proof, now) => Ok(Outcome::Deleted),
            Err(absent) => Err(absent),
        }
    }

    /// E4: a deletion may be repeated while it is remembered.
    fn was_deleted_by(&self, proof: &LeaseProof, now: MonoTime) -> bool {
        let Some(Whereabouts::Remembered(slot)) = self.state.listing_ids.get(&proof.listing) else { return false };
        let record = &self.state.remembered[*slot as usize];
        let (owner, lease) = match &record.resource {
            Resource::Listing { state: ListingMemory::Ended { end: ListingEnd::Deleted, owner, lease }, .. } => {
                (owner, lease)
            }
            Resource::Listing { .. } | Resource::Attempt { .. } => return false,
        };
        !record.until.is_past(now) && *owner == proof.caller && *lease == proof.lease
    }

    // ---- looking things up, dead by comparison ----

    pub(crate) fn live_listing(&self, id: ListingId, now: MonoTime) -> Option<u32> {
        match self.state.listing_ids.get(&id) {
            Some(Whereabouts::Live(slot)) if !self.state.listings[*slot as usize].dead_at().is_past(now) => Some(*slot),
            Some(Whereabouts::Live(_) | Whereabouts::Remembered(_)) | None => None,
        }
    }

    /// E5: a wrong token, another owner, another tenant and a dead listing all look absent.
    pub(crate) fn owned_listing(&self, proof: &LeaseProof, now: MonoTime) -> Result<u32, Rejection> {
        let slot = self.live_listing(proof.listing, now).ok_or(Rejection::NotFound)?;
        let listing = &self.state.listings[slot as usize];
        let owner = listing.owner == proof.caller;
        let lease = listing.lease == proof.lease;
        if owner & lease { Ok(slot) } else { Err(Rejection::NotFound) }
    }

    pub(crate) fn refuse_if_revoked(&self, caller: Principal, now: MonoTime) -> Result<(), Rejection> {
        match self.state.revocations.until(Subject::Principal(caller.key), now) {
            Some(_) => Err(Rejection::Revoked),
            None => Ok(()),
        }
    }

    /// The slot of the remembered request with this key; another fingerprint is a mismatch (F2).
    pub(crate) fn recall(&mut self, idempotency: &Idempotency, now: MonoTime) -> Result<Option<u32>, Rejection> {
        let Some(slot) = self.state.remembered_keys.get(&idempotency.key).copied() else { return Ok(None) };
        if self.remembered_until(slot).is_past(now) {
            self.expire_remembered(slot);
            return Ok(None);
        }
        if self.state.remembered[slot as usize].fingerprint == idempotency.fingerprint {
            return Ok(Some(slot));
        }
        Err(Rejection::IdempotencyMismatch)
    }

    /// When the memory of a request ends, also while its dead resource awaits removal.
    pub(crate) fn remembered_until(&self, slot: u32) -> MonoTime {
        let record = &self.state.remembered[slot as usize];
        let resource_end = match &record.resource {
            Resource::Listing { state: ListingMemory::Live { slot }, .. } => {
                self.state.listings[*slot as usize].dead_at()
            }
            Resource::Attempt { state: super::record::AttemptMemory::Live { slot }, .. } => self.attempt_dead_at(*slot),
            Resource::Listing { .. } | Resource::Attempt { .. } => return record.until,
        };
        resource_end.plus_ms(self.limits.idempotency_retention_ms.into())
    }

    /// Removes a dead memory ahead of its turn, with its dead resource.
    fn expire_remembered(&mut self, slot: u32) {
        match &self.state.remembered[slot as usize].resource {
            Resource::Listing { state: ListingMemory::Live { slot }, .. } => self.expire_listing(*slot),
            Resource::Attempt { state: super::record::AttemptMemory::Live { slot }, .. } => {
                let slot = *slot;
                self.expire_attempt_or_its_listing(slot);
            }
            Resource::Listing { .. } | Resource::Attempt { .. } => {}
        }
        self.state.forget(slot);
    }
}

impl<O> Listing<O> {
    /// Whether the projection holds it: some family's presence has not been let go yet.
    pub(crate) fn is_shown(&self) -> bool {
        self.presence.iter().flatten().any(|presence| presence.due != NOWHERE)
    }
}

impl Remembered {
    pub(crate) fn of(idempotency: &Idempotency, expires_at: crate::domain::WallTime, resource: Resource) -> Self {
        Self {
            key: idempotency.key,
            fingerprint: idempotency.fingerprint,
            expires_at,
            resource,
            until: MonoTime::NEVER,
            due: NOWHERE,
        }
    }
}
