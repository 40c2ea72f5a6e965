//! One run: the scheduler, its clock, and everybody who takes part.

mod acts;
mod calm;
mod contend;
mod look;
mod post;
mod udp;

use crate::actors::{Claim, Host, Joiner, Turn};
use crate::calls::{Answer, Call, Request};
use crate::network::Network;
use crate::plan::{Pass, Plan, Step};
use crate::report::Report;
use crate::rng::Rng;
use crate::server::{PUBLISH_MS, Server, limits};
use crate::support::ManualClock;
use crate::truth::{OPERATOR, Truth};
use rendezvous::domain::*;
use rendezvous::service::view::Availability;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Turns of the scheduler within one step: far more than any step needs.
const TURNS_MAX: usize = 20_000;
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

/// Whether a long poll waits for this.
fn concerns(event: &Event, request: &Request) -> bool {
    match (event, request) {
        (
            Event::AttemptEnded { attempt, .. } | Event::AttemptChanged { attempt, .. },
            Request::Watch { attempt: of, .. },
        ) => attempt == of,
        (Event::Introduced(introduction), Request::Watch { attempt, .. }) => introduction.attempt == *attempt,
        (
            Event::AttemptCreated { listing, .. } | Event::ListingEnded { listing, .. },
            Request::Offers { listing: of, .. },
        ) => listing == of,
        (Event::DrainBegan { .. } | Event::Drained, Request::Watch { .. } | Request::Offers { .. }) => true,
        _ => false,
    }
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
        let waiting = self.calls.iter().filter(|call| !call.task.is_new() && !call.task.is_woken());
        for call in waiting {
            let sleeps = events.iter().find(|event| concerns(event, &call.request));
            assert!(sleeps.is_none(), "a poll sleeps through {sleeps:?}: {:?}", call.request);
        }
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
}
