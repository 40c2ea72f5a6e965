//! Rule A4: when several rejections apply, every store answers with the first of one order. The conditions of each
//! command are set up in all combinations of up to three.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_a4_register_answers_in_order,
    rule_a4_create_attempt_answers_in_order,
    rule_a4_renew_answers_in_order,
    rule_a4_presence_answers_in_order,
    rule_a4_revoke_answers_in_order,
    rule_a4_bind_answers_in_order,
);

/// Every set of one to three of `count` conditions.
fn combinations(count: u32) -> impl Iterator<Item = Vec<usize>> {
    let members = move |mask: u32| (0..count as usize).filter(move |bit| mask >> bit & 1 == 1).collect::<Vec<_>>();
    (1_u32..1 << count).filter(|mask| mask.count_ones() <= 3).map(members)
}

/// A drain whose window is over, or one that runs.
fn drain<B: Backend>(world: &World<B>, over: bool, runs: bool) {
    if over || runs {
        world.ok(Command::Drain { window_ms: 5_000 });
    }
    if over {
        world.clock.advance_ms(5_000);
    }
}

fn other_body(idempotency: Idempotency) -> Idempotency {
    Idempotency { fingerprint: Fingerprint(!idempotency.fingerprint.0), ..idempotency }
}

fn draining<B: Backend>(world: &World<B>) -> Rejection {
    match world.store_availability() {
        rendezvous::store::Availability::Draining { deadline, wall } => Rejection::Draining { deadline, wall },
        _ => Rejection::NotFound,
    }
}

fn rule_a4_register_answers_in_order<B: Backend>() {
    const OVER: usize = 0;
    const REVOKED: usize = 1;
    const MISMATCH: usize = 2;
    const EXPIRED: usize = 3;
    const DRAINING: usize = 4;
    const OWNER: usize = 5;
    const SOURCE: usize = 6;
    const LISTINGS: usize = 7;
    const UNPROVEN: usize = 8;
    const RECORDS: usize = 9;
    for set in combinations(10) {
        let on = |condition| set.contains(&condition);
        // One proven and one unproven listing live, eight records of deleted ones remain.
        let world = World::<B>::with(|limits| {
            limits.attempts = 1;
            limits.listings = if on(LISTINGS) { 2 } else { 5 };
            limits.unproven_listings = if on(UNPROVEN) { 1 } else { 2 };
            limits.idempotency = if on(RECORDS) { 10 } else { 1_000 };
        });
        let deleted: Vec<Register> = (0..8).map(|owner| world.register(100 + owner)).collect();
        for opening in &deleted {
            let host = world.registered(opening.clone());
            world.ok(host.delete());
        }
        world.host(200);
        world.listing(201);
        let mut asked = world.register(1);
        if on(EXPIRED) || on(MISMATCH) {
            asked.idempotency = deleted[0].idempotency;
        }
        if on(MISMATCH) {
            asked.idempotency = other_body(asked.idempotency);
        }
        asked.quota_per_owner = if on(OWNER) { 0 } else { 1 };
        asked.source = Some(source(1));
        asked.quota_per_source = if on(SOURCE) { 0 } else { 1 };
        if on(REVOKED) {
            world.ok(revoke(Subject::Principal(asked.owner.key), 60_000, 1));
        }
        drain(&world, on(OVER), on(DRAINING));
        let expected = match set[0] {
            OVER | DRAINING => draining(&world),
            REVOKED => Rejection::Revoked,
            MISMATCH => Rejection::IdempotencyMismatch,
            EXPIRED => Rejection::Expired,
            OWNER => Rejection::CapacityExceeded(Resource::ListingsPerOwner),
            SOURCE => Rejection::CapacityExceeded(Resource::ListingsPerSource),
            LISTINGS => Rejection::CapacityExceeded(Resource::Listings),
            UNPROVEN => Rejection::CapacityExceeded(Resource::UnprovenListings),
            _ => Rejection::CapacityExceeded(Resource::Idempotency),
        };
        assert_eq!(world.rejected(Command::Register(Box::new(asked))), expected, "conditions {set:?}");
    }
}

fn rule_a4_create_attempt_answers_in_order<B: Backend>() {
    const OVER: usize = 0;
    const REVOKED: usize = 1;
    const MISMATCH: usize = 2;
    const EXPIRED: usize = 3;
    const DRAINING: usize = 4;
    const ABSENT: usize = 5;
    const OWN: usize = 6;
    const TENANT: usize = 7;
    const LISTING: usize = 8;
    const PRINCIPAL: usize = 9;
    const SOURCE: usize = 10;
    const ATTEMPTS: usize = 11;
    const RECORDS: usize = 12;
    for set in combinations(13) {
        let on = |condition| set.contains(&condition);
        // One attempt lives, four closed ones and the listing have records.
        let world = World::<B>::with(|limits| {
            (limits.listings, limits.unproven_listings) = (2, 2);
            limits.attempts = if on(ATTEMPTS) { 1 } else { 4 };
            limits.idempotency = if on(RECORDS) { 6 } else { 1_000 };
        });
        let host = world.host(1);
        let closed: Vec<CreateAttempt> = (0..4).map(|joiner| world.attempt(&host, 100 + joiner)).collect();
        for create in &closed {
            let attempt = world.created(create.clone(), &host);
            world.ok(attempt.close(attempt.joiner));
        }
        world.joins(&host, 200);
        let mut asked = world.attempt(&host, if on(OWN) { 1 } else { 9 });
        if on(EXPIRED) || on(MISMATCH) {
            asked.idempotency = closed[0].idempotency;
        }
        if on(MISMATCH) {
            asked.idempotency = other_body(asked.idempotency);
        }
        asked.protocol = on(ABSENT).then(|| "other".into());
        asked.source = Some(source(1));
        asked.quota = AttemptQuota {
            per_tenant: if on(TENANT) { 1 } else { 2 },
            per_listing: if on(LISTING) { 1 } else { 2 },
            per_principal: u32::from(!on(PRINCIPAL)),
            per_source: u32::from(!on(SOURCE)),
        };
        if on(REVOKED) {
            world.ok(revoke(Subject::Principal(asked.joiner.key), 60_000, 1));
        }
        drain(&world, on(OVER), on(DRAINING));
        let expected = match set[0] {
            OVER | DRAINING => draining(&world),
            REVOKED => Rejection::Revoked,
            MISMATCH => Rejection::IdempotencyMismatch,
            EXPIRED => Rejection::Expired,
            ABSENT => Rejection::NotFound,
            OWN => Rejection::Invalid(Invalid::OwnListing),
            TENANT => Rejection::CapacityExceeded(Resource::AttemptsPerTenant),
            LISTING => Rejection::CapacityExceeded(Resource::AttemptsPerListing),
            PRINCIPAL => Rejection::CapacityExceeded(Resource::AttemptsPerPrincipal),
            SOURCE => Rejection::CapacityExceeded(Resource::AttemptsPerSource),
            ATTEMPTS => Rejection::CapacityExceeded(Resource::Attempts),
            _ => Rejection::CapacityExceeded(Resource::Idempotency),
        };
        assert_eq!(world.rejected(Command::CreateAttempt(Box::new(asked))), expected, "conditions {set:?}");
    }
}

fn rule_a4_renew_answers_in_order<B: Backend>() {
    for set in combinations(5) {
        let on = |condition| set.contains(&condition);
        let world = World::<B>::new();
        let host = world.host(1);
        drain(&world, on(0), on(1));
        let mut renew = host.renew(if on(4) { 9 } else { 1 });
        if on(2) {
            renew.proof.caller = principal(9);
        }
        if on(3) {
            renew.proof.lease = Fingerprint(1);
        }
        let expected = match set[0] {
            0 | 1 => draining(&world),
            2 | 3 => Rejection::NotFound,
            _ => Rejection::VersionConflict { current: 1 },
        };
        assert_eq!(world.rejected(Command::Renew(renew)), expected, "conditions {set:?}");
    }
}

fn rule_a4_presence_answers_in_order<B: Backend>() {
    for set in combinations(5) {
        let on = |condition| set.contains(&condition);
        let world = World::<B>::with(|limits| limits.presence = 2);
        let host = world.host(1);
        if on(4) {
            world.present(&host, v6(1, 4_000));
        }
        let (sequence, other) = (if on(3) { 1 << 62 } else { 5_000 }, world.listing(2));
        let target = if on(1) { ListingId(1) } else { other.id };
        let age_ms = if on(2) { 120_000 } else { 0 };
        drain(&world, on(0), false);
        let datagram = Presence {
            listing: target,
            sequence: Some(sequence),
            nonce_issued: MonoTime(world.now().0 - age_ms * 1_000_000),
            ..presence(&other, v4(2, 4_000), world.number(), world.now())
        };
        let expected = match set[0] {
            0 => draining(&world),
            1 => Rejection::NotFound,
            2 => Rejection::StaleNonce,
            3 => Rejection::ReplayRejected(Replay::OldSequence { highest: 0 }),
            _ => Rejection::CapacityExceeded(Resource::Presence),
        };
        assert_eq!(world.rejected(Command::Presence(datagram)), expected, "conditions {set:?}");
    }
}

fn rule_a4_revoke_answers_in_order<B: Backend>() {
    for set in combinations(4) {
        let on = |condition| set.contains(&condition);
        let world = World::<B>::with(|limits| {
            limits.revocations = if on(2) { 1 } else { 4 };
            limits.replay = if on(3) { 1 } else { 4 };
        });
        world.ok(revoke(Subject::Principal(principal(1).key), 60_000, 1));
        drain(&world, on(0), false);
        let again = revoke(Subject::Principal(principal(2).key), 60_000, if on(1) { 1 } else { 2 });
        let expected = match set[0] {
            0 => draining(&world),
            1 => Rejection::ReplayRejected(Replay::KeyUsed),
            2 => Rejection::CapacityExceeded(Resource::Revocations),
            _ => Rejection::CapacityExceeded(Resource::Replay),
        };
        assert_eq!(world.rejected(again), expected, "conditions {set:?}");
    }
}

fn rule_a4_bind_answers_in_order<B: Backend>() {
    // Drained, wrong capability, ended, then what a bound slot says; a free slot is in `binding.rs`.
    for set in combinations(6) {
        let on = |condition| set.contains(&condition);
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        let first = attempt.bind(Role::Joiner, v4(2, 5_000), world.now());
        world.bound(Command::Bind(first));
        if on(2) {
            world.ok(attempt.close(attempt.host));
        }
        drain(&world, on(0), false);
        let mut bind = first;
        if on(1) {
            bind.capability = Fingerprint(1);
        }
        if on(3) {
            bind.endpoint = v4(3, 6_000);
        }
        if on(4) {
            bind.datagram = Fingerprint(1);
        }
        if on(5) {
            bind.nonce_issued = MonoTime(world.now().0 - 120_000_000_000);
        }
        let expected = match set[0] {
            0 => draining(&world),
            1 => Rejection::NotFound,
            2 => Rejection::Ended(EndReason::Refused),
            3 => Rejection::ReplayRejected(Replay::OtherEndpoint),
            4 => Rejection::ReplayRejected(Replay::OtherDatagram),
            _ => {
                assert!(world.bound(Command::Bind(bind)).repeated, "identical, but for its nonce's age");
                continue;
            }
        };
        assert_eq!(world.rejected(Command::Bind(bind)), expected, "conditions {set:?}");
    }
}
