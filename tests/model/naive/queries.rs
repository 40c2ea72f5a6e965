//! Reads, and what browsing shows.

use super::{Listing, Model};
use rendezvous::domain::*;

impl Model {
    pub(super) fn query(&mut self, query: &Query) -> Result<Answer, Rejection> {
        match query {
            Query::Lease(proof) => self.lease_view(proof).map(Answer::Lease),
            Query::PendingAttempts { proof, after } => {
                let known = self.listings.iter().any(|listing| listing.is_live() && listing.proven_by(proof));
                if known { Ok(Answer::Pending(self.pending(proof.listing, *after))) } else { Err(Rejection::NotFound) }
            }
            Query::SessionGate { tenant, session, after } => {
                let its_own = |listing: &&Listing| {
                    listing.is_live()
                        && listing.asked.scope.tenant == *tenant
                        && listing.asked.session == Some(*session)
                };
                let ids = self.listings.iter().filter(its_own).map(|listing| listing.asked.id);
                let mut waiting: Vec<_> = ids.flat_map(|id| self.pending(id, *after)).collect();
                waiting.retain(|attempt| attempt.gated);
                waiting.sort_by_key(|attempt| attempt.commit);
                Ok(Answer::Pending(waiting))
            }
            Query::Attempt { attempt, caller } => self.attempt_view(*attempt, *caller).map(Answer::Attempt),
            Query::Status => Ok(Answer::Status(Box::new(self.status()))),
        }
    }

    fn lease_view(&self, proof: &LeaseProof) -> Result<LeaseView, Rejection> {
        let found = self.listings.iter().find(|listing| listing.is_live() && listing.proven_by(proof));
        let listing = found.ok_or(Rejection::NotFound)?;
        let mut endpoints: Vec<EndpointView> = Vec::new();
        for known in listing.known.iter().flatten() {
            let fresh = known.deadline > self.now();
            let state = if fresh { PresenceState::Verified } else { PresenceState::Stale };
            endpoints.push(EndpointView { family: known.endpoint.family(), endpoint: known.endpoint, state });
        }
        if let Some(endpoint) = listing.unverified {
            let state = PresenceState::Unverified;
            endpoints.push(EndpointView { family: endpoint.family(), endpoint, state });
        }
        let presence = endpoints.iter().map(|view| view.state).max().unwrap_or(PresenceState::None);
        Ok(LeaseView { version: listing.version, expires_at: listing.expires_at, presence, endpoints })
    }

    /// Live attempts of a listing that are not introduced, in creation order.
    pub(crate) fn pending(&self, listing: ListingId, after: u64) -> Vec<PendingAttempt> {
        let waits = self.attempts.iter().filter(|attempt| {
            attempt.is_live()
                && attempt.introduced_at.is_none()
                && attempt.asked.listing == listing
                && attempt.created_commit > after
        });
        let show = |attempt: &super::Attempt| PendingAttempt {
            id: attempt.asked.id,
            expires_at: attempt.first.expires_at,
            payload: attempt.asked.payload.clone(),
            commit: attempt.created_commit,
            gated: !attempt.gate_open,
        };
        waits.map(show).collect()
    }

    fn attempt_view(&mut self, id: AttemptId, caller: Principal) -> Result<AttemptView, Rejection> {
        let attempt = self.attempts.iter().find(|attempt| attempt.asked.id == id).ok_or(Rejection::NotFound)?;
        let role = attempt.role_of(caller).ok_or(Rejection::NotFound)?;
        let commit = attempt.changed_commit;
        if let Some(end) = &attempt.end {
            self.reasons.clone_from(&end.reasons);
            return Ok(AttemptView { state: AttemptState::Ended(end.reasons[0]), commit });
        }
        let own = attempt.slots[role.index()].iter().flatten().map(|slot| slot.endpoint).collect();
        let expires_at = attempt.first.expires_at;
        let state = match attempt.introduction(self.at_the_latest(MonoTime::NEVER)) {
            None => AttemptState::Waiting { own, expires_at },
            Some(introduction) => AttemptState::Introduced {
                own,
                peers: introduction.peers_of(role).collect(),
                expires_at,
                introduction: Box::new(introduction),
            },
        };
        Ok(AttemptView { state, commit })
    }

    pub(super) fn status(&self) -> Status {
        let limits = &self.limits;
        let count = |live: usize, ceiling: u32| Count { live: live as u32, ceiling };
        let live: Vec<&Listing> = self.listings.iter().filter(|listing| listing.is_live()).collect();
        let unproven = live.iter().filter(|listing| !listing.was_present()).count();
        let attempts = self.attempts.iter().filter(|attempt| attempt.is_live()).count();
        Status {
            listings: count(live.len(), limits.listings),
            unproven_listings: count(unproven, limits.unproven_listings),
            presence: count(self.present_families(), limits.presence),
            attempts: count(attempts, limits.attempts),
            idempotency: count(self.remembered_requests(), limits.idempotency),
            replay: count(self.replay.len(), limits.replay),
            revocations: count(self.revocations.len(), limits.revocations),
            drain: self.drain,
        }
    }

    /// The fresh listings of a scope as of `now`, in id order; unlisted ones only when asked for.
    pub(crate) fn projection(&self, scope: &Scope, now: MonoTime, unlisted_too: bool) -> Vec<&Listing> {
        if self.drain.is_some_and(|(deadline, _)| deadline <= now) {
            return Vec::new();
        }
        let mut shown: Vec<&Listing> = self
            .listings
            .iter()
            .filter(|listing| listing.asked.scope == *scope && listing.is_fresh(now))
            .filter(|listing| listing.death(&self.limits) > now)
            .filter(|listing| unlisted_too || listing.asked.visibility == Visibility::Public)
            .collect();
        shown.sort_by_key(|listing| listing.asked.id);
        shown
    }
}
