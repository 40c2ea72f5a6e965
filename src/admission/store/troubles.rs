//! Why the store could not answer, for the operator's log: callers are told that it could not, and nothing of the cause.

use crate::admission::model::{StoreError, Unavailable};
use crate::clock::{Clock, SystemClock};
use crate::repeats::Repeats;
use std::sync::atomic::{AtomicBool, Ordering};

/// What failed last, reading and writing apart: a full disk fails writes only, and a read that goes well is no recovery.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    reads: Trouble,
    writes: Trouble,
    unreadable: Repeats,
    /// How often the log repeats itself; nothing is decided by it.
    clock: SystemClock,
}

#[derive(Debug, Default)]
struct Trouble {
    is_failing: AtomicBool,
    causes: Repeats,
}

impl Troubles {
    /// Notes how a call ended. A store that is merely busy is in no trouble, and neither is one that says no.
    pub(super) fn note(&self, is_read: bool, error: Option<&StoreError>) {
        let (name, trouble) = if is_read { ("read", &self.reads) } else { ("write", &self.writes) };
        match error {
            Some(StoreError::Unavailable(Unavailable { overloaded: true, .. })) => {}
            Some(StoreError::Unavailable(Unavailable { cause, outcome_unknown, .. })) => {
                // Relaxed: two lines that cross cost one too many or too few of them, and nothing else.
                trouble.is_failing.store(true, Ordering::Relaxed);
                if let Some(repeated) = trouble.causes.note(cause, self.clock.mono()) {
                    tracing::warn!(event = "admission_store_failed", access = name, cause, outcome_unknown, repeated);
                }
            }
            Some(StoreError::Unreadable(row)) => {
                if let Some(repeated) = self.unreadable.note(&row.to_string(), self.clock.mono()) {
                    let (table, column) = (row.table, row.column);
                    tracing::warn!(event = "admission_row_unreadable", table, column, repeated);
                }
            }
            Some(StoreError::Refused(_)) | None => {
                // The load keeps the line of the flag shared while all is well.
                if trouble.is_failing.load(Ordering::Relaxed) && trouble.is_failing.swap(false, Ordering::Relaxed) {
                    trouble.causes.forget();
                    tracing::info!(event = "admission_store_recovered", access = name);
                }
            }
        }
    }
}
