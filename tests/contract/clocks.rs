//! Rule C1: wall time decides nothing.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_c1_expires_at_is_stable_for_one_version,
    case_c1_wall_clock_steps_change_no_remaining_life,
    case_c1_a_run_under_a_jumping_wall_clock_differs_in_nothing_that_decides,
    case_l7_the_longest_lifetimes_do_not_overflow,
);

/// One hour on, one hour back, 1970, 2106, the end of time.
const STEPS: [u64; 5] = [1_700_003_600_000, 1_699_996_400_000, 0, 4_294_967_296_000, u64::MAX];

fn rule_c1_expires_at_is_stable_for_one_version<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    let first = world.lease(&host).expires_at;
    for wall in STEPS {
        world.clock.set_wall(WallTime(wall));
        world.present(&host, v4(1, 4_000));
        assert_eq!(world.lease(&host).expires_at, first);
    }
    world.clock.set_wall(WallTime(5_000));
    world.ok(Command::Renew(host.renew(1)));
    assert_eq!(world.lease(&host).expires_at, WallTime(65_000), "a new version shows the wall clock of its day");
}

fn case_c1_wall_clock_steps_change_no_remaining_life<B: Backend>() {
    for wall in STEPS {
        let world = World::<B>::new();
        let opening = world.register(1);
        let host = world.fresh(opening.clone());
        let attempt = world.joins(&host, 9);
        world.bind(&attempt, Role::Joiner, v4(2, 5_000));
        world.ok(revoke(Subject::Principal(principal(50).key), 20_000, 1));
        world.store.tick();
        let page = world.page(&scope(PROTOCOL), None, 1).expect("browsing works");
        world.clock.set_wall(WallTime(wall));

        world.clock.advance_ms(19_999);
        assert_eq!(world.rejected(Command::Register(Box::new(world.register(50)))), Rejection::Revoked);
        world.clock.advance_ms(1);
        world.listing(50);
        world.clock.advance_ms(9_999);
        assert!(world.bind(&attempt, Role::Joiner, v6(2, 5_000)).introduction.is_none());
        world.clock.advance_ms(1);
        assert_eq!(world.ended(&attempt), EndReason::Expired);
        world.clock.advance_ms(29_999);
        assert_eq!(world.page(&scope(PROTOCOL), None, 1).expect("browsing works").rows, page.rows);
        world.ok(Command::Register(Box::new(opening.clone())));
        world.clock.advance_ms(1);
        assert!(world.browsed().is_empty());
        assert_eq!(world.rejected(Command::Register(Box::new(opening))), Rejection::Expired);
    }
}

fn case_c1_a_run_under_a_jumping_wall_clock_differs_in_nothing_that_decides<B: Backend>() {
    let run = |jumps: bool| {
        let world = World::<B>::new();
        let mut trace = Vec::new();
        for step in 0..60_u64 {
            if jumps {
                world.clock.set_wall(WallTime(STEPS[step as usize % STEPS.len()]));
            }
            world.clock.advance_ms(1_700);
            let host = Host::of(&world.register(step % 3));
            let opening = Register { quota_per_owner: 4, ..register_in(host.scope.clone(), host.owner, 500 + step) };
            let host = Host::of(&opening);
            let result = world.submit(Command::Register(Box::new(opening)));
            trace.push(result.map(|reply| reply.commit));
            let datagram = presence(&host, v4(1, 4_000), step, world.now());
            trace.push(world.submit(Command::Presence(datagram)).map(|reply| reply.commit));
            world.store.tick();
            trace.push(Ok(world.browsed().len() as u64));
        }
        trace
    };
    assert_eq!(run(false), run(true));
}

fn case_l7_the_longest_lifetimes_do_not_overflow<B: Backend>() {
    let world = World::<B>::new();
    world.clock.set_wall(WallTime(u64::MAX));
    world.clock.advance_to(MonoTime(u64::MAX - 1_000));
    let host = world.registered(Register { ttl: ttl(300_000), ..world.register(1) });
    world.present(&host, v4(1, 4_000));
    world.ok(Command::Renew(Renew { ttl: Some(ttl(300_000)), ..host.renew(1) }));
    world.ok(revoke(Subject::Principal(principal(9).key), 2_592_000_000, 1));
    let attempt = world.joins(&host, 8);
    world.bind(&attempt, Role::Joiner, v4(2, 5_000));
    assert_eq!(world.lease(&host).version, 2);
}
