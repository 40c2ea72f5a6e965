//! Plays a script: turns its small numbers into commands and gives each to the model and to both stores.

mod lower;

use crate::coverage::Coverage;
use crate::judge::{self, Shown};
use crate::naive::Model;
use crate::script::{Bid, Joining, Op, Span};
use crate::support::*;
use rendezvous::clock::Clock;
use rendezvous::domain::*;
use rendezvous::store::Store;
use rendezvous::store::lane::Lane;
use rendezvous::store::single_lock::SingleLock;
use std::collections::{BTreeMap, BTreeSet};

/// The longest allowed interval, so that waiting a minute is sixty ticks.
const PUBLISH_INTERVAL_MS: u32 = 1_000;
/// Protocols in play.
const PROTOCOLS: [&str; 2] = ["arena/3", "race"];

/// The model, both stores, and what earlier steps left to refer to.
pub(crate) struct Play {
    clock: ManualClock,
    single: World<SingleLock<ManualClock>>,
    lane: World<Lane<ManualClock>>,
    model: Model,
    hosts: Vec<Host>,
    attempts: Vec<Try>,
    beats: Vec<Presence>,
    binds: Vec<Bind>,
    creations: Vec<Command>,
    numbers: u64,
    /// What the lane has shown or must have published, and that has been fresh and public ever since (rule S4).
    must_show: BTreeSet<ListingId>,
    last_commit: u64,
    lane_view: u64,
    /// What was public and fresh, by name, after each commit that the lane may still show (rule S3).
    history: BTreeMap<u64, BTreeMap<ListingId, String>>,
    met: Coverage,
}

impl Play {
    pub(crate) fn new(limits: Limits) -> Self {
        let clock = ManualClock::new();
        let shape = LaneShape { publish_interval_ms: PUBLISH_INTERVAL_MS, ..LaneShape::default() };
        Self {
            single: World::on(clock.clone(), limits.clone(), shape).expect("limits that can be kept"),
            lane: World::on(clock.clone(), limits.clone(), shape).expect("limits that can be kept"),
            model: Model::new(limits),
            clock,
            hosts: Vec::new(),
            attempts: Vec::new(),
            beats: Vec::new(),
            binds: Vec::new(),
            creations: Vec::new(),
            numbers: 0,
            must_show: BTreeSet::new(),
            last_commit: 0,
            lane_view: 0,
            history: BTreeMap::from([(0, BTreeMap::new())]),
            met: Coverage::default(),
        }
    }

    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Wait(span) => self.wait(span),
            Op::Jump(span) => {
                self.clock.advance_to(self.target(span));
                // Nobody ticked, so nobody promised that extensions were published in time.
                self.must_show.clear();
            }
            Op::StepWall { years } => {
                let ms = years * 365 * 86_400_000;
                self.clock.set_wall(WallTime(self.clock.wall_now().0.saturating_add_signed(ms)));
            }
            Op::Tick => self.tick(),
            Op::Look => self.look(),
            Op::Open(opening) => {
                let opening = self.registration(opening);
                let beat = presence(&Host::of(&opening), v4(1, 4_000), 0, self.clock.now());
                self.give(Command::Register(Box::new(opening)));
                self.give(Command::Presence(beat));
            }
            Op::Meet(joining, bid) => self.meet(joining, bid),
            _ => {
                if let Some(command) = self.command(op) {
                    self.give(command);
                }
            }
        }
        self.browse(matches!(op, Op::Tick | Op::Look));
    }

    /// Everything is compared once more, also after every deadline has passed.
    pub(crate) fn finish(mut self) -> Coverage {
        self.look();
        self.clock.advance_ms(200_000);
        self.browse(false);
        self.look();
        self.tick();
        self.browse(true);
        self.met
    }

    /// Gives one command to all three.
    fn give(&mut self, command: Command) {
        let at = self.clock.at();
        let single = self.single.submit(command.clone());
        let lane = self.lane.submit(command.clone());
        assert_eq!(single, lane, "the stores differ on {command:?}");
        let commit = self.single.store.last_commit();
        assert_eq!(commit, self.lane.store.last_commit(), "last commit after {command:?}");
        let verdict = self.model.apply(at, &command, commit);
        judge::result(&self.model, &command, &verdict, &single);
        judge::commits(&command, &verdict, &single, self.last_commit, commit);
        self.last_commit = commit;
        self.write_history();
        self.met.note(&single);
        self.remember(command, &verdict.result);
    }

    /// Creates an attempt and binds both sides, the one that the script names first.
    fn meet(&mut self, joining: Joining, first: Bid) {
        let known = self.attempts.len();
        if let Some(create) = self.joining(joining) {
            self.give(Command::CreateAttempt(Box::new(create)));
        }
        if self.attempts.len() == known {
            return;
        }
        for bid in [first, Bid { joiner: !first.joiner, ..first }] {
            if let Some(command) = self.command(&Op::Bind(bid)) {
                self.give(command);
            }
        }
    }

    fn remember(&mut self, command: Command, result: &Result<Outcome, Rejection>) {
        if command.class() == Class::Creation && result.is_ok() {
            self.creations.push(command.clone());
        }
        match (command, result) {
            (Command::Register(asked), Ok(Outcome::Registered(Registered { replayed: false, .. }))) => {
                self.hosts.push(Host::of(&asked));
            }
            (Command::CreateAttempt(asked), Ok(Outcome::AttemptCreated(AttemptCreated { replayed: false, .. }))) => {
                let host = self.hosts.iter().find(|host| host.id == asked.listing).expect("joined a known listing");
                self.attempts.push(Try::of(&asked, host));
            }
            (Command::Presence(sent), Ok(_)) => self.beats.push(sent),
            (Command::Bind(sent) | Command::BindAndConsume(sent), Ok(_)) => self.binds.push(sent),
            _ => {}
        }
    }

    fn wait(&mut self, span: Span) {
        let target = self.target(span);
        while self.clock.now() < target {
            self.tick();
            let next = self.clock.now().plus_ms(PUBLISH_INTERVAL_MS.into());
            self.clock.advance_to(next.min(target));
        }
    }

    fn target(&self, span: Span) -> MonoTime {
        let now = self.clock.now();
        match span {
            Span::Ms(ms) => now.plus_ms(ms),
            Span::Deadline { nth, off_ns } => {
                let ahead: Vec<MonoTime> = self.model.deadlines().into_iter().filter(|at| *at > now).collect();
                let aim = ahead.get(nth.min(ahead.len().saturating_sub(1))).copied().unwrap_or(now);
                MonoTime(aim.0.saturating_add_signed(off_ns.into())).max(now)
            }
        }
    }

    fn tick(&mut self) {
        self.single.store.tick();
        self.lane.store.tick();
        assert_eq!(self.single.store.last_commit(), self.lane.store.last_commit(), "last commit after a tick");
        let sweep = self.model.apply(self.clock.at(), &Command::Sweep, 0);
        let commit = self.single.store.last_commit();
        if sweep.result.is_ok() {
            assert!(commit - self.last_commit <= u64::from(sweep.cleaned), "a tick only cleans up");
        }
        self.last_commit = commit;
        self.write_history();
        assert_eq!(self.lane.store.published_commit(), commit, "a tick publishes everything");
        for scope in Self::scopes() {
            let shown = self.model.projection(&scope, self.clock.now(), false);
            self.must_show.extend(shown.iter().map(|listing| listing.asked.id));
        }
    }

    fn write_history(&mut self) {
        let mut shown = BTreeMap::new();
        for scope in Self::scopes() {
            for listing in self.model.projection(&scope, self.clock.now(), false) {
                shown.insert(listing.asked.id, listing.asked.details.fields().name.clone());
            }
        }
        self.history.entry(self.last_commit).or_insert(shown);
        self.history = self.history.split_off(&self.lane.store.published_commit());
    }

    fn scopes() -> impl Iterator<Item = Scope> {
        let of = |tenant| PROTOCOLS.map(|protocol| Scope::new(TenantId(tenant), protocol).expect("a legal protocol"));
        (0..2).flat_map(of)
    }

    /// Browses every scope without giving a command first. Right after a tick both stores show the same bytes.
    fn browse(&mut self, ticked: bool) {
        let now = self.clock.now();
        if ticked {
            self.tick();
        }
        let mut still_shown = BTreeSet::new();
        for scope in Self::scopes() {
            let seen = Shown {
                public: self.model.projection(&scope, now, false),
                fresh: self.model.projection(&scope, now, true),
                drained: self.model.drain.is_some_and(|(deadline, _)| deadline <= now),
                must_show: &self.must_show,
                history: &self.history,
                complete: ticked,
            };
            still_shown.extend(judge::pages(&seen, &scope, &self.single, &self.lane));
        }
        self.must_show = still_shown;
        let view = self.lane.store.published_commit();
        assert!(view >= self.lane_view, "the published commit goes back from {} to {view}", self.lane_view);
        self.lane_view = view;
    }

    /// Every query about everything known.
    fn look(&mut self) {
        let mut queries = vec![Query::Status];
        for host in self.hosts.iter().rev().take(8) {
            queries.push(Query::Lease(host.proof()));
            queries.push(Query::PendingAttempts { proof: host.proof(), after: 0 });
            queries.push(Query::PendingAttempts { proof: host.proof(), after: self.last_commit.saturating_sub(3) });
            queries.push(Query::Lease(host.wrong_proofs()[self.numbers as usize % 4]));
        }
        for (tenant, session) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let (tenant, session) = (TenantId(tenant), SessionRef(session));
            for after in [0, self.last_commit.saturating_sub(3)] {
                queries.push(Query::SessionGate { tenant, session, after });
            }
        }
        for attempt in self.attempts.iter().rev().take(8) {
            for caller in [attempt.joiner, attempt.host, principal(999)] {
                queries.push(Query::Attempt { attempt: attempt.id, caller });
            }
        }
        queries.into_iter().for_each(|query| self.give(Command::Query(query)));
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}
