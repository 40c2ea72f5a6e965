//! Rules S1 to S7 with real threads: writers, browsers, a ticker and a clock that moves, against both stores through the
//! public interface, and a drain at the end. S8 and S9 are counted elsewhere; here nobody may wait for ever.
//!
//! Nobody sleeps: the clock and the ticker are paced by what the others do. A run is as long as
//! `RENDEZVOUS_STRESS_SECONDS` says for each store; `RENDEZVOUS_STRESS_SEED` makes the same choices again, whatever the
//! threads make of them.
#![allow(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test, whatever it is called")]

mod browser;
#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/mod.rs"]
mod support;
mod truth;
mod writer;

use browser::{Browser, Went};
use rendezvous::domain::*;
use rendezvous::store::lane::Lane;
use rendezvous::store::single_lock::SingleLock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::*;
use truth::{Board, Moment, SCOPES, SLOTS};
use writer::{Open, WRITERS, Writer};

const BROWSERS: u64 = 2;
/// Seconds that each store is under stress, where the environment does not say.
const SECONDS: u64 = 3;
const SEED: u64 = 0x5EED;
/// Commands and pages between two steps of the clock, and between two ticks.
const CLOCK_EVERY: u64 = 6;
const TICK_EVERY: u64 = 40;
const DRAIN_WINDOW_MS: u32 = 2_000;

/// What all threads share.
pub(crate) struct Stress<B> {
    pub(crate) world: World<B>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) board: Board,
    pub(crate) open: Mutex<Vec<Open>>,
    are_writers_done: AtomicBool,
    is_over: AtomicBool,
    pages: AtomicU64,
    commands: AtomicU64,
}

/// Raised when a thread fails, so that the others end too.
struct StopAll<'a>([&'a AtomicBool; 2]);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
        }
    }
}

#[test]
fn rules_s1_to_s7_hold_under_stress_in_the_baseline() {
    Stress::<SingleLock<ManualClock>>::new().run();
}

#[test]
fn rules_s1_to_s7_hold_under_stress_in_the_lane() {
    Stress::<Lane<ManualClock>>::new().run();
}

impl<B: Backend> Stress<B> {
    fn new() -> Self {
        let world = World::with(|limits| {
            limits.lease_ttl = TtlBounds { min_ms: 100, max_ms: 60_000, default_ms: 60_000 };
            limits.idempotency_retention_ms = 60_000;
            limits.presence_ttl_ms = 2_500;
            limits.idempotency = 1_000_000;
            limits.replay = 100_000;
        });
        Self {
            world,
            scopes: (0..SCOPES).map(|n| scope(&format!("arena/{n}"))).collect(),
            board: Board::new(),
            open: Mutex::default(),
            are_writers_done: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            pages: AtomicU64::new(0),
            commands: AtomicU64::new(0),
        }
    }

    fn run(&self) {
        let seconds = from_environment("RENDEZVOUS_STRESS_SECONDS", SECONDS);
        let seed = from_environment("RENDEZVOUS_STRESS_SEED", SEED);
        println!("seed {seed}, {seconds} s");
        let until = Instant::now() + Duration::from_secs(seconds);
        thread::scope(|threads| {
            let _stop = self.stop_all();
            threads.spawn(|| self.tick());
            threads.spawn(|| self.move_clock(seed));
            for n in 0..BROWSERS {
                threads.spawn(move || self.browse(seed ^ (n + 101)));
            }
            let writers: Vec<_> =
                (0..WRITERS).map(|n| threads.spawn(move || self.write(n, seed ^ (n as u64 + 1), until))).collect();
            let is_well = writers.into_iter().all(|writer| writer.join().is_ok());
            self.are_writers_done.store(true, Ordering::SeqCst);
            if is_well && !self.is_over.load(Ordering::SeqCst) {
                self.count();
                self.drain();
            }
            self.is_over.store(true, Ordering::SeqCst);
        });
        let (commands, pages) = (self.commands.load(Ordering::Relaxed), self.pages.load(Ordering::Relaxed));
        let commit = self.world.store_commit();
        say(format_args!("{commands} commands, {pages} pages, commit {commit}"));
        assert!(commands > 1_000 && pages > 100, "next to nothing happened");
    }

    fn write(&self, number: usize, seed: u64, until: Instant) {
        let _stop = self.stop_all();
        let mut writer = Writer::new(self, number, seed);
        while Instant::now() < until && !self.is_over.load(Ordering::SeqCst) {
            writer.act();
        }
        self.commands.fetch_add(writer.commands, Ordering::Relaxed);
    }

    /// Walks until the store is drained; then it is drained for every walk.
    fn browse(&self, seed: u64) {
        let _stop = self.stop_all();
        let mut browser = Browser::new(self, seed);
        while !self.is_over.load(Ordering::SeqCst) {
            if browser.walk() != Went::On {
                break;
            }
        }
        self.pages.fetch_add(browser.pages, Ordering::Relaxed);
    }

    /// The server's ticks. S5: what was committed before a tick is published soon after.
    fn tick(&self) {
        let _stop = self.stop_all();
        let mut next = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            let steps = self.board.steps.load(Ordering::Relaxed);
            if steps < next && self.board.waiting.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
                continue;
            }
            next = steps + TICK_EVERY;
            let committed = self.world.store.last_commit();
            self.world.store.tick();
            block_on(self.world.store.published(committed));
            assert!(self.world.store.published_commit() >= committed, "S5: a wait that ended early");
            // The events are not looked at here; kept, they would fill the memory of a long run.
            self.world.observer.take();
        }
    }

    /// Small steps, and now and then one that is longer than the short leases.
    fn move_clock(&self, seed: u64) {
        let _stop = self.stop_all();
        let (mut random, mut next) = (seed ^ 55, 0);
        while !self.are_writers_done.load(Ordering::SeqCst) {
            let steps = self.board.steps.load(Ordering::Relaxed);
            if steps < next {
                thread::yield_now();
                continue;
            }
            next = steps + CLOCK_EVERY;
            let most = if below(&mut random, 200) == 0 { 400 } else { 8 };
            self.world.clock.advance_ms(below(&mut random, most));
        }
    }

    /// What the store counts is what the owners know.
    fn count(&self) {
        let now = self.world.now();
        let truths = (0..SLOTS).map(|slot| *self.board.lock(slot)).filter(|truth| !truth.is_over);
        let (mut at_least, mut at_most) = (0, 0);
        for truth in truths {
            at_least += u32::from(truth.lease.at_least > now);
            at_most += u32::from(truth.lease.at_most > now);
        }
        let live = self.world.status().listings.live;
        assert!((at_least..=at_most).contains(&live), "{live} listings, of {at_least} to {at_most}");
    }

    /// J2, S1 and S2: the drain is seen by all browsers at its deadline, whoever calls or not.
    fn drain(&self) {
        let deadline = match self.world.ok(Command::Drain { window_ms: DRAIN_WINDOW_MS }) {
            Outcome::Draining { deadline, .. } => deadline,
            other => panic!("{other:?}"),
        };
        self.board.drain.store(deadline.0, Ordering::SeqCst);
        let refused = self.world.rejected(Command::Register(Box::new(self.world.register(7))));
        // A principal that was revoked before is told that first.
        assert!(matches!(refused, Rejection::Draining { .. } | Rejection::Revoked), "{refused:?}");
        while self.world.now() < deadline && !self.is_over.load(Ordering::SeqCst) {
            let before = self.board.steps.load(Ordering::Relaxed);
            self.world.clock.advance_ms(10);
            // A page or two at each step but the last, behind which browsers are told of the drain and go.
            let is_waited_for = || self.world.now() < deadline && !self.is_over.load(Ordering::SeqCst);
            while self.board.steps.load(Ordering::Relaxed) == before && is_waited_for() {
                thread::yield_now();
            }
        }
        if self.is_over.load(Ordering::SeqCst) {
            return;
        }
        let refused = self.world.page(&self.scopes[0], None, 1);
        assert!(matches!(refused, Err(Failure::Rejected(Rejection::Draining { .. }))), "{refused:?}");
    }

    pub(crate) fn moment(&self, scope: usize) -> Moment {
        self.board.moment(&self.world.clock, scope)
    }

    fn stop_all(&self) -> impl Drop {
        StopAll([&self.are_writers_done, &self.is_over])
    }
}

fn from_environment(key: &str, default: u64) -> u64 {
    std::env::var(key).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{key} is a number")))
}

/// A number below `bound`; splitmix64.
pub(crate) fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31) % bound.max(1)
}
