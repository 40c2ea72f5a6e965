//! A unit of work: the rows that a batch of operations has read and written, in front of a backend.
//!
//! Each operation is atomic: one that is refused leaves what it wrote behind nowhere. A whole batch is written at once.

use super::Settings;
use super::records::{Key, Record, Scan, Table, Value};
use crate::admission::model::{CommandSeq, HostId, SessionId, StoreError, Tenant, Timestamp, Unavailable};
use std::collections::HashMap;

/// A row to write, or to delete.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) table: &'static Table,
    pub(crate) key: Key,
    pub(crate) row: Option<Vec<Value>>,
}

/// What a backend does: rows by key, rows by index, and writes, inside a transaction that somebody else began.
pub(crate) trait Rows {
    /// The rows with these keys, in their order.
    fn load(&mut self, table: &'static Table, keys: &[Key]) -> Result<Vec<Option<Vec<Value>>>, Unavailable>;

    /// The rows of an index range, in its order, each with the selected columns.
    fn scan(&mut self, scan: &Scan) -> Result<Vec<Vec<Value>>, Unavailable>;

    /// Writes them all.
    fn write(&mut self, changes: Vec<Change>) -> Result<(), Unavailable>;
}

/// Something that a waiting caller may want to know of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Notice {
    /// A command's row changed.
    Command(Tenant, SessionId, CommandSeq),
    /// There may be work for a host.
    Host(HostId),
}

struct Slot {
    table: &'static Table,
    row: Option<Vec<Value>>,
    dirty: bool,
}

type SlotKey = (usize, Key);

/// See the module's documentation.
pub(crate) struct Unit<'a> {
    rows: &'a mut dyn Rows,
    /// The store's time for all operations of the batch.
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    slots: HashMap<SlotKey, Slot>,
    /// What the running operation has overwritten, oldest first.
    undo: Vec<(SlotKey, Option<Slot>)>,
    notices: Vec<Notice>,
    notices_before: usize,
    /// Rows that were passed over because they can't be read.
    unreadable: u64,
}

impl<'a> Unit<'a> {
    pub(crate) fn new(rows: &'a mut dyn Rows, now: Timestamp, settings: &'a Settings) -> Self {
        Self {
            rows,
            now,
            settings,
            slots: HashMap::new(),
            undo: Vec::new(),
            notices: Vec::new(),
            notices_before: 0,
            unreadable: 0,
        }
    }

    /// Reads rows ahead that operations are going to ask for, one question per table.
    pub(crate) fn prefetch(&mut self, wanted: Vec<(&'static Table, Key)>) -> Result<(), Unavailable> {
        let mut by_table: HashMap<usize, (&'static Table, Vec<Key>)> = HashMap::new();
        for (table, key) in wanted {
            let keys = &mut by_table.entry(table.id).or_insert((table, Vec::new())).1;
            keys.push(key);
        }
        for (_, (table, mut keys)) in by_table {
            keys.sort_unstable();
            keys.dedup();
            let rows = self.rows.load(table, &keys)?;
            for (key, row) in keys.into_iter().zip(rows) {
                self.slots.insert((table.id, key), Slot { table, row, dirty: false });
            }
        }
        Ok(())
    }

    /// The next operation begins; what the last one did stays.
    pub(crate) fn begin(&mut self) {
        self.undo.clear();
        self.notices_before = self.notices.len();
    }

    /// Takes back what the running operation did.
    pub(crate) fn take_back(&mut self) {
        for (key, before) in self.undo.drain(..).rev() {
            match before {
                Some(slot) => self.slots.insert(key, slot),
                None => self.slots.remove(&key),
            };
        }
        self.notices.truncate(self.notices_before);
    }

    /// The row with this key.
    pub(crate) fn get<R: Record>(&mut self, key: Key) -> Result<Option<R>, StoreError> {
        let slot_key = (R::TABLE.id, key);
        if !self.slots.contains_key(&slot_key) {
            let mut rows = self.rows.load(R::TABLE, std::slice::from_ref(&slot_key.1))?;
            let row = rows.pop().flatten();
            self.slots.insert(slot_key.clone(), Slot { table: R::TABLE, row, dirty: false });
        }
        let row = self.slots.get(&slot_key).and_then(|slot| slot.row.as_ref());
        row.map(|values| R::of_values(values).map_err(StoreError::from)).transpose()
    }

    /// What was read, if it can be read. One row that can't be is no reason to leave the others: it is passed over, counted,
    /// and never guessed at (rule P9).
    pub(crate) fn readable<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::Unreadable(_)) => {
                self.unreadable += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// How many rows were passed over.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Writes a row.
    pub(crate) fn put<R: Record>(&mut self, record: &R) {
        let values = record.to_values();
        self.set(R::TABLE, values[..R::TABLE.key_len].to_vec(), Some(values));
    }

    /// Removes a row.
    pub(crate) fn delete<R: Record>(&mut self, key: Key) {
        self.set(R::TABLE, key, None);
    }

    fn set(&mut self, table: &'static Table, key: Key, row: Option<Vec<Value>>) {
        let slot_key = (table.id, key);
        let before = self.slots.insert(slot_key.clone(), Slot { table, row, dirty: true });
        self.undo.push((slot_key, before));
    }

    /// Rows of an index range. Only before the operation's first write, which it therefore does not see.
    pub(crate) fn scan(&mut self, scan: &Scan) -> Result<Vec<Vec<Value>>, Unavailable> {
        debug_assert!(self.undo.is_empty(), "an operation scans before it writes");
        self.flush()?;
        self.rows.scan(scan)
    }

    /// Tells whoever waits, once the batch is durable.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Whether anything is to be written.
    pub(crate) fn is_dirty(&self) -> bool {
        self.slots.values().any(|slot| slot.dirty)
    }

    /// Hands all writes to the backend.
    pub(crate) fn flush(&mut self) -> Result<(), Unavailable> {
        let mut changes: Vec<Change> = self
            .slots
            .iter_mut()
            .filter(|(_, slot)| slot.dirty)
            .map(|((_, key), slot)| {
                slot.dirty = false;
                Change { table: slot.table, key: key.clone(), row: slot.row.clone() }
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        // In key order: neighbours meet in one page, and no two processes lock rows in opposite orders (case Q7).
        changes.sort_unstable_by(|a, b| (a.table.id, &a.key).cmp(&(b.table.id, &b.key)));
        self.rows.write(changes)
    }

    /// The notices of the whole batch.
    pub(crate) fn into_notices(self) -> Vec<Notice> {
        self.notices
    }
}
