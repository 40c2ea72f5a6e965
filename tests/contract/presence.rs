//! Section G and the sequence rules of the UDP exchange.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_g1_a_datagram_replaces_its_family_as_a_whole,
    rule_g1_what_is_known_outlives_the_presence_deadline,
    rule_g1_order_with_sequences,
    rule_g1_bounds_of_the_sequence,
    rule_g1_order_without_sequences,
    rule_g1_without_a_sequence_presence_ends_with_its_nonce,
    rule_g1_a_sequence_once_used_is_required_for_both_families,
    rule_g1_the_sequence_can_be_made_mandatory,
    rule_g1_one_way_refresh_keeps_pace_with_the_clock,
    rule_g1_one_way_refresh_gains_at_most_the_tolerance_in_all,
    rule_g1_an_unverified_endpoint_is_only_noted,
    rule_g2_fresh_until_the_later_family_ends,
    case_s3_a_replay_moves_and_extends_nothing,
    case_l13_presence_and_lease_are_separate,
);

const OLD: fn(u64) -> Rejection = |highest| Rejection::ReplayRejected(Replay::OldSequence { highest });

fn verified(family: Family, endpoint: Endpoint) -> EndpointView {
    EndpointView { family, endpoint, state: PresenceState::Verified }
}

fn sent(world: &World<impl Backend>, host: &Host, endpoint: Endpoint, sequence: Option<u64>) -> Presence {
    Presence { sequence, ..presence(host, endpoint, world.number(), world.now()) }
}

fn rule_g1_a_datagram_replaces_its_family_as_a_whole<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    assert_eq!(world.present(&host, v4(1, 4_000)).deadline, world.now().plus_ms(65_000));
    world.present(&host, v6(1, 4_000));
    world.present(&host, v4(2, 4_002));
    let view = world.lease(&host);
    assert_eq!((view.presence, view.version), (PresenceState::Verified, 1));
    let mut endpoints = view.endpoints;
    endpoints.sort_by_key(|known| known.family);
    assert_eq!(endpoints, [verified(Family::V4, v4(2, 4_002)), verified(Family::V6, v6(1, 4_000))]);
    assert_eq!(world.status().presence.live, 2);
}

fn rule_g1_what_is_known_outlives_the_presence_deadline<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
    let highest = 500_000;
    world.presence_ok(sent(&world, &host, v4(1, 4_000), Some(highest)));
    world.clock.advance_ms(65_000);
    let view = world.lease(&host);
    assert_eq!(view.presence, PresenceState::Stale);
    assert_eq!(view.endpoints[0].endpoint, v4(1, 4_000));
    let old = sent(&world, &host, v4(1, 4_000), Some(highest));
    assert_eq!(world.rejected(Command::Presence(old)), OLD(highest), "the sequence is remembered");
    world.presence_ok(sent(&world, &host, v4(1, 4_000), Some(highest + 1)));
    assert_eq!(world.lease(&host).presence, PresenceState::Verified);
}

fn rule_g1_order_with_sequences<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    let first = sent(&world, &host, v4(1, 4_000), Some(10));
    let deadline = world.presence_ok(first).deadline;
    world.clock.advance_ms(5_000);
    let before = world.store.last_commit();
    assert_eq!(world.presence_ok(first).deadline, deadline, "identical: the same answer, no extension");
    assert_eq!(world.store.last_commit(), before);
    for lower in [0, 9, 10] {
        let other = sent(&world, &host, v4(1, 4_000), Some(lower));
        assert_eq!(world.rejected(Command::Presence(other)), OLD(10), "{lower}");
    }
    world.presence_ok(sent(&world, &host, v4(3, 4_000), Some(11)));
    assert_eq!(world.rejected(Command::Presence(first)), OLD(11), "only the last datagram is identical");
    world.presence_ok(sent(&world, &host, v6(1, 4_000), Some(3)));
    assert_eq!(world.lease(&host).endpoints.len(), 2, "each family counts for itself");
}

fn rule_g1_bounds_of_the_sequence<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    let try_sequence =
        |endpoint, sequence| world.submit(Command::Presence(sent(&world, &host, endpoint, Some(sequence))));
    for first in [1 << 62, (1 << 62) + 1, u64::MAX] {
        assert_eq!(try_sequence(v4(1, 1), first), Err(OLD(0).into()), "{first} as a first value");
    }
    assert!(try_sequence(v4(1, 1), (1 << 62) - 1).is_ok());
    let highest = (1 << 62) - 1;
    for beyond in [highest + (1 << 40) + 1, u64::MAX] {
        assert_eq!(try_sequence(v4(1, 1), beyond), Err(OLD(highest).into()), "an advance above 2^40");
    }
    assert!(try_sequence(v4(1, 1), highest + (1 << 40)).is_ok());
    assert!(try_sequence(v6(1, 1), 0).is_ok(), "zero is a first value like another");
}

fn rule_g1_order_without_sequences<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    let at = |endpoint, issued| Presence { nonce_issued: issued, ..sent(&world, &host, endpoint, None) };
    let issued = world.now();
    world.presence_ok(at(v4(1, 4_000), issued));
    world.clock.advance_ms(10_000);
    world.presence_ok(at(v4(1, 4_000), issued));
    assert_eq!(world.rejected(Command::Presence(at(v4(2, 4_000), issued))), OLD(0), "equal, from elsewhere");
    let older = MonoTime(issued.0 - 1);
    assert_eq!(world.rejected(Command::Presence(at(v4(1, 4_000), older))), OLD(0));
    let newer = MonoTime(issued.0 + 1);
    world.presence_ok(at(v4(2, 4_000), newer));
    assert_eq!(world.lease(&host).endpoints, [verified(Family::V4, v4(2, 4_000))]);
    assert_eq!(world.rejected(Command::Presence(at(v4(2, 4_000), issued))), OLD(0));
}

fn rule_g1_without_a_sequence_presence_ends_with_its_nonce<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
    let stock = world.listing(2);
    let issued = world.now();
    let with_age = |age_ms: u64| {
        world.clock.advance_to(issued.plus_ms(age_ms));
        let datagram = Presence { nonce_issued: issued, ..sent(&world, &stock, v4(1, 4_000), None) };
        world.submit(Command::Presence(datagram)).map(|reply| reply.outcome)
    };
    for age_ms in [0, 50_000] {
        match with_age(age_ms) {
            Ok(Outcome::Present(present)) => assert_eq!(present.deadline, world.now().plus_ms(65_000)),
            other => panic!("{other:?}"),
        }
        let view = world.lease(&stock);
        world.ok(Command::Renew(Renew { ttl: Some(ttl(300_000)), ..stock.renew(view.version) }));
    }
    match with_age(119_999) {
        Ok(Outcome::Present(present)) => {
            assert_eq!(present.deadline, issued.plus_ms(119_999 + 65_000));
            assert!(present.deadline <= issued.plus_ms(185_000));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(with_age(120_000), Err(Rejection::StaleNonce.into()), "its nonce has aged");
    world.present(&host, v4(1, 4_000));
}

fn rule_g1_a_sequence_once_used_is_required_for_both_families<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    world.presence_ok(sent(&world, &host, v6(1, 4_000), None));
    world.presence_ok(sent(&world, &host, v4(1, 4_000), Some(10)));
    assert_eq!(world.rejected(Command::Presence(sent(&world, &host, v4(1, 4_000), None))), OLD(10));
    world.clock.advance_ms(1);
    assert_eq!(world.rejected(Command::Presence(sent(&world, &host, v6(1, 4_000), None))), OLD(0));
    world.presence_ok(sent(&world, &host, v6(1, 4_000), Some(1)));
}

fn rule_g1_the_sequence_can_be_made_mandatory<B: Backend>() {
    let world = World::<B>::with(|limits| limits.sequence_optional = false);
    let host = world.listing(1);
    assert_eq!(world.rejected(Command::Presence(sent(&world, &host, v4(1, 4_000), None))), OLD(0));
    world.presence_ok(sent(&world, &host, v4(1, 4_000), Some(1)));
}

/// A host that proved itself with sequence 1000 and whose nonce has aged since; the lease is long.
fn one_way_host<B: Backend>(world: &World<B>) -> (Host, MonoTime) {
    let host = world.registered(Register { ttl: ttl(300_000), ..world.register(1) });
    let anchor = world.now();
    world.presence_ok(sent(world, &host, v4(1, 4_000), Some(1_000)));
    world.clock.advance_ms(120_000);
    (host, anchor)
}

fn aged(world: &World<impl Backend>, host: &Host, endpoint: Endpoint, sequence: u64, issued: MonoTime) -> Presence {
    Presence { nonce_issued: issued, ..sent(world, host, endpoint, Some(sequence)) }
}

fn rule_g1_one_way_refresh_keeps_pace_with_the_clock<B: Backend>() {
    for (advance, accepted) in
        [(120_000, true), (110_000, true), (109_999, false), (130_000, true), (130_001, false), (0, false)]
    {
        let world = World::<B>::new();
        let (host, issued) = one_way_host(&world);
        let datagram = aged(&world, &host, v4(1, 4_000), 1_000 + advance, issued);
        let result = world.submit(Command::Presence(datagram)).map(|reply| reply.outcome);
        match result {
            Ok(Outcome::Present(present)) if accepted => {
                assert_eq!(present.deadline, world.now().plus_ms(65_000), "advance {advance}");
            }
            other => assert_eq!((other, accepted), (Err(Rejection::StaleNonce.into()), false), "advance {advance}"),
        }
    }
    let world = World::<B>::new();
    let (host, issued) = one_way_host(&world);
    for (endpoint, sequence) in [(v4(1, 4_001), 121_000), (v6(1, 4_000), 121_000)] {
        let elsewhere = aged(&world, &host, endpoint, sequence, issued);
        assert_eq!(world.rejected(Command::Presence(elsewhere)), Rejection::StaleNonce, "{endpoint:?}");
    }
    let missing = Presence { sequence: None, ..aged(&world, &host, v4(1, 4_000), 1, issued) };
    assert_eq!(world.rejected(Command::Presence(missing)), Rejection::StaleNonce);
    assert_eq!(world.lease(&host).presence, PresenceState::Stale, "refused datagrams changed nothing");
}

fn rule_g1_one_way_refresh_gains_at_most_the_tolerance_in_all<B: Backend>() {
    let world = World::<B>::new();
    let (host, issued) = one_way_host(&world);
    // Runs ahead by the whole tolerance; the anchor stays, so the next one can't gain again.
    world.presence_ok(aged(&world, &host, v4(1, 4_000), 1_000 + 130_000, issued));
    world.clock.advance_ms(10_000);
    let greedy = aged(&world, &host, v4(1, 4_000), 1_000 + 140_001, issued);
    assert_eq!(world.rejected(Command::Presence(greedy)), Rejection::StaleNonce);
    let datagram = aged(&world, &host, v4(1, 4_000), 1_000 + 140_000, issued);
    let deadline = world.presence_ok(datagram).deadline;
    world.clock.advance_ms(1_000);
    assert_eq!(world.presence_ok(datagram).deadline, deadline, "identical, although aged: the same answer");
    let lower = aged(&world, &host, v4(1, 4_000), 1_000 + 139_999, issued);
    assert_eq!(world.rejected(Command::Presence(lower)), Rejection::StaleNonce, "not greater than the highest");
}

fn rule_g1_an_unverified_endpoint_is_only_noted<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    let note = |endpoint, sequence| Command::NoteUnverified(NoteUnverified { listing: host.id, endpoint, sequence });
    assert_eq!(world.ok(note(v4(7, 7_000), 1)), Outcome::Noted);
    let view = world.lease(&host);
    assert_eq!((view.presence, view.endpoints[0].endpoint), (PresenceState::Unverified, v4(7, 7_000)));
    assert!(!world.found(&host) && world.visible().is_empty(), "not fresh by it");
    world.ok(note(v4(8, 8_000), 1));
    let view = world.lease(&host);
    let noted: Vec<Endpoint> = view.endpoints.iter().map(|known| known.endpoint).collect();
    assert_eq!(noted, [v4(8, 8_000)], "one slot, the newest");
    world.presence_ok(sent(&world, &host, v4(1, 4_000), Some(10)));
    assert_eq!(world.rejected(note(v4(9, 9_000), 10)), OLD(10));
    world.ok(note(v4(9, 9_000), 11));
    let view = world.lease(&host);
    assert_eq!(view.presence, PresenceState::Verified);
    assert!(view.endpoints.contains(&verified(Family::V4, v4(1, 4_000))), "the verified one stays: {view:?}");
    world.ok(host.delete());
    assert_eq!(world.rejected(note(v4(9, 9_000), 12)), Rejection::NotFound);
    let unproven = world.listing(2);
    let endpoint = v4(7, 7_000);
    world.ok(Command::NoteUnverified(NoteUnverified { listing: unproven.id, endpoint, sequence: 1 }));
    world.clock.advance_ms(30_000);
    assert_eq!(world.rejected(unproven.lease_query()), Rejection::NotFound, "and unproven it remains (D5)");
}

fn rule_g2_fresh_until_the_later_family_ends<B: Backend>() {
    let world = World::<B>::new();
    let host = world.registered(Register { ttl: ttl(300_000), ..world.register(1) });
    world.present(&host, v4(1, 4_000));
    world.clock.advance_ms(30_000);
    world.present(&host, v6(1, 4_000));
    world.store.tick();
    let later = world.now().plus_ms(65_000);
    world.clock.advance_to(MonoTime(later.0 - 1));
    assert!(world.found(&host) && world.browsed() == [host.id]);
    world.joins(&host, 2);
    world.clock.advance_to(later);
    assert!(!world.found(&host) && world.browsed().is_empty());
    let late = Command::CreateAttempt(Box::new(world.attempt(&host, 3)));
    assert_eq!(world.rejected(late), Rejection::NotFound, "not joinable without presence");
    assert_eq!(world.lease(&host).presence, PresenceState::Stale, "the lease goes on");
    world.present(&host, v4(1, 4_000));
    world.joins(&host, 4);
    assert_eq!(world.visible(), [host.id], "and comes back with the next datagram");
}

fn case_s3_a_replay_moves_and_extends_nothing<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
    let captured = sent(&world, &host, v4(1, 4_000), Some(20_000));
    let deadline = world.presence_ok(captured).deadline;
    for wait_ms in [100, 5_000, 30_000] {
        world.clock.advance_ms(wait_ms);
        // Whatever the answer, it must not move or extend anything.
        let _ = world.submit(Command::Presence(Presence { endpoint: v4(66, 6_666), ..captured }));
        assert_eq!(world.lease(&host).endpoints, [verified(Family::V4, v4(1, 4_000))]);
    }
    world.clock.advance_to(deadline);
    assert_eq!(world.lease(&host).presence, PresenceState::Stale);
    world.presence_ok(sent(&world, &host, v4(3, 3_333), Some(20_001)));
    assert_eq!(world.lease(&host).endpoints, [verified(Family::V4, v4(3, 3_333))], "a true rebinding moves it");
}

fn case_l13_presence_and_lease_are_separate<B: Backend>() {
    let world = World::<B>::new();
    let (beats, renews) = (world.host(1), world.host(2));
    for version in 1..=4 {
        world.clock.advance_ms(17_000);
        if world.submit(beats.lease_query()).is_ok() {
            world.present(&beats, v4(1, 4_000));
        }
        world.ok(Command::Renew(renews.renew(version)));
    }
    assert_eq!(world.rejected(beats.lease_query()), Rejection::NotFound, "datagrams alone do not renew a lease");
    let view = world.lease(&renews);
    assert_eq!((view.version, view.presence), (5, PresenceState::Stale), "renewals alone do not prove presence");
    let host = world.host(3);
    world.store.tick();
    world.clock.advance_ms(55_000);
    assert!(world.found(&host), "two lost datagrams in a row hide nobody");
}
