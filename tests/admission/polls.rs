//! Long polls: released by the event, by time and by drain.

use crate::support::*;
use rendezvous::admission::*;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

contract!(
    a_poll_for_work_is_released_by_an_admission,
    a_poll_for_a_command_is_released_by_its_end,
    a_poll_is_released_by_time,
    a_poll_is_released_by_drain,
    polls_are_bounded_and_leave_nothing_behind,
    a_poll_hears_of_other_processes,
);

const LONG: Duration = Duration::from_secs(20);

/// Waits until so many polls are waiting; the store's threads may still be on their way to the first answer.
async fn waiting(world: &World, count: usize) {
    poll_fn(|context| {
        if world.store.waits().waiting() == count && world.clock.timers() == count {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Drives a poll until it waits, and then with it what is to release it. Another process may hear of an event before the
/// one that made it has its own answer, so the two end in either order.
async fn released<T>(
    waits: impl Future<Output = ()>,
    poll: impl Future<Output = T>,
    event: impl Future<Output = ()>,
) -> T {
    let mut poll = pin!(poll);
    tokio::select! {
        biased;
        _ = &mut poll => panic!("released before the event"),
        () = waits => {}
    }
    tokio::join!(poll, event).0
}

async fn a_poll_for_work_is_released_by_an_admission(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    let hosts = world.hosts();
    let who = credential();
    let poll = hosts.work(&who, &host, LONG);
    let work = released(waiting(&world, 1), poll, async {
        world.input(session, "i").await;
    })
    .await
    .expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Deliver(entry)] if entry.seq == CommandSeq(2)), "{work:?}");
}

async fn a_poll_for_a_command_is_released_by_its_end(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let service = world.service();
    let who = alice();
    let poll = service.command(&who, session, CommandSeq(1), LONG);
    let view = released(waiting(&world, 1), poll, async {
        world.claim(&lease, CommandSeq(1)).await.expect("claimed");
        world.begin(&lease, CommandSeq(1)).await.expect("begun");
        world.complete(&lease, CommandSeq(1)).await.expect("completed");
    })
    .await
    .expect("a command");
    assert_eq!(view.state, CallerState::Applied);
}

async fn a_poll_is_released_by_time(world: World) {
    let host = world.host("eu-1").await;
    let hosts = world.hosts();
    let who = credential();
    let poll = hosts.work(&who, &host, Duration::from_millis(2_500));
    let work = released(waiting(&world, 1), poll, async {
        for step in [1_000, 1_000, 499] {
            waiting(&world, 1).await;
            world.clock.advance(Duration::from_millis(step));
        }
        waiting(&world, 1).await;
    });
    let work = {
        let clock = world.clock.clone();
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && clock.time() == START.plus(Duration::from_millis(2_499)) {
                clock.advance(Duration::from_millis(1));
                context.waker().wake_by_ref();
            }
            polled
        })
        .await
    };
    assert_eq!(work, Ok(Vec::new()));
}

async fn a_poll_is_released_by_drain(world: World) {
    let host = world.host("eu-1").await;
    let hosts = world.hosts();
    let who = credential();
    let poll = hosts.work(&who, &host, LONG);
    let work = released(waiting(&world, 1), poll, async {
        world.store.waits().release();
    })
    .await;
    assert_eq!(work, Ok(Vec::new()));
    assert_eq!(hosts.work(&who, &host, LONG).await, Ok(Vec::new()), "those to come as well");
}

async fn polls_are_bounded_and_leave_nothing_behind(world: World) {
    let host = world.host("eu-1").await;
    let waits = Waits::new(1);
    let config = HostConfig { waits: Arc::clone(&waits), ..world.host_config() };
    let hosts = HostService::new(config);
    let who = credential();
    {
        let mut first = pin!(hosts.work(&who, &host, LONG));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            if waits.waiting() == 1 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert_eq!(code(hosts.work(&who, &host, LONG).await), ErrorCode::Overloaded);
    }
    assert_eq!((waits.waiting(), world.clock.timers()), (0, 0), "who hangs up frees the place and the timer");
}

/// Another process admits; on one database this one hears of it, at the latest when it asks again.
async fn a_poll_hears_of_other_processes(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    let other = Arc::new(world.reopened(small()));
    let service = Service::new(Config { commands: other.clone(), catalog: other, ..world.config() }).expect("valid");
    let hosts = world.hosts();
    let who = credential();
    let poll = hosts.work(&who, &host, LONG);
    let work = released(waiting(&world, 1), poll, async {
        service.admit_input(&alice(), input(session, "i")).await.expect("admitted");
        if matches!(world.backing, Backing::Sqlite(_)) {
            world.clock.advance(SECOND);
        }
    })
    .await
    .expect("work");
    assert!(matches!(&work[0].tasks[..], [Task::Deliver(entry)] if entry.seq == CommandSeq(2)), "{work:?}");
}
