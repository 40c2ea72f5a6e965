//! The whole server without its sockets, simulated: hosts, joiners, browsers and operators over the product's service,
//! lane, publisher, UDP responder and client library, in one thread, under one clock, on a network that loses, doubles,
//! delays and repeats. A seed decides everything.
//!
//! After each step everything that left the server is held against the rules (`truth/`), and in debug builds the state
//! machine checks its own invariants after each transition. Once faults are over whatever can work has to work in time;
//! in the end nothing may be left.
//!
//! ```text
//! cargo test --test simulation                                                   2,000 seeds, with debug assertions
//! RENDEZVOUS_SIMULATION_SEEDS=1000000 cargo test --release --test simulation     as many as you like
//! RENDEZVOUS_SIMULATION_SEED=4711 cargo test --test simulation -- --nocapture    one, with its trace
//! ```
//!
//! A failing seed is shrunk: steps, actors and faults that it does not need are left out, and the rest is told.
#![cfg(all(feature = "server", feature = "client"))]
#![allow(
    missing_docs,
    clippy::wildcard_enum_match_arm,
    reason = "any other answer fails the test, whatever it is called"
)]

mod actors;
mod calls;
mod network;
mod plan;
mod report;
#[path = "../admission_simulation/rng.rs"]
mod rng;
mod server;
mod shrink;
#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/mod.rs"]
mod support;
mod truth;
mod world;

use plan::Plan;
use report::Report;
use shrink::{explain, run, shrink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::say;

/// Seeds of a run that nobody asked to be longer.
const SEEDS: u64 = 2_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

#[test]
fn seeded_runs_keep_every_rule() {
    if let Some(seed) = number("RENDEZVOUS_SIMULATION_SEED") {
        match run(&Plan::of(seed), true) {
            Ok(report) => say(format_args!("{report:?}")),
            Err(failure) => panic!("{}", explain(seed, failure)),
        }
        return;
    }
    let seeds = number("RENDEZVOUS_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let mut sum = Report::default();
        while !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                break;
            }
            match run(&Plan::of(seed), false) {
                Ok(report) => sum += report,
                Err(failure) => {
                    // One failure is enough to read.
                    if !has_failed.swap(true, Ordering::Relaxed) {
                        panic!("{}", explain(seed, failure));
                    }
                }
            }
        }
        sum
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Report::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let reports: Vec<_> = running.into_iter().map(|worker| worker.join()).collect();
        reports.into_iter().for_each(|report| sum += report.expect("a rule was broken, see above"));
    });
    say(format_args!("{seeds} seeds: {sum:?}"));
    if seeds >= SEEDS {
        sum.assert_everything_happened();
    }
}

/// A failure that can't be replayed can't be understood.
#[test]
fn a_seed_decides_everything() {
    for seed in [5, 17, 1_000_003] {
        assert_eq!(run(&Plan::of(seed), false), run(&Plan::of(seed), false));
    }
}

/// Of a failure that needs three of the steps and one actor, nothing else is left.
#[test]
fn a_failing_plan_is_shrunk_to_what_it_needs() {
    let plan = Plan::of(11);
    let needed: Vec<usize> = [0, plan.steps.len() / 2, plan.steps.len() - 1].map(|at| plan.steps[at].number).into();
    let fails = |plan: &Plan| {
        let has = |number: &usize| plan.steps.iter().any(|step| step.number == *number);
        (needed.iter().all(has) && !plan.absent.contains(&0)).then(|| "S1: as planted".to_owned())
    };
    let (smallest, _) = shrink(&plan, "S1: as planted".to_owned(), fails);
    let left: Vec<usize> = smallest.steps.iter().map(|step| step.number).collect();
    assert_eq!(left, needed);
    assert_eq!(smallest.absent.len(), plan.knobs.actors() - 1);
    assert_eq!((smallest.knobs.lost, smallest.knobs.polls), (0, false));
}
