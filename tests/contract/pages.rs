//! Browsing page by page: rule S8 and the field cases of theme B.

use crate::support::*;
use rendezvous::domain::*;
use rendezvous::store::BrowseQuery;
use rendezvous::store::page::PAGE_MAX;

contract!(
    rule_s8_pages_are_bounded_and_a_walk_is_complete,
    case_b1_ties_are_neither_skipped_nor_repeated,
    case_b5_odd_text_harms_no_page,
    walks_survive_concurrent_changes,
    scopes_and_tenants_are_separate,
    the_digest_of_a_page_follows_its_rows_and_cursor,
);

fn rule_s8_pages_are_bounded_and_a_walk_is_complete<B: Backend>() {
    let world = World::<B>::new();
    let short = |owner| Register { ttl: ttl(10_000), ..world.register(owner) };
    let mut alive = vec![world.host(1).id];
    (0..1_300).for_each(|owner| {
        world.fresh(short(10 + owner));
    });
    alive.extend((0..150).map(|owner| world.host(5_000 + owner).id));
    world.store.tick();
    assert_eq!(world.browsed().len(), alive.len() + 1_300);
    world.clock.advance_ms(10_000);
    for limit in [1, 7, 50, PAGE_MAX] {
        assert_eq!(world.walk(&scope(PROTOCOL), limit).iter().map(|row| row.id).collect::<Vec<_>>(), alive);
        let mut after = None;
        let mut pages = 0;
        loop {
            let page = world.page(&scope(PROTOCOL), after, limit).expect("browsing works");
            assert!(page.rows.len() <= limit);
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(pages >= 3, "1,300 dead rows are passed in steps of at most 512, not in one page");
        assert!(pages <= alive.len().div_ceil(limit) + 4, "{pages} pages of {limit}");
    }
}

fn case_b1_ties_are_neither_skipped_nor_repeated<B: Backend>() {
    let world = World::<B>::new();
    let mut expected: Vec<ListingId> = (0..25_u64)
        .map(|n| {
            let tag = Scope::tag(TENANT, PROTOCOL);
            let id = ListingId::compose(1_700_000_000_000, n.wrapping_mul(0x9E37_79B9_7F4A), tag);
            let opening = Register { id, details: details("same"), ..world.register(n) };
            world.fresh(opening).id
        })
        .collect();
    expected.sort();
    world.store.tick();
    for limit in [1, 3, 10, 25, 26] {
        let rows = world.walk(&scope(PROTOCOL), limit);
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), expected, "limit {limit}");
        let (mut pages, mut after) = (0, None);
        loop {
            let page = world.page(&scope(PROTOCOL), after, limit).expect("browsing works");
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!((25_usize.div_ceil(limit)..=25_usize.div_ceil(limit) + 1).contains(&pages), "{pages} pages of {limit}");
    }
}

fn case_b5_odd_text_harms_no_page<B: Backend>() {
    let world = World::<B>::new();
    let names = ["q\" b\\ /", "\u{1F600}\u{10FFFD}", "</script>", "a,b]}{[", "\u{e9}\u{4e2d}", "\\u0000", "'\"'"];
    for (owner, name) in (0..).zip(names) {
        world.fresh(Register { details: details(name), ..world.register(owner) });
    }
    world.store.tick();
    for limit in [1, 2, 100] {
        let shown = world.walk(&scope(PROTOCOL), limit);
        assert_eq!(shown.iter().map(Row::name).collect::<Vec<_>>(), names, "round trip, limit {limit}");
    }
}

fn walks_survive_concurrent_changes<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<Host> = (0..300).map(|owner| world.host(owner)).collect();
    world.store.tick();
    let (mut seen, mut after, mut page_number) = (Vec::new(), None, 0);
    loop {
        let page = world.page(&scope(PROTOCOL), after, 20).expect("browsing works");
        seen.extend(page.rows.iter().map(|row| row.id));
        after = page.next;
        if after.is_none() {
            break;
        }
        // Removes one behind and one ahead of the cursor, the cursor's own row among them, and inserts at the end.
        for position in [page_number * 20 + 19, 299 - page_number] {
            let _ = world.submit(hosts[position].delete());
        }
        world.host(1_000);
        world.store.tick();
        page_number += 1;
    }
    let distinct: std::collections::BTreeSet<ListingId> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    let stayed = hosts.iter().filter(|host| world.found(host));
    let missed: Vec<_> = stayed.filter(|host| !distinct.contains(&host.id)).collect();
    assert!(missed.is_empty(), "what stayed visible was not skipped: {missed:?}");
}

fn scopes_and_tenants_are_separate<B: Backend>() {
    let world = World::<B>::new();
    let elsewhere = Scope::new(TenantId(1), PROTOCOL).expect("a legal protocol");
    let here = world.host(1);
    let race = world.fresh(register_in(scope("race"), principal(1), world.number()));
    let far = world.fresh(register_in(elsewhere.clone(), principal_of(TenantId(1), 1), world.number()));
    world.store.tick();
    let ids = |scope: &Scope| world.walk(scope, 10).iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(
        (ids(&scope(PROTOCOL)), ids(&scope("race")), ids(&elsewhere)),
        (vec![here.id], vec![race.id], vec![far.id])
    );
    assert!(ids(&scope("unknown")).is_empty());
    assert!(world.found(&far) && world.store.listing(TENANT, far.id, |_, _| ()).is_err());
}

fn the_digest_of_a_page_follows_its_rows_and_cursor<B: Backend>() {
    let world = World::<B>::new();
    let open = |owner| world.fresh(Register { details: details("game"), ..world.register(owner) });
    let hosts: Vec<Host> = (0..3).map(open).collect();
    let digest = |limit| {
        world.store.tick();
        let query = BrowseQuery { tenant: TENANT, protocol: PROTOCOL, after: None, limit, filter: None };
        world.store.browse(&query, |page| page.digest()).expect("browsing works")
    };
    let (two, all) = (digest(2), digest(3));
    assert_ne!(two, all);
    world.ok(Command::Renew(hosts[0].renew(1)));
    world.present(&hosts[1], v4(1, 4_001));
    assert_eq!((digest(2), digest(3)), (two, all), "leases and presence are not part of a row");
    world.ok(Command::Renew(Renew { details: Some(Box::new(details("other"))), ..hosts[1].renew(1) }));
    let renamed = digest(3);
    assert_ne!(renamed, all);
    world.ok(Command::Renew(Renew { details: Some(Box::new(details("game"))), ..hosts[1].renew(2) }));
    assert_eq!(digest(3), all, "and back again");
    world.ok(hosts[2].delete());
    assert_ne!(digest(2), two, "the same rows, but no cursor any more");
}
