//! Requests on their way to the server, and answers on their way back.

use super::{Letter, NOBODYS, World, name_of, tenant_of};
use crate::calls::{Answer, Call, Fate, Granted, Request, Task, serve};
use crate::truth::{Asker, OPERATOR};
use rendezvous::domain::InstanceId;
use rendezvous::service::Caller;

/// How long a client waits for an answer, beyond what it asked the server to wait.
const PATIENCE_MS: u64 = 2_000;

impl World {
    /// Sends a request, on a way on which it or its answer may be lost.
    pub(super) fn send(&mut self, who: usize, life: u32, request: Request, pause_ms: u64) {
        let knobs = &self.plan.knobs;
        let starts = self.now().plus_ms(pause_ms + if self.is_calm { 0 } else { self.rng.below(knobs.slow_ms) / 2 });
        let wait_ms = match &request {
            Request::Offers { wait_ms, .. } | Request::Watch { wait_ms, .. } => *wait_ms,
            _ => 0,
        };
        let fate = match self.rng.below(1_000) {
            _ if self.is_calm => Fate::Answered,
            chance if chance < knobs.request_lost => Fate::RequestLost,
            chance if chance < knobs.request_lost + knobs.answer_lost => Fate::AnswerLost,
            _ => Fate::Answered,
        };
        let (task, fate) = match &self.server {
            Some(server) => {
                let principal = server.service.principal(tenant_of(who), &name_of(who));
                let caller = Caller { principal, guest_source: None };
                (Task::new(serve(server.service.clone(), caller, request.clone())), fate)
            }
            None => (Task::new(std::future::pending()), Fate::RequestLost),
        };
        self.report.calls += 1;
        self.calls.push(Call {
            who,
            life,
            request,
            task,
            fate,
            starts,
            gives_up: starts.plus_ms(wait_ms + PATIENCE_MS),
        });
    }

    /// Every call goes on as far as it can; those that nobody waits for any more are dropped.
    pub(super) fn run_calls(&mut self) {
        let now = self.now();
        let mut position = 0;
        while let Some(call) = self.calls.get_mut(position) {
            let is_due = call.starts <= now && call.fate != Fate::RequestLost && self.stalled_until <= now;
            let answer = if is_due { call.task.go_on() } else { None };
            if let Some(answer) = answer {
                let call = self.calls.remove(position);
                self.finish(call, answer);
            } else if self.calls[position].gives_up <= now {
                let call = self.calls.remove(position);
                self.note(|| format!("actor {} gives up on {:?}", call.who, call.request));
                self.report.given_up += 1;
                self.answer(call, None, 0);
            } else {
                position += 1;
            }
        }
    }

    /// A request was done: what is true now, and who hears of it.
    pub(super) fn finish(&mut self, call: Call, answer: Answer) {
        self.note(|| format!("actor {}: {:?} -> {answer:?}", call.who, call.request));
        let asker = Asker { who: call.who, tenant: tenant_of(call.who) };
        let now = self.now();
        self.truth.answered(asker, &call.request, &answer, now);
        self.report.count_answer(&call.request, &answer);
        if let (Request::Attempt { .. }, Ok(Granted::Attempt(it))) = (&call.request, &answer) {
            let attempt = &self.truth.attempts[&it.value.attempt];
            self.parties.insert(it.value.attempt, (attempt.host, attempt.joiner));
        }
        if let (Request::Drain { .. }, Ok(Granted::Draining(it))) = (&call.request, &answer) {
            // The process ends, and its supervisor starts another one.
            self.ends_at = Some(it.value.0.plus_ms(1_500));
        }
        if self.truth.is_lost && self.ends_at.is_none() {
            self.ends_at = Some(now.plus_ms(700));
        }
        self.hear();
        let heard = (call.fate == Fate::Answered).then_some(answer);
        let delay_ms = if self.is_calm { 0 } else { self.rng.below(self.plan.knobs.slow_ms) };
        self.answer(call, heard, delay_ms);
    }

    pub(super) fn answer(&mut self, call: Call, answer: Option<Answer>, delay_ms: u64) {
        let instance = self.server.as_ref().map_or(InstanceId(0), |server| server.service.instance());
        let due = if answer.is_none() { call.gives_up.max(self.now()) } else { self.now().plus_ms(delay_ms) };
        let Call { who, life, request, .. } = call;
        let letter = Letter { who, life, request, answer: answer.map(|answer| (answer, instance)) };
        let number = self.number();
        self.letters.insert((due, number), letter);
    }

    pub(super) fn open_letters(&mut self) {
        while let Some(first) = self.letters.first_entry().filter(|first| first.key().0 <= self.clock.now()) {
            let Letter { who, life, request, answer } = first.remove();
            if who == OPERATOR || life == NOBODYS {
                continue;
            }
            self.turn(who, |host, joiner, turn| {
                if let Some(host) = host.filter(|host| host.life == life) {
                    host.answered(&request, answer.clone(), turn);
                }
                if let Some(joiner) = joiner.filter(|joiner| joiner.life == life) {
                    joiner.answered(&request, answer, turn);
                }
            });
        }
    }
}
