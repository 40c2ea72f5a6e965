//! Stores: one atomic boundary, two implementations, one contract.
//!
//! [`single_lock::SingleLock`] is the baseline: the state machine under one lock, browsing under that lock.
//! [`lane::Lane`] is the variant: one writer at a time behind two bounded queues, readers on a published snapshot.

pub mod lane;
pub mod page;
mod row;
pub mod single_lock;

use crate::clock::Clock;
use crate::domain::{Command, Event, Failure, ListingId, MonoTime, Reply, TenantId, WallTime};
pub use page::{BrowseQuery, PageView};
use std::future::Future;

/// Hears what transitions did, in commit order, from inside the writer: it must not block and must not call the store.
pub trait Observer: Send + Sync + 'static {
    /// One event of an accepted transition or of its cleanup.
    fn observe(&self, event: &Event);
}

/// An observer that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _event: &Event) {}
}

/// Whether the store answers, as readers see it without entering the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Everything is possible.
    Available,
    /// Drain has begun; nothing new.
    Draining {
        /// Its deadline.
        deadline: MonoTime,
        /// Its deadline, for people.
        wall: WallTime,
    },
    /// For ever unavailable (J1).
    Unavailable,
}

/// Most commands that are submitted together: bounds how long another caller waits for them.
pub const TOGETHER_MAX: usize = 64;

/// What every store does. The rules that it obeys are numbered in `docs/semantics.md`.
pub trait Store: Send + Sync + 'static {
    /// Submits a command. Dropping the future before the transition starts cancels it (K1); a started one completes.
    fn submit(&self, command: Command) -> impl Future<Output = Result<Reply, Failure>> + Send;

    /// Does `commands` in their order, one transition each, where the store can begin at once: then they have begun, `answers`
    /// gets one each, and `commands` is empty. False where it is busy: nothing has begun, and each is to be submitted by
    /// itself. At most [`TOGETHER_MAX`] commands.
    fn submit_together(&self, commands: &mut Vec<Command>, answers: &mut Vec<Result<Reply, Failure>>) -> bool;

    /// Does `command` where the store can begin at once. `None` where it is busy: then nothing has begun.
    fn submit_at_once(&self, command: Command) -> Option<Result<Reply, Failure>>;

    /// Hands one page of visible public listings to `use_page`, without entering the lane where the store can avoid it.
    fn browse<R>(&self, query: &BrowseQuery<'_>, use_page: impl FnOnce(&PageView<'_>) -> R) -> Result<R, Failure>;

    /// Hands the JSON row of one fresh listing, public or unlisted, and the commit of the view to `use_row`.
    fn listing<R>(&self, tenant: TenantId, id: ListingId, use_row: impl FnOnce(&[u8], u64) -> R) -> Result<R, Failure>;

    /// The commit that browsing sees now.
    fn published_commit(&self) -> u64;

    /// The commit of the last accepted transition.
    fn last_commit(&self) -> u64;

    /// Resolves once browsing sees `commit` or a later one, or the store became unavailable. The caller bounds the wait.
    fn published(&self, commit: u64) -> impl Future<Output = ()> + Send;

    /// Availability as of now.
    fn availability(&self) -> Availability;

    /// Commands waiting in the lane: creations, keep-alives.
    fn queued(&self) -> (usize, usize);

    /// When the view that browsing sees was published.
    fn published_at(&self) -> MonoTime;

    /// Cleans up and publishes what is due. The server calls it every publish interval, also when nobody else calls.
    fn tick(&self);
}

/// Either store, chosen at start; a process has one.
#[allow(clippy::large_enum_variant)]
pub enum AnyStore<C: Clock> {
    /// The lane.
    Lane(lane::Lane<C>),
    /// The baseline.
    SingleLock(single_lock::SingleLock<C>),
}

impl<C: Clock> Store for AnyStore<C> {
    async fn submit(&self, command: Command) -> Result<Reply, Failure> {
        match self {
            Self::Lane(store) => store.submit(command).await,
            Self::SingleLock(store) => store.submit(command).await,
        }
    }

    fn submit_together(&self, commands: &mut Vec<Command>, answers: &mut Vec<Result<Reply, Failure>>) -> bool {
        match self {
            Self::Lane(store) => store.submit_together(commands, answers),
            Self::SingleLock(store) => store.submit_together(commands, answers),
        }
    }

    fn submit_at_once(&self, command: Command) -> Option<Result<Reply, Failure>> {
        match self {
            Self::Lane(store) => store.submit_at_once(command),
            Self::SingleLock(store) => store.submit_at_once(command),
        }
    }

    fn browse<R>(&self, query: &BrowseQuery<'_>, use_page: impl FnOnce(&PageView<'_>) -> R) -> Result<R, Failure> {
        match self {
            Self::Lane(store) => store.browse(query, use_page),
            Self::SingleLock(store) => store.browse(query, use_page),
        }
    }

    fn listing<R>(&self, tenant: TenantId, id: ListingId, use_row: impl FnOnce(&[u8], u64) -> R) -> Result<R, Failure> {
        match self {
            Self::Lane(store) => store.listing(tenant, id, use_row),
            Self::SingleLock(store) => store.listing(tenant, id, use_row),
        }
    }

    fn published_commit(&self) -> u64 {
        match self {
            Self::Lane(store) => store.published_commit(),
            Self::SingleLock(store) => store.published_commit(),
        }
    }

    fn last_commit(&self) -> u64 {
        match self {
            Self::Lane(store) => store.last_commit(),
            Self::SingleLock(store) => store.last_commit(),
        }
    }

    async fn published(&self, commit: u64) {
        match self {
            Self::Lane(store) => store.published(commit).await,
            Self::SingleLock(store) => store.published(commit).await,
        }
    }

    fn availability(&self) -> Availability {
        match self {
            Self::Lane(store) => store.availability(),
            Self::SingleLock(store) => store.availability(),
        }
    }

    fn queued(&self) -> (usize, usize) {
        match self {
            Self::Lane(store) => store.queued(),
            Self::SingleLock(store) => store.queued(),
        }
    }

    fn published_at(&self) -> MonoTime {
        match self {
            Self::Lane(store) => store.published_at(),
            Self::SingleLock(store) => store.published_at(),
        }
    }
    fn tick(&self) {
        match self {
            Self::Lane(store) => store.tick(),
            Self::SingleLock(store) => store.tick(),
        }
    }
}
