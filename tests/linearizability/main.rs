//! Histories of real threads on each store: is there one order of all operations, in keeping with real time, in which each
//! answer is right?
//!
//! Two checkers decide. A search after Wing, Gong and Lowe ([`todc_utils::WGLChecker`]) knows nothing of commits; it takes
//! short histories of one listing and its attempt (`cell.rs`). Long histories of many are replayed in the order of their
//! commits on the model of `tests/model/naive/`, without a search (`replay.rs`). Both have to find planted bugs
//! (`planted.rs`): a store that acknowledges before it acts, and one that reads what was true a moment ago.
//!
//! `RENDEZVOUS_LINEARIZABILITY_ROUNDS` makes more histories of each kind.
#![allow(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test, whatever it is called")]

mod cell;
mod history;
#[allow(dead_code, reason = "the store that stands still is shared with the model's own test")]
#[path = "../model/judge.rs"]
mod judge;
#[allow(dead_code, reason = "shared with the model's own test, which asks more of it")]
#[path = "../model/naive/mod.rs"]
mod naive;
mod planted;
mod replay;
#[path = "../admission_simulation/rng.rs"]
mod rng;
#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/mod.rs"]
mod support;

use history::{Honest, Workload, record};
use planted::{Hasty, Stale};
use rendezvous::store::lane::Lane;
use rendezvous::store::single_lock::SingleLock;
use support::{Backend, ManualClock, say};

/// Histories of each kind, where the environment does not say.
const ROUNDS: u64 = 30;
/// A planted bug shows itself in one of so many.
const PLANTED_ROUNDS: u64 = 200;

fn rounds() -> u64 {
    let asked = std::env::var("RENDEZVOUS_LINEARIZABILITY_ROUNDS").ok();
    asked.map_or(ROUNDS, |text| text.parse().expect("a number of rounds"))
}

/// Long histories are fewer.
fn long_rounds() -> u64 {
    rounds().div_ceil(5)
}

fn short_histories<B: Backend>(store: &str) {
    let mut operations = 0;
    for seed in 0..rounds() {
        let history = record(&Honest::<B>::new(), Workload::cell(seed));
        operations += history.calls.len();
        assert!(cell::is_linearizable(&history), "round {seed}: no order explains this history: {history:#?}");
    }
    say(format_args!("{operations} operations in {} histories of {store} have an order", rounds()));
}

fn long_histories<B: Backend>(store: &str) {
    let mut operations = 0;
    for seed in 0..long_rounds() {
        let history = record(&Honest::<B>::new(), Workload::crowd(seed));
        operations += history.calls.len();
        if let Err(why) = replay::check(&history) {
            panic!("round {seed}: {why}");
        }
    }
    say(format_args!("{operations} operations in {} histories of {store} are what their commits say", long_rounds()));
}

#[test]
fn short_histories_of_the_lane_have_an_order() {
    short_histories::<Lane<ManualClock>>("the lane");
}

#[test]
fn short_histories_of_the_single_lock_have_an_order() {
    short_histories::<SingleLock<ManualClock>>("the single lock");
}

#[test]
fn long_histories_of_the_lane_are_what_their_commits_say() {
    long_histories::<Lane<ManualClock>>("the lane");
}

#[test]
fn long_histories_of_the_single_lock_are_what_their_commits_say() {
    long_histories::<SingleLock<ManualClock>>("the single lock");
}

#[test]
fn both_checkers_find_a_store_that_acknowledges_before_it_acts() {
    let refuted = |seed: &u64| !cell::is_linearizable(&record(&Hasty::new(), Workload::cell(*seed)));
    assert!((0..PLANTED_ROUNDS).any(|seed| refuted(&seed)), "the search finds nothing");
    let refuted = |seed: &u64| replay::check(&record(&Hasty::new(), Workload::crowd(*seed))).is_err();
    assert!((0..PLANTED_ROUNDS).any(|seed| refuted(&seed)), "the replay finds nothing");
}

#[test]
fn both_checkers_find_a_store_that_reads_what_was() {
    let refuted = |seed: &u64| !cell::is_linearizable(&record(&Stale::new(), Workload::cell(*seed)));
    assert!((0..PLANTED_ROUNDS).any(|seed| refuted(&seed)), "the search finds nothing");
    let refuted = |seed: &u64| replay::check(&record(&Stale::new(), Workload::crowd(*seed))).is_err();
    assert!((0..PLANTED_ROUNDS).any(|seed| refuted(&seed)), "the replay finds nothing");
}
