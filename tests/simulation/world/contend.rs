//! Calls that meet in the lane: while one runs, others find the lane taken and queue, are refused by a full queue, or go
//! away again.

use super::{NOBODYS, World, name_of, tenant_of};
use crate::calls::{Answer, Call, Fate, Request, Task, attempt_body, renew_body, serve};
use crate::plan::Plan;
use crate::server::Guest;
use crate::support::name;
use rendezvous::domain::Failure;
use rendezvous::service::{Caller, NamedSubject};

/// Most guests of one meeting.
const GUESTS_MAX: usize = 8;

impl World {
    /// Calls of several actors at one instant. The first one is chosen to be heard by the observer, inside of which the
    /// others arrive.
    pub(super) fn contend(&mut self) {
        if !self.is_serving() || self.truth.is_drained(self.now()) {
            return;
        }
        let mut calls = self.crowd();
        if calls.len() < 2 {
            return;
        }
        self.truth.is_contended = true;
        let guests = calls.iter_mut().enumerate().skip(1).map(|(number, call)| Guest {
            number,
            task: Some(std::mem::replace(&mut call.task, Task::new(std::future::pending()))),
            answer: None,
            is_impatient: self.rng.chance(250),
        });
        let guests: Vec<_> = guests.collect();
        let Some(server) = &self.server else { return };
        let watch = server.watch.clone();
        watch.invite(guests);
        let mut answers: Vec<(usize, Answer)> = calls[0].task.go_on().map(|answer| (0, answer)).into_iter().collect();
        let meeting = watch.part();
        self.report.met += meeting.came.len() as u64;
        // The holder has served everybody who queued before it left; if nothing was heard, everybody comes now.
        for mut guest in meeting.came.into_iter().chain(meeting.waiting) {
            let answer = guest.answer.take().or_else(|| guest.task.as_mut().and_then(Task::go_on));
            match (answer, guest.task) {
                (Some(answer), _) => answers.push((guest.number, answer)),
                (None, None) => self.report.cancelled += 1,
                (None, Some(_)) => panic!("a queued call was never answered"),
            }
        }
        self.settle(calls, answers);
        self.truth.is_contended = false;
    }

    /// The truth hears of writes in the order of their commits, and of reads after the writes they saw.
    fn settle(&mut self, calls: Vec<Call>, mut answers: Vec<(usize, Answer)>) {
        answers.sort_by_key(|(number, answer)| match answer {
            Ok(granted) => (granted.commit().unwrap_or(u64::MAX), granted.is_read(), *number),
            Err(_) => (u64::MAX, true, *number),
        });
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        for (number, answer) in answers {
            if answer.as_ref().err() == Some(&Failure::Overloaded) {
                self.report.overloaded += 1;
            }
            if let Some(call) = calls[number].take() {
                self.finish(call, answer);
            }
        }
        // Who went away asks again, or never.
        for call in calls.into_iter().flatten() {
            self.answer(call, None, 0);
        }
    }

    /// One call of each of several actors.
    fn crowd(&mut self) -> Vec<Call> {
        let Plan { seed, knobs, .. } = self.plan.clone();
        let mut asked = Vec::new();
        for actor in 0..knobs.actors() {
            let owned = self.truth.listings.iter().rev().find(|(_, listing)| listing.owner == actor);
            let other = self.truth.listings.iter().rev().find(|(_, listing)| listing.owner != actor);
            let (owned, other) = (owned.map(|(id, it)| (*id, it.version)), other.map(|(id, _)| *id));
            let token = self.hosts.get(actor).and_then(Option::as_ref).and_then(|host| host.token().map(str::to_owned));
            let number = self.number();
            let request = match (self.rng.below(10), owned, token, other) {
                (0, Some((listing, _)), Some(token), _) => Request::Delete { listing, token },
                (1..=2, Some((listing, _)), Some(token), _) => Request::Lease { listing, token },
                (3..=6, Some((listing, version)), Some(token), _) => {
                    let body = renew_body(None, Some(name(actor, seed, number)), None);
                    Request::Renew { listing, token, version, body }
                }
                (7, ..) => Request::Revoke {
                    tenant: tenant_of(actor),
                    subject: NamedSubject::Principal(name_of(actor)),
                    ttl_ms: 1_000,
                    key: format!("order {number}"),
                },
                (_, _, _, Some(listing)) => {
                    Request::Attempt { listing, key: format!("crowd {number}"), body: attempt_body(None, None) }
                }
                _ => continue,
            };
            asked.push((actor, request));
        }
        // Attempts and deletions are heard by the observer.
        asked.sort_by_key(|(_, request)| !matches!(request, Request::Attempt { .. } | Request::Delete { .. }));
        asked.truncate(GUESTS_MAX);
        asked.into_iter().filter_map(|(actor, request)| self.call_now(actor, request)).collect()
    }

    fn call_now(&self, actor: usize, request: Request) -> Option<Call> {
        let server = self.server.as_ref()?;
        let (now, is_order) = (self.now(), matches!(request, Request::Revoke { .. }));
        let who = if is_order { crate::truth::OPERATOR } else { actor };
        let principal = server.service.principal(tenant_of(who), &name_of(who));
        let task = serve(server.service.clone(), Caller { principal, guest_source: None }, request.clone());
        let (task, fate) = (Task::new(task), Fate::Answered);
        Some(Call { who, life: NOBODYS, request, task, fate, starts: now, gives_up: now })
    }
}
