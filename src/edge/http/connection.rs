//! Connections: how many there may be, which one goes first, and what the I/O and the requests of one tell each other.

use super::framing::Flaw;
use crate::domain::Source;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use tokio::time::{Duration, Instant};

/// In place of an idle time: a request is in progress.
const BUSY: u64 = u64::MAX;
/// In place of an idle time: the connection was chosen to make room.
const EVICTED: u64 = u64::MAX - 1;
/// In place of a flawed request's number: there is none.
const NO_FLAW: u64 = u64::MAX;

/// What the I/O, the requests and the registry share about one connection.
///
/// All fields are independent facts, each read and changed by single atomic steps; no other memory is published through
/// them, so `Relaxed` is enough. The requests of one connection follow each other in one task.
#[derive(Debug)]
pub(super) struct Connection {
    opened: Instant,
    /// Milliseconds from `opened` to the last moment without a request in progress, or [`BUSY`], or [`EVICTED`].
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
        let claimed = self
            .idle_since_ms
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| (state != EVICTED).then_some(BUSY));
        claimed.ok().map(|_| self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The answer was handed to hyper.
    pub(super) fn end_request(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(EVICTED - 1);
        let _ = self.idle_since_ms.compare_exchange(BUSY, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts a request that was answered within one step of the connection's task, so many milliseconds after it was
    /// opened. False when the connection is being closed to make room, or has a request in progress: then there was none.
    pub(super) fn answer_at_once(&self, since_opened_ms: u64) -> bool {
        let idle = |state: u64| (state != EVICTED && state != BUSY).then_some(since_opened_ms.min(EVICTED - 1));
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
            BUSY => None,
            EVICTED => Some(self.opened),
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
    fn wake(&self) {
        let waker = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn evict(&self, seen: u64) -> bool {
        let won = self.idle_since_ms.compare_exchange(seen, EVICTED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if won {
            self.wake();
        }
        won
    }
}

/// All open connections, against the ceilings.
pub(super) struct Registry {
    max: usize,
    max_per_source: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<u64, Entry>,
    next: u64,
    /// Connections that count: all but those with a waiting long poll, which have a ceiling of their own.
    counted: usize,
    per_source: HashMap<Source, usize>,
    /// What has been ordered of all connections, those to come included.
    last_answer: bool,
    close_idle: bool,
}

struct Entry {
    connection: Arc<Connection>,
    /// `None` for a trusted proxy, which stands for many sources.
    source: Option<Source>,
    counted: bool,
}

impl Registry {
    pub(super) fn new(max: usize, max_per_source: usize) -> Arc<Self> {
        Arc::new(Self { max, max_per_source, inner: Mutex::new(Inner::default()) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The lock guards counts only; a panic between two of its lines can't leave them worse than off by one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in, closing the longest idle one for it at a ceiling. `None` when every other one is busy.
    pub(super) fn admit(self: &Arc<Self>, connection: Arc<Connection>, source: Option<Source>) -> Option<Admission> {
        let mut inner = self.lock();
        inner.make_room(self.max, self.max_per_source, source, None).then(|| {
            let id = inner.next;
            inner.next += 1;
            inner.order(&connection);
            inner.entries.insert(id, Entry { connection, source, counted: false });
            inner.count(id);
            Admission { registry: Arc::clone(self), id }
        })
    }

    /// From now on an answer is its connection's last.
    pub(super) fn end_all_with_next_answer(&self) {
        let mut inner = self.lock();
        inner.last_answer = true;
        inner.order_all();
    }

    /// From now on also waiting for a request is its connection's end.
    pub(super) fn close_all_when_idle(&self) {
        let mut inner = self.lock();
        (inner.last_answer, inner.close_idle) = (true, true);
        inner.order_all();
    }

    /// Open connections that count against the ceiling.
    #[cfg(test)]
    fn counted(&self) -> usize {
        self.lock().counted
    }

    /// Open connections, long polls included.
    pub(super) fn open(&self) -> usize {
        self.lock().entries.len()
    }
}

impl Inner {
    fn order(&self, connection: &Connection) {
        if self.last_answer {
            connection.end_with_next_answer();
        }
        if self.close_idle {
            connection.close_when_idle();
        }
    }

    fn order_all(&self) {
        for entry in self.entries.values() {
            self.order(&entry.connection);
            entry.connection.wake();
        }
    }

    /// Evicts at most one connection for each ceiling that is reached. Costs a scan over the connections, only at a ceiling.
    fn make_room(&mut self, max: usize, max_per_source: usize, source: Option<Source>, but: Option<u64>) -> bool {
        let of_source = source.and_then(|source| self.per_source.get(&source)).copied().unwrap_or(0);
        let source_ok = of_source < max_per_source || self.evict_longest_idle(source, but);
        source_ok && (self.counted < max || self.evict_longest_idle(None, but))
    }

    fn evict_longest_idle(&mut self, source: Option<Source>, but: Option<u64>) -> bool {
        loop {
            let longest = self
                .entries
                .iter()
                .filter(|(id, entry)| {
                    entry.counted && Some(**id) != but && (source.is_none() || entry.source == source)
                })
                .filter_map(|(id, entry)| Some((entry.connection.idle_since()?, *id, &entry.connection)))
                .min_by_key(|(at, id, _)| (*at, *id));
            let Some((_, id, connection)) = longest else { return false };
            let seen = connection.idle_since_ms.load(Ordering::Relaxed);
            let won = seen != BUSY && connection.evict(seen);
            if won {
                self.uncount(id);
                return true;
            }
        }
    }

    fn count(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| !entry.counted) else { return };
        entry.counted = true;
        self.counted += 1;
        if let Some(source) = entry.source {
            *self.per_source.entry(source).or_default() += 1;
        }
    }

    fn uncount(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.counted) else { return };
        entry.counted = false;
        self.counted -= 1;
        let Some(source) = entry.source else { return };
        if let Some(count) = self.per_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.per_source.remove(&source);
            }
        }
    }
}

/// A connection's place; given back when dropped.
pub(super) struct Admission {
    registry: Arc<Registry>,
    id: u64,
}

impl Admission {
    /// Moves the connection out of the connection ceilings for as long as a long poll waits on it.
    pub(super) fn long_poll(&self) -> LongPoll<'_> {
        self.registry.lock().uncount(self.id);
        LongPoll { admission: self }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        inner.uncount(self.id);
        inner.entries.remove(&self.id);
    }
}

/// A waiting long poll. At its end its connection counts again: another idle one makes room, or the ceiling is passed by
/// one until this connection ends, so at most by the ceiling of long polls.
pub(super) struct LongPoll<'a> {
    admission: &'a Admission,
}

impl Drop for LongPoll<'_> {
    fn drop(&mut self) {
        let registry = &self.admission.registry;
        let mut inner = registry.lock();
        let source = inner.entries.get(&self.admission.id).and_then(|entry| entry.source);
        inner.make_room(registry.max, registry.max_per_source, source, Some(self.admission.id));
        inner.count(self.admission.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> Option<Source> {
        Some(Source::V4(n))
    }

    fn open(registry: &Arc<Registry>, from: u32, age_ms: u64) -> Option<(Arc<Connection>, Admission)> {
        let connection = Arc::new(Connection::new(Instant::now() - Duration::from_millis(age_ms)));
        registry.admit(Arc::clone(&connection), source(from)).map(|admission| (connection, admission))
    }

    fn is_evicted(connection: &Connection) -> bool {
        connection.begin_request().is_none()
    }

    #[test]
    fn at_the_ceiling_the_longest_idle_connection_goes_first() {
        let registry = Registry::new(3, 3);
        let (oldest, _a) = open(&registry, 1, 3_000).unwrap();
        let (middle, _b) = open(&registry, 2, 2_000).unwrap();
        let (newest, _c) = open(&registry, 3, 1_000).unwrap();
        oldest.begin_request();
        let (_, _d) = open(&registry, 4, 0).unwrap();
        assert!(is_evicted(&middle), "the oldest is busy, the next oldest goes");
        assert!(!is_evicted(&oldest) && !is_evicted(&newest));
        assert_eq!(registry.counted(), 3);
        middle.end_request();
        assert!(is_evicted(&middle), "an evicted connection stays evicted");
    }

    #[test]
    fn nobody_is_let_in_when_all_others_are_busy() {
        let registry = Registry::new(1, 1);
        let (busy, _a) = open(&registry, 1, 10).unwrap();
        busy.begin_request();
        assert!(open(&registry, 2, 0).is_none());
        busy.end_request();
        assert!(open(&registry, 2, 0).is_some());
    }

    #[test]
    fn one_source_makes_room_among_its_own() {
        let registry = Registry::new(10, 2);
        let (other, _a) = open(&registry, 1, 9_000).unwrap();
        let (first, _b) = open(&registry, 2, 2_000).unwrap();
        let (_second, _c) = open(&registry, 2, 1_000).unwrap();
        let (_third, _d) = open(&registry, 2, 0).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&other));
        let proxies: Vec<_> = (0..5)
            .map(|_| {
                registry.admit(Arc::new(Connection::new(Instant::now())), None).expect("a trusted proxy has no source")
            })
            .collect();
        assert_eq!(registry.open(), 9);
        drop(proxies);
        assert_eq!(registry.open(), 4);
    }

    #[test]
    fn case_q9_a_million_sources_one_after_the_other_leave_nothing() {
        let registry = Registry::new(64, 8);
        let mut open = std::collections::VecDeque::new();
        for source in 0..1_000_000 {
            // Half of them stay until others push them out.
            let connection = Arc::new(Connection::new(Instant::now()));
            let admission = registry.admit(Arc::clone(&connection), Some(Source::V4(source))).expect("others are idle");
            if source % 2 == 0 {
                open.push_back(admission);
            }
            if open.len() > 64 {
                open.pop_front();
            }
        }
        assert!(registry.counted() <= 64 && registry.lock().per_source.len() <= 64);
        drop(open);
        let inner = registry.lock();
        assert_eq!((inner.counted, inner.entries.len(), inner.per_source.len()), (0, 0, 0));
        assert!(inner.entries.capacity() + inner.per_source.capacity() <= 1_024, "tables of the ceiling's size");
    }

    #[test]
    fn a_waiting_long_poll_does_not_count_and_its_connection_counts_again_after() {
        let registry = Registry::new(1, 1);
        let (waiting, admission) = open(&registry, 1, 10).unwrap();
        waiting.begin_request();
        let poll = admission.long_poll();
        assert_eq!((registry.counted(), registry.open()), (0, 1));
        let (idle, _other) = open(&registry, 1, 5).unwrap();
        drop(poll);
        assert!(is_evicted(&idle), "the one that returns takes the place of an idle one");
        assert_eq!(registry.counted(), 1);
        drop(admission);
        assert_eq!(registry.counted(), 0);
        assert!(registry.lock().per_source.is_empty(), "no entry outlives its connections");
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
