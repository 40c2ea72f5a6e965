//! What only a lane has: queues, two classes of admission, waiting callers, and readers beside a standing writer.

use crate::support::*;
use rendezvous::domain::*;
use rendezvous::store::lane::Lane;
use rendezvous::store::{BrowseQuery, Store};
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

type Laned = World<Lane<ManualClock>>;

fn shaped(creations: usize, keep_alives: usize) -> Laned {
    let shape = LaneShape { creations, keep_alives, ..LaneShape::default() };
    Laned::shaped(shape, |_| {})
}

/// The command has to wait; the future is handed back.
macro_rules! waits {
    ($world:expr, $command:expr) => {
        match poll_once($world.store.submit($command)) {
            Polled::Pending(future) => future,
            Polled::Ready(result) => panic!("{result:?} at once"),
        }
    };
}

macro_rules! at_once {
    ($world:expr, $command:expr) => {
        match poll_once($world.store.submit($command)) {
            Polled::Ready(result) => result,
            Polled::Pending(_) => panic!("the command waits"),
        }
    };
}

#[test]
fn rule_d4_a_full_queue_of_creations_keeps_no_keep_alive_out() {
    let world = shaped(5, 3);
    let (victim, hosts) = (world.host(1), [world.host(2), world.host(3), world.host(4)]);
    let (creations, keep_alives) = world.while_held(&victim, || {
        let open = || Command::Register(Box::new(world.register(9)));
        let creations: Vec<_> = (0..5).map(|_| waits!(world, open())).collect();
        assert_eq!(at_once!(world, open()), Err(Failure::Overloaded), "the creations' queue is full");
        let join = Command::CreateAttempt(Box::new(world.attempt(&hosts[0], 50)));
        assert_eq!(at_once!(world, join), Err(Failure::Overloaded), "both creations share it");
        let keep_alives: Vec<_> = hosts.iter().map(|host| waits!(world, Command::Renew(host.renew(1)))).collect();
        let beat = presence(&hosts[0], v4(1, 4_000), world.number(), world.now());
        assert_eq!(at_once!(world, Command::Presence(beat)), Err(Failure::Overloaded), "and theirs is full");
        assert_eq!(world.store.queued(), (5, 3));
        (creations, keep_alives)
    });
    let renewed = keep_alives.into_iter().map(block_on).map(|result| result.expect("renewed").commit);
    let renewed: Vec<u64> = renewed.collect();
    let opened: Vec<u64> =
        creations.into_iter().map(block_on).map(|result| result.expect("registered").commit).collect();
    assert!(renewed.iter().max() < opened.iter().min(), "keep-alives first: {renewed:?} {opened:?}");
    assert!(renewed.is_sorted() && opened.is_sorted(), "each class in its order");
    assert_eq!(world.store.queued(), (0, 0));
    assert_eq!(world.reply(Command::Register(Box::new(world.register(9)))).commit, *opened.last().unwrap() + 1);
}

#[test]
fn rule_d4_creations_still_progress_under_a_flood_of_keep_alives() {
    let world = Laned::new();
    let (victim, host) = (world.host(1), world.host(2));
    let (creations, flood) = world.while_held(&victim, || {
        let beats = (0..400).map(|_| {
            let beat = presence(&host, v4(1, 4_000), world.number(), world.now());
            waits!(world, Command::Presence(beat))
        });
        let flood: Vec<_> = beats.collect();
        let open = || Command::Register(Box::new(world.register(9)));
        let creations: Vec<_> = (0..10).map(|_| waits!(world, open())).collect();
        (creations, flood)
    });
    let last_beat = flood.into_iter().map(|beat| block_on(beat).expect("present").commit).max();
    let opened: Vec<u64> = creations.into_iter().map(|open| block_on(open).expect("registered").commit).collect();
    assert!(opened.iter().max() < last_beat.as_ref(), "all ten before the flood is over: {opened:?} {last_beat:?}");
}

/// More than one holder's share waits: the holder leaves, the rest stays queued, and whoever waits for it serves it.
fn handed_over(world: &Laned) -> Vec<impl Future<Output = Result<Reply, Failure>>> {
    const MORE_THAN_A_SHARE: usize = 1_500;
    let victim = world.host(1);
    let flood = world.while_held(&victim, || {
        (0..MORE_THAN_A_SHARE).map(|_| waits!(world, Command::Query(Query::Status))).collect::<Vec<_>>()
    });
    let (_, left) = world.store.queued();
    assert!((1..MORE_THAN_A_SHARE).contains(&left), "{left} are left by a holder that served its share");
    flood
}

#[test]
fn rule_d4_a_holder_hands_over_after_its_share() {
    let world = shaped(16, 2_048);
    let flood = handed_over(&world);
    flood.into_iter().for_each(|waiting| {
        block_on(waiting).expect("served by one of those who wait");
    });
    assert_eq!(world.store.queued(), (0, 0));
}

#[test]
fn rule_d4_a_lane_that_was_handed_over_serves_the_next_who_comes() {
    let world = shaped(16, 2_048);
    let flood = handed_over(&world);
    let newcomer = world.host(3);
    assert_eq!(world.store.queued(), (0, 0), "whoever enters serves what was left");
    flood.into_iter().for_each(drop);
    assert_eq!(world.ok(newcomer.delete()), Outcome::Deleted);
}

#[test]
fn rule_d4_a_lane_that_was_handed_over_to_callers_who_go_away_is_taken() {
    let world = shaped(16, 2_048);
    handed_over(&world).into_iter().for_each(drop);
    assert_eq!(world.store.queued(), (0, 0), "who goes away last leaves nothing behind");
}

#[test]
fn a_queued_caller_is_woken_by_its_answer() {
    let world = Laned::new();
    let (victim, host) = (world.host(1), world.host(2));
    let (pending, waits) = channel();
    let renewed = thread::scope(|threads| {
        let caller = world.while_held(&victim, || {
            let renewal = world.store.submit(Command::Renew(host.renew(1)));
            let caller = threads.spawn(|| block_on(telling(Box::pin(renewal), pending)));
            waits.recv().expect("it waits");
            caller
        });
        caller.join().expect("it is woken")
    });
    assert!(renewed.is_ok(), "{renewed:?}");
}

#[test]
fn rule_k1_a_queued_command_is_cancelled_by_dropping_it() {
    let world = Laned::new();
    let (victim, host) = (world.host(1), world.host(2));
    let before = world.store.last_commit();
    let kept = world.while_held(&victim, || {
        let cancelled = [
            waits!(world, host.delete()),
            waits!(world, Command::Register(Box::new(world.register(9)))),
            waits!(world, revoke(Subject::Listing(host.id), 5_000, 1)),
        ];
        let kept = waits!(world, Command::Renew(host.renew(1)));
        drop(cancelled);
        kept
    });
    let renewed = block_on(kept).expect("renewed");
    assert_eq!(renewed.commit, before + 2, "the held deletion and the renewal, nothing else");
    let status = world.status();
    assert_eq!((status.listings.live, status.revocations.live, status.replay.live), (1, 0, 0));
}

#[test]
fn rule_k1_a_started_transition_completes() {
    let world = Laned::new();
    let (host, other) = (world.host(1), world.host(2));
    // The queued deletion is started by the holder and stops inside; its caller goes away meanwhile.
    let started = thread::scope(|threads| {
        let first = world.observer.hold_next();
        let holder = threads.spawn(|| world.ok(other.delete()));
        first.wait_entered();
        let queued = waits!(world, host.delete());
        let second = world.observer.hold_next();
        first.release();
        second.wait_entered();
        drop(queued);
        second.release();
        holder.join().expect("the holder completes")
    });
    assert_eq!(started, Outcome::Deleted);
    assert_eq!(world.rejected(host.lease_query()), Rejection::NotFound);
    assert_eq!(world.ok(host.delete()), Outcome::Deleted, "it was carried out");
}

#[test]
fn rule_s8_a_standing_writer_delays_no_reader() {
    let world = Laned::new();
    let (victim, host) = (world.host(1), world.host(2));
    world.store.tick();
    world.while_held(&victim, || {
        assert_eq!(world.browsed(), [host.id], "what is being taken away is not shown any more");
        assert!(world.found(&host) && !world.found(&victim));
        assert!(world.store.published_commit() <= world.store.last_commit() + 1);
        world.clock.advance_ms(60_000);
        assert!(world.browsed().is_empty(), "and the clock goes on");
        let other_reader = thread::scope(|threads| threads.spawn(|| world.browsed()).join());
        assert_eq!(other_reader.expect("it reads"), []);
    });
}

#[test]
fn rule_a1_the_stamp_is_taken_inside_the_lane() {
    let world = Laned::new();
    let (victim, host) = (world.host(1), world.host(2));
    let waiting = world.while_held(&victim, || {
        let renewal = waits!(world, Command::Renew(host.renew(1)));
        world.clock.advance_ms(60_000);
        renewal
    });
    assert_eq!(block_on(waiting), Err(Rejection::NotFound.into()), "it died while the renewal was queued");
}

#[test]
fn rule_j1_what_was_queued_gets_a_prompt_answer() {
    let world = Laned::new();
    let (victim, hosts) = (world.host(1), [world.host(2), world.host(3), world.host(4)]);
    let queued = world.while_held(&victim, || {
        let queued: Vec<_> = hosts.iter().map(|host| waits!(world, Command::Renew(host.renew(1)))).collect();
        world.clock.panic_next();
        queued
    });
    for answer in queued.into_iter().map(block_on) {
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    }
    let after = world.submit(Command::Sweep);
    assert_eq!(after, Err(Failure::Unavailable(Certainty::NotApplied)));
}

#[test]
fn rule_j1_whoever_waits_for_a_publication_is_woken_when_the_store_dies() {
    let world = Laned::new();
    let host = world.host(1);
    let Polled::Pending(waiting) = poll_once(world.store.published(1_000)) else { panic!("nothing is published yet") };
    let (pending, waits) = channel();
    thread::scope(|threads| {
        let waiter = threads.spawn(|| block_on(telling(waiting, pending)));
        waits.recv().expect("it waits");
        world.clock.panic_next();
        assert!(world.submit(Command::Renew(host.renew(1))).is_err());
        waiter.join().expect("it is woken");
    });
}

#[test]
fn rule_s5_additions_wait_for_the_tick_and_wake_who_waits_for_them() {
    let world = Laned::new();
    let host = world.host(1);
    assert!(world.browsed().is_empty(), "not published by its own transition");
    let commit = world.store.last_commit();
    let Polled::Pending(waiting) = poll_once(world.store.published(commit)) else { panic!("not published yet") };
    let (pending, waits) = channel();
    thread::scope(|threads| {
        let waiter = threads.spawn(|| {
            block_on(telling(waiting, pending));
            world.browsed()
        });
        waits.recv().expect("it waits");
        world.store.tick();
        assert_eq!(waiter.join().expect("it is woken"), [host.id]);
    });
    let Polled::Pending(later) = poll_once(world.store.published(commit + 1)) else { panic!("not committed yet") };
    drop(later);
}

#[test]
fn rule_s5_a_tick_while_the_lane_is_busy_is_not_lost() {
    let world = Laned::new();
    let victim = world.host(1);
    let host = world.host(2);
    let (ticked, commit) = world.while_held(&victim, || {
        let beat = presence(&host, v4(1, 4_001), world.number(), world.now());
        let waiting = waits!(world, Command::Presence(beat));
        world.store.tick();
        (waiting, world.store.last_commit())
    });
    assert!(block_on(ticked).is_ok());
    assert!(world.store.published_commit() > commit, "the holder published on the way out");
    assert_eq!(world.browsed(), [host.id]);
}

#[test]
fn case_i5_a_mismatch_is_told_although_the_first_request_waits() {
    let world = Laned::new();
    let victim = world.host(1);
    let opening = world.register(2);
    let (first, same, other) = world.while_held(&victim, || {
        let first = waits!(world, Command::Register(Box::new(opening.clone())));
        let same = waits!(world, Command::Register(Box::new(opening.clone())));
        let idempotency = Idempotency { fingerprint: Fingerprint(1), ..opening.idempotency };
        let other = Register { idempotency, ..opening.clone() };
        (first, same, waits!(world, Command::Register(Box::new(other))))
    });
    let replayed = |result: Result<Reply, Failure>| match result.map(|reply| reply.outcome) {
        Ok(Outcome::Registered(registered)) => registered.replayed,
        other => panic!("{other:?}"),
    };
    assert_eq!((replayed(block_on(first)), replayed(block_on(same))), (false, true));
    assert_eq!(block_on(other), Err(Rejection::IdempotencyMismatch.into()));
}

/// A command that waits for its answer.
type Waiting = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send>>;

/// Submits the next command from inside the holder whenever one is answered, so that the queue never runs empty.
struct Relay {
    world: &'static Laned,
    host: Host,
    /// What makes a publication due, done at the first answer.
    due: fn(&Laned),
    /// The published commit at each answer.
    seen: Mutex<Vec<u64>>,
    waiting: Mutex<Vec<Waiting>>,
}

const RELAYED: usize = 8;

impl Relay {
    fn submit(self: &Arc<Self>) {
        let beat = presence(&self.host, v4(1, 4_001), self.world.number(), self.world.now());
        let mut submitted = Box::pin(self.world.store.submit(Command::Presence(beat)));
        let waker = Waker::from(self.clone());
        assert!(submitted.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "the lane is held");
        self.waiting.lock().unwrap().push(submitted);
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let turns = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(self.world.store.published_commit());
            seen.len()
        };
        if turns == 1 {
            (self.due)(self.world);
        }
        if turns < RELAYED {
            self.submit();
        }
    }
}

#[test]
fn rule_s5_publication_keeps_its_interval_while_the_queues_never_run_empty() {
    let somebody_ticks: fn(&Laned) = |world| world.store.tick();
    // As when the thread that ticks is itself the holder: nobody is left to tick.
    let time_passes: fn(&Laned) = |world| world.clock.advance_ms(20);
    for due in [somebody_ticks, time_passes] {
        let world: &'static Laned = Box::leak(Box::new(Laned::new()));
        let (victim, host) = (world.host(1), world.host(2));
        let relay = Arc::new(Relay { world, host, due, seen: Mutex::default(), waiting: Mutex::default() });
        world.while_held(&victim, || relay.submit());
        let seen = relay.seen.lock().unwrap();
        assert_eq!(seen.len(), RELAYED, "one holder served them all");
        assert!(seen[3] > seen[0], "published between two batches: {seen:?}");
    }
}

/// Looks at both commits at the moment of a publication.
struct Look {
    world: &'static Laned,
    seen: Mutex<Option<(u64, u64)>>,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        let published = self.world.store.published_commit();
        *self.seen.lock().unwrap() = Some((published, self.world.store.last_commit()));
    }
}

#[test]
fn rule_s5_what_browsing_has_seen_is_never_above_the_last_commit() {
    let world: &'static Laned = Box::leak(Box::new(Laned::new()));
    let host = world.host(1);
    let next = world.store.last_commit() + 1;
    let look = Arc::new(Look { world, seen: Mutex::default() });
    let waker = Waker::from(look.clone());
    let mut waiting = Box::pin(world.store.published(next));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    world.ok(host.delete());
    assert_eq!(*look.seen.lock().unwrap(), Some((next, next)), "a browser may name the commit that it saw");
}

#[test]
fn rule_j1_a_reader_of_its_own_is_told_that_the_store_died() {
    let world = Laned::new();
    let (host, now) = (world.host(1), world.now());
    let mut reader = world.store.reader();
    world.clock.panic_next();
    assert!(world.submit(Command::Renew(host.renew(1))).is_err());
    let query = BrowseQuery { tenant: TENANT, protocol: PROTOCOL, after: None, limit: 1, filter: None };
    let dead = Some(Failure::Unavailable(Certainty::NotApplied));
    assert_eq!(reader.browse(&query, |_| ()).err(), dead);
    assert_eq!(reader.browse_at(now, &query, |_| ()).err(), dead);
}
