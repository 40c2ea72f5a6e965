//! Group commit: jobs that arrived together, decided in order, written in one transaction, answered after it.

use super::records::{Key, MetaRow, Table};
use super::rules::Ruling;
use super::settings::Settings;
use super::unit::{Rows, Unit};
use super::{Plan, Waits};
use crate::admission::model::{StoreError, Timestamp, Unavailable};
use crate::admission::traits::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Takes jobs, from any thread.
pub(crate) trait Engine: Send + Sync {
    /// Never blocks for long; a job that can't be taken is answered at once.
    fn submit(&self, job: Box<dyn Job>);

    /// Whether a part of it is gone for good, so that the process has to start again.
    fn is_lost(&self) -> bool {
        false
    }
}

/// A rule with its request, and whoever waits for the answer.
pub(crate) trait Job: Send {
    fn plan(&self) -> &Plan;

    /// Whether its caller stopped waiting: then it is not begun.
    fn is_withdrawn(&self) -> bool;

    /// Decides. An error is the backend's, and the whole transaction's.
    fn attempt(&mut self, unit: &mut Unit<'_>) -> Result<(), Unavailable>;

    /// Answers with what was decided, if that is durable now.
    fn answer(self: Box<Self>, fate: Result<(), Unavailable>);
}

/// The only kind of job.
pub(crate) struct Ask<T, F> {
    plan: Plan,
    rule: F,
    ruling: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F: FnMut(&mut Unit<'_>) -> Ruling<T>> Ask<T, F> {
    pub(crate) fn new(plan: Plan, rule: F) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (caller, answer) = oneshot::channel();
        (Self { plan, rule, ruling: None, caller }, answer)
    }
}

impl<T: Send, F: FnMut(&mut Unit<'_>) -> Ruling<T> + Send> Job for Ask<T, F> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn is_withdrawn(&self) -> bool {
        self.caller.is_closed()
    }

    fn attempt(&mut self, unit: &mut Unit<'_>) -> Result<(), Unavailable> {
        unit.begin();
        let ruling = (self.rule)(unit);
        if ruling.is_err() {
            unit.take_back();
        }
        if let Err(StoreError::Unavailable(cause)) = ruling {
            return Err(cause);
        }
        self.ruling = Some(ruling);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Unavailable>) {
        let ruling = match (fate, self.ruling) {
            (Ok(()), Some(ruling)) => ruling,
            (Ok(()), None) => Err(Unavailable::nothing_happened("the command was not begun").into()),
            // A refusal wrote nothing, so it is true whatever became of the transaction.
            (Err(_), Some(Err(refusal))) => Err(refusal),
            (Err(cause), Some(Ok(_)) | None) => Err(cause.into()),
        };
        // Nobody may be waiting any more.
        drop(self.caller.send(ruling));
    }
}

/// A database as a transaction sees it.
pub(crate) trait Backend: Rows {
    /// Begins, waits for the locks, and says the database's time if that is the one that counts.
    fn begin(&mut self, is_read: bool, locks: &[u64]) -> Result<Option<Timestamp>, Unavailable>;

    /// Makes it durable. An error says whether it may be so all the same.
    fn commit(&mut self, notices: &[super::Notice]) -> Result<(), Unavailable>;

    /// Takes it back.
    fn rollback(&mut self);

    /// Whether the time of the last write is kept, so that time never steps back over a restart.
    fn keeps_time(&self) -> bool;
}

/// The clock of a store. It never steps back, not even over a restart, and never stands: deadlines pass and leases lapse
/// whatever the machine's clock did.
pub(crate) struct StoreClock {
    /// Absent where the database's clock decides, for all processes alike.
    own: Option<(Arc<dyn Clock>, Mutex<Reading>)>,
}

/// What a clock of our own said last.
struct Reading {
    clock: Timestamp,
    /// How far the store's time is ahead of it: what it lacked to the last write of an earlier life, and what it stepped
    /// back since, in milliseconds.
    ahead: u64,
}

impl StoreClock {
    /// `latest` is the time of the last write of an earlier life.
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>, latest: Timestamp) -> Self {
        let own = clock.map(|clock| {
            let now = Timestamp::from_system(clock.now());
            (clock, Mutex::new(Reading { clock: now, ahead: latest.0.saturating_sub(now.0) }))
        });
        Self { own }
    }

    /// The time now; `database` is the database's, which counts where no clock was given.
    fn now(&self, database: Option<Timestamp>) -> Timestamp {
        let Some((clock, last)) = &self.own else { return database.unwrap_or_default() };
        // Nothing that holds the lock can leave it half changed. The clock is read under it, so a step back is one of the
        // clock's and not of two threads.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::from_system(clock.now());
        last.ahead = last.ahead.saturating_add(last.clock.0.saturating_sub(now.0));
        last.clock = now;
        Timestamp(now.0.saturating_add(last.ahead))
    }
}

/// What every engine shares.
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: StoreClock,
    pub(crate) waits: Arc<Waits>,
}

/// The name under which the time of the last write is kept.
pub(crate) const LATEST: &str = "latest";
/// The name under which the number of control shards is kept.
pub(crate) const CONTROL_SHARDS: &str = "control_shards";

/// Runs a batch. When the database fails before anything was committed, each job gets a transaction of its own, so that
/// one that it can't take fails alone.
pub(crate) fn run(backend: &mut dyn Backend, shared: &Shared, jobs: Vec<Box<dyn Job>>) {
    let jobs: Vec<_> = jobs.into_iter().filter(|job| !job.is_withdrawn()).collect();
    if jobs.is_empty() {
        return;
    }
    let count = jobs.len();
    match transact(backend, shared, jobs) {
        Ok(()) => {}
        Err((jobs, cause)) if count == 1 => {
            jobs.into_iter().for_each(|job| job.answer(Err(cause.clone())));
        }
        Err((jobs, _)) => {
            for job in jobs {
                if let Err((alone, cause)) = transact(backend, shared, vec![job]) {
                    alone.into_iter().for_each(|job| job.answer(Err(cause.clone())));
                }
            }
        }
    }
}

/// One transaction. Gives the jobs back when nothing happened.
fn transact(
    backend: &mut dyn Backend,
    shared: &Shared,
    mut jobs: Vec<Box<dyn Job>>,
) -> Result<(), (Vec<Box<dyn Job>>, Unavailable)> {
    match decide(backend, shared, &mut jobs) {
        Ok(notices) => {
            let fate = backend.commit(&notices);
            if fate.is_err() {
                backend.rollback();
            }
            if fate.as_ref().is_err_and(|cause| !cause.outcome_unknown) {
                return Err((jobs, fate.err().unwrap_or_else(|| Unavailable::nothing_happened("commit"))));
            }
            jobs.into_iter().for_each(|job| job.answer(fate.clone()));
            shared.waits.wake(&notices);
            Ok(())
        }
        Err(cause) => {
            backend.rollback();
            Err((jobs, cause))
        }
    }
}

fn decide(
    backend: &mut dyn Backend,
    shared: &Shared,
    jobs: &mut [Box<dyn Job>],
) -> Result<Vec<super::Notice>, Unavailable> {
    let is_read = jobs.iter().all(|job| job.plan().is_read);
    let mut locks: Vec<u64> = jobs.iter().flat_map(|job| job.plan().locks.iter().copied()).collect();
    // In one order everywhere, so that no two processes wait for each other (case Q7).
    locks.sort_unstable();
    locks.dedup();
    let database = backend.begin(is_read, &locks)?;
    let keeps_time = backend.keeps_time();
    // Stamped once everything is locked: whoever had the locks before has an earlier stamp.
    let now = shared.clock.now(database);
    let mut unit = Unit::new(backend, now, &shared.settings);
    let wanted: Vec<(&'static Table, Key)> = jobs.iter().flat_map(|job| job.plan().wanted.iter().cloned()).collect();
    unit.prefetch(wanted)?;
    for job in jobs.iter_mut() {
        job.attempt(&mut unit)?;
    }
    if keeps_time && unit.is_dirty() {
        unit.put(&MetaRow { name: LATEST.into(), value: now.0 });
    }
    unit.flush()?;
    let mut notices = unit.into_notices();
    notices.sort_unstable();
    notices.dedup();
    Ok(notices)
}
