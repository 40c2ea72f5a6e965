//! Hash tables of 32-bit entries: the keys stay in the records that the entries lead to.
//!
//! An entry costs four bytes and a tag instead of a second copy of a 16-byte key. Each table is made of many small
//! ones, so that growing one moves a few thousand entries and never stalls a transition, and a table's memory follows
//! its use instead of its ceiling. They are not equally small: a small table doubles, and if all of them did at about
//! the same number of entries, a whole table would be little more than half used right after it and its growth would
//! come in bursts.

use hashbrown::HashTable;
use std::hash::{Hash, Hasher};

/// Parts of a table: at a million entries, growth moves 3,584 of them.
const PARTS: u64 = 256;
/// Bits of a hash that pick a part: between those that pick a bucket and those that make its tag.
const PART_SHIFT: u32 = 44;
const PART_BITS: u32 = 13;

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

/// The hash of a key.
pub(crate) fn fold(key: impl Hash) -> u64 {
    let mut hasher = FoldHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// See the module's documentation. It is only ever looked up, never iterated: its order can't reach an outcome.
#[derive(Debug)]
pub(crate) struct Table {
    parts: Box<[HashTable<u32>]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }

    /// The part that a hash belongs to. The last part gets twice as many as the first, and those between as many as
    /// spread their doublings evenly: with x of 0 to 1 out of the hash, part log2(1 + x), by a parabola through its ends
    /// that is off by less than a hundredth.
    fn part(hash: u64) -> usize {
        const CURVE: u64 = 2_815;
        let x = (hash >> PART_SHIFT) & ((1 << PART_BITS) - 1);
        let scaled = x * ((1 << PART_BITS) + CURVE) - ((x * x * CURVE) >> PART_BITS);
        ((scaled * PARTS) >> (2 * PART_BITS)) as usize
    }

    /// The entry with this hash for which `is_it` holds.
    pub(crate) fn get(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let found = self.parts[Self::part(hash)].find(hash, |entry| {
            super::work::count();
            is_it(*entry)
        });
        found.copied()
    }

    /// Adds an entry that is not there; `hash_of` is asked when the part has to grow.
    pub(crate) fn insert(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64) {
        self.parts[Self::part(hash)].insert_unique(hash, entry, |entry| hash_of(*entry));
    }

    /// Lets the key of `entry` lead to `other`.
    pub(crate) fn replace(&mut self, hash: u64, entry: u32, other: u32) {
        if let Some(found) = self.parts[Self::part(hash)].find_mut(hash, |known| *known == entry) {
            *found = other;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, entry: u32) {
        if let Ok(found) = self.parts[Self::part(hash)].find_entry(hash, |known| *known == entry) {
            found.remove();
        }
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_map_under_random_changes() {
        let mut table = Table::new();
        let mut keys: Vec<Option<u128>> = vec![None; 5_000];
        let mut random = 3_u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as usize % keys.len();
            match keys[slot].take() {
                Some(key) => table.remove(fold(key), slot as u32),
                None => {
                    let key = u128::from(random) << 64 | u128::from(random.rotate_left(17));
                    keys[slot] = Some(key);
                    table.insert(fold(key), slot as u32, |entry| fold(keys[entry as usize].unwrap_or_default()));
                }
            }
        }
        assert_eq!(table.len(), keys.iter().flatten().count());
        for (slot, key) in keys.iter().enumerate() {
            let Some(key) = key else { continue };
            assert_eq!(table.get(fold(key), |entry| keys[entry as usize] == Some(*key)), Some(slot as u32));
        }
    }

    #[test]
    fn entries_spread_over_the_parts() {
        let mut table = Table::new();
        (0..100_000_u64).for_each(|n| {
            table.insert(fold(u128::from(n) << 80 | u128::from(n) << 32), n as u32, |n| fold(u128::from(n)))
        });
        let largest = table.parts.iter().map(HashTable::len).max().unwrap_or(0);
        assert!(largest < 2 * 100_000 / PARTS as usize, "{largest} of 100,000 in one of {PARTS} parts");
        assert!(table.parts.iter().all(|part| part.len() > 100_000 / 2 / PARTS as usize), "each part has its share");
    }

    /// Bar P9: bytes an entry do not depend on where the number of entries lies between two doublings.
    #[test]
    fn bar_p9_parts_do_not_double_together() {
        let mut table = Table::new();
        let key = |n: u32| fold(u128::from(n) << 64 | u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (mut least, mut most) = (f64::MAX, 0_f64);
        for n in 0..200_000 {
            table.insert(key(n), n, key);
            if n >= 50_000 && n % 5_000 == 0 {
                let bytes = table.parts.iter().map(HashTable::allocation_size).sum::<usize>() as f64 / f64::from(n);
                (least, most) = (least.min(bytes), most.max(bytes));
            }
        }
        assert!(most < 9.0 && most < least * 1.15, "{least:.1} to {most:.1} bytes an entry");
    }
}
