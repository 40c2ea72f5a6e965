//! Groups of records by a quota's key, each ordered by deadline.
//!
//! A group of one is its member: the table leads to the record itself, which knows its key and its deadline. Only a
//! group of two and more has a heap. So the usual owner of one listing costs one entry of a table.

use super::due::{Due, DueHeap, Positions};
use super::table::{Table, fold};
use crate::domain::MonoTime;
use slab::Slab;
use std::hash::Hash;
use std::marker::PhantomData;

/// Marks an entry that leads to a heap; pools have fewer slots than this.
const MANY: u32 = 1 << 31;

/// See the module's documentation. `member` tells a record's key and deadline by its slot.
#[derive(Debug)]
pub(crate) struct Groups<K> {
    table: Table,
    heaps: Slab<DueHeap>,
    /// Positions of members of groups of two and more.
    positions: Positions,
    keys: PhantomData<K>,
}

/// What an entry of the table leads to.
enum Group {
    Sole(u32),
    Many(usize),
}

fn group(entry: u32) -> Group {
    if entry & MANY == 0 { Group::Sole(entry) } else { Group::Many((entry & !MANY) as usize) }
}

impl<K: Hash + Eq + Copy> Groups<K> {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(), heaps: Slab::new(), positions: Positions::default(), keys: PhantomData }
    }

    fn find(&self, key: K, member: &impl Fn(u32) -> (K, MonoTime)) -> Option<u32> {
        self.table.get(fold(key), |entry| key_of(&self.heaps, entry, member) == Some(key))
    }

    pub(crate) fn len_of(&self, key: K, member: impl Fn(u32) -> (K, MonoTime)) -> usize {
        match self.find(key, &member).map(group) {
            None => 0,
            Some(Group::Sole(_)) => 1,
            Some(Group::Many(heap)) => self.heaps[heap].len(),
        }
    }

    /// The oldest member of a group, if it is dead at `now`.
    pub(crate) fn first_dead(&self, key: K, now: MonoTime, member: impl Fn(u32) -> (K, MonoTime)) -> Option<Due> {
        match group(self.find(key, &member)?) {
            Group::Sole(slot) => Some(Due { at: member(slot).1, slot }).filter(|due| due.at.is_past(now)),
            Group::Many(heap) => self.heaps[heap].first_dead(now),
        }
    }

    /// All members of a group, by slot.
    pub(crate) fn members(&self, key: K, member: impl Fn(u32) -> (K, MonoTime)) -> Vec<u32> {
        let mut members = match self.find(key, &member).map(group) {
            None => Vec::new(),
            Some(Group::Sole(slot)) => vec![slot],
            Some(Group::Many(heap)) => self.heaps[heap].iter().map(|due| due.slot).collect(),
        };
        members.sort_unstable();
        members
    }

    /// Adds the record at `slot` to the group of its key.
    pub(crate) fn push(&mut self, slot: u32, member: impl Fn(u32) -> (K, MonoTime)) {
        let (key, at) = member(slot);
        let hash = fold(key);
        let Some(entry) = self.find(key, &member) else {
            let heaps = &self.heaps;
            let hash_of = |entry| key_of(heaps, entry, &member).map_or(0, fold);
            return self.table.insert(hash, slot, hash_of);
        };
        let heap = match group(entry) {
            Group::Many(heap) => &mut self.heaps[heap],
            Group::Sole(other) => {
                let place = self.heaps.insert(DueHeap::EMPTY);
                self.table.replace(hash, entry, MANY | place as u32);
                let heap = &mut self.heaps[place];
                heap.push(member(other).1, other, &mut self.positions);
                heap
            }
        };
        heap.push(at, slot, &mut self.positions);
    }

    /// Moves the record at `slot` to its present deadline.
    pub(crate) fn reschedule(&mut self, slot: u32, member: impl Fn(u32) -> (K, MonoTime)) {
        if !self.positions.contains(slot) {
            return;
        }
        let (key, at) = member(slot);
        if let Some(Group::Many(heap)) = self.find(key, &member).map(group) {
            self.heaps[heap].reschedule(slot, at, &mut self.positions);
        }
    }

    /// Takes the record at `slot` out of its group.
    pub(crate) fn remove(&mut self, slot: u32, member: impl Fn(u32) -> (K, MonoTime)) {
        let key = member(slot).0;
        let hash = fold(key);
        if !self.positions.contains(slot) {
            return self.table.remove(hash, slot);
        }
        let Some(entry) = self.find(key, &member) else { return };
        let Group::Many(place) = group(entry) else { return };
        let heap = &mut self.heaps[place];
        heap.remove(slot, &mut self.positions);
        // The last one stands for itself again.
        if let (1, Some(last)) = (heap.len(), heap.first()) {
            heap.remove(last.slot, &mut self.positions);
            self.heaps.remove(place);
            self.table.replace(hash, entry, last.slot);
        }
    }

    /// Each member stands in exactly one group, under its key and deadline.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, members: impl Iterator<Item = u32>, member: impl Fn(u32) -> (K, MonoTime)) {
        let (mut all, mut sole) = (0, 0);
        for slot in members {
            all += 1;
            let (key, at) = member(slot);
            match self.find(key, &member).map(group) {
                Some(Group::Sole(known)) => {
                    assert_eq!(known, slot);
                    assert!(!self.positions.contains(slot));
                    sole += 1;
                }
                Some(Group::Many(heap)) => {
                    assert!(self.heaps[heap].len() > 1);
                    assert_eq!(self.heaps[heap].filed(slot, &self.positions), Some(at));
                }
                None => panic!("a record without its group"),
            }
        }
        assert_eq!(all - sole, self.heaps.iter().map(|(_, heap)| heap.len()).sum::<usize>());
        assert_eq!(self.table.len(), sole + self.heaps.len());
    }
}

/// The key of the group that an entry leads to; no heap is empty.
fn key_of<K>(heaps: &Slab<DueHeap>, entry: u32, member: &impl Fn(u32) -> (K, MonoTime)) -> Option<K> {
    match group(entry) {
        Group::Sole(slot) => Some(member(slot).0),
        Group::Many(heap) => heaps[heap].first().map(|due| member(due.slot).0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_agree_with_a_scan_under_random_changes() {
        let mut groups: Groups<u64> = Groups::new();
        // Key and deadline by slot; key 0 is no member.
        let mut records = vec![(0_u64, MonoTime(0)); 40];
        let mut random = 5_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as u32 % 40;
            let place = slot as usize;
            let at = MonoTime((random >> 40) % 50);
            if records[place].0 == 0 {
                records[place] = ((random >> 20) % 9 + 1, at);
                groups.push(slot, |slot| records[slot as usize]);
            } else if random.is_multiple_of(3) {
                groups.remove(slot, |slot| records[slot as usize]);
                records[place].0 = 0;
            } else {
                records[place].1 = at;
                groups.reschedule(slot, |slot| records[slot as usize]);
            }
            let member = |slot: u32| records[slot as usize];
            groups.check((0..40).filter(|slot| member(*slot).0 != 0), member);
            for key in 1..10 {
                let of_key = || (0..40).filter(|slot| member(*slot).0 == key);
                assert_eq!(groups.members(key, member), of_key().collect::<Vec<_>>());
                assert_eq!(groups.len_of(key, member), of_key().count());
                let dead = of_key().map(|slot| Due { at: member(slot).1, slot }).filter(|due| due.at.0 <= 25).min();
                assert_eq!(groups.first_dead(key, MonoTime(25), member), dead);
            }
        }
    }
}
