//! Renewals by compare-and-swap and presence, from producers that have listings of their own.

use super::{BenchClock, Measured, Random, Submit};
use rendezvous::clock::Clock;
use rendezvous::domain::Command;
use std::hint::black_box;

/// A producer's own listings, and the versions and sequences that it has got so far.
pub struct Producer {
    listings: Vec<(u64, u64, u64)>,
    random: Random,
}

impl Producer {
    /// Number `producer` of `producers` that share the listings.
    pub fn new(listings: u64, producer: u64, producers: u64) -> Self {
        let mine = (0..listings).filter(|n| n % producers == producer);
        Self { listings: mine.map(|n| (n, 1, 1)).collect(), random: Random::new(producer + 3) }
    }

    /// Every second command is a renewal, the others are presence.
    pub fn next(&mut self, clock: &BenchClock) -> Command {
        let place = self.random.below(self.listings.len() as u64) as usize;
        let (n, version, sequence) = &mut self.listings[place];
        if self.random.below(2) == 0 {
            *version += 1;
            super::renew(*n, *version - 1)
        } else {
            *sequence += 1;
            super::presence(*n, *sequence, clock.mono())
        }
    }
}

/// So many producers in a closed loop, with so many commands in all, measured in blocks of so many.
pub fn produce(
    (listings, producers): (u64, u64),
    (commands, block): (u64, u64),
    clock: &BenchClock,
    submit: Submit<'_>,
) -> Vec<Measured> {
    super::on_threads(producers, |n| {
        let mut producer = Producer::new(listings, n, producers);
        super::measure(commands / producers, block, |_| {
            let command = producer.next(clock);
            black_box(submit(command)).expect("an accepted transition");
        })
    })
}
