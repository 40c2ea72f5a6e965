//! Join attempts: creation, the host's answer, early ends, and reports (sections H and D3).

use super::record::{Attempt, CompactSource, Ended, Gate, Place, Tombstone};
use super::state::{joiner, joining_guest, tenant};
use super::{ListingObject, Machine};
use crate::domain::{
    At, AttemptCreated, AttemptId, CloseAttempt, CreateAttempt, EndReason, Event, Family, GateAnswer, GateAuthority,
    Invalid, LeaseProof, MonoTime, Outcome, Principal, Rejection, Replay, ReportPath, Resource as Limited, Role,
};

impl<O: ListingObject> Machine<O> {
    pub(crate) fn create_attempt(&mut self, at: At, command: CreateAttempt) -> Result<Outcome, Rejection> {
        let now = at.mono;
        self.refuse_if_revoked(command.joiner, now)?;
        if let Some(place) = self.recall(&command.idempotency, now)? {
            return self.attempted_before(place, now);
        }
        self.refuse_if_draining()?;
        let listing = self.joinable_listing(&command, now)?;
        let Some(host) = self.host_endpoint(listing, now) else { return Err(Rejection::NotFound) };
        self.check_attempt_quotas(&command, listing, now)?;
        if !self.clean_up_until(now, |it| it.state.attempts.len() < it.limits.attempts as usize) {
            return Err(Rejection::CapacityExceeded(Limited::Attempts));
        }
        self.check_room_to_remember(now)?;
        let created = self.commit_next();
        let deadline = now.plus_ms(self.limits.attempt_ttl_ms.into());
        let expires_at = at.wall.plus_ms(self.limits.attempt_ttl_ms.into());
        let attempt = Attempt {
            id: command.id,
            listing,
            joiner: command.joiner,
            source: command.source.into(),
            deadline,
            expires_at,
            bind_until: Some(now.plus_ms(self.limits.bind_window_ms.into())),
            common_until: None,
            gate: self.gate_of(listing),
            capabilities: command.capabilities,
            bound: [[None; 2]; 2],
            bound_last: [Family::V4; 2],
            introduced_at: None,
            candidates: command.candidates,
            payload: command.payload,
            reported: [false; 2],
            offered: 0,
            created,
            changed: created,
            request: command.idempotency.into(),
        };
        self.state.insert_attempt(attempt);
        self.events.push(Event::AttemptCreated { attempt: command.id, listing: command.listing, host, deadline });
        let asked = &self.state.listings[listing as usize];
        if let (Some(session), Gate::Waiting) = (asked.session(), self.gate_of(listing)) {
            self.events.push(Event::GateAsked { tenant: asked.owner_tenant, session });
        }
        Ok(Outcome::AttemptCreated(AttemptCreated {
            id: command.id,
            listing: command.listing,
            expires_at,
            replayed: false,
        }))
    }

    fn attempted_before(&self, place: Place, now: MonoTime) -> Result<Outcome, Rejection> {
        let Place::Attempt(slot) = place else { return Err(Rejection::Expired) };
        if self.attempt_dead_at(slot).is_past(now) {
            return Err(Rejection::Expired);
        }
        let attempt = &self.state.attempts[slot as usize];
        let listing = self.state.listings[attempt.listing as usize].id;
        let (id, expires_at) = (attempt.id, attempt.expires_at);
        Ok(Outcome::AttemptCreated(AttemptCreated { id, listing, expires_at, replayed: true }))
    }

    /// H1: a fresh listing of the same tenant with the protocol asked for; nobody joins a listing of their own.
    fn joinable_listing(&self, command: &CreateAttempt, now: MonoTime) -> Result<u32, Rejection> {
        let slot = self.live_listing(command.listing, now).ok_or(Rejection::NotFound)?;
        let listing = &self.state.listings[slot as usize];
        let scope = self.state.scopes.get(listing.scope);
        let same_tenant = scope.tenant == command.joiner.tenant;
        let same_protocol = command.protocol.as_ref().is_none_or(|protocol| *protocol == scope.protocol);
        if !same_tenant || !same_protocol || listing.fresh_until().is_past(now) {
            return Err(Rejection::NotFound);
        }
        if listing.owner() == command.joiner {
            return Err(Rejection::Invalid(Invalid::OwnListing));
        }
        Ok(slot)
    }

    fn check_attempt_quotas(&mut self, command: &CreateAttempt, listing: u32, now: MonoTime) -> Result<(), Rejection> {
        let (quota, caller) = (command.quota, command.joiner);
        let fits = move |it: &Self| it.state.attempts_of_tenant(caller.tenant) < quota.per_tenant as usize;
        while !fits(self) {
            let attempts = &self.state.attempts;
            let due = self.state.by_tenant.first_dead(caller.tenant, now, |slot| tenant(attempts, slot));
            self.make_room(due.map(|due| due.slot), now, Limited::AttemptsPerTenant, fits)?;
        }
        let fits = move |it: &Self| it.state.listings[listing as usize].attempts().len() < quota.per_listing as usize;
        while !fits(self) {
            let due = self.state.listings[listing as usize].attempts().first_dead(now);
            self.make_room(due.map(|due| due.slot), now, Limited::AttemptsPerListing, fits)?;
        }
        let fits = move |it: &Self| it.state.attempts_of_joiner(caller.key) < quota.per_principal as usize;
        while !fits(self) {
            let attempts = &self.state.attempts;
            let due = self.state.by_joiner.first_dead(caller.key, now, |slot| joiner(attempts, slot));
            self.make_room(due.map(|due| due.slot), now, Limited::AttemptsPerPrincipal, fits)?;
        }
        let source = CompactSource::from(command.source);
        let fits = move |it: &Self| {
            source == CompactSource::None || it.state.attempts_of_source(source) < quota.per_source as usize
        };
        while !fits(self) {
            let attempts = &self.state.attempts;
            let due = self.state.attempts_by_source.first_dead(source, now, |slot| joining_guest(attempts, slot));
            self.make_room(due.map(|due| due.slot), now, Limited::AttemptsPerSource, fits)?;
        }
        Ok(())
    }

    /// The caller's own dead go first. The groups order attempts by their own deadlines, so one that died with its
    /// listing is not found there: then cleanup goes on until that listing's turn comes.
    fn make_room(
        &mut self,
        dead: Option<u32>,
        now: MonoTime,
        resource: Limited,
        fits: impl Fn(&Self) -> bool,
    ) -> Result<(), Rejection> {
        match dead {
            Some(slot) => {
                self.expire_attempt_or_its_listing(slot);
                Ok(())
            }
            None if self.clean_up_until(now, fits) => Ok(()),
            None => Err(Rejection::CapacityExceeded(resource)),
        }
    }

    pub(crate) fn admit(&mut self, now: MonoTime, answer: GateAnswer) -> Result<Outcome, Rejection> {
        let slot = self.answerable_attempt(&answer, now)?;
        let attempt = &mut self.state.attempts[slot as usize];
        if attempt.gate == Gate::Waiting {
            attempt.gate = Gate::Admitted;
            let (id, host_bound) = (attempt.id, attempt.has_bound(Role::Host));
            self.touch_attempt(slot);
            self.events.push(Event::AttemptChanged { attempt: id, host_bound });
        }
        Ok(Outcome::Admitted)
    }

    pub(crate) fn refuse(&mut self, now: MonoTime, answer: GateAnswer) -> Result<Outcome, Rejection> {
        let slot = self.answerable_attempt(&answer, now)?;
        self.commit_next();
        self.end_attempt(slot, EndReason::Refused, now);
        Ok(Outcome::Closed)
    }

    fn answerable_attempt(&self, answer: &GateAnswer, now: MonoTime) -> Result<u32, Rejection> {
        let slot = self.live_attempt(answer.attempt, now).ok_or(Rejection::NotFound)?;
        let listing = &self.state.listings[self.state.attempts[slot as usize].listing as usize];
        match answer.by {
            GateAuthority::Owner { caller, lease } => {
                self.owned_listing(&LeaseProof { listing: listing.id, caller, lease }, now)?;
            }
            GateAuthority::CommandPlane { tenant, session } => {
                let is_its_own = listing.owner_tenant == tenant && listing.session() == Some(session);
                is_its_own.then_some(()).ok_or(Rejection::NotFound)?;
            }
        }
        Ok(slot)
    }

    pub(crate) fn close_attempt(&mut self, now: MonoTime, command: CloseAttempt) -> Result<Outcome, Rejection> {
        if let Some(slot) = self.live_attempt(command.attempt, now) {
            let role = self.role_of(slot, command.caller).ok_or(Rejection::NotFound)?;
            let reason = match role {
                Role::Joiner => EndReason::Closed,
                Role::Host => EndReason::Refused,
            };
            self.commit_next();
            self.end_attempt(slot, reason, now);
            return Ok(Outcome::Closed);
        }
        let (_, memory) = self.ended_attempt(command.attempt, now).ok_or(Rejection::NotFound)?;
        let is_side = memory.joiner == command.caller || memory.host == command.caller;
        if is_side { Ok(Outcome::Closed) } else { Err(Rejection::NotFound) }
    }

    pub(crate) fn report_path(&mut self, now: MonoTime, command: ReportPath) -> Result<Outcome, Rejection> {
        let twice = Err(Rejection::ReplayRejected(Replay::Reported));
        if let Some(slot) = self.live_attempt(command.attempt, now) {
            let role = self.role_of(slot, command.caller).ok_or(Rejection::NotFound)?;
            let attempt = &mut self.state.attempts[slot as usize];
            if std::mem::replace(&mut attempt.reported[role.index()], true) {
                return twice;
            }
            return Ok(Outcome::PathReported(attempt.introduced_family()));
        }
        self.settle_if_dead(command.attempt, now);
        let remembered = self.ended_slot(command.attempt, now).ok_or(Rejection::NotFound)?;
        let Ended::Attempt(tombstone) = &mut self.state.remembered[remembered as usize].ended else {
            return Err(Rejection::NotFound);
        };
        let role = match command.caller {
            caller if caller == tombstone.joiner => Role::Joiner,
            caller if caller == tombstone.host => Role::Host,
            _stranger => return Err(Rejection::NotFound),
        };
        if std::mem::replace(&mut tombstone.reported[role.index()], true) {
            return twice;
        }
        Ok(Outcome::PathReported(tombstone.family))
    }

    // ---- looking things up, dead by comparison ----

    /// When an attempt is dead: by its own deadlines or by its listing's.
    pub(crate) fn attempt_dead_at(&self, slot: u32) -> MonoTime {
        let attempt = &self.state.attempts[slot as usize];
        attempt.dead_at().min(self.state.listings[attempt.listing as usize].dead_at())
    }

    pub(crate) fn live_attempt(&self, id: AttemptId, now: MonoTime) -> Option<u32> {
        match self.state.attempt_place(id) {
            Some(Place::Attempt(slot)) if !self.attempt_dead_at(slot).is_past(now) => Some(slot),
            Some(Place::Listing(_) | Place::Attempt(_) | Place::Memory(_)) | None => None,
        }
    }

    /// Ends a dead attempt, or the dead listing that takes it along.
    pub(crate) fn expire_attempt_or_its_listing(&mut self, slot: u32) {
        let attempt = &self.state.attempts[slot as usize];
        let listing = attempt.listing;
        if attempt.dead_at() <= self.state.listings[listing as usize].dead_at() {
            self.expire_attempt(slot);
        } else {
            self.expire_listing(listing);
        }
    }

    /// Gives an attempt that is dead but not yet removed its tombstone.
    pub(crate) fn settle_if_dead(&mut self, id: AttemptId, now: MonoTime) {
        if let Some(Place::Attempt(slot)) = self.state.attempt_place(id)
            && self.attempt_dead_at(slot).is_past(now)
        {
            self.expire_attempt_or_its_listing(slot);
        }
    }

    fn ended_slot(&self, id: AttemptId, now: MonoTime) -> Option<u32> {
        match self.state.attempt_place(id)? {
            place @ Place::Memory(slot) => (!self.remembered_until(place).is_past(now)).then_some(slot),
            Place::Listing(_) | Place::Attempt(_) => None,
        }
    }

    /// The tombstone of an attempt that has ended and is still remembered, and the listing it was for.
    pub(crate) fn ended_attempt(
        &mut self,
        id: AttemptId,
        now: MonoTime,
    ) -> Option<(crate::domain::ListingId, &Tombstone)> {
        self.settle_if_dead(id, now);
        let slot = self.ended_slot(id, now)?;
        match &self.state.remembered[slot as usize].ended {
            Ended::Attempt(tombstone) => Some((tombstone.listing, tombstone)),
            Ended::Listing { .. } => None,
        }
    }

    /// Which side of a live attempt the caller is.
    pub(crate) fn role_of(&self, slot: u32, caller: Principal) -> Option<Role> {
        let attempt = &self.state.attempts[slot as usize];
        if attempt.joiner == caller {
            Some(Role::Joiner)
        } else if self.state.listings[attempt.listing as usize].owner() == caller {
            Some(Role::Host)
        } else {
            None
        }
    }

    /// Numbers a change of an attempt.
    pub(crate) fn touch_attempt(&mut self, slot: u32) {
        let commit = self.commit_next();
        self.state.attempts[slot as usize].changed = commit;
    }
}
