//! What is true of each listing, as far as its owner knows: written before a command is submitted and again after its
//! answer, and read by browsers before and after a page.

use crate::support::*;
use rendezvous::domain::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Places for listings; each has one listing at a time.
pub(crate) const SLOTS: usize = 320;
/// Listings of one principal, spread over the scopes.
pub(crate) const FAMILY: usize = 4;
/// The scope of slot `n` is number `n % SCOPES`.
pub(crate) const SCOPES: usize = 2;

/// An instant that is known within bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) at_least: MonoTime,
    pub(crate) at_most: MonoTime,
}

impl Span {
    /// Nothing is known.
    pub(crate) const ANY: Self = Self { at_least: MonoTime(0), at_most: MonoTime(u64::MAX) };

    pub(crate) fn exactly(at: MonoTime) -> Self {
        Self { at_least: at, at_most: at }
    }
}

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Truth {
    /// Counts the listings that this slot has had.
    pub(crate) generation: u64,
    pub(crate) id: Option<ListingId>,
    /// Counts the commands begun; while one is under way, what it changes is unknown.
    pub(crate) begun: u64,
    pub(crate) is_under_way: bool,
    /// Counts the commands begun that take it out of pages, and those that end it.
    pub(crate) hides: u64,
    pub(crate) ends: u64,
    /// The commit of the last of `hides`, once it is acknowledged.
    pub(crate) hidden_by: Option<u64>,
    /// The owner knows that it is gone.
    pub(crate) is_over: bool,
    /// It is in pages of this commit and later, while its deadlines last and nothing hides it.
    pub(crate) public_since: Option<u64>,
    /// The same for being found by its id.
    pub(crate) fresh_since: Option<u64>,
    pub(crate) lease: Span,
    pub(crate) presence: Span,
    /// The number in its name and the commit that gave it.
    pub(crate) named: (u64, u64),
    /// The last number in a name that was submitted.
    pub(crate) newest_name: u64,
}

impl Truth {
    /// It is fresh at least until here.
    pub(crate) fn earliest_end(&self) -> MonoTime {
        self.lease.at_least.min(self.presence.at_least)
    }
}

/// All slots, and what paces the clock and the ticker.
pub(crate) struct Board {
    slots: Vec<Mutex<Truth>>,
    /// Commands and pages so far.
    pub(crate) steps: AtomicU64,
    /// Writers that wait for a publication.
    pub(crate) waiting: AtomicU64,
    /// The drain deadline, once it is acknowledged.
    pub(crate) drain: AtomicU64,
}

/// What was known at one moment.
pub(crate) struct Moment {
    /// Read before the truths.
    pub(crate) now: MonoTime,
    pub(crate) drain: Option<MonoTime>,
    /// The truths of the slots of one scope, from slot number `scope` on in steps of [`SCOPES`].
    truths: Vec<Truth>,
    scope: usize,
}

impl Moment {
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, &Truth)> {
        self.truths.iter().enumerate().map(|(n, truth)| (n * SCOPES + self.scope, truth))
    }

    #[track_caller]
    pub(crate) fn of(&self, slot: usize) -> &Truth {
        assert_eq!(slot % SCOPES, self.scope, "a row of another scope");
        &self.truths[slot / SCOPES]
    }
}

impl Board {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            steps: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            drain: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self, slot: usize) -> MutexGuard<'_, Truth> {
        self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a command on `slot` is about to be submitted.
    pub(crate) fn begin(&self, slot: usize, note: impl FnOnce(&mut Truth)) {
        let mut truth = self.lock(slot);
        truth.begun += 1;
        truth.is_under_way = true;
        note(&mut truth);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes what the answer says.
    pub(crate) fn end(&self, slot: usize, note: impl FnOnce(&mut Truth)) {
        let mut truth = self.lock(slot);
        truth.is_under_way = false;
        note(&mut truth);
    }

    pub(crate) fn drain(&self) -> Option<MonoTime> {
        Some(MonoTime(self.drain.load(Ordering::SeqCst))).filter(|deadline| deadline.0 != 0)
    }

    pub(crate) fn moment(&self, clock: &ManualClock, scope: usize) -> Moment {
        let (now, drain) = (clock.now(), self.drain());
        let truths = (scope..SLOTS).step_by(SCOPES).map(|slot| *self.lock(slot)).collect();
        Moment { now, drain, truths, scope }
    }
}
