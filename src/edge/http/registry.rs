//! All open connections against their ceilings: how many there may be, and which one goes first.

use super::connection::Connection;
use crate::domain::{Source, Wait};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{Duration, Instant};

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
    /// Waiting long polls; while there are some the connection counts among them and not here.
    long_polls: usize,
}

/// The ceiling that keeps a connection out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ceiling {
    /// That of its source.
    Source,
    /// That of all connections.
    All,
}

impl Ceiling {
    /// As a label of metrics.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Source => "source_ceiling",
            Self::All => "ceiling",
        }
    }
}

impl Registry {
    pub(super) fn new(max: usize, max_per_source: usize) -> Arc<Self> {
        Arc::new(Self { max, max_per_source, inner: Mutex::new(Inner::default()) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The lock guards counts only; a panic between two of its lines can't leave them worse than off by one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in, closing the longest idle one for it at a ceiling. Refused when every other one is busy.
    pub(super) fn admit(
        self: &Arc<Self>,
        connection: Arc<Connection>,
        source: Option<Source>,
    ) -> Result<Admission, Ceiling> {
        let mut inner = self.lock();
        inner.make_room(self.max, self.max_per_source, source, None)?;
        let id = inner.next;
        inner.next += 1;
        inner.order(&connection);
        inner.entries.insert(id, Entry { connection, source, counted: false, long_polls: 0 });
        inner.count(id);
        Ok(Admission { registry: Arc::clone(self), id })
    }

    /// Closes up to `count` idle connections, the longest idle first, for a reason that is no ceiling of ours. How many.
    pub(super) fn evict_idle(&self, count: usize) -> usize {
        let mut inner = self.lock();
        (0..count).take_while(|_| inner.evict_longest_idle(None, None)).count()
    }

    /// From now on an answer is its connection's last, for connections of at least this age. Those that were opened at one
    /// time end spread over a tenth of it, so that their clients don't all come back at once.
    pub(super) fn end_aged(&self, now: Instant, age: Duration) {
        for (id, entry) in &self.lock().entries {
            let spread = age / 10 * u32::try_from(id % 16).unwrap_or(0) / 16;
            let aged = now.saturating_duration_since(entry.connection.opened()) >= age + spread;
            if aged && !entry.connection.is_ending() {
                entry.connection.end_with_next_answer();
                entry.connection.wake();
            }
        }
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
    fn make_room(
        &mut self,
        max: usize,
        max_per_source: usize,
        source: Option<Source>,
        but: Option<u64>,
    ) -> Result<(), Ceiling> {
        let of_source = source.and_then(|source| self.per_source.get(&source)).copied().unwrap_or(0);
        if of_source >= max_per_source && !self.evict_longest_idle(source, but) {
            return Err(Ceiling::Source);
        }
        if self.counted >= max && !self.evict_longest_idle(None, but) {
            return Err(Ceiling::All);
        }
        Ok(())
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
            if connection.evict() {
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

/// A poll that may wait on a connection. On its way to a place, and without one, the connection counts as any other: so there
/// are never more than the two ceilings allow together.
pub(super) struct MayWait<'a> {
    admission: &'a Admission,
    limit: Duration,
}

impl<'a> Wait for MayWait<'a> {
    type Held = LongPoll<'a>;

    fn limit(&self) -> Duration {
        self.limit
    }

    fn placed(self) -> LongPoll<'a> {
        self.admission.long_poll()
    }
}

impl Admission {
    /// A poll on this connection that may wait so long.
    pub(super) fn may_wait(&self, limit: Duration) -> MayWait<'_> {
        MayWait { admission: self, limit }
    }

    /// Moves the connection out of the connection ceilings for as long as a long poll waits on it.
    fn long_poll(&self) -> LongPoll<'_> {
        let mut inner = self.registry.lock();
        if let Some(entry) = inner.entries.get_mut(&self.id) {
            entry.long_polls += 1;
        }
        inner.uncount(self.id);
        LongPoll { admission: self }
    }

    /// Counts the connection under the source that its proxy told, once that is known. Refused, it keeps its place among
    /// all until it is gone.
    pub(super) fn attribute(&self, source: Source) -> Result<(), Ceiling> {
        let mut inner = self.registry.lock();
        inner.uncount(self.id);
        let room = inner.make_room(self.registry.max, self.registry.max_per_source, Some(source), Some(self.id));
        if room.is_ok()
            && let Some(entry) = inner.entries.get_mut(&self.id)
        {
            entry.source = Some(source);
        }
        inner.count(self.id);
        room
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
        let Some(entry) = inner.entries.get_mut(&self.admission.id) else { return };
        entry.long_polls -= 1;
        if entry.long_polls > 0 {
            return;
        }
        let source = entry.source;
        // Without room the ceiling is passed by this one.
        let _ = inner.make_room(registry.max, registry.max_per_source, source, Some(self.admission.id));
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
        let admission = registry.admit(Arc::clone(&connection), source(from)).ok()?;
        Some((connection, admission))
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
    fn the_longest_idle_ones_are_closed_for_want_of_descriptors_and_no_busy_one() {
        let registry = Registry::new(10, 10);
        let open: Vec<_> = (0..4).map(|n| open(&registry, n, 4_000 - u64::from(n)).unwrap()).collect();
        open[0].0.begin_request();
        assert_eq!(registry.evict_idle(2), 2);
        let evicted = |n: usize| open[n].0.is_evicted();
        assert_eq!([0, 1, 2, 3].map(evicted), [false, true, true, false]);
        assert_eq!(registry.evict_idle(2), 1, "the one that is left idle");
        assert_eq!(registry.counted(), 1);
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
    fn a_connection_with_several_long_polls_counts_again_after_the_last() {
        let registry = Registry::new(1, 1);
        let (_waiting, admission) = open(&registry, 1, 10).unwrap();
        let polls = (admission.long_poll(), admission.long_poll());
        drop(polls.0);
        assert_eq!(registry.counted(), 0);
        drop(polls.1);
        assert_eq!(registry.counted(), 1);
    }

    #[test]
    fn a_source_told_by_a_proxy_counts_from_then_on() {
        let registry = Registry::new(10, 1);
        let behind_proxy = || {
            let connection = Arc::new(Connection::new(Instant::now()));
            (Arc::clone(&connection), registry.admit(connection, None).unwrap())
        };
        let ((first, a), (_second, b)) = (behind_proxy(), behind_proxy());
        assert_eq!(a.attribute(Source::V4(1)), Ok(()));
        first.begin_request();
        assert_eq!(b.attribute(Source::V4(1)), Err(Ceiling::Source), "the only other one is busy");
        assert_eq!(registry.counted(), 2, "who is being refused is still there");
        first.end_request();
        assert_eq!(b.attribute(Source::V4(1)), Ok(()));
        assert!(first.is_evicted());
        drop((a, b));
        assert_eq!((registry.counted(), registry.open()), (0, 0));
    }

    #[test]
    fn aged_connections_end_spread_over_a_tenth_of_their_age() {
        let registry = Registry::new(100, 100);
        let age = Duration::from_secs(600);
        let opened = Instant::now();
        let open: Vec<_> = (0..16)
            .map(|n| {
                let connection = Arc::new(Connection::new(opened));
                (Arc::clone(&connection), registry.admit(connection, source(n)).unwrap())
            })
            .collect();
        let ending = || open.iter().filter(|(connection, _)| connection.is_ending()).count();
        registry.end_aged(opened + age - Duration::from_millis(1), age);
        assert_eq!(ending(), 0);
        registry.end_aged(opened + age, age);
        assert_eq!(ending(), 1);
        registry.end_aged(opened + age + age / 10, age);
        assert_eq!(ending(), 16);
    }
}
