//! Readers and writers at once, both stores: each of the two is the other's noise.
#![allow(missing_docs)]

mod support;

use criterion::Criterion;
use rendezvous::store::Store;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::browsing::{Queries, touch};
use support::producing::Producer;
use support::report::{Bar, Better, Report};
use support::{BenchClock, Random, Submit};

const LISTINGS: u64 = 25_000;
const READERS: [u64; 3] = [1, 2, 4];
const WRITERS: [u64; 3] = [1, 2, 4];
/// How long one field of the grid runs.
const RUN: Duration = Duration::from_millis(800);

/// Pages and transitions a second, and the slowest of a thousand of each in microseconds.
struct Cell {
    pages: f64,
    transitions: f64,
    slow_page_us: f64,
    slow_transition_us: f64,
}

/// Works in a closed loop until it is over; the time of each piece of work.
fn until(is_over: &AtomicBool, mut work: impl FnMut()) -> Vec<u64> {
    let mut samples = Vec::with_capacity(1 << 22);
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        work();
        samples.push(start.elapsed().as_nanos() as u64);
    }
    samples
}

fn cell<S: Store>(store: &S, clock: &BenchClock, submit: Submit<'_>, (readers, writers): (u64, u64)) -> Cell {
    let queries = Queries::new(LISTINGS);
    let is_over = AtomicBool::new(false);
    let (reads, writes) = thread::scope(|scope| {
        let (queries, is_over) = (&queries, &is_over);
        let read = move |n| {
            let mut random = Random::new(n + 1);
            until(is_over, || queries.with(&mut random, |query| store.browse(query, touch)).expect("available"))
        };
        let write = move |n| {
            let mut producer = Producer::new(LISTINGS, n, writers);
            until(is_over, || drop(submit(producer.next(clock)).expect("an accepted transition")))
        };
        let readers: Vec<_> = (0..readers).map(|n| scope.spawn(move || read(n))).collect();
        let writers: Vec<_> = (0..writers).map(|n| scope.spawn(move || write(n))).collect();
        thread::sleep(RUN);
        is_over.store(true, Ordering::Relaxed);
        let joined = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<u64>>>| -> Vec<u64> {
            threads.into_iter().flat_map(|thread| thread.join().expect("a thread of the grid")).collect()
        };
        (joined(readers), joined(writers))
    });
    Cell {
        pages: reads.len() as f64 / RUN.as_secs_f64(),
        transitions: writes.len() as f64 / RUN.as_secs_f64(),
        slow_page_us: p999_us(reads),
        slow_transition_us: p999_us(writes),
    }
}

fn p999_us(mut samples: Vec<u64>) -> f64 {
    samples.sort_unstable();
    let place = samples.len().saturating_sub(1) as f64 * 0.999;
    samples.get(place as usize).map_or(f64::INFINITY, |ns| *ns as f64 / 1e3)
}

/// One field for criterion: a page right behind a renewal, on one thread.
fn criterion_benches(criterion: &mut Criterion) {
    let queries = Queries::new(LISTINGS);
    let mut group = criterion.benchmark_group("a transition and a page");
    let (lock, clock) = support::single_lock(LISTINGS);
    let (mut producer, mut random) = (Producer::new(LISTINGS, 0, 1), Random::new(1));
    group.bench_function("single lock", |b| {
        b.iter(|| {
            drop(lock.apply(producer.next(&clock)));
            queries.with(&mut random, |query| lock.browse(query, touch))
        });
    });
    let (lane, clock) = support::lane(LISTINGS);
    let mut producer = Producer::new(LISTINGS, 0, 1);
    group.bench_function("lane", |b| {
        b.iter(|| {
            drop(lane.submit_blocking(producer.next(&clock)));
            queries.with(&mut random, |query| lane.browse(query, touch))
        });
    });
    group.finish();
}

fn table() {
    let title = format!("readers and writers at once, {LISTINGS} listings, {} ms each", RUN.as_millis());
    let mut report = Report::new("mixed", title);
    for readers in READERS {
        for writers in WRITERS {
            let (lock, clock) = support::single_lock(LISTINGS);
            let by_lock = cell(&lock, &clock, &|command| lock.apply(command), (readers, writers));
            let (lane, clock) = support::lane(LISTINGS);
            let by_lane = cell(&lane, &clock, &|command| lane.submit_blocking(command), (readers, writers));
            let name = format!("{readers} readers, {writers} writers");
            let both = |of: fn(&Cell) -> f64| (of(&by_lock), of(&by_lane));
            let (rate, us) = (("k/s", Better::Higher), ("us", Better::Lower));
            report.compare("", format!("{name}: pages"), both(|cell| cell.pages / 1e3), rate, Bar::None);
            report.compare("", format!("{name}: page p99.9"), both(|cell| cell.slow_page_us), us, Bar::None);
            let bar = if (readers, writers) == (2, 1) { Bar::AtLeast(5.0) } else { Bar::None };
            let id = if (readers, writers) == (2, 1) { "P3" } else { "" };
            report.compare(id, format!("{name}: transitions"), both(|cell| cell.transitions / 1e3), rate, bar);
            report.compare(
                "",
                format!("{name}: transition p99.9"),
                both(|cell| cell.slow_transition_us),
                us,
                Bar::None,
            );
        }
    }
    report.finish();
}

fn main() {
    support::run(criterion_benches, table);
}
