//! Rows in memory: ordered maps behind one lock. For tests, simulations and demonstrations.

use super::batch::{self, Backend, Engine, Job, Shared};
use super::clock::StoreClock;
use super::records::{INDEXES, Index, Key, Scan, TABLES, Table, Value};
use super::settings::Settings;
use super::unit::{Change, Notice, Rows};
use crate::admission::model::{Timestamp, Unavailable};
use crate::admission::traits::Clock;
use crate::admission::waits::Waits;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module's documentation.
pub(crate) struct Memory {
    shared: Shared,
    rows: Mutex<MemoryRows>,
}

impl Memory {
    pub(crate) fn new(settings: Arc<Settings>, clock: Arc<dyn Clock>, waits: Arc<Waits>) -> Self {
        let clock = StoreClock::new(Some(clock), Timestamp(0));
        let shared = Shared { settings, clock, waits, unreadable: AtomicU64::new(0) };
        Self { shared, rows: Mutex::default() }
    }
}

impl Engine for Memory {
    fn submit(&self, job: Box<dyn Job>) {
        // A unit of work writes at its end or not at all, so a panic leaves the rows as they were.
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        batch::run(&mut *rows, &self.shared, vec![job]);
    }

    fn unreadable(&self) -> &AtomicU64 {
        &self.shared.unreadable
    }
}

#[derive(Default)]
struct MemoryRows {
    tables: [BTreeMap<Key, Vec<Value>>; TABLES.len()],
    /// The columns of each index lead to the row's key.
    indexes: [BTreeMap<Vec<Value>, Key>; INDEXES.len()],
}

/// What a row is filed under in an index, if it is.
fn filed(index: &Index, row: &[Value]) -> Option<Vec<Value>> {
    let values: Vec<Value> = index.columns.iter().map(|column| row[index.table.position(column)].clone()).collect();
    let is_null = values.iter().take(index.sorted + 1).any(|value| *value == Value::Null);
    (!is_null).then_some(values)
}

impl MemoryRows {
    fn set(&mut self, table: &'static Table, key: Key, row: Option<Vec<Value>>) {
        let old = match &row {
            Some(row) => self.tables[table.id].insert(key.clone(), row.clone()),
            None => self.tables[table.id].remove(&key),
        };
        for index in INDEXES.iter().filter(|index| index.table.id == table.id) {
            if let Some(filed) = old.as_ref().and_then(|row| filed(index, row)) {
                self.indexes[index.id].remove(&filed);
            }
            if let Some(filed) = row.as_ref().and_then(|row| filed(index, row)) {
                self.indexes[index.id].insert(filed, key.clone());
            }
        }
    }
}

impl Rows for MemoryRows {
    fn load(&mut self, table: &'static Table, keys: &[Key]) -> Result<Vec<Option<Vec<Value>>>, Unavailable> {
        Ok(keys.iter().map(|key| self.tables[table.id].get(key).cloned()).collect())
    }

    fn scan(&mut self, scan: &Scan) -> Result<Vec<Vec<Value>>, Unavailable> {
        let table = scan.index.table;
        let selected: Vec<usize> = scan.selected().into_iter().map(|column| table.position(column)).collect();
        let mut from = scan.prefix.clone();
        let start = match &scan.after {
            Some(after) => {
                from.extend(after.iter().cloned());
                Bound::Excluded(from)
            }
            None => Bound::Included(from),
        };
        let depth = scan.prefix.len();
        let inside = |filed: &Vec<Value>| {
            filed[..depth] == scan.prefix[..] && scan.upto.as_ref().is_none_or(|upto| filed[depth] <= *upto)
        };
        let range = self.indexes[scan.index.id].range((start, Bound::Unbounded));
        let keys = range.take_while(|(filed, _)| inside(filed)).take(scan.limit).map(|(_, key)| key);
        let rows = keys.filter_map(|key| self.tables[table.id].get(key));
        Ok(rows.map(|row| selected.iter().map(|place| row[*place].clone()).collect()).collect())
    }

    fn write(&mut self, changes: Vec<Change>) -> Result<(), Unavailable> {
        changes.into_iter().for_each(|change| self.set(change.table, change.key, change.row));
        Ok(())
    }
}

impl Backend for MemoryRows {
    fn begin(&mut self, _: bool, _: &[u64]) -> Result<Option<Timestamp>, Unavailable> {
        Ok(None)
    }

    fn commit(&mut self, _: &[Notice]) -> Result<(), Unavailable> {
        Ok(())
    }

    fn rollback(&mut self) {
        // Writes come last, and cannot fail.
    }

    fn keeps_time(&self) -> bool {
        false
    }
}
