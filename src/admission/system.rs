//! Time and chance of the operating system, behind the seams.

use super::model::{Error, ErrorCode, Timestamp, Uuid};
use super::traits::{Clock, UuidSource};
use crate::clock::SystemClock;
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;

/// Wall time at the start plus what has elapsed since, so that a step of the wall clock moves no deadline while the
/// process lives; timers on a tokio runtime.
#[derive(Clone, Debug)]
pub struct RuntimeClock {
    clock: SystemClock,
    runtime: Handle,
}

impl RuntimeClock {
    /// A clock whose timers run on `runtime`.
    pub fn new(clock: SystemClock, runtime: Handle) -> Self {
        Self { clock, runtime }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> SystemTime {
        Timestamp(self.clock.steady_wall_ms()).to_system()
    }

    fn after(&self, delay: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
        let task = self.runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            run();
        });
        Box::new(move || {
            let prevented = !task.is_finished();
            task.abort();
            prevented
        })
    }
}

/// Random ids that begin with their creation time (UUID version 7), so that rows of sessions of the same time lie together.
#[derive(Clone, Copy, Debug)]
pub struct SystemUuids {
    clock: SystemClock,
}

impl SystemUuids {
    /// Takes creation times from `clock`.
    pub fn new(clock: SystemClock) -> Self {
        Self { clock }
    }
}

impl UuidSource for SystemUuids {
    fn new_uuid(&self) -> Result<Uuid, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| Error::new(ErrorCode::Unavailable))?;
        Ok(Uuid(version_7(self.clock.steady_wall_ms(), u128::from_be_bytes(bytes))))
    }
}

/// RFC 9562 section 5.7: 48 bits of time, version, 12 random bits, variant, 62 random bits.
fn version_7(unix_ms: u64, random: u128) -> u128 {
    let time = u128::from(unix_ms & 0xFFFF_FFFF_FFFF) << 80;
    let upper = (random >> 64 & 0xFFF) << 64;
    let lower = random & 0x3FFF_FFFF_FFFF_FFFF;
    time | 0x7 << 76 | upper | 0x2 << 62 | lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_time_and_marked_as_version_7() {
        let (early, late) = (version_7(1, u128::MAX), version_7(2, 0));
        assert!(early < late);
        for id in [early, late] {
            assert_eq!((id >> 76 & 0xF, id >> 62 & 0x3), (7, 2), "{id:032x}");
        }
        assert_eq!(version_7(0x0123_4567_89AB, 0) >> 80, 0x0123_4567_89AB);
    }
}
