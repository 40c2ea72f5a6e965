//! An indexed 4-ary heap by deadline: push, move and remove cost O(log n), the oldest is at hand.
//!
//! The positions stand beside the heap in one dense table by slot, not in the records: moving an entry then touches a
//! few neighbouring words instead of one cold record per level. Equal deadlines come out by slot, so that replays agree.

use crate::domain::MonoTime;

/// Children per node: four 16-byte entries fill a cache line.
const ARITY: usize = 4;

/// A position that no heap has.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: MonoTime,
    pub(crate) slot: u32,
}

/// Where each slot stands in its heap. Heaps whose slots are disjoint share one table.
#[derive(Debug, Default)]
pub(crate) struct Positions(Vec<u32>);

impl Positions {
    fn get(&self, slot: u32) -> Option<usize> {
        self.0.get(slot as usize).filter(|position| **position != NOWHERE).map(|position| *position as usize)
    }

    fn set(&mut self, slot: u32, position: u32) {
        if let Some(place) = self.0.get_mut(slot as usize) {
            *place = position;
        } else if position != NOWHERE {
            self.0.resize(slot as usize + 1, NOWHERE);
            self.0[slot as usize] = position;
        }
    }

    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.get(slot).is_some()
    }
}

/// A heap without its positions, for the many small ones that share a table.
#[derive(Debug, Default)]
pub(crate) struct DueHeap {
    items: Vec<Due>,
}

impl DueHeap {
    /// A heap without entries.
    pub(crate) const EMPTY: Self = Self { items: Vec::new() };

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

    pub(crate) fn push(&mut self, at: MonoTime, slot: u32, positions: &mut Positions) {
        self.items.push(Due { at, slot });
        self.rise(self.items.len() - 1, positions);
    }

    /// Removes the entry of `slot`, if it is here.
    pub(crate) fn remove(&mut self, slot: u32, positions: &mut Positions) {
        let Some(position) = positions.get(slot) else { return };
        self.items.swap_remove(position);
        positions.set(slot, NOWHERE);
        if position < self.items.len() {
            self.settle(position, positions);
        }
    }

    /// Gives the entry of `slot` another deadline.
    pub(crate) fn reschedule(&mut self, slot: u32, at: MonoTime, positions: &mut Positions) {
        let Some(position) = positions.get(slot) else { return };
        if self.items[position].at != at {
            self.items[position].at = at;
            self.settle(position, positions);
        }
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

    /// The deadline under which `slot` is filed here.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn filed(&self, slot: u32, positions: &Positions) -> Option<MonoTime> {
        let due = self.items.get(positions.get(slot)?)?;
        (due.slot == slot).then_some(due.at)
    }

    fn settle(&mut self, position: usize, positions: &mut Positions) {
        let position = self.rise(position, positions);
        self.sink(position, positions);
    }

    fn rise(&mut self, mut position: usize, positions: &mut Positions) -> usize {
        let item = self.items[position];
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.items[parent] <= item {
                break;
            }
            self.put(position, self.items[parent], positions);
            position = parent;
        }
        self.put(position, item, positions);
        position
    }

    fn sink(&mut self, mut position: usize, positions: &mut Positions) {
        let item = self.items[position];
        let start = position;
        loop {
            let first = position * ARITY + 1;
            let last = (first + ARITY).min(self.items.len());
            let Some(least) = (first..last).min_by_key(|child| self.items[*child]) else { break };
            if item <= self.items[least] {
                break;
            }
            self.put(position, self.items[least], positions);
            position = least;
        }
        if position != start {
            self.put(position, item, positions);
        }
    }

    fn put(&mut self, position: usize, item: Due, positions: &mut Positions) {
        super::work::count();
        self.items[position] = item;
        positions.set(item.slot, position as u32);
    }
}

/// The due index of a whole pool: a heap with its positions.
#[derive(Debug, Default)]
pub(crate) struct DueIndex {
    heap: DueHeap,
    positions: Positions,
}

impl DueIndex {
    /// Room for `capacity` entries is reserved, not touched: growth never copies inside a transition.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let heap = DueHeap { items: Vec::with_capacity(capacity) };
        Self { heap, positions: Positions(Vec::with_capacity(capacity)) }
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn first_dead(&self, now: MonoTime) -> Option<Due> {
        self.heap.first_dead(now)
    }

    pub(crate) fn count_dead(&self, now: MonoTime) -> usize {
        self.heap.count_dead(now)
    }

    pub(crate) fn iter_dead(&self, now: MonoTime) -> Vec<u32> {
        self.heap.iter_dead(now)
    }

    pub(crate) fn push(&mut self, at: MonoTime, slot: u32) {
        self.heap.push(at, slot, &mut self.positions);
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.heap.remove(slot, &mut self.positions);
    }

    pub(crate) fn reschedule(&mut self, slot: u32, at: MonoTime) {
        self.heap.reschedule(slot, at, &mut self.positions);
    }

    /// The deadline under which `slot` is filed.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn filed(&self, slot: u32) -> Option<MonoTime> {
        self.heap.filed(slot, &self.positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_positions_under_random_changes() {
        let mut index = DueIndex::default();
        let mut truth: Vec<Option<u64>> = vec![None; 64];
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as usize % 64;
            let at = (random >> 40) % 50;
            match truth[slot] {
                None => {
                    index.push(MonoTime(at), slot as u32);
                    truth[slot] = Some(at);
                }
                Some(_) if random.is_multiple_of(3) => {
                    index.remove(slot as u32);
                    truth[slot] = None;
                }
                Some(_) => {
                    index.reschedule(slot as u32, MonoTime(at));
                    truth[slot] = Some(at);
                }
            }
            let least = truth.iter().enumerate().filter_map(|(slot, at)| at.map(|at| (at, slot))).min();
            assert_eq!(index.heap.first().map(|due| (due.at.0, due.slot as usize)), least);
            let dead = truth.iter().flatten().filter(|at| **at <= 25).count();
            assert_eq!(index.count_dead(MonoTime(25)), dead);
            for (slot, at) in truth.iter().enumerate() {
                assert_eq!(index.filed(slot as u32).map(|at| at.0), *at);
            }
        }
    }
}
