//! An indexed 4-ary heap by deadline: push, move and remove cost O(log n), the oldest is at hand.
//!
//! The heap tells every move to `place`, so that a record always knows its position and can be moved or removed
//! without a search. Equal deadlines come out by slot, so that replays agree.

use crate::domain::MonoTime;

/// Children per node: four 16-byte entries share a cache line.
const ARITY: usize = 4;

/// A position that no heap has.
pub(crate) const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: MonoTime,
    pub(crate) slot: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DueHeap {
    items: Vec<Due>,
}

impl DueHeap {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity) }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The entry with the earliest deadline.
    pub(crate) fn first(&self) -> Option<Due> {
        self.items.first().copied()
    }

    /// The earliest entry, if it is dead at `now`.
    pub(crate) fn first_dead(&self, now: MonoTime) -> Option<Due> {
        self.first().filter(|due| due.at.is_past(now))
    }

    /// All entries in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Due> + '_ {
        self.items.iter().copied()
    }

    pub(crate) fn push(&mut self, at: MonoTime, slot: u32, place: &mut impl FnMut(u32, u32)) {
        self.items.push(Due { at, slot });
        self.rise(self.items.len() - 1, place);
    }

    /// Removes the entry at `position`.
    pub(crate) fn remove(&mut self, position: u32, place: &mut impl FnMut(u32, u32)) {
        let position = position as usize;
        let removed = self.items.swap_remove(position);
        place(removed.slot, NOWHERE);
        if position < self.items.len() {
            self.settle(position, place);
        }
    }

    /// Gives the entry at `position` another deadline.
    pub(crate) fn reschedule(&mut self, position: u32, at: MonoTime, place: &mut impl FnMut(u32, u32)) {
        self.items[position as usize].at = at;
        self.settle(position as usize, place);
    }

    /// Number of entries dead at `now`; costs O(dead).
    pub(crate) fn count_dead(&self, now: MonoTime) -> usize {
        self.iter_dead(now).len()
    }

    /// Slots of the entries dead at `now`, in no particular order; costs O(dead).
    pub(crate) fn iter_dead(&self, now: MonoTime) -> Vec<u32> {
        let mut dead = Vec::new();
        let mut open = Vec::new();
        open.extend(self.first_dead(now).map(|_| 0));
        while let Some(node) = open.pop() {
            if let Some(due) = self.items.get(node).filter(|due| due.at.is_past(now)) {
                dead.push(due.slot);
                open.extend(node * ARITY + 1..=node * ARITY + ARITY);
            }
        }
        dead
    }

    fn settle(&mut self, position: usize, place: &mut impl FnMut(u32, u32)) {
        let position = self.rise(position, place);
        self.sink(position, place);
    }

    fn rise(&mut self, mut position: usize, place: &mut impl FnMut(u32, u32)) -> usize {
        let item = self.items[position];
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.items[parent] <= item {
                break;
            }
            self.put(position, self.items[parent], place);
            position = parent;
        }
        self.put(position, item, place);
        position
    }

    fn sink(&mut self, mut position: usize, place: &mut impl FnMut(u32, u32)) {
        let item = self.items[position];
        loop {
            let first = position * ARITY + 1;
            let last = (first + ARITY).min(self.items.len());
            let Some(least) = (first..last).min_by_key(|child| self.items[*child]) else { break };
            if item <= self.items[least] {
                break;
            }
            self.put(position, self.items[least], place);
            position = least;
        }
        self.put(position, item, place);
    }

    fn put(&mut self, position: usize, item: Due, place: &mut impl FnMut(u32, u32)) {
        self.items[position] = item;
        place(item.slot, position as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_positions_under_random_changes() {
        let mut heap = DueHeap::default();
        let mut position = vec![NOWHERE; 64];
        let mut truth: Vec<Option<u64>> = vec![None; 64];
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as usize % 64;
            let at = (random >> 40) % 50;
            let here = position[slot];
            let mut place = |slot: u32, at: u32| position[slot as usize] = at;
            match truth[slot] {
                None => {
                    heap.push(MonoTime(at), slot as u32, &mut place);
                    truth[slot] = Some(at);
                }
                Some(_) if random.is_multiple_of(3) => {
                    heap.remove(here, &mut place);
                    truth[slot] = None;
                }
                Some(_) => {
                    heap.reschedule(here, MonoTime(at), &mut place);
                    truth[slot] = Some(at);
                }
            }
            let least = truth.iter().enumerate().filter_map(|(slot, at)| at.map(|at| (at, slot))).min();
            assert_eq!(heap.first().map(|due| (due.at.0, due.slot as usize)), least);
            let dead = truth.iter().flatten().filter(|at| **at <= 25).count();
            assert_eq!(heap.count_dead(MonoTime(25)), dead);
            for (slot, position) in position.iter().enumerate() {
                assert_eq!(*position != NOWHERE, truth[slot].is_some());
            }
        }
    }
}
