//! Token buckets: bounded, decaying, and of one kind.
//!
//! A bucket is one number (GCRA: the time at which the bucket would be full again), so a bucket that was left alone long
//! enough equals one that never existed, and may be dropped.

use super::settings::{Rate, Rates};
use crate::domain::{MonoTime, PrincipalKey, Source};
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most keys with a bucket of their own: 64 Ki sources or principals at once are more than the store has room for
/// listings of; at some 50 bytes each a full table takes about 3 MiB.
const KEYS_MAX: usize = 65_536;
/// Shared buckets of an [`AtomicTable`]: 512 KiB.
const SHARED: usize = 65_536;

/// The wait until a token is there, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(u64);

impl Wait {
    /// For `Retry-After`: whole seconds, at least one.
    pub(super) fn seconds(self) -> u64 {
        self.0.div_ceil(1_000_000_000).max(1)
    }
}

/// Takes a token from a bucket that is full again at `full_at`; the new time, or the wait.
fn take(full_at: u64, now: u64, rate: Rate) -> Result<u64, Wait> {
    let interval = interval(rate);
    let room = interval.saturating_mul(u64::from(rate.burst.max(1)));
    let next = full_at.max(now).saturating_add(interval);
    match next.saturating_sub(now).checked_sub(room) {
        None | Some(0) => Ok(next),
        Some(wait) => Err(Wait(wait)),
    }
}

/// The bucket with one token more.
fn put_back(full_at: u64, rate: Rate) -> u64 {
    full_at.saturating_sub(interval(rate))
}

fn interval(rate: Rate) -> u64 {
    1_000_000_000 / u64::from(rate.per_second.max(1))
}

/// One bucket for everybody.
pub(super) struct Bucket {
    rate: Rate,
    full_at: AtomicU64,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, full_at: AtomicU64::new(0) }
    }

    /// Takes `tokens` at once, or none.
    pub(super) fn take(&self, tokens: u32, now: MonoTime) -> Result<(), Wait> {
        let many = |full_at: u64| (0..tokens).try_fold(full_at, |full_at, _| take(full_at, now.0, self.rate));
        // A number of its own, so no ordering with other memory is needed.
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = many(full_at)?;
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => full_at = seen,
            }
        }
    }
}

/// Buckets that share: a fixed table indexed by a keyed hash. Two keys that meet share a budget; nothing ever grows.
struct AtomicTable {
    rate: Rate,
    hasher: RandomState,
    buckets: Box<[AtomicU64]>,
}

impl AtomicTable {
    fn new(rate: Rate) -> Self {
        Self { rate, hasher: RandomState::new(), buckets: (0..SHARED).map(|_| AtomicU64::new(0)).collect() }
    }

    fn bucket(&self, key: &impl Hash) -> Option<&AtomicU64> {
        let slot = self.hasher.hash_one(key) as usize % SHARED;
        self.buckets.get(slot)
    }

    fn put_back(&self, key: &impl Hash) {
        if let Some(bucket) = self.bucket(key) {
            let put_back = |full_at| Some(put_back(full_at, self.rate));
            let _ = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put_back);
        }
    }

    fn take(&self, key: &impl Hash, now: MonoTime) -> Result<(), Wait> {
        let Some(bucket) = self.bucket(key) else { return Ok(()) };
        // Each bucket is a number of its own, so no ordering with other memory is needed.
        let mut full_at = bucket.load(Ordering::Relaxed);
        loop {
            let next = take(full_at, now.0, self.rate)?;
            match bucket.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => full_at = seen,
            }
        }
    }
}

/// A bucket per key, up to [`KEYS_MAX`] keys. Keys beyond them share an [`AtomicTable`]: still limited, and nobody
/// who has a bucket loses it.
struct KeyedTable<K> {
    rate: Rate,
    buckets: DashMap<K, u64>,
    len: AtomicUsize,
    overflow: AtomicTable,
}

impl<K: Hash + Eq + Copy> KeyedTable<K> {
    fn new(rate: Rate) -> Self {
        Self { rate, buckets: DashMap::new(), len: AtomicUsize::new(0), overflow: AtomicTable::new(rate) }
    }

    fn take(&self, key: K, now: MonoTime) -> Result<(), Wait> {
        match self.buckets.entry(key) {
            Entry::Occupied(mut bucket) => {
                let next = take(*bucket.get(), now.0, self.rate)?;
                bucket.insert(next);
                Ok(())
            }
            Entry::Vacant(_) if self.len.load(Ordering::Relaxed) >= KEYS_MAX => self.overflow.take(&key, now),
            Entry::Vacant(place) => {
                // Counted under the shard's lock, so the bound is passed by one per shard at most.
                self.len.fetch_add(1, Ordering::Relaxed);
                place.insert(take(0, now.0, self.rate)?);
                Ok(())
            }
        }
    }

    /// Puts back a token that was not used.
    fn put_back(&self, key: K) {
        match self.buckets.get_mut(&key) {
            Some(mut bucket) => *bucket = put_back(*bucket, self.rate),
            None => self.overflow.put_back(&key),
        }
    }

    /// Drops the buckets that are full again, and the memory of a table that was once much fuller.
    fn decay(&self, now: MonoTime) {
        self.buckets.retain(|_, full_at| {
            let keep = *full_at > now.0;
            if !keep {
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
        if self.buckets.capacity() > 4 * self.buckets.len().max(1_024) {
            self.buckets.shrink_to_fit();
        }
    }
}

/// The buckets of one host credential.
struct HostBuckets {
    calls: Bucket,
    keep_alives: Bucket,
}

/// All buckets of the HTTP edge.
pub(super) struct Limiter {
    guests: KeyedTable<Source>,
    creations: KeyedTable<Source>,
    browsing: AtomicTable,
    principal_creations: KeyedTable<PrincipalKey>,
    principal_keep_alives: KeyedTable<PrincipalKey>,
    principal_reads: KeyedTable<PrincipalKey>,
    principal_commands: KeyedTable<PrincipalKey>,
    principal_command_reads: KeyedTable<PrincipalKey>,
    /// By the position of the credential: as many as are configured, and nobody unknown gets that far.
    hosts: Box<[HostBuckets]>,
}

/// A budget of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceBudget {
    Guests,
    Creations,
    Browsing,
}

/// A budget of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrincipalBudget {
    Creations,
    KeepAlives,
    /// Looks at one's own listings and attempts, polls included. As large as that of keep-alives and apart from it, so that
    /// who asks too often still keeps alive what it has.
    Reads,
    Commands,
    /// Looks at sessions, commands and gates, polls included. As large as that of commands and apart from it.
    CommandReads,
}

/// A budget of a host credential of the command plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostBudget {
    /// Finding work and doing it.
    Calls,
    /// Heartbeats, leases and completions, and what keeps the listings of sessions alive: as large, and apart from the calls,
    /// so that no session is lost to a flood of them (rule D4).
    KeepAlives,
}

impl Limiter {
    /// Buckets for so many host credentials, beside those for whoever comes.
    pub(super) fn new(rates: Rates, hosts: usize) -> Self {
        let bucket = || Bucket::new(rates.host_calls);
        Self {
            guests: KeyedTable::new(rates.guests),
            creations: KeyedTable::new(rates.creations),
            browsing: AtomicTable::new(rates.browsing),
            principal_creations: KeyedTable::new(rates.principal_creations),
            principal_keep_alives: KeyedTable::new(rates.principal_keep_alives),
            principal_reads: KeyedTable::new(rates.principal_keep_alives),
            principal_commands: KeyedTable::new(rates.principal_commands),
            principal_command_reads: KeyedTable::new(rates.principal_commands),
            hosts: (0..hosts).map(|_| HostBuckets { calls: bucket(), keep_alives: bucket() }).collect(),
        }
    }

    pub(super) fn take_source(&self, budget: SourceBudget, source: Source, now: MonoTime) -> Result<(), Wait> {
        match budget {
            SourceBudget::Guests => self.guests.take(source, now),
            SourceBudget::Creations => self.creations.take(source, now),
            SourceBudget::Browsing => self.browsing.take(&source, now),
        }
    }

    pub(super) fn take_principal(
        &self,
        budget: PrincipalBudget,
        principal: PrincipalKey,
        now: MonoTime,
    ) -> Result<(), Wait> {
        self.of_principals(budget).take(principal, now)
    }

    /// Puts back a principal's token for what was not begun.
    pub(super) fn put_back_principal(&self, budget: PrincipalBudget, principal: PrincipalKey) {
        self.of_principals(budget).put_back(principal);
    }

    fn of_principals(&self, budget: PrincipalBudget) -> &KeyedTable<PrincipalKey> {
        match budget {
            PrincipalBudget::Creations => &self.principal_creations,
            PrincipalBudget::KeepAlives => &self.principal_keep_alives,
            PrincipalBudget::Reads => &self.principal_reads,
            PrincipalBudget::Commands => &self.principal_commands,
            PrincipalBudget::CommandReads => &self.principal_command_reads,
        }
    }

    /// Charges the host credential at this position.
    pub(super) fn take_host(&self, budget: HostBudget, position: usize, now: MonoTime) -> Result<(), Wait> {
        let Some(buckets) = self.hosts.get(position) else { return Ok(()) };
        match budget {
            HostBudget::Calls => buckets.calls.take(1, now),
            HostBudget::KeepAlives => buckets.keep_alives.take(1, now),
        }
    }

    /// To be called every few seconds.
    pub(super) fn decay(&self, now: MonoTime) {
        self.guests.decay(now);
        self.creations.decay(now);
        self.principal_creations.decay(now);
        self.principal_keep_alives.decay(now);
        self.principal_reads.decay(now);
        self.principal_commands.decay(now);
        self.principal_command_reads.decay(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 5 };

    fn at(ms: u64) -> MonoTime {
        MonoTime(1_000_000_000).plus_ms(ms)
    }

    fn taken(table: &KeyedTable<Source>, source: u32, now: MonoTime) -> usize {
        (0..20).filter(|_| table.take(Source::V4(source), now).is_ok()).count()
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let table = KeyedTable::new(RATE);
        assert_eq!(taken(&table, 1, at(0)), 5);
        assert_eq!(taken(&table, 1, at(99)), 0);
        assert_eq!(taken(&table, 1, at(100)), 1);
        assert_eq!(taken(&table, 1, at(400)), 3);
        assert_eq!(taken(&table, 1, at(10_000)), 5, "never more than the burst");
        assert_eq!(taken(&table, 2, at(0)), 5, "sources do not share");
    }

    #[test]
    fn the_wait_is_as_long_as_it_takes() {
        let slow = KeyedTable::new(Rate { per_second: 1, burst: 1 });
        slow.take(Source::V4(1), at(0)).unwrap();
        assert_eq!(slow.take(Source::V4(1), at(0)).unwrap_err(), Wait(1_000_000_000));
        assert_eq!(slow.take(Source::V4(1), at(999)).unwrap_err().seconds(), 1);
        assert!(slow.take(Source::V4(1), at(1_000)).is_ok());
    }

    #[test]
    fn case_q9_a_million_sources_stay_under_the_bound_and_decay_to_nothing() {
        let table = KeyedTable::new(RATE);
        for source in 0..1_000_000 {
            table.take(Source::V4(source), at(0)).ok();
        }
        assert!(table.buckets.len() <= KEYS_MAX + 64, "{}", table.buckets.len());
        let overflow = (1_000_000..1_010_000).filter(|n| taken(&table, *n, at(0)) > 5).count();
        assert_eq!(overflow, 0, "sources past the bound are limited too");
        table.decay(at(99));
        assert!(!table.buckets.is_empty());
        table.decay(at(100));
        assert_eq!((table.buckets.len(), table.len.load(Ordering::Relaxed)), (0, 0));
        assert!(table.buckets.capacity() <= 4_096, "{}", table.buckets.capacity());
        assert_eq!(taken(&table, 5, at(100)), 5);
    }

    #[test]
    fn what_was_put_back_can_be_taken_again_and_no_more_than_that() {
        let limiter = Limiter::new(Rates { principal_keep_alives: RATE, ..Rates::default() }, 0);
        let take = |now| limiter.take_principal(PrincipalBudget::KeepAlives, PrincipalKey(1), now).is_ok();
        let put_back = || limiter.put_back_principal(PrincipalBudget::KeepAlives, PrincipalKey(1));
        let taken = |now| (0..20).filter(|_| take(now)).count();
        assert_eq!(taken(at(0)), 5);
        put_back();
        assert_eq!(taken(at(0)), 1);
        limiter.decay(at(10_000));
        put_back();
        assert_eq!(taken(at(10_000)), 5, "never more than the burst");
        let shared = AtomicTable::new(RATE);
        let taken = || (0..20).filter(|_| shared.take(&Source::V4(7), at(0)).is_ok()).count();
        assert_eq!(taken(), 5);
        shared.put_back(&Source::V4(7));
        assert_eq!(taken(), 1);
    }

    #[test]
    fn reads_have_buckets_beside_those_of_what_they_look_at() {
        let limiter =
            Limiter::new(Rates { principal_keep_alives: RATE, principal_commands: RATE, ..Rates::default() }, 0);
        let taken = |budget| (0..20).filter(|_| limiter.take_principal(budget, PrincipalKey(1), at(0)).is_ok()).count();
        let all = [
            PrincipalBudget::Reads,
            PrincipalBudget::KeepAlives,
            PrincipalBudget::CommandReads,
            PrincipalBudget::Commands,
        ];
        assert_eq!(all.map(taken), [5; 4]);
        assert_eq!(all.map(taken), [0; 4]);
        limiter.decay(at(10_000));
        assert!(limiter.principal_reads.buckets.is_empty() && limiter.principal_command_reads.buckets.is_empty());
    }

    #[test]
    fn a_host_credential_has_buckets_of_its_own() {
        let limiter = Limiter::new(Rates { host_calls: RATE, ..Rates::default() }, 2);
        let taken = |budget, position| (0..20).filter(|_| limiter.take_host(budget, position, at(0)).is_ok()).count();
        assert_eq!((taken(HostBudget::Calls, 0), taken(HostBudget::Calls, 0)), (5, 0));
        assert_eq!(taken(HostBudget::KeepAlives, 0), 5, "a flood of calls lets no lease lapse");
        assert_eq!(taken(HostBudget::Calls, 1), 5, "credentials do not share");
    }

    #[test]
    fn the_shared_table_limits_without_growing() {
        let table = AtomicTable::new(RATE);
        let taken = |now| (0..20).filter(|_| table.take(&Source::V4(7), now).is_ok()).count();
        assert_eq!((taken(at(0)), taken(at(0)), taken(at(200))), (5, 0, 2));
    }
}
