//! The same workload for both stores, and a table with ratio and bar at the end.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod browsing;
pub mod producing;
pub mod publishing;
pub mod report;

use rendezvous::clock::{Clock, StampClock, SystemClock};
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{
    At, AttributeValue, Candidates, Command, Delete, Details, Endpoint, Failure, Fingerprint, Idempotency,
    IdempotencyKey, LeaseProof, Limits, ListingId, MonoTime, Presence, Principal, PrincipalKey, Register, Renew, Reply,
    Scope, TenantId, Ttl, TtlBounds, Visibility, WallTime,
};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{NoObserver, Store};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub const TENANT: TenantId = TenantId(0);
/// Scopes over which the listings are spread.
pub const SCOPES: u64 = 50;
/// One listing in a hundred has ended for those who read ahead.
pub const EXPIRED_EVERY: u64 = 100;
const SHORT_TTL_MS: u64 = 150_000;
/// As long as the limits allow.
const PRESENCE_MS: u32 = 300_000;
const AHEAD_MS: u64 = 200_000;
const LONG_TTL_MS: u64 = 3_600_000;

thread_local! {
    static AHEAD_NS: Cell<u64> = const { Cell::new(0) };
}

/// The system's clock, moved on by what a bench asks for, and ahead on threads that say so.
#[derive(Clone)]
pub struct BenchClock {
    system: Arc<StampClock>,
    moved_ns: Arc<AtomicU64>,
}

impl BenchClock {
    pub fn new() -> Self {
        Self { system: Arc::new(StampClock::new(SystemClock::new())), moved_ns: Arc::new(AtomicU64::new(0)) }
    }

    pub fn advance_ms(&self, ms: u64) {
        self.moved_ns.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }

    /// Meanwhile this thread reads the clock so far ahead that one lease in a hundred has ended for it. The writer does
    /// not, so its cleanup never takes these rows out: the worst case for readers, kept up for a whole run. A run ends
    /// before the presence that its fixture noted does, [`PRESENCE_MS`] less [`AHEAD_MS`] after it was filled.
    pub fn ahead<R>(work: impl FnOnce() -> R) -> R {
        AHEAD_NS.set(AHEAD_MS * 1_000_000);
        let result = work();
        AHEAD_NS.set(0);
        result
    }
}

impl Clock for BenchClock {
    fn mono(&self) -> MonoTime {
        MonoTime(self.system.mono().0 + self.moved_ns.load(Ordering::Relaxed) + AHEAD_NS.get())
    }

    fn wall(&self) -> WallTime {
        self.system.wall()
    }

    fn at(&self) -> At {
        let At { mono, wall } = self.system.at();
        At { mono: MonoTime(mono.0 + self.moved_ns.load(Ordering::Relaxed) + AHEAD_NS.get()), wall }
    }
}

pub fn limits(listings: u32) -> Limits {
    let bounds = TtlBounds { min_ms: 1_000, max_ms: 3_600_000, default_ms: 3_600_000 };
    Limits {
        listings,
        unproven_listings: listings,
        presence: 2 * listings,
        attempts: 1_000,
        idempotency: 2 * listings + 2_000,
        lease_ttl: bounds,
        presence_ttl_ms: PRESENCE_MS,
        unproven_window_ms: 3_600_000,
        idempotency_retention_ms: 3_600_000,
        ..Limits::default()
    }
}

pub fn protocol(scope: u64) -> String {
    format!("arena/{scope}")
}

pub fn listing_id(n: u64) -> ListingId {
    /// Made once, so that making an id costs next to nothing.
    static TAGS: LazyLock<Vec<u32>> =
        LazyLock::new(|| (0..SCOPES).map(|scope| Scope::tag(TENANT, &protocol(scope))).collect());
    ListingId::compose(1_700_000_000_000 + n, n, TAGS[(n % SCOPES) as usize])
}

pub fn ttl(ms: u64) -> Ttl {
    Ttl::checked(ms, TtlBounds { min_ms: 1, max_ms: 3_600_000, default_ms: 1 }).expect("inside the bounds")
}

/// About 290 bytes of JSON.
pub fn details(n: u64) -> Details {
    Details::new(DetailsInput {
        name: format!("Friday night {n}"),
        map: Some("dust".into()),
        mode: Some("ctf".into()),
        region: Some("eu-west".into()),
        players: (n % 16) as u16,
        max_players: 16,
        tags: vec!["modded".into()],
        attributes: vec![
            ("skill".into(), AttributeValue::Integer(1200)),
            ("voice".into(), AttributeValue::Boolean(true)),
        ],
        ..DetailsInput::default()
    })
    .expect("valid details")
}

/// Registers listing `n`, the same each time.
pub fn register(n: u64) -> Command {
    let ttl_ms = if n.is_multiple_of(EXPIRED_EVERY) { SHORT_TTL_MS } else { LONG_TTL_MS };
    Command::Register(Box::new(Register {
        id: listing_id(n),
        owner: owner(n),
        source: None,
        idempotency: Idempotency { key: IdempotencyKey(spread(n)), fingerprint: Fingerprint(1) },
        scope: Scope::new(TENANT, &protocol(n % SCOPES)).expect("a legal protocol"),
        visibility: Visibility::Public,
        details: details(n),
        ttl: ttl(ttl_ms),
        gate: false,
        session: None,
        candidates: Candidates::default(),
        lease: Fingerprint(spread(n)),
        quota_per_owner: 4,
        quota_per_source: 4,
    }))
}

/// Digests are spread over their whole range, as the service makes them.
fn spread(n: u64) -> u128 {
    u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(n.wrapping_mul(0xFF51_AFD7_ED55_8CCD))
}

fn owner(n: u64) -> Principal {
    Principal { tenant: TENANT, key: PrincipalKey(spread(n)) }
}

pub fn presence(n: u64, sequence: u64, now: MonoTime) -> Command {
    let port = 1024 + (n % 60_000) as u16;
    let address = std::net::Ipv4Addr::from_bits(0x0A00_0000 + (n as u32 >> 4));
    Command::Presence(Presence {
        listing: listing_id(n),
        endpoint: Endpoint::new((address, port).into()).expect("a unicast endpoint"),
        datagram: Fingerprint(spread(sequence)),
        sequence: Some(sequence),
        nonce_issued: now,
    })
}

fn proof(n: u64) -> LeaseProof {
    LeaseProof { listing: listing_id(n), caller: owner(n), lease: Fingerprint(spread(n)) }
}

pub fn renew(n: u64, version: u64) -> Command {
    Command::Renew(Renew { proof: proof(n), version, ttl: None, details: None, visibility: None })
}

/// A renewal that changes what browsers see.
pub fn rename(n: u64, version: u64, name: u64) -> Command {
    let details = Some(Box::new(details(name)));
    Command::Renew(Renew { proof: proof(n), version, ttl: None, details, visibility: None })
}

pub fn delete(n: u64) -> Command {
    Command::Delete(Delete { proof: proof(n) })
}

pub fn lane(listings: u64) -> (Lane<BenchClock>, BenchClock) {
    let clock = BenchClock::new();
    let store = Lane::new(limits(listings as u32), LaneSettings::default(), clock.clone(), Arc::new(NoObserver));
    let store = store.expect("valid limits");
    fill(&clock, listings, &|command| store.submit_blocking(command));
    store.tick();
    (store, clock)
}

pub fn single_lock(listings: u64) -> (SingleLock<BenchClock>, BenchClock) {
    let clock = BenchClock::new();
    let store = SingleLock::new(limits(listings as u32), clock.clone(), Arc::new(NoObserver)).expect("valid limits");
    fill(&clock, listings, &|command| store.apply(command));
    store.tick();
    (store, clock)
}

fn fill(clock: &BenchClock, listings: u64, submit: Submit<'_>) {
    for n in 0..listings {
        submit(register(n)).expect("room for the listing");
        submit(presence(n, 1, clock.mono())).expect("a live listing");
    }
}

/// How a bench submits to either store.
pub type Submit<'a> = &'a (dyn Fn(Command) -> Result<Reply, Failure> + Sync);

/// A writer with a fixed rate beside a measurement: renewals, each tenth of which changes what browsers see, and the
/// tick that the server makes. It works off what is due once a millisecond.
pub struct Writer<'a> {
    submit: Submit<'a>,
    tick: &'a (dyn Fn() + Sync),
    versions: Mutex<Vec<u64>>,
}

impl<'a> Writer<'a> {
    pub fn new(listings: u64, submit: Submit<'a>, tick: &'a (dyn Fn() + Sync)) -> Self {
        Self { submit, tick, versions: Mutex::new(vec![1; listings as usize]) }
    }

    /// Returns what `measured` returns, and which part of its rate the writer kept meanwhile.
    pub fn beside<R>(&self, per_second: u64, measured: impl FnOnce() -> R) -> (R, f64) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| self.write_until(per_second, &is_over));
            let result = measured();
            is_over.store(true, Ordering::Relaxed);
            (result, writer.join().expect("the writer"))
        })
    }

    fn write_until(&self, per_second: u64, is_over: &AtomicBool) -> f64 {
        let mut versions = self.versions.lock().expect("one writer at a time");
        let mut random = Random::new(99);
        let (start, mut sent, mut ticked) = (Instant::now(), 0_u64, Instant::now());
        while !is_over.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * per_second as f64) as u64;
            while sent < due {
                let n = random.below(versions.len() as u64);
                let version = &mut versions[n as usize];
                let command = if random.below(10) == 0 { rename(n, *version, sent) } else { renew(n, *version) };
                (self.submit)(command).expect("an accepted renewal");
                *version += 1;
                sent += 1;
            }
            if ticked.elapsed() >= Duration::from_millis(20) {
                (self.tick)();
                ticked = Instant::now();
            }
            thread::sleep(Duration::from_millis(1));
        }
        sent as f64 / (start.elapsed().as_secs_f64() * per_second as f64)
    }
}

/// The same measurement on several threads at once.
pub fn on_threads<R: Send>(threads: u64, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a measuring thread")).collect()
    })
}

/// A small fast generator: the workload is the same for both stores.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Median, 99.9th percentile and rate of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub p50_ns: u64,
    pub p999_ns: u64,
    pub per_second: f64,
}

/// Runs `work` in blocks, so that reading the clock does not drown what takes a few nanoseconds.
pub fn measure(iterations: u64, block: u64, mut work: impl FnMut(u64)) -> Measured {
    let mut samples = Vec::with_capacity((iterations / block) as usize);
    (0..iterations / 10).for_each(&mut work);
    let start = Instant::now();
    for round in 0..iterations / block {
        let began = Instant::now();
        for step in 0..block {
            work(round * block + step);
        }
        samples.push(began.elapsed().as_nanos() as u64 / block);
    }
    let per_second = iterations as f64 / start.elapsed().as_secs_f64();
    samples.sort_unstable();
    let at = |part: f64| samples[((samples.len() - 1) as f64 * part) as usize];
    Measured { p50_ns: at(0.5), p999_ns: at(0.999), per_second }
}

/// A bench's `main`: criterion's part with the settings of all benches, and the table unless only a profile is wanted.
pub fn run(benches: impl FnOnce(&mut criterion::Criterion), table: impl FnOnce()) {
    let criterion = criterion::Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    benches(&mut criterion.configure_from_args());
    if !is_profiling() {
        table();
    }
}

/// Whether only a profile of one function is wanted, so that no table is to be made.
pub fn is_profiling() -> bool {
    std::env::args().any(|argument| argument == "--profile-time")
}

/// How often a second a loop that only reads the clock loses a microsecond or more: what the machine itself takes, and
/// what no percentile beyond it can be better than.
pub fn interruptions_a_second() -> f64 {
    let start = Instant::now();
    let (mut last, mut lost) = (start, 0_u32);
    while last.duration_since(start) < Duration::from_secs(1) {
        let now = Instant::now();
        lost += u32::from(now.duration_since(last) >= Duration::from_micros(1));
        last = now;
    }
    f64::from(lost)
}
