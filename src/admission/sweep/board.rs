//! The last sweep of each shard, for the operator.

use super::SweepResult;
use crate::admission::model::{ProtocolMode, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A sweep that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSweep {
    /// When it ended, by the sweeper's clock.
    pub at: Timestamp,
    /// What it did.
    pub result: SweepResult,
}

/// At most one sweep per family and shard.
#[derive(Debug, Default)]
pub struct SweepBoard {
    last: Mutex<BTreeMap<(ProtocolMode, u32), LastSweep>>,
}

impl SweepBoard {
    /// Puts a sweep up.
    pub fn post(&self, family: ProtocolMode, at: Timestamp, result: SweepResult) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.insert((family, result.shard), LastSweep { at, result });
    }

    /// The last sweep of each shard of a family, by shard.
    pub fn of(&self, family: ProtocolMode) -> Vec<LastSweep> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().filter(|((known, _), _)| *known == family).map(|(_, sweep)| sweep.clone()).collect()
    }
}
