//! The paths whose instructions are counted. Each prepares what it needs for the most repetitions, whatever is asked of
//! it, and then repeats: so that nothing but the repetitions differs between two runs.

use crate::edges::udp::{Host, Served, answer_of};
use crate::support::browsing::{HALF, Queries, filter, touch};
use crate::support::{self, Random};
use rendezvous::clock::Clock;
use rendezvous::domain::{Command, MonoTime, WallTime};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::{BrowseQuery, NoObserver, Store};
use std::hint::black_box;
use std::sync::Arc;

/// Listings at the start; enough for trees of several levels in the table of scopes and short to prepare.
const LISTINGS: u64 = 4_000;
/// Hosts that take turns in sending datagrams.
const HOSTS: usize = 200;

/// One path.
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// Of the shorter of the two runs.
    pub(crate) repetitions: usize,
    /// Prepares for so many, repeats so often.
    pub(crate) run: fn(usize, usize),
}

pub(crate) const PATHS: [Path; 9] = [
    Path { name: "browse a page of 50", repetitions: 4_000, run: browse },
    Path { name: "browse through the thread's cache", repetitions: 4_000, run: browse_cached },
    Path { name: "browse 80 rows with a filter", repetitions: 400, run: browse_filtered },
    Path { name: "renew", repetitions: 2_000, run: renew },
    Path { name: "presence", repetitions: 2_000, run: presence },
    Path { name: "register", repetitions: 1_000, run: register },
    Path { name: "delete, published", repetitions: 500, run: delete },
    Path { name: "change details, tick, published", repetitions: 500, run: change },
    Path { name: "answer a presence datagram", repetitions: 1_000, run: datagram },
];

/// A clock that stands: under valgrind a real one would run ahead of the work, and ends and ticks would come in between.
struct StillClock;

const NOW: MonoTime = MonoTime(1_000_000_000);

impl Clock for StillClock {
    fn mono(&self) -> MonoTime {
        NOW
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000)
    }
}

type StillLane = Lane<StillClock>;

/// A lane with room for `more` listings.
fn lane(more: usize) -> StillLane {
    let limits = support::limits(LISTINGS as u32 + more as u32);
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
