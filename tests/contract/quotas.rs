//! Rule D3: quotas are evaluated inside the creating transition, at limit - 1, limit and limit + 1.

use crate::support::*;
use rendezvous::domain::*;
use std::net::IpAddr;

contract!(
    rule_d3_listings_per_owner,
    rule_d3_listings_per_session,
    rule_d3_listings_per_guest_source,
    rule_d3_attempts_per_tenant,
    rule_d3_attempts_per_listing,
    rule_d3_attempts_per_principal,
    rule_d3_attempts_per_guest_source,
    rule_d3_a_source_is_an_address_or_a_64,
    rule_d3_policy_comes_with_the_command,
    rule_c2_the_dead_of_the_caller_go_first,
    rule_c2_attempts_that_died_with_their_listing_do_not_count,
    rule_h5_the_end_is_the_same_whoever_removes_the_dead,
    case_x10_the_excess_of_one_does_not_touch_others,
);

/// Accepts two, refuses the third with `resource`, accepts `other`, and the third again once `free` made room.
fn meets_its_quota<B: Backend>(
    world: &World<B>,
    resource: Resource,
    mut next: impl FnMut() -> Command,
    other: Command,
    free: Command,
) {
    world.ok(next());
    world.ok(next());
    let before = (world.status(), world.store_commit());
    let third = next();
    for _ in 0..2 {
        assert_eq!(world.rejected(third.clone()), Rejection::CapacityExceeded(resource));
    }
    assert_eq!((world.status(), world.store_commit()), before);
    world.ok(other);
    world.ok(free);
    world.ok(third);
    assert_eq!(world.rejected(next()), Rejection::CapacityExceeded(resource));
}

fn rule_d3_listings_per_owner<B: Backend>() {
    let world = World::<B>::new();
    let open = |owner| Register { quota_per_owner: 3, ..world.register(owner) };
    let first = world.registered(open(1));
    let next = || Command::Register(Box::new(open(1)));
    let other = Command::Register(Box::new(open(2)));
    meets_its_quota(&world, Resource::ListingsPerOwner, next, other, first.delete());
}

fn rule_d3_listings_per_session<B: Backend>() {
    let world = World::<B>::new();
    let open =
        |session, owner| Register { session: Some(SessionRef(session)), quota_per_owner: 3, ..world.register(owner) };
    let command = |register| Command::Register(Box::new(register));
    let first = world.registered(open(1, 1));
    meets_its_quota(&world, Resource::ListingsPerSession, || command(open(1, 1)), command(open(2, 1)), first.delete());
    let full = Rejection::CapacityExceeded(Resource::ListingsPerSession);
    assert_eq!(
        world.rejected(command(open(1, 2))),
        full,
        "whoever the owner is: the session moved, its listings stayed"
    );
    let scope = Scope::new(TenantId(1), PROTOCOL).expect("a legal protocol");
    let elsewhere = register_in(scope, principal_of(TenantId(1), 1), world.number());
    world.ok(command(Register { session: Some(SessionRef(1)), quota_per_owner: 1, ..elsewhere }));
}

fn rule_d3_listings_per_guest_source<B: Backend>() {
    let world = World::<B>::new();
    let open = |from: Option<Source>| Register { source: from, quota_per_source: 3, ..world.register(world.number()) };
    let first = world.registered(open(Some(source(1))));
    let next = || Command::Register(Box::new(open(Some(source(1)))));
    let other = Command::Register(Box::new(open(Some(source(2)))));
    meets_its_quota(&world, Resource::ListingsPerSource, next, other, first.delete());
    world.registered(open(None));
}

/// Joins with one quota of three and the others out of the way.
fn joins_with<B: Backend>(
    resource: Resource,
    quota: fn(AttemptQuota) -> AttemptQuota,
    same: fn(&World<B>, &[Host; 2]) -> CreateAttempt,
    other: fn(&World<B>, &[Host; 2]) -> CreateAttempt,
) {
    let world = World::<B>::new();
    let hosts = [world.host(1), world.host(2)];
    let bounded = |create: CreateAttempt| CreateAttempt { quota: quota(create.quota), ..create };
    let first = world.created(bounded(same(&world, &hosts)), &hosts[0]);
    let next = || Command::CreateAttempt(Box::new(bounded(same(&world, &hosts))));
    let other = Command::CreateAttempt(Box::new(bounded(other(&world, &hosts))));
    meets_its_quota(&world, resource, next, other, first.close(first.joiner));
}

fn rule_d3_attempts_per_tenant<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let elsewhere = Scope::new(TenantId(1), PROTOCOL).expect("a legal protocol");
    let far = world.fresh(register_in(elsewhere, principal_of(TenantId(1), 1), world.number()));
    let quota = AttemptQuota { per_tenant: 3, ..world.attempt(&host, 1).quota };
    let first = world.created(CreateAttempt { quota, ..world.attempt(&host, 100) }, &host);
    let next =
        || Command::CreateAttempt(Box::new(CreateAttempt { quota, ..world.attempt(&host, 100 + world.number()) }));
    let joiner = principal_of(TenantId(1), 9);
    let other = Command::CreateAttempt(Box::new(CreateAttempt { quota, ..attempt_on(&far, joiner, world.number()) }));
    meets_its_quota(&world, Resource::AttemptsPerTenant, next, other, first.close(first.joiner));
}

fn rule_d3_attempts_per_listing<B: Backend>() {
    joins_with::<B>(
        Resource::AttemptsPerListing,
        |quota| AttemptQuota { per_listing: 3, ..quota },
        |world, hosts| world.attempt(&hosts[0], 100 + world.number()),
        |world, hosts| world.attempt(&hosts[1], 100 + world.number()),
    );
}

fn rule_d3_attempts_per_principal<B: Backend>() {
    joins_with::<B>(
        Resource::AttemptsPerPrincipal,
        |quota| AttemptQuota { per_principal: 3, ..quota },
        |world, hosts| world.attempt(&hosts[0], 50),
        |world, hosts| world.attempt(&hosts[0], 51),
    );
}

fn rule_d3_attempts_per_guest_source<B: Backend>() {
    joins_with::<B>(
        Resource::AttemptsPerSource,
        |quota| AttemptQuota { per_source: 3, ..quota },
        |world, hosts| CreateAttempt { source: Some(source(1)), ..world.attempt(&hosts[0], 100 + world.number()) },
        |world, hosts| CreateAttempt { source: Some(source(2)), ..world.attempt(&hosts[0], 100 + world.number()) },
    );
}

fn rule_d3_a_source_is_an_address_or_a_64<B: Backend>() {
    let world = World::<B>::new();
    let from = |text: &str| Some(Source::of(text.parse::<IpAddr>().expect("an address")));
    let open = |address: &str| {
        let owner = world.number();
        Command::Register(Box::new(Register { source: from(address), quota_per_source: 1, ..world.register(owner) }))
    };
    world.ok(open("2001:db8:1:2::1"));
    let full = Rejection::CapacityExceeded(Resource::ListingsPerSource);
    assert_eq!(world.rejected(open("2001:db8:1:2:ffff::9")), full, "the same /64");
    world.ok(open("2001:db8:1:3::1"));
    world.ok(open("192.0.2.1"));
    assert_eq!(world.rejected(open("::ffff:192.0.2.1")), full, "a mapped address is its IPv4 address");
    world.ok(open("192.0.2.2"));
}

fn rule_d3_policy_comes_with_the_command<B: Backend>() {
    let world = World::<B>::new();
    let open = |quota| Command::Register(Box::new(Register { quota_per_owner: quota, ..world.register(1) }));
    world.ok(open(1));
    let full = Rejection::CapacityExceeded(Resource::ListingsPerOwner);
    assert_eq!(world.rejected(open(1)), full);
    world.ok(open(2));
    assert_eq!(world.rejected(open(0)), full);
}

fn rule_c2_the_dead_of_the_caller_go_first<B: Backend>() {
    // Hundreds of older dead records of others stand before the caller's own in every queue by age.
    let world = World::<B>::new();
    let open = |owner| Register { quota_per_owner: 2, source: Some(source(9)), ..world.register(owner) };
    (0..700).for_each(|owner| {
        world.listing(1_000 + owner);
    });
    world.clock.advance_ms(5);
    let of_session = || Register { session: Some(SessionRef(7)), source: None, ..open(4) };
    for _ in 0..2 {
        world.registered(Register { quota_per_source: 2, ..open(1) });
        world.registered(of_session());
    }
    let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(2) });
    let quota = AttemptQuota { per_tenant: 700, per_listing: 700, per_principal: 2, per_source: 2 };
    let join = |joiner| CreateAttempt { quota, source: Some(source(8)), ..world.attempt(&host, joiner) };
    (0..698).for_each(|joiner| {
        world.created(CreateAttempt { source: None, ..join(2_000 + joiner) }, &host);
    });
    (0..2).for_each(|_| {
        world.created(join(3), &host);
    });
    world.clock.advance_ms(30_000);
    for _ in 0..2 {
        world.registered(of_session());
    }
    for _ in 0..2 {
        world.registered(Register { quota_per_source: 2, ..open(1) });
    }
    for _ in 0..2 {
        world.created(join(3), &host);
    }
    (0..698).for_each(|joiner| {
        world.created(CreateAttempt { source: None, ..join(2_000 + joiner) }, &host);
    });
}

fn rule_c2_attempts_that_died_with_their_listing_do_not_count<B: Backend>() {
    type Quota = fn(AttemptQuota) -> AttemptQuota;
    let quotas: [(&str, Quota); 3] = [
        ("tenant", |quota| AttemptQuota { per_tenant: 1, ..quota }),
        ("principal", |quota| AttemptQuota { per_principal: 1, ..quota }),
        ("source", |quota| AttemptQuota { per_source: 1, ..quota }),
    ];
    for (which, quota) in quotas {
        let world = World::<B>::new();
        let short = |owner| Register { ttl: ttl(10_000), ..world.register(owner) };
        // More older dead records than one transition cleans up.
        (0..700).for_each(|owner| {
            world.registered(short(1_000 + owner));
        });
        let (gone, alive) = (world.fresh(short(1)), world.host(2));
        let join = |host: &Host| {
            let create = world.attempt(host, 9);
            CreateAttempt { source: Some(source(9)), quota: quota(create.quota), ..create }
        };
        let attempt = world.created(join(&gone), &gone);
        world.bind(&attempt, Role::Joiner, v4(2, 5_000));
        world.clock.advance_ms(9_999);
        assert!(world.submit(Command::CreateAttempt(Box::new(join(&alive)))).is_err(), "per {which}");
        world.clock.advance_ms(1);
        let result = world.submit(Command::CreateAttempt(Box::new(join(&alive))));
        assert!(result.is_ok(), "per {which}: an attempt whose listing is dead is dead: {result:?}");
    }
}

fn rule_h5_the_end_is_the_same_whoever_removes_the_dead<B: Backend>() {
    let world = World::<B>::new();
    let short = |owner| Register { ttl: ttl(10_000), ..world.register(owner) };
    // More older dead records than one transition cleans up, so that the quota's own cleanup comes first.
    (0..700).for_each(|owner| {
        world.registered(short(1_000 + owner));
    });
    let (gone, alive) = (world.fresh(short(1)), world.host(2));
    world.clock.advance_ms(1_000);
    let attempt = world.joins(&gone, 9);
    world.clock.advance_ms(11_000);
    let create = world.attempt(&alive, 9);
    let quota = AttemptQuota { per_principal: 1, ..create.quota };
    world.created(CreateAttempt { quota, ..create }, &alive);
    assert_eq!(world.ended(&attempt), EndReason::ListingGone, "its listing died a second before its own window did");
}

fn case_x10_the_excess_of_one_does_not_touch_others<B: Backend>() {
    let world = World::<B>::new();
    let open = |owner| Command::Register(Box::new(Register { quota_per_owner: 4, ..world.register(owner) }));
    let accepted = (0..100).filter(|_| world.submit(open(1)).is_ok()).count();
    assert_eq!(accepted, 4, "the excess only");
    (2..50).for_each(|owner| {
        world.ok(open(owner));
    });
}
