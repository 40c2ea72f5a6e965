//! The paths whose instructions are counted. Each prepares what it needs for the most repetitions, whatever is asked of
//! it, and then repeats: so that nothing but the repetitions differs between two runs.

mod attempts;

use crate::edges::udp::{Host, Served, answer_of};
use crate::support::browsing::{HALF, Queries, filter, touch};
use crate::support::{self, Random};
use rendezvous::clock::Clock;
use rendezvous::domain::{Command, Limits, MonoTime, ReplayKey, Revoke, Subject, WallTime};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::{BrowseQuery, NoObserver, Store};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Listings at the start; enough for trees of several levels in the table of scopes and short to prepare.
const LISTINGS: u64 = 4_000;
/// Hosts that take turns in sending datagrams.
const HOSTS: usize = 200;

/// Datagrams of a batch.
const TOGETHER: usize = 16;
/// Records that one transition cleans up at most.
const SLICE: usize = 64;
/// The shortest lease.
const SHORT_MS: u64 = 1_000;

/// One path.
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// Of the shorter of the two runs.
    pub(crate) repetitions: usize,
    /// Prepares for so many, repeats so often.
    pub(crate) run: fn(usize, usize),
}

pub(crate) const PATHS: [Path; 14] = [
    Path { name: "browse a page of 50", repetitions: 4_000, run: browse },
    Path { name: "browse through the thread's cache", repetitions: 4_000, run: browse_cached },
    Path { name: "browse 80 rows with a filter", repetitions: 400, run: browse_filtered },
    Path { name: "renew", repetitions: 2_000, run: renew },
    Path { name: "presence", repetitions: 2_000, run: presence },
    Path { name: "register", repetitions: 1_000, run: register },
    Path { name: "delete, published", repetitions: 500, run: delete },
    Path { name: "change details, tick, published", repetitions: 500, run: change },
    Path { name: "revoke one, published", repetitions: 500, run: revoke },
    Path { name: "create an attempt", repetitions: 1_000, run: attempts::create },
    Path { name: "bind and consume, introduced", repetitions: 1_000, run: attempts::introduce },
    Path { name: "sweep of a full slice", repetitions: 50, run: sweep },
    Path { name: "16 presences together", repetitions: 200, run: together },
    Path { name: "answer a presence datagram", repetitions: 1_000, run: datagram },
];

/// A clock that stands where it was put: under valgrind a real one would run ahead of the work, and ends and ticks would come
/// in between.
struct StillClock;

const NOW: MonoTime = MonoTime(1_000_000_000);
/// Its time, in nanoseconds.
static TIME: AtomicU64 = AtomicU64::new(NOW.0);

impl Clock for StillClock {
    fn mono(&self) -> MonoTime {
        MonoTime(TIME.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000)
    }
}

type StillLane = Lane<StillClock>;

/// A lane with room for `more` listings.
fn lane(more: usize) -> StillLane {
    let limits = Limits {
        attempts: 1_000 + more as u32,
        revocations: 1_000 + more as u32,
        replay: 1_000 + more as u32,
        ..support::limits(LISTINGS as u32 + more as u32)
    };
    let lane = Lane::new(limits, LaneSettings::default(), StillClock, Arc::new(NoObserver)).expect("valid limits");
    for n in 0..LISTINGS {
        submit(&lane, support::register(n));
        submit(&lane, support::presence(n, 1, NOW));
    }
    lane.tick();
    lane
}

fn submit(lane: &StillLane, command: Command) {
    black_box(lane.submit_blocking(command).expect("an accepted command"));
}

/// Submits prepared commands.
fn repeat(lane: &StillLane, commands: Vec<Command>, repetitions: usize) {
    let mut commands = commands.into_iter();
    commands.by_ref().take(repetitions).for_each(|command| submit(lane, command));
    // The rest would be taken down, and that counted.
    std::mem::forget(commands);
}

fn browse(_most: usize, repetitions: usize) {
    let (lane, queries, mut random) = (lane(0), Queries::new(LISTINGS), Random::new(1));
    let mut reader = lane.reader();
    for _ in 0..repetitions {
        queries.with(&mut random, |query| reader.browse(query, touch)).expect("a page");
    }
    std::mem::forget(lane);
}

fn browse_cached(_most: usize, repetitions: usize) {
    let (lane, queries, mut random) = (lane(0), Queries::new(LISTINGS), Random::new(1));
    for _ in 0..repetitions {
        queries.with(&mut random, |query| lane.browse(query, touch)).expect("a page");
    }
    std::mem::forget(lane);
}

/// A whole scope each: 80 rows, of which every second matches.
fn browse_filtered(_most: usize, repetitions: usize) {
    let (lane, queries, mut random, filter) = (lane(0), Queries::new(LISTINGS), Random::new(1), filter(HALF));
    let mut reader = lane.reader();
    for _ in 0..repetitions {
        let page = |query: &BrowseQuery<'_>| {
            reader.browse(&BrowseQuery { after: None, filter: Some(&filter), ..*query }, touch)
        };
        queries.with(&mut random, page).expect("a page");
    }
    std::mem::forget(lane);
}

fn renew(most: usize, repetitions: usize) {
    let lane = lane(0);
    let renewal = |n: u64| support::renew(n * 7 % LISTINGS, 1 + n / LISTINGS);
    repeat(&lane, (0..most as u64).map(renewal).collect(), repetitions);
    std::mem::forget(lane);
}

fn presence(most: usize, repetitions: usize) {
    let lane = lane(0);
    let datagram = |n: u64| support::presence(n * 7 % LISTINGS, 2 + n, NOW);
    repeat(&lane, (0..most as u64).map(datagram).collect(), repetitions);
    std::mem::forget(lane);
}

fn register(most: usize, repetitions: usize) {
    let lane = lane(most);
    repeat(&lane, (0..most as u64).map(|n| support::register(LISTINGS + n)).collect(), repetitions);
    std::mem::forget(lane);
}

fn delete(most: usize, repetitions: usize) {
    let lane = lane(0);
    repeat(&lane, (0..most as u64).map(|n| support::delete(n * 7 % LISTINGS)).collect(), repetitions);
    std::mem::forget(lane);
}

fn revoke(most: usize, repetitions: usize) {
    let lane = lane(most);
    let revocation = |n: u64| {
        let subject = Subject::Listing(support::listing_id(n * 7 % LISTINGS));
        Command::Revoke(Revoke { subject, ttl: support::ttl(3_600_000), once: ReplayKey(n.into()) })
    };
    repeat(&lane, (0..most as u64).map(revocation).collect(), repetitions);
    std::mem::forget(lane);
}

/// Leases that end in one nanosecond, taken out by sweeps of as many as one transition may; their records go with them.
fn sweep(most: usize, repetitions: usize) {
    let dead = (most * SLICE) as u64;
    let lane = lane(dead as usize);
    for n in LISTINGS..LISTINGS + dead {
        let mut command = support::register(n);
        if let Command::Register(register) = &mut command {
            register.ttl = support::ttl(SHORT_MS);
        }
        submit(&lane, command);
    }
    TIME.store(NOW.plus_ms(SHORT_MS).0, Ordering::Relaxed);
    for _ in 0..repetitions {
        submit(&lane, Command::Sweep);
    }
    std::mem::forget(lane);
}

/// What one system call read, asked of the lane at once.
fn together(most: usize, repetitions: usize) {
    let lane = lane(0);
    let number = |n: usize, of: usize| (n * TOGETHER + of) as u64;
    let datagram = |n, of| support::presence(number(n, of) * 7 % LISTINGS, 2 + number(n, of), NOW);
    let mut batches: Vec<Vec<Command>> = (0..most).map(|n| (0..TOGETHER).map(|of| datagram(n, of)).collect()).collect();
    let mut answers = Vec::with_capacity(TOGETHER);
    for batch in batches.iter_mut().take(repetitions) {
        assert!(lane.submit_together(batch, &mut answers), "nobody else is there");
        assert!(black_box(&answers).iter().all(Result::is_ok));
        answers.clear();
    }
    std::mem::forget((lane, batches));
}

fn change(most: usize, repetitions: usize) {
    let lane = lane(0);
    let changes: Vec<Command> = (0..most as u64).map(|n| support::rename(n * 7 % LISTINGS, 1, n)).collect();
    let mut changes = changes.into_iter();
    for command in changes.by_ref().take(repetitions) {
        submit(&lane, command);
        lane.tick();
    }
    assert_eq!(lane.published_commit(), lane.last_commit());
    std::mem::forget((changes, lane));
}

fn datagram(most: usize, repetitions: usize) {
    let mut served = Served::new();
    let hosts: Vec<Host> = (0..HOSTS).map(|n| served.host(n)).collect();
    let datagrams: Vec<Vec<u8>> = (0..most).map(|n| hosts[n % HOSTS].refresh(2 + (n / HOSTS) as u64)).collect();
    for (n, bytes) in datagrams.iter().take(repetitions).enumerate() {
        black_box(answer_of(&mut served, bytes, &hosts[n % HOSTS]).expect("an answer"));
    }
    std::mem::forget((served, hosts, datagrams));
}
