//! The tokio driver: sockets, clock and randomness around the core.
//!
//! Nothing runs in the background but HTTP calls: [`Host::next`] and [`Join::next`] do the work while they are awaited, so
//! a game polls them in its own loop, beside its own socket, or in a task.

mod candidates;
mod host;
mod join;
mod look;
mod port;
mod resolve;
mod worker;

pub use host::{Host, HostNews, HostOptions, PlayerNews};
pub use join::{Join, JoinFailure, JoinNews, Step};
pub use look::{Look, LookOptions};
pub use port::Port;
pub use worker::{Assignment, Worker, WorkerNews, WorkerOptions};

use super::core::Entropy;
use super::error::Error;
use crate::clock::{Clock, SystemClock};
use crate::domain::MonoTime;
use std::time::Duration;

/// A seed from the operating system.
pub(crate) fn system_entropy() -> Result<Entropy, Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| Error::Socket(std::io::Error::other(error.to_string())))?;
    Ok(Entropy::new(seed))
}

/// A new idempotency key: 128 random bits.
///
/// # Errors
/// [`Error::Socket`] when the system has no randomness.
pub fn idempotency_key() -> Result<String, Error> {
    let mut entropy = system_entropy()?;
    Ok(format!("{:016x}{:016x}", entropy.bits(), entropy.bits()))
}

/// Sleeps until `deadline` of `clock`; for ever when there is none.
async fn sleep_until(clock: &SystemClock, deadline: Option<MonoTime>) {
    match deadline {
        None | Some(MonoTime::NEVER) => std::future::pending().await,
        Some(deadline) => {
            let left = Duration::from_nanos(deadline.0.saturating_sub(clock.mono().0));
            tokio::time::sleep(left).await;
        }
    }
}
