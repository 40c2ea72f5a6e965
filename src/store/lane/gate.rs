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

/// How long a caller waits for a busy lane before it queues. Waiting without touching the word lets the holder go on at
/// full speed, with its caches warm. Models queue at once.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// Doublings of one spin-loop hint.
    doublings: u32,
    /// Then, times that the core is offered to others: the holder may be one that waits for it.
    yields: u32,
}

impl Patience {
    const NONE: Self = Self { doublings: 0, yields: 0 };
    /// For tasks, whose thread has others to run and for whom being woken is cheap: about a microsecond.
    pub(crate) const TASK: Self = if cfg!(loom) { Self::NONE } else { Self { doublings: 5, yields: 0 } };
    /// For threads that block, for whom being woken takes tens of microseconds: about as long as that.
    pub(crate) const THREAD: Self = if cfg!(loom) { Self::NONE } else { Self { doublings: 8, yields: 32 } };
}

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

    /// Takes the lane if it becomes free in time.
    pub(crate) fn enter_within(&self, patience: Patience) -> bool {
        if self.enter() {
            return true;
        }
        // Looked at first, so that the holder keeps the word's cache line; `enter` orders.
        let enter = || !matches!(self.0.load(Ordering::Relaxed), BUSY | BUSY_WITH_WORK) && self.enter();
        let spun = (0..patience.doublings).any(|doubling| {
            (0..1_u32 << doubling).for_each(|_| std::hint::spin_loop());
            enter()
        });
        spun || (0..patience.yields).any(|_| {
            std::thread::yield_now();
            enter()
        })
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
