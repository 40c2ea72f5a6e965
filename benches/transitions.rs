//! Transitions with their replies: renewals by compare-and-swap and presence, from 1 to 8 producers.
#![allow(missing_docs)]

mod support;

use criterion::{Criterion, criterion_group};
use rendezvous::clock::Clock;
use rendezvous::domain::{Command, Failure, Reply};
use rendezvous::store::single_lock::SingleLock;
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use support::{BenchClock, Measured, Random};

const LISTINGS: u64 = 25_000;
/// Listings that no producer renews, because they have expired.
const EXPIRED_EVERY: u64 = 100;

/// A producer's own listings, and the versions and sequences that it has got so far.
struct Producer {
    listings: Vec<(u64, u64, u64)>,
    random: Random,
}

impl Producer {
    fn new(producer: u64, producers: u64) -> Self {
        let mine = (0..LISTINGS).filter(|n| n % producers == producer && !n.is_multiple_of(EXPIRED_EVERY));
        Self { listings: mine.map(|n| (n, 1, 1)).collect(), random: Random::new(producer + 3) }
    }

    /// Every second command is a renewal, the others are presence.
    fn next(&mut self, clock: &BenchClock) -> Command {
        let place = self.random.below(self.listings.len() as u64) as usize;
        let (n, version, sequence) = &mut self.listings[place];
        if self.random.below(2) == 0 {
            *version += 1;
            support::renew(*n, *version - 1)
        } else {
            *sequence += 1;
            support::presence(*n, *sequence, clock.mono())
        }
    }
}

type Submit<'a> = &'a (dyn Fn(Command) -> Result<Reply, Failure> + Sync);

fn produce(producers: u64, clock: &BenchClock, submit: Submit<'_>) -> Vec<Measured> {
    thread::scope(|scope| {
        let run = |n| {
            let mut producer = Producer::new(n, producers);
            support::measure(400_000 / producers, 1, |_| {
                let command = producer.next(clock);
                black_box(submit(command)).expect("an accepted transition");
            })
        };
        let threads: Vec<_> = (0..producers).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a producer")).collect()
    })
}

fn criterion_benches(criterion: &mut Criterion) {
    let (lock, lock_clock) = support::single_lock(LISTINGS);
    let (lane, lane_clock) = support::lane(LISTINGS);
    let mut group = criterion.benchmark_group("renewals and presence, one producer");
    let mut producer = Producer::new(0, 1);
    group.bench_function("single lock", |b| b.iter(|| lock.apply(producer.next(&lock_clock))));
    let mut producer = Producer::new(0, 1);
    group.bench_function("lane", |b| b.iter(|| lane.submit_blocking(producer.next(&lane_clock))));
    group.finish();
}

/// What the lane is not: a dedicated thread around the same machine, fed by a channel, answering through another.
struct Dedicated {
    commands: mpsc::SyncSender<(Command, mpsc::SyncSender<Result<Reply, Failure>>)>,
}

impl Dedicated {
    fn start(store: SingleLock<BenchClock>) -> Self {
        let (commands, queue) = mpsc::sync_channel::<(Command, mpsc::SyncSender<_>)>(4_096);
        thread::spawn(move || {
            for (command, reply) in queue {
                // A caller that went away needs no answer.
                let _gone = reply.send(store.apply(command));
            }
        });
        Self { commands }
    }

    fn submit(&self, command: Command) -> Result<Reply, Failure> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.commands.send((command, reply)).expect("the thread runs as long as its queue");
        answer.recv().expect("every command is answered")
    }
}

fn dedicated_thread_table() {
    println!("\na dedicated thread around the same machine, for comparison (docs/decisions/0001)");
    for producers in [1, 2, 8] {
        let (lock, clock) = support::single_lock(LISTINGS);
        let dedicated = Dedicated::start(lock);
        let measured = produce(producers, &clock, &|command| dedicated.submit(command));
        let total: f64 = measured.iter().map(|one| one.per_second).sum();
        let p50 = measured.iter().map(|one| one.p50_ns).max().unwrap_or(0);
        println!("{producers} producers: {:.1} k/s, p50 {p50} ns", total / 1e3);
    }
}

fn table() {
    support::print_head(&format!(
        "renewals and presence with reply, {LISTINGS} listings, each second command a renewal"
    ));
    for producers in [1, 2, 4, 8] {
        let (lock, clock) = support::single_lock(LISTINGS);
        let by_lock = produce(producers, &clock, &|command| lock.apply(command));
        let (lane, clock) = support::lane(LISTINGS);
        let by_lane = produce(producers, &clock, &|command| lane.submit_blocking(command));
        let total = |all: &[Measured]| all.iter().map(|one| one.per_second).sum::<f64>() / 1e3;
        let worst = |all: &[Measured], of: fn(&Measured) -> u64| all.iter().map(of).max().unwrap_or(0) as f64;
        let name = format!("{producers} producers");
        support::print_row(&format!("{name}: throughput"), total(&by_lock), total(&by_lane), "k/s", true);
        let (lock, lane) = (worst(&by_lock, |one| one.p50_ns), worst(&by_lane, |one| one.p50_ns));
        support::print_row(&format!("{name}: p50"), lock, lane, "ns", false);
        let (lock, lane) = (worst(&by_lock, |one| one.p999_ns), worst(&by_lane, |one| one.p999_ns));
        support::print_row(&format!("{name}: p99.9"), lock, lane, "ns", false);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = criterion_benches
}

fn main() {
    benches();
    table();
    dedicated_thread_table();
}
