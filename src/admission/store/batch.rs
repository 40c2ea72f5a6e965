//! Group commit: jobs that arrived together, decided in order, written in one transaction, answered after it.

use super::clock::StoreClock;
use super::records::{Key, MetaRow, Table};
use super::rules::Ruling;
use super::settings::Settings;
use super::unit::{Rows, Unit};
use super::{Plan, Waits};
use crate::admission::model::{StoreError, Timestamp, Unavailable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// Takes jobs, from any thread.
pub(crate) trait Engine: Send + Sync {
    /// Never blocks for long; a job that can't be taken is answered at once.
    fn submit(&self, job: Box<dyn Job>);

    /// How many rows were passed over because they can't be read; whoever reports them takes them out.
    fn unreadable(&self) -> &AtomicU64;

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
    /// Begins, waits for the locks, and says the database's time: its clock's, or where [`Self::keeps_time`] that of the last
    /// write, of whatever process, if it is going to be written.
    fn begin(&mut self, is_read: bool, locks: &[u64]) -> Result<Option<Timestamp>, Unavailable>;

    /// Makes it durable. An error says whether it may be so all the same.
    fn commit(&mut self, notices: &[super::Notice]) -> Result<(), Unavailable>;

    /// Takes it back.
    fn rollback(&mut self);

    /// Whether the time of the last write is kept, so that time never steps back over a restart or from one process to
    /// another.
    fn keeps_time(&self) -> bool;
}

/// What every engine shares.
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: StoreClock,
    pub(crate) waits: Arc<Waits>,
    /// See [`Engine::unreadable`].
    pub(crate) unreadable: AtomicU64,
}

/// The name under which the time of the last write is kept.
pub(crate) const LATEST: &str = "latest";
/// The name under which the number of control shards is kept.
pub(crate) const CONTROL_SHARDS: &str = "control_shards";

/// Most jobs of a failed batch that may fail alone as well before the rest is answered with the last one's cause: what
/// fails so often is the database and not the jobs, and each attempt may wait for a whole timeout.
const ALONE_FAILURES_MAX: usize = 3;

/// Runs a batch. When the database fails before anything was committed, each job gets a transaction of its own, so that
/// one that it can't take fails alone. When not even a transaction can begin, that is everybody's answer at once.
pub(crate) fn run(backend: &mut dyn Backend, shared: &Shared, jobs: Vec<Box<dyn Job>>) {
    let jobs: Vec<_> = jobs.into_iter().filter(|job| !job.is_withdrawn()).collect();
    if jobs.is_empty() {
        return;
    }
    let count = jobs.len();
    let Err(failure) = transact(backend, shared, jobs) else { return };
    if count == 1 || failure.is_common {
        return failure.answer();
    }
    let mut failures = 0;
    let mut left = failure.jobs.into_iter();
    while let Some(job) = left.next() {
        // The batch has taken its time; who gave up meanwhile is not begun.
        if job.is_withdrawn() {
            continue;
        }
        let Err(alone) = transact(backend, shared, vec![job]) else { continue };
        failures += 1;
        let (is_common, cause) = (alone.is_common, alone.cause.clone());
        alone.answer();
        if is_common || failures == ALONE_FAILURES_MAX {
            return Failure { jobs: left.collect(), cause, is_common }.answer();
        }
    }
}

/// A transaction that did not happen.
struct Failure {
    jobs: Vec<Box<dyn Job>>,
    cause: Unavailable,
    /// It failed before the first job was looked at.
    is_common: bool,
}

impl Failure {
    fn answer(self) {
        self.jobs.into_iter().for_each(|job| job.answer(Err(self.cause.clone())));
    }
}

/// One transaction. Gives the jobs back when nothing happened.
fn transact(backend: &mut dyn Backend, shared: &Shared, mut jobs: Vec<Box<dyn Job>>) -> Result<(), Failure> {
    let database = match begin(backend, &jobs) {
        Ok(database) => database,
        Err(cause) => {
            backend.rollback();
            return Err(Failure { jobs, cause, is_common: true });
        }
    };
    let (fate, notices) = match decide(backend, shared, &mut jobs, database) {
        Ok(notices) => (backend.commit(&notices), notices),
        Err(cause) => (Err(cause), Vec::new()),
    };
    if fate.is_err() {
        backend.rollback();
    }
    match fate {
        Err(cause) if !cause.outcome_unknown => Err(Failure { jobs, cause, is_common: false }),
        fate => {
            jobs.into_iter().for_each(|job| job.answer(fate.clone()));
            shared.waits.wake(&notices);
            Ok(())
        }
    }
}

fn begin(backend: &mut dyn Backend, jobs: &[Box<dyn Job>]) -> Result<Option<Timestamp>, Unavailable> {
    let is_read = jobs.iter().all(|job| job.plan().is_read);
    let mut locks: Vec<u64> = jobs.iter().flat_map(|job| job.plan().locks.iter().copied()).collect();
    // In one order everywhere, so that no two processes wait for each other (case Q7).
    locks.sort_unstable();
    locks.dedup();
    backend.begin(is_read, &locks)
}

fn decide(
    backend: &mut dyn Backend,
    shared: &Shared,
    jobs: &mut [Box<dyn Job>],
    database: Option<Timestamp>,
) -> Result<Vec<super::Notice>, Unavailable> {
    let keeps_time = backend.keeps_time();
    // Stamped once everything is locked: whoever had the locks before has an earlier stamp.
    let now = shared.clock.now(database, database.filter(|_| keeps_time));
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
    // Relaxed: a count publishes nothing.
    shared.unreadable.fetch_add(unit.unreadable(), Ordering::Relaxed);
    let mut notices = unit.into_notices();
    notices.sort_unstable();
    notices.dedup();
    Ok(notices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::store::records::{Scan, Value};
    use crate::admission::store::unit::Change;
    use std::cell::Cell;

    /// A database that fails where it is told to, and counts.
    #[derive(Default)]
    struct Failing {
        begin: bool,
        write: bool,
        begun: usize,
        /// Called when a write fails, once.
        then: Cell<Option<Box<dyn FnOnce() + Send>>>,
    }

    fn down(what: &str) -> Result<(), Unavailable> {
        Err(Unavailable::nothing_happened(what))
    }

    impl Rows for Failing {
        fn load(&mut self, _: &'static Table, keys: &[Key]) -> Result<Vec<Option<Vec<Value>>>, Unavailable> {
            Ok(keys.iter().map(|_| None).collect())
        }

        fn scan(&mut self, _: &Scan) -> Result<Vec<Vec<Value>>, Unavailable> {
            Ok(Vec::new())
        }

        fn write(&mut self, _: Vec<Change>) -> Result<(), Unavailable> {
            if let Some(then) = self.then.take() {
                then();
            }
            if self.write { down("write") } else { Ok(()) }
        }
    }

    impl Backend for Failing {
        fn begin(&mut self, _: bool, _: &[u64]) -> Result<Option<Timestamp>, Unavailable> {
            self.begun += 1;
            if self.begin {
                down("begin")?
            }
            Ok(Some(Timestamp(7)))
        }

        fn commit(&mut self, _: &[super::super::Notice]) -> Result<(), Unavailable> {
            Ok(())
        }

        fn rollback(&mut self) {}

        fn keeps_time(&self) -> bool {
            false
        }
    }

    type Answer = oneshot::Receiver<Result<(), StoreError>>;

    /// Jobs that write a row each and count how often they were attempted.
    fn jobs(count: u64, attempts: &Arc<AtomicU64>) -> (Vec<Box<dyn Job>>, Vec<Answer>) {
        let one = |n| {
            let attempts = Arc::clone(attempts);
            let (job, answer) = Ask::new(Plan::default(), move |unit: &mut Unit<'_>| {
                attempts.fetch_add(1, Ordering::Relaxed);
                unit.put(&MetaRow { name: format!("{n}"), value: n });
                Ok(())
            });
            (Box::new(job) as Box<dyn Job>, answer)
        };
        (0..count).map(one).unzip()
    }

    fn shared() -> Shared {
        let clock = StoreClock::new(None, Timestamp(0));
        Shared { settings: Arc::new(Settings::default()), clock, waits: Waits::new(1), unreadable: AtomicU64::new(0) }
    }

    fn causes(answers: Vec<Answer>) -> Vec<String> {
        let cause = |mut answer: Answer| match answer.try_recv() {
            Ok(Err(StoreError::Unavailable(unavailable))) => unavailable.cause,
            other => format!("{other:?}"),
        };
        answers.into_iter().map(cause).collect()
    }

    #[test]
    fn a_database_that_is_down_answers_a_whole_batch_at_once() {
        let mut backend = Failing { begin: true, ..Failing::default() };
        let attempts = Arc::default();
        let (jobs, answers) = jobs(50, &attempts);
        run(&mut backend, &shared(), jobs);
        assert_eq!((causes(answers), backend.begun), (vec!["begin".to_owned(); 50], 1));
        assert_eq!(attempts.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_database_that_takes_nothing_is_not_asked_for_each_job() {
        let mut backend = Failing { write: true, ..Failing::default() };
        let attempts = Arc::default();
        let (jobs, answers) = jobs(50, &attempts);
        run(&mut backend, &shared(), jobs);
        assert_eq!((causes(answers), backend.begun), (vec!["write".to_owned(); 50], 1 + ALONE_FAILURES_MAX));
    }

    #[test]
    fn who_gave_up_while_the_batch_failed_is_not_begun() {
        let attempts = Arc::default();
        let (jobs, answers) = jobs(10, &attempts);
        let hang_up: Box<dyn FnOnce() + Send> = Box::new(move || drop(answers));
        let mut backend = Failing { write: true, then: Cell::new(Some(hang_up)), ..Failing::default() };
        run(&mut backend, &shared(), jobs);
        assert_eq!((backend.begun, attempts.load(Ordering::Relaxed)), (1, 10), "the batch, and nobody alone");
    }
}
