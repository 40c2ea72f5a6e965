//! Time and chance.

use crate::admission::model::{Error, Uuid};
use std::time::{Duration, SystemTime};

/// Stops a call that [`Clock::after`] would have made; says whether it prevented it.
type Stop = Box<dyn FnOnce() -> bool + Send>;

/// The time seam.
///
/// It names types of the standard library only, so that a clock of another crate of the same shape is this trait with
/// two one-line methods, and nobody depends on us for a timer type.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> SystemTime;

    /// Runs `run` after `delay`, on some other thread or task, and returns what stops it.
    fn after(&self, delay: Duration, run: Box<dyn FnOnce() + Send>) -> Stop;
}

/// Supplies the random identifiers that a service proposes, notably the session id that it gives before any host exists
/// that could.
pub trait UuidSource: Send + Sync {
    /// A new id, never given before.
    fn new_uuid(&self) -> Result<Uuid, Error>;
}
