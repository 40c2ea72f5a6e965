//! What operators ask for.

use super::{Applied, NamedSubject, Service, foreign};
use crate::domain::{
    Answer, Certainty, Command, Failure, MonoTime, Outcome, Query, Rejection, Revoke, Revoked, Status, Subject,
    TenantId, Ttl, WallTime,
};

impl Service {
    /// Revokes a listing or principal of `tenant`. The key is good once.
    pub async fn revoke(
        &self,
        tenant: TenantId,
        subject: &NamedSubject,
        ttl: Ttl,
        idempotency_key: &str,
    ) -> Result<Applied<Revoked>, Failure> {
        let once = self.digests.replay(idempotency_key);
        let revoke = Revoke { subject: self.subject(tenant, subject), ttl, once };
        let reply = self.submit(Command::Revoke(revoke)).await?;
        let Outcome::Revoked(value) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value, commit: reply.commit, replayed: false })
    }

    /// Lifts a revocation; `NotFound` when there was none.
    pub async fn lift_revocation(&self, tenant: TenantId, subject: &NamedSubject) -> Result<Applied<()>, Failure> {
        let reply = self.submit(Command::LiftRevocation(self.subject(tenant, subject))).await?;
        let Outcome::Lifted(there_was_one) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        if !there_was_one {
            return Err(Rejection::NotFound.into());
        }
        Ok(Applied { value: (), commit: reply.commit, replayed: false })
    }

    fn subject(&self, tenant: TenantId, subject: &NamedSubject) -> Subject {
        match subject {
            NamedSubject::Listing(listing) => Subject::Listing(*listing),
            NamedSubject::Principal(name) => Subject::Principal(self.digests.principal(tenant, name)),
        }
    }

    /// Begins drain, or returns the first deadline. `None` uses the configured window.
    pub async fn drain(&self, window_ms: Option<u32>) -> Result<Applied<(MonoTime, WallTime)>, Failure> {
        let window_ms = window_ms.unwrap_or(self.policy.drain_window_ms);
        let reply = self.submit(Command::Drain { window_ms }).await?;
        let Outcome::Draining { deadline, wall } = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: (deadline, wall), commit: reply.commit, replayed: false })
    }

    /// Counts against ceilings.
    pub async fn status(&self) -> Result<Applied<Status>, Failure> {
        let reply = self.submit(Command::Query(Query::Status)).await?;
        let Outcome::Answer(Answer::Status(status)) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: *status, commit: reply.commit, replayed: false })
    }

    /// True while nobody waits for an introduction: drain may end early.
    ///
    /// A sweep first lets go of attempts whose time is over, so that nobody waits for the dead.
    pub async fn is_quiet(&self) -> bool {
        match self.submit(Command::Sweep).await {
            Ok(_) | Err(Failure::Rejected(_) | Failure::Overloaded | Failure::Cancelled) => {
                self.waiting_attempts.is_empty()
            }
            // A lost store introduces nobody.
            Err(Failure::Unavailable(Certainty::NotApplied | Certainty::Unknown)) => true,
        }
    }
}
