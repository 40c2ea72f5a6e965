//! Resident memory of a listing, all in: record, indexes, presence, idempotency record, timers, snapshot, rendered row.
//!
//! Each cell is measured in a process of its own that makes one store (`--one STORE LISTINGS`), with the binary's
//! allocator, so that no store lives on pages that another one left behind. The bench's own bookkeeping is touched
//! before the first reading. Churn replaces a quarter of the listings in each round and then lets their idempotency
//! records run out, while everything else is kept alive.
#![allow(missing_docs)]

mod support;

use rendezvous::clock::Clock;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{Command, Delete, Details, Failure, Reply};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{BrowseQuery, NoObserver, Store};
use std::fmt::Write;
use std::process;
use std::sync::Arc;
use support::BenchClock;

const SIZES: [u64; 3] = [25_000, 250_000, 1_000_000];
/// Bar P9, for the lane at the largest size.
const BAR_BYTES: f64 = 700.0;
const ROUNDS: u64 = 3;
/// One listing in this many is replaced in each round.
const REPLACED_EVERY: u64 = 4;
/// Lease and retention: listings are kept alive over two thirds of it, twice a round.
const LEASE_MS: u64 = 300_000;
const STEP_MS: u64 = 200_000;

/// Resident bytes of this process. Linux counts in pages of 4 KiB on the machines that we measure on.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4_096
}

/// A listing that the bench keeps alive.
#[derive(Clone, Copy)]
struct Kept {
    n: u64,
    version: u64,
    sequence: u64,
}

/// A row of 290 bytes at a million listings, as the bar has it.
fn details(n: u64) -> Details {
    let fields = support::details(n).fields().clone();
    Details::new(DetailsInput { name: format!("Friday {n}"), region: Some("eu".into()), ..fields })
        .expect("valid details")
}

struct Run<'a> {
    clock: &'a BenchClock,
    submit: &'a dyn Fn(Command) -> Result<Reply, Failure>,
    tick: &'a dyn Fn(),
    kept: Vec<Kept>,
    next: u64,
    base: u64,
}

impl Run<'_> {
    fn accept(&self, command: Command) {
        (self.submit)(command).expect("an accepted transition");
    }

    fn register(&mut self) -> Kept {
        let n = self.next;
        self.next += 1;
        let mut command = support::register(n);
        if let Command::Register(register) = &mut command {
            register.ttl = support::ttl(LEASE_MS);
            register.details = details(n);
        }
        self.accept(command);
        self.accept(support::presence(n, 1, self.clock.mono()));
        Kept { n, version: 1, sequence: 1 }
    }

    fn fill(&mut self) {
        for place in 0..self.kept.len() {
            self.kept[place] = self.register();
        }
        self.settle();
    }

    fn keep_alive(&mut self) {
        let now = self.clock.mono();
        for place in 0..self.kept.len() {
            let Kept { n, version, sequence } = self.kept[place];
            self.accept(support::renew(n, version));
            self.accept(support::presence(n, sequence + 1, now));
            self.kept[place] = Kept { n, version: version + 1, sequence: sequence + 1 };
        }
    }

    fn replace(&mut self, round: u64) {
        let first = (round % REPLACED_EVERY) as usize;
        for place in (first..self.kept.len()).step_by(REPLACED_EVERY as usize) {
            let Command::Renew(renew) = support::renew(self.kept[place].n, 0) else { unreachable!("a renewal") };
            self.accept(Command::Delete(Delete { proof: renew.proof }));
            self.kept[place] = self.register();
        }
        for _ in 0..2 {
            self.clock.advance_ms(STEP_MS);
            self.keep_alive();
        }
        self.settle();
    }

    /// Cleans up and publishes everything that is due.
    fn settle(&self) {
        (0..64).for_each(|_| (self.tick)());
    }

    fn per_listing(&self) -> f64 {
        (resident().saturating_sub(self.base)) as f64 / self.kept.len() as f64
    }

    /// Bytes a listing when filled, and after each round of churn.
    fn measure(mut self) -> Vec<f64> {
        self.base = resident();
        self.fill();
        let mut readings = vec![self.per_listing()];
        for round in 0..ROUNDS {
            self.replace(round);
            readings.push(self.per_listing());
        }
        readings
    }
}

fn run<S: Store>(store: &S, clock: &BenchClock, listings: u64, submit: &dyn Fn(Command) -> Result<Reply, Failure>) {
    let kept = vec![Kept { n: 1, version: 1, sequence: 1 }; listings as usize];
    let run = Run { clock, submit, tick: &|| store.tick(), kept, next: 1, base: 0 };
    let readings = run.measure();
    let page =
        BrowseQuery { tenant: support::TENANT, protocol: &support::protocol(7), after: None, limit: 50, filter: None };
    let row = store.browse(&page, |page| page.rows_len() as f64 / page.count.max(1) as f64).expect("a page");
    print!("{row:.0}");
    readings.iter().for_each(|bytes| print!(" {bytes:.1}"));
    println!();
}

/// Measures one store in this process and prints bytes of a row, then bytes a listing: filled, and after each round.
fn one(store: &str, listings: u64) {
    let clock = BenchClock::new();
    let mut limits = support::limits(listings as u32);
    limits.lease_ttl.max_ms = LEASE_MS as u32;
    limits.lease_ttl.default_ms = LEASE_MS as u32;
    limits.idempotency_retention_ms = LEASE_MS as u32;
    match store {
        "lane" => {
            let lane = Lane::new(limits, LaneSettings::default(), clock.clone(), Arc::new(NoObserver));
            let lane = lane.expect("valid limits");
            run(&lane, &clock, listings, &|command| lane.submit_blocking(command));
        }
        _ => {
            let lock = SingleLock::new(limits, clock.clone(), Arc::new(NoObserver)).expect("valid limits");
            run(&lock, &clock, listings, &|command| lock.apply(command));
        }
    }
}

fn measure_in_a_process(store: &str, listings: u64) -> Vec<f64> {
    let this = std::env::current_exe().expect("the bench's own path");
    let output = process::Command::new(this).args(["--one", store, &listings.to_string()]).output();
    let output = output.expect("a child process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, store, listings] = &arguments[..]
        && flag == "--one"
    {
        return one(store, listings.parse().expect("a number of listings"));
    }
    println!("resident bytes a listing, all in; each round of churn replaces one listing in {REPLACED_EVERY}");
    println!("| store       |  listings | row, JSON |   filled | ratio | churn 1 | churn 2 | churn 3 |   bar |");
    println!("|-------------|-----------|-----------|----------|-------|---------|---------|---------|-------|");
    let mut json = String::from("[");
    for listings in SIZES {
        let mut baseline = None;
        for store in ["single_lock", "lane"] {
            let cell = measure_in_a_process(store, listings);
            // How many times less the lane takes, filled.
            let ratio = *baseline.get_or_insert(cell[1]) / cell[1];
            let is_barred = store == "lane" && listings == SIZES[2];
            let bar = if is_barred { format!("{BAR_BYTES:.0}") } else { "-".into() };
            println!(
                "| {store:<11} | {listings:>9} | {:>9.0} | {:>8.1} | {ratio:>5.2} | {:>7.1} | {:>7.1} | {:>7.1} | {bar:>5} |",
                cell[0], cell[1], cell[2], cell[3], cell[4]
            );
            let comma = if json.len() > 1 { "," } else { "" };
            let _ = write!(
                json,
                "{comma}\n  {{\"bench\":\"memory\",\"store\":\"{store}\",\"listings\":{listings},\"row_bytes\":{:.0},\
                 \"filled\":{:.1},\"ratio\":{ratio:.3},\"churned\":[{:.1},{:.1},{:.1}],\"bar\":{}}}",
                cell[0],
                cell[1],
                cell[2],
                cell[3],
                cell[4],
                if is_barred { BAR_BYTES.to_string() } else { "null".into() }
            );
        }
    }
    json.push_str("\n]\n");
    std::fs::write(support::report::results_dir().join("memory.json"), json)
        .expect("the results' folder can be written");
}
