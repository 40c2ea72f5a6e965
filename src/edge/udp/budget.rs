//! Token buckets in one word each: a fixed table for sources and credentials, so that no flood grows anything.

use crate::domain::MonoTime;
use std::hash::{BuildHasher, Hash, RandomState};

const SECOND_NS: u64 = 1_000_000_000;

/// Buckets of one table. Two keys that share a bucket share its tokens; with 64 Ki of them and a hash that is keyed
/// by the process nobody can choose whom to share with.
const TABLE_BUCKETS: usize = 65_536;

/// How fast tokens come, and how many can wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Nanoseconds per token.
    interval_ns: u64,
    /// How far ahead of its time a full bucket may be emptied.
    tolerance_ns: u64,
}

impl Rate {
    /// `per_second` tokens a second into a bucket for `burst`.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval_ns = SECOND_NS / u64::from(per_second.max(1));
        Self { interval_ns, tolerance_ns: interval_ns.saturating_mul(u64::from(burst.max(1)) - 1) }
    }
}

/// One bucket as the generic cell rate algorithm keeps it: the instant at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket(u64);

impl Bucket {
    /// Whether a token is there.
    pub(super) fn has(self, rate: Rate, now: MonoTime) -> bool {
        self.0.saturating_sub(now.0) <= rate.tolerance_ns
    }

    /// Takes a token if one is there.
    pub(super) fn take(&mut self, rate: Rate, now: MonoTime) -> bool {
        if !self.has(rate, now) {
            return false;
        }
        self.0 = self.0.max(now.0).saturating_add(rate.interval_ns);
        true
    }
}

/// Position in a [`BucketTable`]; good for the table that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A fixed table of buckets of one rate.
#[derive(Debug)]
pub(super) struct BucketTable {
    rate: Rate,
    buckets: Box<[Bucket]>,
    hasher: RandomState,
}

impl BucketTable {
    /// An all-full table.
    pub(super) fn new(rate: Rate) -> Self {
        let buckets = vec![Bucket::default(); TABLE_BUCKETS].into_boxed_slice();
        Self { rate, buckets, hasher: RandomState::new() }
    }

    /// Where the bucket of `key` is, for who asks for it often.
    pub(super) fn place(&self, key: impl Hash) -> Place {
        Place(self.hasher.hash_one(key) as usize % TABLE_BUCKETS)
    }

    /// Takes a token of the bucket at `place`.
    pub(super) fn take_at(&mut self, Place(place): Place, now: MonoTime) -> bool {
        self.buckets[place].take(self.rate, now)
    }

    /// Takes a token of `key`.
    pub(super) fn take(&mut self, key: impl Hash, now: MonoTime) -> bool {
        self.take_at(self.place(key), now)
    }
}

/// The budget of unproven work: a token of the source and one of everybody, or neither.
#[derive(Debug)]
pub(super) struct UnprovenBudget {
    sources: BucketTable,
    global: Bucket,
    global_rate: Rate,
}

impl UnprovenBudget {
    /// `per_source` and `global` tokens a second.
    pub(super) fn new(per_source: u32, global: u32) -> Self {
        Self {
            sources: BucketTable::new(Rate::new(per_source, per_source)),
            global: Bucket::default(),
            global_rate: Rate::new(global, global),
        }
    }

    /// Takes one of each. A source without tokens takes none of everybody's.
    pub(super) fn take(&mut self, source: impl Hash, now: MonoTime) -> bool {
        self.global.has(self.global_rate, now)
            && self.sources.take(source, now)
            && self.global.take(self.global_rate, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut Bucket, rate: Rate, now: MonoTime, tries: usize) -> usize {
        (0..tries).filter(|_| bucket.take(rate, now)).count()
    }

    #[test]
    fn a_bucket_holds_its_burst_and_refills_at_its_rate() {
        let (rate, mut bucket, start) = (Rate::new(10, 10), Bucket::default(), MonoTime(5 * SECOND_NS));
        assert_eq!(taken(&mut bucket, rate, start, 50), 10);
        assert_eq!(taken(&mut bucket, rate, start.plus_ms(99), 50), 0);
        assert_eq!(taken(&mut bucket, rate, start.plus_ms(100), 50), 1);
        assert_eq!(taken(&mut bucket, rate, start.plus_ms(60_000), 50), 10);
    }

    #[test]
    fn burst_and_rate_together_bound_any_window() {
        let (rate, mut bucket) = (Rate::new(10, 10), Bucket::default());
        let granted: Vec<u64> = (0..5_000).filter(|ms| bucket.take(rate, MonoTime(0).plus_ms(*ms))).collect();
        for start in &granted {
            let in_window = granted.iter().filter(|at| (*start..start + 1_000).contains(at)).count();
            assert!(in_window <= 20, "{in_window} from {start}");
        }
    }

    #[test]
    fn case_x6_an_empty_source_takes_nothing_from_everybody() {
        let mut budget = UnprovenBudget::new(10, 20);
        let now = MonoTime(SECOND_NS);
        assert_eq!((0..1_000).filter(|_| budget.take("flooder", now)).count(), 10);
        assert!(budget.take("somebody else", now));
        assert_eq!((0..1_000_u32).filter(|source| budget.take(source, now)).count(), 9);
    }

    #[test]
    fn case_q9_s12_the_table_never_grows() {
        let mut table = BucketTable::new(Rate::new(10, 10));
        let before = table.buckets.len();
        for source in 0..200_000_u32 {
            table.take(source, MonoTime(SECOND_NS));
        }
        assert_eq!(table.buckets.len(), before);
    }
}
