//! Rules C2 and C3: dead is `deadline <= now`, by comparison, at once, on every path, without any sweep.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_c2_a_lease_ends_at_its_deadline_on_every_path,
    rule_c2_presence_ends_at_its_deadline_on_every_path,
    rule_c2_an_attempt_ends_at_its_deadline_on_every_path,
    rule_c2_a_revocation_ends_at_its_deadline,
    rule_c2_a_single_use_key_ends_at_its_deadline,
    rule_c2_cleanup_goes_oldest_first_in_slices,
    rule_c2_the_dead_behind_hundreds_of_older_dead_make_room,
    rule_c2_revocations_behind_hundreds_of_older_dead_make_room,
    rule_c2_an_idle_store_cleans_up_by_its_tick,
    case_l1_a_renewal_at_the_deadline_is_true,
);

/// One nanosecond before, at, and one after.
const AROUND: [(i64, bool); 3] = [(-1, true), (0, false), (1, false)];

fn go<B: Backend>(world: &World<B>, deadline: MonoTime, off_ns: i64) {
    world.clock.advance_to(MonoTime(deadline.0.saturating_add_signed(off_ns)));
}

/// A named path on which a listing or an attempt shows whether it is alive.
type Showing<B> = (&'static str, fn(&World<B>, &Host, &Try) -> bool);

fn joinable<B: Backend>(world: &World<B>, host: &Host, _: &Try) -> bool {
    world.submit(Command::CreateAttempt(Box::new(world.attempt(host, 77)))).is_ok()
}

fn paths<B: Backend>() -> Vec<Showing<B>> {
    vec![
        ("browse", |world, host, _| world.browsed().contains(&host.id)),
        ("by id", |world, host, _| world.found(host)),
        ("join", joinable),
        ("renew", |world, host, _| world.submit(Command::Renew(host.renew(1))).is_ok()),
        ("delete", |world, host, _| world.submit(host.delete()).is_ok()),
        ("presence", |world, host, _| {
            let datagram = presence(host, v4(1, 4_000), world.number(), world.now());
            world.submit(Command::Presence(datagram)).is_ok()
        }),
        ("note", |world, host, _| {
            let note = NoteUnverified { listing: host.id, endpoint: v4(5, 5), sequence: 1 << 50 };
            world.submit(Command::NoteUnverified(note)).is_ok()
        }),
        ("lease", |world, host, _| world.submit(host.lease_query()).is_ok()),
        ("pending", |world, host, _| {
            world.submit(Command::Query(Query::PendingAttempts { proof: host.proof(), after: 0 })).is_ok()
        }),
        ("count", |world, _, _| world.status().listings.live == 1),
        ("its attempts", |world, _, attempt| world.status().attempts.live == 1 && !has_ended(world, attempt)),
        ("bind", |world, _, attempt| {
            world.submit(Command::Bind(attempt.bind(Role::Joiner, v6(2, 5_000), world.now()))).is_ok()
        }),
        ("admit", |world, host, attempt| world.submit(attempt.admit(host.authority())).is_ok()),
    ]
}

fn has_ended<B: Backend>(world: &World<B>, attempt: &Try) -> bool {
    matches!(world.view(attempt, attempt.joiner).state, AttemptState::Ended(_))
}

fn rule_c2_a_lease_ends_at_its_deadline_on_every_path<B: Backend>() {
    for (path, alive) in paths::<B>() {
        for (off_ns, expected) in AROUND {
            let world = World::<B>::new();
            let host = world.fresh(Register { ttl: ttl(25_000), ..world.register(1) });
            let deadline = world.now().plus_ms(25_000);
            let attempt = world.joins(&host, 9);
            world.bind(&attempt, Role::Joiner, v4(2, 5_000));
            world.store.tick();
            go(&world, deadline, off_ns);
            assert_eq!(alive(&world, &host, &attempt), expected, "{path} at the deadline {off_ns:+} ns");
        }
    }
}

fn rule_c2_presence_ends_at_its_deadline_on_every_path<B: Backend>() {
    let verified = |world: &World<B>, host: &Host, _: &Try| world.lease(host).presence == PresenceState::Verified;
    let counted = |world: &World<B>, _: &Host, _: &Try| world.status().presence.live == 1;
    let mut paths: Vec<Showing<B>> = paths().into_iter().take(3).collect();
    paths.extend([("lease view", verified as fn(&World<B>, &Host, &Try) -> bool), ("count", counted)]);
    for (path, alive) in paths {
        for (off_ns, expected) in AROUND {
            let world = World::<B>::new();
            let host = world.registered(Register { ttl: ttl(300_000), ..world.register(1) });
            let deadline = world.present(&host, v4(1, 4_000)).deadline;
            let attempt = world.joins(&host, 9);
            world.store.tick();
            go(&world, deadline, off_ns);
            assert_eq!(alive(&world, &host, &attempt), expected, "{path} at the deadline {off_ns:+} ns");
        }
    }
}

fn rule_c2_an_attempt_ends_at_its_deadline_on_every_path<B: Backend>() {
    let paths: [Showing<B>; 7] = [
        ("bind", |world, _, attempt| {
            world.submit(Command::Bind(attempt.bind(Role::Host, v6(1, 4_000), world.now()))).is_ok()
        }),
        ("consume", |world, _, attempt| world.submit(attempt.consume()).is_ok()),
        ("view", |world, _, attempt| !has_ended(world, attempt)),
        ("pending", |world, host, _| world.pending(host, 0).len() == 1),
        ("count", |world, _, _| world.status().attempts.live == 1),
        ("admit", |world, host, attempt| world.submit(attempt.admit(host.authority())).is_ok()),
        ("offer", |world, host, _| world.present(host, v4(1, 4_000)).offers.iter().count() == 1),
    ];
    for (path, alive) in paths {
        for (off_ns, expected) in AROUND {
            let world = World::<B>::new();
            let (host, attempt) = world.host_and_attempt();
            let deadline = world.now().plus_ms(30_000);
            world.bind(&attempt, Role::Joiner, v4(2, 5_000));
            if path == "consume" {
                world.bind(&attempt, Role::Host, v4(1, 4_000));
            }
            go(&world, deadline, off_ns);
            assert_eq!(alive(&world, &host, &attempt), expected, "{path} at the deadline {off_ns:+} ns");
        }
    }
}

fn rule_c2_a_revocation_ends_at_its_deadline<B: Backend>() {
    for (off_ns, stands) in AROUND {
        let world = World::<B>::new();
        world.ok(revoke(Subject::Principal(principal(1).key), 5_000, 1));
        go(&world, world.now().plus_ms(5_000), off_ns);
        let result = world.submit(Command::Register(Box::new(world.register(1))));
        assert_eq!(result.err(), stands.then(|| Rejection::Revoked.into()));
        assert_eq!(world.status().revocations.live, u32::from(stands));
    }
}

fn rule_c2_a_single_use_key_ends_at_its_deadline<B: Backend>() {
    for (off_ns, stands) in AROUND {
        let world = World::<B>::new();
        let again = || revoke(Subject::Principal(principal(1).key), 5_000, 1);
        world.ok(again());
        go(&world, world.now().plus_ms(300_000), off_ns);
        assert_eq!(world.status().replay.live, u32::from(stands));
        let used = Rejection::ReplayRejected(Replay::KeyUsed);
        assert_eq!(world.submit(again()).err(), stands.then(|| used.into()));
    }
}

fn rule_c2_cleanup_goes_oldest_first_in_slices<B: Backend>() {
    let world = World::<B>::new();
    let mut expected = Vec::new();
    for owner in 0..1_000 {
        expected.push(world.host(owner).id);
        world.clock.advance_ns(1);
    }
    world.observer.take();
    world.clock.advance_ms(60_000);
    world.ok(Command::Sweep);
    let ended = |events: Vec<Event>| -> Vec<ListingId> {
        let id = |event| match event {
            Event::ListingEnded { listing, reason: ListingEnd::Expired } => Some(listing),
            _ => None,
        };
        events.into_iter().filter_map(id).collect()
    };
    let first = ended(world.observer.take());
    assert!((1..=256).contains(&first.len()), "a transition removes at most 256 records, not {}", first.len());
    assert_eq!(first, expected[..first.len()], "oldest deadline first");
    (0..8).for_each(|_| world.store.tick());
    assert_eq!(ended(world.observer.take()), expected[first.len()..]);
}

/// Puts more dead records before everything that dies after one second than one transition cleans up.
fn crowd<B: Backend>(world: &World<B>) {
    (0..700).for_each(|n| {
        world.ok(revoke(Subject::Principal(principal(50_000 + n).key), 1_000, 50_000 + n));
    });
}

fn rule_c2_the_dead_behind_hundreds_of_older_dead_make_room<B: Backend>() {
    let listings = World::<B>::with(|limits| (limits.listings, limits.unproven_listings) = (1, 1));
    crowd(&listings);
    listings.registered(Register { ttl: ttl(10_000), ..listings.register(1) });
    listings.clock.advance_ms(10_000);
    listings.listing(2);

    let attempts = World::<B>::with(|limits| limits.attempts = 1);
    crowd(&attempts);
    let host = attempts.host(1);
    attempts.joins(&host, 8);
    attempts.clock.advance_ms(10_000);
    attempts.joins(&host, 9);

    let presences = World::<B>::with(|limits| limits.presence = 1);
    let first = presences.fresh(Register { ttl: ttl(300_000), ..presences.register(1) });
    presences.clock.advance_ms(60_000);
    let second = presences.listing(2);
    crowd(&presences);
    presences.clock.advance_ms(5_000);
    presences.present(&second, v4(1, 4_000));
    assert_eq!(presences.lease(&first).presence, PresenceState::Stale);

    let records = World::<B>::with(|limits| {
        (limits.listings, limits.unproven_listings, limits.attempts, limits.idempotency) = (1, 1, 1, 2);
    });
    (0..2).for_each(|owner| assert_eq!(records.ok(records.listing(owner).delete()), Outcome::Deleted));
    records.clock.advance_ms(298_000);
    crowd(&records);
    records.clock.advance_ms(2_000);
    records.listing(3);
}

fn rule_c2_revocations_behind_hundreds_of_older_dead_make_room<B: Backend>() {
    let world = World::<B>::with(|limits| (limits.revocations, limits.replay) = (1, 1));
    let subject = |n| Subject::Principal(principal(n).key);
    world.ok(revoke(subject(1), 300_000, 1));
    let openings = (0..700).map(|owner| Register { ttl: ttl(10_000), ..world.register(100 + owner) });
    openings.for_each(|opening| {
        world.registered(opening);
    });
    world.clock.advance_ms(300_000);
    world.ok(revoke(subject(2), 300_000, 2));
}

fn rule_c2_an_idle_store_cleans_up_by_its_tick<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    world.observer.take();
    world.clock.advance_ms(10_000);
    world.store.tick();
    let reason = EndReason::NotBound;
    let gone = Event::AttemptEnded { attempt: attempt.id, listing: host.id, reason };
    assert_eq!(world.observer.take(), [gone], "long polls are told although nobody calls");
    world.clock.advance_ms(50_000);
    world.store.tick();
    let gone = Event::ListingEnded { listing: host.id, reason: ListingEnd::Expired };
    assert_eq!(world.observer.take(), [gone]);
}

fn case_l1_a_renewal_at_the_deadline_is_true<B: Backend>() {
    for off_ms in -5_i64..=5 {
        let world = World::<B>::new();
        let host = world.host(1);
        world.store.tick();
        let deadline = world.now().plus_ms(60_000);
        go(&world, deadline, off_ms * 1_000_000);
        let renewed = world.submit(Command::Renew(host.renew(1)));
        assert_eq!(renewed.is_ok(), off_ms < 0, "{off_ms} ms");
        world.store.tick();
        assert_eq!(world.found(&host), off_ms < 0);
        world.clock.advance_ms(4_999 - off_ms.unsigned_abs());
        assert_eq!(world.found(&host), off_ms < 0, "visible while granted, never again when refused");
    }
}
