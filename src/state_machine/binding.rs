//! Binding endpoints and the introduction, consumed exactly once (H2 to H4).

use super::record::{Attempt, Gate, Slot};
use super::{ListingObject, Machine};
use crate::domain::{
    AttemptId, Bind, Bound, Endpoint, Event, Family, Introduction, Invalid, MonoTime, Outcome, Pair, Rejection, Replay,
    Role,
};
use std::net::SocketAddr;

impl<O: ListingObject> Machine<O> {
    pub(crate) fn bind(&mut self, now: MonoTime, command: Bind) -> Result<Outcome, Rejection> {
        let slot = self.bindable_attempt(&command, now)?;
        let repeated = self.bind_slot(slot, now, &command)?;
        if !repeated {
            self.announce_bind(slot);
        }
        Ok(self.bound_outcome(slot, repeated))
    }

    pub(crate) fn bind_and_consume(&mut self, now: MonoTime, command: Bind) -> Result<Outcome, Rejection> {
        let slot = self.bindable_attempt(&command, now)?;
        let repeated = self.bind_slot(slot, now, &command)?;
        if !repeated {
            self.announce_bind(slot);
        }
        if self.consumable(slot).is_ok() {
            if repeated {
                self.touch_attempt(slot);
            }
            self.introduce(slot, now);
        }
        Ok(self.bound_outcome(slot, repeated))
    }

    pub(crate) fn consume(&mut self, now: MonoTime, id: AttemptId) -> Result<Outcome, Rejection> {
        let slot = self.live_attempt(id, now).ok_or(Rejection::NotFound)?;
        self.consumable(slot)?;
        self.touch_attempt(slot);
        self.introduce(slot, now);
        Ok(Outcome::Introduced(Box::new(self.introduction(slot, now))))
    }

    /// A wrong capability and another listing's attempt look absent; an end is told to who holds the capability.
    fn bindable_attempt(&mut self, command: &Bind, now: MonoTime) -> Result<u32, Rejection> {
        let role = command.role.index();
        if let Some(slot) = self.live_attempt(command.attempt, now) {
            let attempt = &self.state.attempts[slot as usize];
            let listing = self.state.listings[attempt.listing as usize].id;
            let right_listing = command.listing.is_none_or(|named| named == listing);
            let right = right_listing & (attempt.capabilities[role] == command.capability);
            return if right { Ok(slot) } else { Err(Rejection::NotFound) };
        }
        let (listing, memory) = self.ended_attempt(command.attempt, now).ok_or(Rejection::NotFound)?;
        let right_listing = command.listing.is_none_or(|named| named == listing);
        if right_listing & (memory.capabilities[role] == command.capability) {
            return Err(Rejection::Ended(memory.reason));
        }
        Err(Rejection::NotFound)
    }

    /// The first endpoint per role and family wins; true when the identical datagram had won before.
    fn bind_slot(&mut self, slot: u32, now: MonoTime, command: &Bind) -> Result<bool, Rejection> {
        let family = command.endpoint.family();
        let attempt = &self.state.attempts[slot as usize];
        if let Some(bound) = attempt.slot(command.role, family) {
            return match (bound.endpoint == command.endpoint, bound.datagram == command.datagram) {
                (true, true) => Ok(true),
                (false, _) => Err(Rejection::ReplayRejected(Replay::OtherEndpoint)),
                (true, false) => Err(Rejection::ReplayRejected(Replay::OtherDatagram)),
            };
        }
        if command.nonce_issued.plus_ms(self.limits.nonce_fresh_ms.into()).is_past(now) {
            return Err(Rejection::StaleNonce);
        }
        if attempt.slot(command.role.other(), family).is_some_and(|other| other.endpoint == command.endpoint) {
            return Err(Rejection::Invalid(Invalid::SameEndpoint));
        }
        let no_common_family_at = now.plus_ms(self.limits.no_common_family_ms.into());
        let attempt = &mut self.state.attempts[slot as usize];
        attempt.bound[command.role.index()][family.index()] =
            Some(Slot { endpoint: command.endpoint, datagram: command.datagram });
        attempt.bound_last[command.role.index()] = family;
        if command.role == Role::Joiner {
            attempt.bind_until = None;
        }
        let common = Family::BOTH.iter().any(|family| attempt.pair(*family).is_some());
        let both = attempt.has_bound(Role::Host) && attempt.has_bound(Role::Joiner);
        attempt.common_until = match (both, common) {
            (true, false) => attempt.common_until.or(Some(no_common_family_at)),
            (_, true) | (false, false) => None,
        };
        self.state.reschedule_attempt(slot);
        self.touch_attempt(slot);
        Ok(false)
    }

    fn announce_bind(&mut self, slot: u32) {
        let attempt = &self.state.attempts[slot as usize];
        let event = Event::AttemptChanged { attempt: attempt.id, host_bound: attempt.has_bound(Role::Host) };
        self.events.push(event);
    }

    /// H3: whether the introduction can be consumed now.
    fn consumable(&self, slot: u32) -> Result<(), Rejection> {
        let attempt = &self.state.attempts[slot as usize];
        if attempt.introduced_at.is_some() {
            return Err(Rejection::ReplayRejected(Replay::Consumed));
        }
        let common = Family::BOTH.iter().any(|family| attempt.pair(*family).is_some());
        match attempt.gate {
            Gate::Open | Gate::Admitted if common => Ok(()),
            Gate::Open | Gate::Admitted | Gate::Waiting => Err(Rejection::NotReady),
        }
    }

    fn introduce(&mut self, slot: u32, now: MonoTime) {
        self.state.attempts[slot as usize].introduced_at = Some(now);
        let introduction = Box::new(self.introduction(slot, now));
        self.events.push(Event::Introduced(introduction));
    }

    fn bound_outcome(&self, slot: u32, repeated: bool) -> Outcome {
        let attempt = &self.state.attempts[slot as usize];
        let introduction = attempt.introduced_at.map(|at| Box::new(self.introduction(slot, at)));
        let deadline = self.at_the_latest(attempt.deadline);
        Outcome::Bound(Bound { deadline, repeated, introduction })
    }

    /// What the introduction hands out; a family bound later is part of it from then on.
    pub(crate) fn introduction(&self, slot: u32, at: MonoTime) -> Introduction {
        let attempt = &self.state.attempts[slot as usize];
        let listing = &self.state.listings[attempt.listing as usize];
        let pairs = Family::BOTH.map(|family| attempt.pair(family));
        let neighbours = pairs.iter().flatten().any(|pair| behind_one_address(*pair));
        let candidates = |declared: &[SocketAddr]| if neighbours { declared.to_vec() } else { Vec::new() };
        Introduction {
            attempt: attempt.id,
            listing: listing.id,
            pairs,
            candidates: [candidates(listing.candidates()), candidates(attempt.candidates.as_slice())],
            last_bound: [attempt.last_endpoint(Role::Host), attempt.last_endpoint(Role::Joiner)],
            at: attempt.introduced_at.unwrap_or(at),
            deadline: self.at_the_latest(attempt.deadline),
        }
    }
}

impl Attempt {
    /// Where a role is told at once: the endpoint that it bound last.
    fn last_endpoint(&self, role: Role) -> Endpoint {
        let last = self.bound_last[role.index()];
        let order = match last {
            Family::V4 => [Family::V4, Family::V6],
            Family::V6 => [Family::V6, Family::V4],
        };
        let bound = order.into_iter().find_map(|family| self.slot(role, family));
        bound.map(|slot| slot.endpoint).unwrap_or_else(|| unreachable!("an introduction has both roles bound"))
    }
}

/// H4: private candidates help only peers that share an address.
fn behind_one_address(pair: Pair) -> bool {
    pair.host.address().ip() == pair.joiner.address().ip()
}
