//! Keys with an end and nothing else: revocations in force, single-use keys that were used.

use super::due::{Due, DueIndex};
use super::table::{Table, fold};
use crate::domain::MonoTime;
use slab::Slab;
use std::hash::Hash;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TimedPool<K> {
    records: Slab<Timed<K>>,
    by_key: Table,
    due: DueIndex,
}

#[derive(Debug)]
struct Timed<K> {
    key: K,
    until: MonoTime,
}

impl<K: Hash + Eq + Copy> TimedPool<K> {
    pub(crate) fn new() -> Self {
        Self { records: Slab::new(), by_key: Table::new(), due: DueIndex::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn first_dead(&self, now: MonoTime) -> Option<Due> {
        self.due.first_dead(now)
    }

    pub(crate) fn count_dead(&self, now: MonoTime) -> usize {
        self.due.count_dead(now)
    }

    fn find(&self, key: K) -> Option<u32> {
        self.by_key.get(fold(key), |slot| self.records[slot as usize].key == key)
    }

    /// When the live record of `key` ends.
    pub(crate) fn until(&self, key: K, now: MonoTime) -> Option<MonoTime> {
        if self.records.is_empty() {
            return None;
        }
        let until = self.records[self.find(key)? as usize].until;
        (!until.is_past(now)).then_some(until)
    }

    /// Inserts, or moves the end of the present record.
    pub(crate) fn set(&mut self, key: K, until: MonoTime) {
        if let Some(slot) = self.find(key) {
            self.records[slot as usize].until = until;
            self.due.reschedule(slot, until);
            return;
        }
        let slot = self.records.insert(Timed { key, until }) as u32;
        let records = &self.records;
        self.by_key.insert(fold(key), slot, |slot| fold(records[slot as usize].key));
        self.due.push(until, slot);
    }

    pub(crate) fn remove(&mut self, key: K) -> bool {
        let found = self.find(key);
        if let Some(slot) = found {
            self.remove_slot(slot);
        }
        found.is_some()
    }

    pub(crate) fn remove_slot(&mut self, slot: u32) {
        self.due.remove(slot);
        let removed = self.records.remove(slot as usize);
        self.by_key.remove(fold(removed.key), slot);
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) {
        assert_eq!(self.records.len(), self.by_key.len());
        assert_eq!(self.records.len(), self.due.len());
        for (slot, record) in &self.records {
            assert_eq!(self.find(record.key), Some(slot as u32));
            assert_eq!(self.due.filed(slot as u32), Some(record.until));
        }
    }
}
