//! What operators ask for: revocation (section I) and drain (J2).

use super::state::{joiner, owner};
use super::{Drain, ListingObject, Machine};
use crate::domain::{
    At, EndReason, Event, Invalid, ListingEnd, MonoTime, Outcome, PrincipalKey, Rejection, Replay, Resource, Revoke,
    Revoked, Subject,
};

impl<O: ListingObject> Machine<O> {
    pub(crate) fn revoke(&mut self, at: At, command: Revoke) -> Result<Outcome, Rejection> {
        let now = at.mono;
        if self.state.replay.until(command.once, now).is_some() {
            return Err(Rejection::ReplayRejected(Replay::KeyUsed));
        }
        let standing = self.state.revocations.until(command.subject, now);
        let has_room = |it: &Self| it.state.revocations.len() < it.limits.revocations as usize;
        if standing.is_none() && !self.clean_up_until(now, has_room) {
            return Err(Rejection::CapacityExceeded(Resource::Revocations));
        }
        if !self.clean_up_until(now, |it| it.state.replay.len() < it.limits.replay as usize) {
            return Err(Rejection::CapacityExceeded(Resource::Replay));
        }
        self.commit_next();
        let asked = now.plus_ms(command.ttl.ms().into());
        let until = standing.map_or(asked, |standing| standing.max(asked));
        self.state.replay.set(command.once, now.plus_ms(self.limits.idempotency_retention_ms.into()));
        self.state.revocations.set(command.subject, until);
        let (listings, attempts) = match command.subject {
            Subject::Listing(id) => match self.live_listing(id, now) {
                Some(slot) => (1, self.end_listing(slot, ListingEnd::Revoked, now)),
                None => (0, 0),
            },
            Subject::Principal(principal) => self.revoke_principal(principal, now),
        };
        self.took_away |= listings > 0;
        let expires_at = at.wall.plus_ms(until.ms_since(now));
        Ok(Outcome::Revoked(Revoked { listings, attempts, expires_at }))
    }

    /// Everything that a principal hosts and is joining; what is dead already ends as dead and is not counted.
    fn revoke_principal(&mut self, principal: PrincipalKey, now: MonoTime) -> (u32, u32) {
        let (mut listings, mut attempts) = (0, 0);
        let of_joiner = self.state.by_joiner.members(principal, |slot| joiner(&self.state.attempts, slot));
        for slot in of_joiner {
            if self.attempt_dead_at(slot).is_past(now) {
                continue;
            }
            self.end_attempt(slot, EndReason::Revoked, now);
            attempts += 1;
        }
        let of_owner = self.state.by_owner.members(principal, |slot| owner(&self.state.listings, slot));
        for slot in of_owner {
            if self.state.listings[slot as usize].dead_at().is_past(now) {
                self.expire_listing(slot);
                continue;
            }
            attempts += self.end_listing(slot, ListingEnd::Revoked, now);
            listings += 1;
        }
        (listings, attempts)
    }

    pub(crate) fn lift_revocation(&mut self, now: MonoTime, subject: Subject) -> Outcome {
        let stood = self.state.revocations.until(subject, now).is_some();
        if stood {
            self.state.revocations.remove(subject);
            self.commit_next();
        }
        Outcome::Lifted(stood)
    }

    pub(crate) fn begin_drain(&mut self, at: At, window_ms: u32) -> Result<Outcome, Rejection> {
        if let Some(drain) = self.drain {
            return Ok(Outcome::Draining { deadline: drain.deadline, wall: drain.wall });
        }
        if window_ms > self.limits.drain_window_max_ms {
            return Err(Rejection::Invalid(Invalid::DrainWindow));
        }
        let drain = Drain { deadline: at.mono.plus_ms(window_ms.into()), wall: at.wall.plus_ms(window_ms.into()) };
        self.drain = Some(drain);
        self.took_away = true;
        self.commit_next();
        self.events.push(Event::DrainBegan { deadline: drain.deadline });
        Ok(Outcome::Draining { deadline: drain.deadline, wall: drain.wall })
    }

    /// After the drain's deadline: all state goes in one step, and is freed by whoever takes it.
    pub(crate) fn let_everything_go(&mut self) {
        if self.drained {
            return;
        }
        self.drained = true;
        self.commit += 1;
        let empty = Box::new(super::state::State::new(&crate::domain::Limits {
            listings: 0,
            attempts: 0,
            idempotency: 0,
            ..self.limits.clone()
        }));
        self.retired = Some(std::mem::replace(&mut self.state, empty));
        self.changes.clear();
        self.events.push(Event::Drained);
    }
}
