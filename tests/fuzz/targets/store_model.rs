//! Scripts against the naive model and both stores at once, as in `tests/model`, here steered by coverage: every two bytes of the
//! input draw one step, so that a change of the input changes a step and leaves the others.
#![no_main]

#[allow(dead_code, unused_imports, reason = "the model's own test uses the rest")]
#[path = "../../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "the model's own test asks what was met")]
#[path = "../../model/coverage.rs"]
mod coverage;
#[path = "../../model/judge.rs"]
mod judge;
#[path = "../../model/naive/mod.rs"]
mod naive;
#[path = "../../model/play/mod.rs"]
mod play;
#[path = "../../model/script/mod.rs"]
mod script;

use libfuzzer_sys::fuzz_target;
use play::Play;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use script::Op;

/// Steps of the longest script: short ones are run more often, and what they do is up to the input.
const STEPS_MAX: usize = 80;
/// Bytes that draw one step.
const STEP_BYTES: usize = 2;
/// As ChaCha takes it.
const SEED_BYTES: usize = 32;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let mut play = Play::new(script::small_limits(first % 2 == 1));
    // A script of one step.
    let steps = script::script(2);
    for drawn_by in rest.chunks(STEP_BYTES).take(STEPS_MAX) {
        if let Some(step) = step(&steps, drawn_by) {
            play.step(&step);
        }
    }
    play.finish();
});

fn step(steps: &impl Strategy<Value = (bool, Vec<Op>)>, drawn_by: &[u8]) -> Option<Op> {
    let mut seed = [0; SEED_BYTES];
    seed[..drawn_by.len()].copy_from_slice(drawn_by);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config = Config { failure_persistence: None, ..Config::default() };
    let tree = steps.new_tree(&mut TestRunner::new_with_rng(config, rng)).ok()?;
    tree.current().1.first().copied()
}
