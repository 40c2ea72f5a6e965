//! Readers beside writers, with real threads (section S).

use crate::support::*;
use rendezvous::domain::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

contract!(
    rule_s1_readers_never_see_what_was_acknowledged_as_gone,
    rule_s3_a_revocation_over_fifty_scopes_is_never_seen_in_part,
    rule_s6_no_reader_goes_back,
);

fn rule_s1_readers_never_see_what_was_acknowledged_as_gone<B: Backend>() {
    const LISTINGS: usize = 600;
    let world = World::<B>::new();
    let hosts: Vec<Host> = (0..LISTINGS as u64).map(|owner| world.host(owner)).collect();
    world.store.tick();
    let (gone, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    together(3, |thread| {
        if thread == 0 {
            let _over = Raise(&over);
            for (n, host) in hosts.iter().enumerate() {
                world.ok(host.delete());
                gone.store(n + 1, Ordering::SeqCst);
            }
            return;
        }
        loop {
            let last = over.load(Ordering::SeqCst);
            let acknowledged = gone.load(Ordering::SeqCst);
            if last || acknowledged == LISTINGS {
                assert!(world.browsed().is_empty());
                return;
            }
            let page = world.page(&scope(PROTOCOL), None, 1).expect("browsing works");
            let first = page.rows.first().map(|row| row.id);
            assert!(first.is_none_or(|id| id >= hosts[acknowledged].id), "{acknowledged} were gone, saw {first:?}");
            assert!(acknowledged == 0 || !world.found(&hosts[acknowledged - 1]));
        }
    });
}

fn rule_s3_a_revocation_over_fifty_scopes_is_never_seen_in_part<B: Backend>() {
    let world = World::<B>::new();
    let scopes: Vec<Scope> = (0..50).map(|n| scope(&format!("game-{n}/1"))).collect();
    for round in 0..20 {
        for scope in &scopes {
            world.fresh(register_in(scope.clone(), principal(round), world.number()));
        }
        world.store.tick();
        let done = AtomicBool::new(false);
        let seen = together(3, |thread| {
            if thread == 0 {
                let _done = Raise(&done);
                let commit = world.reply(revoke(Subject::Principal(principal(round).key), 1_000, round)).commit;
                return vec![(commit, false)];
            }
            let mut seen = Vec::new();
            loop {
                let last = done.load(Ordering::SeqCst);
                for scope in scopes.iter().skip(thread % 2).step_by(7) {
                    let page = world.page(scope, None, 5).expect("browsing works");
                    seen.push((page.commit, !page.rows.is_empty()));
                }
                if last {
                    return seen;
                }
            }
        });
        let revoked = seen[0][0].0;
        for (commit, shown) in seen[1..].iter().flatten() {
            assert_eq!(*shown, *commit < revoked, "a view of commit {commit}, revoked by {revoked}");
        }
    }
}

fn rule_s6_no_reader_goes_back<B: Backend>() {
    let world = World::<B>::new();
    let done = AtomicBool::new(false);
    together(4, |thread| {
        if thread < 2 {
            let _done = Raise(&done);
            for owner in 0..400 {
                let host = world.host(owner);
                if owner % 2 == thread as u64 {
                    world.ok(host.delete());
                }
                world.store.tick();
            }
            return;
        }
        let mut last = 0;
        while !done.load(Ordering::SeqCst) {
            let page = world.page(&scope(PROTOCOL), None, 1).expect("browsing works").commit;
            assert!(page >= last, "an older view after a newer one: {page} after {last}");
            let published = world.store.published_commit();
            assert!(published >= page);
            last = published.max(page);
        }
    });
}
