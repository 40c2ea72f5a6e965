//! Pools: slabs with a due index, and groups that count and order the members of a quota.

use super::due::{Due, DueHeap, NOWHERE};
use super::record::Timed;
use crate::domain::MonoTime;
use slab::Slab;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Hashes keys that are digests or random ids already: folding their words is enough, and the same in every run.
#[derive(Clone, Copy, Default)]
pub(crate) struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        // The table takes its tag from the upper bits and its bucket from the lower ones.
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

/// A map that is only ever looked up, never iterated: its order can't reach an outcome.
pub(crate) type FoldMap<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

/// A map with room for `capacity` entries, so that growth never stalls a transition.
pub(crate) fn fold_map<K, V>(capacity: usize) -> FoldMap<K, V> {
    HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default())
}

/// Groups of records by a quota's key; each group is ordered by deadline.
#[derive(Debug)]
pub(crate) struct Groups<K> {
    heaps: FoldMap<K, DueHeap>,
}

impl<K: Hash + Eq + Copy> Groups<K> {
    pub(crate) fn new() -> Self {
        Self { heaps: fold_map(0) }
    }

    pub(crate) fn len_of(&self, key: K) -> usize {
        self.heaps.get(&key).map_or(0, DueHeap::len)
    }

    pub(crate) fn first_dead(&self, key: K, now: MonoTime) -> Option<Due> {
        self.heaps.get(&key)?.first_dead(now)
    }

    pub(crate) fn members(&self, key: K) -> Vec<u32> {
        let mut members: Vec<u32> =
            self.heaps.get(&key).into_iter().flat_map(DueHeap::iter).map(|due| due.slot).collect();
        members.sort_unstable();
        members
    }

    pub(crate) fn push(&mut self, key: K, at: MonoTime, slot: u32, place: &mut impl FnMut(u32, u32)) {
        self.heaps.entry(key).or_insert_with(|| DueHeap::with_capacity(1)).push(at, slot, place);
    }

    pub(crate) fn reschedule(&mut self, key: K, position: u32, at: MonoTime, place: &mut impl FnMut(u32, u32)) {
        if let Some(heap) = self.heaps.get_mut(&key) {
            heap.reschedule(position, at, place);
        }
    }

    pub(crate) fn remove(&mut self, key: K, position: u32, place: &mut impl FnMut(u32, u32)) {
        if let Some(heap) = self.heaps.get_mut(&key) {
            heap.remove(position, place);
            if heap.is_empty() {
                self.heaps.remove(&key);
            }
        }
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn total(&self) -> usize {
        self.heaps.values().map(DueHeap::len).sum()
    }
}

/// Keys with an end: revocations in force, single-use keys that were used.
#[derive(Debug)]
pub(crate) struct TimedPool<K> {
    records: Slab<Timed<K>>,
    by_key: FoldMap<K, u32>,
    due: DueHeap,
}

impl<K: Hash + Eq + Copy> TimedPool<K> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { records: Slab::new(), by_key: fold_map(capacity.min(PREALLOCATED)), due: DueHeap::default() }
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

    /// When the live record of `key` ends.
    pub(crate) fn until(&self, key: K, now: MonoTime) -> Option<MonoTime> {
        let until = self.records[*self.by_key.get(&key)? as usize].until;
        (!until.is_past(now)).then_some(until)
    }

    /// Inserts, or moves the end of the present record.
    pub(crate) fn set(&mut self, key: K, until: MonoTime) {
        let records = &mut self.records;
        if let Some(slot) = self.by_key.get(&key).copied() {
            records[slot as usize].until = until;
            let position = records[slot as usize].due;
            self.due.reschedule(position, until, &mut |slot, at| records[slot as usize].due = at);
            return;
        }
        let slot = records.insert(Timed::new(key, until)) as u32;
        self.by_key.insert(key, slot);
        self.due.push(until, slot, &mut |slot, at| records[slot as usize].due = at);
    }

    pub(crate) fn remove(&mut self, key: K) -> bool {
        let found = self.by_key.get(&key).copied();
        if let Some(slot) = found {
            self.remove_slot(slot);
        }
        found.is_some()
    }

    pub(crate) fn remove_slot(&mut self, slot: u32) {
        let records = &mut self.records;
        let position = records[slot as usize].due;
        self.due.remove(position, &mut |slot, at| records[slot as usize].due = at);
        let removed = self.records.remove(slot as usize);
        self.by_key.remove(&removed.key);
        debug_assert_eq!(removed.due, NOWHERE);
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) {
        assert_eq!(self.records.len(), self.by_key.len());
        assert_eq!(self.records.len(), self.due.len());
    }
}

/// Records for which room is made at start; larger pools grow by doubling.
pub(crate) const PREALLOCATED: usize = 1 << 20;
