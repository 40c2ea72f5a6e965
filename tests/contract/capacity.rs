//! Section D: ceilings, at limit - 1, limit and limit + 1, and what never counts.

use crate::support::*;
use rendezvous::domain::limits::LimitsError;
use rendezvous::domain::*;

contract!(
    rule_d_defaults_are_the_table,
    rule_d_a_configuration_that_breaks_a_promise_is_refused_at_start,
    rule_d1_listings,
    rule_d1_unproven_listings,
    rule_d1_presence,
    rule_d1_attempts,
    rule_d1_idempotency,
    rule_d1_replay,
    rule_d1_revocations,
    rule_d2_a_ceiling_changes_and_evicts_nothing,
    rule_d5_a_listing_without_presence_ends_after_its_window,
    rule_d5_an_attempt_without_its_joiner_ends_after_its_window,
    rule_c2_the_dead_of_every_pool_make_room,
    rule_c2_a_thousand_dead_listings_never_count,
    rule_c2_hundreds_of_dead_presences_attempts_and_records_never_count,
    case_l10_the_slot_of_a_dead_host_is_free_without_any_read,
    case_q1_a_mass_expiry_is_seen_at_once,
);

/// What a ceiling's number `n` of limit 3 does; returns whether it was accepted.
fn meets_its_ceiling<B: Backend>(
    world: &World<B>,
    resource: Resource,
    count: impl Fn(&Status) -> Count,
    mut command: impl FnMut(u64) -> Command,
) {
    const LIMIT: u64 = 3;
    for n in 0..LIMIT {
        world.ok(command(n));
        assert_eq!(count(&world.status()), Count { live: n as u32 + 1, ceiling: LIMIT as u32 });
    }
    let before = (world.status(), world.store.last_commit(), world.visible());
    for n in LIMIT..LIMIT + 2 {
        assert_eq!(world.rejected(command(n)), Rejection::CapacityExceeded(resource), "number {n}");
    }
    assert_eq!((world.status(), world.store.last_commit(), world.visible()), before, "nothing evicted or half done");
}

fn rule_d_defaults_are_the_table<B: Backend>() {
    let status = World::<B>::new().status();
    let ceilings = [
        (status.listings, 25_000),
        (status.unproven_listings, 12_500),
        (status.attempts, 10_000),
        (status.idempotency, 250_000),
        (status.replay, 16_384),
        (status.revocations, 4_096),
    ];
    assert!(ceilings.iter().all(|(count, ceiling)| (count.live, count.ceiling) == (0, *ceiling)), "{status:?}");
    let limits = Limits::default();
    let lease = (limits.lease_ttl.min_ms, limits.lease_ttl.default_ms, limits.lease_ttl.max_ms);
    assert_eq!(lease, (10_000, 60_000, 300_000));
    assert_eq!((limits.presence_ttl_ms, limits.attempt_ttl_ms), (65_000, 30_000));
    assert_eq!((limits.unproven_window_ms, limits.bind_window_ms), (30_000, 10_000));
    assert_eq!((limits.idempotency_retention_ms, limits.drain_window_max_ms), (300_000, 30_000));
}

fn rule_d_a_configuration_that_breaks_a_promise_is_refused_at_start<B: Backend>() {
    let opened = |change: fn(&mut Limits)| -> Result<(), LimitsError> {
        let mut limits = Limits::default();
        change(&mut limits);
        World::<B>::on(ManualClock::new(), limits, LaneShape::default()).map(|_| ())
    };
    type Change = fn(&mut Limits);
    let refused: [(Change, &str); 8] = [
        (|limits| limits.idempotency = 34_999, "limits.idempotency"),
        (|limits| limits.idempotency_retention_ms = 299_999, "idempotency.retention_ms"),
        (|limits| limits.listings = 0, "limits.listings"),
        (|limits| limits.listings = 1_000_001, "limits.listings"),
        (|limits| limits.unproven_listings = 25_001, "limits.unproven_listings"),
        (|limits| limits.attempts = 0, "limits.attempts"),
        (|limits| limits.revocations = 65_537, "limits.revocations"),
        (|limits| limits.drain_window_max_ms = 30_001, "drain.window_ms"),
    ];
    for (change, key) in refused {
        assert_eq!(opened(change).expect_err(key).key, key);
    }
    let accepted: [Change; 3] = [
        |limits| limits.idempotency = 35_000,
        |limits| limits.idempotency_retention_ms = 300_000,
        |limits| {
            (limits.listings, limits.attempts, limits.presence) = (1_000_000, 1_000_000, 2_000_000);
            limits.idempotency = 2_000_000;
        },
    ];
    accepted.into_iter().for_each(|change| assert_eq!(opened(change), Ok(())));
}

fn rule_d1_listings<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (3, 3));
    let open = |owner| Command::Register(Box::new(world.register(owner)));
    meets_its_ceiling(&world, Resource::Listings, |status| status.listings, open);
}

fn rule_d1_unproven_listings<B: Backend>() {
    let world = World::<B>::with(|limits| limits.unproven_listings = 3);
    let opened = std::cell::RefCell::new(Vec::new());
    let open = |owner| {
        let opening = world.register(owner);
        opened.borrow_mut().push(Host::of(&opening));
        Command::Register(Box::new(opening))
    };
    meets_its_ceiling(&world, Resource::UnprovenListings, |status| status.unproven_listings, open);
    let first = opened.borrow()[0].clone();
    world.present(&first, v4(1, 4_000));
    world.ok(open(9));
    assert_eq!((world.status().unproven_listings.live, world.status().listings.live), (3, 4));
}

fn rule_d1_presence<B: Backend>() {
    let world = World::<B>::with(|limits| limits.presence = 3);
    let hosts: Vec<Host> = (0..5).map(|owner| world.listing(owner)).collect();
    let beat = |n: u64| Command::Presence(presence(&hosts[n as usize], v4(1, 4_000), world.number(), world.now()));
    meets_its_ceiling(&world, Resource::Presence, |status| status.presence, beat);
    world.present(&hosts[0], v4(1, 4_001));
    let second_family = Command::Presence(presence(&hosts[0], v6(1, 4_000), world.number(), world.now()));
    assert_eq!(world.rejected(second_family.clone()), Rejection::CapacityExceeded(Resource::Presence));
    world.ok(hosts[1].delete());
    world.ok(second_family);
}

fn rule_d1_attempts<B: Backend>() {
    let world = World::<B>::with(|limits| limits.attempts = 3);
    let host = world.host(1);
    let join = |n| Command::CreateAttempt(Box::new(world.attempt(&host, 100 + n)));
    meets_its_ceiling(&world, Resource::Attempts, |status| status.attempts, join);
}

fn rule_d1_idempotency<B: Backend>() {
    // Both kinds of creation need a record; ended resources keep theirs.
    let small = |limits: &mut Limits| {
        (limits.listings, limits.unproven_listings, limits.attempts, limits.idempotency) = (2, 2, 1, 3);
    };
    let world = World::<B>::with(small);
    let gone: Vec<Host> = (0..2).map(|owner| world.host(owner)).collect();
    gone.iter().for_each(|host| assert_eq!(world.ok(host.delete()), Outcome::Deleted));
    let host = world.host(3);
    let full = Rejection::CapacityExceeded(Resource::Idempotency);
    let (open, join) = (world.register(4), world.attempt(&host, 9));
    for _ in 0..2 {
        assert_eq!(world.rejected(Command::Register(Box::new(open.clone()))), full);
        assert_eq!(world.rejected(Command::CreateAttempt(Box::new(join.clone()))), full);
    }
    assert_eq!(world.status().idempotency, Count { live: 3, ceiling: 3 });
    for version in 1..=6 {
        world.clock.advance_ms(50_000);
        world.present(&host, v4(1, 4_000));
        world.ok(Command::Renew(host.renew(version)));
    }
    world.created(join, &host);
    world.registered(open);
    assert_eq!(world.status().idempotency.live, 3, "the two records of the deleted ones have gone");
}

fn rule_d1_replay<B: Backend>() {
    let world = World::<B>::with(|limits| limits.replay = 3);
    let subject = Subject::Principal(principal(1).key);
    meets_its_ceiling(&world, Resource::Replay, |status| status.replay, |n| revoke(subject, 1_000, n));
    world.clock.advance_ms(300_000);
    world.ok(revoke(subject, 1_000, 0));
}

fn rule_d1_revocations<B: Backend>() {
    let world = World::<B>::with(|limits| limits.revocations = 3);
    let host = world.host(1_000);
    let of = |n: u64| Subject::Principal(principal(n).key);
    meets_its_ceiling(&world, Resource::Revocations, |status| status.revocations, |n| revoke(of(n), 60_000, n));
    let full = Rejection::CapacityExceeded(Resource::Revocations);
    assert_eq!(world.rejected(revoke(Subject::Listing(host.id), 60_000, 50)), full);
    assert!(world.found(&host), "full: nothing is deleted");
    world.ok(revoke(of(0), 90_000, 51));
    assert_eq!(world.ok(Command::LiftRevocation(of(1))), Outcome::Lifted(true));
    world.ok(revoke(Subject::Listing(host.id), 60_000, 50));
    assert!(!world.found(&host));
}

fn rule_d2_a_ceiling_changes_and_evicts_nothing<B: Backend>() {
    // Room for a listing but not for its record: neither is taken.
    let world = World::<B>::with(|limits| {
        (limits.listings, limits.unproven_listings, limits.attempts, limits.idempotency) = (2, 2, 2, 4);
    });
    for owner in 0..4 {
        world.ok(world.listing(owner).delete());
    }
    let opening = world.register(9);
    let refused = Rejection::CapacityExceeded(Resource::Idempotency);
    assert_eq!(world.rejected(Command::Register(Box::new(opening.clone()))), refused);
    let status = world.status();
    assert_eq!((status.listings.live, status.unproven_listings.live, status.idempotency.live), (0, 0, 4));
    assert_eq!(world.rejected(Host::of(&opening).lease_query()), Rejection::NotFound);
}

fn rule_d5_a_listing_without_presence_ends_after_its_window<B: Backend>() {
    let world = World::<B>::new();
    let (silent, proven) = (world.listing(1), world.host(2));
    world.clock.advance_ms(10_000);
    world.ok(Command::Renew(silent.renew(1)));
    world.observer.take();
    world.clock.advance_ms(19_999);
    assert_eq!(world.lease(&silent).version, 2);
    world.clock.advance_ms(1);
    assert_eq!(world.rejected(silent.lease_query()), Rejection::NotFound, "a renewal proves nothing");
    let ended = Event::ListingEnded { listing: silent.id, reason: ListingEnd::NeverPresent };
    assert_eq!(world.observer.take(), [ended]);
    assert_eq!(world.lease(&proven).presence, PresenceState::Verified);
}

fn rule_d5_an_attempt_without_its_joiner_ends_after_its_window<B: Backend>() {
    for (wait_ms, alive) in [(9_999, true), (10_000, false)] {
        let world = World::<B>::new();
        let (host, attempt) = world.host_and_attempt();
        let bound = world.joins(&host, 8);
        world.bind(&bound, Role::Joiner, v4(2, 5_000));
        world.bind(&attempt, Role::Host, v4(1, 4_000));
        world.clock.advance_ms(wait_ms);
        assert_eq!(world.status().attempts.live, 1 + u32::from(alive));
        if !alive {
            assert_eq!(world.ended(&attempt), EndReason::NotBound);
        }
    }
}

fn rule_c2_the_dead_of_every_pool_make_room<B: Backend>() {
    let small = |limits: &mut Limits| {
        (limits.listings, limits.unproven_listings, limits.presence) = (2, 2, 2);
        (limits.attempts, limits.idempotency, limits.replay, limits.revocations) = (2, 4, 2, 2);
    };
    let world = World::<B>::with(small);
    for round in 0..4 {
        let hosts: Vec<Host> = (0..2).map(|owner| world.host(10 * round + owner)).collect();
        hosts.iter().for_each(|host| {
            world.joins(host, 900 + round);
        });
        let of = |n: u64| Subject::Principal(principal(5_000 + n).key);
        (0..2).for_each(|n| {
            world.ok(revoke(of(10 * round + n), 300_000, 10 * round + n));
        });
        // Everything is dead from here on, and nobody has cleaned up.
        world.clock.advance_ms(360_000);
    }
}

fn rule_c2_a_thousand_dead_listings_never_count<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (1_000, 1_000));
    let fill = || {
        (0..1_000).for_each(|owner| {
            world.host(owner);
        });
    };
    fill();
    world.clock.advance_ms(60_000);
    let status = world.status();
    let live = [status.listings, status.unproven_listings, status.presence, status.attempts].map(|count| count.live);
    assert_eq!(live, [0; 4], "counts show no dead record, however many wait for cleanup");
    assert!(world.browsed().is_empty());
    assert_eq!(status.idempotency.live, 1_000);
    world.clock.advance_ms(300_000);
    assert_eq!(world.status().idempotency.live, 0, "nor a record that is over before its listing was cleaned up");
    fill();
    assert_eq!(world.status().listings.live, 1_000);
    let full = Rejection::CapacityExceeded(Resource::Listings);
    assert_eq!(world.rejected(Command::Register(Box::new(world.register(1)))), full);
}

fn rule_c2_hundreds_of_dead_presences_attempts_and_records_never_count<B: Backend>() {
    let world = World::<B>::with(|limits| {
        (limits.listings, limits.unproven_listings, limits.presence, limits.attempts) = (700, 700, 700, 700);
        (limits.idempotency, limits.replay, limits.revocations) = (1_400, 700, 700);
    });
    let long = |owner| Register { ttl: ttl(300_000), ..world.register(owner) };
    let hosts: Vec<Host> = (0..700).map(|owner| world.fresh(long(owner))).collect();
    let join_all = || {
        hosts.iter().for_each(|host| {
            world.joins(host, 5_000);
        });
    };
    let revoke_all = |key: u64| {
        (0..700).for_each(|n| {
            world.ok(revoke(Subject::Principal(principal(9_000 + n).key), 1_000, key + n));
        });
    };
    join_all();
    revoke_all(0);
    world.clock.advance_ms(65_000);
    let status = world.status();
    let live = [status.presence, status.attempts, status.revocations].map(|count| count.live);
    assert_eq!((status.listings.live, live), (700, [0; 3]));
    hosts.iter().for_each(|host| {
        world.present(host, v4(1, 4_000));
    });
    world.clock.advance_ms(65_000);
    hosts.iter().for_each(|host| {
        world.present(host, v6(1, 4_000));
        world.ok(Command::Renew(host.renew(1)));
    });
    assert_eq!(world.status().presence.live, 700, "the other family's presence is dead, and does not count");
    world.clock.advance_ms(180_000);
    hosts.iter().for_each(|host| {
        world.present(host, v4(1, 4_000));
    });
    revoke_all(1_000);
    join_all();
    assert_eq!(world.status().attempts.live, 700, "the records of the first attempts have run out");
}

fn case_l10_the_slot_of_a_dead_host_is_free_without_any_read<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (1, 1));
    let crashed = Register { quota_per_owner: 1, ..world.register(1) };
    let first = world.fresh(crashed);
    world.clock.advance_ms(60_000);
    let second = world.fresh(Register { quota_per_owner: 1, ..world.register(1) });
    assert_eq!(world.visible(), [second.id]);
    assert_eq!(world.rejected(first.lease_query()), Rejection::NotFound);
}

fn case_q1_a_mass_expiry_is_seen_at_once<B: Backend>() {
    let world = World::<B>::with(|limits| {
        (limits.listings, limits.unproven_listings, limits.presence) = (20_000, 20_000, 40_000);
    });
    let hosts: Vec<Host> = (0..20_000).map(|owner| world.host(owner)).collect();
    world.store.tick();
    assert_eq!(world.browsed().len(), 20_000);
    world.clock.advance_ms(60_000);
    assert!(world.browsed().is_empty(), "without any sweep");
    assert!(hosts.iter().step_by(97).all(|host| !world.found(host)));
    assert_eq!(world.status().listings.live, 0);
    let late = Command::CreateAttempt(Box::new(world.attempt(&hosts[7], 1)));
    assert_eq!(world.rejected(late), Rejection::NotFound);
    let next = world.host(1);
    world.ok(Command::Renew(next.renew(1)));
    let slices = (0..100).take_while(|_| {
        world.store.tick();
        world.store.published_commit() < world.store.last_commit()
    });
    assert!(slices.count() < 100);
    assert_eq!(world.visible(), [next.id]);
}
