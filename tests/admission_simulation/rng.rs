//! Chance, by a seed: SplitMix64.

use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct Rng(Arc<Mutex<u64>>);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True so many times in a thousand.
    pub(crate) fn chance(&self, permille: u64) -> bool {
        self.below(1_000) < permille
    }
}
