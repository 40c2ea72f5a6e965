//! How browsing, transitions and publishing grow with the number of listings, as a table and a chart (bar P12).
//!
//! The chart is written to `target/bench-results/growth.svg`; `docs/growth.svg` is a copy of it.
#![allow(missing_docs)]

mod support;

use rendezvous::store::Store;
use std::fmt::Write as _;
use support::browsing::{Queries, touch};
use support::producing::produce;
use support::publishing::Publishing;
use support::report::{Bar, Better, Report, results_dir};
use support::{BenchClock, Random};

const SIZES: [u64; 4] = [1_000, 25_000, 250_000, 1_000_000];
/// Pages in a sample: one takes about as long as reading the clock.
const BLOCK: u64 = 16;

/// Median times in nanoseconds by size.
struct Line {
    name: &'static str,
    colour: &'static str,
    p50_ns: Vec<f64>,
}

fn browse(listings: u64, store: &impl Store, pages: u64, block: u64) -> f64 {
    let queries = Queries::new(listings);
    let run = || {
        let mut random = Random::new(5);
        support::measure(pages, block, |_| {
            queries.with(&mut random, |query| store.browse(query, touch)).expect("available");
        })
    };
    // On a thread of its own, which reads ahead; the writer does not.
    support::on_threads(1, |_| BenchClock::ahead(run))[0].p50_ns as f64
}

fn table() {
    let mut report = Report::new("growth", "medians by number of listings, 50 scopes, one thread");
    let line = |name, colour| Line { name, colour, p50_ns: Vec::new() };
    let mut lines = [
        line("browse, single lock", "#c0392b"),
        line("browse, lane", "#2471a3"),
        line("transition, single lock", "#e59866"),
        line("transition, lane", "#5dade2"),
        line("publish one change, lane", "#1e8449"),
    ];
    for size in SIZES {
        let commands = (200_000, 1);
        let (lock, clock) = support::single_lock(size);
        let lock_browse = browse(size, &lock, 10_000, 1);
        let lock_write = produce((size, 1), commands, &clock, &|command| lock.apply(command))[0].p50_ns as f64;
        drop(lock);
        let (lane, clock) = support::lane(size);
        let lane_browse = browse(size, &lane, 1_000_000, BLOCK);
        let lane_write =
            produce((size, 1), commands, &clock, &|command| lane.submit_blocking(command))[0].p50_ns as f64;
        drop(lane);
        let publish = Publishing::new(size).p50_us(2_000, 1) * 1e3;
        let ns = ("ns", Better::Lower);
        report.compare("P12", format!("browse p50, {size} listings"), (lock_browse, lane_browse), ns, Bar::None);
        report.compare("P12", format!("transition p50, {size} listings"), (lock_write, lane_write), ns, Bar::None);
        report.figure("P12", format!("one change and its publication p50, {size} listings"), publish, "ns", Bar::None);
        let figures = [lock_browse, lane_browse, lock_write, lane_write, publish];
        lines.iter_mut().zip(figures).for_each(|(line, figure)| line.p50_ns.push(figure));
    }
    report.finish();
    let path = results_dir().join("growth.svg");
    match std::fs::write(&path, chart(&lines)) {
        Ok(()) => println!("chart: {}", path.display()),
        Err(error) => eprintln!("{} could not be written: {error}", path.display()),
    }
}

/// A chart with logarithmic axes: a flat line is constant cost, one that rises by equal steps is logarithmic or worse.
fn chart(lines: &[Line]) -> String {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 420.0;
    /// Margins; the right one holds the names.
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 220.0;
    const TOP: f64 = 40.0;
    const BOTTOM: f64 = 50.0;
    let (least, most) = (10_f64, 100_000_f64);
    let x = |place: usize| LEFT + (WIDTH - LEFT - RIGHT) * place as f64 / (SIZES.len() - 1) as f64;
    let y = |ns: f64| {
        let part = (ns.clamp(least, most) / least).log10() / (most / least).log10();
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">Median time by number of listings (both axes logarithmic)</text>\n"
    );
    for (ns, label) in [(10.0, "10 ns"), (100.0, "100 ns"), (1e3, "1 us"), (1e4, "10 us"), (1e5, "100 us")] {
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(ns) + 4.0,
            y = y(ns)
        );
    }
    for (place, size) in SIZES.iter().enumerate() {
        let label = if *size >= 1_000_000 { format!("{} M", size / 1_000_000) } else { format!("{} k", size / 1_000) };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x(place),
            HEIGHT - BOTTOM + 20.0
        );
    }
    for line in lines {
        let points: Vec<String> =
            line.p50_ns.iter().enumerate().map(|(place, ns)| format!("{:.1},{:.1}", x(place), y(*ns))).collect();
        let end = line.p50_ns.last().map_or(0.0, |ns| y(*ns));
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            WIDTH - RIGHT + 8.0,
            end + 4.0,
            line.name,
            colour = line.colour
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn main() {
    // A table and a chart: there is no single function to profile here.
    if !support::is_profiling() {
        table();
    }
}
