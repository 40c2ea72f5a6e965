//! Mass expiry: a million live listings of which 100,000 end at one instant, under 100,000 renewals and presences a second.
//!
//! Two such instants for each store. In the first, a thread that ticks every 20 ms as the server does shares the machine
//! with the producer, and each transition is timed. In the second the producer ticks too, and a reader's pages are timed.
//! So no more threads spin than there are cores, and what is seen is the store's doing. The clock stands still while the
//! store is filled, so that the deadlines are equal to the nanosecond. Those that end are every tenth in the order of
//! their making, which is all that there is in a tenth of the scopes: so the lane has every chunk of theirs to rewrite
//! again and again until nothing is left.
//!
//! What is the machine's own doing is measured beside each store: a loop that does nothing but read the clock, on as many
//! threads, for its longest gap and for what it makes of a piece of work that takes as long as a page.
#![allow(missing_docs)]

mod support;

use rendezvous::clock::{Clock, SystemClock};
use rendezvous::domain::{Command, Event, Failure, MonoTime, Reply, WallTime};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{BrowseQuery, Observer, Store};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::Random;

const LISTINGS: u64 = 1_000_000;
/// Listings n with n % 10 = 0 end at the first instant, those with n % 10 = 5 at the second.
const ENDING_EVERY: u64 = 10;
const ENDS: [u64; 2] = [0, 5];
const ENDING: u64 = LISTINGS / ENDING_EVERY;
const LEASES_MS: [u64; 2] = [60_000, 120_000];
/// Between two transitions of the producer.
const PACE: Duration = Duration::from_micros(10);
const TICK: Duration = Duration::from_millis(20);
/// Measured before and after the instant.
const BEFORE_MS: u64 = 1_000;
const AFTER_MS: u64 = 3_000;
/// Bars P10: no transition above 2 ms, browse p99.9 under 2 us.
const BAR_TRANSITION_NS: u64 = 2_000_000;
const BAR_BROWSE_NS: u64 = 2_000;

/// Stands still until it is let go, then runs with the system's clock; it can be moved on.
#[derive(Clone)]
struct BenchClock {
    system: SystemClock,
    /// What is added to the system's time; while it stands, where it stands.
    shift: Arc<AtomicU64>,
    runs: Arc<AtomicBool>,
}

impl BenchClock {
    const STANDS_AT: u64 = 1_000_000_000_000;

    fn new() -> Self {
        Self { system: SystemClock::new(), shift: Arc::default(), runs: Arc::default() }
    }

    /// Runs on from `at`.
    fn run_from(&self, at: MonoTime) {
        self.shift.store(at.0 - self.system.mono().0, Ordering::Relaxed);
        self.runs.store(true, Ordering::Release);
    }
}

impl Clock for BenchClock {
    fn mono(&self) -> MonoTime {
        if self.runs.load(Ordering::Acquire) {
            MonoTime(self.system.mono().0 + self.shift.load(Ordering::Relaxed))
        } else {
            MonoTime(Self::STANDS_AT)
        }
    }

    fn wall(&self) -> WallTime {
        self.system.wall()
    }
}

/// Counts listings that were removed, and when the last one was.
struct Removals {
    clock: BenchClock,
    count: AtomicU64,
    last: AtomicU64,
}

impl Observer for Removals {
    fn observe(&self, event: &Event) {
        if matches!(event, Event::ListingEnded { .. }) {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.last.store(self.clock.mono().0, Ordering::Relaxed);
        }
    }
}

/// Sorted samples.
struct Samples(Vec<u64>);

impl Samples {
    fn new(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    fn at(&self, part: f64) -> u64 {
        self.0.get(((self.0.len().max(1) - 1) as f64 * part) as usize).copied().unwrap_or(0)
    }
}

/// What was measured of one store.
struct Measured {
    quiet: Samples,
    expiring: Samples,
    rate: f64,
    removed_ms: [f64; 2],
    quiet_pages: Samples,
    pages: Samples,
    dead_rows: u64,
    machine: Machine,
}

/// What an idle loop saw of the machine.
struct Machine {
    longest_gap: u64,
    /// Of pieces of idling that end after the median page's time.
    as_long_as_a_page: Samples,
}

impl Machine {
    /// Idles on two threads, as many as a measurement has, and for as long as one of its halves.
    fn watch(page_ns: u64) -> Self {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let start = Instant::now();
            let (mut longest_gap, mut pieces) = (0, Vec::with_capacity(8_000_000));
            let (mut began, mut last) = (start, start);
            while last.duration_since(start) < Duration::from_millis(AFTER_MS) {
                let now = Instant::now();
                longest_gap = longest_gap.max(now.duration_since(last).as_nanos() as u64);
                last = now;
                let took = now.duration_since(began).as_nanos() as u64;
                if took >= page_ns {
                    pieces.push(took);
                    began = Instant::now();
                    last = began;
                }
            }
            over.store(true, Ordering::Relaxed);
            Self { longest_gap, as_long_as_a_page: Samples::new(pieces) }
        })
    }
}

/// The producer's view of one store.
struct Bench<'a, S> {
    store: &'a S,
    clock: &'a BenchClock,
    submit: &'a (dyn Fn(Command) -> Result<Reply, Failure> + Sync),
    removals: &'a Removals,
    /// Version and sequence of each listing.
    versions: Vec<(u32, u32)>,
    random: Random,
}

impl<S: Store> Bench<'_, S> {
    fn fill(&mut self) {
        for n in 0..LISTINGS {
            let mut command = support::register(n);
            let ends = ENDS.iter().position(|rest| n % ENDING_EVERY == *rest);
            if let Command::Register(register) = &mut command {
                register.ttl = support::ttl(ends.map_or(3_600_000, |end| LEASES_MS[end]));
            }
            (self.submit)(command).expect("room for the listing");
            (self.submit)(support::presence(n, 1, self.clock.mono())).expect("a live listing");
        }
        self.store.tick();
    }

    fn next(&mut self) -> Command {
        let n = loop {
            let n = self.random.below(LISTINGS);
            if !ENDS.contains(&(n % ENDING_EVERY)) {
                break n;
            }
        };
        let (version, sequence) = &mut self.versions[n as usize];
        if self.random.below(2) == 0 {
            *version += 1;
            support::renew(n, u64::from(*version) - 1)
        } else {
            *sequence += 1;
            support::presence(n, u64::from(*sequence), self.clock.mono())
        }
    }

    /// Goes to shortly before an instant and produces until well after it; the samples before and after, and the rate.
    fn produce(&mut self, end: usize, ticks_too: bool) -> (Vec<u64>, Vec<u64>, f64) {
        let instant = MonoTime(BenchClock::STANDS_AT).plus_ms(LEASES_MS[end]);
        self.clock.run_from(MonoTime(instant.0 - BEFORE_MS * 1_000_000));
        let until = instant.plus_ms(AFTER_MS);
        let (mut quiet, mut expiring) = (Vec::with_capacity(200_000), Vec::with_capacity(400_000));
        let start = Instant::now();
        let (mut due, mut next_tick) = (start, start + TICK);
        let mut done = 0_u64;
        while self.clock.mono() < until {
            let command = self.next();
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            due += PACE;
            let is_expiring = self.clock.mono() >= instant;
            let began = Instant::now();
            (self.submit)(command).expect("an accepted transition");
            let took = began.elapsed().as_nanos() as u64;
            if is_expiring {
                expiring.push(took)
            } else {
                quiet.push(took)
            }
            done += 1;
            if ticks_too && Instant::now() >= next_tick {
                self.store.tick();
                next_tick += TICK;
            }
        }
        (quiet, expiring, done as f64 / start.elapsed().as_secs_f64())
    }

    /// From the instant until everything was removed.
    fn removed_ms(&self, end: usize) -> f64 {
        assert_eq!(self.removals.count.load(Ordering::Relaxed), ENDING * (end as u64 + 1), "all that ended is removed");
        let instant = MonoTime(BenchClock::STANDS_AT).plus_ms(LEASES_MS[end]);
        (self.removals.last.load(Ordering::Relaxed) - instant.0) as f64 / 1e6
    }

    fn measure(mut self) -> Measured {
        self.fill();
        let over = AtomicBool::new(false);
        let store = self.store;
        let (quiet, expiring, rate) = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(TICK);
                    store.tick();
                }
            });
            let samples = self.produce(0, false);
            over.store(true, Ordering::Relaxed);
            samples
        });
        let first = self.removed_ms(0);
        over.store(false, Ordering::Relaxed);
        let clock = self.clock;
        let (quiet_pages, pages, dead_rows) = thread::scope(|scope| {
            let reader = scope.spawn(|| browse(store, clock, &over));
            self.produce(1, true);
            over.store(true, Ordering::Relaxed);
            reader.join().expect("a reader")
        });
        let pages = Samples::new(pages);
        let machine = Machine::watch(pages.at(0.5));
        Measured {
            quiet: Samples::new(quiet),
            expiring: Samples::new(expiring),
            rate,
            removed_ms: [first, self.removed_ms(1)],
            quiet_pages: Samples::new(quiet_pages),
            pages,
            dead_rows,
            machine,
        }
    }
}

/// Browses at random cursors until `over`; the time of each page before and after the second instant, and the rows beyond
/// those that live found right after it.
fn browse<S: Store>(store: &S, clock: &BenchClock, over: &AtomicBool) -> (Vec<u64>, Vec<u64>, u64) {
    let instant = MonoTime(BenchClock::STANDS_AT).plus_ms(LEASES_MS[1]);
    let protocols: Vec<String> = (0..support::SCOPES).map(support::protocol).collect();
    let mut random = Random::new(77);
    let (mut quiet, mut times) = (Vec::with_capacity(2_000_000), Vec::with_capacity(6_000_000));
    let mut dead_rows = None;
    while !over.load(Ordering::Relaxed) {
        let n = random.below(LISTINGS);
        let protocol = &protocols[(n % support::SCOPES) as usize];
        let query = BrowseQuery {
            tenant: support::TENANT,
            protocol,
            after: Some(support::listing_id(n)),
            limit: 50,
            filter: None,
        };
        let is_expiring = clock.mono() >= instant;
        let began = Instant::now();
        let count = store.browse(&query, |page| page.count).expect("a page");
        let took = began.elapsed().as_nanos() as u64;
        assert!(count <= 50);
        if is_expiring {
            times.push(took);
            dead_rows.get_or_insert_with(|| count_dead(store, &protocols[5]));
        } else {
            quiet.push(took);
        }
    }
    (quiet, times, dead_rows.unwrap_or(u64::MAX))
}

/// Rows of scope 5 that browsing shows although they are dead: all of it ends at the second instant.
fn count_dead<S: Store>(store: &S, protocol: &str) -> u64 {
    let live = (0..LISTINGS).filter(|n| n % support::SCOPES == 5 && !ENDS.contains(&(n % ENDING_EVERY))).count() as u64;
    let (mut shown, mut after) = (0, None);
    loop {
        let query = BrowseQuery { tenant: support::TENANT, protocol, after, limit: 100, filter: None };
        let (count, next) = store.browse(&query, |page| (page.count, page.next)).expect("a page");
        shown += count as u64;
        match next {
            Some(next) => after = Some(next),
            None => return shown - live,
        }
    }
}

fn limits() -> rendezvous::domain::Limits {
    support::limits(LISTINGS as u32)
}

fn removals(clock: &BenchClock) -> Arc<Removals> {
    Arc::new(Removals { clock: clock.clone(), count: AtomicU64::new(0), last: AtomicU64::new(0) })
}

fn lane() -> Measured {
    let clock = BenchClock::new();
    let removals = removals(&clock);
    let store = Lane::new(limits(), LaneSettings::default(), clock.clone(), removals.clone()).expect("valid limits");
    let submit = |command| store.submit_blocking(command);
    let versions = vec![(1, 1); LISTINGS as usize];
    let random = Random::new(5);
    Bench { store: &store, clock: &clock, submit: &submit, removals: &removals, versions, random }.measure()
}

fn single_lock() -> Measured {
    let clock = BenchClock::new();
    let removals = removals(&clock);
    let store = SingleLock::new(limits(), clock.clone(), removals.clone()).expect("valid limits");
    let submit = |command| store.apply(command);
    let versions = vec![(1, 1); LISTINGS as usize];
    let random = Random::new(5);
    Bench { store: &store, clock: &clock, submit: &submit, removals: &removals, versions, random }.measure()
}

fn main() {
    let (lane, lock) = (lane(), single_lock());
    println!(
        "{LISTINGS} listings, {ENDING} end at one instant, renewals and presences at {} a second",
        1_000_000 / PACE.as_micros()
    );
    println!("| {:<52} | {:>12} | {:>12} | {:>10} |", "what", "single lock", "lane", "bar");
    println!("|{:-<54}|{:->14}|{:->14}|{:->12}|", "", "", "", "");
    let mut json = String::from("[");
    let mut row = |name: &str, what: &str, of: &dyn Fn(&Measured) -> f64, bar: Option<u64>| {
        let shown = bar.map_or("-".into(), |bar| bar.to_string());
        println!("| {what:<52} | {:>12.1} | {:>12.1} | {shown:>10} |", of(&lock), of(&lane));
        let comma = if json.len() > 1 { "," } else { "" };
        let bar = bar.map_or("null".into(), |bar| bar.to_string());
        let (lock, lane) = (of(&lock), of(&lane));
        let _ = write!(
            json,
            "{comma}\n  {{\"bench\":\"expiry\",\"what\":\"{name}\",\"single_lock\":{lock:.1},\"lane\":{lane:.1},\"bar\":{bar}}}"
        );
    };
    let ns = |value: u64| value as f64;
    row("rate", "transitions a second, achieved", &|m| m.rate, None);
    row("quiet_p50_ns", "before the instant: p50, ns", &|m| ns(m.quiet.at(0.5)), None);
    row("quiet_p999_ns", "before the instant: p99.9, ns", &|m| ns(m.quiet.at(0.999)), None);
    row("quiet_max_ns", "before the instant: worst, ns", &|m| ns(m.quiet.at(1.0)), None);
    row("p50_ns", "after it: p50, ns", &|m| ns(m.expiring.at(0.5)), None);
    row("p999_ns", "after it: p99.9, ns", &|m| ns(m.expiring.at(0.999)), None);
    row("max_ns", "after it: worst, ns", &|m| ns(m.expiring.at(1.0)), Some(BAR_TRANSITION_NS));
    row("removed_ms", "until all are removed, ms", &|m| m.removed_ms[0], None);
    row("removed_with_reader_ms", "until all are removed with a reader beside, ms", &|m| m.removed_ms[1], None);
    row("browse_quiet_p999_ns", "browsing before it: p99.9, ns", &|m| ns(m.quiet_pages.at(0.999)), None);
    row("browse_p50_ns", "browsing after it: p50, ns", &|m| ns(m.pages.at(0.5)), None);
    row("browse_p999_ns", "browsing after it: p99.9, ns", &|m| ns(m.pages.at(0.999)), Some(BAR_BROWSE_NS));
    row("dead_rows", "dead rows shown", &|m| ns(m.dead_rows), Some(0));
    row("machine_gap_ns", "the machine: longest gap of an idle loop, ns", &|m| ns(m.machine.longest_gap), None);
    let idle = |m: &Measured| ns(m.machine.as_long_as_a_page.at(0.999));
    row("machine_p999_ns", "the machine: idling as long as a page, p99.9, ns", &idle, None);
    json.push_str("\n]\n");
    std::fs::write(support::report::results_dir().join("expiry.json"), json)
        .expect("the results' folder can be written");
}
