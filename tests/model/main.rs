//! Long random command sequences with a moving clock, run against a naive model and both stores at once.
//!
//! `RENDEZVOUS_MODEL_CASES` sets the number of scripts, `PROPTEST_RNG_SEED` repeats a run: the seed is printed first. A
//! failure is shrunk and printed as a script.
#![allow(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test, whatever it is called")]

#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/mod.rs"]
mod support;

mod coverage;
mod judge;
mod naive;
mod play;
mod script;

use coverage::Coverage;
use play::Play;
use proptest::test_runner::{Config, TestError, TestRunner};
use std::cell::RefCell;
use std::env;

/// Scripts in a run that names no number: about ten seconds of CPU.
const CASES_DEFAULT: u32 = 600;
/// Steps of the longest script.
const STEPS_MAX: usize = 160;

#[test]
fn model_and_both_stores_agree() {
    let cases = env::var("RENDEZVOUS_MODEL_CASES")
        .ok()
        .map_or(CASES_DEFAULT, |text| text.parse().expect("RENDEZVOUS_MODEL_CASES is a number of scripts"));
    let seed = seed();
    support::say(format_args!("model: {cases} scripts, repeat with PROPTEST_RNG_SEED={seed}"));
    let config = Config {
        cases,
        rng_seed: proptest::test_runner::RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let met = RefCell::new(Coverage::default());
    let result = TestRunner::new(config).run(&script::script(STEPS_MAX), |(sequence_optional, ops)| {
        let mut play = Play::new(script::small_limits(sequence_optional));
        ops.iter().for_each(|op| play.step(op));
        met.borrow_mut().add(play.finish());
        Ok(())
    });
    match result {
        Ok(()) if cases >= CASES_DEFAULT => met.into_inner().check(),
        Ok(()) => support::say(format_args!("model: {:?}", met.into_inner())),
        Err(TestError::Abort(reason)) => panic!("aborted: {reason}"),
        Err(TestError::Fail(reason, (sequence_optional, ops))) => {
            let script: String = ops.iter().map(|op| format!("\n  {op:?}")).collect();
            panic!("{reason}\nPROPTEST_RNG_SEED={seed}, shrunk, sequence optional: {sequence_optional}{script}");
        }
    }
}

/// The seed asked for, or one from the hasher's per-process randomness.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let asked = env::var("PROPTEST_RNG_SEED").ok();
    asked.map_or_else(|| RandomState::new().hash_one(0_u8), |text| text.parse().expect("PROPTEST_RNG_SEED is a u64"))
}
