//! Where new ids come from: a clock that never steps back, and entropy.

use crate::clock::SystemClock;
use std::fmt;

/// The operating system gave no entropy.
#[derive(Debug)]
pub struct EntropyError(pub(super) getrandom::Error);

impl fmt::Display for EntropyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operating system gave no entropy: {}", self.0)
    }
}

impl std::error::Error for EntropyError {}

/// 128 unpredictable bits as 32 hex digits, for a key that a person pastes.
pub fn random_token() -> Result<String, EntropyError> {
    random_bits().map(|bits| format!("{bits:032x}"))
}

pub(super) fn random_bits() -> Result<u128, EntropyError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(EntropyError)?;
    Ok(u128::from_be_bytes(bytes))
}

/// Gives what an id is composed of. Tests put a counter here.
pub trait IdSource: Send + Sync + 'static {
    /// Unix milliseconds that never step back.
    fn created_ms(&self) -> u64;
    /// 128 unpredictable bits.
    fn random(&self) -> Result<u128, EntropyError>;
}

/// The system's steady clock and entropy.
#[derive(Clone, Copy, Debug)]
pub struct SystemIds {
    clock: SystemClock,
}

impl SystemIds {
    /// Takes creation times from `clock`.
    pub fn new(clock: SystemClock) -> Self {
        Self { clock }
    }
}

impl IdSource for SystemIds {
    fn created_ms(&self) -> u64 {
        self.clock.steady_wall_ms()
    }

    fn random(&self) -> Result<u128, EntropyError> {
        random_bits()
    }
}
