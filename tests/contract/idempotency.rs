//! Section F: idempotency, for both creations.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_f1_keys_are_scoped_and_another_target_is_a_mismatch,
    rule_f2_a_duplicate_returns_the_first_result,
    rule_f2_another_fingerprint_is_a_conflict_even_after_the_end,
    rule_f2_a_rejection_is_not_remembered,
    rule_f3_a_registration_is_remembered_after_its_end,
    rule_f3_an_attempt_is_remembered_after_its_end,
    rule_f3_the_record_moves_with_every_renewal,
    case_i2_the_same_key_of_another_scope_is_independent,
    case_i4_a_refused_request_succeeds_once_there_is_room,
    case_d7_a_granted_slot_is_returned_or_freed,
);

fn again(register: &Register, id: u64) -> Command {
    // A retry draws a new id and a new token, as an edge does; the first ones count.
    let retry =
        Register { id: ListingId(register.id.0 + u128::from(id)), lease: Fingerprint(id.into()), ..register.clone() };
    Command::Register(Box::new(retry))
}

fn other_body(idempotency: Idempotency) -> Idempotency {
    Idempotency { fingerprint: Fingerprint(!idempotency.fingerprint.0), ..idempotency }
}

fn registered(outcome: Outcome) -> Registered {
    match outcome {
        Outcome::Registered(registered) => registered,
        other => panic!("{other:?}"),
    }
}

fn rule_f1_keys_are_scoped_and_another_target_is_a_mismatch<B: Backend>() {
    let world = World::<B>::new();
    let (one, two) = (world.host(1), world.host(2));
    let create = world.attempt(&one, 9);
    world.created(create.clone(), &one);
    let elsewhere = CreateAttempt { listing: two.id, idempotency: other_body(create.idempotency), ..create };
    assert_eq!(world.rejected(Command::CreateAttempt(Box::new(elsewhere))), Rejection::IdempotencyMismatch);
    assert_eq!(world.status().attempts.live, 1);
}

fn rule_f2_a_duplicate_returns_the_first_result<B: Backend>() {
    let world = World::<B>::new();
    let opening = Register { ttl: ttl(40_000), ..world.register(1) };
    let first = registered(world.ok(Command::Register(Box::new(opening.clone()))));
    let host = Host::of(&opening);
    world.present(&host, v4(1, 4_000));
    world.clock.advance_ms(30_000);
    world.ok(Command::Renew(Renew { ttl: Some(ttl(20_000)), ..host.renew(1) }));
    let before = (world.status(), world.store.last_commit());
    for id in 1..4 {
        let same = registered(world.ok(again(&opening, id)));
        assert_eq!(same, Registered { replayed: true, ..first }, "with the expires_at first returned");
    }
    assert_eq!((world.status(), world.store.last_commit()), before);
    let create = world.attempt(&host, 5);
    let attempt = world.created(create.clone(), &host);
    let retry = CreateAttempt { id: AttemptId(7), ..create };
    match world.ok(Command::CreateAttempt(Box::new(retry))) {
        Outcome::AttemptCreated(same) => {
            let expires_at = world.clock.wall_now().plus_ms(30_000);
            assert_eq!(same, AttemptCreated { id: attempt.id, listing: host.id, expires_at, replayed: true });
        }
        other => panic!("{other:?}"),
    }
}

fn rule_f2_another_fingerprint_is_a_conflict_even_after_the_end<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.registered(opening.clone());
    let other = Register { idempotency: other_body(opening.idempotency), ..opening };
    let other = Command::Register(Box::new(other));
    assert_eq!(world.rejected(other.clone()), Rejection::IdempotencyMismatch);
    world.ok(host.delete());
    assert_eq!(world.rejected(other.clone()), Rejection::IdempotencyMismatch);
    world.clock.advance_ms(300_000);
    assert_eq!(registered(world.ok(other)).id, host.id, "forgotten: the key is free again");
}

fn rule_f2_a_rejection_is_not_remembered<B: Backend>() {
    let world = World::<B>::new();
    let refused = Register { quota_per_owner: 0, ..world.register(1) };
    let quota = Rejection::CapacityExceeded(Resource::ListingsPerOwner);
    assert_eq!(world.rejected(Command::Register(Box::new(refused.clone()))), quota);
    assert_eq!(world.status().idempotency.live, 0);
    let other = Register { quota_per_owner: 1, idempotency: other_body(refused.idempotency), ..refused };
    assert!(!registered(world.ok(Command::Register(Box::new(other)))).replayed);
}

fn rule_f3_a_registration_is_remembered_after_its_end<B: Backend>() {
    // How the listing ends, and how long after its registration.
    type Ending<B> = (&'static str, u64, fn(&World<B>, &Host));
    let endings: [Ending<B>; 4] = [
        ("deleted", 1_000, |world, host| assert_eq!(world.ok(host.delete()), Outcome::Deleted)),
        ("revoked", 1_000, |world, host| {
            world.ok(revoke(Subject::Listing(host.id), 1_000, 1));
        }),
        ("never present", 30_000, |_, _| {}),
        ("expired", 60_000, |_, _| {}),
    ];
    for (how, after_ms, ending) in endings {
        let world = World::<B>::new();
        let opening = world.register(1);
        let host = world.registered(opening.clone());
        if how == "expired" {
            world.present(&host, v4(1, 4_000));
        }
        world.clock.advance_ms(after_ms);
        ending(&world, &host);
        let end = world.now();
        assert_eq!(world.rejected(again(&opening, 1)), Rejection::Expired, "{how}, at its end");
        world.clock.advance_to(MonoTime(end.plus_ms(300_000).0 - 1));
        assert_eq!(world.rejected(again(&opening, 1)), Rejection::Expired, "{how}, until the retention ends");
        assert_eq!(world.status().idempotency.live, 1);
        world.clock.advance_ns(1);
        assert_eq!(world.status().idempotency.live, 0, "{how}");
        assert!(!registered(world.ok(again(&opening, 2))).replayed, "{how}: forgotten");
    }
}

fn rule_f3_an_attempt_is_remembered_after_its_end<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
    let create = world.attempt(&host, 2);
    let attempt = world.created(create.clone(), &host);
    world.bind(&attempt, Role::Joiner, v4(2, 5_000));
    let end = world.now().plus_ms(30_000);
    // Nobody looks for a while: the retention counts from the deadline, not from the cleanup.
    world.clock.advance_to(end.plus_ms(100_000));
    assert_eq!(world.rejected(Command::CreateAttempt(Box::new(create.clone()))), Rejection::Expired);
    world.clock.advance_to(MonoTime(end.plus_ms(300_000).0 - 1));
    assert_eq!(world.rejected(Command::CreateAttempt(Box::new(create.clone()))), Rejection::Expired);
    assert_eq!(world.ended(&attempt), EndReason::Expired);
    world.clock.advance_ns(1);
    assert_eq!(world.rejected(attempt.query(attempt.joiner)), Rejection::NotFound);
    assert_eq!(world.rejected(Command::CreateAttempt(Box::new(create))), Rejection::NotFound, "its listing expired");
}

fn rule_f3_the_record_moves_with_every_renewal<B: Backend>() {
    let world = World::<B>::new();
    let opening = Register { ttl: ttl(300_000), ..world.register(1) };
    let host = world.fresh(opening.clone());
    for version in 1..=4 {
        world.clock.advance_ms(200_000);
        world.ok(Command::Renew(host.renew(version)));
        assert!(registered(world.ok(again(&opening, 1))).replayed, "long after the first retention would have ended");
    }
    world.clock.advance_ms(300_000);
    assert_eq!(world.rejected(again(&opening, 1)), Rejection::Expired);
    world.clock.advance_ms(300_000);
    assert!(!registered(world.ok(again(&opening, 1))).replayed);
}

fn case_i2_the_same_key_of_another_scope_is_independent<B: Backend>() {
    let world = World::<B>::new();
    let (one, two) = (world.register(1), world.register(2));
    // The scope is part of the key's digest, so equal caller's keys arrive as different ones; same body, other caller.
    let two =
        Register { idempotency: Idempotency { fingerprint: one.idempotency.fingerprint, ..two.idempotency }, ..two };
    world.registered(one);
    world.registered(two);
    assert_eq!((world.status().listings.live, world.status().idempotency.live), (2, 2));
}

fn case_i4_a_refused_request_succeeds_once_there_is_room<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (1, 1));
    let first = world.host(1);
    let second = world.register(2);
    let full = Rejection::CapacityExceeded(Resource::Listings);
    assert_eq!(world.rejected(Command::Register(Box::new(second.clone()))), full);
    assert_eq!(world.rejected(Command::Register(Box::new(second.clone()))), full, "still a refusal, not a replay");
    world.ok(first.delete());
    assert!(!registered(world.ok(Command::Register(Box::new(second)))).replayed);
}

fn case_d7_a_granted_slot_is_returned_or_freed<B: Backend>() {
    let world = World::<B>::with(|limits| limits.attempts = 1);
    let host = world.host(1);
    let create = world.attempt(&host, 2);
    let attempt = world.created(create.clone(), &host);
    let other = world.attempt(&host, 3);
    let full = Rejection::CapacityExceeded(Resource::Attempts);
    assert_eq!(world.rejected(Command::CreateAttempt(Box::new(other.clone()))), full);
    match world.ok(Command::CreateAttempt(Box::new(create))) {
        Outcome::AttemptCreated(same) => assert_eq!((same.id, same.replayed), (attempt.id, true)),
        unexpected => panic!("{unexpected:?}"),
    }
    world.clock.advance_ms(10_000);
    world.created(other, &host);
}
