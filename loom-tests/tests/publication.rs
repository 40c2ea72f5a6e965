//! What readers may see: rules S1, S3, S4 and S6, on the shipped lane, publisher and snapshot.
#![cfg(loom)]
#![allow(missing_docs, clippy::wildcard_enum_match_arm)]

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use loom_tests::{
    ModelClock, ModelLane, browse, delete, done, explore, lane, presence, register, renew, revoke_owner, show, status,
};
use rendezvous::domain::{Command, MonoTime, TenantId};
use rendezvous::store::lane::Reader;
use rendezvous::store::{BrowseQuery, Store};
use std::sync::Arc;

const A: &str = "a";
const B: &str = "b";

/// S1: once a deletion is acknowledged, no browse that starts afterwards shows the listing.
/// Fails when `Lane::batch` acknowledges before it publishes, or publishes only at the next tick.
#[test]
fn removal_is_seen() {
    explore("removal_is_seen", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        let (writer, acknowledged) = submit_elsewhere(&lane, delete(1, A));
        let mut reader = lane.reader();
        browse(&mut reader, A);
        let was_acknowledged = acknowledged.load(Ordering::Acquire) == 1;
        let (_, rows) = browse(&mut reader, A);
        assert!(!was_acknowledged || rows == 0, "a deleted listing was shown");
        writer.join().unwrap();
        assert_eq!(browse(&mut reader, A).1, 0);
    });
}

/// S1 with another thread holding the lane: the deletion is served by whoever holds it, and is published all the same.
/// Fails when `Lane::batch` acknowledges tickets before it publishes.
#[test]
fn removal_served_by_another_is_seen() {
    explore("removal_served_by_another_is_seen", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        let busy = {
            let lane = lane.clone();
            thread::spawn(move || {
                done(lane.submit_blocking(register(2, A)));
            })
        };
        let (deleting, acknowledged) = submit_elsewhere(&lane, delete(1, A));
        let mut reader = lane.reader();
        let was_acknowledged = acknowledged.load(Ordering::Acquire) == 1;
        let (_, rows) = browse(&mut reader, A);
        assert!(!was_acknowledged || rows == 0, "a deleted listing was shown");
        busy.join().unwrap();
        deleting.join().unwrap();
    });
}

/// S1 for a batch of one caller's own, beside somebody who comes meanwhile: both are answered, and what the batch removed
/// from two scopes is gone. Fails when `Lane::batch_together` does not publish, or `Lane::serve_together` leaves the lane
/// without a look at the queues.
#[test]
fn removals_of_a_batch_are_seen() {
    explore("removals_of_a_batch_are_seen", 3, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        show(&lane, 2, B);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let batch = {
            let (lane, tell) = (lane.clone(), acknowledged.clone());
            thread::spawn(move || {
                let (mut commands, mut answers) = (vec![delete(1, A), delete(2, B)], Vec::new());
                if !lane.submit_together(&mut commands, &mut answers) {
                    answers.extend(commands.into_iter().map(|command| lane.submit_blocking(command)));
                }
                assert_eq!(answers.into_iter().map(done).count(), 2);
                tell.store(1, Ordering::Release);
            })
        };
        done(lane.submit_blocking(register(3, A)));
        let mut reader = lane.reader();
        let was_acknowledged = acknowledged.load(Ordering::Acquire) == 1;
        let rows = browse(&mut reader, A).1 + browse(&mut reader, B).1;
        assert!(!was_acknowledged || rows == 0, "a deleted listing was shown");
        batch.join().unwrap();
        assert_eq!(status(&lane).listings.live, 1);
    });
}

/// S6: one reader never sees an older snapshot after a newer one.
/// Fails when the publisher stores the replaced root again after the new one.
#[test]
fn snapshots_never_go_back() {
    explore("snapshots_never_go_back", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        let writer = {
            let lane = lane.clone();
            thread::spawn(move || {
                done(lane.submit_blocking(renew(1, A, 1, 60_000)));
                lane.tick();
                done(lane.submit_blocking(delete(1, A)));
            })
        };
        let mut reader = lane.reader();
        let first = browse(&mut reader, A);
        let second = browse(&mut reader, A);
        assert!(first.0 <= second.0, "an older snapshot after a newer one");
        assert!(first.1 >= second.1, "a deleted listing came back");
        writer.join().unwrap();
    });
}

/// S3: a principal's revocation over two scopes is seen at once or not at all.
/// Fails when `Publisher::hide` publishes after each row that it takes out.
#[test]
fn no_torn_revocation() {
    explore("no_torn_revocation", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        show(&lane, 2, B);
        let writer = {
            let lane = lane.clone();
            thread::spawn(move || {
                done(lane.submit_blocking(revoke_owner()));
            })
        };
        let mut reader = lane.reader();
        let in_a = browse(&mut reader, A);
        let in_b = browse(&mut reader, B);
        assert!(in_a.1 >= in_b.1, "the revocation was seen in the first scope and not in the second");
        assert!(in_a.0 != in_b.0 || in_a.1 == in_b.1, "one snapshot shows half of a revocation");
        writer.join().unwrap();
    });
}

/// S4: an acknowledged extension is seen at the old deadline, also where the chunk was rewritten since the last
/// publication. Fails when `Publisher::move_deadline` leaves the published twin alone.
#[test]
fn an_extension_is_seen() {
    explore("an_extension_is_seen", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        // A neighbour that is not published yet: the working chunk is no longer the published one.
        done(lane.submit_blocking(register(2, A)));
        done(lane.submit_blocking(presence(2, A)));
        let (writer, acknowledged) = submit_elsewhere(&lane, renew(1, A, 1, 64_000));
        let mut reader = lane.reader();
        let was_acknowledged = acknowledged.load(Ordering::Acquire) == 1;
        // Between the first lease's deadline and the extended one.
        let rows = rows_at(&mut reader, 62_000);
        assert!(!was_acknowledged || rows == 1, "a live listing blinked out");
        writer.join().unwrap();
    });
}

/// S1: an acknowledged shortening is seen: the listing is gone at its new deadline.
/// Fails when `Chunk::move_deadline` does not lower `earliest`.
#[test]
fn a_shortening_is_seen() {
    explore("a_shortening_is_seen", None, || {
        let clock = ModelClock::default();
        let lane = lane(&clock);
        show(&lane, 1, A);
        done(lane.submit_blocking(register(2, A)));
        done(lane.submit_blocking(presence(2, A)));
        let (writer, acknowledged) = submit_elsewhere(&lane, renew(1, A, 1, 10_000));
        let mut reader = lane.reader();
        let was_acknowledged = acknowledged.load(Ordering::Acquire) == 1;
        let rows = rows_at(&mut reader, 20_000);
        assert!(!was_acknowledged || rows == 0, "a listing was shown after its shortened deadline");
        writer.join().unwrap();
    });
}

/// The rows that a reader sees whose own clock has moved on by `ms`.
fn rows_at(reader: &mut Reader<'_, ModelClock>, ms: u64) -> usize {
    let query = BrowseQuery { tenant: TenantId(0), protocol: A, after: None, limit: 50, filter: None };
    let later = MonoTime(1_000_000_000).plus_ms(ms);
    reader.browse_at(later, &query, |page| page.count).unwrap()
}

/// Submits from a thread of its own; the flag is set once the command was acknowledged.
fn submit_elsewhere(lane: &Arc<ModelLane>, command: Command) -> (thread::JoinHandle<()>, Arc<AtomicU64>) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (lane, tell) = (lane.clone(), acknowledged.clone());
    let submitting = thread::spawn(move || {
        done(lane.submit_blocking(command));
        tell.store(1, Ordering::Release);
    });
    (submitting, acknowledged)
}
