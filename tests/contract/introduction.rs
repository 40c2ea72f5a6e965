//! Rules H3 and H4: one introduction, of bound endpoints only.

use crate::support::*;
use rendezvous::domain::*;
use std::net::SocketAddr;

contract!(
    rule_h3_not_ready_until_a_common_family_is_bound,
    rule_h3_exactly_one_consume_in_every_order,
    rule_h3_binding_and_consuming_is_one_transition,
    rule_h3_delivery_is_repeated_to_the_same_datagram,
    rule_h3_a_second_common_family_is_added_to_delivery,
    rule_h4_only_bound_endpoints_are_introduced,
    rule_h4_candidates_only_behind_one_address,
    case_p6_families_are_matched,
    case_x3_nobody_is_sent_to_an_address_that_its_owner_never_proved,
    case_p1_the_bound_address_is_introduced_whole,
);

fn introduced<B: Backend>(world: &World<B>, attempt: &Try) -> Introduction {
    match world.ok(attempt.consume()) {
        Outcome::Introduced(introduction) => *introduction,
        other => panic!("{other:?}"),
    }
}

fn pair(host: Endpoint, joiner: Endpoint) -> Pair {
    Pair { host, joiner }
}

fn pairs(introduction: &Introduction) -> Vec<Pair> {
    introduction.pairs.iter().flatten().copied().collect()
}

fn rule_h3_not_ready_until_a_common_family_is_bound<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    assert_eq!(world.rejected(attempt.consume()), Rejection::NotReady);
    world.bind(&attempt, Role::Host, v4(1, 4_000));
    assert_eq!(world.rejected(attempt.consume()), Rejection::NotReady);
    world.bind(&attempt, Role::Joiner, v6(2, 5_000));
    assert_eq!(world.rejected(attempt.consume()), Rejection::NotReady, "no family in common");
    world.bind(&attempt, Role::Joiner, v4(2, 5_000));
    let before = world.store.last_commit();
    let at = world.now();
    let introduction = introduced(&world, &attempt);
    assert_eq!(pairs(&introduction), [pair(v4(1, 4_000), v4(2, 5_000))]);
    assert_eq!((introduction.attempt, introduction.listing), (attempt.id, attempt.listing));
    assert_eq!((introduction.at, introduction.deadline), (at, at.plus_ms(30_000)));
    assert_eq!(introduction.last_bound, [v4(1, 4_000), v4(2, 5_000)]);
    assert_eq!(world.store.last_commit(), before + 1);
    for _ in 0..2 {
        assert_eq!(world.rejected(attempt.consume()), Rejection::ReplayRejected(Replay::Consumed));
    }
    let heard: Vec<Event> =
        world.observer.take().into_iter().filter(|event| matches!(event, Event::Introduced(_))).collect();
    assert_eq!(heard, [Event::Introduced(Box::new(introduction))], "told once");
}

/// Every order of two binds, a bind that consumes, and two consumes: one of them introduces, as soon as both are bound.
fn rule_h3_exactly_one_consume_in_every_order<B: Backend>() {
    let orders = permutations(&[0, 1, 2, 3, 4]);
    assert_eq!(orders.len(), 120);
    for order in orders {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        let host = attempt.bind(Role::Host, v4(1, 4_000), world.now());
        let joiner = attempt.bind(Role::Joiner, v4(2, 5_000), world.now());
        let (mut bound, mut consumed) = ([false; 2], false);
        for step in &order {
            let before = world.store_commit();
            let binds = match step {
                0 => Some((Role::Host, world.submit(Command::Bind(host)))),
                1 => Some((Role::Joiner, world.submit(Command::Bind(joiner)))),
                2 => Some((Role::Joiner, world.submit(Command::BindAndConsume(joiner)))),
                _ => None,
            };
            if let Some((role, result)) = binds {
                let repeated = std::mem::replace(&mut bound[role.index()], true);
                let introduces = *step == 2 && bound == [true; 2] && !consumed;
                consumed |= introduces;
                let Ok(Reply { outcome: Outcome::Bound(shown), commit }) = result else { panic!("{result:?}") };
                assert_eq!((shown.repeated, shown.introduction.is_some()), (repeated, consumed), "{order:?}");
                assert_eq!(commit - before, u64::from(!repeated || introduces), "{order:?}");
                continue;
            }
            let expected = match (bound, consumed) {
                ([true, true], false) => None,
                ([true, true], true) => Some(Rejection::ReplayRejected(Replay::Consumed)),
                _ => Some(Rejection::NotReady),
            };
            match expected {
                None => consumed = matches!(world.ok(attempt.consume()), Outcome::Introduced(_)),
                Some(rejection) => assert_eq!(world.rejected(attempt.consume()), rejection, "{order:?}"),
            }
        }
        let told = world.observer.take().iter().filter(|event| matches!(event, Event::Introduced(_))).count();
        assert_eq!(told, usize::from(consumed), "{order:?}");
    }
}

fn permutations(items: &[u8]) -> Vec<Vec<u8>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |position: usize| {
        let mut rest = items.to_vec();
        let first = rest.remove(position);
        permutations(&rest).into_iter().map(move |tail| [vec![first], tail].concat())
    };
    (0..items.len()).flat_map(with_first).collect()
}

fn rule_h3_binding_and_consuming_is_one_transition<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    assert_eq!(world.bind_and_consume(&attempt, Role::Joiner, v4(2, 5_000)).introduction, None);
    let before = world.store.last_commit();
    let bound = world.bind_and_consume(&attempt, Role::Host, v4(1, 4_000));
    assert_eq!(world.store.last_commit(), before + 1);
    let introduction = bound.introduction.expect("a common family is bound");
    assert_eq!(pairs(&introduction), [pair(v4(1, 4_000), v4(2, 5_000))]);
    assert_eq!(world.rejected(attempt.consume()), Rejection::ReplayRejected(Replay::Consumed));
}

fn rule_h3_delivery_is_repeated_to_the_same_datagram<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    world.bind_both(&attempt);
    let introduction = introduced(&world, &attempt);
    let before = world.store.last_commit();
    for (role, endpoint) in [(Role::Host, v4(1, 4_000)), (Role::Joiner, v4(2, 5_000))] {
        for command in [Command::Bind, Command::BindAndConsume] {
            let again = world.bound(command(attempt.bind(role, endpoint, world.now())));
            assert_eq!(again.introduction.as_deref(), Some(&introduction));
            assert!(again.repeated);
        }
    }
    assert_eq!(world.store.last_commit(), before, "delivered, not consumed again");
    let view = |side| match world.view(&attempt, side).state {
        AttemptState::Introduced { own, peers, .. } => (own, peers),
        other => panic!("{other:?}"),
    };
    assert_eq!(view(attempt.host), (vec![v4(1, 4_000)], vec![v4(2, 5_000)]));
    assert_eq!(view(attempt.joiner), (vec![v4(2, 5_000)], vec![v4(1, 4_000)]));
}

fn rule_h3_a_second_common_family_is_added_to_delivery<B: Backend>() {
    let world = World::<B>::new();
    let (_, attempt) = world.host_and_attempt();
    world.bind_both(&attempt);
    introduced(&world, &attempt);
    world.observer.take();
    let half = world.bind_and_consume(&attempt, Role::Host, v6(1, 4_000));
    assert_eq!(pairs(&half.introduction.expect("delivered")).len(), 1);
    let whole = world.bind_and_consume(&attempt, Role::Joiner, v6(2, 5_000));
    let expected = [pair(v6(1, 4_000), v6(2, 5_000)), pair(v4(1, 4_000), v4(2, 5_000))];
    assert_eq!(pairs(&whole.introduction.expect("delivered")), expected, "IPv6 first");
    let old = world.bind_and_consume(&attempt, Role::Host, v4(1, 4_000));
    assert_eq!(pairs(&old.introduction.expect("delivered")), expected, "also to the first datagram");
    let again = world.observer.take().into_iter().any(|event| matches!(event, Event::Introduced(_)));
    assert!(!again, "it only appears in answers");
}

fn rule_h4_only_bound_endpoints_are_introduced<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.present(&host, v4(1, 4_999));
    let attempt = world.joins(&host, 9);
    world.bind(&attempt, Role::Host, v4(3, 4_001));
    world.bind(&attempt, Role::Joiner, v4(2, 5_000));
    let introduction = introduced(&world, &attempt);
    let peers: Vec<Endpoint> = introduction.peers_of(Role::Joiner).collect();
    assert_eq!(peers, [v4(3, 4_001)], "the bound one, not the presence endpoint");
}

fn rule_h4_candidates_only_behind_one_address<B: Backend>() {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let declared = |text: &str| Candidates::new([address(text)]).expect("private addresses");
    for (joiner_host, expected) in [(1, true), (2, false)] {
        let world = World::<B>::new();
        let host = world.fresh(Register { candidates: declared("192.168.1.7:5000"), ..world.register(1) });
        let create = CreateAttempt { candidates: declared("10.0.0.9:6000"), ..world.attempt(&host, 9) };
        let attempt = world.created(create, &host);
        world.bind(&attempt, Role::Host, v4(1, 4_000));
        world.bind(&attempt, Role::Joiner, v4(joiner_host, 5_000));
        let introduction = introduced(&world, &attempt);
        let shown = (introduction.candidates_for(Role::Joiner), introduction.candidates_for(Role::Host));
        let (to_joiner, to_host) = ([address("192.168.1.7:5000")], [address("10.0.0.9:6000")]);
        match expected {
            true => assert_eq!(shown, (&to_joiner[..], &to_host[..])),
            false => assert_eq!(shown, (&[][..], &[][..])),
        }
    }
}

fn case_p6_families_are_matched<B: Backend>() {
    let world = World::<B>::new();
    let (host, only_v4) = world.host_and_attempt();
    for endpoint in [v4(1, 4_000), v6(1, 4_000)] {
        world.bind(&only_v4, Role::Host, endpoint);
    }
    world.bind(&only_v4, Role::Joiner, v4(2, 5_000));
    assert_eq!(pairs(&introduced(&world, &only_v4)), [pair(v4(1, 4_000), v4(2, 5_000))]);
    let apart = world.joins(&host, 8);
    world.bind(&apart, Role::Host, v6(1, 4_000));
    world.bind(&apart, Role::Joiner, v4(2, 5_000));
    world.clock.advance_ms(2_000);
    assert_eq!(world.ended(&apart), EndReason::NoCommonFamily, "it fails fast, with its own reason");
}

fn case_p1_the_bound_address_is_introduced_whole<B: Backend>() {
    let world = World::<B>::new();
    let host = world.fresh(Register { source: Some(source(5)), ..world.register(1) });
    let create = CreateAttempt { source: Some(source(6)), ..world.attempt(&host, 9) };
    let attempt = world.created(create, &host);
    world.bind_both(&attempt);
    let expected = [pair(v4(1, 4_000), v4(2, 5_000))];
    assert_eq!(pairs(&introduced(&world, &attempt)), expected, "neither HTTP source is used");
}

fn case_x3_nobody_is_sent_to_an_address_that_its_owner_never_proved<B: Backend>() {
    let world = World::<B>::new();
    let open = |owner| Register { details: details("The Real One"), ..world.register(owner) };
    let silent = world.registered(open(1));
    let create = Command::CreateAttempt(Box::new(world.attempt(&silent, 9)));
    assert_eq!(world.rejected(create), Rejection::NotFound, "no presence, no joins");
    let real = world.fresh(open(2));
    let copycat = world.fresh(open(3));
    assert_eq!(world.visible(), [real.id, copycat.id], "a name is no identity: neither disturbs the other");
    let attempt = world.joins(&real, 9);
    let foreign = Bind { listing: Some(copycat.id), ..attempt.bind(Role::Host, v4(66, 6_666), world.now()) };
    assert_eq!(world.rejected(Command::BindAndConsume(foreign)), Rejection::NotFound);
    world.bind_both(&attempt);
    assert_eq!(pairs(&introduced(&world, &attempt)), [pair(v4(1, 4_000), v4(2, 5_000))]);
}
