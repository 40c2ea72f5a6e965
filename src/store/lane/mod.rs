//! The writer lane: one writer at a time behind two bounded queues, readers on a published snapshot.
//!
//! There is no writer thread. Whoever finds the lane idle writes at once; whoever finds it busy looks again for a moment
//! and then queues a ticket, and the holder serves the queues before it leaves (flat combining). See `docs/decisions/`
//! for the measurement.
//! A caller has at most one command under way, so nothing is reordered per caller.

mod chunk;
mod gate;
mod publisher;
mod ranks;
mod snapshot;
mod submit;
mod ticket;
mod tree;
mod writer;

use super::{Availability, BrowseQuery, Observer, PageView, Store};
use crate::clock::Clock;
use crate::domain::{
    Certainty, Command, Failure, Limits, ListingId, MonoTime, Rejection, Reply, TenantId, WallTime, limits::LimitsError,
};
use crate::sync::{Arc, AtomicBool, AtomicU64, BoundedQueue, Mutex, Ordering, Swap};
pub(crate) use chunk::Segment;
use gate::{Gate, Patience};
use snapshot::Root;
pub use submit::Submit;
use ticket::{Ticket, Tickets};
use writer::Writer;

/// The lane's own ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Most queued creations; more are `capacity_exceeded`, resource `lane`.
    pub queue_creations: usize,
    /// Most queued keep-alives.
    pub queue_keep_alives: usize,
    /// How often the server ticks: the longest time until an addition is visible.
    pub publish_interval_ms: u32,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self { queue_creations: 4_096, queue_keep_alives: 4_096, publish_interval_ms: 20 }
    }
}

/// See the module's documentation.
pub struct Lane<C: Clock> {
    clock: C,
    gate: Gate,
    /// Locked by whoever holds the gate, so never contended; it carries the exclusion into the type system.
    writer: Mutex<Writer>,
    creations: BoundedQueue<Arc<Ticket>>,
    keep_alives: BoundedQueue<Arc<Ticket>>,
    tickets: Tickets,
    observer: Arc<dyn Observer>,
    cell: Swap<Root>,
    /// For per-thread caches: which lane a cached root belongs to.
    identity: u64,
    commit: AtomicU64,
    /// Set for ever by a panic inside the lane (J1).
    dead: AtomicBool,
    /// Set by a tick that wants a publication.
    tick_wanted: AtomicBool,
    /// The holder publishes on its own once the view is this old and behind.
    publish_interval_ms: u64,
    /// Tasks that wait for a publication, each once; one that gives up stays until the next publication. Bounded by the
    /// requests that an edge lets in within one publish interval.
    waiting: Mutex<Vec<(u64, std::task::Waker)>>,
}

impl<C: Clock> Lane<C> {
    /// An empty store. Refuses limits that would break a promise.
    pub fn new(
        limits: Limits,
        settings: LaneSettings,
        clock: C,
        observer: std::sync::Arc<dyn Observer>,
    ) -> Result<Self, LimitsError> {
        limits.check()?;
        let now = clock.mono();
        let writer = Writer::new(limits, now);
        let cell = writer.cell();
        Ok(Self {
            gate: Gate::new(),
            writer: Mutex::new(writer),
            creations: BoundedQueue::new(settings.queue_creations.max(1)),
            keep_alives: BoundedQueue::new(settings.queue_keep_alives.max(1)),
            tickets: Tickets::new(),
            observer,
            cell,
            identity: next_identity(),
            commit: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            tick_wanted: AtomicBool::new(false),
            publish_interval_ms: settings.publish_interval_ms.into(),
            waiting: Mutex::new(Vec::new()),
            clock,
        })
    }

    /// A reader with a cache of its own, for threads that browse a great deal.
    pub fn reader(&self) -> Reader<'_, C> {
        Reader { lane: self, cached: self.cell.cached() }
    }

    fn is_dead(&self) -> bool {
        // Relaxed: the flag stands for itself; who learns of an `unavailable` answer learns of the store before it.
        self.dead.load(Ordering::Relaxed)
    }

    fn browse_root<R>(
        &self,
        root: &Root,
        query: &BrowseQuery<'_>,
        use_page: impl FnOnce(&PageView<'_>) -> R,
    ) -> Result<R, Failure> {
        // Stamped after the root was loaded (A1).
        let now = self.clock.mono();
        refuse_if_drained(root, now)?;
        Ok(root.page(query, now, use_page))
    }
}

fn refuse_if_drained(root: &Root, now: MonoTime) -> Result<(), Failure> {
    match root.drain {
        Some((deadline, wall)) if deadline.is_past(now) => Err(Rejection::Draining { deadline, wall }.into()),
        Some(_) | None => Ok(()),
    }
}

/// A reader that revalidates its view by one relaxed load per browse.
pub struct Reader<'a, C: Clock> {
    lane: &'a Lane<C>,
    cached: crate::sync::Cached<Root>,
}

impl<C: Clock> Reader<'_, C> {
    /// Like [`Store::browse`].
    pub fn browse<R>(
        &mut self,
        query: &BrowseQuery<'_>,
        use_page: impl FnOnce(&PageView<'_>) -> R,
    ) -> Result<R, Failure> {
        if self.lane.is_dead() {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        self.lane.browse_root(self.cached.load(), query, use_page)
    }

    /// Like [`Reader::browse`] with the reader's instant as an argument.
    pub fn browse_at<R>(
        &mut self,
        now: MonoTime,
        query: &BrowseQuery<'_>,
        use_page: impl FnOnce(&PageView<'_>) -> R,
    ) -> Result<R, Failure> {
        if self.lane.is_dead() {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        let root = self.cached.load();
        refuse_if_drained(root, now)?;
        Ok(root.page(query, now, use_page))
    }

    /// The commit of the view that the next browse reads, at least.
    pub fn commit(&mut self) -> u64 {
        self.cached.load().commit
    }
}

impl<C: Clock> Store for Lane<C> {
    fn submit(&self, command: Command) -> impl Future<Output = Result<Reply, Failure>> + Send {
        Submit::new(self, command)
    }

    fn submit_together(&self, commands: &mut Vec<Command>, answers: &mut Vec<Result<Reply, Failure>>) -> bool {
        self.together_at_once(commands, answers)
    }

    fn submit_at_once(&self, command: Command) -> Option<Result<Reply, Failure>> {
        self.at_once(command, Patience::TASK).ok()
    }

    fn browse<R>(&self, query: &BrowseQuery<'_>, use_page: impl FnOnce(&PageView<'_>) -> R) -> Result<R, Failure> {
        if self.is_dead() {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        with_root(self.identity, &self.cell, |root| self.browse_root(root, query, use_page))
    }

    fn listing<R>(&self, tenant: TenantId, id: ListingId, use_row: impl FnOnce(&[u8], u64) -> R) -> Result<R, Failure> {
        if self.is_dead() {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        with_root(self.identity, &self.cell, |root| {
            let now = self.clock.mono();
            refuse_if_drained(root, now)?;
            root.row(tenant, id, now, |row| use_row(row, root.commit)).ok_or(Failure::Rejected(Rejection::NotFound))
        })
    }

    fn published_commit(&self) -> u64 {
        self.cell.with(|root| root.commit)
    }

    fn last_commit(&self) -> u64 {
        // Relaxed: stored before the publication and the acknowledgement, by one of which a caller learns of the commit.
        self.commit.load(Ordering::Relaxed)
    }

    async fn published(&self, commit: u64) {
        std::future::poll_fn(|context| self.poll_published(commit, context)).await;
    }

    fn availability(&self) -> Availability {
        if self.is_dead() {
            return Availability::Unavailable;
        }
        let drain: Option<(MonoTime, WallTime)> = self.cell.with(|root| root.drain);
        drain.map_or(Availability::Available, |(deadline, wall)| Availability::Draining { deadline, wall })
    }

    fn queued(&self) -> (usize, usize) {
        (self.creations.len(), self.keep_alives.len())
    }

    fn published_at(&self) -> MonoTime {
        self.cell.with(|root| root.published_at)
    }

    fn tick(&self) {
        self.tick_wanted.store(true, Ordering::Relaxed);
        if self.gate.poke() {
            self.serve(None, writer::SLICES_PER_TICK);
        }
    }
}

#[cfg(not(loom))]
fn next_identity() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(loom)]
fn next_identity() -> u64 {
    0
}

/// Runs `f` on the thread's cached root, or on a fresh load where the cache is in use further up the stack.
#[cfg(not(loom))]
fn with_root<R>(identity: u64, cell: &Swap<Root>, f: impl FnOnce(&Root) -> R) -> R {
    use crate::sync::Cached;
    use std::cell::RefCell;
    thread_local! {
        static CACHED: RefCell<Option<(u64, Cached<Root>)>> = const { RefCell::new(None) };
    }
    CACHED.with(|cached| match cached.try_borrow_mut() {
        Ok(mut cached) => match &mut *cached {
            Some((of, cached)) if *of == identity => f(cached.load()),
            other => f(other.insert((identity, cell.cached())).1.load()),
        },
        Err(_in_use) => cell.with(f),
    })
}

#[cfg(loom)]
fn with_root<R>(_identity: u64, cell: &Swap<Root>, f: impl FnOnce(&Root) -> R) -> R {
    cell.with(f)
}
