//! Transitions with their replies: renewals by compare-and-swap and presence, from 1 to 8 producers.
#![allow(missing_docs)]

mod support;

use criterion::Criterion;
use rendezvous::domain::{Command, Failure, Reply};
use rendezvous::store::Store;
use rendezvous::store::single_lock::SingleLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use support::browsing::{Queries, touch};
use support::producing::{Producer, produce};
use support::report::{Bar, Better, Report};
use support::{BenchClock, Measured, Random};

const LISTINGS: u64 = 25_000;

/// Runs `work` while two readers browse without a pause.
fn beside_two_readers<S: Store, R>(store: &S, work: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let is_over = &is_over;
            scope.spawn(move || {
                let (queries, mut random) = (Queries::new(LISTINGS), Random::new(seed + 1));
                while !is_over.load(Ordering::Relaxed) {
                    queries.with(&mut random, |query| store.browse(query, touch)).expect("available");
                }
            });
        }
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn criterion_benches(criterion: &mut Criterion) {
    let (lock, lock_clock) = support::single_lock(LISTINGS);
    let (lane, lane_clock) = support::lane(LISTINGS);
    let mut group = criterion.benchmark_group("renewals and presence, one producer");
    let mut producer = Producer::new(LISTINGS, 0, 1);
    group.bench_function("single lock", |b| b.iter(|| lock.apply(producer.next(&lock_clock))));
    let mut producer = Producer::new(LISTINGS, 0, 1);
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

/// Commands of a run, and how many are timed together.
const MANY: (u64, u64) = (800_000, 1);
/// Where the rate is wanted, and not each command's time.
const IN_BLOCKS: (u64, u64) = (1_600_000, 64);
/// Where one side is slow.
const FEW: (u64, u64) = (40_000, 1);

fn total(all: &[Measured]) -> f64 {
    all.iter().map(|one| one.per_second).sum::<f64>() / 1e3
}

fn worst(all: &[Measured], of: fn(&Measured) -> u64) -> f64 {
    all.iter().map(of).max().unwrap_or(0) as f64
}

fn table() {
    let title = format!("renewals and presence with reply, {LISTINGS} listings, each second command a renewal");
    let mut report = Report::new("transitions", title);
    let (ns, rate) = (("ns", Better::Lower), ("k/s", Better::Higher));
    for producers in [1, 2, 4, 8] {
        let (lock, clock) = support::single_lock(LISTINGS);
        let by_lock = produce((LISTINGS, producers), MANY, &clock, &|command| lock.apply(command));
        let (lane, clock) = support::lane(LISTINGS);
        let by_lane = produce((LISTINGS, producers), MANY, &clock, &|command| lane.submit_blocking(command));
        let at = |of| (worst(&by_lock, of), worst(&by_lane, of));
        let is_one = producers == 1;
        let p50_bar = if is_one { Bar::AtLeast(1.0 / 1.5) } else { Bar::None };
        let p999_bar = if is_one { Bar::None } else { Bar::AtLeast(1.0) };
        let rate_bar = if is_one { Bar::None } else { Bar::AtLeast(0.8) };
        report.compare("P3", format!("{producers} producers: p50"), at(|one| one.p50_ns), ns, p50_bar);
        report.compare("P3", format!("{producers} producers: p99.9"), at(|one| one.p999_ns), ns, p999_bar);
        let totals = (total(&by_lock), total(&by_lane));
        report.compare("P3", format!("{producers} producers: throughput"), totals, rate, rate_bar);
    }
    one_core(&mut report);
    beside_readers(&mut report);
    dedicated_thread(&mut report);
    report.finish();
}

/// The rate of one producer, without reading the clock around each command.
fn one_core(report: &mut Report) {
    let (lock, clock) = support::single_lock(LISTINGS);
    let by_lock = produce((LISTINGS, 1), IN_BLOCKS, &clock, &|command| lock.apply(command));
    let (lane, clock) = support::lane(LISTINGS);
    let by_lane = produce((LISTINGS, 1), IN_BLOCKS, &clock, &|command| lane.submit_blocking(command));
    let rate = ("k/s", Better::Higher);
    report.compare("P3", "one core, in blocks", (total(&by_lock), total(&by_lane)), rate, Bar::None);
    report.figure("P3", "the same, lane", total(&by_lane), "k/s", Bar::AtLeast(2_000.0));
}

fn beside_readers(report: &mut Report) {
    let (lock, clock) = support::single_lock(LISTINGS);
    let by_lock = beside_two_readers(&lock, || produce((LISTINGS, 1), FEW, &clock, &|command| lock.apply(command)));
    let (lane, clock) = support::lane(LISTINGS);
    let by_lane =
        beside_two_readers(&lane, || produce((LISTINGS, 1), FEW, &clock, &|command| lane.submit_blocking(command)));
    let rate = ("k/s", Better::Higher);
    let totals = (total(&by_lock), total(&by_lane));
    report.compare("P3", "one producer beside two readers: throughput", totals, rate, Bar::AtLeast(5.0));
    let slowest = (worst(&by_lock, |one| one.p999_ns), worst(&by_lane, |one| one.p999_ns));
    report.compare("", "one producer beside two readers: p99.9", slowest, ("ns", Better::Lower), Bar::None);
}

fn dedicated_thread(report: &mut Report) {
    for producers in [1, 2, 8] {
        let (lane, clock) = support::lane(LISTINGS);
        let by_lane = produce((LISTINGS, producers), FEW, &clock, &|command| lane.submit_blocking(command));
        let (lock, clock) = support::single_lock(LISTINGS);
        let dedicated = Dedicated::start(lock);
        let by_thread = produce((LISTINGS, producers), FEW, &clock, &|command| dedicated.submit(command));
        let totals = (total(&by_thread), total(&by_lane));
        let what = format!("{producers} producers: throughput (left: a dedicated thread)");
        report.compare("", what, totals, ("k/s", Better::Higher), Bar::None);
    }
}

fn main() {
    support::run(criterion_benches, table);
}
