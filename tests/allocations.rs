//! Allocations of a command in the steady state, counted per thread through the `Store` trait on both stores.
//!
//! The counting allocator of this test binary counts what the calling thread asks for, so that a test beside it, or the
//! harness, changes nothing. Every command is built before it is counted; what its caller allocates is not the store's.
#![allow(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test, whatever it is called")]

#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
mod support;

use rendezvous::domain::*;
use rendezvous::store::lane::Lane;
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{BrowseQuery, Store, TOGETHER_MAX};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use support::*;

type Baseline = SingleLock<ManualClock>;
type Variant = Lane<ManualClock>;

/// Commands of each kind, after which collections have the room that they need.
const WARM_UP: u32 = 64;
const COUNTED: u32 = 256;
/// What one command of a kind that makes, changes or ends something allocates at most: in the baseline, in the lane.
type Most = (&'static str, u64, u64);
/// In the baseline: what the record keeps behind a pointer, and room that a table and an index need now and then. In the
/// lane also the chunk that is copied and the path of nodes above it, and for what is taken away the published root.
const MOST: [Most; 9] = [
    ("register", 4, 6),
    ("delete", 1, 16),
    ("change details", 1, 6),
    ("revoke a listing", 8, 18),
    ("create an attempt", 7, 7),
    ("bind", 0, 0),
    ("bind and consume", 4, 4),
    ("consume", 3, 3),
    ("close", 1, 1),
];

/// Submits without an executor of its own: nobody else is at the store, so the first poll answers.
fn submit<S: Store>(store: &S, command: Command) -> Outcome {
    let mut future = pin!(store.submit(command));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(reply)) => reply.outcome,
        other => panic!("an accepted command, not {other:?}"),
    }
}

/// Debug builds check all indexes after each transition of a small store, and allocate for it; this one is past that.
fn crowded<B: Backend>() -> World<B> {
    let world = World::<B>::new();
    (0..100).for_each(|owner| {
        world.host(10_000 + owner);
    });
    world.store.tick();
    world
}

/// The most allocations that one of many commands made.
fn most<B: Backend>(world: &World<B>, mut next: impl FnMut(u32) -> Command) -> u64 {
    let mut most = 0;
    // What the tests' own observer remembers is not the store's.
    world.observer.reserve(2 * (WARM_UP + COUNTED) as usize);
    for n in 0..WARM_UP + COUNTED {
        let command = next(n);
        let counted = allocation_counter::measure(|| drop(submit(&world.store, command)));
        if n >= WARM_UP {
            most = most.max(counted.count_total);
        }
    }
    most
}

fn renewals<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    world.store.tick();
    most(&world, |n| Command::Renew(host.renew(u64::from(n) + 1)))
}

fn presences<B: Backend>(joiners: u64) -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    // Each that waits is offered to the host.
    (0..joiners).for_each(|joiner| {
        world.joins(&host, 9 + joiner);
    });
    world.store.tick();
    most(&world, |n| Command::Presence(presence(&host, v4(1, 4_000), 1_000 + u64::from(n), world.now())))
}

fn repeated_presences<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    world.store.tick();
    let datagram = presence(&host, v4(1, 4_000), 1_000, world.now());
    most(&world, |_| Command::Presence(datagram))
}

fn lease_queries<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    most(&world, |_| host.lease_query())
}

fn sweeps<B: Backend>() -> u64 {
    let world = crowded::<B>();
    world.host(1);
    most(&world, |_| Command::Sweep)
}

fn registrations<B: Backend>() -> u64 {
    let world = crowded::<B>();
    most(&world, |n| Command::Register(Box::new(world.register(1_000 + u64::from(n)))))
}

fn deletions<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let hosts: Vec<Host> = (0..WARM_UP + COUNTED).map(|n| world.host(1_000 + u64::from(n))).collect();
    world.store.tick();
    most(&world, |n| hosts[n as usize].delete())
}

fn changes<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    world.store.tick();
    most(&world, |n| {
        let details = Some(Box::new(details(&format!("name {n}"))));
        Command::Renew(Renew { details, ..host.renew(u64::from(n) + 1) })
    })
}

fn revocations<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let hosts: Vec<Host> = (0..WARM_UP + COUNTED).map(|n| world.host(1_000 + u64::from(n))).collect();
    world.store.tick();
    most(&world, |n| revoke(Subject::Listing(hosts[n as usize].id), 60_000, n.into()))
}

/// Attempts on one host, each of a joiner of its own.
fn attempts<B: Backend>() -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    most(&world, |n| Command::CreateAttempt(Box::new(world.attempt(&host, 1_000 + u64::from(n)))))
}

/// Attempts that `prepared` has brought so far that `next` makes the last step.
fn steps<B: Backend>(prepared: impl Fn(&World<B>, &Try), next: impl Fn(&Try, MonoTime) -> Command) -> u64 {
    let world = crowded::<B>();
    let host = world.host(1);
    let attempts: Vec<Try> = (0..WARM_UP + COUNTED).map(|n| world.joins(&host, 1_000 + u64::from(n))).collect();
    attempts.iter().for_each(|attempt| prepared(&world, attempt));
    most(&world, |n| next(&attempts[n as usize], world.now()))
}

fn dear<B: Backend>() -> [u64; MOST.len()] {
    let bind = |attempt: &Try, now| attempt.bind(Role::Joiner, v4(2, 5_000), now);
    let host_is_bound = |world: &World<B>, attempt: &Try| drop(world.bind(attempt, Role::Host, v4(1, 4_000)));
    [
        registrations::<B>(),
        deletions::<B>(),
        changes::<B>(),
        revocations::<B>(),
        attempts::<B>(),
        steps::<B>(|_, _| {}, |attempt, now| Command::Bind(bind(attempt, now))),
        steps::<B>(host_is_bound, |attempt, now| Command::BindAndConsume(bind(attempt, now))),
        steps::<B>(World::<B>::bind_both, |attempt, _| attempt.consume()),
        steps::<B>(|_, _| {}, |attempt, _| attempt.close(attempt.joiner)),
    ]
}

/// What is dear is bounded in both stores, kind by kind.
#[test]
fn what_makes_changes_and_ends_allocates_little() {
    let (baseline, lane) = (dear::<Baseline>(), dear::<Variant>());
    let kinds = MOST.iter().zip(baseline).zip(lane);
    let figures: Vec<String> = kinds.clone().map(|((most, one), other)| format!("{} {one} {other}", most.0)).collect();
    say(format_args!("most allocations of one command, baseline and lane: {}", figures.join(", ")));
    for (((kind, baseline_most, lane_most), baseline), lane) in kinds {
        assert!(baseline <= *baseline_most, "{kind}: {baseline} in the baseline");
        assert!(lane <= *lane_most, "{kind}: {lane} in the lane");
    }
}

/// Commands that are submitted together cost their answers, for which their caller has room.
#[test]
fn a_batch_of_one_caller_allocates_nothing() {
    let world = crowded::<Variant>();
    let host = world.host(1);
    world.store.tick();
    let (mut commands, mut answers) = (Vec::with_capacity(TOGETHER_MAX), Vec::with_capacity(TOGETHER_MAX));
    for round in 0..8_u64 {
        let number = |n: usize| 1_000 + round * 100 + n as u64;
        let datagram = |n: usize| Command::Presence(presence(&host, v4(1, 4_000), number(n), world.now()));
        commands.extend((0..TOGETHER_MAX).map(datagram));
        let counted = allocation_counter::measure(|| assert!(world.store.submit_together(&mut commands, &mut answers)));
        assert!(answers.drain(..).filter(Result::is_ok).count() == TOGETHER_MAX);
        assert_eq!(counted.count_total, 0, "round {round}");
    }
}

/// Keep-alives that wait for the lane at once, half as many as it keeps tickets for.
const QUEUED: usize = 32;

/// What the observer's channel allocates where the holder has to wait in it.
const STOPPED: u64 = 2;

/// Queues a renewal for each host while the lane is held by a deletion, and looks at the answers. Allocations of those who
/// wait, and of the one that deletes and serves them.
fn contended(world: &World<Variant>, hosts: &[Host], version: u64) -> (u64, u64) {
    let victim = world.host(5_000 + version);
    world.store.tick();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> =
        hosts.iter().map(|host| Box::pin(world.store.submit(Command::Renew(host.renew(version))))).collect();
    thread::scope(|threads| {
        let held = world.observer.hold_next();
        let holder = threads.spawn(|| allocation_counter::measure(|| drop(submit(&world.store, victim.delete()))));
        held.wait_entered();
        let queueing = allocation_counter::measure(|| {
            assert!(waiting.iter_mut().all(|renewal| renewal.as_mut().poll(&mut context).is_pending()));
        });
        assert_eq!(world.store.queued(), (0, hosts.len()));
        held.release();
        let serving = holder.join().expect("the holder");
        let answering = allocation_counter::measure(|| {
            assert!(
                waiting.iter_mut().all(|renewal| matches!(renewal.as_mut().poll(&mut context), Poll::Ready(Ok(_))))
            );
        });
        (queueing.count_total + answering.count_total, serving.count_total)
    })
}

/// A queued command lies in a ticket that is used again: after the first round neither who waits nor who serves allocates
/// for it. What the holder allocates is its own deletion's, the same with nobody behind it.
#[test]
fn a_contended_lane_allocates_nothing_per_command() {
    let world = crowded::<Variant>();
    world.observer.reserve(1_000);
    let hosts: Vec<Host> = (0..QUEUED as u64).map(|owner| world.host(owner)).collect();
    let (first, _) = contended(&world, &hosts, 1);
    assert!(first > 0, "the first tickets are made");
    for version in 2..6 {
        let (_, alone) = contended(&world, &[], version);
        let (waiting, serving) = contended(&world, &hosts, version);
        assert_eq!(waiting, 0, "those who wait");
        assert!(serving <= alone + STOPPED, "{serving} by the holder, {alone} where nobody waits");
    }
}

#[test]
fn the_baseline_keeps_alive_without_allocating() {
    assert_eq!(renewals::<Baseline>(), 0, "renewals");
    assert_eq!(presences::<Baseline>(0), 0, "presence");
    assert_eq!(presences::<Baseline>(3), 1, "presence whose answer offers attempts");
    assert_eq!(repeated_presences::<Baseline>(), 0, "an identical datagram");
    assert_eq!(sweeps::<Baseline>(), 0, "an idle sweep");
    assert_eq!(lease_queries::<Baseline>(), 1, "the list of endpoints in the answer");
}

/// A command lies in its future, and the writer's buffers are kept: an idle lane allocates no more than the baseline.
#[test]
fn the_lane_keeps_alive_without_allocating() {
    assert_eq!(renewals::<Variant>(), 0, "renewals");
    assert_eq!(presences::<Variant>(0), 0, "presence");
    assert_eq!(presences::<Variant>(3), 1, "presence whose answer offers attempts");
    assert_eq!(repeated_presences::<Variant>(), 0, "an identical datagram");
    assert_eq!(sweeps::<Variant>(), 0, "an idle sweep");
    assert_eq!(lease_queries::<Variant>(), 1, "the list of endpoints in the answer");
}

#[test]
fn bar_p2_browsing_the_lane_allocates_nothing() {
    let world = World::<Variant>::new();
    (0..200).for_each(|owner| {
        world.host(owner);
    });
    world.store.tick();
    let query = BrowseQuery { tenant: TenantId(0), protocol: PROTOCOL, after: None, limit: 50, filter: None };
    let browse = || world.store.browse(&query, |page| page.rows_len()).expect("a page");
    // The first one makes this thread's cache.
    assert!(browse() > 0);
    let counted = allocation_counter::measure(|| assert!((0..100).all(|_| browse() > 0)));
    assert_eq!(counted.count_total, 0);
}

/// Bar P9 allows memory to hold still under churn, not to grow: bytes in use after churn over those when filled.
const CHURNED_MAX: f64 = 1.15;
/// What the second half of the churn may add to that of the first.
const STILL: f64 = 1.02;

/// Replaces every fourth listing, twelve times. Bytes in use after each round over those when filled: what an allocator
/// keeps beside them for later is not the store's.
fn churned<B: Backend>() -> Vec<f64> {
    const LISTINGS: u64 = 400;
    const EVERY: u64 = 4;
    let retention_ms = 60_000;
    let world = World::<B>::with(|limits| {
        limits.lease_ttl.max_ms = retention_ms;
        limits.idempotency_retention_ms = retention_ms;
    });
    let mut hosts: Vec<(Host, u64)> = Vec::with_capacity(LISTINGS as usize);
    let (mut next, mut used) = (0, 0);
    let mut fresh = || {
        next += 1;
        (world.host(next), 1)
    };
    let filling = allocation_counter::measure(|| {
        hosts.extend((0..LISTINGS).map(|_| fresh()));
        world.store.tick();
        drop(world.observer.take());
    });
    used += filling.bytes_current;
    let mut rounds = Vec::new();
    for round in 0..3 * EVERY {
        let churning = allocation_counter::measure(|| {
            for place in (round % EVERY..LISTINGS).step_by(EVERY as usize) {
                let host = &mut hosts[place as usize];
                submit(&world.store, host.0.delete());
                *host = fresh();
            }
            // The records of what was deleted run out; everything else is kept alive.
            for _ in 0..2 {
                world.clock.advance_ms(u64::from(retention_ms) * 2 / 3);
                for (host, version) in &mut hosts {
                    submit(&world.store, Command::Renew(host.renew(*version)));
                    *version += 1;
                    world.present(host, v4(1, 4_000));
                }
            }
            (0..64).for_each(|_| world.store.tick());
            drop(world.observer.take());
        });
        used += churning.bytes_current;
        rounds.push(used as f64 / filling.bytes_current as f64);
    }
    rounds
}

#[test]
fn bar_p9_bytes_in_use_hold_still_under_churn() {
    for (store, rounds) in [("baseline", churned::<Baseline>()), ("lane", churned::<Variant>())] {
        assert!(rounds.iter().all(|ratio| *ratio <= CHURNED_MAX), "{store}: {rounds:.3?}");
        // Nodes of ordered indexes settle at two thirds full; what leaks would go on.
        let (middle, last) = (rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
        assert!(last <= middle * STILL, "{store}: {rounds:.3?}");
    }
}
