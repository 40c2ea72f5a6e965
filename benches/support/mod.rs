//! The same workload for both stores, and a table with the ratio at the end.
#![allow(dead_code, missing_docs, unreachable_pub)]

use rendezvous::clock::{Clock, SystemClock};
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{
    AttributeValue, Candidates, Command, Details, Endpoint, Failure, Fingerprint, Idempotency, IdempotencyKey,
    LeaseProof, Limits, ListingId, MonoTime, Presence, Principal, PrincipalKey, Register, Renew, Reply, Scope,
    TenantId, Ttl, TtlBounds, Visibility, WallTime,
};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{NoObserver, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub const TENANT: TenantId = TenantId(0);
/// Scopes over which the listings are spread.
pub const SCOPES: u64 = 50;
/// One listing in a hundred is past its deadline when the measurement begins.
const EXPIRED_EVERY: u64 = 100;

/// The system's clock, moved on by what a fixture needs to let some leases end.
#[derive(Clone)]
pub struct BenchClock {
    system: SystemClock,
    ahead_ns: Arc<AtomicU64>,
}

impl BenchClock {
    pub fn new() -> Self {
        Self { system: SystemClock::new(), ahead_ns: Arc::new(AtomicU64::new(0)) }
    }

    pub fn advance_ms(&self, ms: u64) {
        self.ahead_ns.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for BenchClock {
    fn mono(&self) -> MonoTime {
        MonoTime(self.system.mono().0 + self.ahead_ns.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallTime {
        self.system.wall()
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
        presence_ttl_ms: 300_000,
        unproven_window_ms: 3_600_000,
        idempotency_retention_ms: 3_600_000,
        ..Limits::default()
    }
}

pub fn protocol(scope: u64) -> String {
    format!("arena/{scope}")
}

pub fn listing_id(n: u64) -> ListingId {
    ListingId::compose(1_700_000_000_000 + n, n, Scope::tag(TENANT, &protocol(n % SCOPES)))
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

pub fn register(n: u64) -> Command {
    let ttl_ms = if n.is_multiple_of(EXPIRED_EVERY) { 10_000 } else { 3_600_000 };
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

pub fn renew(n: u64, version: u64) -> Command {
    let proof = LeaseProof { listing: listing_id(n), caller: owner(n), lease: Fingerprint(spread(n)) };
    Command::Renew(Renew { proof, version, ttl: None, details: None, visibility: None })
}

pub fn lane(listings: u64) -> (Lane<BenchClock>, BenchClock) {
    let clock = BenchClock::new();
    let store = Lane::new(limits(listings as u32), LaneSettings::default(), clock.clone(), Arc::new(NoObserver));
    let store = store.expect("valid limits");
    fill(&clock, listings, |command| store.submit_blocking(command));
    store.tick();
    (store, clock)
}

pub fn single_lock(listings: u64) -> (SingleLock<BenchClock>, BenchClock) {
    let clock = BenchClock::new();
    let store = SingleLock::new(limits(listings as u32), clock.clone(), Arc::new(NoObserver)).expect("valid limits");
    fill(&clock, listings, |command| store.apply(command));
    store.tick();
    (store, clock)
}

fn fill(clock: &BenchClock, listings: u64, submit: impl Fn(Command) -> Result<Reply, Failure>) {
    for n in 0..listings {
        submit(register(n)).expect("room for the listing");
        submit(presence(n, 1, clock.mono())).expect("a live listing");
    }
    clock.advance_ms(11_000);
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
        (u128::from(self.0) * u128::from(bound) >> 64) as u64
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

/// One row of the table: the baseline, the variant, and how many times better the variant is.
pub fn print_row(what: &str, lock: f64, lane: f64, unit: &str, higher_is_better: bool) {
    let ratio = if higher_is_better { lane / lock } else { lock / lane };
    println!("| {what:<58} | {lock:>12.1} | {lane:>12.1} | {unit:<4} | {ratio:>8.2} x |");
}

pub fn print_head(title: &str) {
    println!("\n{title}\n| {:<58} | {:>12} | {:>12} | unit | {:>10} |", "what", "single lock", "lane", "lane wins");
    println!("|{:-<60}|{:->14}|{:->14}|------|{:->12}|", "", "", "", "");
}
