//! Changes that browsers are to see, timed until they do.

use super::{BenchClock, Random};
use rendezvous::domain::Command;
use rendezvous::store::Store;
use rendezvous::store::lane::Lane;
use std::time::{Duration, Instant};

pub struct Publishing {
    lane: Lane<BenchClock>,
    versions: Vec<u64>,
    random: Random,
    deleted: u64,
}

impl Publishing {
    pub fn new(listings: u64) -> Self {
        let (lane, _) = super::lane(listings);
        Self { lane, versions: vec![1; listings as usize], random: Random::new(31), deleted: 0 }
    }

    /// A change of a random listing's details, ready to be submitted.
    fn change(&mut self) -> Command {
        // Listings that a deletion may take are left alone.
        let kept = self.versions.len() as u64 * 9 / 10;
        let n = self.random.below(kept);
        let version = &mut self.versions[n as usize];
        *version += 1;
        super::rename(n, *version - 1, n + *version)
    }

    /// Makes `changes` changes and publishes them together.
    fn round(&mut self, changes: u64) -> Duration {
        let commands: Vec<Command> = (0..changes).map(|_| self.change()).collect();
        let start = Instant::now();
        for command in commands {
            self.lane.submit_blocking(command).expect("an accepted change");
        }
        self.lane.tick();
        let took = start.elapsed();
        assert_eq!(self.lane.published_commit(), self.lane.last_commit());
        took
    }

    pub fn total(&mut self, rounds: u64, changes: u64) -> Duration {
        (0..rounds).map(|_| self.round(changes)).sum()
    }

    pub fn p50_us(&mut self, rounds: u64, changes: u64) -> f64 {
        median_us((0..rounds).map(|_| self.round(changes)).collect())
    }

    /// A renewal that changes nothing that browsers see: what a change costs beside its publication.
    pub fn renewal_p50_us(&mut self, rounds: u64) -> f64 {
        let renew = |_| {
            let n = self.random.below(self.versions.len() as u64 * 9 / 10);
            let version = &mut self.versions[n as usize];
            *version += 1;
            let command = super::renew(n, *version - 1);
            let start = Instant::now();
            self.lane.submit_blocking(command).expect("an accepted renewal");
            start.elapsed()
        };
        median_us((0..rounds).map(renew).collect())
    }

    /// Deletes listings from the last tenth; a deletion is acknowledged once it is published.
    pub fn delete_p50_us(&mut self, rounds: u64) -> f64 {
        let first = self.versions.len() as u64 * 9 / 10;
        let rounds = rounds.min(self.versions.len() as u64 / 10 - 1);
        let delete = |_| {
            // Spread over the whole tenth, each once: the step shares no factor with its length.
            let n = first + self.deleted * 7_919 % (self.versions.len() as u64 - first);
            self.deleted += 1;
            let start = Instant::now();
            self.lane.submit_blocking(super::delete(n)).expect("an accepted deletion");
            let took = start.elapsed();
            assert_eq!(self.lane.published_commit(), self.lane.last_commit());
            took
        };
        median_us((0..rounds).map(delete).collect())
    }
}

fn median_us(mut samples: Vec<Duration>) -> f64 {
    samples.sort_unstable();
    samples[samples.len() / 2].as_nanos() as f64 / 1e3
}
