//! A clock that moves when a test moves it.

use rendezvous::admission::{Clock, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Where every test begins.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

type Call = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    now_ms: u64,
    next: u64,
    calls: Vec<(u64, u64, Call)>,
}

/// See the module's documentation. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<Mutex<State>>);

impl ManualClock {
    pub(crate) fn new() -> Self {
        let clock = Self::default();
        clock.0.lock().unwrap().now_ms = START.0;
        clock
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp(self.0.lock().unwrap().now_ms)
    }

    pub(crate) fn set(&self, at: Timestamp) {
        self.0.lock().unwrap().now_ms = at.0;
    }

    /// Moves on and makes the calls that have become due.
    pub(crate) fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.0.lock().unwrap();
            state.now_ms += u64::try_from(by.as_millis()).unwrap();
            let now = state.now_ms;
            let (due, waiting) = std::mem::take(&mut state.calls).into_iter().partition(|(at, ..)| *at <= now);
            state.calls = waiting;
            let due: Vec<(u64, u64, Call)> = due;
            due
        };
        due.into_iter().for_each(|(_, _, call)| call());
    }

    pub(crate) fn timers(&self) -> usize {
        self.0.lock().unwrap().calls.len()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        self.time().to_system()
    }

    fn after(&self, delay: Duration, run: Call) -> Box<dyn FnOnce() -> bool + Send> {
        let mut state = self.0.lock().unwrap();
        state.next += 1;
        let number = state.next;
        let at = state.now_ms + u64::try_from(delay.as_millis()).unwrap();
        state.calls.push((at, number, run));
        let clock = self.clone();
        Box::new(move || {
            let mut state = clock.0.lock().unwrap();
            let before = state.calls.len();
            state.calls.retain(|(_, known, _)| *known != number);
            state.calls.len() < before
        })
    }
}

/// Another process's clock: the same one, off by so much.
#[derive(Clone)]
pub(crate) struct Skewed(pub ManualClock, pub i64);

impl Clock for Skewed {
    fn now(&self) -> SystemTime {
        Timestamp(self.0.time().0.saturating_add_signed(self.1)).to_system()
    }

    fn after(&self, delay: Duration, run: Call) -> Box<dyn FnOnce() -> bool + Send> {
        self.0.after(delay, run)
    }
}
