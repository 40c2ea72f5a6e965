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

/// More than the longest script draws: samplers that reject would ask for ever where only zeros are left.
const RANDOMNESS_BYTES: usize = 64 * 1024;

fuzz_target!(|data: &[u8]| {
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, &randomness(data));
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    let Ok(drawn) = script::script(STEPS_MAX).new_tree(&mut runner) else { return };
    let (sequence_optional, ops) = drawn.current();
    let mut play = Play::new(script::small_limits(sequence_optional));
    ops.iter().for_each(|op| play.step(op));
    play.finish();
});

/// The input, and behind it what follows from its length: the fuzzer decides as much as it has bytes for.
fn randomness(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RANDOMNESS_BYTES);
    bytes.extend_from_slice(&data[..data.len().min(RANDOMNESS_BYTES)]);
    let mut state = data.len() as u64;
    while bytes.len() < RANDOMNESS_BYTES {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes
}
