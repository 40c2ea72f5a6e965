//! The baseline: the state machine under one lock, browsing under that lock.
//!
//! This is the reference design: simple, auditable, and written with care. Listings keep their typed details and are
//! rendered when they are browsed; each scope has an ordered index, so a page seeks its cursor and touches only rows
//! from there on.

use super::page::{EXAMINED_MAX, PageView, Runs};
use super::row::render_row;
use super::{Availability, BrowseQuery, Observer, Store};
use crate::clock::Clock;
use crate::domain::limits::LimitsError;
use crate::domain::{
    At, Certainty, Command, Details, Failure, Limits, ListingId, MonoTime, Rejection, Reply, Scope, TenantId,
    Visibility,
};
use crate::state_machine::{Change, ListingObject, Machine};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module's documentation.
pub struct SingleLock<C: Clock> {
    clock: C,
    inner: Mutex<Inner>,
    observer: Arc<dyn Observer>,
    commit: AtomicU64,
}

struct Inner {
    machine: Machine<Arc<Details>>,
    /// Fresh listings of each scope in id order, with their slots.
    scopes: HashMap<Scope, BTreeMap<ListingId, u32>>,
    last: MonoTime,
    dead: bool,
    changes: Vec<Change>,
    events: Vec<crate::domain::Event>,
}

impl ListingObject for Arc<Details> {
    fn build(_id: ListingId, _scope: &Scope, details: Details) -> Self {
        Self::new(details)
    }
}

impl<C: Clock> SingleLock<C> {
    /// An empty store. Refuses limits that would break a promise.
    pub fn new(limits: Limits, clock: C, observer: Arc<dyn Observer>) -> Result<Self, LimitsError> {
        limits.check()?;
        let inner = Inner {
            machine: Machine::new(limits),
            scopes: HashMap::new(),
            last: MonoTime::default(),
            dead: false,
            changes: Vec::new(),
            events: Vec::new(),
        };
        Ok(Self { clock, inner: Mutex::new(inner), observer, commit: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies one command under the lock.
    pub fn apply(&self, command: Command) -> Result<Reply, Failure> {
        self.apply_locked(&mut self.lock(), command)
    }

    fn apply_locked(&self, inner: &mut Inner, command: Command) -> Result<Reply, Failure> {
        if inner.dead {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        match catch_unwind(AssertUnwindSafe(|| self.transition(inner, command))) {
            Ok(result) => result,
            Err(_panic) => {
                inner.dead = true;
                Err(Failure::Unavailable(Certainty::Unknown))
            }
        }
    }

    fn transition(&self, inner: &mut Inner, command: Command) -> Result<Reply, Failure> {
        let at = inner.stamp(&self.clock);
        let result = inner.machine.apply(at, command);
        inner.follow_changes();
        let commit = inner.machine.commit();
        self.commit.store(commit, Ordering::Relaxed);
        let mut events = std::mem::take(&mut inner.events);
        inner.machine.take_events(&mut events);
        events.drain(..).for_each(|event| self.observer.observe(&event));
        inner.events = events;
        drop(inner.machine.take_retired());
        result.map(|outcome| Reply { outcome, commit }).map_err(Failure::Rejected)
    }

    /// Locks for reading, unless the store is dead or drained.
    fn lock_to_read(&self) -> Result<(MutexGuard<'_, Inner>, MonoTime), Failure> {
        let inner = self.lock();
        if inner.dead {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        let now = self.clock.mono().max(inner.last);
        match inner.machine.drain_deadline() {
            Some((deadline, wall)) if deadline.is_past(now) => Err(Rejection::Draining { deadline, wall }.into()),
            Some(_) | None => Ok((inner, now)),
        }
    }
}

impl Inner {
    fn stamp(&mut self, clock: &impl Clock) -> At {
        let at = clock.at();
        self.last = self.last.max(at.mono);
        At { mono: self.last, wall: at.wall }
    }

    fn follow_changes(&mut self) {
        let _published_under_the_lock = self.machine.take_removal();
        self.machine.take_changes(&mut self.changes);
        for change in self.changes.drain(..) {
            match change {
                Change::Show { slot } => {
                    if let Some(listed) = self.machine.listing(slot) {
                        self.scopes.entry(listed.scope.clone()).or_default().insert(listed.id, slot);
                    }
                }
                Change::Moved { .. } => {}
                Change::Hide { id, scope, .. } => {
                    if let Some(rows) = self.scopes.get_mut(&scope) {
                        rows.remove(&id);
                        if rows.is_empty() {
                            self.scopes.remove(&scope);
                        }
                    }
                }
            }
        }
    }

    /// The rendered rows of a page, and where the next one begins.
    fn page(&self, query: &BrowseQuery<'_>, now: MonoTime) -> (Vec<String>, Option<ListingId>) {
        let Some(scope) = Scope::new(query.tenant, query.protocol) else { return (Vec::new(), None) };
        let Some(rows) = self.scopes.get(&scope) else { return (Vec::new(), None) };
        let start = query.after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut page = Vec::with_capacity(query.limit);
        let mut examined = 0;
        let mut range = rows.range((start, std::ops::Bound::Unbounded)).peekable();
        while let Some((id, slot)) = range.next() {
            examined += 1;
            if let Some(listed) = self.machine.listing(*slot) {
                let visible = listed.visibility == Visibility::Public && !listed.fresh_until.is_past(now);
                if visible && query.filter.is_none_or(|filter| filter.matches(&**listed.object)) {
                    page.push(render_row(*id, listed.scope, listed.object));
                }
            }
            if page.len() == query.limit || examined == EXAMINED_MAX {
                let next = range.peek().is_some().then_some(*id);
                return (page, next);
            }
        }
        (page, None)
    }
}

impl<C: Clock> Store for SingleLock<C> {
    async fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.apply(command)
    }

    fn submit_together(&self, commands: &mut Vec<Command>, answers: &mut Vec<Result<Reply, Failure>>) -> bool {
        let mut inner = self.lock();
        answers.extend(commands.drain(..).map(|command| self.apply_locked(&mut inner, command)));
        true
    }

    fn submit_at_once(&self, command: Command) -> Option<Result<Reply, Failure>> {
        Some(self.apply(command))
    }

    fn browse<R>(&self, query: &BrowseQuery<'_>, use_page: impl FnOnce(&PageView<'_>) -> R) -> Result<R, Failure> {
        let (inner, now) = self.lock_to_read()?;
        let (rows, next) = inner.page(query, now);
        let commit = inner.machine.commit();
        drop(inner);
        Ok(use_page(&PageView { commit, next, count: rows.len(), runs: Runs::Rendered(&rows) }))
    }

    fn listing<R>(&self, tenant: TenantId, id: ListingId, use_row: impl FnOnce(&[u8], u64) -> R) -> Result<R, Failure> {
        let (inner, now) = self.lock_to_read()?;
        let listed = inner.machine.slot_of(id, now).and_then(|slot| inner.machine.listing(slot));
        let fresh = listed.filter(|listed| listed.scope.tenant == tenant && !listed.fresh_until.is_past(now));
        let row = fresh.map(|listed| render_row(id, listed.scope, listed.object));
        let commit = inner.machine.commit();
        drop(inner);
        row.map(|row| use_row(row.as_bytes(), commit)).ok_or(Failure::Rejected(Rejection::NotFound))
    }

    fn published_commit(&self) -> u64 {
        self.last_commit()
    }

    fn last_commit(&self) -> u64 {
        self.commit.load(Ordering::Relaxed)
    }

    async fn published(&self, _commit: u64) {}

    fn availability(&self) -> Availability {
        let inner = self.lock();
        match inner.machine.drain_deadline() {
            _ if inner.dead => Availability::Unavailable,
            Some((deadline, wall)) => Availability::Draining { deadline, wall },
            None => Availability::Available,
        }
    }

    fn queued(&self) -> (usize, usize) {
        (0, 0)
    }

    fn published_at(&self) -> MonoTime {
        self.clock.mono()
    }

    fn tick(&self) {
        /// Slices of cleanup per tick; other callers get the lock between two.
        const SLICES: usize = 64;
        for _ in 0..SLICES {
            let swept = self.apply(Command::Sweep);
            let inner = self.lock();
            if swept.is_err() || !inner.machine.has_dead(inner.last) {
                break;
            }
            drop(inner);
            // The lock is not fair: without this the same thread mostly gets it again.
            std::thread::yield_now();
        }
    }
}
