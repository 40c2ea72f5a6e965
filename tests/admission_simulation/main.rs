//! Simulated schedules of the command plane: several services, sweepers and hosts over one store, in one thread, with
//! crashes between any two steps, lost replies, paused workers, clocks that disagree and calls that arrive twice. A
//! seed decides everything, so a failure is replayed by its number.
//!
//! ```text
//! cargo test --test admission_simulation                               some seeds, with debug assertions
//! cargo test --release --test admission_simulation                     the CI-sized run
//! RENDEZVOUS_ADMISSION_SEEDS=1000000 cargo test --release --test admission_simulation    as long as you like
//! RENDEZVOUS_ADMISSION_SEED=4711 cargo test --test admission_simulation -- --nocapture    one, with its trace
//! ```
#![cfg(feature = "admission")]
#![allow(
    missing_docs,
    clippy::wildcard_enum_match_arm,
    reason = "any other answer fails the test, whatever it is called"
)]

mod actors;
mod flaky;
mod model;
mod rng;
#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/say.rs"]
mod say;
mod schedule;

#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "../admission/support/clock.rs"]
mod clock;

use schedule::{Report, simulate};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of a run that nobody asked to be longer: an optimised build does ten times as many in the same time.
const SEEDS: u64 = if cfg!(debug_assertions) { 1_500 } else { 20_000 };

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

#[test]
fn seeded_schedules_keep_every_invariant() {
    if let Some(seed) = number("RENDEZVOUS_ADMISSION_SEED") {
        say::say(format_args!("{:?}", simulate(seed, true)));
        return;
    }
    let seeds = number("RENDEZVOUS_ADMISSION_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let work = || {
            let mut sum = Report::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return sum;
                }
                let report = std::panic::catch_unwind(|| simulate(seed, false));
                sum += report.unwrap_or_else(|_| panic!("replay with RENDEZVOUS_ADMISSION_SEED={seed}"));
            }
        };
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|worker| worker.join().expect("an invariant was broken, see above")).collect()
    });
    let mut sum = Report::default();
    reports.into_iter().for_each(|report| sum += report);
    say::say(format_args!("{seeds} seeds: {sum:?}"));
    // A schedule in which nothing happens proves nothing.
    if seeds >= 1_000 {
        sum.assert_everything_happened();
    }
}

/// A failure that can't be replayed can't be understood.
#[test]
fn a_seed_decides_everything() {
    for seed in [3, 1_000_003] {
        assert_eq!(simulate(seed, false), simulate(seed, false));
    }
}
