//! Registration, renewal and deletion (section E), and the memory of requests (section F).

use super::record::{CompactSource, Ended, Listing, Place, Rare};
use super::state::{guest, owner};
use super::{Change, ListingObject, Machine};
use crate::domain::{
    At, Candidates, Family, Idempotency, LeaseProof, ListingEnd, ListingId, MonoTime, Outcome, Principal, Register,
    Registered, Rejection, Renew, Renewed, Resource as Limited, SessionRef, Subject, Visibility,
};

impl<O: ListingObject> Machine<O> {
    pub(crate) fn register(&mut self, at: At, command: Register) -> Result<Outcome, Rejection> {
        let now = at.mono;
        self.refuse_if_revoked(command.owner, now)?;
        if let Some(place) = self.recall(&command.idempotency, now)? {
            return self.registered_before(place, now);
        }
        self.refuse_if_draining()?;
        self.check_listing_quotas(&command, now)?;
        self.check_listing_ceilings(now)?;
        self.commit_next();
        let expires_at = at.wall.plus_ms(command.ttl.ms().into());
        let object = O::build(command.id, &command.scope, command.details);
        let scope = self.state.scopes.acquire(command.scope);
        self.state.insert_listing(Listing {
            id: command.id,
            owner: command.owner.key,
            owner_tenant: command.owner.tenant,
            source: command.source.into(),
            scope,
            visibility: command.visibility,
            gate: command.gate,
            sequenced: false,
            version: 1,
            ttl: command.ttl,
            lease_deadline: now.plus_ms(command.ttl.ms().into()),
            is_unproven: true,
            unproven_until: now.plus_ms(self.limits.unproven_window_ms.into()),
            expires_at,
            lease: command.lease,
            object,
            presence: [None, None],
            refreshed_last: Family::V4,
            rare: rare_of(command.candidates, command.session),
            request: command.idempotency.into(),
            first_expires_at: expires_at,
            first_ttl: command.ttl,
        });
        Ok(Outcome::Registered(Registered { id: command.id, expires_at, ttl_ms: command.ttl.ms(), replayed: false }))
    }

    fn registered_before(&self, place: Place, now: MonoTime) -> Result<Outcome, Rejection> {
        let Place::Listing(slot) = place else { return Err(Rejection::Expired) };
        let listing = &self.state.listings[slot as usize];
        if listing.dead_at().is_past(now) {
            return Err(Rejection::Expired);
        }
        let (expires_at, ttl_ms) = (listing.first_expires_at, listing.first_ttl.ms());
        Ok(Outcome::Registered(Registered { id: listing.id, expires_at, ttl_ms, replayed: true }))
    }

    fn check_listing_quotas(&mut self, command: &Register, now: MonoTime) -> Result<(), Rejection> {
        match command.session {
            Some(session) => self.check_session_quota(command, session, now)?,
            None => self.check_owner_quota(command, now)?,
        }
        let source = CompactSource::from(command.source);
        if source == CompactSource::None {
            return Ok(());
        }
        loop {
            let (groups, listings) = (&self.state.listings_by_source, &self.state.listings);
            let member = |slot| guest(listings, slot);
            if groups.len_of(source, member) < command.quota_per_source as usize {
                return Ok(());
            }
            match groups.first_dead(source, now, member) {
                Some(due) => self.expire_listing(due.slot),
                None => return Err(Rejection::CapacityExceeded(Limited::ListingsPerSource)),
            }
        }
    }

    fn check_owner_quota(&mut self, command: &Register, now: MonoTime) -> Result<(), Rejection> {
        loop {
            let (groups, listings) = (&self.state.by_owner, &self.state.listings);
            let member = |slot| owner(listings, slot);
            if groups.len_of(command.owner.key, member) < command.quota_per_owner as usize {
                return Ok(());
            }
            match groups.first_dead(command.owner.key, now, member) {
                Some(due) => self.expire_listing(due.slot),
                None => return Err(Rejection::CapacityExceeded(Limited::ListingsPerOwner)),
            }
        }
    }

    /// A session's listings are as many as the quota at most, so they are looked through.
    fn check_session_quota(&mut self, command: &Register, session: SessionRef, now: MonoTime) -> Result<(), Rejection> {
        let quota = command.quota_per_owner as usize;
        loop {
            let of_session = || self.state.listings_of_session(command.owner.tenant, session);
            if of_session().take(quota).count() < quota {
                return Ok(());
            }
            let dead_at = |slot: u32| self.state.listings[slot as usize].dead_at();
            let dead = of_session().map(|slot| (dead_at(slot), slot)).filter(|(at, _)| at.is_past(now)).min();
            match dead {
                Some((_, slot)) => self.expire_listing(slot),
                None => return Err(Rejection::CapacityExceeded(Limited::ListingsPerSession)),
            }
        }
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
        if self.clean_up_until(now, |it| it.state.remembered_len() < it.limits.idempotency as usize) {
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
            listing.object = O::build(listing.id, self.state.scopes.get(listing.scope), *details);
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
        let Some(Place::Memory(slot)) = self.state.listing_place(proof.listing) else { return false };
        let record = &self.state.remembered[slot as usize];
        let Ended::Listing { end: ListingEnd::Deleted, owner, owner_tenant, lease, .. } = record.ended else {
            return false;
        };
        let caller = Principal { tenant: owner_tenant, key: owner };
        !record.until.is_past(now) && caller == proof.caller && lease == proof.lease
    }

    // ---- looking things up, dead by comparison ----

    pub(crate) fn live_listing(&self, id: ListingId, now: MonoTime) -> Option<u32> {
        match self.state.listing_place(id) {
            Some(Place::Listing(slot)) if !self.state.listings[slot as usize].dead_at().is_past(now) => Some(slot),
            Some(Place::Listing(_) | Place::Attempt(_) | Place::Memory(_)) | None => None,
        }
    }

    /// E5: a wrong token, another owner, another tenant and a dead listing all look absent.
    pub(crate) fn owned_listing(&self, proof: &LeaseProof, now: MonoTime) -> Result<u32, Rejection> {
        let slot = self.live_listing(proof.listing, now).ok_or(Rejection::NotFound)?;
        let listing = &self.state.listings[slot as usize];
        let owner = listing.owner() == proof.caller;
        let lease = listing.lease == proof.lease;
        if owner & lease { Ok(slot) } else { Err(Rejection::NotFound) }
    }

    pub(crate) fn refuse_if_revoked(&self, caller: Principal, now: MonoTime) -> Result<(), Rejection> {
        match self.state.revocations.until(Subject::Principal(caller.key), now) {
            Some(_) => Err(Rejection::Revoked),
            None => Ok(()),
        }
    }

    /// Where the remembered request with this key led to; another fingerprint is a mismatch (F2).
    pub(crate) fn recall(&mut self, idempotency: &Idempotency, now: MonoTime) -> Result<Option<Place>, Rejection> {
        let Some(place) = self.state.request_place(idempotency.key) else { return Ok(None) };
        if self.remembered_until(place).is_past(now) {
            self.expire_remembered(place, idempotency);
            return Ok(None);
        }
        if self.state.request(place).fingerprint == idempotency.fingerprint {
            return Ok(Some(place));
        }
        Err(Rejection::IdempotencyMismatch)
    }

    /// When the memory of a request ends, also while its dead resource awaits removal.
    pub(crate) fn remembered_until(&self, place: Place) -> MonoTime {
        let resource_end = match place {
            Place::Listing(slot) => self.state.listings[slot as usize].dead_at(),
            Place::Attempt(slot) => self.attempt_dead_at(slot),
            Place::Memory(slot) => return self.state.remembered[slot as usize].until,
        };
        resource_end.plus_ms(self.limits.idempotency_retention_ms.into())
    }

    /// Removes a dead memory ahead of its turn, with its dead resource.
    fn expire_remembered(&mut self, place: Place, idempotency: &Idempotency) {
        match place {
            Place::Listing(slot) => self.expire_listing(slot),
            Place::Attempt(slot) => self.expire_attempt_or_its_listing(slot),
            Place::Memory(_) => {}
        }
        if let Some(Place::Memory(slot)) = self.state.request_place(idempotency.key) {
            self.state.forget(slot);
        }
    }
}

fn rare_of(candidates: Candidates, session: Option<SessionRef>) -> Option<Box<Rare>> {
    let is_rare = session.is_some() || !candidates.as_slice().is_empty();
    is_rare.then(|| Box::new(Rare { candidates, session, ..Rare::default() }))
}
