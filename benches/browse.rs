//! Browsing: a page of 50 at a random cursor of a random scope, one listing in a hundred expired, beside a writer.
#![allow(missing_docs)]

mod support;

use criterion::Criterion;
use rendezvous::clock::Clock;
use rendezvous::domain::Filter;
use rendezvous::store::lane::Lane;
use rendezvous::store::{BrowseQuery, Store};
use support::browsing::{HALF, NONE, Queries, filter, touch};
use support::report::{Bar, Better, Report};
use support::{BenchClock, Measured, Random, SCOPES, TENANT, Writer};

const LISTINGS: u64 = 25_000;

fn criterion_benches(criterion: &mut Criterion) {
    let (lock, _) = support::single_lock(LISTINGS);
    let (lane, clock) = support::lane(LISTINGS);
    BenchClock::ahead(|| {
        let (queries, mut random) = (Queries::new(LISTINGS), Random::new(1));
        let mut group = criterion.benchmark_group("browse page of 50");
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
        let filter = filter(HALF);
        group.bench_function("lane, every second row matches", |b| {
            b.iter(|| queries.with(&mut random, |query| reader.browse(&filtered(query, &filter), touch)));
        });
        group.bench_function("reading the clock", |b| b.iter(|| clock.mono()));
        group.finish();
    });
}

/// From the beginning of its scope, so that each page finds what it wants, or looks at all of it.
fn filtered<'a>(query: &BrowseQuery<'a>, filter: &'a Filter) -> BrowseQuery<'a> {
    BrowseQuery { after: None, filter: Some(filter), ..*query }
}

/// Renewals a second beside the browses, where the bar does not ask for more.
const CALM: u64 = 1_000;
/// Renewals a second that the bar on the slowest browses asks for.
const BUSY: u64 = 10_000;
/// Pages in a sample of the median: one takes about as long as reading the clock.
const BLOCK: u64 = 16;

struct Runs {
    /// Readers alone on their thread, and two of them.
    one: Measured,
    two: Vec<Measured>,
    /// Beside the busy writer, each page by itself, and the part of its rate that the writer kept.
    busy: (Measured, f64),
    busy_two: (Vec<Measured>, f64),
}

/// All runs of one store; `browse` measures so many pages in blocks of so many.
fn runs((pages, block): (u64, u64), writer: &Writer<'_>, browse: impl Fn(u64, u64, u64) -> Measured + Sync) -> Runs {
    let beside = |rate, threads, block| {
        writer
            .beside(rate, || support::on_threads(threads, |seed| BenchClock::ahead(|| browse(seed + 7, pages, block))))
    };
    let one = beside(CALM, 1, block).0[0];
    let two = beside(CALM, 2, block).0;
    let busy = beside(BUSY, 1, 1);
    Runs { one, two, busy: (busy.0[0], busy.1), busy_two: beside(BUSY, 2, 1) }
}

fn lock_runs(queries: &Queries) -> Runs {
    let (lock, _) = support::single_lock(LISTINGS);
    let (submit, tick) = (|command| lock.apply(command), || lock.tick());
    runs((20_000, 1), &Writer::new(LISTINGS, &submit, &tick), |seed, pages, block| {
        let mut random = Random::new(seed);
        support::measure(pages, block, |_| {
            queries.with(&mut random, |query| lock.browse(query, touch)).expect("available");
        })
    })
}

/// The lane's runs, and one more with the reader's instant as an argument.
fn lane_runs(queries: &Queries) -> (Runs, Measured) {
    let (lane, clock) = support::lane(LISTINGS);
    let (submit, tick) = (|command| lane.submit_blocking(command), || lane.tick());
    let writer = Writer::new(LISTINGS, &submit, &tick);
    check_the_fixture(&lane);
    let runs = runs((3_000_000, BLOCK), &writer, |seed, pages, block| {
        let (mut random, mut reader) = (Random::new(seed), lane.reader());
        support::measure(pages, block, |_| {
            queries.with(&mut random, |query| reader.browse(query, touch)).expect("available");
        })
    });
    let by_argument = || {
        let (mut random, mut reader, now) = (Random::new(7), lane.reader(), clock.mono());
        support::measure(3_000_000, BLOCK, |_| {
            queries.with(&mut random, |query| reader.browse_at(now, query, touch)).expect("available");
        })
    };
    let by_argument = writer.beside(CALM, || support::on_threads(1, |_| BenchClock::ahead(by_argument))[0]).0;
    (runs, by_argument)
}

/// Medians with a filter and nothing beside: a page of 50 of which every second row matches, and one row of a page that
/// examines a whole scope for nothing.
struct FilteredRuns {
    page_ns: f64,
    row_ns: f64,
}

fn filtered_runs(queries: &Queries, store: &impl Store) -> FilteredRuns {
    let (half, none) = (filter(HALF), filter(NONE));
    let run = |filter: &Filter, wanted: usize| {
        let mut random = Random::new(3);
        let measured = support::measure(2_000, 1, |_| {
            let page = queries.with(&mut random, |query| {
                store.browse(&filtered(query, filter), |page| {
                    touch(page);
                    page.count
                })
            });
            assert_eq!(page.expect("available"), wanted);
        });
        measured.p50_ns as f64
    };
    let examined = LISTINGS / SCOPES;
    BenchClock::ahead(|| FilteredRuns { page_ns: run(&half, 50), row_ns: run(&none, 0) / examined as f64 })
}

fn table() {
    let queries = Queries::new(LISTINGS);
    let lock = lock_runs(&queries);
    let (lane, by_argument) = lane_runs(&queries);
    let filtered = (
        filtered_runs(&queries, &support::single_lock(LISTINGS).0),
        filtered_runs(&queries, &support::lane(LISTINGS).0),
    );
    report(&lock, &lane, by_argument, &filtered);
}

/// The fixture is what the title says: one row in a hundred has ended for readers, and the others have not.
fn check_the_fixture(lane: &Lane<BenchClock>) {
    let rows = |scope| {
        let (protocol, mut rows, mut after) = (support::protocol(scope), 0, None);
        loop {
            let page = BrowseQuery { tenant: TENANT, protocol: &protocol, after, limit: 50, filter: None };
            let (count, next) = lane.browse(&page, |page| (page.count, page.next)).expect("available");
            rows += count as u64;
            match next {
                Some(next) => after = Some(next),
                None => return rows,
            }
        }
    };
    let seen = BenchClock::ahead(|| (0..SCOPES).map(rows).sum::<u64>());
    assert_eq!(seen, LISTINGS - LISTINGS / support::EXPIRED_EVERY, "rows that a reader sees");
}

fn report(lock: &Runs, lane: &Runs, by_argument: Measured, filtered: &(FilteredRuns, FilteredRuns)) {
    let mut report = Report::new(
        "browse",
        format!(
            "a page of 50 out of {LISTINGS} in {SCOPES} scopes, random scope and cursor, 1 % expired, beside a writer"
        ),
    );
    let ns = ("ns", Better::Lower);
    let p50 = |runs: &Runs| runs.one.p50_ns as f64;
    report.compare("P1", "p50, now as an argument", (p50(lock), by_argument.p50_ns as f64), ns, Bar::AtLeast(600.0));
    report.compare("P1", "p50, the clock read inside", (p50(lock), p50(lane)), ns, Bar::AtLeast(300.0));
    let busy = |runs: &Runs| runs.busy.0.p999_ns as f64;
    report.compare("P1", "p99.9 beside 10,000 renewals/s", (busy(lock), busy(lane)), ns, Bar::AtLeast(150.0));
    report.figure("P1", "the same, lane", busy(lane), "ns", Bar::AtMost(500.0));
    let busy_two = |runs: &Runs| runs.busy_two.0.iter().map(|one| one.p999_ns).max().unwrap_or(0) as f64;
    report.figure("P1", "the same with two readers, lane", busy_two(lane), "ns", Bar::AtMost(1_000.0));
    report.compare("P1", "the same with two readers", (busy_two(lock), busy_two(lane)), ns, Bar::None);
    let kept = (lock.busy.1 * 100.0, lane.busy.1 * 100.0);
    report.compare("P1", "the writer kept of its rate", kept, ("%", Better::Higher), Bar::None);
    report.figure("P1", "the same, lane", kept.1, "%", Bar::AtLeast(99.0));
    let kept_two = (lock.busy_two.1 * 100.0, lane.busy_two.1 * 100.0);
    report.compare("P1", "the same with two readers", kept_two, ("%", Better::Higher), Bar::None);
    let pages = (filtered.0.page_ns, filtered.1.page_ns);
    report.compare("", "filtered, every second row matches, p50", pages, ns, Bar::None);
    let rows = (filtered.0.row_ns, filtered.1.row_ns);
    report.compare("", "one row of a filtered page that finds nothing", rows, ns, Bar::None);
    let rate = ("k/s", Better::Higher);
    let total = |runs: &Runs| runs.two.iter().map(|one| one.per_second).sum::<f64>() / 1e3;
    report.compare("", "one reader", (lock.one.per_second / 1e3, lane.one.per_second / 1e3), rate, Bar::None);
    report.compare("", "two readers", (total(lock), total(lane)), rate, Bar::None);
    let scaling = |runs: &Runs| total(runs) * 1e3 / runs.one.per_second;
    report.compare("P2", "two readers over one", (scaling(lock), scaling(lane)), ("x", Better::Higher), Bar::None);
    report.figure("P2", "the same, lane", scaling(lane), "x", Bar::AtLeast(1.8));
    let lost = support::interruptions_a_second();
    report.figure("", "the machine: times a second that an idle loop loses 1 us or more", lost, "/s", Bar::None);
    report.finish();
}

fn main() {
    support::run(criterion_benches, table);
}
