//! Attempts: creation, binding, introduction and their ends.

use super::{Attempt, End, Model, Slot, room};
use rendezvous::domain::*;

impl Attempt {
    pub(crate) fn is_live(&self) -> bool {
        self.end.is_none()
    }

    /// The families that both sides have bound, IPv6 first.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let bound = |role: Role, family: Family| self.slots[role.index()][family.index()].map(|slot| slot.endpoint);
        let pair =
            |family: &Family| Some(Pair { host: bound(Role::Host, *family)?, joiner: bound(Role::Joiner, *family)? });
        Family::BOTH.iter().filter_map(pair).collect()
    }

    pub(crate) fn introduction(&self, at_the_latest: MonoTime) -> Option<Introduction> {
        let at = self.introduced_at?;
        let pairs = self.pairs();
        let behind_one_nat = pairs.iter().any(|pair| pair.host.address().ip() == pair.joiner.address().ip());
        let declared = [self.host_candidates.as_slice().to_vec(), self.asked.candidates.as_slice().to_vec()];
        Some(Introduction {
            attempt: self.asked.id,
            listing: self.asked.listing,
            pairs: Family::BOTH.map(|family| pairs.iter().find(|pair| pair.host.family() == family).copied()),
            candidates: if behind_one_nat { declared } else { Default::default() },
            last_bound: self.last_bound.map(|endpoint| endpoint.expect("both sides are bound")),
            at,
            deadline: self.deadline.min(at_the_latest),
        })
    }

    pub(crate) fn role_of(&self, caller: Principal) -> Option<Role> {
        match caller {
            _ if caller == self.asked.joiner => Some(Role::Joiner),
            _ if caller == self.owner => Some(Role::Host),
            _ => None,
        }
    }
}

impl Model {
    fn count_attempts(&self, wanted: impl Fn(&Attempt) -> bool) -> usize {
        self.attempts.iter().filter(|attempt| attempt.is_live() && wanted(attempt)).count()
    }

    pub(super) fn create_attempt(&mut self, asked: &CreateAttempt) -> Result<Outcome, Rejection> {
        if self.is_revoked(asked.joiner) {
            return Err(Rejection::Revoked);
        }
        if let Some(before) = self.attempts.iter().find(|a| a.asked.idempotency.key == asked.idempotency.key) {
            if before.asked.idempotency.fingerprint != asked.idempotency.fingerprint {
                return Err(Rejection::IdempotencyMismatch);
            }
            return match before.is_live() {
                true => Ok(Outcome::AttemptCreated(AttemptCreated { replayed: true, ..before.first })),
                false => Err(Rejection::Expired),
            };
        }
        self.check_drain()?;
        let now = self.now();
        let listing = self.listings.iter().find(|listing| listing.asked.id == asked.listing);
        let listing = listing.filter(|listing| {
            listing.is_fresh(now)
                && listing.asked.scope.tenant == asked.joiner.tenant
                && asked.protocol.as_ref().is_none_or(|protocol| *protocol == listing.asked.scope.protocol)
        });
        let Some(listing) = listing else { return Err(Rejection::NotFound) };
        if listing.asked.owner == asked.joiner {
            return Err(Rejection::Invalid(Invalid::OwnListing));
        }
        let (owner, gate_open) = (listing.asked.owner, !listing.asked.gate);
        let host_candidates = listing.asked.candidates.clone();
        self.check_attempt_quotas(asked)?;
        room(self.count_attempts(|_| true), self.limits.attempts, Resource::Attempts)?;
        room(self.remembered_requests(), self.limits.idempotency, Resource::Idempotency)?;

        let expires_at = self.at.wall.plus_ms(self.limits.attempt_ttl_ms.into());
        let first = AttemptCreated { id: asked.id, listing: asked.listing, expires_at, replayed: false };
        self.attempts.push(Attempt {
            asked: asked.clone(),
            owner,
            host_candidates,
            created_at: now,
            created_commit: self.commit,
            changed_commit: self.commit,
            deadline: now.plus_ms(self.limits.attempt_ttl_ms.into()),
            first,
            gate_open,
            slots: Default::default(),
            last_bound: [None, None],
            both_bound_at: None,
            introduced_at: None,
            reported: [false, false],
            end: None,
        });
        self.changes = true;
        Ok(Outcome::AttemptCreated(first))
    }

    fn check_attempt_quotas(&self, asked: &CreateAttempt) -> Result<(), Rejection> {
        let quota = asked.quota;
        let of_tenant = self.count_attempts(|a| a.asked.joiner.tenant == asked.joiner.tenant);
        room(of_tenant, quota.per_tenant, Resource::AttemptsPerTenant)?;
        let of_listing = self.count_attempts(|a| a.asked.listing == asked.listing);
        room(of_listing, quota.per_listing, Resource::AttemptsPerListing)?;
        let of_joiner = self.count_attempts(|a| a.asked.joiner == asked.joiner);
        room(of_joiner, quota.per_principal, Resource::AttemptsPerPrincipal)?;
        if asked.source.is_some() {
            let of_source = self.count_attempts(|a| a.asked.source == asked.source);
            room(of_source, quota.per_source, Resource::AttemptsPerSource)?;
        }
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: &Bind, then_consume: bool) -> Result<Outcome, Rejection> {
        let now = self.now();
        let aged = bind.nonce_issued.plus_ms(self.limits.nonce_fresh_ms.into()) <= now;
        let (commit, latest) = (self.commit, self.at_the_latest(MonoTime::NEVER));
        let found = self.attempts.iter_mut().find(|attempt| attempt.asked.id == bind.attempt);
        let attempt = found.ok_or(Rejection::NotFound)?;
        let (role, family) = (bind.role.index(), bind.endpoint.family().index());
        let other_listing = bind.role == Role::Host && bind.listing != Some(attempt.asked.listing);
        if attempt.asked.capabilities[role] != bind.capability || other_listing {
            return Err(Rejection::NotFound);
        }
        if let Some(end) = &attempt.end {
            self.reasons.clone_from(&end.reasons);
            return Err(Rejection::Ended(end.reasons[0]));
        }
        let repeated = match attempt.slots[role][family] {
            Some(slot) if slot.endpoint != bind.endpoint => {
                return Err(Rejection::ReplayRejected(Replay::OtherEndpoint));
            }
            Some(slot) if slot.datagram != bind.datagram => {
                return Err(Rejection::ReplayRejected(Replay::OtherDatagram));
            }
            Some(_) => true,
            None if aged => return Err(Rejection::StaleNonce),
            None => false,
        };
        let other = attempt.slots[bind.role.other().index()][family];
        if !repeated && other.is_some_and(|slot| slot.endpoint == bind.endpoint) {
            return Err(Rejection::Invalid(Invalid::SameEndpoint));
        }
        if !repeated {
            attempt.slots[role][family] = Some(Slot { endpoint: bind.endpoint, datagram: bind.datagram });
            attempt.last_bound[role] = Some(bind.endpoint);
            let all_bound = attempt.slots.iter().all(|families| families.iter().any(Option::is_some));
            if all_bound && attempt.both_bound_at.is_none() {
                attempt.both_bound_at = Some(now);
            }
        }
        let introduces =
            then_consume && attempt.gate_open && attempt.introduced_at.is_none() && !attempt.pairs().is_empty();
        if introduces {
            attempt.introduced_at = Some(now);
        }
        if !repeated || introduces {
            attempt.changed_commit = commit;
            self.changes = true;
        }
        let introduction = attempt.introduction(latest).map(Box::new);
        Ok(Outcome::Bound(Bound { deadline: attempt.deadline.min(latest), repeated, introduction }))
    }

    pub(super) fn consume(&mut self, id: AttemptId) -> Result<Outcome, Rejection> {
        let (now, commit, latest) = (self.now(), self.commit, self.at_the_latest(MonoTime::NEVER));
        let attempt = self.live_attempt(id)?;
        if attempt.introduced_at.is_some() {
            return Err(Rejection::ReplayRejected(Replay::Consumed));
        }
        if !attempt.gate_open || attempt.pairs().is_empty() {
            return Err(Rejection::NotReady);
        }
        attempt.introduced_at = Some(now);
        attempt.changed_commit = commit;
        let introduction = attempt.introduction(latest).ok_or(Rejection::NotReady)?;
        self.changes = true;
        Ok(Outcome::Introduced(Box::new(introduction)))
    }

    fn live_attempt(&mut self, id: AttemptId) -> Result<&mut Attempt, Rejection> {
        let found = self.attempts.iter_mut().find(|attempt| attempt.is_live() && attempt.asked.id == id);
        found.ok_or(Rejection::NotFound)
    }

    pub(super) fn answer_gate(&mut self, answer: &GateAnswer, admit: bool) -> Result<Outcome, Rejection> {
        let (now, commit) = (self.now(), self.commit);
        let listing = self.live_attempt(answer.attempt)?.asked.listing;
        let listing = self.live_listing(listing)?;
        let allowed = match answer.by {
            GateAuthority::Owner { caller, lease } => {
                listing.proven_by(&LeaseProof { listing: listing.asked.id, caller, lease })
            }
            GateAuthority::CommandPlane { tenant, session } => {
                tenant == listing.asked.scope.tenant && listing.asked.session == Some(session)
            }
        };
        if !allowed {
            return Err(Rejection::NotFound);
        }
        let attempt = self.live_attempt(answer.attempt)?;
        if !admit {
            attempt.end = Some(End { at: now, reasons: vec![EndReason::Refused] });
            self.changes = true;
            return Ok(Outcome::Closed);
        }
        if !attempt.gate_open {
            attempt.gate_open = true;
            attempt.changed_commit = commit;
            self.changes = true;
        }
        Ok(Outcome::Admitted)
    }

    pub(super) fn close(&mut self, close: &CloseAttempt) -> Result<Outcome, Rejection> {
        let now = self.now();
        let found = self.attempts.iter_mut().find(|attempt| attempt.asked.id == close.attempt);
        let attempt = found.ok_or(Rejection::NotFound)?;
        let role = attempt.role_of(close.caller).ok_or(Rejection::NotFound)?;
        if attempt.end.is_none() {
            let reason = match role {
                Role::Joiner => EndReason::Closed,
                Role::Host => EndReason::Refused,
            };
            attempt.end = Some(End { at: now, reasons: vec![reason] });
            self.changes = true;
        }
        Ok(Outcome::Closed)
    }

    pub(super) fn report_path(&mut self, report: &ReportPath) -> Result<Outcome, Rejection> {
        let found = self.attempts.iter_mut().find(|attempt| attempt.asked.id == report.attempt);
        let attempt = found.ok_or(Rejection::NotFound)?;
        let role = attempt.role_of(report.caller).ok_or(Rejection::NotFound)?;
        if std::mem::replace(&mut attempt.reported[role.index()], true) {
            return Err(Rejection::ReplayRejected(Replay::Reported));
        }
        let introduction = attempt.introduction(MonoTime::NEVER);
        let family =
            introduction.and_then(|shown| shown.pairs.into_iter().flatten().next()).map(|pair| pair.host.family());
        Ok(Outcome::PathReported(family))
    }

    /// Ends the live attempts that `wanted` names; returns how many.
    pub(super) fn end_attempts(&mut self, reason: EndReason, wanted: impl Fn(&Attempt) -> bool) -> u32 {
        let at = self.now();
        let mut ended = 0;
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.is_live() && wanted(attempt)) {
            attempt.end = Some(End { at, reasons: vec![reason] });
            ended += 1;
        }
        ended
    }
}
