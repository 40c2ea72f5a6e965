//! Section E: listings and leases.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_e1_registration_yields_version_one_and_the_granted_lifetime,
    rule_e2_renewal_swaps_the_version_and_moves_the_deadline,
    rule_e2_a_renewal_without_ttl_keeps_the_last,
    rule_e2_details_and_visibility_are_replaced_as_a_whole,
    rule_e3_a_deleted_listing_is_not_renewed,
    rule_e4_deletion_takes_presence_and_attempts_and_may_be_repeated,
    rule_e4_a_deletion_is_remembered_as_long_as_its_registration,
    rule_e5_whatever_is_wrong_looks_absent,
    case_l2_a_renewed_lease_survives_its_first_deadline,
    case_l3_the_lifetime_is_never_doubled,
    case_l5_one_success_per_version,
    case_l12_no_state_is_skipped_by_expiry,
);

fn renewed<B: Backend>(world: &World<B>, renew: Renew) -> Renewed {
    match world.ok(Command::Renew(renew)) {
        Outcome::Renewed(renewed) => renewed,
        other => panic!("{other:?}"),
    }
}

fn rule_e1_registration_yields_version_one_and_the_granted_lifetime<B: Backend>() {
    let world = World::<B>::new();
    let opening = Register { ttl: ttl(20_000), ..world.register(1) };
    let expires_at = world.clock.wall_now().plus_ms(20_000);
    let host = Host::of(&opening);
    let expected = Registered { id: host.id, expires_at, ttl_ms: 20_000, replayed: false };
    assert_eq!(world.ok(Command::Register(Box::new(opening))), Outcome::Registered(expected));
    let view = world.lease(&host);
    assert_eq!((view.version, view.expires_at, view.presence), (1, expires_at, PresenceState::None));
    assert!(view.endpoints.is_empty());
    assert!(world.visible().is_empty(), "nothing is shown before presence");
}

fn rule_e2_renewal_swaps_the_version_and_moves_the_deadline<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.clock.advance_ms(10_000);
    let expires_at = world.clock.wall_now().plus_ms(30_000);
    let visibility = Visibility::Public;
    let first = renewed(&world, Renew { ttl: Some(ttl(30_000)), ..host.renew(1) });
    assert_eq!(first, Renewed { version: 2, expires_at, ttl_ms: 30_000, visibility });
    for stale in [0, 1, 3, u64::MAX] {
        let conflict = Rejection::VersionConflict { current: 2 };
        assert_eq!(world.rejected(Command::Renew(host.renew(stale))), conflict, "version {stale}");
    }
    world.clock.advance_ms(29_999);
    assert_eq!(renewed(&world, host.renew(2)).version, 3, "1 ms before the new deadline");
    world.clock.advance_ms(30_000);
    assert_eq!(world.rejected(Command::Renew(host.renew(3))), Rejection::NotFound);
}

fn rule_e2_a_renewal_without_ttl_keeps_the_last<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { ttl: ttl(15_000), ..world.register(1) });
    assert_eq!(renewed(&world, host.renew(1)).ttl_ms, 15_000);
    assert_eq!(renewed(&world, Renew { ttl: Some(ttl(45_000)), ..host.renew(2) }).ttl_ms, 45_000);
    assert_eq!(renewed(&world, host.renew(3)).ttl_ms, 45_000);
    world.store.tick();
    world.clock.advance_ms(44_999);
    assert!(world.found(&host));
    world.clock.advance_ms(1);
    assert!(!world.found(&host));
}

fn rule_e2_details_and_visibility_are_replaced_as_a_whole<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let rename = Renew { details: Some(Box::new(details("other"))), ..host.renew(1) };
    assert_eq!(renewed(&world, rename).visibility, Visibility::Public);
    world.store.tick();
    assert_eq!(world.walk(&scope(PROTOCOL), 10)[0].name(), "other");
    let hide = Renew { visibility: Some(Visibility::Unlisted), ..host.renew(2) };
    assert_eq!(renewed(&world, hide).visibility, Visibility::Unlisted);
    world.store.tick();
    assert!(world.browsed().is_empty() && world.found(&host), "unlisted: by its id only");
    assert_eq!(renewed(&world, host.renew(3)).visibility, Visibility::Unlisted, "kept when not named");
    renewed(&world, Renew { visibility: Some(Visibility::Public), ..host.renew(4) });
    world.store.tick();
    let rows = world.walk(&scope(PROTOCOL), 10);
    assert_eq!(rows.iter().map(Row::name).collect::<Vec<_>>(), ["other"], "details are kept when not given");
}

fn rule_e3_a_deleted_listing_is_not_renewed<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    assert_eq!(world.ok(host.delete()), Outcome::Deleted);
    assert_eq!(world.rejected(Command::Renew(host.renew(1))), Rejection::NotFound);
    assert!(!world.found(&host));
}

fn rule_e4_deletion_takes_presence_and_attempts_and_may_be_repeated<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    let before = world.store.last_commit();
    assert_eq!(world.reply(host.delete()).commit, before + 1, "one transition");
    let status = world.status();
    let live = [status.listings, status.unproven_listings, status.presence, status.attempts].map(|count| count.live);
    assert_eq!(live, [0; 4]);
    assert_eq!(world.ended(&attempt), EndReason::ListingGone);
    assert_eq!(world.rejected(Command::Presence(presence(&host, v4(1, 1), 900, world.now()))), Rejection::NotFound);
    assert_eq!(world.reply(host.delete()), Reply { outcome: Outcome::Deleted, commit: before + 1 });
    for proof in host.wrong_proofs() {
        assert_eq!(world.rejected(Command::Delete(Delete { proof })), Rejection::NotFound);
    }
}

fn rule_e4_a_deletion_is_remembered_as_long_as_its_registration<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.ok(host.delete());
    world.clock.advance_ms(299_999);
    assert_eq!(world.ok(host.delete()), Outcome::Deleted);
    world.clock.advance_ms(1);
    assert_eq!(world.rejected(host.delete()), Rejection::NotFound);
    let expired = world.host(1);
    world.clock.advance_ms(60_000);
    assert_eq!(world.rejected(expired.delete()), Rejection::NotFound, "it expired, nobody deleted it");
}

fn rule_e5_whatever_is_wrong_looks_absent<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let (expired, revoked) = (world.fresh(Register { ttl: ttl(10_000), ..world.register(2) }), world.host(3));
    world.ok(revoke(Subject::Listing(revoked.id), 60_000, 1));
    world.clock.advance_ms(10_000);
    let mut proofs = host.wrong_proofs().to_vec();
    proofs.extend([expired.proof(), revoked.proof()]);
    for proof in proofs {
        let renew = Renew { proof, ..host.renew(1) };
        let all = [
            Command::Renew(renew),
            Command::Renew(Renew { version: 99, ..host.renew(1) }),
            Command::Delete(Delete { proof }),
            Command::Query(Query::Lease(proof)),
            Command::Query(Query::PendingAttempts { proof, after: 0 }),
        ];
        for (position, command) in all.into_iter().enumerate() {
            let expected = match position {
                1 => Rejection::VersionConflict { current: 1 },
                _ => Rejection::NotFound,
            };
            assert_eq!(world.rejected(command), expected, "{proof:?}");
        }
    }
    let other_tenant = world.store.listing(TenantId(1), host.id, |_, _| ());
    assert_eq!(other_tenant, Err(Failure::Rejected(Rejection::NotFound)));
}

fn case_l2_a_renewed_lease_survives_its_first_deadline<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<Host> =
        (0..2_000).map(|owner| world.fresh(Register { ttl: ttl(10_000), ..world.register(owner) })).collect();
    world.clock.advance_ms(9_000);
    for host in hosts.iter().step_by(2) {
        renewed(&world, host.renew(1));
    }
    world.clock.advance_ms(1_500);
    (0..12).for_each(|_| world.store.tick());
    let expected: Vec<ListingId> = hosts.iter().step_by(2).map(|host| host.id).collect();
    assert_eq!(world.browsed(), expected);
    assert!(hosts.iter().step_by(2).all(|host| world.lease(host).version == 2));
    assert!(hosts.iter().skip(1).step_by(2).all(|host| world.rejected(host.lease_query()) == Rejection::NotFound));
}

fn case_l3_the_lifetime_is_never_doubled<B: Backend>() {
    let world = World::<B>::new();
    let short = |owner| Register { ttl: ttl(10_000), ..world.register(owner) };
    let (once, again) = (world.fresh(short(1)), world.fresh(short(2)));
    let joinable = |host: &Host| world.submit(Command::CreateAttempt(Box::new(world.attempt(host, 50)))).is_ok();
    for tenth in 0_u64..=160 {
        if tenth == 50 {
            renewed(&world, again.renew(1));
        }
        world.store.tick();
        for (host, end) in [(&once, 100), (&again, 150)] {
            let alive = tenth < end;
            assert_eq!(world.browsed().contains(&host.id), alive, "browse at {tenth} tenths");
            assert_eq!(world.found(host), alive, "by id at {tenth} tenths");
            assert_eq!(joinable(host), alive, "join at {tenth} tenths");
        }
        world.clock.advance_ms(100);
    }
}

fn case_l5_one_success_per_version<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let named = |name: &str| Renew { details: Some(Box::new(details(name))), ..host.renew(1) };
    renewed(&world, named("a"));
    let lost = Rejection::VersionConflict { current: 2 };
    assert_eq!(world.rejected(Command::Renew(named("b"))), lost);
    world.store.tick();
    assert_eq!(world.walk(&scope(PROTOCOL), 1)[0].name(), "a", "the loser overwrote nothing");
}

fn case_l12_no_state_is_skipped_by_expiry<B: Backend>() {
    let world = World::<B>::new();
    let openings = [
        world.register(1),
        Register { visibility: Visibility::Unlisted, ..world.register(2) },
        Register { gate: true, ..world.register(3) },
    ];
    let mut hosts: Vec<Host> = openings.into_iter().map(|opening| world.fresh(opening)).collect();
    let busy = world.host(4);
    let attempt = world.joins(&busy, 70);
    world.bind_both(&attempt);
    hosts.push(busy);
    for _ in 0..40 {
        world.clock.advance_ms(30_000);
        for host in &hosts {
            let version = world.lease(host).version;
            renewed(&world, host.renew(version));
            world.present(host, v4(1, 4_000));
        }
        world.store.tick();
        assert_eq!(world.browsed().len(), 3, "on time for twenty lifetimes: nobody drops out");
    }
    world.clock.advance_ms(60_000);
    assert!(hosts.iter().all(|host| world.rejected(host.lease_query()) == Rejection::NotFound));
    assert_eq!((world.status().listings.live, world.status().attempts.live), (0, 0));
}
