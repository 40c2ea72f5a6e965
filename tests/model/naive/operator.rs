//! Revocation and drain.

use super::{End, Model, room};
use rendezvous::domain::*;

impl Model {
    pub(super) fn revoke(&mut self, revoke: &Revoke) -> Result<Outcome, Rejection> {
        let now = self.now();
        if self.replay.iter().any(|(key, _)| *key == revoke.once) {
            return Err(Rejection::ReplayRejected(Replay::KeyUsed));
        }
        let deadline = now.plus_ms(revoke.ttl.ms().into());
        let standing = self.revocations.iter().position(|(subject, _)| *subject == revoke.subject);
        if standing.is_none() {
            room(self.revocations.len(), self.limits.revocations, Resource::Revocations)?;
        }
        room(self.replay.len(), self.limits.replay, Resource::Replay)?;
        let retention = self.limits.idempotency_retention_ms.into();
        self.replay.push((revoke.once, now.plus_ms(retention)));
        let position = standing.unwrap_or(self.revocations.len());
        match standing {
            Some(position) => self.revocations[position].1 = self.revocations[position].1.max(deadline),
            None => self.revocations.push((revoke.subject, deadline)),
        }
        // For people: what is left of it, on today's wall clock.
        let expires_at = self.at.wall.plus_ms(self.revocations[position].1.ms_since(now));
        let (listings, attempts) = self.remove_subject(revoke.subject);
        self.changes = true;
        Ok(Outcome::Revoked(Revoked { listings, attempts, expires_at }))
    }

    fn remove_subject(&mut self, subject: Subject) -> (u32, u32) {
        let at = self.now();
        let mut gone = Vec::new();
        for listing in self.listings.iter_mut().filter(|listing| listing.is_live()) {
            let meant = match subject {
                Subject::Listing(id) => listing.asked.id == id,
                Subject::Principal(key) => listing.asked.owner.key == key,
            };
            if meant {
                listing.end = Some(End { at, reasons: Vec::new() });
                gone.push(listing.asked.id);
            }
        }
        let attempts = self.end_attempts(EndReason::Revoked, |attempt| {
            gone.contains(&attempt.asked.listing) || Subject::Principal(attempt.asked.joiner.key) == subject
        });
        (gone.len() as u32, attempts)
    }

    pub(super) fn lift(&mut self, subject: &Subject) -> Result<Outcome, Rejection> {
        let before = self.revocations.len();
        self.revocations.retain(|(standing, _)| standing != subject);
        self.changes = self.revocations.len() < before;
        Ok(Outcome::Lifted(self.changes))
    }

    pub(super) fn begin_drain(&mut self, window_ms: u32) -> Result<Outcome, Rejection> {
        if window_ms > self.limits.drain_window_max_ms {
            return Err(Rejection::Invalid(Invalid::DrainWindow));
        }
        let begun = (self.now().plus_ms(window_ms.into()), self.at.wall.plus_ms(window_ms.into()));
        self.changes = self.drain.is_none();
        let (deadline, wall) = *self.drain.get_or_insert(begun);
        Ok(Outcome::Draining { deadline, wall })
    }
}
