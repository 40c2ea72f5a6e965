//! Rule H2: the first endpoint per role and family wins.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_h2_the_identical_datagram_is_idempotent,
    rule_h2_anything_else_for_a_bound_slot_is_rejected,
    rule_h2_a_wrong_capability_or_listing_is_not_found,
    rule_h2_each_role_and_family_has_its_own_slot,
    rule_h2_an_old_nonce_is_good_for_repetition_only,
    case_p2_both_roles_from_one_endpoint_are_refused,
    case_p8_a_port_may_be_used_again_for_the_next_attempt,
    case_s2_a_wrong_key_takes_no_slot,
    case_s4_a_retransmission_is_no_conflict,
);

const OTHER_ENDPOINT: Rejection = Rejection::ReplayRejected(Replay::OtherEndpoint);
const OTHER_DATAGRAM: Rejection = Rejection::ReplayRejected(Replay::OtherDatagram);

/// The two commands that bind.
const BINDINGS: [fn(Bind) -> Command; 2] = [Command::Bind, Command::BindAndConsume];

fn rule_h2_the_identical_datagram_is_idempotent<B: Backend>() {
    for command in BINDINGS {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        let deadline = world.now().plus_ms(30_000);
        let datagram = attempt.bind(Role::Joiner, v4(2, 5_000), world.now());
        let bound = Bound { deadline, repeated: false, introduction: None };
        assert_eq!(world.bound(command(datagram)), bound);
        let before = world.store.last_commit();
        world.clock.advance_ms(4_000);
        for _ in 0..3 {
            assert_eq!(world.bound(command(datagram)), Bound { repeated: true, ..bound.clone() });
        }
        assert_eq!(world.store.last_commit(), before);
    }
}

fn rule_h2_anything_else_for_a_bound_slot_is_rejected<B: Backend>() {
    for command in BINDINGS {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        for (role, endpoint) in [(Role::Host, v4(1, 4_000)), (Role::Joiner, v4(2, 5_000))] {
            let first = attempt.bind(role, endpoint, world.now());
            world.bound(Command::Bind(first));
            let moved = Bind { endpoint: v4(3, 6_000), ..first };
            assert_eq!(world.rejected(command(moved)), OTHER_ENDPOINT, "the same bytes from elsewhere");
            let other = Bind { datagram: Fingerprint(!first.datagram.0), ..first };
            assert_eq!(world.rejected(command(other)), OTHER_DATAGRAM);
            let both = Bind { endpoint: v4(3, 6_000), ..other };
            assert_eq!(world.rejected(command(both)), OTHER_ENDPOINT);
            assert!(world.bound(Command::Bind(first)).repeated, "the first is not disturbed");
        }
    }
}

fn rule_h2_a_wrong_capability_or_listing_is_not_found<B: Backend>() {
    for command in BINDINGS {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        let host = attempt.bind(Role::Host, v4(1, 4_000), world.now());
        let joiner = attempt.bind(Role::Joiner, v4(2, 5_000), world.now());
        let wrong = [
            Bind { capability: Fingerprint(1), ..joiner },
            Bind { capability: host.capability, ..joiner },
            Bind { capability: joiner.capability, ..host },
            Bind { listing: Some(ListingId(1)), ..host },
            Bind { attempt: AttemptId(1), ..joiner },
        ];
        for bind in wrong {
            assert_eq!(world.rejected(command(bind)), Rejection::NotFound, "{bind:?}");
        }
        world.bound(command(host));
        world.bound(command(joiner));
    }
}

fn rule_h2_each_role_and_family_has_its_own_slot<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    let all = [
        (Role::Host, v4(1, 4_000)),
        (Role::Host, v6(1, 4_000)),
        (Role::Joiner, v4(2, 5_000)),
        (Role::Joiner, v6(2, 5_000)),
    ];
    for (role, endpoint) in all {
        assert!(!world.bind(&attempt, role, endpoint).repeated, "{role:?} {endpoint:?}");
    }
    let own = |caller| match world.view(&attempt, caller).state {
        AttemptState::Waiting { mut own, .. } => {
            own.sort();
            own
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(own(attempt.host), [v4(1, 4_000), v6(1, 4_000)]);
    assert_eq!(own(attempt.joiner), [v4(2, 5_000), v6(2, 5_000)], "each side sees its own only");
}

fn rule_h2_an_old_nonce_is_good_for_repetition_only<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    let fresh = attempt.bind(Role::Joiner, v4(2, 5_000), MonoTime(world.now().0 - 119_999_000_000));
    let aged = |role, endpoint| attempt.bind(role, endpoint, MonoTime(world.now().0 - 120_000_000_000));
    assert_eq!(world.rejected(Command::Bind(aged(Role::Joiner, v4(2, 5_000)))), Rejection::StaleNonce);
    world.bound(Command::Bind(fresh));
    world.clock.advance_ms(2_000);
    assert!(world.bound(Command::Bind(fresh)).repeated, "its nonce has aged meanwhile");
    let other = Bind { datagram: Fingerprint(7), ..fresh };
    assert_eq!(world.rejected(Command::Bind(other)), OTHER_DATAGRAM, "the slot speaks before the nonce");
    let elsewhere = Bind { endpoint: v4(3, 6_000), ..fresh };
    assert_eq!(world.rejected(Command::Bind(elsewhere)), OTHER_ENDPOINT);
    assert_eq!(world.rejected(Command::Bind(aged(Role::Joiner, v6(2, 5_000)))), Rejection::StaleNonce, "a free slot");
    let same = aged(Role::Host, v4(2, 5_000));
    assert_eq!(world.rejected(Command::Bind(same)), Rejection::StaleNonce, "before same_endpoint");
}

fn case_p2_both_roles_from_one_endpoint_are_refused<B: Backend>() {
    for command in BINDINGS {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        world.bind(&attempt, Role::Host, v4(7, 1_000));
        let same = attempt.bind(Role::Joiner, v4(7, 1_000), world.now());
        assert_eq!(world.rejected(command(same)), Rejection::Invalid(Invalid::SameEndpoint));
        assert!(world.bind_and_consume(&attempt, Role::Joiner, v4(7, 2_000)).introduction.is_some());
    }
}

fn case_p8_a_port_may_be_used_again_for_the_next_attempt<B: Backend>() {
    let world = World::<B>::new();
    let (host, first) = world.host_and_attempt();
    world.bind(&first, Role::Joiner, v4(2, 5_000));
    let second = world.joins(&host, 8);
    world.bind(&second, Role::Joiner, v4(2, 5_000));
    world.ok(host.delete());
    let next = world.host(1);
    let third = world.joins(&next, 8);
    world.bind(&third, Role::Joiner, v4(2, 5_000));
    world.bind(&third, Role::Host, v4(1, 4_000));
    assert!(matches!(world.ok(third.consume()), Outcome::Introduced(_)));
}

fn case_s2_a_wrong_key_takes_no_slot<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    let squatter = Bind { capability: Fingerprint(9), ..attempt.bind(Role::Joiner, v4(66, 6_666), world.now()) };
    assert_eq!(world.rejected(Command::BindAndConsume(squatter)), Rejection::NotFound);
    world.bind(&attempt, Role::Host, v4(1, 4_000));
    let bound = world.bind_and_consume(&attempt, Role::Joiner, v4(2, 5_000));
    let introduction = bound.introduction.expect("both are bound");
    assert_eq!(introduction.peers_of(Role::Host).collect::<Vec<_>>(), [v4(2, 5_000)]);
}

fn case_s4_a_retransmission_is_no_conflict<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    let joiner = attempt.bind(Role::Joiner, v4(2, 5_000), world.now());
    let send = || world.bound(Command::BindAndConsume(joiner));
    let first = send();
    for _ in 0..2 {
        assert_eq!(send(), Bound { repeated: true, ..first.clone() });
    }
    world.bind_and_consume(&attempt, Role::Host, v4(1, 4_000));
    let commit = world.store.last_commit();
    let after = send();
    assert!(after.repeated && after.introduction.is_some(), "the new state's answer");
    for _ in 0..4 {
        assert_eq!(send(), after, "as often as it is asked");
    }
    assert_eq!(world.store.last_commit(), commit, "one state change");
    let controls = [
        (Bind { datagram: Fingerprint(1), ..joiner }, OTHER_DATAGRAM),
        (Bind { endpoint: v4(2, 5_001), ..joiner }, OTHER_ENDPOINT),
    ];
    for (control, expected) in controls {
        assert_eq!(world.rejected(Command::BindAndConsume(control)), expected);
    }
    assert_eq!(send(), after);
}
