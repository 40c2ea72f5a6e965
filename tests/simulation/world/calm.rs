//! Once faults are over: every host is listed, every pair that can meet meets in time, and in the end nothing is left.

use super::{World, tenant_of};
use crate::actors::{Host, Joiner};
use crate::calls::Request;
use crate::plan::HostAct;
use rendezvous::domain::*;

/// Within this every host is listed again: the longest lease and the memory of a drained one lapse, and the library's
/// longest pause between two registrations goes by.
const LISTED_WITHIN_MS: u64 = 60_000;
/// Within this a pair has met: the deadline of an attempt.
const MET_WITHIN_MS: u64 = 8_000;
/// Within this the attempts of before are over, which may fill a quota.
const ROOM_WITHIN_MS: u64 = 12_000;
/// Each listing is lost at most once by what happened before the calm.
const TRIES_MAX: usize = 3;
/// After this everything has been forgotten.
const FORGOTTEN_MS: u64 = 60_000;

impl World {
    /// No more faults. Whatever can work works within its deadline.
    pub(super) async fn calm(&mut self) {
        self.note(|| "calm".to_owned());
        self.is_calm = true;
        self.network.calm();
        self.stalled_until = MonoTime(0);
        if self.server.is_none() || self.truth.drain.is_some() || self.truth.may_be_lost {
            self.restart(0);
            self.begin_life();
        }
        for actor in 0..self.plan.knobs.actors() {
            self.lift_if_revoked(actor);
            self.unfreeze(actor);
        }
        self.all_hosts_are_listed().await;
        // One pair shows it; which one is up to the seed.
        let host = self.plan.seed as usize % self.plan.knobs.hosts;
        let mut joiners = self.plan.knobs.hosts..self.plan.knobs.actors();
        let joiner = joiners.find(|joiner| {
            tenant_of(*joiner) == tenant_of(host) && self.network.can_meet(host, *joiner) && self.is_here(*joiner)
        });
        if let (Some(joiner), true) = (joiner, self.is_here(host)) {
            self.pair_meets(host, joiner).await;
        }
        self.order(Request::Status);
    }

    fn is_here(&self, actor: usize) -> bool {
        !self.plan.absent.contains(&actor)
    }

    fn lift_if_revoked(&mut self, actor: usize) {
        if self.truth.is_revoked(crate::truth::Named::Actor(actor), self.now()) {
            self.lift(actor);
        }
    }

    fn unfreeze(&mut self, actor: usize) {
        let hosts = self.plan.knobs.hosts;
        if actor >= hosts {
            return self.replace(actor);
        }
        if self.hosts[actor].as_ref().is_some_and(|host| host.is_stopped) {
            self.replace(actor);
        }
        self.turn(actor, |host, _, turn| {
            if let Some(host) = host {
                host.frozen_until = MonoTime(0);
                host.wants_players();
                host.act(HostAct::List, turn);
            }
        });
    }

    async fn all_hosts_are_listed(&mut self) {
        let until = self.now().plus_ms(LISTED_WITHIN_MS);
        loop {
            let here: Vec<_> = (0..self.plan.knobs.hosts).filter(|host| self.is_here(*host)).collect();
            let missing: Vec<_> = here.into_iter().filter(|host| !self.is_listed(*host)).collect();
            if missing.is_empty() {
                break;
            }
            assert!(
                self.now() < until,
                "liveness: hosts {missing:?} are not listed after {LISTED_WITHIN_MS} ms of calm"
            );
            for host in missing {
                self.relist(host);
            }
            self.pass(self.now().plus_ms(400)).await;
        }
        self.pass(self.now().plus_ms(2 * crate::server::PUBLISH_MS)).await;
        self.look();
    }

    fn is_listed(&self, host: usize) -> bool {
        let now = self.now();
        let listing = self.hosts[host].as_ref().and_then(Host::listing).and_then(|id| self.truth.live(id, now));
        listing.is_some_and(|listing| listing.is_public() && !self.truth.fresh_until(listing).is_past(now))
    }

    /// A host that gave up is started again, one that was unlisted is listed by hand.
    fn relist(&mut self, host: usize) {
        let Some(it) = &self.hosts[host] else { return };
        let listing = it.listing().and_then(|id| self.truth.live(id, self.now()));
        if it.is_stopped {
            self.replace(host);
        } else if listing.is_some_and(|listing| !listing.is_public()) {
            self.turn(host, |it, _, turn| it.into_iter().for_each(|it| it.act(HostAct::List, turn)));
        }
    }

    /// The two meet within the deadline of their attempt. A lease that had lapsed by the faults of before may still end
    /// here: then the host is listed again, and they try once more.
    async fn pair_meets(&mut self, host: usize, joiner: usize) {
        for _ in 0..TRIES_MAX {
            self.all_hosts_are_listed().await;
            let Some(attempt) = self.joins(host, joiner).await else { continue };
            let until = self.now().plus_ms(MET_WITHIN_MS);
            let is_met = |it: &Self| [host, joiner].iter().all(|actor| it.connected.contains(&(attempt, *actor)));
            while !is_met(self) && !self.truth.attempt_was_refused(attempt) && self.is_listed(host) {
                assert!(self.now() < until, "liveness: {joiner} and {host} have not met within {MET_WITHIN_MS} ms");
                self.pass(self.now().plus_ms(100)).await;
            }
            if is_met(self) {
                self.report.met_in_calm += 1;
                self.send(joiner, super::NOBODYS, Request::Close { attempt }, 0);
                return self.work();
            }
            // The host of a gated listing may say no.
            if self.truth.attempt_was_refused(attempt) {
                self.report.refused += 1;
                return;
            }
        }
        panic!("liveness: host {host} lost its listing {TRIES_MAX} times in the calm");
    }

    /// Begins an attempt, once there is room for one; `None` when the listing went away before.
    async fn joins(&mut self, host: usize, joiner: usize) -> Option<AttemptId> {
        let room_until = self.now().plus_ms(ROOM_WITHIN_MS);
        let slot = joiner - self.plan.knobs.hosts;
        while self.is_listed(host) {
            let listing = self.hosts[host].as_ref().and_then(Host::listing)?;
            self.replace(joiner);
            self.turn(joiner, |_, it, turn| it.into_iter().for_each(|it| it.join(listing, turn)));
            self.pass(self.now().plus_ms(200)).await;
            let attempt = self.joiners[slot].as_ref().and_then(|it: &Joiner| it.attempt.as_ref());
            if let Some(attempt) = attempt {
                return Some(attempt.id());
            }
            assert!(self.now() < room_until, "liveness: {joiner} may not try to join {host}");
            self.pass(self.now().plus_ms(800)).await;
        }
        None
    }

    /// Everybody goes, and time goes by: nothing is left.
    pub(super) async fn end(&mut self) {
        self.note(|| "end".to_owned());
        self.hosts.iter_mut().for_each(|host| *host = None);
        self.joiners.iter_mut().for_each(|joiner| *joiner = None);
        self.calls.clear();
        self.letters.clear();
        self.clock.advance_ms(FORGOTTEN_MS);
        self.look();
        self.next_tick = self.now();
        self.work();
        self.order(Request::Status);
        let Some(server) = &self.server else { panic!("the server is there in the end") };
        let status = crate::calls::Task::new({
            let service = server.service.clone();
            async move { service.status().await }
        });
        let counts = { status }.go_on().expect("an idle lane answers at once").expect("it is available").value;
        let all = [counts.listings, counts.unproven_listings, counts.presence, counts.attempts, counts.idempotency];
        let rest = [counts.replay, counts.revocations];
        assert!(all.iter().chain(&rest).all(|count| count.live == 0), "something is left: {counts:?}");
        let left = (server.waits.waiting(), server.service.queued(), server.indications.next_due());
        assert_eq!(left, (0, (0, 0), None), "polls, commands or offers are left");
        assert!(!server.indications.is_waiting(), "notices are left");
    }
}
