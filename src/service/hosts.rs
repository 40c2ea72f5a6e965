//! What hosts ask for: registration, lease, offers, gate.

use super::digest::{Operation, register_fingerprint};
use super::waits::{Place, Woken};
use super::{
    Applied, Caller, Credential, GateAnswered, GateItems, HostOffer, HostOffers, ListingGrant, RegisterRequest,
    RenewRequest, Service, foreign, secret_fingerprint,
};
use crate::credentials::{host_username, presence_username};
use crate::domain::{
    Answer, AttemptId, AttemptState, Command, Consume, Delete, EndReason, Failure, GATE_ITEMS_MAX, GateAnswer,
    GateAuthority, Idempotency, LeaseProof, LeaseView, ListingId, Outcome, PendingAttempt, Principal, Query, Register,
    Registered, Rejection, Renew, Renewed, Reply, Scope, SessionRef, TenantId, Wait,
};
use crate::store::Store;
use std::time::Duration;

impl Service {
    /// Registers a listing. `idempotency_key` is the caller's header, as sent without its quotes.
    pub async fn register(
        &self,
        caller: &Caller,
        idempotency_key: &str,
        request: RegisterRequest,
    ) -> Result<Applied<ListingGrant>, Failure> {
        let tag = Scope::tag(request.scope.tenant, &request.scope.protocol);
        let id = ListingId::compose(self.ids.created_ms(), self.random()? as u64, tag);
        let idempotency = Idempotency {
            key: self.digests.idempotency(caller.principal, Operation::Register, idempotency_key),
            fingerprint: register_fingerprint(&request),
        };
        let command = Command::Register(Box::new(Register {
            id,
            owner: caller.principal,
            source: caller.guest_source,
            idempotency,
            scope: request.scope,
            visibility: request.visibility,
            details: request.details,
            ttl: request.ttl,
            gate: request.gate,
            session: request.session,
            candidates: request.candidates,
            lease: secret_fingerprint(&self.key.lease_token(id)),
            quota_per_owner: self.policy.listings_per_owner,
            quota_per_source: self.policy.guest_listings_per_source,
        }));
        let reply = self.submit(command).await?;
        let Outcome::Registered(registered) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        let value = self.listing_grant(&registered);
        Ok(Applied { value, commit: reply.commit, replayed: registered.replayed })
    }

    /// Everything but the times follows from the id, so a replay gives the same grant (rule F2).
    fn listing_grant(&self, registered: &Registered) -> ListingGrant {
        let listing = registered.id;
        ListingGrant {
            listing,
            version: 1,
            expires_at: registered.expires_at,
            ttl_ms: registered.ttl_ms,
            lease_token: self.key.lease_token(listing),
            presence: Credential {
                username: presence_username(listing),
                password: self.key.presence_password(listing),
            },
            presence_interval_ms: presence_interval_ms(listing, self.limits.presence_ttl_ms),
            presence_ttl_ms: self.limits.presence_ttl_ms,
            stun: self.stun(),
        }
    }

    /// Renews a lease by compare-and-swap. `lease_token` is the header as sent.
    pub async fn renew(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
        request: RenewRequest,
    ) -> Result<Applied<Renewed>, Failure> {
        renewed(self.submit(self.renewal(caller, listing, lease_token, request)).await)
    }

    /// The same where the store can begin at once. `None` where it is busy: then nothing has begun.
    pub fn renew_at_once(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
        request: RenewRequest,
    ) -> Option<Result<Applied<Renewed>, Failure>> {
        self.store.submit_at_once(self.renewal(caller, listing, lease_token, request)).map(renewed)
    }

    fn renewal(&self, caller: &Caller, listing: ListingId, lease_token: &str, request: RenewRequest) -> Command {
        Command::Renew(Renew {
            proof: self.proof(caller, listing, lease_token),
            version: request.version,
            ttl: request.ttl,
            details: request.details.map(Box::new),
            visibility: request.visibility,
        })
    }

    /// Deletes a listing.
    pub async fn delete(&self, caller: &Caller, listing: ListingId, lease_token: &str) -> Result<Applied<()>, Failure> {
        let proof = self.proof(caller, listing, lease_token);
        let reply = self.submit(Command::Delete(Delete { proof })).await?;
        let Outcome::Deleted = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: (), commit: reply.commit, replayed: false })
    }

    /// The owner's view of its lease.
    pub async fn lease(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
    ) -> Result<Applied<LeaseView>, Failure> {
        let query = Query::Lease(self.proof(caller, listing, lease_token));
        let reply = self.submit(Command::Query(query)).await?;
        let Outcome::Answer(Answer::Lease(value)) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value, commit: reply.commit, replayed: false })
    }

    /// Pending attempts newer than `after`; waits while there are none, up to 30 s.
    /// `after` above the last commit: `Rejection::Invalid(FutureCommit)`.
    pub async fn host_offers(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
        after: u64,
        wait: impl Wait,
    ) -> Result<HostOffers, Failure> {
        let proof = self.proof(caller, listing, lease_token);
        let offers = self.pending(proof, after).await?;
        self.has_reached(after)?;
        if wait.limit().is_zero() || !offers.attempts.is_empty() {
            return Ok(offers);
        }
        let mut place = self.waits.for_listing(listing, wait.limit())?;
        let _held = wait.placed();
        let mut is_last = false;
        loop {
            let offers = match self.pending(proof, after).await {
                Ok(offers) => offers,
                Err(failure) => return self.ended(&place).ok_or(failure),
            };
            if is_last || !offers.attempts.is_empty() {
                return Ok(offers);
            }
            match place.woken().await {
                Woken::News => {}
                Woken::Last => is_last = true,
                Woken::Ended(_) => return Ok(self.ended(&place).unwrap_or(offers)),
            }
        }
    }

    /// The answer to a poll whose listing ended while it waited.
    fn ended(&self, place: &Place<'_>) -> Option<HostOffers> {
        let ended = place.ended()?;
        Some(HostOffers { attempts: Vec::new(), commit: self.last_commit(), ended: Some(ended) })
    }

    async fn pending(&self, proof: LeaseProof, after: u64) -> Result<HostOffers, Failure> {
        let reply = self.submit(Command::Query(Query::PendingAttempts { proof, after })).await?;
        let Outcome::Answer(Answer::Pending(pending)) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        let attempts = pending.into_iter().map(|pending| self.host_offer(proof.listing, pending)).collect();
        Ok(HostOffers { attempts, commit: reply.commit, ended: None })
    }

    fn host_offer(&self, listing: ListingId, pending: PendingAttempt) -> HostOffer {
        let attempt = pending.id;
        HostOffer {
            bind: Credential {
                username: host_username(listing, attempt),
                password: self.key.host_password(listing, attempt),
            },
            peer_key: self.key.peer_key(listing, attempt),
            turn: self.turn(attempt, pending.expires_at),
            pending,
        }
    }

    /// Answers a gated attempt. Opening the gate introduces both sides at once when both have bound already (rule H6).
    pub async fn answer_gate(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        lease_token: &str,
        admit: bool,
    ) -> Result<Applied<()>, Failure> {
        let lease = crate::credentials::fingerprint(lease_token.as_bytes());
        self.decide_gate(attempt, GateAuthority::Owner { caller: caller.principal, lease }, admit).await
    }

    /// The command plane's answer, which `host` applied, for a session of its tenant. An attempt that is over, or not at
    /// this session's gate, is [`GateAnswered::Gone`], unless it ended as this answer would have it: then the answer was
    /// given before, and what came after that was lost.
    pub async fn answer_session_gate(
        &self,
        host: Principal,
        session: SessionRef,
        attempt: AttemptId,
        admit: bool,
    ) -> Result<GateAnswered, Failure> {
        let by = GateAuthority::CommandPlane { tenant: host.tenant, session };
        match self.decide_gate(attempt, by, admit).await {
            Ok(_) => Ok(GateAnswered::AsAsked),
            Err(Failure::Rejected(Rejection::NotFound)) => self.answered_before(host, attempt, admit).await,
            Err(failure) => Err(failure),
        }
    }

    async fn answered_before(&self, host: Principal, attempt: AttemptId, admit: bool) -> Result<GateAnswered, Failure> {
        // Nobody is introduced before the gate is open, so who was has been let in.
        let as_asked = if admit { EndReason::Done } else { EndReason::Refused };
        let caller = Caller { principal: host, guest_source: None };
        match self.attempt(&caller, attempt, None, Duration::ZERO).await {
            Ok(status) if status.state == AttemptState::Ended(as_asked) => Ok(GateAnswered::AsAsked),
            Ok(_) | Err(Failure::Rejected(Rejection::NotFound)) => Ok(GateAnswered::Gone),
            Err(failure) => Err(failure),
        }
    }

    /// Attempts newer than `after` that wait at a session's gate; waits while there are none, up to 30 s. Whoever asks has been
    /// authorised by the command plane. `after` above the last commit: `Rejection::Invalid(FutureCommit)`; sessions outlive an
    /// instance, its commits don't.
    pub async fn session_gate(
        &self,
        tenant: TenantId,
        session: SessionRef,
        after: u64,
        wait: impl Wait,
    ) -> Result<GateItems, Failure> {
        let items = self.gate_items(tenant, session, after).await?;
        self.has_reached(after)?;
        if wait.limit().is_zero() || !items.attempts.is_empty() {
            return Ok(items);
        }
        let mut place = self.waits.for_gate(tenant, session, wait.limit())?;
        let _held = wait.placed();
        let mut is_last = false;
        loop {
            let items = self.gate_items(tenant, session, after).await?;
            if is_last || !items.attempts.is_empty() {
                return Ok(items);
            }
            match place.woken().await {
                Woken::News => {}
                Woken::Last | Woken::Ended(_) => is_last = true,
            }
        }
    }

    async fn gate_items(&self, tenant: TenantId, session: SessionRef, after: u64) -> Result<GateItems, Failure> {
        let reply = self.submit(Command::Query(Query::SessionGate { tenant, session, after })).await?;
        let Outcome::Answer(Answer::Pending(attempts)) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        // A full answer may not be all there is: the next one goes on after its last attempt.
        let is_full = attempts.len() >= GATE_ITEMS_MAX;
        let last = attempts.last().map(|attempt| attempt.commit).filter(|_| is_full);
        Ok(GateItems { attempts, commit: last.unwrap_or(reply.commit) })
    }

    async fn decide_gate(&self, attempt: AttemptId, by: GateAuthority, admit: bool) -> Result<Applied<()>, Failure> {
        let answer = GateAnswer { attempt, by };
        let reply = self.submit(if admit { Command::Admit(answer) } else { Command::Refuse(answer) }).await?;
        match reply.outcome {
            Outcome::Admitted => {
                // Not ready yet, or introduced by a bind meanwhile: either way the gate is open, which was the question.
                let introduced = self.submit(Command::Consume(Consume { attempt })).await;
                let commit = introduced.map_or(reply.commit, |introduced| introduced.commit);
                Ok(Applied { value: (), commit, replayed: false })
            }
            Outcome::Closed => Ok(Applied { value: (), commit: reply.commit, replayed: false }),
            ref other @ (Outcome::Registered(_)
            | Outcome::Renewed(_)
            | Outcome::Deleted
            | Outcome::Present(_)
            | Outcome::Noted
            | Outcome::AttemptCreated(_)
            | Outcome::Bound(_)
            | Outcome::Introduced(_)
            | Outcome::PathReported(_)
            | Outcome::Revoked(_)
            | Outcome::Lifted(_)
            | Outcome::Draining { .. }
            | Outcome::Swept
            | Outcome::Answer(_)) => Err(foreign(other)),
        }
    }
}

fn renewed(answer: Result<Reply, Failure>) -> Result<Applied<Renewed>, Failure> {
    let Reply { outcome, commit } = answer?;
    let Outcome::Renewed(value) = outcome else { return Err(foreign(&outcome)) };
    Ok(Applied { value, commit, replayed: false })
}

/// Advice of `udp.md`: between 0.24 and 0.30 of the presence lifetime, so that two lost datagrams in a row hide nobody
/// and hosts spread out. It follows from the random bits of the id, so a replay gives the same interval.
pub(super) fn presence_interval_ms(listing: ListingId, presence_ttl_ms: u32) -> u32 {
    let random = u64::from((listing.0 >> 32) as u16);
    let millionths = 240_000 + 60_000 * random / 65_536;
    u32::try_from(u64::from(presence_ttl_ms) * millionths / 1_000_000).unwrap_or(u32::MAX)
}
