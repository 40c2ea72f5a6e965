//! Section S, as far as one thread can see it; `reader_races.rs` has the rest, `pages.rs` the paging.

use crate::support::*;
use rendezvous::domain::*;

contract!(
    rule_s1_what_is_taken_away_is_published_before_it_is_acknowledged,
    rule_s1_a_deadline_that_moved_forward_counts_at_once,
    rule_s2_nothing_dead_however_old_the_view,
    rule_s3_publishing_a_removal_publishes_everything_before_it,
    rule_s3_the_projection_is_of_fresh_listings_and_rows_do_not_change_with_leases,
    rule_s4_no_live_listing_blinks_out,
    rule_s4_an_extension_close_to_the_deadline_is_seen_at_once,
    rule_s5_additions_are_visible_by_the_next_tick,
    rule_s5_the_published_commit_advances_whatever_was_committed,
    rule_s5_a_caller_may_wait_for_its_own_write,
    rule_s7_a_join_is_decided_by_state_not_by_the_view,
    case_b3_a_removal_is_seen_by_the_next_read,
);

fn rule_s1_what_is_taken_away_is_published_before_it_is_acknowledged<B: Backend>() {
    type Removal = (&'static str, fn(&Host) -> Command);
    let removals: [Removal; 4] = [
        ("deleted", Host::delete),
        ("listing revoked", |host| revoke(Subject::Listing(host.id), 5_000, 1)),
        ("owner revoked", |host| revoke(Subject::Principal(host.owner.key), 5_000, 1)),
        ("made unlisted", |host| Command::Renew(Renew { visibility: Some(Visibility::Unlisted), ..host.renew(1) })),
    ];
    for (how, removal) in removals {
        let world = World::<B>::new();
        let (host, kept) = (world.host(1), world.host(2));
        assert_eq!(world.visible(), [host.id, kept.id]);
        let commit = world.reply(removal(&host)).commit;
        let page = world.page(&scope(PROTOCOL), None, 10).expect("browsing works");
        assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [kept.id], "{how}");
        assert!(page.commit >= commit && world.store.published_commit() >= commit, "{how}");
        assert_eq!(world.found(&host), how == "made unlisted", "{how}");
    }
}

fn rule_s1_a_deadline_that_moved_forward_counts_at_once<B: Backend>() {
    // Shortened alone, together with new details, and while an earlier change waits for its publication.
    let renames = |host: &Host, version| Renew { details: Some(Box::new(details("x"))), ..host.renew(version) };
    for variant in 0..3 {
        let world = World::<B>::new();
        let host = world.fresh(Register { ttl: ttl(60_000), ..world.register(1) });
        let long = world.host(2);
        world.store.tick();
        let shorter = match variant {
            0 => host.renew(1),
            1 => renames(&host, 1),
            _ => {
                world.ok(Command::Renew(renames(&host, 1)));
                host.renew(2)
            }
        };
        world.ok(Command::Renew(Renew { ttl: Some(ttl(10_000)), ..shorter }));
        world.clock.advance_ns(9_999_999_999);
        assert_eq!(world.browsed(), [host.id, long.id], "variant {variant}");
        world.clock.advance_ns(1);
        assert_eq!(world.browsed(), [long.id], "variant {variant}");
        assert!(!world.found(&host), "variant {variant}");
    }
}

fn rule_s2_nothing_dead_however_old_the_view<B: Backend>() {
    let world = World::<B>::new();
    let mut hosts = Vec::new();
    for owner in 0..130 {
        let seconds = 10 + owner as u32 % 40;
        hosts.push((world.fresh(Register { ttl: ttl(seconds * 1_000), ..world.register(owner) }), seconds));
    }
    world.store.tick();
    let (start, view) = (world.now(), world.store.published_commit());
    for second in 10..=50 {
        for (off_ns, dead_at) in [(-1_i64, second - 1), (0, second)] {
            let now = MonoTime(start.plus_ms(u64::from(second) * 1_000).0.saturating_add_signed(off_ns));
            world.clock.advance_to(now);
            let alive = |seconds: &u32| *seconds > dead_at;
            let expected: Vec<ListingId> =
                hosts.iter().filter(|(_, seconds)| alive(seconds)).map(|(host, _)| host.id).collect();
            assert_eq!(world.browsed(), expected, "{second} s {off_ns:+} ns");
            assert!(hosts.iter().all(|(host, seconds)| world.found(host) == alive(seconds)));
        }
    }
    assert_eq!(world.store.published_commit(), view, "reading cleans nothing up");
}

fn rule_s3_publishing_a_removal_publishes_everything_before_it<B: Backend>() {
    let world = World::<B>::new();
    let victim = world.host(1);
    world.store.tick();
    let elsewhere = scope("race");
    let (added, other) = (world.host(2), world.fresh(register_in(elsewhere.clone(), principal(3), world.number())));
    let commit = world.reply(victim.delete()).commit;
    let page = world.page(&scope(PROTOCOL), None, 10).expect("browsing works");
    assert_eq!((page.commit, page.rows[0].id, page.rows.len()), (commit, added.id, 1));
    let page = world.page(&elsewhere, None, 10).expect("browsing works");
    assert_eq!((page.commit, page.rows[0].id), (commit, other.id), "in every scope");
}

fn rule_s3_the_projection_is_of_fresh_listings_and_rows_do_not_change_with_leases<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.listing(2);
    world.store.tick();
    let page = world.page(&scope(PROTOCOL), None, 10).expect("browsing works");
    assert_eq!(page.rows.len(), 1);
    let json = page.rows[0].json.as_object().expect("an object");
    let mut fields: Vec<&str> = json.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "attributes",
        "created_at",
        "listing_id",
        "max_players",
        "name",
        "password_required",
        "players",
        "protocol",
        "tags",
    ];
    assert_eq!(fields, expected, "neither version nor expiry, no endpoint, no principal");
    world.clock.advance_ms(20_000);
    world.ok(Command::Renew(host.renew(1)));
    world.present(&host, v4(9, 9_000));
    world.store.tick();
    let later = world.page(&scope(PROTOCOL), None, 10).expect("browsing works");
    assert_eq!(later.bytes, page.bytes);
    assert!(later.commit > page.commit);
    let row = world.store.listing(TENANT, host.id, |row, _| row.to_vec()).expect("a fresh listing");
    assert_eq!(page.bytes[1..page.bytes.len() - 1], row, "by its id the same row");
}

fn rule_s4_no_live_listing_blinks_out<B: Backend>() {
    let interval = 20_000_000;
    // How long before the published deadline the extension comes, in nanoseconds.
    for early in
        [1, interval - 1, interval, 2 * interval - 1, 2 * interval, 2 * interval + 1, 3 * interval, 9 * interval]
    {
        for what in ["renewal", "renewal with details", "presence"] {
            let world = World::<B>::new();
            let opening = Register { ttl: ttl(if what == "presence" { 300_000 } else { 60_000 }), ..world.register(1) };
            let host = world.fresh(opening);
            let deadline = world.now().plus_ms(if what == "presence" { 65_000 } else { 60_000 });
            world.store.tick();
            world.clock.advance_to(MonoTime(deadline.0 - early));
            match what {
                "presence" => {
                    world.present(&host, v4(1, 4_000));
                }
                "renewal" => {
                    world.ok(Command::Renew(host.renew(1)));
                }
                _ => {
                    world.ok(Command::Renew(Renew { details: Some(Box::new(details("x"))), ..host.renew(1) }));
                }
            }
            // The server ticks once per interval; the reader looks in between, also just before each tick.
            while world.now() < deadline.plus_ms(60) {
                world.clock.advance_ns(interval - 1);
                assert_eq!(world.browsed(), [host.id], "{what} {early} ns early");
                world.clock.advance_ns(1);
                world.store.tick();
                assert!(world.found(&host), "{what} {early} ns early");
            }
        }
    }
}

fn rule_s4_an_extension_close_to_the_deadline_is_seen_at_once<B: Backend>() {
    for early in [1, 20_000_000, 39_999_999] {
        let world = World::<B>::new();
        let host = world.host(1);
        let deadline = world.now().plus_ms(60_000);
        world.store.tick();
        world.clock.advance_to(MonoTime(deadline.0 - early));
        world.ok(Command::Renew(host.renew(1)));
        world.clock.advance_to(deadline);
        assert_eq!(world.browsed(), [host.id], "without any tick, {early} ns early");
    }
}

fn rule_s5_additions_are_visible_by_the_next_tick<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    assert_eq!(world.visible(), [host.id]);
    world.ok(Command::Renew(Renew { visibility: Some(Visibility::Unlisted), ..host.renew(1) }));
    assert!(world.visible().is_empty());
    world.ok(Command::Renew(Renew { visibility: Some(Visibility::Public), ..host.renew(2) }));
    assert_eq!(world.visible(), [host.id], "made public again");
    world.ok(Command::Renew(Renew { details: Some(Box::new(details("new"))), ..host.renew(3) }));
    world.store.tick();
    assert_eq!(world.walk(&scope(PROTOCOL), 10)[0].name(), "new");
    world.clock.advance_ms(65_000 - 5_000);
    assert!(world.visible().is_empty());
    let again = world.fresh(Register { ttl: ttl(300_000), ..world.register(1) });
    assert_eq!(world.visible(), [again.id]);
    world.clock.advance_ms(65_000);
    assert!(world.visible().is_empty(), "stale");
    world.present(&again, v4(1, 4_000));
    assert_eq!(world.visible(), [again.id], "fresh again");
}

fn rule_s5_the_published_commit_advances_whatever_was_committed<B: Backend>() {
    let world = World::<B>::new();
    let host = world.listing(1);
    let attempt_free: [Command; 3] = [
        Command::Renew(host.renew(1)),
        Command::LiftRevocation(Subject::Listing(host.id)),
        revoke(Subject::Principal(principal(77).key), 5_000, 1),
    ];
    for command in attempt_free {
        world.ok(command);
        world.store.tick();
        assert_eq!(world.store.published_commit(), world.store.last_commit());
        assert_eq!(world.page(&scope(PROTOCOL), None, 1).expect("browsing works").commit, world.store.last_commit());
    }
    world.clock.advance_ms(30_000);
    world.store.tick();
    assert_eq!(world.rejected(host.lease_query()), Rejection::NotFound);
    assert_eq!(world.store.published_commit(), world.store.last_commit(), "also after cleanup alone");
}

fn rule_s5_a_caller_may_wait_for_its_own_write<B: Backend>() {
    let world = World::<B>::new();
    let opening = world.register(1);
    let host = world.registered(opening);
    let datagram = Command::Presence(presence(&host, v4(1, 4_000), 1, world.now()));
    let commit = world.reply(datagram).commit;
    let waiting = poll_once(world.store.published(commit));
    world.store.tick();
    match waiting {
        Polled::Ready(()) => {}
        Polled::Pending(waits) => block_on(waits),
    }
    assert_eq!(world.browsed(), [host.id]);
    assert!(world.store.published_commit() >= commit);
    block_on(world.store.published(commit));
}

fn rule_s7_a_join_is_decided_by_state_not_by_the_view<B: Backend>() {
    let world = World::<B>::new();
    let host = world.host(1);
    world.joins(&host, 9);
    world.store.tick();
    let lapsed = world.fresh(Register { ttl: ttl(10_000), ..world.register(2) });
    world.clock.advance_ms(10_000);
    let late = Command::CreateAttempt(Box::new(world.attempt(&lapsed, 9)));
    assert_eq!(world.rejected(late), Rejection::NotFound);
}

fn case_b3_a_removal_is_seen_by_the_next_read<B: Backend>() {
    let world = World::<B>::new();
    for round in 0..2_000_u64 {
        let host = world.host(round % 7);
        if round % 3 == 0 {
            world.store.tick();
        }
        let removal = match round % 2 {
            0 => host.delete(),
            _ => revoke(Subject::Listing(host.id), 1_000, round),
        };
        world.ok(removal);
        assert!(!world.browsed().contains(&host.id) && !world.found(&host), "round {round}");
        world.clock.advance_ms(50);
    }
}
