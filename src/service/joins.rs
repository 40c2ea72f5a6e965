//! What joiners and both sides of an attempt ask for.

use super::digest::{Operation, attempt_fingerprint};
use super::waits::Woken;
use super::{
    Applied, AttemptGrant, AttemptRequest, AttemptStatus, Caller, Credential, Service, TurnGrant, foreign,
    secret_fingerprint, turn,
};
use crate::clock::Clock;
use crate::credentials::joiner_username;
use crate::domain::{
    Answer, AttemptCreated, AttemptId, AttemptQuota, AttemptState, CloseAttempt, Command, CreateAttempt, Failure,
    Family, Idempotency, Outcome, Path, Query, ReportPath, Wait, WallTime,
};

impl Service {
    /// Creates a join attempt.
    pub async fn create_attempt(
        &self,
        caller: &Caller,
        idempotency_key: &str,
        request: AttemptRequest,
    ) -> Result<Applied<AttemptGrant>, Failure> {
        let id = AttemptId::compose(self.ids.created_ms(), self.random()?);
        let idempotency = Idempotency {
            key: self.digests.idempotency(caller.principal, Operation::CreateAttempt, idempotency_key),
            fingerprint: attempt_fingerprint(caller.principal.tenant, &request),
        };
        let host = secret_fingerprint(&self.key.host_password(request.listing, id));
        let joiner = secret_fingerprint(&self.key.joiner_password(id));
        let command = Command::CreateAttempt(Box::new(CreateAttempt {
            id,
            listing: request.listing,
            joiner: caller.principal,
            source: caller.guest_source,
            idempotency,
            protocol: request.protocol,
            candidates: request.candidates,
            payload: request.payload,
            // By `Role::index`.
            capabilities: [host, joiner],
            quota: AttemptQuota {
                per_tenant: self.policy.attempts_per_tenant,
                per_listing: self.policy.attempts_per_listing,
                per_principal: self.policy.attempts_per_principal,
                per_source: self.policy.guest_attempts_per_source,
            },
        }));
        let reply = self.submit(command).await?;
        let Outcome::AttemptCreated(created) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        let value = self.attempt_grant(&created);
        Ok(Applied { value, commit: reply.commit, replayed: created.replayed })
    }

    /// Everything but the time follows from the ids, so a replay gives the same grant (rule F2).
    fn attempt_grant(&self, created: &AttemptCreated) -> AttemptGrant {
        let attempt = created.id;
        AttemptGrant {
            attempt,
            expires_at: created.expires_at,
            bind: Credential { username: joiner_username(attempt), password: self.key.joiner_password(attempt) },
            peer_key: self.key.peer_key(created.listing, attempt),
            stun: self.stun(),
            turn: self.turn(attempt, created.expires_at),
        }
    }

    /// One side's view; with `after`, waits up to 30 s until something newer than that commit happened to it.
    /// `after` above the last commit: `Rejection::Invalid(FutureCommit)`.
    pub async fn attempt(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        after: Option<u64>,
        wait: impl Wait,
    ) -> Result<AttemptStatus, Failure> {
        let status = self.attempt_now(caller, attempt).await?;
        self.has_reached(after.unwrap_or(0))?;
        let Some(after) = after.filter(|_| !wait.limit().is_zero()) else { return Ok(status) };
        // Nothing happens to an attempt after its end.
        let answers = |status: &AttemptStatus| status.commit > after || matches!(status.state, AttemptState::Ended(_));
        if answers(&status) {
            return Ok(status);
        }
        let mut place = self.waits.for_attempt(attempt, caller.principal.key, wait.limit())?;
        let _held = wait.placed();
        let mut is_last = false;
        loop {
            let status = self.attempt_now(caller, attempt).await?;
            if is_last || answers(&status) {
                return Ok(status);
            }
            match place.woken().await {
                Woken::News => {}
                Woken::Last => is_last = true,
                Woken::Ended(_) => return Ok(status),
            }
        }
    }

    async fn attempt_now(&self, caller: &Caller, attempt: AttemptId) -> Result<AttemptStatus, Failure> {
        let query = Query::Attempt { attempt, caller: caller.principal };
        let reply = self.submit(Command::Query(query)).await?;
        let Outcome::Answer(Answer::Attempt(view)) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        let turn = match &view.state {
            AttemptState::Waiting { expires_at, .. } | AttemptState::Introduced { expires_at, .. } => {
                self.turn(attempt, *expires_at)
            }
            AttemptState::Ended(_) => Vec::new(),
        };
        Ok(AttemptStatus { state: view.state, commit: view.commit, turn })
    }

    /// Ends an attempt: its joiner closes it, its host refuses it.
    pub async fn close_attempt(&self, caller: &Caller, attempt: AttemptId) -> Result<Applied<()>, Failure> {
        let reply = self.submit(Command::Close(CloseAttempt { attempt, caller: caller.principal })).await?;
        let Outcome::Closed = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: (), commit: reply.commit, replayed: false })
    }

    /// Counts the path that one side saw. The family is that of the introduction, for the metrics.
    pub async fn report_path(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        path: Path,
    ) -> Result<Applied<Option<Family>>, Failure> {
        let report = ReportPath { attempt, caller: caller.principal, path };
        let reply = self.submit(Command::ReportPath(report)).await?;
        let Outcome::PathReported(value) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value, commit: reply.commit, replayed: false })
    }

    /// The TURN credential of an attempt, when TURN is configured. `expires_at` never changes while an attempt lives, so
    /// its creation follows from it.
    pub(super) fn turn(&self, attempt: AttemptId, expires_at: WallTime) -> Vec<TurnGrant> {
        let created = WallTime(expires_at.0.saturating_sub(self.limits.attempt_ttl_ms.into()));
        let now = self.clock.wall();
        self.policy.turn.iter().map(|policy| turn::mint(policy, attempt, created, now)).collect()
    }
}
