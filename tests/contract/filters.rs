//! Browsing with a filter: which rows, how far a page goes for them, and walks beside changes.

use crate::support::*;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::*;
use rendezvous::store::page::EXAMINED_MAX;
use std::collections::BTreeSet;

contract!(
    a_filter_shows_the_rows_that_match_and_no_others,
    rule_s2_what_matches_and_has_ended_is_not_shown,
    rule_s3_a_row_is_judged_by_the_details_that_it_shows,
    rule_s8_a_filtered_page_examines_no_more_than_another,
    rule_s8_a_filtered_page_ends_with_its_last_row_wanted,
    filtered_walks_survive_concurrent_changes,
);

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Details number `n`: everything in them follows from it.
fn numbered(n: u64) -> Details {
    let label = |every: u64, text: &str| n.is_multiple_of(every).then(|| text.to_owned());
    let attributes = vec![
        ("n".to_owned(), AttributeValue::Integer(n as i64)),
        ("quote \"".to_owned(), AttributeValue::Text(format!("\\{}", n % 3))),
    ];
    let input = DetailsInput {
        name: format!("game \"{}\"", n % 10),
        region: label(2, "eu-west"),
        mode: label(3, "ctf"),
        players: (n % 5) as u16,
        max_players: 4,
        password_required: n.is_multiple_of(7),
        tags: label(4, "modded").into_iter().chain(label(5, "caf\u{e9}")).collect(),
        attributes,
        ..DetailsInput::default()
    };
    Details::new(input).expect("valid details")
}

fn open<B: Backend>(world: &World<B>, n: u64) -> Host {
    world.fresh(Register { details: numbered(n), ..world.register(n) })
}

/// The ids of a filtered walk, and how many rows each of its pages had.
fn walk<B: Backend>(world: &World<B>, limit: usize, filter: &Filter) -> (Vec<ListingId>, Vec<usize>) {
    let (mut ids, mut pages, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = world.page_of(&scope(PROTOCOL), after, limit, Some(filter)).expect("browsing works");
        pages.push(page.rows.len());
        ids.extend(page.rows.iter().map(|row| row.id));
        match page.next {
            Some(next) => assert!(after.replace(next) < Some(next), "a cursor moves on"),
            None => return (ids, pages),
        }
    }
}

fn a_filter_shows_the_rows_that_match_and_no_others<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<(u64, Host)> = (0..200).map(|n| (n, open(&world, n))).collect();
    world.ok(Command::Renew(Renew { visibility: Some(Visibility::Unlisted), ..hosts[12].1.renew(1) }));
    world.store.tick();
    type Truth = fn(u64) -> bool;
    let filters: [(&str, Truth); 9] = [
        ("players < max_players", |n| n % 5 < 4),
        ("region == \"eu-west\" and mode != \"ctf\"", |_| false),
        ("region == \"eu-west\" and not mode == \"ctf\"", |n| n % 2 == 0 && n % 3 != 0),
        ("tags has \"modded\" or tags has \"cafe\u{301}\"", |n| n % 4 == 0 || n % 5 == 0),
        ("not password_required and players in [0, 3]", |n| n % 7 != 0 && [0, 3].contains(&(n % 5))),
        ("name == \"game \\\"3\\\"\"", |n| n % 10 == 3),
        ("attributes.n >= 150 and attributes.\"quote \\\"\" == \"\\\\2\"", |n| n >= 150 && n % 3 == 2),
        ("ping < 5 or players == \"1\"", |_| false),
        ("not ping < 5", |_| true),
    ];
    for (text, truth) in filters {
        let expected: Vec<ListingId> =
            hosts.iter().filter(|(n, _)| *n != 12 && truth(*n)).map(|(_, host)| host.id).collect();
        for limit in [1, 3, 64, 100] {
            assert_eq!(walk(&world, limit, &filter(text)).0, expected, "{text}, limit {limit}");
        }
    }
}

fn rule_s2_what_matches_and_has_ended_is_not_shown<B: Backend>() {
    let world = World::<B>::new();
    let all = filter("max_players == 4");
    let hosts: Vec<Host> = (0..150)
        .map(|n| {
            let ttl = ttl(if n % 3 == 0 { 10_000 } else { 60_000 });
            world.fresh(Register { details: numbered(n), ttl, ..world.register(n) })
        })
        .collect();
    world.store.tick();
    world.clock.advance_ms(9_999);
    assert_eq!(walk(&world, 20, &all).0.len(), 150);
    world.clock.advance_ms(1);
    let alive: Vec<ListingId> = (0..).zip(&hosts).filter(|(n, _)| n % 3 != 0).map(|(_, host)| host.id).collect();
    assert_eq!(walk(&world, 20, &all).0, alive);
}

fn rule_s3_a_row_is_judged_by_the_details_that_it_shows<B: Backend>() {
    let world = World::<B>::new();
    let (host, other) = (open(&world, 1), open(&world, 2));
    world.store.tick();
    let one = filter("players == 1");
    assert_eq!(walk(&world, 10, &one).0, [host.id]);
    world.ok(Command::Renew(Renew { details: Some(Box::new(numbered(6))), ..other.renew(1) }));
    world.ok(Command::Renew(Renew { details: Some(Box::new(numbered(3))), ..host.renew(1) }));
    world.store.tick();
    assert_eq!(walk(&world, 10, &one).0, [other.id]);
    let page = world.page_of(&scope(PROTOCOL), None, 10, Some(&one)).expect("browsing works");
    assert_eq!(page.rows[0].json["players"], 1);
}

fn rule_s8_a_filtered_page_examines_no_more_than_another<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<Host> = (0..1_300).map(|n| open(&world, n)).collect();
    world.store.tick();
    let (nobody, pages) = walk(&world, 50, &filter("players > max_players"));
    assert_eq!((nobody, pages), (vec![], vec![0; 1_300_usize.div_ceil(EXAMINED_MAX)]), "empty pages with cursors");
    for (n, first_page) in [(EXAMINED_MAX - 1, 1), (EXAMINED_MAX, 0)] {
        let found = walk(&world, 50, &filter(&format!("attributes.n == {n}")));
        assert_eq!((found.0, found.1[0]), (vec![hosts[n].id], first_page), "row {n}");
    }
    let after = Some(hosts[EXAMINED_MAX - 2].id);
    let page = world.page_of(&scope(PROTOCOL), after, 1, Some(&filter("attributes.n >= 512"))).expect("browsing works");
    assert_eq!((page.rows[0].id, page.next), (hosts[512].id, Some(hosts[512].id)), "counted from the cursor on");
}

fn rule_s8_a_filtered_page_ends_with_its_last_row_wanted<B: Backend>() {
    let world = World::<B>::new();
    let hosts: Vec<Host> = (0..200).map(|n| open(&world, n)).collect();
    world.store.tick();
    let matching = filter("players == 4");
    let page = world.page_of(&scope(PROTOCOL), None, 3, Some(&matching)).expect("browsing works");
    assert_eq!(page.next, Some(hosts[14].id), "the cursor is as early as it can be");
    let last = filter("attributes.n == 199");
    let page = world.page_of(&scope(PROTOCOL), None, 1, Some(&last)).expect("browsing works");
    assert_eq!((page.rows.len(), page.next), (1, None), "nothing is behind the last row");
    assert_eq!(walk(&world, 1, &matching).0.len(), 40);
}

/// Rows come, go, and change between matching and not, before and behind the cursor and at it.
fn filtered_walks_survive_concurrent_changes<B: Backend>() {
    let world = World::<B>::new();
    let even = filter("region == \"eu-west\"");
    let mut hosts: Vec<Host> = (0..900).map(|n| open(&world, n)).collect();
    world.store.tick();
    let mut touched = BTreeSet::new();
    let (mut seen, mut after, mut round) = (Vec::new(), None, 0_usize);
    loop {
        let page = world.page_of(&scope(PROTOCOL), after, 20, Some(&even)).expect("browsing works");
        seen.extend(page.rows.iter().map(|row| row.id));
        after = page.next;
        let Some(cursor) = after else { break };
        let at = hosts.iter().position(|host| host.id == cursor).expect("a cursor is a row that was examined");
        for place in [at, at.saturating_sub(17), 899 - round] {
            if touched.insert(hosts[place].id) {
                let _ = world.submit(hosts[place].delete());
            }
        }
        for place in [at + 3, at + 4, at.saturating_sub(9)] {
            let Some(host) = hosts.get(place).filter(|host| touched.insert(host.id)) else { continue };
            let changed = numbered(if place % 2 == 0 { 1 } else { 2 });
            let _ = world.submit(Command::Renew(Renew { details: Some(Box::new(changed)), ..host.renew(1) }));
        }
        hosts.push(open(&world, 1_000 + round as u64));
        world.store.tick();
        round += 1;
    }
    assert!(round > 20, "{round} rounds");
    let distinct: BTreeSet<ListingId> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    let matches = |n: usize| n.is_multiple_of(2);
    let stayed = (0..900).filter(|n| !touched.contains(&hosts[*n].id));
    let wrong: Vec<usize> = stayed.filter(|n| distinct.contains(&hosts[*n].id) != matches(*n)).collect();
    assert!(wrong.is_empty(), "what matched throughout was shown, and nothing else: {wrong:?}");
}
