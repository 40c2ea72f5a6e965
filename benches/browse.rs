//! Browsing: a page of 50 at a random cursor of a random scope, one listing in a hundred expired.
#![allow(missing_docs)]

mod support;

use criterion::{Criterion, criterion_group};
use rendezvous::clock::Clock;
use rendezvous::domain::ListingId;
use rendezvous::store::{BrowseQuery, PageView, Store};
use std::hint::black_box;
use std::thread;
use support::{Measured, Random, SCOPES, TENANT};

const LISTINGS: u64 = 25_000;

/// What the queries are made of, made before the measurement.
struct Queries {
    protocols: Vec<String>,
    ids: Vec<ListingId>,
}

impl Queries {
    fn new() -> Self {
        Self {
            protocols: (0..SCOPES).map(support::protocol).collect(),
            ids: (0..LISTINGS).map(support::listing_id).collect(),
        }
    }

    fn with<R>(&self, random: &mut Random, browse: impl FnOnce(&BrowseQuery<'_>) -> R) -> R {
        let protocol = &self.protocols[random.below(SCOPES) as usize];
        let after = Some(self.ids[random.below(LISTINGS) as usize]);
        browse(&BrowseQuery { tenant: TENANT, protocol, after, limit: 50 })
    }
}

/// What a caller does with a page at the least: looks at its runs.
fn touch(page: &PageView<'_>) {
    page.for_each_run(|run| {
        black_box(run.as_ptr());
    });
    black_box((page.count, page.next));
}

fn criterion_benches(criterion: &mut Criterion) {
    let queries = Queries::new();
    let (lock, _) = support::single_lock(LISTINGS);
    let (lane, clock) = support::lane(LISTINGS);
    let mut group = criterion.benchmark_group("browse page of 50");
    let mut random = Random::new(1);
    group.bench_function("single lock", |b| {
        b.iter(|| queries.with(&mut random, |query| lock.browse(query, touch)));
    });
    let mut reader = lane.reader();
    group.bench_function("lane", |b| {
        b.iter(|| queries.with(&mut random, |query| reader.browse(query, touch)));
    });
    let now = clock.mono();
    group.bench_function("lane, now as an argument", |b| {
        b.iter(|| queries.with(&mut random, |query| reader.browse_at(now, query, touch)));
    });
    let mut out = Vec::with_capacity(1 << 16);
    group.bench_function("lane, copied out", |b| {
        b.iter(|| {
            out.clear();
            queries.with(&mut random, |query| reader.browse(query, |page| page.write_rows(&mut out)))
        });
    });
    group.finish();
}

/// Readers in a closed loop on as many threads.
fn readers(threads: u64, run: impl Fn(u64) -> Measured + Sync) -> Vec<Measured> {
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn({
                    let run = &run;
                    move || run(n)
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
    })
}

fn table() {
    let queries = Queries::new();
    let (lock, _) = support::single_lock(LISTINGS);
    let (lane, clock) = support::lane(LISTINGS);
    let browse_lock = |seed: u64| {
        let mut random = Random::new(seed + 7);
        support::measure(20_000, 1, |_| {
            queries.with(&mut random, |query| lock.browse(query, touch)).expect("available");
        })
    };
    let browse_lane = |seed: u64| {
        let (mut random, mut reader) = (Random::new(seed + 7), lane.reader());
        support::measure(4_000_000, 16, |_| {
            queries.with(&mut random, |query| reader.browse(query, touch)).expect("available");
        })
    };
    let now = clock.mono();
    let browse_lane_at = |seed: u64| {
        let (mut random, mut reader) = (Random::new(seed + 7), lane.reader());
        support::measure(4_000_000, 16, |_| {
            queries.with(&mut random, |query| reader.browse_at(now, query, touch)).expect("available");
        })
    };
    let total = |all: &[Measured]| all.iter().map(|one| one.per_second).sum::<f64>() / 1e3;
    let (lock_1, lane_1, at_1) = (readers(1, browse_lock), readers(1, browse_lane), readers(1, browse_lane_at));
    let (lock_2, lane_2) = (readers(2, browse_lock), readers(2, browse_lane));
    support::print_head(&format!(
        "browse, page of 50 out of {LISTINGS}, {SCOPES} scopes, random cursor and scope, 1 % expired"
    ));
    let p50 = |all: &[Measured]| all[0].p50_ns as f64;
    let p999 = |all: &[Measured]| all[0].p999_ns as f64;
    support::print_row("p50, now as an argument", p50(&lock_1), p50(&at_1), "ns", false);
    support::print_row("p50, the clock read inside", p50(&lock_1), p50(&lane_1), "ns", false);
    support::print_row(
        "p99.9 of blocks of 16 (lane) and of single pages (lock)",
        p999(&lock_1),
        p999(&lane_1),
        "ns",
        false,
    );
    support::print_row("one reader", total(&lock_1), total(&lane_1), "k/s", true);
    support::print_row("two readers", total(&lock_2), total(&lane_2), "k/s", true);
    println!(
        "two readers / one: single lock {:.2}, lane {:.2}",
        total(&lock_2) / total(&lock_1),
        total(&lane_2) / total(&lane_1)
    );
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
}
