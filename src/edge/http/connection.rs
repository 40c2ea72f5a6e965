//! What the I/O, the requests and the registry tell each other about one connection.

use super::framing::Flaw;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};
use tokio::time::{Duration, Instant};

/// In place of an idle time, plus their number: requests are in progress.
const BUSY: u64 = 1 << 63;
/// In place of an idle time: the connection was chosen to make room.
const EVICTED: u64 = u64::MAX;
/// In place of a flawed request's number: there is none.
const NO_FLAW: u64 = u64::MAX;

/// What the I/O, the requests and the registry share about one connection.
///
/// All fields are independent facts, each read and changed by single atomic steps; no other memory is published through
/// them, so `Relaxed` is enough.
#[derive(Debug)]
pub(super) struct Connection {
    opened: Instant,
    /// Milliseconds from `opened` to the last moment without a request in progress, or [`BUSY`] and how many are, or
    /// [`EVICTED`].
    idle_since_ms: AtomicU64,
    requests: AtomicU64,
    /// `request << 1 | kind`.
    flaw: AtomicU64,
    last_answer: AtomicBool,
    close_idle: AtomicBool,
    /// Wakes the connection's task when one of the above was changed by somebody else.
    task: Mutex<Option<Waker>>,
}

impl Connection {
    pub(super) fn new(opened: Instant) -> Self {
        Self {
            opened,
            idle_since_ms: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            flaw: AtomicU64::new(NO_FLAW),
            last_answer: AtomicBool::new(false),
            close_idle: AtomicBool::new(false),
            task: Mutex::new(None),
        }
    }

    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// A request's headers have arrived whole. Its number, from 1; `None` when the connection is being closed to make room.
    pub(super) fn begin_request(&self) -> Option<u64> {
        let one_more = |state| match state {
            EVICTED => None,
            busy if busy >= BUSY => Some(busy + 1),
            _ => Some(BUSY + 1),
        };
        let claimed = self.idle_since_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        claimed.ok().map(|_| self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The answer was handed to hyper.
    pub(super) fn end_request(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(BUSY).min(BUSY - 1);
        let one_less = |state| match state {
            EVICTED => None,
            busy if busy > BUSY + 1 => Some(busy - 1),
            busy if busy == BUSY + 1 => Some(now),
            _ => None,
        };
        let _ = self.idle_since_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }

    /// The request that was begun last was not looked at after all, and is to begin once more.
    pub(super) fn take_back_request(&self) {
        self.end_request();
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request that was answered within one step of the connection's task, so many milliseconds after it was
    /// opened. False when the connection is being closed to make room, or has a request in progress: then there was none.
    pub(super) fn answer_at_once(&self, since_opened_ms: u64) -> bool {
        let idle = |state: u64| (state < BUSY).then_some(since_opened_ms.min(BUSY - 1));
        let answered = self.idle_since_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, idle).is_ok();
        if answered {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        answered
    }

    /// Requests begun so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Since when no request has been in progress; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        match self.idle_since_ms.load(Ordering::Relaxed) {
            EVICTED => Some(self.opened),
            busy if busy >= BUSY => None,
            ms => Some(self.opened + Duration::from_millis(ms)),
        }
    }

    /// Notes the first flawed request.
    pub(super) fn set_flaw(&self, request: u64, flaw: Flaw) {
        let kind = match flaw {
            Flaw::Ambiguous => 0,
            Flaw::HeadersTooLarge => 1,
        };
        self.flaw.store(request << 1 | kind, Ordering::Relaxed);
    }

    /// The flaw of this request, if it or one before it is flawed.
    pub(super) fn flaw_of(&self, request: u64) -> Option<Flaw> {
        let flaw = self.flaw.load(Ordering::Relaxed);
        if flaw == NO_FLAW || flaw >> 1 > request {
            return None;
        }
        Some(if flaw & 1 == 0 { Flaw::Ambiguous } else { Flaw::HeadersTooLarge })
    }

    /// From now on an answer is the connection's last.
    pub(super) fn end_with_next_answer(&self) {
        self.last_answer.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.last_answer.load(Ordering::Relaxed)
    }

    /// From now on waiting for a request, or for the rest of a head, is the end of the connection.
    pub(super) fn close_when_idle(&self) {
        self.close_idle.store(true, Ordering::Relaxed);
    }

    pub(super) fn closes_when_idle(&self) -> bool {
        self.close_idle.load(Ordering::Relaxed)
    }

    /// Whether the connection has to make room.
    pub(super) fn is_evicted(&self) -> bool {
        self.idle_since_ms.load(Ordering::Relaxed) == EVICTED
    }

    /// From now on `waker` is woken by whatever others order. What they ordered before is seen by whoever looks after this:
    /// both sides take the lock, one before the look, the other after the order.
    pub(super) fn wake_by(&self, waker: &Waker) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Makes the connection's task look.
    pub(super) fn wake(&self) {
        let waker = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Chooses the connection to make room, unless a request is in progress.
    pub(super) fn evict(&self) -> bool {
        let idle = |state: u64| (state < BUSY).then_some(EVICTED);
        let won = self.idle_since_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, idle).is_ok();
        if won {
            self.wake();
        }
        won
    }

    /// Runs what comes before the first request. `None` when the connection has to make room, or nobody waits for requests
    /// any more.
    pub(super) async fn while_wanted<T>(&self, entering: impl Future<Output = T>) -> Option<T> {
        let mut entering = pin!(entering);
        poll_fn(|cx| {
            self.wake_by(cx.waker());
            if self.is_evicted() || self.closes_when_idle() {
                return Poll::Ready(None);
            }
            entering.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_idle_when_the_last_of_its_requests_has_ended() {
        let connection = Connection::new(Instant::now());
        assert_eq!((connection.begin_request(), connection.begin_request()), (Some(1), Some(2)));
        connection.end_request();
        assert!(connection.idle_since().is_none() && !connection.evict(), "one is still in progress");
        assert!(!connection.answer_at_once(0));
        connection.end_request();
        assert!(connection.idle_since().is_some() && connection.answer_at_once(0));
        assert_eq!(connection.requests(), 3);
        assert_eq!(connection.begin_request(), Some(4));
        connection.take_back_request();
        assert_eq!((connection.requests(), connection.idle_since().is_some()), (3, true));
        assert!(connection.evict() && connection.is_evicted());
        assert_eq!(connection.begin_request(), None);
        connection.end_request();
        assert!(connection.is_evicted(), "an evicted connection stays evicted");
    }

    #[test]
    fn a_flaw_holds_for_its_request_and_later_ones() {
        let connection = Connection::new(Instant::now());
        assert_eq!(connection.flaw_of(1), None);
        connection.set_flaw(2, Flaw::HeadersTooLarge);
        assert_eq!(connection.flaw_of(1), None);
        assert_eq!(connection.flaw_of(2), Some(Flaw::HeadersTooLarge));
        assert_eq!(connection.flaw_of(3), Some(Flaw::HeadersTooLarge));
    }
}
