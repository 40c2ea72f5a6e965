//! One run: the scheduler, its clock, and everybody who takes part.

mod acts;
mod calm;
mod contend;
mod udp;

use crate::actors::{Claim, Host, Joiner, PROTOCOL, Turn};
use crate::calls::{Answer, Call, Fate, Granted, Request, Task, serve};
use crate::network::Network;
use crate::plan::{Pass, Plan, Step};
use crate::report::Report;
use crate::rng::Rng;
use crate::server::{PUBLISH_MS, Server, limits};
use crate::support::ManualClock;
use crate::truth::{Asker, OPERATOR, Truth};
use rendezvous::domain::*;
use rendezvous::service::Caller;
use rendezvous::service::view::{Availability, BrowseQuery};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a client waits for an answer, beyond what it asked the server to wait.
const PATIENCE_MS: u64 = 2_000;
/// Turns of the scheduler within one step: far more than any step needs.
const TURNS_MAX: usize = 20_000;
/// The last listings, each looked up by its id after each step.
const LOOKED_UP: usize = 6;
/// Of no actor's life: an answer that nobody hears.
const NOBODYS: u32 = u32::MAX;

/// An answer on its way back; `None` where the client gave up.
struct Letter {
    who: usize,
    life: u32,
    request: Request,
    answer: Option<(Answer, InstanceId)>,
}

pub(crate) struct World {
    plan: Plan,
    /// Of the current step.
    rng: Rng,
    clock: ManualClock,
    network: Network,
    server: Option<Server>,
    life: u32,
    truth: Truth,
    hosts: Vec<Option<Host>>,
    joiners: Vec<Option<Joiner>>,
    calls: Vec<Call>,
    letters: BTreeMap<(MonoTime, u64), Letter>,
    /// Host and joiner of every attempt of every life of the server.
    parties: BTreeMap<AttemptId, (usize, usize)>,
    connected: BTreeSet<(AttemptId, usize)>,
    /// When a server that is gone comes back, and when one that has to go goes.
    back_at: Option<MonoTime>,
    ends_at: Option<MonoTime>,
    stalled_until: MonoTime,
    next_tick: MonoTime,
    numbers: u64,
    is_calm: bool,
    trace: bool,
    report: Report,
}

/// The name of an actor's principal.
pub(crate) fn name_of(actor: usize) -> String {
    format!("player-{actor}")
}

/// The actor of a principal's name.
pub(crate) fn actor_named(name: &str) -> usize {
    name.strip_prefix("player-").and_then(|number| number.parse().ok()).unwrap_or(usize::MAX - 1)
}

/// Every fourth actor plays another game.
pub(crate) fn tenant_of(actor: usize) -> TenantId {
    TenantId(u16::from(actor != OPERATOR && actor % 4 == 3))
}

/// Runs a plan to its end; panics where a rule is broken.
pub(crate) fn simulate(plan: &Plan, trace: bool) -> Report {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // The service's long polls end by tokio's clock; it moves when the simulation's does.
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(plan.clone(), trace);
        for step in &plan.steps {
            world.step(step).await;
        }
        world.calm().await;
        world.end().await;
        world.report
    })
}

impl World {
    fn new(plan: Plan, trace: bool) -> Self {
        let (clock, rng) = (ManualClock::new(), Rng::new(!plan.seed));
        let (knobs, now) = (&plan.knobs, clock.now());
        let network = Network::new(knobs, &rng);
        let is_here = |actor: &usize| !plan.absent.contains(actor);
        let host = |actor| Some(actor).filter(is_here).map(|it| Host::new(it, 0, plan.seed, knobs.polls, now));
        let joiner = |actor| Some(actor).filter(is_here).map(|it| Joiner::new(it, 0, plan.seed));
        Self {
            hosts: (0..knobs.hosts).map(host).collect(),
            joiners: (knobs.hosts..knobs.actors()).map(joiner).collect(),
            server: Some(Server::start(&plan, 0, &clock)),
            truth: Truth::new(limits(&knobs.caps), knobs.caps.clone()),
            rng,
            network,
            life: 0,
            calls: Vec::new(),
            letters: BTreeMap::new(),
            parties: BTreeMap::new(),
            connected: BTreeSet::new(),
            back_at: None,
            ends_at: None,
            stalled_until: MonoTime(0),
            next_tick: now,
            numbers: 0,
            is_calm: false,
            trace,
            report: Report::default(),
            clock,
            plan,
        }
    }

    fn now(&self) -> MonoTime {
        self.clock.now()
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12.3} ms  {}", (self.now().0 - 10_000_000_000_000) as f64 / 1e6, text());
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    async fn step(&mut self, step: &Step) {
        self.rng = Rng::new(step.chance);
        self.report.steps += 1;
        let now = self.now();
        let target = match step.pass {
            Pass::Ms(ms) => now.plus_ms(ms),
            Pass::Deadline(beside) => {
                let next = self.truth.next_deadline(now).unwrap_or(now).min(now.plus_ms(12_000));
                MonoTime(next.0.saturating_add_signed(beside)).max(now)
            }
        };
        self.pass(target).await;
        self.note(|| format!("step {}: {:?}", step.number, step.act));
        self.act(step.act);
        self.work();
        self.look();
    }

    /// Lets time go by, and everything happen that is due.
    async fn pass(&mut self, target: MonoTime) {
        self.work();
        for _ in 0..TURNS_MAX {
            let next = self.next_event().filter(|next| *next <= target).unwrap_or(target);
            self.advance(next).await;
            self.work();
            if next >= target {
                return;
            }
        }
        panic!("the simulation stands still");
    }

    /// Moves both clocks.
    async fn advance(&mut self, to: MonoTime) {
        let ns = to.0.saturating_sub(self.now().0);
        self.clock.advance_ns(ns);
        if ns > 0 && self.server.as_ref().is_some_and(|server| server.waits.waiting() > 0) {
            tokio::time::advance(Duration::from_nanos(ns)).await;
        }
    }

    /// After now, or now again where there is still something to do.
    fn next_event(&self) -> Option<MonoTime> {
        let hosts = self.hosts.iter().flatten().filter_map(Host::poll_timeout);
        let joiners = self.joiners.iter().flatten().filter_map(Joiner::poll_timeout);
        let starts = self.calls.iter().filter(|call| call.task.is_new()).map(|call| call.starts);
        let ends = self.calls.iter().map(|call| call.gives_up);
        let (now, is_up) = (self.now(), self.server.is_some());
        let starts = starts.filter(|starts| *starts > now);
        let tick = Some(self.next_tick.max(self.stalled_until)).filter(|_| is_up);
        let offers = self.server.as_ref().and_then(|server| server.indications.next_due());
        let offers = offers.map(|due| due.max(self.stalled_until));
        let rest = [self.network.next_due(), self.back_at, self.ends_at, tick, offers];
        let letter = self.letters.first_key_value().map(|((due, _), _)| *due);
        let all = hosts.chain(joiners).chain(starts).chain(ends).chain(rest.into_iter().flatten()).chain(letter);
        all.min().map(|next| next.max(now))
    }

    /// Does everything that is due now.
    fn work(&mut self) {
        let now = self.now();
        if self.ends_at.is_some_and(|at| at <= now) {
            self.restart(0);
        }
        if self.back_at.is_some_and(|at| at <= now) {
            self.begin_life();
        }
        self.tick();
        while let Some(flight) = self.network.arrived(now) {
            self.arrive(flight);
        }
        self.run_calls();
        self.open_letters();
        for actor in 0..self.plan.knobs.actors() {
            if self.is_due(actor) {
                self.turn(actor, |_, _, _| {});
            }
        }
        self.run_calls();
        self.indicate();
    }

    fn is_due(&self, actor: usize) -> bool {
        let hosts = self.plan.knobs.hosts;
        let due = match actor.checked_sub(hosts) {
            None => self.hosts[actor].as_ref().and_then(Host::poll_timeout),
            Some(joiner) => self.joiners[joiner].as_ref().and_then(Joiner::poll_timeout),
        };
        due.is_some_and(|due| due <= self.now())
    }

    fn is_serving(&self) -> bool {
        self.server.is_some() && self.stalled_until <= self.now()
    }

    /// The server's ticker: afterwards browsing sees everything.
    fn tick(&mut self) {
        if !self.is_serving() || self.next_tick > self.now() {
            return;
        }
        self.next_tick = self.now().plus_ms(PUBLISH_MS);
        let Some(server) = &self.server else { return };
        server.service.tick();
        if server.service.availability() != Availability::Unavailable {
            assert_eq!(server.service.published().0, server.service.last_commit(), "S5: a tick publishes everything");
        }
        self.hear();
    }

    /// What transitions told their observers.
    fn hear(&mut self) {
        let (Some(server), now) = (&self.server, self.now()) else { return };
        let events = server.watch.take_events();
        self.truth.events(&events, now);
        self.report.count_events(&events);
    }

    /// Lets one actor do something, and sends what it wants to ask.
    fn turn(&mut self, actor: usize, act: impl FnOnce(Option<&mut Host>, Option<&mut Joiner>, &mut Turn<'_>)) {
        let (mut requests, mut claims) = (Vec::new(), Vec::new());
        let rng = self.rng.clone();
        let now = self.now();
        let mut turn =
            Turn { now, rng: &rng, network: &mut self.network, requests: &mut requests, claims: &mut claims };
        let hosts = self.plan.knobs.hosts;
        let life = if actor < hosts {
            let Some(host) = &mut self.hosts[actor] else { return };
            act(Some(host), None, &mut turn);
            host.turn(&mut turn);
            host.life
        } else {
            let Some(joiner) = &mut self.joiners[actor - hosts] else { return };
            act(None, Some(joiner), &mut turn);
            joiner.turn(&mut turn);
            joiner.life
        };
        for claim in claims {
            self.judge(actor, claim);
        }
        for (request, pause_ms) in requests {
            self.send(actor, life, request, pause_ms);
        }
    }

    /// What a client believes is true, whatever was forged.
    fn judge(&mut self, actor: usize, claim: Claim) {
        self.note(|| format!("actor {actor} believes {claim:?}"));
        let peer_of = |parties: &BTreeMap<AttemptId, (usize, usize)>, attempt: &AttemptId| {
            let (host, joiner) = parties[attempt];
            if actor == host { joiner } else { host }
        };
        match claim {
            Claim::Mapped(mapped) => assert!(self.network.is_of(actor, mapped), "a client believes a false address"),
            Claim::Introduced(attempt, peers) => {
                let peer = peer_of(&self.parties, &attempt);
                assert!(peers.iter().all(|it| self.network.is_of(peer, *it)), "introduced to a stranger: {peers:?}");
            }
            Claim::Connected(attempt, address) => {
                let peer = peer_of(&self.parties, &attempt);
                assert!(self.network.is_of(peer, address), "connected with a stranger: {address}");
                self.connected.insert((attempt, actor));
                self.report.connected += 1;
            }
        }
    }

    /// Sends a request, on a way on which it or its answer may be lost.
    fn send(&mut self, who: usize, life: u32, request: Request, pause_ms: u64) {
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
    fn run_calls(&mut self) {
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
    fn finish(&mut self, call: Call, answer: Answer) {
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

    fn answer(&mut self, call: Call, answer: Option<Answer>, delay_ms: u64) {
        let instance = self.server.as_ref().map_or(InstanceId(0), |server| server.service.instance());
        let due = if answer.is_none() { call.gives_up.max(self.now()) } else { self.now().plus_ms(delay_ms) };
        let Call { who, life, request, .. } = call;
        let letter = Letter { who, life, request, answer: answer.map(|answer| (answer, instance)) };
        let number = self.number();
        self.letters.insert((due, number), letter);
    }

    fn open_letters(&mut self) {
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

    /// Every browser looks at everything, and by each id.
    fn look(&mut self) {
        if !self.is_serving() {
            return;
        }
        let limit = 1 + self.rng.below(3) as usize;
        // Nobody of the second tenant hosts: whoever browses it sees nothing.
        let tenants = if self.rng.chance(250) { &[TenantId(0), TenantId(1)][..] } else { &[TenantId(0)] };
        for tenant in tenants.iter().copied() {
            self.walk(&Scope::new(tenant, PROTOCOL).expect("a protocol"), limit);
        }
        let ids: Vec<_> = self.truth.listings.iter().map(|(id, listing)| (*id, listing.tenant)).collect();
        for (id, tenant) in ids.into_iter().rev().take(LOOKED_UP) {
            let tenant = if self.rng.chance(100) { TenantId(1) } else { tenant };
            self.look_up(tenant, id);
        }
    }

    fn walk(&mut self, scope: &Scope, limit: usize) {
        let (mut after, mut pages, mut rows) = (None, Vec::new(), Vec::new());
        let now = self.now();
        loop {
            let Some(server) = &self.server else { return };
            let query = BrowseQuery { tenant: scope.tenant, protocol: &scope.protocol, after, limit };
            let page = server.service.browse(&query, |view| {
                let mut bytes = vec![b'['];
                view.write_rows(&mut bytes);
                bytes.push(b']');
                assert!(view.count <= limit, "a page longer than asked for");
                (view.commit, view.next, bytes)
            });
            let Some((commit, next, bytes)) = self.read(page) else { return };
            let page: Vec<serde_json::Value> = serde_json::from_slice(&bytes).expect("S3: a page is JSON");
            rows.extend(page.iter().map(|row| {
                let text = |member: &str| row[member].as_str().unwrap_or_else(|| panic!("S3: a row without {member}"));
                (ListingId::parse(text("listing_id")).expect("an id"), text("name").to_owned())
            }));
            pages.push(commit);
            match next {
                Some(next) => assert!(after.replace(next) < Some(next), "S4: a cursor moves on"),
                None => break,
            }
        }
        self.report.rows += rows.len() as u64;
        self.truth.walked(scope, &pages, &rows, now);
    }

    fn look_up(&mut self, tenant: TenantId, id: ListingId) {
        let now = self.now();
        let Some(server) = &self.server else { return };
        let row = server.service.listing(tenant, id, |row, commit| (row.to_vec(), commit));
        if matches!(row, Err(Failure::Rejected(Rejection::NotFound))) && !self.truth.is_lost {
            assert!(!self.truth.is_drained(now), "J2: not found after the drain's deadline");
            return self.truth.looked_up(tenant, id, None, now);
        }
        let Some((row, commit)) = self.read(row) else { return };
        let row: serde_json::Value = serde_json::from_slice(&row).expect("S3: a row is JSON");
        self.truth.looked_up(tenant, id, Some((row["name"].as_str().expect("S3: a name"), commit)), now);
    }

    /// What a reader got, unless the store is lost or drained; then that is right.
    fn read<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        let now = self.now();
        match result {
            Ok(value) => {
                assert!(!self.truth.is_lost, "J1: browsing goes on in a lost store");
                assert!(!self.truth.is_drained(now), "J2: browsing goes on after the drain's deadline");
                Some(value)
            }
            Err(Failure::Rejected(Rejection::Draining { deadline, .. })) => {
                assert!(self.truth.drain == Some(deadline) && deadline <= now, "J2: draining to a browser");
                None
            }
            Err(Failure::Unavailable(_)) => {
                assert!(self.truth.may_be_lost, "J1: unavailable without a panic");
                self.truth.is_lost = true;
                self.ends_at.get_or_insert(now.plus_ms(700));
                None
            }
            Err(other) => panic!("B1: {other:?} to a browser"),
        }
    }
}
