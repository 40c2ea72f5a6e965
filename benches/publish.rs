//! Publishing: what one change, a hundred changes and a deletion cost until browsers see them, by number of listings.
#![allow(missing_docs)]

mod support;

use criterion::Criterion;
use support::publishing::Publishing;
use support::report::{Bar, Report};

const SIZES: [u64; 3] = [25_000, 250_000, 1_000_000];

fn criterion_benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish");
    let mut publishing = Publishing::new(SIZES[0]);
    group.bench_function("one change", |b| b.iter_custom(|rounds| publishing.total(rounds, 1)));
    group.bench_function("a hundred changes", |b| b.iter_custom(|rounds| publishing.total(rounds, 100)));
    group.finish();
}

fn table() {
    let mut report = Report::new("publish", "changes until browsers see them, lane, 50 scopes");
    let mut at_smallest = 0.0;
    for size in SIZES {
        let mut publishing = Publishing::new(size);
        let renewal = publishing.renewal_p50_us(4_000);
        let one = publishing.p50_us(4_000, 1);
        let is_largest = size == SIZES[SIZES.len() - 1];
        let bar = if is_largest { Bar::AtMost(10.0) } else { Bar::None };
        report.figure("", format!("a renewal that changes nothing, p50, {size} listings"), renewal, "us", Bar::None);
        report.figure("", format!("one change and its publication, p50, {size} listings"), one, "us", Bar::None);
        let publication = one - renewal;
        report.figure("P4", format!("the publication of one change, {size} listings"), publication, "us", bar);
        if size == SIZES[0] {
            at_smallest = publication;
        }
        if is_largest {
            report.figure("P4", "the same over the smallest size", publication / at_smallest, "x", Bar::AtMost(2.0));
        }
        let hundred = publishing.p50_us(200, 100);
        let what = format!("100 changes and their publication, p50, {size} listings");
        report.figure("P4", what, hundred, "us", Bar::AtMost(500.0));
        let delete = publishing.delete_p50_us(4_000);
        let what = format!("a deletion, acknowledged after publishing, p50, {size} listings");
        report.figure("P4", what, delete, "us", Bar::AtMost(25.0));
    }
    report.finish();
}

fn main() {
    support::run(criterion_benches, table);
}
