//! A clock that only moves when a test says so.

use rendezvous::clock::Clock;
use rendezvous::domain::{MonoTime, WallTime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Monotonic start: late enough that "three minutes ago" can be expressed.
const MONO_START: u64 = 10_000_000_000_000;
/// Wall start, in Unix milliseconds.
const WALL_START: u64 = 1_700_000_000_000;

/// Shared by the store and the test; the two times move separately (rule C1).
#[derive(Clone, Debug)]
pub(crate) struct ManualClock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    mono: AtomicU64,
    wall: AtomicU64,
    panics_next: AtomicBool,
}

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Hands {
            mono: AtomicU64::new(MONO_START),
            wall: AtomicU64::new(WALL_START),
            panics_next: AtomicBool::new(false),
        }))
    }

    pub(crate) fn now(&self) -> MonoTime {
        MonoTime(self.0.mono.load(Ordering::SeqCst))
    }

    pub(crate) fn wall_now(&self) -> WallTime {
        WallTime(self.0.wall.load(Ordering::SeqCst))
    }

    /// Moves both times; wall time is counted in whole milliseconds.
    pub(crate) fn advance_ns(&self, ns: u64) {
        self.0.mono.fetch_add(ns, Ordering::SeqCst);
        self.0.wall.fetch_add(ns / 1_000_000, Ordering::SeqCst);
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        self.advance_ns(ms * 1_000_000);
    }

    /// Moves monotonic time to `target`; a target in the past leaves it.
    pub(crate) fn advance_to(&self, target: MonoTime) {
        self.advance_ns(target.0.saturating_sub(self.now().0));
    }

    /// What no real clock does; a store must not follow it.
    pub(crate) fn rewind_ms(&self, ms: u64) {
        self.0.mono.fetch_sub(ms * 1_000_000, Ordering::SeqCst);
    }

    /// Steps only the wall clock.
    pub(crate) fn set_wall(&self, wall: WallTime) {
        self.0.wall.store(wall.0, Ordering::SeqCst);
    }

    /// The next reading of monotonic time panics, once.
    pub(crate) fn panic_next(&self) {
        self.0.panics_next.store(true, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn mono(&self) -> MonoTime {
        assert!(!self.0.panics_next.swap(false, Ordering::SeqCst), "the clock was armed to panic here");
        self.now()
    }

    fn wall(&self) -> WallTime {
        self.wall_now()
    }
}
