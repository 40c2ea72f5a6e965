//! Answers to operators, and the counts.

use super::{Named, Truth};
use crate::calls::{Granted, Request};
use crate::world::actor_named;
use rendezvous::domain::*;
use rendezvous::service::NamedSubject;

impl Truth {
    pub(super) fn ordered(&mut self, request: &Request, granted: &Granted, now: MonoTime) {
        match (request, granted) {
            (Request::Revoke { subject, ttl_ms, key, .. }, Granted::Revoked(it)) => {
                assert!(self.once.get(key).is_none_or(|until| until.is_past(now)), "H7: a key was good twice");
                let subject = named(subject);
                let was = self.revoked.get(&subject).copied().filter(|until| !until.is_past(now));
                assert!(was.is_some() || self.standing(now) < self.caps.revocations as usize, "D2: revocations");
                let gone = self.revoke(subject, now);
                assert_eq!((it.value.listings, it.value.attempts), gone, "I1: what went");
                let asked = now.plus_ms(*ttl_ms);
                self.revoked.insert(subject, was.map_or(asked, |was| was.max(asked)));
                self.once.insert(key.clone(), now.plus_ms(self.limits.idempotency_retention_ms.into()));
            }
            (Request::Lift { subject, .. }, Granted::Done(_)) => {
                let subject = named(subject);
                assert!(self.is_revoked(subject, now), "I2: lifted what did not stand");
                self.revoked.remove(&subject);
            }
            (Request::Drain { window_ms }, Granted::Draining(it)) => {
                let deadline = *self.drain.get_or_insert(now.plus_ms(u64::from(*window_ms)));
                assert_eq!(it.value.0, deadline, "J2: the drain's deadline, the first one");
            }
            (Request::Status, Granted::Counts(it)) => self.counts(&it.value, now),
            (request, granted) => panic!("B1: {granted:?} to {request:?}"),
        }
    }

    /// Ends everything of the subject; how many listings and attempts lived.
    fn revoke(&mut self, subject: Named, now: MonoTime) -> (u32, u32) {
        let of = |id: ListingId, owner: usize| match subject {
            Named::Listing(revoked) => revoked == id,
            Named::Actor(actor) => actor == owner,
        };
        let listings: Vec<_> = self.listings.iter().filter(|(id, it)| of(**id, it.owner)).map(|(id, _)| *id).collect();
        let listings: Vec<_> = listings.into_iter().filter(|id| self.live(*id, now).is_some()).collect();
        let joins = |joiner: usize| subject == Named::Actor(joiner);
        let attempts = self.attempts.iter().filter(|(_, it)| listings.contains(&it.listing) || joins(it.joiner));
        let attempts: Vec<_> = attempts.map(|(id, _)| *id).filter(|id| self.live_attempt(*id, now).is_some()).collect();
        for id in &attempts {
            self.attempts.entry(*id).and_modify(|it| it.ended = Some(now));
        }
        for id in &listings {
            self.listings.entry(*id).and_modify(|it| it.ended = Some(now));
        }
        (listings.len() as u32, attempts.len() as u32)
    }

    /// Revocations that stand.
    pub(super) fn standing(&self, now: MonoTime) -> usize {
        self.revoked.keys().filter(|subject| self.is_revoked(**subject, now)).count()
    }

    /// Every count of the status equals a recount.
    pub(crate) fn counts(&self, status: &Status, now: MonoTime) {
        let is_over = self.is_drained(now);
        let remembered = self.keys.values().filter(|made| !self.remembered_until(made).is_past(now)).count();
        let once = self.once.values().filter(|until| !self.at_the_latest(**until).is_past(now)).count();
        let recount = [
            ("listings", status.listings, self.live_listings(now).count()),
            (
                "unproven listings",
                status.unproven_listings,
                self.live_listings(now).filter(|listing| listing.unproven.is_some()).count(),
            ),
            ("presence", status.presence, self.present(now)),
            ("attempts", status.attempts, self.live_attempts(now).count()),
            ("idempotency", status.idempotency, remembered),
            ("replay", status.replay, once),
            ("revocations", status.revocations, self.standing(now)),
        ];
        for (what, count, live) in recount {
            let live = if is_over { 0 } else { live };
            assert_eq!(count.live as usize, live, "C3, D3: {what} as counted, and as they are at {now:?}");
            assert!(count.live <= count.ceiling, "D1: more {what} than their ceiling");
        }
    }
}

fn named(subject: &NamedSubject) -> Named {
    match subject {
        NamedSubject::Listing(id) => Named::Listing(*id),
        NamedSubject::Principal(name) => Named::Actor(actor_named(name)),
    }
}
