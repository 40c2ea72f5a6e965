//! The lane's gate: who may write, decided by read-modify-writes of one word.
//!
//! Whoever finds the lane idle holds it; whoever finds it busy leaves word that there is work, and the holder may not
//! leave before it has looked again. All of it happens on one atomic, so the order of its modifications is total:
//!
//! * `poke` after `leave`: the word is idle, so the poker holds the lane and sees its own work.
//! * `poke` before `leave`: `leave` finds the word changed, fails, and the holder looks again. The poke's release and
//!   the failed leave's acquire make the queued work visible to it.
//!
//! There is no third case, so nothing queued is ever left behind. Model `nothing_is_lost`: replacing the compare-and-swap
//! of `leave` by a store of `IDLE` makes it fail.
//!
//! A holder that has served its share leaves the rest to others with `hand_over`: the word then says that there is work
//! and nobody at it. Every way in (`enter`, `poke`, `take_over`) takes it from there with the duty to serve, and the
//! holder that left wakes one of those who wait. Model `a_handed_over_lane_is_taken`: not waking makes it fail.

use crate::sync::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const BUSY: u32 = 1;
const BUSY_WITH_WORK: u32 = 2;
const WORK_AND_NOBODY: u32 = 3;

/// Looks at a busy lane before a caller queues: one to a few microseconds, longer than most transitions take, and less
/// than queueing and being woken costs. Models queue at once.
#[cfg(not(loom))]
const PATIENCE: u32 = 48;
#[cfg(loom)]
const PATIENCE: u32 = 0;

pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Takes the lane if nobody is at it.
    pub(crate) fn enter(&self) -> bool {
        // Acquire: what the last holder wrote is seen. See the module's cases.
        self.0.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() || self.take_over()
    }

    /// Takes the lane if it becomes free within a caller's patience.
    pub(crate) fn enter_soon(&self) -> bool {
        if self.enter() {
            return true;
        }
        for _ in 0..PATIENCE {
            std::hint::spin_loop();
            // Only looked at, so that the holder keeps the word's cache line; `enter` orders.
            if !matches!(self.0.load(Ordering::Relaxed), BUSY | BUSY_WITH_WORK) && self.enter() {
                return true;
            }
        }
        false
    }

    /// Takes a lane that was handed over; the holder's `leave` fails until it has looked at the queues.
    pub(crate) fn take_over(&self) -> bool {
        // Acquire: what the holder that handed over wrote is seen, and what was queued before it did.
        self.0.compare_exchange(WORK_AND_NOBODY, BUSY_WITH_WORK, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Says that there is work. True: nobody was at the lane, and the caller holds it now.
    pub(crate) fn poke(&self) -> bool {
        // Release for the work that was queued, acquire for the case that the caller holds the lane now.
        matches!(self.0.swap(BUSY_WITH_WORK, Ordering::AcqRel), IDLE | WORK_AND_NOBODY)
    }

    /// Leaves the lane. False: there is new work, and the caller still holds the lane.
    pub(crate) fn leave(&self) -> bool {
        // Release: the next holder sees what this one wrote. See the module's cases.
        if self.0.compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Acquire: sees the work of whoever poked.
        self.0.swap(BUSY, Ordering::Acquire);
        false
    }

    /// Leaves the lane although work is queued.
    pub(crate) fn hand_over(&self) {
        // Release for the next holder; acquire so that the work of whoever poked is released along with it.
        self.0.swap(WORK_AND_NOBODY, Ordering::AcqRel);
    }
}
