//! Bounds of a store, and why one can't be opened.

use std::fmt;
use std::time::Duration;

/// Bounds and policy of a store. Everything that grows has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Control shards. Counts when a store is created; afterwards the store says, for its rows are filed by it.
    pub control_shards: u32,
    /// Most open commands of a session: what a host may find in one inbox.
    pub inbox_max: u32,
    /// How many times `inbox_max` commands may lie between the oldest open one and the newest: bounds the walk of an inbox.
    pub inbox_span: u32,
    /// Most leases to which one command is delivered. One that takes its hosts down is handed out no more, and ends at its
    /// deadline as what may have run.
    pub deliveries_max: u32,
    /// Most open commands of a tenant.
    pub open_commands_max: u64,
    /// Most sessions of a tenant that are not closed.
    pub sessions_max: u64,
    /// Most creates of a tenant that were prepared and never admitted.
    pub prepared_creates_max: u64,
    /// Most bytes of stored payloads of a tenant.
    pub payload_bytes_max: u64,
    /// Whether the legacy family may be written: for tests and migrations only (rule P2).
    pub allow_legacy: bool,
    /// How long a host has to acquire the lease of a session that was placed at it.
    pub placement_grace: Duration,
    /// How long a session that no host can take waits until placement looks again.
    pub placement_retry: Duration,
    /// How long a closed session is kept, with its commands, its journal and its idempotency keys.
    pub closed_for: Duration,
    /// How long a create that was prepared may be resumed.
    pub prepared_for: Duration,
    /// Most commands that one transaction takes: bounds how long the first of them waits for the others. One is one fsync
    /// per command.
    pub batch_max: usize,
    /// Most calls that wait for the store; one more is refused as overloaded.
    pub queue_max: usize,
    /// How long a database across a network may take to answer, before its connection is given up.
    pub database_wait: Duration,
    /// Connections that write, where the backend can use several.
    pub writers: usize,
    /// Most long polls that wait.
    pub waits_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control_shards: 16,
            inbox_max: 256,
            inbox_span: 16,
            deliveries_max: 16,
            open_commands_max: 100_000,
            sessions_max: 100_000,
            prepared_creates_max: 10_000,
            payload_bytes_max: 4 << 30,
            allow_legacy: false,
            placement_grace: Duration::from_secs(10),
            placement_retry: Duration::from_secs(1),
            closed_for: Duration::from_secs(7 * 24 * 3600),
            prepared_for: Duration::from_secs(24 * 3600),
            batch_max: 256,
            queue_max: 4_096,
            // Longer than a statement may take, so that the server gives it up first.
            database_wait: Duration::from_secs(15),
            writers: 2,
            waits_max: 16_384,
        }
    }
}

/// Why a store can't be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A newer build wrote it. It is never guessed at, and not touched.
    NewerSchema {
        /// Its version.
        found: u32,
        /// The newest that this build knows.
        known: u32,
    },
    /// It is some other application's database.
    Foreign(String),
    /// A setting makes no sense.
    Setting {
        /// Its name.
        field: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// The database said no.
    Database(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerSchema { found, known } => write!(
                f,
                "the store has schema version {found} and this build knows up to {known}: run the newer build, or restore a backup"
            ),
            Self::Foreign(what) => write!(f, "this is not a store of the command plane: {what}"),
            Self::Setting { field, must } => write!(f, "{field} must be {must}"),
            Self::Database(cause) => write!(f, "the store can't be opened: {cause}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl Settings {
    /// Checks what can be checked without a store.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let positive = [
            ("control_shards", u64::from(self.control_shards)),
            ("inbox_max", u64::from(self.inbox_max)),
            ("inbox_span", u64::from(self.inbox_span)),
            ("deliveries_max", u64::from(self.deliveries_max)),
            ("batch_max", self.batch_max as u64),
            ("queue_max", self.queue_max as u64),
            ("writers", self.writers as u64),
            ("database_wait", u64::from(!self.database_wait.is_zero())),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(OpenError::Setting { field, must: "at least 1" }),
            None if self.control_shards > 4_096 => {
                Err(OpenError::Setting { field: "control_shards", must: "at most 4096, for each is swept in turn" })
            }
            None => Ok(()),
        }
    }
}
