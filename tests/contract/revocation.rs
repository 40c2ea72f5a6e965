//! Section I: revocation, and rule H7.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_i1_a_principal_goes_with_all_it_hosts_and_joins,
    rule_i1_a_listing_goes_with_its_attempts,
    rule_i1_an_unknown_subject_may_be_revoked,
    rule_i1_full_means_nothing_is_deleted,
    rule_i1_the_answer_does_not_count_the_dead,
    rule_i1_a_cascade_over_fifty_scopes_is_one_transition,
    rule_i2_a_revoked_caller_is_refused_and_to_others_not_found,
    rule_i2_another_request_extends,
    rule_i2_a_revocation_can_be_lifted,
    rule_h7_a_single_use_key_is_good_once,
    case_d2_nothing_brings_a_revoked_listing_back,
);

fn revoked<B: Backend>(world: &World<B>, command: Command) -> Revoked {
    match world.ok(command) {
        Outcome::Revoked(revoked) => revoked,
        other => panic!("{other:?}"),
    }
}

fn rule_i1_a_principal_goes_with_all_it_hosts_and_joins<B: Backend>() {
    let world = World::<B>::new();
    let (mine, other) = ([world.host(1), world.host(1)], world.host(2));
    let hosted = world.joins(&mine[0], 9);
    let (joining, kept) = (world.joins(&other, 1), world.joins(&other, 9));
    world.store.tick();
    let expires_at = world.clock.wall_now().plus_ms(5_000);
    let before = world.store_commit();
    let answer = revoked(&world, revoke(Subject::Principal(principal(1).key), 5_000, 1));
    assert_eq!(answer, Revoked { listings: 2, attempts: 2, expires_at });
    assert_eq!(world.store_commit(), before + 1);
    assert_eq!(world.browsed(), [other.id], "without any tick");
    assert!(mine.iter().all(|host| !world.found(host)));
    assert_eq!((world.ended(&hosted), world.ended(&joining)), (EndReason::Revoked, EndReason::Revoked));
    assert!(matches!(world.view(&kept, kept.joiner).state, AttemptState::Waiting { .. }));
    let status = world.status();
    assert_eq!((status.listings.live, status.presence.live, status.attempts.live), (1, 1, 1));
    assert_eq!(
        world.submit(Command::Register(Box::new(Register { quota_per_owner: 2, ..world.register(2) }))).err(),
        None
    );
}

fn rule_i1_a_listing_goes_with_its_attempts<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    let sibling = world.host(1);
    world.store.tick();
    let answer = revoked(&world, revoke(Subject::Listing(host.id), 5_000, 1));
    assert_eq!((answer.listings, answer.attempts), (1, 1));
    assert_eq!(world.browsed(), [sibling.id]);
    assert_eq!(world.ended(&attempt), EndReason::Revoked);
    world.listing(1);
    let ended: Vec<Event> = world.observer.take();
    assert!(ended.contains(&Event::ListingEnded { listing: host.id, reason: ListingEnd::Revoked }));
}

fn rule_i1_an_unknown_subject_may_be_revoked<B: Backend>() {
    let world = World::<B>::new();
    for (n, subject) in [(1, Subject::Principal(principal(1).key)), (2, Subject::Listing(ListingId(5)))] {
        let answer = revoked(&world, revoke(subject, 5_000, n));
        assert_eq!((answer.listings, answer.attempts), (0, 0));
    }
    assert_eq!(world.rejected(Command::Register(Box::new(world.register(1)))), Rejection::Revoked);
}

fn rule_i1_full_means_nothing_is_deleted<B: Backend>() {
    for full in [Resource::Revocations, Resource::Replay] {
        let world = World::<B>::with(|limits| {
            limits.revocations = if full == Resource::Revocations { 1 } else { 9 };
            limits.replay = if full == Resource::Replay { 1 } else { 9 };
        });
        let (host, attempt) = world.host_and_attempt();
        world.ok(revoke(Subject::Principal(principal(50).key), 60_000, 1));
        world.store.tick();
        for subject in [Subject::Principal(host.owner.key), Subject::Listing(host.id)] {
            assert_eq!(world.rejected(revoke(subject, 60_000, 2)), Rejection::CapacityExceeded(full));
        }
        assert_eq!(world.browsed(), [host.id]);
        assert!(matches!(world.view(&attempt, attempt.host).state, AttemptState::Waiting { .. }));
        world.joins(&host, 60);
    }
}

fn rule_i1_the_answer_does_not_count_the_dead<B: Backend>() {
    for by_listing in [true, false] {
        let world = World::<B>::new();
        // More older dead records than one transition cleans up.
        (0..700).for_each(|owner| {
            world.registered(Register { ttl: ttl(10_000), ..world.register(1_000 + owner) });
        });
        world.clock.advance_ms(1);
        let host = world.host(1);
        let dead = world.fresh(Register { ttl: ttl(10_000), ..world.register(1) });
        world.joins(&dead, 8);
        let unbound = world.joins(&host, 8);
        let alive = world.joins(&host, 9);
        world.bind(&alive, Role::Joiner, v4(2, 5_000));
        world.clock.advance_ms(10_000);
        let subject = if by_listing { Subject::Listing(host.id) } else { Subject::Principal(principal(1).key) };
        let answer = revoked(&world, revoke(subject, 5_000, 1));
        assert_eq!((answer.listings, answer.attempts), (1, 1));
        assert_eq!((world.ended(&alive), world.ended(&unbound)), (EndReason::Revoked, EndReason::NotBound));
    }
}

fn rule_i1_a_cascade_over_fifty_scopes_is_one_transition<B: Backend>() {
    let world = World::<B>::new();
    let scopes: Vec<Scope> = (0..50).map(|n| scope(&format!("game-{n}/1"))).collect();
    let mut attempts = Vec::new();
    for (n, scope) in (0_u64..).zip(&scopes) {
        for _ in 0..20 {
            world.fresh(register_in(scope.clone(), principal(1), world.number()));
        }
        let other = world.fresh(register_in(scope.clone(), principal(2), world.number()));
        attempts.push(world.joins(&other, 1));
        attempts.push(world.joins(&other, 100 + n));
    }
    world.store.tick();
    let before = world.store_commit();
    let answer = revoked(&world, revoke(Subject::Principal(principal(1).key), 5_000, 1));
    assert_eq!((answer.listings, answer.attempts), (1_000, 50));
    assert_eq!(world.store_commit(), before + 1);
    for scope in &scopes {
        let page = world.page(scope, None, 100).expect("browsing works");
        assert_eq!((page.rows.len(), page.commit), (1, before + 1), "{scope:?}");
    }
    let status = world.status();
    assert_eq!((status.listings.live, status.presence.live, status.attempts.live), (50, 50, 50));
    assert!(attempts.iter().step_by(2).all(|attempt| world.ended(attempt) == EndReason::Revoked));
}

fn rule_i2_a_revoked_caller_is_refused_and_to_others_not_found<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let (host, other) = (world.fresh(opening.clone()), world.host(2));
    let create = world.attempt(&other, 1);
    let attempt = world.created(create.clone(), &other);
    world.ok(revoke(Subject::Principal(principal(1).key), 60_000, 1));
    let refused = [
        Command::Register(Box::new(world.register(1))),
        Command::Register(Box::new(opening)),
        Command::CreateAttempt(Box::new(world.attempt(&other, 1))),
        Command::CreateAttempt(Box::new(create)),
    ];
    for command in refused {
        assert_eq!(world.rejected(command), Rejection::Revoked, "also an exact duplicate");
    }
    let absent = [
        host.lease_query(),
        host.delete(),
        Command::Renew(host.renew(1)),
        Command::Presence(presence(&host, v4(1, 4_000), 900, world.now())),
        Command::CreateAttempt(Box::new(world.attempt(&host, 7))),
        attempt.admit(host.authority()),
    ];
    for command in absent {
        assert_eq!(world.rejected(command), Rejection::NotFound);
    }
    let bind = Command::Bind(attempt.bind(Role::Joiner, v4(2, 5_000), world.now()));
    assert_eq!(world.rejected(bind), Rejection::Ended(EndReason::Revoked));
}

fn rule_i2_another_request_extends<B: Backend>() {
    let world = World::<B>::with(|limits| limits.revocations = 1);
    let subject = Subject::Principal(principal(1).key);
    let ends_in = |ms: u64| world.clock.wall_now().plus_ms(ms);
    assert_eq!(revoked(&world, revoke(subject, 10_000, 1)).expires_at, ends_in(10_000));
    world.clock.advance_ms(4_000);
    assert_eq!(revoked(&world, revoke(subject, 10_000, 2)).expires_at, ends_in(10_000), "needs no new capacity");
    assert_eq!(revoked(&world, revoke(subject, 1_000, 3)).expires_at, ends_in(10_000), "never shortens");
    assert_eq!(world.status().revocations.live, 1);
    world.clock.advance_ms(9_999);
    assert_eq!(world.rejected(Command::Register(Box::new(world.register(1)))), Rejection::Revoked);
    world.clock.advance_ms(1);
    world.listing(1);
}

fn rule_i2_a_revocation_can_be_lifted<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.fresh(opening.clone());
    let subject = Subject::Principal(principal(1).key);
    world.ok(revoke(subject, 60_000, 1));
    assert_eq!(world.ok(Command::LiftRevocation(subject)), Outcome::Lifted(true));
    assert_eq!(world.ok(Command::LiftRevocation(subject)), Outcome::Lifted(false));
    assert_eq!(world.rejected(Command::Register(Box::new(opening))), Rejection::Expired, "what went stays gone");
    assert_eq!(world.rejected(host.lease_query()), Rejection::NotFound);
    world.host(1);
}

fn rule_h7_a_single_use_key_is_good_once<B: Backend>() {
    let world = World::<B>::new();
    let used = Rejection::ReplayRejected(Replay::KeyUsed);
    let first = Subject::Principal(principal(1).key);
    world.ok(revoke(first, 60_000, 7));
    for subject in [first, Subject::Principal(principal(2).key)] {
        assert_eq!(world.rejected(revoke(subject, 60_000, 7)), used, "also for another subject");
    }
    world.ok(Command::LiftRevocation(first));
    assert_eq!(world.rejected(revoke(first, 60_000, 7)), used);
    world.listing(1);
}

fn case_d2_nothing_brings_a_revoked_listing_back<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.fresh(opening.clone());
    world.store.tick();
    world.ok(revoke(Subject::Listing(host.id), 60_000, 1));
    let _ = world.submit(Command::Renew(host.renew(1)));
    let _ = world.submit(Command::Presence(presence(&host, v4(1, 4_000), 900, world.now())));
    let replayed = world.submit(Command::Register(Box::new(opening)));
    assert_eq!(replayed, Err(Rejection::Expired.into()));
    assert!(!world.found(&host) && world.visible().is_empty());
    let next = world.host(1);
    assert_eq!(world.visible(), [next.id], "the owner itself is not revoked");
}
