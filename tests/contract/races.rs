//! Real threads against one store. No test sleeps: threads start at a barrier and end when their work is done.

use crate::support::*;
use rendezvous::domain::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

contract!(
    rule_a2_numbers_are_unique_and_without_gaps_under_contention,
    rule_d3_a_quota_holds_under_contention,
    rule_e3_a_renewal_commits_before_the_deletion_or_not_at_all,
    rule_h2_one_endpoint_wins_the_slot,
    rule_h3_one_consume_over_all_callers,
    rule_j1_everybody_is_answered_when_the_store_dies,
    rule_j2_nothing_new_after_the_drain_was_acknowledged,
    case_i1_one_creation_under_one_key,
    case_l5_fifty_renewals_of_one_version,
    case_q7_mixed_operations_do_not_stall,
);

fn rule_a2_numbers_are_unique_and_without_gaps_under_contention<B: Backend>() {
    let world = World::<B>::new();
    let numbers = together(4, |thread| {
        let mut commits = Vec::new();
        for _ in 0..500 {
            let opening = world.register(thread as u64);
            let host = Host::of(&opening);
            let datagram = presence(&host, v4(1, 4_000), world.number(), world.now());
            for command in [
                Command::Register(Box::new(opening)),
                Command::Presence(datagram),
                Command::Renew(host.renew(1)),
                host.delete(),
            ] {
                commits.push(world.reply(command).commit);
            }
            assert_eq!(world.rejected(Command::Renew(host.renew(2))), Rejection::NotFound);
        }
        assert!(commits.windows(2).all(|pair| pair[0] < pair[1]), "in the caller's order");
        commits
    });
    let all: BTreeSet<u64> = numbers.into_iter().flatten().collect();
    assert_eq!(all, (1..=8_000).collect());
    assert_eq!(world.store.last_commit(), 8_000);
}

fn rule_d3_a_quota_holds_under_contention<B: Backend>() {
    for _ in 0..50 {
        let world = World::<B>::new();
        let accepted = together(8, |_| {
            let open = || Register { quota_per_owner: 4, ..world.register(1) };
            (0..4).filter(|_| world.submit(Command::Register(Box::new(open()))).is_ok()).count()
        });
        assert_eq!(accepted.iter().sum::<usize>(), 4);
        assert_eq!(world.status().listings.live, 4);
    }
}

fn rule_e3_a_renewal_commits_before_the_deletion_or_not_at_all<B: Backend>() {
    for round in 0..500 {
        let world = World::<B>::new();
        let host = world.host(round);
        let results = together(3, |thread| match thread {
            0 => world.submit(Command::Renew(host.renew(1))),
            1 => world.submit(host.delete()),
            _ => {
                world.store.tick();
                world.submit(Command::Sweep)
            }
        });
        let deleted = results[1].as_ref().expect("the deletion is accepted").commit;
        match &results[0] {
            Ok(renewed) => assert!(renewed.commit < deleted, "renewed after its deletion"),
            Err(failure) => assert_eq!(*failure, Rejection::NotFound.into()),
        }
        assert!(!world.found(&host) && world.browsed().is_empty());
        assert_eq!(world.rejected(host.lease_query()), Rejection::NotFound);
    }
}

fn rule_h2_one_endpoint_wins_the_slot<B: Backend>() {
    for _ in 0..200 {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        let results = together(4, |thread| {
            let endpoint = v4(2, 5_000 + thread as u16);
            world.submit(Command::BindAndConsume(attempt.bind(Role::Joiner, endpoint, world.now())))
        });
        let lost = Err(Rejection::ReplayRejected(Replay::OtherEndpoint).into());
        assert_eq!(results.iter().filter(|result| **result == lost).count(), 3, "{results:?}");
        let winner = results.iter().position(Result::is_ok).expect("one wins");
        let AttemptState::Waiting { own, .. } = world.view(&attempt, attempt.joiner).state else { panic!() };
        assert_eq!(own, [v4(2, 5_000 + winner as u16)]);
    }
}

fn rule_h3_one_consume_over_all_callers<B: Backend>() {
    for _ in 0..200 {
        let world = World::<B>::new();
        let (_, attempt) = world.host_and_attempt();
        world.bind(&attempt, Role::Host, v4(1, 4_000));
        let (first, late) = (v4(2, 5_000), v6(9, 9_000));
        let results = together(6, |thread| match thread {
            0 | 1 => world.submit(Command::Bind(attempt.bind(Role::Joiner, first, world.now()))),
            2 => world.submit(Command::Bind(attempt.bind(Role::Host, late, world.now()))),
            _ => world.submit(attempt.consume()),
        });
        let mut introduced =
            results.iter().filter(|result| matches!(result, Ok(Reply { outcome: Outcome::Introduced(_), .. }))).count();
        for result in &results {
            let expected = match result {
                Ok(_) => true,
                Err(Failure::Rejected(Rejection::NotReady)) => true,
                Err(Failure::Rejected(Rejection::ReplayRejected(Replay::Consumed))) => introduced == 1,
                Err(_) => false,
            };
            assert!(expected, "{result:?}");
        }
        introduced += usize::from(world.submit(attempt.consume()).is_ok());
        assert_eq!(introduced, 1, "{results:?}");
        let told = world.observer.take().iter().filter(|event| matches!(event, Event::Introduced(_))).count();
        assert_eq!(told, 1);
    }
}

fn rule_j1_everybody_is_answered_when_the_store_dies<B: Backend>() {
    for _ in 0..20 {
        let world = World::<B>::new();
        let hosts: Vec<Host> = (0..4).map(|owner| world.host(owner)).collect();
        let answered = AtomicUsize::new(0);
        together(4, |thread| {
            let mut version = 1;
            loop {
                if thread == 3 && version == 50 {
                    world.clock.panic_next();
                }
                let result = world.submit(Command::Renew(hosts[thread].renew(version)));
                answered.fetch_add(1, Ordering::Relaxed);
                match result {
                    Ok(_) => {
                        version += 1;
                        assert!(version < 1_000_000, "the store goes on after a panic");
                    }
                    Err(Failure::Unavailable(_)) => break,
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        assert!(answered.load(Ordering::Relaxed) >= 50);
        let after = world.submit(Command::Sweep);
        assert_eq!(after, Err(Failure::Unavailable(Certainty::NotApplied)), "for ever");
    }
}

fn rule_j2_nothing_new_after_the_drain_was_acknowledged<B: Backend>() {
    for _ in 0..50 {
        let world = World::<B>::new();
        let (acknowledged, over) = (AtomicBool::new(false), AtomicBool::new(false));
        together(3, |thread| {
            if thread == 0 {
                let _over = Raise(&over);
                (0..20).for_each(|owner| {
                    world.submit(Command::Register(Box::new(world.register(owner)))).ok();
                });
                world.ok(Command::Drain { window_ms: 10_000 });
                acknowledged.store(true, Ordering::SeqCst);
                return;
            }
            while acknowledged.load(Ordering::SeqCst) || !over.load(Ordering::SeqCst) {
                let began_after = acknowledged.load(Ordering::SeqCst);
                let result = world.submit(Command::Register(Box::new(world.register(9))));
                if began_after {
                    assert!(matches!(result, Err(Failure::Rejected(Rejection::Draining { .. }))), "{result:?}");
                    return;
                }
            }
        });
    }
}

fn case_i1_one_creation_under_one_key<B: Backend>() {
    for round in 0..100 {
        let world = World::<B>::new();
        let host = world.host(1);
        let (open, join) = (world.register(round), world.attempt(&host, 9));
        let results = together(10, |thread| {
            let unique = 1 + thread as u128;
            let register = Register { id: ListingId(open.id.0 + (unique << 32)), ..open.clone() };
            let create = CreateAttempt { id: AttemptId(join.id.0 + unique), ..join.clone() };
            let registered = match world.ok(Command::Register(Box::new(register))) {
                Outcome::Registered(registered) => (registered.id.0, registered.replayed),
                other => panic!("{other:?}"),
            };
            let created = match world.ok(Command::CreateAttempt(Box::new(create))) {
                Outcome::AttemptCreated(created) => (created.id.0, created.replayed),
                other => panic!("{other:?}"),
            };
            [registered, created]
        });
        for operation in 0..2 {
            let ids: BTreeSet<u128> = results.iter().map(|pair| pair[operation].0).collect();
            assert_eq!(ids.len(), 1, "everybody got the same result");
            assert_eq!(results.iter().filter(|pair| !pair[operation].1).count(), 1, "one of them executed");
        }
        assert_eq!((world.status().listings.live, world.status().attempts.live), (2, 1));
    }
}

fn case_l5_fifty_renewals_of_one_version<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    for version in 1..=40 {
        let results =
            together(10, |_| (0..5).map(|_| world.submit(Command::Renew(host.renew(version)))).collect::<Vec<_>>());
        let conflict = Err(Rejection::VersionConflict { current: version + 1 }.into());
        let lost = results.iter().flatten().filter(|result| **result == conflict).count();
        assert_eq!(lost, 49);
    }
    assert_eq!(world.lease(&host).version, 41);
}

fn case_q7_mixed_operations_do_not_stall<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<Host> = (0..4)
        .map(|n| {
            let tenant = TenantId(n % 2);
            let scope = Scope::new(tenant, PROTOCOL).expect("a legal protocol");
            world.fresh(register_in(scope, principal_of(tenant, u64::from(n)), world.number()))
        })
        .collect();
    // A lost wake-up shows as a panic of `block_on`, a deadlock as the harness's time-out.
    together(6, |thread| {
        for round in 0..300 {
            let host = &hosts[(thread + round) % 4];
            match (thread * 7 + round) % 6 {
                0 => drop(world.submit(Command::Renew(host.renew(1)))),
                1 => drop(world.submit(host.lease_query())),
                2 => drop(world.page(&host.scope, None, 10)),
                3 => world.store.tick(),
                4 => {
                    let create = attempt_on(host, principal_of(host.owner.tenant, 90), world.number());
                    drop(world.submit(Command::CreateAttempt(Box::new(create))));
                }
                _ => {
                    let datagram = presence(host, v4(1, 4_000), world.number(), world.now());
                    drop(world.submit(Command::Presence(datagram)));
                }
            }
        }
    });
    assert_eq!(world.status().listings.live, 4);
}
