//! One seed: who takes part, who goes on when, what goes wrong, and what must be true afterwards.

use crate::actors::{Actor, Ground};
use crate::clock::ManualClock;
use crate::flaky::{Faults, Flaky};
use crate::model::Model;
use crate::rng::Rng;
use rendezvous::admission::*;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// What happened, summed over seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    pub(crate) crashes: u64,
    pub(crate) pauses: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    applied: u64,
    late: u64,
    rejected_by_hosts: u64,
    never_claimed: u64,
    claimed_not_applied: u64,
    redelivered: u64,
    settled_by_successors: u64,
    sweeps: u64,
    resumed: u64,
    fates: [u64; Disposition::RECORDED.len()],
}

impl Report {
    pub(crate) fn count_end(&mut self, entry: &CommandEntry) {
        let Some(outcome) = &entry.outcome else { return };
        let by_sweep = outcome.by.starts_with("service:");
        match outcome.code.as_str() {
            OutcomeCode::APPLIED => self.applied += 1,
            OutcomeCode::NEVER_CLAIMED => self.never_claimed += 1,
            OutcomeCode::CLAIMED_NOT_APPLIED => {
                self.claimed_not_applied += 1;
                self.settled_by_successors += u64::from(!by_sweep);
            }
            _ => self.rejected_by_hosts += 1,
        }
        self.late += u64::from(outcome.late);
        self.redelivered += u64::from(entry.deliveries > 1);
    }

    pub(crate) fn count_sweep(&mut self, result: &SweepResult) {
        self.sweeps += 1;
        self.resumed += u64::from(result.resumed);
        for (place, fate) in Disposition::RECORDED.iter().enumerate() {
            self.fates[place] += result.dispositions.get(fate).copied().unwrap_or(0) as u64;
        }
    }

    /// Everything that a schedule can lead to was reached.
    pub(crate) fn assert_everything_happened(&self) {
        let counts = [
            self.crashes,
            self.pauses,
            self.lost,
            self.doubled,
            self.applied,
            self.late,
            self.rejected_by_hosts,
            self.never_claimed,
            self.claimed_not_applied,
            self.redelivered,
            self.settled_by_successors,
            self.resumed,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{self:?}");
        // Claims end at deadlines, all states are known, and past its deadline a command moves only to its end: these
        // three need rows of another deployment, or a store that is told to interfere.
        let unreachable = [Disposition::ClaimLive, Disposition::Unrecognized, Disposition::RaceLost];
        for (place, fate) in Disposition::RECORDED.iter().enumerate() {
            assert!(self.fates[place] > 0 || unreachable.contains(fate), "{fate} never happened: {self:?}");
        }
    }
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.pauses += other.pauses;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.applied += other.applied;
        self.late += other.late;
        self.rejected_by_hosts += other.rejected_by_hosts;
        self.never_claimed += other.never_claimed;
        self.claimed_not_applied += other.claimed_not_applied;
        self.redelivered += other.redelivered;
        self.settled_by_successors += other.settled_by_successors;
        self.sweeps += other.sweeps;
        self.resumed += other.resumed;
        self.fates.iter_mut().zip(other.fates).for_each(|(sum, count)| *sum += count);
    }
}

/// Someone who acts, and how to begin anew after a crash.
struct Seat {
    begin: Box<dyn Fn() -> Actor>,
    actor: Actor,
    /// Does nothing before this step.
    paused_until: u64,
}

impl Seat {
    fn new(begin: impl Fn() -> Actor + 'static) -> Self {
        Self { actor: begin(), begin: Box::new(begin), paused_until: 0 }
    }

    fn go_on(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.actor.as_mut().poll(&mut context);
    }

    fn crash(&mut self) {
        self.actor = (self.begin)();
    }
}

/// The knobs of a seed.
struct Knobs {
    crash: u64,
    pause: u64,
    jump: u64,
    steps: u64,
    hosts: u64,
    sweepers: u64,
}

/// Runs one seed.
pub(crate) fn simulate(seed: u64, trace: bool) -> Report {
    let rng = Rng::new(seed);
    let knobs = Knobs {
        crash: rng.below(40),
        pause: rng.below(20),
        jump: rng.below(30),
        steps: 60 + rng.below(140),
        hosts: 1 + rng.below(3),
        sweepers: 1 + rng.below(2),
    };
    let clock = ManualClock::new();
    let settings = Settings {
        control_shards: 1 + u32::try_from(rng.below(3)).unwrap(),
        inbox_max: 16,
        placement_grace: Duration::from_secs(2),
        ..Settings::default()
    };
    let store = Store::in_memory(settings, Arc::new(clock.clone()));
    let model = Arc::new(Model::default());
    let calm = Arc::new(AtomicBool::new(false));
    let faults = Faults { fails: rng.below(60), lost: rng.below(120), doubled: rng.below(120) };
    let flaky = Flaky { inner: store.clone(), model: model.clone(), rng: rng.clone(), faults, calm: calm.clone() };
    let ground = Ground {
        flaky,
        clock: clock.clone(),
        rng: rng.clone(),
        ids: Arc::new(AtomicU64::new(1)),
        apply_within: Duration::from_millis(500 + rng.below(6_000)),
        ttl: Duration::from_millis(1_000 + rng.below(4_000)),
        served: Arc::default(),
    };
    let tenants: Vec<Tenant> = TENANTS.iter().map(|name| Tenant::new(name).unwrap()).collect();
    let hosts: Vec<HostId> = (0..knobs.hosts).map(|n| HostId::new(format!("host-{n}")).unwrap()).collect();
    let mut seats = seats(&ground, &knobs, &tenants, &hosts);
    for step in 0..knobs.steps {
        if rng.chance(60) {
            aim(&store, &clock);
        }
        one_step(step, &rng, &knobs, &clock, &mut seats, &model, trace);
    }
    calm.store(true, Ordering::Relaxed);
    // A caller that had been served and crashed is served once more, so it is counted from here.
    ground.served.store(0, Ordering::Relaxed);
    seats[..tenants.len()].iter_mut().for_each(Seat::crash);
    settle(&rng, &clock, &mut seats, &ground);
    run(model.check_all(&store, &tenants, &hosts));
    model.report()
}

/// Moves to the very instant of the next deadline, where `before` and `not after` differ.
fn aim(store: &Store, clock: &ManualClock) {
    let now = clock.time();
    let mut next = None;
    for shard in 0..DispositionDue::control_shards(store) {
        let due_by = Timestamp(i64::MAX as u64);
        let request = ListDueCommandsRequest { shard, due_by, after: None, limit: 40 };
        let page = run(store.list_due_disposition_commands(request)).expect("a page");
        next = page.commands.iter().map(|command| command.deadline).filter(|at| *at > now).chain(next).min();
    }
    next.into_iter().for_each(|at| clock.set(at));
}

fn seats(ground: &Ground, knobs: &Knobs, tenants: &[Tenant], hosts: &[HostId]) -> Vec<Seat> {
    let mut seats = Vec::new();
    for tenant in tenants {
        let (ground, tenant, creates) = (ground.clone(), tenant.clone(), 1 + ground.rng.below(4));
        let inputs = ground.rng.below(4);
        seats.push(Seat::new(move || ground.clone().caller(tenant.clone(), creates, inputs)));
    }
    // Sometimes a host's supervisor starts a second process while the first one still lives: one name, two epochs.
    let twin = hosts.first().filter(|_| ground.rng.chance(400));
    for host in hosts.iter().chain(twin) {
        let (ground, host, tenants) = (ground.clone(), host.clone(), tenants.to_vec());
        seats.push(Seat::new(move || ground.clone().host(host.clone(), tenants.clone())));
    }
    for n in 0..knobs.sweepers {
        let ground = ground.clone();
        let skew = i64::try_from(ground.rng.below(8_000)).unwrap() - 4_000;
        let with_claims = ground.rng.chance(700);
        seats.push(Seat::new(move || ground.clone().sweeper(format!("sweeper-{n}"), skew, with_claims)));
    }
    seats
}

fn one_step(step: u64, rng: &Rng, knobs: &Knobs, clock: &ManualClock, seats: &mut [Seat], model: &Model, trace: bool) {
    let bound = if rng.chance(knobs.jump) { 5_000 } else { 40 };
    // Often no time passes at all.
    if rng.chance(700) {
        clock.advance(Duration::from_millis(rng.below(bound)));
    }
    let who = rng.below(seats.len() as u64) as usize;
    let seat = &mut seats[who];
    if seat.paused_until > step {
        return;
    }
    let what = if rng.chance(knobs.crash) {
        model.count(|report| report.crashes += 1);
        seat.crash();
        "crashes"
    } else if rng.chance(knobs.pause) {
        model.count(|report| report.pauses += 1);
        seat.paused_until = step + rng.below(80);
        "is stopped"
    } else {
        // Several of its steps, so that some get far.
        (0..1 + rng.below(12)).for_each(|_| seat.go_on());
        "goes on"
    };
    if trace {
        println!("{step:4} {} seat {who} {what}", clock.time());
    }
}

/// The bound within which everything settles once faults are over: every lease lapses, placement's grace goes by, each
/// shard is swept to its end several times.
const CALM_ROUNDS: usize = 400;
/// Each has one caller.
const TENANTS: [&str; 2] = ["arena", "chess"];

fn settle(rng: &Rng, clock: &ManualClock, seats: &mut [Seat], ground: &Ground) {
    for round in 0..CALM_ROUNDS {
        clock.advance(Duration::from_millis(150));
        for seat in seats.iter_mut() {
            seat.paused_until = 0;
            (0..6 + rng.below(3)).for_each(|_| seat.go_on());
        }
        let served = ground.served.load(Ordering::Relaxed) == TENANTS.len() as u64;
        if round % 8 == 7 && served && run(is_settled(ground)) {
            return;
        }
    }
}

async fn is_settled(ground: &Ground) -> bool {
    let store = &ground.flaky.inner;
    for shard in 0..DispositionDue::control_shards(store) {
        let due_by = Timestamp(i64::MAX as u64);
        let request = ListDueCommandsRequest { shard, due_by, after: None, limit: 1 };
        if store.list_due_disposition_commands(request).await.expect("a page").examined > 0 {
            return false;
        }
    }
    true
}

/// The store in memory answers at once.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a store in memory answers at once"),
    }
}
