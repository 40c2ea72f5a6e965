//! Section H: creation, gates and ends of attempts.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_h1_only_a_fresh_listing_of_the_tenant_is_joined,
    rule_h1_the_protocol_must_match_when_given,
    rule_h1_unlisted_is_joined_by_its_id,
    rule_h1_nobody_joins_its_own_listing,
    rule_h1_the_host_hears_of_it,
    rule_h3_no_common_family_ends_after_two_seconds,
    rule_h5_every_end_leaves_a_tombstone_for_both_sides,
    rule_h5_a_tombstone_is_forgotten_with_its_record,
    rule_h5_closing_may_be_repeated,
    rule_h5_paths_are_reported_once_per_role,
    rule_h6_a_gate_waits_for_the_owner,
    rule_h6_only_the_owner_or_the_command_plane_answers,
    rule_h6_refusing_ends_the_attempt,
    rule_h6_the_gate_of_a_session_lists_who_waits_at_its_listings,
    pending_attempts_are_listed_in_order_of_creation,
    offers_are_least_delivered_first,
    case_p9_both_sides_are_told_how_it_ended,
);

/// What the gated listings of these tests are for.
const SESSION: SessionRef = SessionRef(77);

fn refused<B: Backend>(world: &World<B>, create: CreateAttempt) -> Rejection {
    world.rejected(Command::CreateAttempt(Box::new(create)))
}

fn rule_h1_only_a_fresh_listing_of_the_tenant_is_joined<B: Backend>() {
    let world = World::<B>::new();
    let unproven = world.listing(1);
    assert_eq!(refused(&world, world.attempt(&unproven, 9)), Rejection::NotFound);
    let host = world.host(2);
    let foreign = CreateAttempt { joiner: principal_of(TenantId(1), 9), ..world.attempt(&host, 9) };
    assert_eq!(refused(&world, foreign), Rejection::NotFound);
    let absent = CreateAttempt { listing: ListingId(!host.id.0), ..world.attempt(&host, 9) };
    assert_eq!(refused(&world, absent), Rejection::NotFound);
    world.joins(&host, 9);
    world.ok(host.delete());
    assert_eq!(refused(&world, world.attempt(&host, 9)), Rejection::NotFound);
    let revoked = world.host(3);
    world.ok(revoke(Subject::Principal(revoked.owner.key), 60_000, 1));
    assert_eq!(refused(&world, world.attempt(&revoked, 9)), Rejection::NotFound, "not `revoked`: the joiner is not");
}

fn rule_h1_the_protocol_must_match_when_given<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let with = |protocol: &str| CreateAttempt { protocol: Some(protocol.into()), ..world.attempt(&host, 9) };
    assert_eq!(refused(&world, with("arena/4")), Rejection::NotFound);
    world.created(with(PROTOCOL), &host);
}

fn rule_h1_unlisted_is_joined_by_its_id<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { visibility: Visibility::Unlisted, ..world.register(1) });
    assert!(world.visible().is_empty() && world.found(&host));
    world.joins(&host, 9);
}

fn rule_h1_nobody_joins_its_own_listing<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    assert_eq!(refused(&world, world.attempt(&host, 1)), Rejection::Invalid(Invalid::OwnListing));
    assert_eq!(world.status().attempts.live, 0);
}

fn rule_h1_the_host_hears_of_it<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.present(&host, v6(1, 4_600));
    world.clock.advance_ms(5);
    world.present(&host, v4(1, 4_400));
    world.observer.take();
    let attempt = world.joins(&host, 9);
    let deadline = world.now().plus_ms(30_000);
    let offer = Event::AttemptCreated { attempt: attempt.id, listing: host.id, host: v4(1, 4_400), deadline };
    assert_eq!(world.observer.take(), [offer], "at the family that was refreshed last");
}

fn rule_h3_no_common_family_ends_after_two_seconds<B: Backend>() {
    for (wait_ms, ended) in [(1_999, false), (2_000, true), (2_001, true)] {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        world.bind(&attempt, Role::Host, v6(1, 4_000));
        world.clock.advance_ms(3_000);
        world.bind(&attempt, Role::Joiner, v4(2, 5_000));
        world.clock.advance_ms(wait_ms);
        let late = Command::Bind(attempt.bind(Role::Host, v4(1, 4_000), world.now()));
        match ended {
            true => {
                assert_eq!(world.rejected(late), Rejection::Ended(EndReason::NoCommonFamily));
                assert_eq!(world.ended(&attempt), EndReason::NoCommonFamily);
            }
            false => {
                world.bound(late);
                world.clock.advance_ms(10_000);
                let both = AttemptState::Ended(EndReason::NoCommonFamily);
                assert_ne!(world.view(&attempt, attempt.joiner).state, both, "a common family came in time");
            }
        }
    }
}

/// Brings an attempt to an end; the host's listing lives for 300 s.
type Ending<B> = fn(&World<B>, &Host, &Try);

fn endings<B: Backend>() -> Vec<(EndReason, Ending<B>)> {
    vec![
        (EndReason::Done, |world, _, attempt| {
            world.bind_both(attempt);
            world.ok(attempt.consume());
            world.clock.advance_ms(30_000);
        }),
        (EndReason::Closed, |world, _, attempt| assert_eq!(world.ok(attempt.close(attempt.joiner)), Outcome::Closed)),
        (EndReason::Refused, |world, _, attempt| assert_eq!(world.ok(attempt.close(attempt.host)), Outcome::Closed)),
        (EndReason::Expired, |world, _, attempt| {
            world.bind(attempt, Role::Joiner, v4(2, 5_000));
            world.clock.advance_ms(30_000);
        }),
        (EndReason::NotBound, |world, _, attempt| {
            world.bind(attempt, Role::Host, v4(2, 5_000));
            world.clock.advance_ms(10_000);
        }),
        (EndReason::Revoked, |world, _, attempt| {
            world.ok(revoke(Subject::Principal(attempt.joiner.key), 1_000, 1));
        }),
        (EndReason::Revoked, |world, host, _| {
            world.ok(revoke(Subject::Listing(host.id), 1_000, 1));
        }),
        (EndReason::ListingGone, |world, host, _| {
            world.ok(host.delete());
        }),
        (EndReason::NoCommonFamily, |world, _, attempt| {
            world.bind(attempt, Role::Host, v6(1, 4_000));
            world.bind(attempt, Role::Joiner, v4(2, 5_000));
            world.clock.advance_ms(2_000);
        }),
    ]
}

fn ended_attempts<B: Backend>() -> Vec<(EndReason, World<B>, Host, Try)> {
    let end = |(reason, ending): (EndReason, Ending<B>)| {
        let world = World::<B>::new();
        let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
        let attempt = world.joins(&host, 9);
        ending(&world, &host, &attempt);
        (reason, world, host, attempt)
    };
    endings::<B>().into_iter().map(end).collect()
}

fn rule_h5_every_end_leaves_a_tombstone_for_both_sides<B: Backend>() {
    for (reason, world, _, attempt) in ended_attempts::<B>() {
        assert_eq!(world.status().attempts.live, 0, "{reason:?}");
        for side in [attempt.joiner, attempt.host] {
            assert_eq!(world.view(&attempt, side).state, AttemptState::Ended(reason));
        }
        for stranger in [principal(77), principal_of(TenantId(1), 9)] {
            assert_eq!(world.rejected(attempt.query(stranger)), Rejection::NotFound);
        }
        for role in [Role::Host, Role::Joiner] {
            let bind = attempt.bind(role, v4(1, 1), world.now());
            assert_eq!(world.rejected(Command::Bind(bind)), Rejection::Ended(reason));
            let guess = Bind { capability: Fingerprint(1), ..bind };
            assert_eq!(world.rejected(Command::BindAndConsume(guess)), Rejection::NotFound, "told to nobody else");
        }
        assert_eq!(world.rejected(attempt.consume()), Rejection::NotFound);
    }
}

fn rule_h5_a_tombstone_is_forgotten_with_its_record<B: Backend>() {
    for (reason, world, _, attempt) in ended_attempts::<B>() {
        world.clock.advance_ms(299_999);
        assert_eq!(world.ended(&attempt), reason);
        world.clock.advance_ms(1);
        assert_eq!(world.rejected(attempt.query(attempt.joiner)), Rejection::NotFound);
        let bind = attempt.bind(Role::Joiner, v4(1, 1), world.now());
        assert_eq!(world.rejected(Command::Bind(bind)), Rejection::NotFound);
        assert_eq!(world.rejected(attempt.close(attempt.joiner)), Rejection::NotFound);
    }
}

fn rule_h5_closing_may_be_repeated<B: Backend>() {
    for (reason, world, _, attempt) in ended_attempts::<B>() {
        let before = world.reply(Command::Sweep).commit;
        for side in [attempt.joiner, attempt.host] {
            assert_eq!(world.reply(attempt.close(side)), Reply { outcome: Outcome::Closed, commit: before });
        }
        assert_eq!(world.rejected(attempt.close(principal(77))), Rejection::NotFound);
        assert_eq!(world.ended(&attempt), reason, "the first reason stays");
    }
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    assert_eq!(world.rejected(attempt.close(principal(77))), Rejection::NotFound);
    assert_eq!(world.status().attempts.live, 1);
}

fn rule_h5_paths_are_reported_once_per_role<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    assert_eq!(world.ok(attempt.report(attempt.host, Path::Failed)), Outcome::PathReported(None));
    world.bind_both(&attempt);
    world.ok(attempt.consume());
    world.ok(attempt.close(attempt.host));
    let reported = Outcome::PathReported(Some(Family::V4));
    assert_eq!(world.ok(attempt.report(attempt.joiner, Path::Direct)), reported, "also when it has ended");
    for side in [attempt.joiner, attempt.host] {
        let twice = Rejection::ReplayRejected(Replay::Reported);
        assert_eq!(world.rejected(attempt.report(side, Path::Relayed)), twice);
    }
    assert_eq!(world.rejected(attempt.report(principal(77), Path::Direct)), Rejection::NotFound);
}

fn gated<B: Backend>() -> (World<B>, Host, Try) {
    let world = World::<B>::new();
    let host = world.fresh(Register { gate: true, session: Some(SESSION), ..world.register(1) });
    let attempt = world.joins(&host, 9);
    (world, host, attempt)
}

fn rule_h6_a_gate_waits_for_the_owner<B: Backend>() {
    let (world, host, attempt) = gated::<B>();
    assert!(world.pending(&host, 0)[0].gated);
    assert_eq!(world.bind_and_consume(&attempt, Role::Host, v4(1, 4_000)).introduction, None);
    assert_eq!(world.bind_and_consume(&attempt, Role::Joiner, v4(2, 5_000)).introduction, None, "binds are allowed");
    assert_eq!(world.rejected(attempt.consume()), Rejection::NotReady);
    let before = world.store.last_commit();
    assert_eq!(world.reply(attempt.admit(host.authority())), Reply { outcome: Outcome::Admitted, commit: before + 1 });
    assert_eq!(world.reply(attempt.admit(host.authority())), Reply { outcome: Outcome::Admitted, commit: before + 1 });
    assert!(!world.pending(&host, 0)[0].gated);
    let again = world.bind_and_consume(&attempt, Role::Joiner, v4(2, 5_000));
    assert!(again.repeated && again.introduction.is_some(), "its own datagram completes it now: {again:?}");
    assert_eq!(world.rejected(attempt.consume()), Rejection::ReplayRejected(Replay::Consumed));
}

fn rule_h6_only_the_owner_or_the_command_plane_answers<B: Backend>() {
    let (world, host, attempt) = gated::<B>();
    let strangers = [
        GateAuthority::Owner { caller: attempt.joiner, lease: host.lease },
        GateAuthority::Owner { caller: host.owner, lease: Fingerprint(1) },
        GateAuthority::CommandPlane { tenant: TenantId(1), session: SESSION },
        GateAuthority::CommandPlane { tenant: TENANT, session: SessionRef(!SESSION.0) },
    ];
    for by in strangers {
        assert_eq!(world.rejected(attempt.admit(by)), Rejection::NotFound, "{by:?}");
        assert_eq!(world.rejected(attempt.refuse(by)), Rejection::NotFound, "{by:?}");
    }
    assert_eq!(
        world.ok(attempt.admit(GateAuthority::CommandPlane { tenant: TENANT, session: SESSION })),
        Outcome::Admitted
    );
    assert_eq!(world.status().attempts.live, 1);
}

fn rule_h6_the_gate_of_a_session_lists_who_waits_at_its_listings<B: Backend>() {
    let (world, _, first) = gated::<B>();
    let waiting =
        |tenant, session, after| match world.answer(Command::Query(Query::SessionGate { tenant, session, after })) {
            Answer::Pending(pending) => pending.into_iter().map(|attempt| attempt.id).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
    let asked = world.observer.take();
    assert!(asked.contains(&Event::GateAsked { tenant: TENANT, session: SESSION }), "{asked:?}");
    let open = world.fresh(Register { session: Some(SESSION), ..world.register(2) });
    world.joins(&open, 9);
    let asked = world.observer.take();
    assert!(!asked.iter().any(|event| matches!(event, Event::GateAsked { .. })), "without a gate nobody knocks");
    let other = world.fresh(Register { gate: true, session: Some(SESSION), ..world.register(3) });
    let second = world.joins(&other, 10);
    let commit = world.store.last_commit();
    assert_eq!(waiting(TENANT, SESSION, 0), [first.id, second.id]);
    assert_eq!(waiting(TENANT, SESSION, commit - 1), [second.id]);
    assert_eq!(waiting(TENANT, SESSION, commit), []);
    assert_eq!(waiting(TenantId(1), SESSION, 0), []);
    assert_eq!(waiting(TENANT, SessionRef(1), 0), []);
    world.ok(first.admit(GateAuthority::CommandPlane { tenant: TENANT, session: SESSION }));
    assert_eq!(waiting(TENANT, SESSION, 0), [second.id], "an answered one waits no more");
    world.ok(other.delete());
    assert_eq!(waiting(TENANT, SESSION, 0), [], "the listing is gone, and its attempts with it");
}

fn rule_h6_refusing_ends_the_attempt<B: Backend>() {
    let (world, host, attempt) = gated::<B>();
    assert_eq!(world.ok(attempt.refuse(host.authority())), Outcome::Closed);
    assert_eq!(world.ended(&attempt), EndReason::Refused);
    for late in [attempt.admit(host.authority()), attempt.refuse(host.authority())] {
        assert_eq!(world.rejected(late), Rejection::NotFound);
    }
}

fn pending_attempts_are_listed_in_order_of_creation<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let created: Vec<(AttemptId, u64)> = (0..5)
        .map(|joiner| {
            let attempt = world.joins(&host, 100 - joiner);
            (attempt.id, world.store.last_commit())
        })
        .collect();
    let listed = |after| world.pending(&host, after).iter().map(|p| (p.id, p.commit)).collect::<Vec<_>>();
    assert_eq!(listed(0), created);
    assert_eq!(listed(created[1].1), created[2..]);
    assert_eq!(listed(created[4].1), []);
    let payload = CreateAttempt { payload: Some("hello".into()), ..world.attempt(&host, 50) };
    let last = world.created(payload, &host);
    let shown = world.pending(&host, created[4].1);
    let expires_at = world.clock.wall_now().plus_ms(30_000);
    let commit = world.store.last_commit();
    let expected = PendingAttempt { id: last.id, expires_at, payload: Some("hello".into()), commit, gated: false };
    assert_eq!(shown, [expected]);
    world.bind_both(&last);
    assert_eq!(world.pending(&host, created[4].1).len(), 1, "bound, but not introduced yet");
    world.ok(last.consume());
    assert!(world.pending(&host, created[4].1).is_empty());
}

fn offers_are_least_delivered_first<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let all: Vec<AttemptId> = (0..6).map(|joiner| world.joins(&host, 100 + joiner).id).collect();
    let deadline = world.now().plus_ms(30_000);
    let mut offered = Vec::new();
    for _ in 0..3 {
        let offers = world.present(&host, v4(1, 4_000)).offers;
        assert!(offers.iter().all(|offer| offer.deadline == deadline));
        assert_eq!(offers.iter().count(), OFFERS_MAX);
        offered.extend(offers.iter().map(|offer| offer.attempt));
    }
    assert!(all.iter().all(|id| offered[..8].contains(id)), "two datagrams tell of all six");
    let told = |id: &AttemptId| offered.iter().filter(|other| *other == id).count();
    assert!(
        all.iter().all(|id| told(id) == 2),
        "twelve places, twice each: {:?}",
        all.iter().map(told).collect::<Vec<_>>()
    );
}

fn case_p9_both_sides_are_told_how_it_ended<B: Backend>() {
    let world = World::<B>::new();
    let (host, attempt) = world.host_and_attempt();
    world.bind_both(&attempt);
    world.ok(attempt.consume());
    world.observer.take();
    world.ok(host.delete());
    let gone = Event::AttemptEnded { attempt: attempt.id, listing: host.id, reason: EndReason::ListingGone };
    assert!(world.observer.take().contains(&gone));
    assert_eq!(world.ended(&attempt), EndReason::ListingGone);
}
