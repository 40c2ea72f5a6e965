//! The only file that asks the operating system for time.

use crate::domain::{At, MonoTime, WallTime};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where a store gets its stamps from. Implementations never go back in [`Clock::mono`].
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time; decides.
    fn mono(&self) -> MonoTime;
    /// Wall time; informs.
    fn wall(&self) -> WallTime;
    /// Both.
    fn at(&self) -> At {
        At { mono: self.mono(), wall: self.wall() }
    }
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
    wall_start_ms: u64,
}

impl SystemClock {
    /// Starts a monotonic clock at one second, so that "one second ago" can be expressed from the start on.
    pub fn new() -> Self {
        Self { start: Instant::now(), wall_start_ms: system_wall_ms() }
    }

    /// Wall time at the start plus elapsed monotonic time: for ids, whose order must not follow steps of the wall clock.
    pub fn steady_wall_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wall_start_ms.saturating_add(elapsed)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Milliseconds since 1970, zero for a clock that stands before it.
fn system_wall_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn mono(&self) -> MonoTime {
        let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        MonoTime(elapsed.saturating_add(1_000_000_000))
    }

    fn wall(&self) -> WallTime {
        WallTime(system_wall_ms())
    }
}

/// A clock chosen at run time.
pub type SharedClock = std::sync::Arc<dyn Clock>;

impl Clock for SharedClock {
    fn mono(&self) -> MonoTime {
        (**self).mono()
    }

    fn wall(&self) -> WallTime {
        (**self).wall()
    }
}
