//! Commands that are submitted together, or at once: each is a transition of its own, in their order, and all have begun or
//! none.

use crate::support::*;
use rendezvous::domain::*;
use rendezvous::store::Store;
use rendezvous::store::lane::Lane;

contract!(
    a_batch_does_what_its_commands_do_one_by_one,
    rule_c1_what_a_batch_removed_is_gone_once_it_is_over,
    rule_j1_a_panic_inside_a_batch_leaves_nobody_with_a_promise,
    rule_j1_a_dead_store_begins_no_batch,
    what_is_done_at_once_is_done_as_what_is_submitted,
);

type Answers = Vec<Result<Reply, Failure>>;

/// Submits `commands` together to a store that is idle.
fn together<B: Backend>(world: &World<B>, mut commands: Vec<Command>) -> Answers {
    let (count, mut answers) = (commands.len(), Vec::new());
    assert!(world.store.submit_together(&mut commands, &mut answers), "nobody else is there");
    assert!(commands.is_empty());
    assert_eq!(answers.len(), count);
    answers
}

/// Presence, binds and what refuses them, made alike in every world.
fn commands<B: Backend>(world: &World<B>) -> Vec<Command> {
    let (hosts, stranger) = ([world.host(1), world.host(2)], world.host(3));
    let attempt = world.joins(&hosts[0], 9);
    world.ok(stranger.delete());
    let now = world.now();
    let bind = |role, endpoint| Command::BindAndConsume(attempt.bind(role, endpoint, now));
    vec![
        Command::Presence(presence(&hosts[0], v4(1, 4_000), 100, now)),
        Command::Presence(presence(&stranger, v4(3, 4_000), 101, now)),
        bind(Role::Host, v4(1, 4_000)),
        // Again, with the same bytes and with others.
        Command::Presence(presence(&hosts[0], v4(1, 4_000), 100, now)),
        Command::Presence(presence(&hosts[0], v4(1, 4_000), 99, now)),
        bind(Role::Joiner, v4(9, 5_000)),
        bind(Role::Joiner, v4(9, 5_001)),
        Command::Presence(presence(&hosts[1], v6(2, 4_000), 102, now)),
    ]
}

fn a_batch_does_what_its_commands_do_one_by_one<B: Backend>() {
    let (batched, alone) = (World::<B>::new(), World::<B>::new());
    let answers = together(&batched, commands(&batched));
    let expected: Answers = commands(&alone).into_iter().map(|command| alone.submit(command)).collect();
    assert_eq!(answers, expected);
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5, "{answers:?}");
    assert_eq!(batched.observer.take(), alone.observer.take());
    assert_eq!(batched.status(), alone.status());
    assert_eq!(batched.store.last_commit(), alone.store.last_commit());
}

fn rule_c1_what_a_batch_removed_is_gone_once_it_is_over<B: Backend>() {
    let world = World::<B>::new();
    let hosts = [world.host(1), world.host(2), world.host(3)];
    world.store.tick();
    assert_eq!(world.browsed().len(), 3);
    let answers = together(&world, vec![hosts[0].delete(), Command::Renew(hosts[1].renew(1)), hosts[2].delete()]);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.browsed(), [hosts[1].id]);
    assert!(answers.is_sorted_by_key(|answer| answer.as_ref().map_or(0, |reply| reply.commit)));
}

fn rule_j1_a_panic_inside_a_batch_leaves_nobody_with_a_promise<B: Backend>() {
    let world = World::<B>::new();
    let (first, second) = (world.host(1), world.host(2));
    world.store.tick();
    world.observer.panic_next();
    // The first may be done or not; the second, which began after the panic or before it was seen, has no promise either.
    for answer in together(&world, vec![first.delete(), second.delete()]) {
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    }
}

fn rule_j1_a_dead_store_begins_no_batch<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.clock.panic_next();
    assert!(world.submit(Command::Renew(host.renew(1))).is_err());
    let answers = together(&world, vec![host.delete(), Command::Query(Query::Status)]);
    assert_eq!(answers, vec![Err(Failure::Unavailable(Certainty::NotApplied)); 2]);
}

fn what_is_done_at_once_is_done_as_what_is_submitted<B: Backend>() {
    let (at_once, alone) = (World::<B>::new(), World::<B>::new());
    for (one, other) in commands(&at_once).into_iter().zip(commands(&alone)) {
        assert_eq!(at_once.store.submit_at_once(one), Some(alone.submit(other)), "nobody else is there");
    }
    assert_eq!(at_once.observer.take(), alone.observer.take());
    assert_eq!(at_once.status(), alone.status());
    assert_eq!(at_once.store.last_commit(), alone.store.last_commit());
    let host = at_once.host(7);
    at_once.clock.panic_next();
    let unknown = at_once.store.submit_at_once(Command::Renew(host.renew(1)));
    assert!(matches!(unknown, Some(Err(Failure::Unavailable(_)))), "{unknown:?}");
    let never = at_once.store.submit_at_once(host.delete());
    assert_eq!(never, Some(Err(Failure::Unavailable(Certainty::NotApplied))), "rule J1");
}

#[test]
fn a_busy_lane_begins_nothing_at_once() {
    let world = World::<Lane<ManualClock>>::new();
    let (victim, host) = (world.host(1), world.host(2));
    world.while_held(&victim, || {
        assert_eq!(world.store.submit_at_once(Command::Renew(host.renew(1))), None);
        assert_eq!(world.store.queued(), (0, 0));
    });
    assert_eq!(world.lease(&host).version, 1, "and it has not happened");
}

#[test]
fn a_busy_lane_begins_no_batch() {
    let world = World::<Lane<ManualClock>>::new();
    let (victim, host) = (world.host(1), world.host(2));
    world.while_held(&victim, || {
        let (mut commands, mut answers) = (vec![host.delete()], Vec::new());
        assert!(!world.store.submit_together(&mut commands, &mut answers));
        assert_eq!((commands, answers), (vec![host.delete()], Vec::new()), "it is the caller's again");
        assert_eq!(world.store.queued(), (0, 0));
    });
    assert_eq!(world.lease(&host).version, 1, "and it has not happened");
}

#[test]
fn rule_d4_who_came_during_a_batch_is_served_after_it() {
    let world = World::<Lane<ManualClock>>::new();
    let (victim, host) = (world.host(1), world.host(2));
    let renewed = std::thread::scope(|threads| {
        let held = world.observer.hold_next();
        let holder = threads.spawn(|| together(&world, vec![victim.delete()]));
        held.wait_entered();
        let Polled::Pending(renewal) = poll_once(world.store.submit(Command::Renew(host.renew(1)))) else {
            panic!("the lane is held")
        };
        held.release();
        assert!(holder.join().expect("the batch completes").iter().all(Result::is_ok));
        assert_eq!(world.store.queued(), (0, 0), "the holder of the lane has served it");
        block_on(renewal)
    });
    assert!(renewed.is_ok(), "{renewed:?}");
}
