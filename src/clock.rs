//! The only file that asks the operating system for time.

use crate::domain::{At, MonoTime, WallTime};
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The operating system's clocks for who stamps a great deal: it looks at the wall clock once a millisecond.
#[derive(Debug)]
pub struct StampClock {
    system: SystemClock,
    /// When it looked, in monotonic nanoseconds, and what it showed then beyond the monotonic milliseconds.
    read_at: AtomicU64,
    ahead_ms: AtomicU64,
}

/// For how long a [`StampClock`] trusts its last look at the wall clock, in nanoseconds: wall time informs in milliseconds.
const WALL_TRUSTED_NS: u64 = 1_000_000;

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

impl StampClock {
    /// Stamps by `system`.
    pub fn new(system: SystemClock) -> Self {
        Self { system, read_at: AtomicU64::new(0), ahead_ms: AtomicU64::new(0) }
    }
}

impl Clock for StampClock {
    fn mono(&self) -> MonoTime {
        self.system.mono()
    }

    fn wall(&self) -> WallTime {
        self.system.wall()
    }

    /// One reading of a clock instead of two, in all but one stamp a millisecond.
    fn at(&self) -> At {
        let mono = self.mono();
        let mono_ms = mono.0 / 1_000_000;
        // Relaxed: a mix of two looks is off by what the clock moved between them, which is what trusting allows.
        if mono.0.saturating_sub(self.read_at.load(Ordering::Relaxed)) > WALL_TRUSTED_NS {
            self.ahead_ms.store(system_wall_ms().wrapping_sub(mono_ms), Ordering::Relaxed);
            self.read_at.store(mono.0, Ordering::Relaxed);
        }
        At { mono, wall: WallTime(mono_ms.wrapping_add(self.ahead_ms.load(Ordering::Relaxed))) }
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

    fn at(&self) -> At {
        (**self).at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_in_one_stamp_agree_with_each_by_itself() {
        let clock = StampClock::new(SystemClock::new());
        for _ in 0..1_000 {
            let (before, at, after) = (clock.mono(), clock.at(), clock.mono());
            assert!(before <= at.mono && at.mono <= after);
        }
    }

    #[test]
    fn a_stamp_looks_at_the_wall_again_once_its_look_is_old() {
        let clock = StampClock::new(SystemClock::new());
        let wall = |at: At| at.wall.0;
        // What was seen an hour ago is not trusted, whatever it was.
        clock.ahead_ms.store(7, Ordering::Relaxed);
        clock.read_at.store(0, Ordering::Relaxed);
        let (before, at, after) = (clock.wall().0, wall(clock.at()), clock.wall().0);
        assert!(before <= at && at <= after + 1, "{before} <= {at} <= {after}");
    }
}
