//! Tickets that are used again: whoever gets one has it alone, gets its own answer, and sees what the answer says.
#![cfg(loom)]
#![allow(missing_docs, clippy::wildcard_enum_match_arm)]

use loom::thread;
use loom_tests::{ModelClock, ModelLane, browse, delete, done, explore, id, lane, register, renew, show, status};
use rendezvous::domain::{Failure, Outcome};
use rendezvous::store::Store;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

const A: &str = "a";

/// Callers whose tickets go back to the same pool: each answer belongs to the command that was asked, and none is lost.
/// Fails when `Tickets::take` leaves a kept ticket's old state in place, or when `Submit::look_at` gives a ticket back that
/// is not answered yet and `Tickets::take` does not ask who still holds it.
#[test]
fn tickets_change_hands() {
    explore("tickets_change_hands", 2, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let second = registers_and_renews_elsewhere(&lane, 2);
        let third = {
            let lane = lane.clone();
            thread::spawn(move || registers(&lane, 3))
        };
        registers_and_renews(&lane, 1);
        second.join().unwrap();
        third.join().unwrap();
        assert_eq!(status(&lane).listings.live, 3);
        assert_eq!(lane.queued(), (0, 0));
    });
}

/// K1 with a pool of tickets: a caller goes away, perhaps after its command has started, and asks again at once. The
/// answer to the command that it gave up is never the answer to the next one, and neither is the next one lost. Fails when
/// dropping `Submit` gives its ticket back and `Tickets::take` does not ask who still holds it.
#[test]
fn a_given_up_ticket_answers_nobody() {
    explore("a_given_up_ticket_answers_nobody", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let fickle = {
            let lane = lane.clone();
            thread::spawn(move || {
                {
                    let mut given_up = pin!(lane.submit(register(2, A)));
                    let _ = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                }
                registers(&lane, 3);
            })
        };
        done(lane.submit_blocking(register(1, A)));
        fickle.join().unwrap();
        assert_eq!(lane.queued(), (0, 0));
    });
}

/// J1 with a pool of tickets: once a caller was told that the store is unavailable, each later answer says so too, and
/// none of its tickets waits for ever. Fails when `Lane::guard` forgets that there was a panic, or `Lane::batch` leaves the
/// tickets unanswered that were in the batch with it.
#[test]
fn a_dead_lane_answers_every_ticket() {
    loom_tests::silence_the_bomb();
    explore("a_dead_lane_answers_every_ticket", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        let other = {
            let lane = lane.clone();
            thread::spawn(move || {
                let answers = [lane.submit_blocking(register(1, A)), lane.submit_blocking(renew(1, A, 1, 60_000))];
                assert!(answers[0].is_ok() || answers[1].is_err(), "a dead store came back: {answers:?}");
            })
        };
        clock.arm();
        let mine = [lane.submit_blocking(register(2, A)), lane.submit_blocking(register(3, A))];
        let unavailable = |answer: &Result<_, Failure>| matches!(answer, Err(Failure::Unavailable(_)));
        assert!(unavailable(&mine[1]), "the clock was armed before: {mine:?}");
        other.join().unwrap();
    });
}

/// S1 for the caller itself: its cached view shows nothing of what its deletion took away, whoever served it. Nothing
/// but the ticket tells it that it was served. Fails when `Lane::batch` acknowledges before it publishes.
#[test]
fn who_was_acknowledged_sees_it() {
    explore("who_was_acknowledged_sees_it", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        let other = registers_and_renews_elsewhere(&lane, 2);
        let mut reader = lane.reader();
        assert_eq!(browse(&mut reader, A).1, 1);
        let deleted = done(lane.submit_blocking(delete(1, A)));
        let (commit, rows) = browse(&mut reader, A);
        assert_eq!(rows, 0, "its own deletion is not seen");
        assert!(commit >= deleted.commit);
        other.join().unwrap();
    });
}

fn registers(lane: &ModelLane, n: u64) {
    match done(lane.submit_blocking(register(n, A))).outcome {
        Outcome::Registered(registered) => assert_eq!(registered.id, id(n, A), "another caller's answer"),
        other => panic!("not a registration's answer: {other:?}"),
    }
}

fn registers_and_renews(lane: &ModelLane, n: u64) {
    registers(lane, n);
    match done(lane.submit_blocking(renew(n, A, 1, 60_000))).outcome {
        Outcome::Renewed(renewed) => assert_eq!(renewed.version, 2),
        other => panic!("not a renewal's answer: {other:?}"),
    }
}

fn registers_and_renews_elsewhere(lane: &Arc<ModelLane>, n: u64) -> thread::JoinHandle<()> {
    let lane = lane.clone();
    thread::spawn(move || registers_and_renews(&lane, n))
}
