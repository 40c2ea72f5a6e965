//! Section A: the atomic boundary.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_a1_a_recorded_run_replays_to_the_same_outcomes_and_state,
    rule_a1_a_stamp_is_never_below_the_last_one,
    rule_a2_accepted_transitions_are_numbered_one_by_one,
    rule_a2_a_rejection_changes_nothing,
    rule_a2_what_changes_nothing_takes_no_number,
    rule_a2_cleanup_of_something_visible_is_numbered_once,
);

/// Three hosts, joins, an introduction, an expiry and a revocation, with the clock in between.
fn tour<B: Backend>(world: &World<B>) -> Vec<Result<Reply, Failure>> {
    let mut replies = Vec::new();
    let mut run = |command: Command| replies.push(world.submit(command));
    let openings: Vec<Register> = (1..=3).map(|owner| world.register(owner)).collect();
    let hosts: Vec<Host> = openings.iter().map(Host::of).collect();
    openings.iter().for_each(|opening| run(Command::Register(Box::new(opening.clone()))));
    for (n, host) in (0_u64..).zip(&hosts) {
        world.clock.advance_ms(1_700);
        run(Command::Presence(presence(host, v4(1, 4_000), n, world.now())));
        run(host.wrong_proofs().map(|proof| Command::Delete(Delete { proof }))[n as usize].clone());
    }
    let create = world.attempt(&hosts[0], 9);
    let attempt = Try::of(&create, &hosts[0]);
    run(Command::CreateAttempt(Box::new(create)));
    run(attempt.consume());
    run(Command::BindAndConsume(attempt.bind(Role::Host, v4(1, 4_000), world.now())));
    run(Command::BindAndConsume(attempt.bind(Role::Joiner, v4(2, 5_000), world.now())));
    run(attempt.consume());
    run(Command::Renew(hosts[1].renew(1)));
    run(Command::Renew(hosts[1].renew(1)));
    world.clock.advance_ms(58_300);
    run(Command::Query(Query::Status));
    run(revoke(Subject::Principal(hosts[1].owner.key), 5_000, 1));
    run(hosts[2].lease_query());
    run(Command::Drain { window_ms: 1_000 });
    run(Command::Query(Query::Status));
    replies
}

fn rule_a1_a_recorded_run_replays_to_the_same_outcomes_and_state<B: Backend>() {
    let (one, other) = (World::<B>::new(), World::<B>::new());
    let (first, second) = (tour(&one), tour(&other));
    assert_eq!(first, second);
    assert_eq!(first.iter().filter(|reply| reply.is_err()).count(), 7, "the tour meets rejections too: {first:?}");
    assert_eq!(one.observer.take(), other.observer.take());
    assert_eq!(one.visible(), other.visible());
}

fn rule_a1_a_stamp_is_never_below_the_last_one<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let stamp = world.now();
    world.clock.rewind_ms(5_000);
    let present = world.present(&host, v4(1, 4_001));
    assert_eq!(present.deadline, stamp.plus_ms(65_000), "counted from the last stamp, not from a clock that went back");
}

fn rule_a2_accepted_transitions_are_numbered_one_by_one<B: Backend>() {
    let world = World::<B>::new();
    assert_eq!((world.store.last_commit(), world.store.published_commit()), (0, 0));
    let opening = world.register(1);
    let host = Host::of(&opening);
    let mut expected = 0;
    let mut next = |command: Command| {
        expected += 1;
        let reply = world.reply(command);
        assert_eq!((reply.commit, world.store.last_commit()), (expected, expected), "{:?}", reply.outcome);
    };
    next(Command::Register(Box::new(opening)));
    next(Command::Presence(presence(&host, v4(1, 4_000), 1, world.now())));
    next(Command::Renew(host.renew(1)));
    let create = world.attempt(&host, 2);
    let attempt = Try::of(&create, &host);
    next(Command::CreateAttempt(Box::new(create)));
    next(Command::Bind(attempt.bind(Role::Host, v4(1, 4_000), world.now())));
    next(Command::BindAndConsume(attempt.bind(Role::Joiner, v4(2, 5_000), world.now())));
    next(attempt.close(attempt.joiner));
    next(revoke(Subject::Principal(principal(77).key), 5_000, 1));
    next(Command::LiftRevocation(Subject::Principal(principal(77).key)));
    next(host.delete());
    next(Command::Drain { window_ms: 1_000 });
}

fn rule_a2_a_rejection_changes_nothing<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (2, 1));
    let (host, attempt) = world.host_and_attempt();
    let unproven = world.listing(2);
    world.store.tick();
    let state = || {
        let views = (world.lease(&host), world.lease(&unproven), world.view(&attempt, attempt.joiner).state);
        (world.status(), world.visible(), views, world.store.last_commit())
    };
    let before = state();
    let strange = Fingerprint(1);
    let refused: Vec<Command> = vec![
        Command::Register(Box::new(world.register(3))),
        Command::Register(Box::new(Register { quota_per_owner: 1, ..world.register(1) })),
        Command::Renew(host.renew(7)),
        Command::Renew(Renew { proof: host.wrong_proofs()[0], ..host.renew(1) }),
        Command::Delete(Delete { proof: host.wrong_proofs()[1] }),
        Command::Presence(Presence { sequence: Some(0), ..presence(&host, v4(9, 9), 500, world.now()) }),
        Command::CreateAttempt(Box::new(world.attempt(&unproven, 5))),
        Command::CreateAttempt(Box::new(world.attempt(&host, 1))),
        Command::Bind(Bind { capability: strange, ..attempt.bind(Role::Joiner, v4(3, 3), world.now()) }),
        attempt.consume(),
        attempt.close(principal(99)),
        attempt.admit(GateAuthority::Owner { caller: principal(99), lease: host.lease }),
        attempt.report(principal(99), Path::Direct),
        Command::Drain { window_ms: 30_001 },
        Command::Query(Query::Lease(host.wrong_proofs()[2])),
    ];
    for command in refused {
        let shown = format!("{command:?}");
        world.rejected(command);
        assert_eq!(state(), before, "after {shown}");
    }
}

fn rule_a2_what_changes_nothing_takes_no_number<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.registered(opening.clone());
    let datagram = presence(&host, v4(1, 4_000), 50, world.now());
    world.presence_ok(datagram);
    let create = world.attempt(&host, 2);
    let attempt = world.created(create.clone(), &host);
    let bind = Command::Bind(attempt.bind(Role::Joiner, v4(2, 5_000), world.now()));
    world.bound(bind.clone());
    let before = world.store.last_commit();
    let endpoint = v4(8, 8_000);
    let idle: Vec<Command> = vec![
        Command::Register(Box::new(opening)),
        Command::CreateAttempt(Box::new(create)),
        Command::Presence(datagram),
        Command::NoteUnverified(NoteUnverified { listing: host.id, endpoint, sequence: u64::MAX }),
        bind,
        attempt.admit(host.authority()),
        attempt.report(attempt.joiner, Path::Failed),
        Command::LiftRevocation(Subject::Listing(host.id)),
        Command::Sweep,
        Command::Query(Query::Status),
        host.lease_query(),
    ];
    for command in idle {
        let reply = world.reply(command);
        assert_eq!((reply.commit, world.store.last_commit()), (before, before), "{:?}", reply.outcome);
    }
}

fn rule_a2_cleanup_of_something_visible_is_numbered_once<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.host(2);
    assert_eq!(world.visible().len(), 2);
    let before = world.store.last_commit();
    world.clock.advance_ms(60_000);
    let reply = world.reply(Command::Sweep);
    assert_eq!(reply.commit, before + 1, "both listings of the instant go under one number");
    assert_eq!(world.reply(Command::Sweep).commit, before + 1);
    assert_eq!(world.rejected(host.lease_query()), Rejection::NotFound);
    let after = world.reply(Command::Register(Box::new(world.register(1))));
    assert_eq!(after.commit, before + 2, "a transition takes its own number after that of its cleanup");
}
