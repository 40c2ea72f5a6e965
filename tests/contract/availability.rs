//! Section J: unavailability, drain and restart; rule K1 where both stores share it.

use crate::support::*;
use rendezvous::domain::*;
use rendezvous::store::{Availability, BrowseQuery};

contract!(
    rule_j1_a_panic_while_stamping_makes_the_store_unavailable_for_ever,
    rule_j1_a_panic_inside_a_transition_leaves_its_outcome_unknown,
    rule_j2_drain_refuses_what_is_new_at_once,
    rule_j2_drain_lets_the_rest_go_on,
    rule_j2_drain_is_idempotent_and_final,
    rule_j2_the_deadline_is_every_records_deadline_without_any_call,
    rule_j2_answers_promise_nothing_beyond_the_deadline,
    rule_j2_after_the_deadline_everything_is_draining,
    rule_j2_the_window_has_a_bound,
    rule_j2_drain_is_published_with_its_acknowledgement,
    rule_j2_an_idle_store_lets_go_by_its_tick,
    rule_j4_a_restart_is_empty,
    rule_k1_a_future_dropped_before_it_starts_changes_nothing,
    case_d2_nothing_undoes_a_drain,
);

fn browse<B: Backend>(world: &World<B>) -> Result<u64, Failure> {
    let query = BrowseQuery { tenant: TENANT, protocol: PROTOCOL, after: None, limit: 10, filter: None };
    world.store.browse(&query, |page| page.commit)
}

/// Everything there is to ask, transitions and reads alike.
fn everything<B: Backend>(world: &World<B>, host: &Host, attempt: &Try) -> Vec<(String, Result<(), Failure>)> {
    let now = world.now();
    let commands = vec![
        Command::Register(Box::new(world.register(1))),
        Command::Renew(host.renew(1)),
        host.delete(),
        Command::Presence(presence(host, v4(1, 4_000), world.number(), now)),
        Command::NoteUnverified(NoteUnverified { listing: host.id, endpoint: v4(5, 5), sequence: 1 << 50 }),
        Command::CreateAttempt(Box::new(world.attempt(host, 7))),
        Command::Bind(attempt.bind(Role::Host, v4(1, 4_000), now)),
        Command::BindAndConsume(attempt.bind(Role::Joiner, v4(2, 5_000), now)),
        attempt.consume(),
        attempt.admit(host.authority()),
        attempt.refuse(host.authority()),
        attempt.close(attempt.joiner),
        attempt.report(attempt.joiner, Path::Direct),
        revoke(Subject::Listing(host.id), 5_000, 1),
        Command::LiftRevocation(Subject::Listing(host.id)),
        Command::Drain { window_ms: 0 },
        Command::Sweep,
        host.lease_query(),
        attempt.query(attempt.joiner),
        Command::Query(Query::PendingAttempts { proof: host.proof(), after: 0 }),
    ];
    let mut results: Vec<_> =
        commands.into_iter().map(|command| (format!("{command:?}"), world.submit(command).map(|_| ()))).collect();
    results.push(("browse".into(), browse(world).map(|_| ())));
    results.push(("by id".into(), world.store.listing(TENANT, host.id, |_, _| ())));
    results
}

fn is_dead<B: Backend>(world: &World<B>, host: &Host, attempt: &Try) {
    for _ in 0..2 {
        for (what, result) in everything(world, host, attempt) {
            assert_eq!(result, Err(Failure::Unavailable(Certainty::NotApplied)), "{what}");
        }
        let status = world.submit(Command::Query(Query::Status));
        assert_eq!(status, Err(Failure::Unavailable(Certainty::NotApplied)));
        assert_eq!(world.store.availability(), Availability::Unavailable);
        world.store.tick();
        world.clock.advance_ms(60_000);
    }
    block_on(world.store.published(u64::MAX));
}

fn rule_j1_a_panic_while_stamping_makes_the_store_unavailable_for_ever<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    world.store.tick();
    world.clock.panic_next();
    let failure = world.submit(Command::Renew(host.renew(1)));
    assert!(matches!(failure, Err(Failure::Unavailable(_))), "{failure:?}");
    is_dead(&world, &host, &attempt);
}

fn rule_j1_a_panic_inside_a_transition_leaves_its_outcome_unknown<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    world.observer.panic_next();
    let failure = world.submit(host.delete());
    assert_eq!(failure, Err(Failure::Unavailable(Certainty::Unknown)));
    is_dead(&world, &host, &attempt);
}

fn rule_j2_drain_refuses_what_is_new_at_once<B: Backend>() {
    let world = World::<B>::new();
    let (host, _) = world.host_and_attempt();
    let (deadline, wall) = (world.now().plus_ms(10_000), world.clock.wall_now().plus_ms(10_000));
    assert_eq!(world.ok(Command::Drain { window_ms: 10_000 }), Outcome::Draining { deadline, wall });
    let refused = [
        Command::Register(Box::new(world.register(1))),
        Command::CreateAttempt(Box::new(world.attempt(&host, 7))),
        Command::Renew(host.renew(1)),
        Command::Renew(Renew { proof: host.wrong_proofs()[0], ..host.renew(1) }),
    ];
    for command in refused {
        assert_eq!(world.rejected(command), Rejection::Draining { deadline, wall });
    }
}

fn rule_j2_drain_lets_the_rest_go_on<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.fresh(opening.clone());
    let (attempt, second) = (world.joins(&host, 9), world.joins(&host, 8));
    let other = world.host(2);
    world.store.tick();
    world.ok(Command::Drain { window_ms: 10_000 });
    let deadline = world.now().plus_ms(10_000);
    assert_eq!(world.present(&host, v4(1, 4_000)).draining, Some(deadline), "so that hosts come back spread out");
    match world.ok(Command::Register(Box::new(opening))) {
        Outcome::Registered(same) => assert!(same.replayed, "an exact duplicate is not new"),
        unexpected => panic!("{unexpected:?}"),
    }
    world.bind_both(&attempt);
    assert!(matches!(world.ok(attempt.consume()), Outcome::Introduced(_)));
    assert_eq!(world.ok(second.close(second.host)), Outcome::Closed);
    assert_eq!(world.browsed(), [host.id, other.id]);
    world.ok(revoke(Subject::Listing(other.id), 5_000, 1));
    world.ok(Command::LiftRevocation(Subject::Listing(other.id)));
    assert_eq!(world.ok(host.delete()), Outcome::Deleted);
    assert!(world.browsed().is_empty());
    assert_eq!(world.status().drain.map(|(at, _)| at), Some(deadline));
}

fn rule_j2_drain_is_idempotent_and_final<B: Backend>() {
    let world = World::<B>::new();
    let first = world.reply(Command::Drain { window_ms: 10_000 });
    world.clock.advance_ms(3_000);
    for window_ms in [0, 10_000, 30_000] {
        assert_eq!(world.reply(Command::Drain { window_ms }), first, "the first deadline, no new commit");
    }
    let Outcome::Draining { deadline, wall } = first.outcome else { panic!("{first:?}") };
    assert_eq!(world.store.availability(), Availability::Draining { deadline, wall });
    assert_eq!(world.rejected(Command::Register(Box::new(world.register(1)))), Rejection::Draining { deadline, wall });
}

fn rule_j2_the_deadline_is_every_records_deadline_without_any_call<B: Backend>() {
    for (off_ns, alive) in [(-1_i64, true), (0, false), (1, false)] {
        let world = World::<B>::new();
        let (host, _) = world.host_and_attempt();
        world.store.tick();
        world.ok(Command::Drain { window_ms: 10_000 });
        let deadline = world.now().plus_ms(10_000);
        world.clock.advance_to(MonoTime(deadline.0.saturating_add_signed(off_ns)));
        assert_eq!(browse(&world).is_ok(), alive, "{off_ns:+} ns");
        assert_eq!(world.store.listing(TENANT, host.id, |_, _| ()).is_ok(), alive, "{off_ns:+} ns");
        if alive {
            assert_eq!(world.browsed(), [host.id]);
        }
    }
}

fn rule_j2_answers_promise_nothing_beyond_the_deadline<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    let before = presence(&host, v4(1, 4_000), world.number(), world.now());
    assert_eq!(world.presence_ok(before).deadline, world.now().plus_ms(65_000));
    world.ok(Command::Drain { window_ms: 10_000 });
    let deadline = world.now().plus_ms(10_000);
    let again = world.presence_ok(before);
    assert_eq!((again.deadline, again.offers.iter().next().map(|offer| offer.deadline)), (deadline, Some(deadline)));
    assert_eq!(world.present(&host, v4(1, 4_000)).deadline, deadline);
    assert_eq!(world.bind_and_consume(&attempt, Role::Host, v4(1, 4_000)).deadline, deadline);
    let bound = world.bind_and_consume(&attempt, Role::Joiner, v4(2, 5_000));
    assert_eq!((bound.deadline, bound.introduction.map(|shown| shown.deadline)), (deadline, Some(deadline)));
}

fn rule_j2_after_the_deadline_everything_is_draining<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    let Outcome::Draining { deadline, wall } = world.ok(Command::Drain { window_ms: 10_000 }) else { panic!() };
    world.observer.take();
    world.clock.advance_ms(10_000);
    for _ in 0..2 {
        for (what, result) in everything(&world, &host, &attempt) {
            assert_eq!(result, Err(Rejection::Draining { deadline, wall }.into()), "{what}");
        }
        world.clock.advance_ms(500_000);
    }
    let status = world.status();
    let live = [status.listings, status.presence, status.attempts, status.idempotency].map(|count| count.live);
    assert_eq!((live, status.drain), ([0; 4], Some((deadline, wall))), "operators may still ask how it stands");
    let let_go = world.observer.take().iter().filter(|event| **event == Event::Drained).count();
    assert_eq!(let_go, 1, "in one transition");
}

fn rule_j2_the_window_has_a_bound<B: Backend>() {
    let world = World::<B>::new();
    for window_ms in [30_001, u32::MAX] {
        assert_eq!(world.rejected(Command::Drain { window_ms }), Rejection::Invalid(Invalid::DrainWindow));
    }
    assert_eq!(world.store.availability(), Availability::Available);
    world.ok(Command::Drain { window_ms: 30_000 });
    let world = World::<B>::new();
    world.ok(Command::Drain { window_ms: 0 });
    assert!(matches!(world.rejected(Command::Sweep), Rejection::Draining { .. }), "a window of zero is over at once");
    assert!(browse(&world).is_err());
}

fn rule_j2_drain_is_published_with_its_acknowledgement<B: Backend>() {
    let world = World::<B>::new();
    world.host(1);
    let reply = world.reply(Command::Drain { window_ms: 10_000 });
    let Outcome::Draining { deadline, wall } = reply.outcome else { panic!("{reply:?}") };
    assert_eq!(world.store.availability(), Availability::Draining { deadline, wall });
    assert_eq!(browse(&world), Ok(reply.commit));
}

fn rule_j2_an_idle_store_lets_go_by_its_tick<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    world.ok(Command::Drain { window_ms: 10_000 });
    world.observer.take();
    world.clock.advance_ms(10_000);
    world.store.tick();
    let heard = world.observer.take();
    assert!(heard.contains(&Event::Drained), "whoever waits is told although nobody calls: {heard:?}");
    let _ = (host, attempt);
}

fn rule_j4_a_restart_is_empty<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.fresh(opening.clone());
    let attempt = world.joins(&host, 9);
    let limits = Limits::default();
    let next = World::<B>::on(world.clock.clone(), limits, LaneShape::default()).expect("limits that can be kept");
    let old = [
        Command::Renew(host.renew(1)),
        host.delete(),
        host.lease_query(),
        Command::Presence(presence(&host, v4(1, 4_000), 900, world.now())),
        Command::CreateAttempt(Box::new(world.attempt(&host, 7))),
        Command::Bind(attempt.bind(Role::Joiner, v4(2, 5_000), world.now())),
        attempt.query(attempt.joiner),
    ];
    for command in old {
        assert_eq!(next.rejected(command), Rejection::NotFound);
    }
    assert!(next.visible().is_empty() && world.visible() == [host.id]);
    assert_eq!(next.registered(opening).id, host.id, "a key of an earlier life is not remembered");
}

fn rule_k1_a_future_dropped_before_it_starts_changes_nothing<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let before = (world.status(), world.store_commit());
    drop(world.store.submit(host.delete()));
    drop(world.store.submit(Command::Register(Box::new(world.register(2)))));
    assert_eq!((world.status(), world.store_commit()), before);
    assert_eq!(world.store.queued(), (0, 0));
}

fn case_d2_nothing_undoes_a_drain<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.fresh(opening.clone());
    let reply = world.reply(Command::Drain { window_ms: 20_000 });
    let Outcome::Draining { deadline, wall } = reply.outcome else { panic!("{reply:?}") };
    let refused = Err(Rejection::Draining { deadline, wall }.into());
    for wait_ms in [0, 1_000, 18_999] {
        world.clock.advance_ms(wait_ms);
        assert_eq!(world.submit(Command::Renew(host.renew(1))), refused);
        world.present(&host, v4(1, 4_000));
        assert!(world.submit(Command::Register(Box::new(opening.clone()))).is_ok(), "a duplicate of what lives");
        let join = Command::CreateAttempt(Box::new(world.attempt(&host, 7)));
        assert_eq!(world.submit(join), refused, "refused all along");
        assert_eq!(world.store.availability(), Availability::Draining { deadline, wall });
    }
}
