//! What happened so far, for metrics. Counters only grow; a reader takes a [`Counts`].

use super::disposition::Disposition;
use super::model::{CommandKind, Error, ErrorCode};
use super::sweep::SweepResult;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),+ $(,)?) => {
        /// Counters of one process, shared by its services.
        #[derive(Debug, Default)]
        pub struct Counters {
            admitted: [AtomicU64; CommandKind::ALL.len()],
            refused: [AtomicU64; ErrorCode::ALL.len()],
            dispositions: [AtomicU64; Disposition::RECORDED.len()],
            $($name: AtomicU64,)+
        }

        /// What [`Counters`] had counted.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            /// Admitted commands by kind.
            pub admitted: BTreeMap<CommandKind, u64>,
            /// Refused calls by code.
            pub refused: BTreeMap<ErrorCode, u64>,
            /// What sweeps recorded.
            pub dispositions: BTreeMap<Disposition, u64>,
            $($(#[doc = $doc])* pub $name: u64,)+
        }

        impl Counts {
            /// The counts that have no label: name, meaning, count.
            pub fn events(&self) -> [(&'static str, &'static str, u64); [$(stringify!($name)),+].len()] {
                [$((stringify!($name), concat!($($doc),*), self.$name)),+]
            }
        }

        impl Counters {
            /// All counts now. Each is exact; together they are not of one instant.
            pub fn counts(&self) -> Counts {
                Counts {
                    admitted: pairs(&CommandKind::ALL, &self.admitted),
                    refused: pairs(ErrorCode::ALL, &self.refused),
                    dispositions: pairs(&Disposition::RECORDED, &self.dispositions),
                    $($name: self.$name.load(Ordering::Relaxed),)+
                }
            }
        }
    };
}

counters! {
    /// Requests that had been admitted before and got the same entry.
    replayed,
    /// Leases acquired.
    leases,
    /// Claims and their extensions.
    claims,
    /// Claims of commands that an older epoch had claimed.
    redeliveries,
    /// Commands that hosts began.
    begun,
    /// Commands that hosts applied.
    applied,
    /// Commands that hosts refused.
    rejected_by_hosts,
    /// Completions after the deadline.
    late,
    /// Commands that a newer lease settled.
    settled,
    /// Sweeps of one shard.
    sweeps,
    /// Sweeps that failed.
    failed_sweeps,
    /// Pages that sweeps read.
    sweep_pages,
    /// Rows that sweeps examined.
    sweep_examined,
    /// Rows that sweeps could not read.
    sweep_unreadable,
    /// Questions that sweeps put to the database.
    sweep_queries,
    /// Reconciliation claims that sweeps took.
    sweep_claims,
    /// Reconciliation claims that sweeps gave back.
    sweep_releases,
    /// Reconciliation claims that sweeps could not give back.
    sweep_release_failures,
    /// Sweeps that left rows for the next pass.
    sweep_truncated,
    /// Rows that placement, forgetting and lists of work could not read.
    unreadable,
}

fn pairs<K: Copy + Ord>(keys: &[K], values: &[AtomicU64]) -> BTreeMap<K, u64> {
    keys.iter().zip(values).map(|(key, value)| (*key, value.load(Ordering::Relaxed))).collect()
}

fn add(counter: &AtomicU64, count: usize) {
    // Relaxed: counters publish nothing.
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn count_admission(&self, kind: CommandKind, created: bool) {
        if created {
            let place = CommandKind::ALL.iter().position(|known| *known == kind);
            place.into_iter().for_each(|place| add(&self.admitted[place], 1));
        } else {
            add(&self.replayed, 1);
        }
    }

    /// Counts an error and hands it on.
    pub(super) fn refuse(&self, error: Error) -> Error {
        let place = ErrorCode::ALL.iter().position(|code| *code == error.code);
        place.into_iter().for_each(|place| add(&self.refused[place], 1));
        error
    }

    pub(super) fn count_lease(&self) {
        add(&self.leases, 1);
    }

    pub(super) fn count_claim(&self, is_redelivery: bool) {
        add(&self.claims, 1);
        add(&self.redeliveries, usize::from(is_redelivery));
    }

    pub(super) fn count_begin(&self) {
        add(&self.begun, 1);
    }

    pub(super) fn count_completion(&self, applied: bool, late: bool) {
        add(if applied { &self.applied } else { &self.rejected_by_hosts }, 1);
        add(&self.late, usize::from(late));
    }

    pub(super) fn count_settlement(&self) {
        add(&self.settled, 1);
    }

    pub(super) fn count_unreadable(&self, rows: u64) {
        self.unreadable.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn count_failed_sweep(&self) {
        add(&self.failed_sweeps, 1);
    }

    pub(super) fn count_sweep(&self, result: &SweepResult) {
        add(&self.sweeps, 1);
        add(&self.sweep_pages, result.pages);
        add(&self.sweep_examined, result.examined);
        add(&self.sweep_unreadable, result.unreadable);
        add(&self.sweep_queries, result.queries);
        add(&self.sweep_claims, result.claimed);
        add(&self.sweep_releases, result.released);
        add(&self.sweep_release_failures, result.release_failures);
        add(&self.sweep_truncated, usize::from(result.truncated));
        for (place, disposition) in Disposition::RECORDED.iter().enumerate() {
            add(&self.dispositions[place], result.dispositions.get(disposition).copied().unwrap_or(0));
        }
    }
}
