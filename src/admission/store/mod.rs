//! The stores of the command plane: one set of rules, one set of rows, three backends.
//!
//! A call becomes a job: a rule with its request. Jobs that arrive together are decided one after the other in one unit
//! of work and written in one transaction, so one fsync serves them all (group commit); each is answered after that.

mod batch;
mod clock;
mod memory;
mod records;
mod rules;
mod seams;
pub mod settings;
mod sql;
mod troubles;
mod unit;
mod upkeep;

pub use settings::{OpenError, Settings};
pub(in crate::admission) use unit::Notice;

use super::model::{StoreError, Timestamp, Unavailable};
use super::traits::{Clock, StoreAnswer};
use super::waits::Waits;
use batch::{Ask, Engine, Job};
use records::{Key, Table};
use rules::Ruling;
use std::path::Path;
use std::sync::Arc;
use troubles::Troubles;
use unit::Unit;

/// A store. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    settings: Arc<Settings>,
    waits: Arc<Waits>,
    troubles: Arc<Troubles>,
}

/// What a call needs beside its rule.
#[derive(Default)]
struct Plan {
    /// Only reads: does not wait for writers where the backend can do that.
    is_read: bool,
    /// What it locks, where several processes share a database.
    locks: Vec<u64>,
    /// Rows that it will certainly ask for.
    wanted: Vec<(&'static Table, Key)>,
}

impl Store {
    /// A store in memory, for tests and demonstrations: it survives nothing.
    pub fn in_memory(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let waits = Waits::new(settings.waits_max);
        let settings = Arc::new(settings);
        let engine = memory::Memory::new(Arc::clone(&settings), clock, Arc::clone(&waits));
        Self::of(Arc::new(engine), settings, waits)
    }

    /// The embedded store: one SQLite file in WAL mode, created if it is not there. What it acknowledged survives
    /// `kill -9` and power loss.
    ///
    /// `settings.control_shards` counts when the file is created; afterwards the file says.
    pub fn open_sqlite(path: &Path, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let waits = Waits::new(settings.waits_max);
        let (engine, settings) = sql::sqlite::open(path, settings, clock, Arc::clone(&waits))?;
        Ok(Self::of(Arc::new(engine), settings, waits))
    }

    /// A store on PostgreSQL that several processes may share. With `clock` absent, as it should be, the server's clock
    /// decides; see [`Settings`] for what counts at creation only.
    #[cfg(feature = "postgres")]
    pub fn open_postgres(url: &str, settings: Settings, clock: Option<Arc<dyn Clock>>) -> Result<Self, OpenError> {
        let waits = Waits::new(settings.waits_max);
        let (engine, settings) = sql::postgres::open(url, settings, clock, Arc::clone(&waits))?;
        Ok(Self::of(Arc::new(engine), settings, waits))
    }

    fn of(engine: Arc<dyn Engine>, settings: Arc<Settings>, waits: Arc<Waits>) -> Self {
        Self { engine, settings, waits, troubles: Arc::default() }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The polls that wait for news of this store.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// Whether a thread of it has panicked: it answers less and less, and the process has to start again. A database that
    /// can't be reached is no such loss.
    pub fn is_lost(&self) -> bool {
        self.engine.is_lost()
    }

    /// The store's time: the only one that decides (rule P5).
    pub fn now(&self) -> StoreAnswer<'static, Timestamp> {
        self.read(|unit| Ok(unit.now))
    }

    fn read<T: Send + 'static>(
        &self,
        rule: impl FnMut(&mut Unit<'_>) -> Ruling<T> + Send + 'static,
    ) -> StoreAnswer<'static, T> {
        self.ask(Plan { is_read: true, ..Plan::default() }, rule)
    }

    fn ask<T: Send + 'static>(
        &self,
        plan: Plan,
        rule: impl FnMut(&mut Unit<'_>) -> Ruling<T> + Send + 'static,
    ) -> StoreAnswer<'static, T> {
        let (engine, troubles, is_read) = (Arc::clone(&self.engine), Arc::clone(&self.troubles), plan.is_read);
        // Nothing is queued before the caller waits for it, and nothing is begun once it stopped waiting.
        Box::pin(async move {
            let (job, answer) = Ask::new(plan, rule);
            engine.submit(Box::new(job) as Box<dyn Job>);
            let answer = answer.await.unwrap_or_else(|_| {
                Err(StoreError::from(Unavailable::outcome_unknown("the store stopped before it answered")))
            });
            troubles.note(is_read, answer.as_ref().err());
            answer
        })
    }
}
