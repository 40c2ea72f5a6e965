//! Scripts against the naive model and both stores at once, as in `tests/model`, here steered by coverage: the input is the
//! randomness from which the script is drawn.
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

/// Steps of the longest script: short ones are run more often, and what they do is up to the input.
const STEPS_MAX: usize = 60;

fuzz_target!(|data: &[u8]| {
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, data);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    let Ok(drawn) = script::script(STEPS_MAX).new_tree(&mut runner) else { return };
    let (sequence_optional, ops) = drawn.current();
    let mut play = Play::new(script::small_limits(sequence_optional));
    ops.iter().for_each(|op| play.step(op));
    play.finish();
});
