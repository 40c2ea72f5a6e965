//! Whether the command plane's store answers and takes writes, for readiness: a full disk, a file that somebody else holds locked and
//! a database that may only be read still answer reads.

use crate::admission::{StoreError, Unavailable};
use crate::domain::MonoTime;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long one look at readiness waits for the store; probes of orchestrators commonly wait for a second.
pub(super) const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Between two writes that only probe: anybody may look, and each costs a sync of the disk.
const WRITE_EVERY_MS: u64 = 2_000;
/// For how long no probing write may have got through before the store counts as one that can't be written: a disk that
/// stalls for a moment takes no process out of service.
const WRITE_PATIENCE_MS: u64 = 3_000;

/// What keeps the command plane's store from being of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFlaw {
    /// It does not answer.
    Silent,
    /// It answers, and takes no writes.
    Unwritable,
}

/// How long a look counts: far less than what probes leave between two, or need to decide.
const LOOK_FRESH_MS: u64 = 250;

/// The last look at the store. Anybody may ask for readiness, as often as it likes, and each look takes a place in the
/// store's queue: so one at a time is made, and serves all who asked meanwhile or soon after.
#[derive(Default)]
pub(super) struct Looks {
    /// When it was asked for, and what it found.
    last: tokio::sync::Mutex<Option<(MonoTime, Look)>>,
    /// Looks so far. Changed under the lock, which orders it.
    count: AtomicU64,
}

/// What a look found.
type Look = Result<(), StoreFlaw>;

impl Looks {
    pub(super) async fn ask(&self, now: MonoTime, look: impl Future<Output = Look>) -> Look {
        let before = self.count.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if let Some((at, found)) = *last
            && (self.count.load(Ordering::Relaxed) != before || !at.plus_ms(LOOK_FRESH_MS).is_past(now))
        {
            return found;
        }
        let found = look.await;
        self.count.fetch_add(1, Ordering::Relaxed);
        *last = Some((now, found));
        found
    }
}

/// Remembers how the last probing write went.
#[derive(Debug, Default)]
pub(super) struct WriteProbe(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_asking: bool,
    asked_at: Option<MonoTime>,
    /// Since when none has got through of those that were asked.
    unsure_since: Option<MonoTime>,
    has_failed: bool,
}

impl State {
    /// Whether to ask now; one at a time.
    fn begin(&mut self, now: MonoTime) -> bool {
        let is_due = self.asked_at.is_none_or(|at| now.ms_since(at) >= WRITE_EVERY_MS);
        let begins = is_due && !self.is_asking;
        if begins {
            (self.is_asking, self.asked_at) = (true, Some(now));
            self.unsure_since.get_or_insert(now);
        }
        begins
    }

    fn end(&mut self, result: &Result<(), StoreError>) {
        self.is_asking = false;
        match result {
            Ok(()) => (self.unsure_since, self.has_failed) = (None, false),
            // Busy for a moment, or because nothing gets through: time tells.
            Err(StoreError::Unavailable(Unavailable { overloaded: true, .. })) => {}
            Err(_) => self.has_failed = true,
        }
    }

    fn holds(&self, now: MonoTime) -> bool {
        !self.has_failed && self.unsure_since.is_none_or(|since| now.ms_since(since) < WRITE_PATIENCE_MS)
    }
}

impl WriteProbe {
    /// Whether writes get through, as far as is known at `now`. Asks `write` where that was long ago, and waits for it up to
    /// [`PROBE_WAIT`]; it goes on by itself.
    pub(super) async fn holds<W>(&self, now: MonoTime, write: impl FnOnce() -> W) -> bool
    where
        W: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let begins = lock(&self.0).begin(now);
        if begins {
            let (state, writing) = (Arc::clone(&self.0), write());
            let asking = tokio::spawn(async move {
                let result = writing.await;
                lock(&state).end(&result);
            });
            // Dropping the handle ends nothing.
            let _in_time = tokio::time::timeout(PROBE_WAIT, asking).await;
        }
        lock(&self.0).holds(now)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Each change is a few assignments, none of which panics.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    const START: MonoTime = MonoTime(1_000_000_000);

    #[tokio::test]
    async fn one_look_serves_all_who_ask_at_a_time() {
        let (looks, made) = (Looks::default(), AtomicU64::new(0));
        let ask = |ms, found| {
            let made = &made;
            looks.ask(START.plus_ms(ms), async move {
                made.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                found
            })
        };
        let flawed = Err(StoreFlaw::Silent);
        // The last of them asked long after the first did, while its look was still under way.
        assert_eq!(tokio::join!(ask(0, Ok(())), ask(1, flawed), ask(9_000, flawed)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert_eq!(ask(LOOK_FRESH_MS - 1, flawed).await, Ok(()), "soon after");
        assert_eq!(ask(LOOK_FRESH_MS, flawed).await, flawed, "it looks again");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    fn failed() -> Result<(), StoreError> {
        Err(Unavailable::nothing_happened("disk full").into())
    }

    #[tokio::test]
    async fn a_write_that_fails_is_a_flaw_until_one_gets_through() {
        let probe = WriteProbe::default();
        assert!(!probe.holds(START, || ready(failed())).await);
        let soon = START.plus_ms(WRITE_EVERY_MS - 1);
        assert!(!probe.holds(soon, || -> std::future::Ready<_> { unreachable!("too soon to ask again") }).await);
        assert!(probe.holds(START.plus_ms(WRITE_EVERY_MS), || ready(Ok(()))).await);
        assert!(probe.holds(START.plus_ms(3_600_000), || ready(Ok(()))).await, "nobody looked for an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_hangs_is_a_flaw_after_a_while_and_is_not_asked_twice() {
        let probe = WriteProbe::default();
        assert!(probe.holds(START, pending).await);
        let never = || -> std::future::Ready<_> { unreachable!("one at a time") };
        assert!(probe.holds(START.plus_ms(WRITE_PATIENCE_MS - 1), never).await);
        assert!(!probe.holds(START.plus_ms(WRITE_PATIENCE_MS), never).await);
    }

    #[tokio::test]
    async fn a_queue_that_is_full_for_long_is_a_flaw_and_for_a_moment_is_none() {
        let probe = WriteProbe::default();
        let full = || ready(Err(StoreError::from(Unavailable::overloaded())));
        assert!(probe.holds(START, full).await);
        assert!(probe.holds(START.plus_ms(WRITE_EVERY_MS), full).await);
        assert!(!probe.holds(START.plus_ms(2 * WRITE_EVERY_MS), full).await);
        assert!(probe.holds(START.plus_ms(3 * WRITE_EVERY_MS), || ready(Ok(()))).await);
    }
}
