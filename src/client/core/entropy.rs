//! Unpredictable numbers from a seed that the caller draws.

use crate::credentials::hmac_sha256;
use crate::stun::TransactionId;
use std::fmt;

/// HMAC-SHA256 of a counter under a seed: the same seed gives the same run, so a test can replay it; a seed of the
/// operating system's randomness gives ids that nobody can guess.
pub struct Entropy {
    seed: [u8; 32],
    counter: u64,
}

impl Entropy {
    /// Draws from `seed`. Never use one seed twice outside of tests.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0 }
    }

    /// An independent source, for another machine.
    pub fn fork(&mut self) -> Self {
        Self::new(self.block())
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        let block = self.block();
        u64::from_be_bytes([block[0], block[1], block[2], block[3], block[4], block[5], block[6], block[7]])
    }

    /// A number from `low` to `high`, both included; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            // The remainder's bias is below 2^-20 for every range of milliseconds that is used.
            Some(width) => low + self.bits() % width,
            None => self.bits(),
        }
    }

    /// An id for one request.
    pub fn transaction(&mut self) -> TransactionId {
        let block = self.block();
        let mut id = [0; 12];
        id.copy_from_slice(&block[..12]);
        TransactionId(id)
    }

    /// 32 lower-case hex digits, for idempotency keys.
    pub fn key(&mut self) -> String {
        self.block()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn block(&mut self) -> [u8; 32] {
        self.counter += 1;
        hmac_sha256(&self.seed, &[&self.counter.to_be_bytes()])
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy([redacted])")
    }
}
