//! Reads that are decided in the lane: of live records only, by the instant of the query (C3).

use super::record::{Gate, Listing, Place};
use super::{ListingObject, Machine};
use crate::domain::{
    Answer, AttemptId, AttemptState, AttemptView, Count, EndpointView, Family, GATE_ITEMS_MAX, LeaseView, MonoTime,
    Outcome, PendingAttempt, PresenceState, Principal, Query, Rejection, Status,
};

impl<O: ListingObject> Machine<O> {
    pub(crate) fn answer(&mut self, now: MonoTime, query: Query) -> Result<Outcome, Rejection> {
        match query {
            Query::Lease(proof) => {
                let slot = self.owned_listing(&proof, now)?;
                let view = lease_view(&self.state.listings[slot as usize], now);
                Ok(Outcome::Answer(Answer::Lease(view)))
            }
            Query::PendingAttempts { proof, after } => {
                let slot = self.owned_listing(&proof, now)?;
                Ok(Outcome::Answer(Answer::Pending(self.pending_attempts(slot, after, now))))
            }
            Query::SessionGate { tenant, session, after } => {
                let slots = self.state.listings_of_session(tenant, session);
                let live = slots.filter(|slot| !self.state.listings[*slot as usize].dead_at().is_past(now));
                let mut waiting: Vec<_> = live.flat_map(|slot| self.pending_attempts(slot, after, now)).collect();
                waiting.retain(|attempt| attempt.gated);
                waiting.sort_unstable_by_key(|attempt| attempt.commit);
                waiting.truncate(GATE_ITEMS_MAX);
                Ok(Outcome::Answer(Answer::Pending(waiting)))
            }
            Query::Attempt { attempt, caller } => {
                let view = self.attempt_view(attempt, caller, now)?;
                Ok(Outcome::Answer(Answer::Attempt(view)))
            }
            Query::Status => Ok(self.status(now)),
        }
    }

    fn pending_attempts(&self, slot: u32, after: u64, now: MonoTime) -> Vec<PendingAttempt> {
        let members = self.state.listings[slot as usize].attempts().iter();
        let attempts = members.filter(|due| !due.at.is_past(now)).map(|due| &self.state.attempts[due.slot as usize]);
        let mut pending: Vec<PendingAttempt> = attempts
            .filter(|attempt| attempt.introduced_at.is_none() && attempt.created > after)
            .map(|attempt| PendingAttempt {
                id: attempt.id,
                expires_at: attempt.expires_at,
                payload: attempt.payload.clone(),
                commit: attempt.created,
                gated: attempt.gate == Gate::Waiting,
            })
            .collect();
        pending.sort_unstable_by_key(|attempt| attempt.commit);
        pending
    }

    fn attempt_view(&mut self, id: AttemptId, caller: Principal, now: MonoTime) -> Result<AttemptView, Rejection> {
        if let Some(slot) = self.live_attempt(id, now) {
            let role = self.role_of(slot, caller).ok_or(Rejection::NotFound)?;
            let attempt = &self.state.attempts[slot as usize];
            let (own, expires_at, commit) = (attempt.own(role), attempt.expires_at, attempt.changed);
            let state = match attempt.introduced_at {
                None => AttemptState::Waiting { own, expires_at },
                Some(at) => {
                    let introduction = self.introduction(slot, at);
                    let peers = introduction.peers_of(role).collect();
                    AttemptState::Introduced { own, peers, expires_at, introduction: Box::new(introduction) }
                }
            };
            return Ok(AttemptView { state, commit });
        }
        let (_, memory) = self.ended_attempt(id, now).ok_or(Rejection::NotFound)?;
        if memory.joiner != caller && memory.host != caller {
            return Err(Rejection::NotFound);
        }
        Ok(AttemptView { state: AttemptState::Ended(memory.reason), commit: memory.commit })
    }

    /// Counts of what lives at `now`, whether or not the dead have been removed.
    pub(crate) fn status(&self, now: MonoTime) -> Outcome {
        let state = &self.state;
        let limits = &self.limits;
        let count = |all: usize, dead: usize, ceiling: u32| Count { live: all.saturating_sub(dead) as u32, ceiling };
        let (mut dead_listings, mut dead_unproven, mut dead_presences, mut orphans) = (0, 0, 0, 0);
        let mut dead_records = state.remembered_due.count_dead(now);
        let is_over = |place: Place| usize::from(self.remembered_until(place).is_past(now));
        for slot in state.listings_due.iter_dead(now) {
            let listing = &state.listings[slot as usize];
            let is_dead = listing.dead_at().is_past(now);
            let counted = listing.presence.iter().flatten().filter(|known| known.is_counted);
            dead_presences += counted.filter(|known| is_dead || known.deadline.is_past(now)).count();
            if !is_dead {
                continue;
            }
            dead_listings += 1;
            dead_records += is_over(Place::Listing(slot));
            let of_listing = listing.attempts().iter().filter(|due| !due.at.is_past(now));
            dead_records += of_listing.map(|due| is_over(Place::Attempt(due.slot))).sum::<usize>();
            dead_unproven += usize::from(listing.is_unproven);
            orphans += listing.attempts().len() - listing.attempts().count_dead(now);
        }
        let dead_attempts = state.attempts_due.iter_dead(now);
        dead_records += dead_attempts.iter().map(|slot| is_over(Place::Attempt(*slot))).sum::<usize>();
        Outcome::Answer(Answer::Status(Box::new(Status {
            listings: count(state.listings.len(), dead_listings, limits.listings),
            unproven_listings: count(state.unproven as usize, dead_unproven, limits.unproven_listings),
            presence: count(state.present as usize, dead_presences, limits.presence),
            attempts: count(state.attempts.len(), dead_attempts.len() + orphans, limits.attempts),
            idempotency: count(state.remembered_len(), dead_records, limits.idempotency),
            replay: count(state.replay.len(), state.replay.count_dead(now), limits.replay),
            revocations: count(state.revocations.len(), state.revocations.count_dead(now), limits.revocations),
            drain: self.drain_deadline(),
        })))
    }
}

fn lease_view<O>(listing: &Listing<O>, now: MonoTime) -> LeaseView {
    let mut endpoints = Vec::new();
    for family in Family::BOTH {
        if let Some(known) = listing.known(family) {
            let state = if known.deadline.is_past(now) { PresenceState::Stale } else { PresenceState::Verified };
            endpoints.push(EndpointView { family, endpoint: known.endpoint, state });
        }
    }
    if let Some(endpoint) = listing.rare.as_deref().and_then(|rare| rare.unverified) {
        endpoints.push(EndpointView { family: endpoint.family(), endpoint, state: PresenceState::Unverified });
    }
    let presence = endpoints.iter().map(|view| view.state).max().unwrap_or(PresenceState::None);
    LeaseView { version: listing.version, expires_at: listing.expires_at, presence, endpoints }
}
