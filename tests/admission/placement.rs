//! Placement and the directory of owners.

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(
    ensuring_twice_places_once,
    releasing_is_no_error_whatever_there_is,
    placement_follows_load_and_capacity,
    what_no_host_can_take_waits_and_blocks_nobody,
    a_host_that_does_not_come_loses_its_place,
    case_l2_a_renewed_lease_outlives_the_placements_note,
    a_session_moves_when_its_lease_lapses,
    candidates_come_in_pages,
    the_owner_is_who_holds_the_live_lease,
    a_hosts_key_stays_under_its_sessions,
    placed_counts_equal_a_recount,
);

fn desired(session: SessionId) -> DesiredWorkload {
    DesiredWorkload { tenant: arena(), session, target: target() }
}

async fn placed(world: &World, session: SessionId) -> Option<String> {
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    entry.placed.map(|host| host.as_str().to_owned())
}

async fn load(world: &World, host: &HostId) -> u32 {
    world.store.get_host(host.clone()).await.expect("a host").placed
}

async fn ensuring_twice_places_once(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    for _ in 0..3 {
        world.store.ensure_placement(desired(session)).await.expect("placed");
        assert_eq!((placed(&world, session).await.as_deref(), load(&world, &host).await), (Some("eu-1"), 1));
    }
    world.store.place_due(10).await.expect("placement");
    assert_eq!(load(&world, &host).await, 1);
    assert_eq!(code(world.store.ensure_placement(desired(SessionId(404))).await), ErrorCode::UnknownSession);
}

async fn releasing_is_no_error_whatever_there_is(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    world.store.release_placement(arena(), SessionId(404)).await.expect("unknown is no error");
    world.store.ensure_placement(desired(session)).await.expect("placed");
    for _ in 0..2 {
        world.store.release_placement(arena(), session).await.expect("again is no error");
        assert_eq!((placed(&world, session).await, load(&world, &host).await), (None, 0));
    }
    // A holder keeps its session until it lets go, and finds in its work that it should.
    let lease = world.lease(&host, session).await;
    world.store.release_placement(arena(), session).await.expect("no longer wanted");
    assert_eq!(placed(&world, session).await.as_deref(), Some("eu-1"));
    world.clock.advance(DEADLINE);
    world.sweep_all(&world.sweeper("a")).await;
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    assert_eq!(work[0].tasks, [Task::Release]);
    world.hosts().release_lease(&credential(), lease, false).await.expect("released");
    assert_eq!((placed(&world, session).await, load(&world, &host).await), (None, 0));
}

async fn placement_follows_load_and_capacity(world: World) {
    let hosts = world.hosts();
    for (host, capacity) in [("eu-1", 1), ("eu-2", 3), ("eu-3", 0)] {
        hosts.heartbeat(&credential(), HostId::new(host).unwrap(), key(), capacity).await.expect("a heartbeat");
    }
    let mut at = Vec::new();
    for n in 0..5 {
        let session = world.session(&format!("k{n}")).await;
        world.store.place_due(10).await.expect("placement");
        at.push(placed(&world, session).await);
        world.clock.advance(Duration::from_millis(1));
    }
    let at: Vec<_> = at.iter().map(|host| host.as_deref().unwrap_or("nowhere")).collect();
    assert_eq!(at, ["eu-1", "eu-2", "eu-2", "eu-2", "nowhere"]);
}

async fn what_no_host_can_take_waits_and_blocks_nobody(world: World) {
    let homeless = world.session("k").await;
    assert_eq!(world.store.place_due(10).await, Ok(1));
    assert_eq!(world.store.place_due(10).await, Ok(0), "not looked at again at once");
    let host = world.host("eu-1").await;
    let next = world.session("next").await;
    assert_eq!(world.store.place_due(1).await, Ok(1));
    assert_eq!(placed(&world, next).await.as_deref(), Some("eu-1"), "behind one that has no place");
    world.clock.advance(world.store.settings().placement_retry);
    world.store.place_due(10).await.expect("placement");
    assert_eq!((placed(&world, homeless).await.as_deref(), load(&world, &host).await), (Some("eu-1"), 2));
}

async fn a_host_that_does_not_come_loses_its_place(world: World) {
    let session = world.session("k").await;
    world.host("eu-1").await;
    world.store.place_due(10).await.expect("placement");
    world.host("eu-2").await;
    let grace = world.store.settings().placement_grace;
    world.clock.advance(grace - Duration::from_millis(1));
    world.store.place_due(10).await.expect("placement");
    assert_eq!(placed(&world, session).await.as_deref(), Some("eu-1"), "within its grace");
    world.clock.advance(Duration::from_millis(1));
    world.store.place_due(10).await.expect("placement");
    assert_eq!(placed(&world, session).await.as_deref(), Some("eu-2"));
}

async fn case_l2_a_renewed_lease_outlives_the_placements_note(world: World) {
    let host = world.host("eu-1").await;
    let mut leases = Vec::new();
    for n in 0..10 {
        let session = world.session(&format!("k{n}")).await;
        leases.push(world.lease(&host, session).await);
    }
    world.clock.advance(TTL - SECOND);
    world.host("eu-2").await;
    for lease in leases.iter().step_by(2) {
        world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("renewed");
    }
    // Past the first end of all of them.
    world.clock.advance(SECOND * 2);
    world.host("eu-2").await;
    world.store.place_due(100).await.expect("placement");
    for (n, lease) in leases.iter().enumerate() {
        let renewed = n % 2 == 0;
        let owner = world.store.owner(arena(), lease.session).await.expect("an answer");
        assert_eq!(owner.is_some(), renewed, "exactly the others are gone");
        let expected = if renewed { "eu-1" } else { "eu-2" };
        assert_eq!(placed(&world, lease.session).await.as_deref(), Some(expected));
    }
}

async fn a_session_moves_when_its_lease_lapses(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    world.lease(&host, session).await;
    world.clock.advance(TTL);
    let other = world.host("eu-2").await;
    world.store.place_due(10).await.expect("placement");
    assert_eq!(placed(&world, session).await.as_deref(), Some("eu-2"));
    assert_eq!((load(&world, &host).await, load(&world, &other).await), (0, 1));
    let work = world.hosts().work(&credential(), &other, Duration::ZERO).await.expect("work");
    assert_eq!(work[0].tasks, [Task::Acquire]);
    world
        .hosts()
        .work(&credential(), &host, Duration::ZERO)
        .await
        .expect("nothing")
        .is_empty()
        .then_some(())
        .expect("none");
}

async fn candidates_come_in_pages(world: World) {
    for n in 0..5 {
        world.host(&format!("eu-{n}")).await;
    }
    world.hosts().heartbeat(&credential(), HostId::new("eu-1").unwrap(), key(), 0).await.expect("a heartbeat");
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let request = ListCompatibleHostsRequest { key: key(), after, limit: 2 };
        let page = world.store.candidates(request).await.expect("a page");
        names.extend(page.hosts.iter().map(|host| host.host.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["eu-0", "eu-2", "eu-3", "eu-4"], "without the one that takes no more");
    let other = HostTargetKey::new("chess/linux").unwrap();
    let page = world.store.candidates(ListCompatibleHostsRequest { key: other, after: None, limit: 2 }).await;
    assert_eq!(page, Ok(HostTargetPage::default()));
}

async fn the_owner_is_who_holds_the_live_lease(world: World) {
    let session = world.session("k").await;
    assert_eq!(world.store.owner(arena(), session).await, Ok(None), "no owner is no error");
    assert_eq!(world.store.owner(arena(), SessionId(404)).await, Ok(None));
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let owner = world.service().session(&alice(), session).await.expect("a session").owner.expect("an owner");
    assert_eq!((owner.lease.host, owner.lease.epoch, owner.key), (host, lease.epoch, key()));
    world.hosts().release_lease(&credential(), lease, false).await.expect("released");
    assert_eq!(world.store.owner(arena(), session).await, Ok(None));
}

async fn a_hosts_key_stays_under_its_sessions(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    world.store.ensure_placement(desired(session)).await.expect("placed");
    let other = HostTargetKey::new("chess/linux").unwrap();
    let register = |key: HostTargetKey, credential: &str| RegisterHostRequest {
        host: host.clone(),
        credential: name(credential),
        key,
        capacity: 5,
        ttl: TTL,
    };
    let taken = Err(StoreError::Refused(Refusal::HostTaken));
    assert_eq!(world.store.register_host(register(other.clone(), "host:eu")).await.map(drop), taken);
    world.store.release_placement(arena(), session).await.expect("released");
    let moved = world.store.register_host(register(other.clone(), "host:eu")).await.expect("free to move");
    assert_eq!((moved.key, moved.placed), (other.clone(), 0));
    assert_eq!(world.store.register_host(register(key(), "host:us")).await.map(drop), taken);
    world.clock.advance(TTL);
    world.store.register_host(register(key(), "host:us")).await.expect("nobody's any more");
}

async fn placed_counts_equal_a_recount(world: World) {
    let hosts = [world.host("eu-1").await, world.host("eu-2").await];
    let mut sessions = Vec::new();
    for n in 0..8 {
        sessions.push(world.session(&format!("k{n}")).await);
    }
    world.store.place_due(100).await.expect("placement");
    for (n, session) in sessions.iter().enumerate() {
        let lease = world.lease(&hosts[n % 2], *session).await;
        match n % 4 {
            0 => drop(world.hosts().release_lease(&credential(), lease, true).await.expect("closed")),
            1 => drop(world.hosts().release_lease(&credential(), lease, false).await.expect("released")),
            2 => world.store.release_placement(arena(), *session).await.expect("released"),
            _ => {}
        }
    }
    world.clock.advance(TTL);
    world.host("eu-2").await;
    world.store.place_due(100).await.expect("placement");
    for host in &hosts {
        let mut count = 0;
        for session in &sessions {
            count += u32::from(placed(&world, *session).await.as_deref() == Some(host.as_str()));
        }
        assert_eq!(load(&world, host).await, count, "{host}");
    }
}
