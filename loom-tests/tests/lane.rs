//! What callers may rely on: every command is served once, in its caller's order, and everybody is answered.
#![cfg(loom)]
#![allow(missing_docs, clippy::wildcard_enum_match_arm)]

use loom::thread;
use loom_tests::{ModelClock, done, explore, lane, presence, proof, register, renew, status};
use rendezvous::domain::{Certainty, Command, Failure, Outcome, Query, Rejection};
use rendezvous::store::Store;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

const A: &str = "a";

/// Nothing submitted is lost or doubled: two callers race for the lane, both are answered, and both effects are there
/// once. Fails when `Gate::leave` stores `IDLE` instead of comparing first: the queued caller is never served, and
/// the model deadlocks.
#[test]
fn nothing_is_lost() {
    explore("nothing_is_lost", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let other = {
            let lane = lane.clone();
            thread::spawn(move || done(lane.submit_blocking(register(1, A))).commit)
        };
        let mine = done(lane.submit_blocking(register(2, A))).commit;
        let theirs = other.join().unwrap();
        assert_ne!(mine, theirs, "two transitions with one number");
        assert_eq!(status(&lane).listings.live, 2);
    });
}

/// With three callers a ticket may be served by a holder that is serving another: all are answered, none twice.
/// Fails when `Gate::leave` stores `IDLE` instead of comparing first: a ticket behind the holder's last look stays.
#[test]
fn three_callers_are_all_served() {
    explore("three_callers_are_all_served", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let callers: Vec<_> = (1..=2)
            .map(|n| {
                let lane = lane.clone();
                thread::spawn(move || done(lane.submit_blocking(register(n, A))).commit)
            })
            .collect();
        let mut commits = vec![done(lane.submit_blocking(register(3, A))).commit];
        commits.extend(callers.into_iter().map(|caller| caller.join().unwrap()));
        commits.sort_unstable();
        assert_eq!(commits, [1, 2, 3]);
    });
}

/// A holder that has done its share hands the lane over to somebody who waits, and everybody is answered all the same.
/// Under the model a holder serves one command for others. Fails when `Lane::serve` does not wake its successor.
#[test]
fn a_handed_over_lane_is_taken() {
    explore("a_handed_over_lane_is_taken", 2, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let callers: Vec<_> = (1..=3)
            .map(|n| {
                let lane = lane.clone();
                thread::spawn(move || done(lane.submit_blocking(register(n, A))).commit)
            })
            .collect();
        let mut commits: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        commits.sort_unstable();
        assert_eq!(commits, [1, 2, 3]);
    });
}

/// Each caller's commands happen in its order: a renewal after a registration never finds it absent.
/// Fails when `Submit` answers before its ticket was served, or when a holder leaves after one failed `Gate::leave`.
#[test]
fn a_callers_order_is_kept() {
    explore("a_callers_order_is_kept", 4, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let other = {
            let lane = lane.clone();
            thread::spawn(move || {
                done(lane.submit_blocking(register(1, A)));
                done(lane.submit_blocking(renew(1, A, 1, 60_000))).commit
            })
        };
        done(lane.submit_blocking(register(2, A)));
        let renewed = done(lane.submit_blocking(renew(2, A, 1, 60_000))).outcome;
        assert!(matches!(renewed, Outcome::Renewed(renewed) if renewed.version == 2));
        other.join().unwrap();
    });
}

/// Drain answers everybody: a racing registration either happened before it or is told `draining`.
/// Fails when `Machine::begin_drain` does not ask for a publication before its acknowledgement.
#[test]
fn drain_answers_everybody() {
    explore("drain_answers_everybody", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let other = {
            let lane = lane.clone();
            thread::spawn(move || lane.submit_blocking(register(1, A)))
        };
        done(lane.submit_blocking(Command::Drain { window_ms: 10_000 }));
        let draining = matches!(lane.availability(), rendezvous::store::Availability::Draining { .. });
        assert!(draining, "drain was acknowledged before it was published");
        let expected = match other.join().unwrap() {
            Ok(_) => 1,
            Err(Failure::Rejected(Rejection::Draining { .. })) => 0,
            Err(other) => panic!("neither done nor draining: {other:?}"),
        };
        assert_eq!(status(&lane).listings.live, expected);
    });
}

/// J1: a panic inside the lane answers everybody: the one that ran may have happened, the queued ones did not.
/// Fails when `Lane::batch` leaves the tickets of a dead lane unanswered.
#[test]
fn death_answers_everybody() {
    loom_tests::silence_the_bomb();
    explore("death_answers_everybody", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        clock.arm();
        let other = {
            let lane = lane.clone();
            thread::spawn(move || lane.submit_blocking(register(1, A)))
        };
        let mine = lane.submit_blocking(register(2, A));
        let theirs = other.join().unwrap();
        let unavailable = |answer: &Result<_, Failure>| matches!(answer, Err(Failure::Unavailable(_)));
        assert!(unavailable(&mine) && unavailable(&theirs), "{mine:?} {theirs:?}");
        let unknown = Err(Failure::Unavailable(Certainty::Unknown));
        assert!(mine == unknown || theirs == unknown, "nobody was told that the outcome is unknown");
    });
}

/// K1: a command whose caller went away before it started never happens; one that had started happened whole.
/// Fails when `Ticket::cancel` leaves the command in place: it is then served after its caller has looked.
#[test]
fn a_cancelled_command_happens_not_or_whole() {
    explore("a_cancelled_command_happens_not_or_whole", 4, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let other = {
            let lane = lane.clone();
            thread::spawn(move || {
                done(lane.submit_blocking(register(1, A)));
                done(lane.submit_blocking(presence(1, A)));
            })
        };
        let answered = {
            let mut submitted = pin!(lane.submit(register(2, A)));
            submitted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let happened = is_registered(&lane, 2);
        assert!(happened || !answered, "an answered registration is absent");
        other.join().unwrap();
        lane.tick();
        assert_eq!(is_registered(&lane, 2), happened, "a cancelled command was served later");
        assert_eq!(lane.queued(), (0, 0));
    });
}

fn is_registered(lane: &loom_tests::ModelLane, n: u64) -> bool {
    lane.submit_blocking(Command::Query(Query::Lease(proof(n, A)))).is_ok()
}
