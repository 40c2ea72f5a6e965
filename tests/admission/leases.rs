//! Residency: leases with epochs and fences (rule P5, cases L).

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(
    adm_p5_epochs_only_grow,
    adm_p5_each_lease_writes_its_fence,
    adm_p5_an_older_epoch_can_do_nothing,
    adm_p5_capacity_is_no_authority,
    case_l1_a_renewal_is_granted_or_the_lease_is_lost,
    case_l3_a_renewal_counts_from_now,
    case_l7_lifetimes_are_cut_to_their_bounds,
    case_l10_a_restarted_host_takes_over_from_itself,
    case_l12_a_lease_lapses_in_every_state,
    case_l13_what_keeps_what_alive,
    a_closed_session_gives_no_lease,
);

async fn acquire(world: &World, host: &HostId, session: SessionId) -> Result<Lease, Error> {
    world.hosts().acquire_lease(&credential(), host, arena(), session, Some(TTL)).await
}

async fn adm_p5_epochs_only_grow(world: World) {
    let session = world.session("k").await;
    let (one, two) = (world.host("eu-1").await, world.host("eu-2").await);
    let mut epochs = Vec::new();
    for host in [&one, &two, &one] {
        let lease = world.lease(host, session).await;
        epochs.push(lease.epoch.0);
        world.hosts().release_lease(&credential(), lease, false).await.expect("released");
    }
    world.lease(&two, session).await;
    world.clock.advance(TTL);
    epochs.push(world.lease(&one, session).await.epoch.0);
    assert_eq!(epochs, [1, 2, 3, 5]);
}

async fn adm_p5_each_lease_writes_its_fence(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    world.lease(&host, session).await;
    world.lease(&host, session).await;
    let fences = world.store.read_journal(arena(), session, CommandSeq(0), 10).await.expect("a journal");
    let fences: Vec<_> = fences.iter().map(|entry| (entry.step, entry.epoch.0, entry.position)).collect();
    assert_eq!(fences, [(JournalStep::Fence, 1, 1), (JournalStep::Fence, 2, 2)]);
}

/// Every call of a host, with a lease that a newer one fenced.
async fn adm_p5_an_older_epoch_can_do_nothing(world: World) {
    let session = world.session("k").await;
    let (one, two) = (world.host("eu-1").await, world.host("eu-2").await);
    let old = world.lease(&one, session).await;
    let seq = CommandSeq(1);
    world.claim(&old, seq).await.expect("claimed");
    world.begin(&old, seq).await.expect("begun");
    world.clock.advance(TTL);
    world.host("eu-2").await;
    let new = world.lease(&two, session).await;
    let hosts = world.hosts();
    let lost = [
        code(world.claim(&old, seq).await),
        code(world.begin(&old, seq).await),
        code(world.complete(&old, seq).await),
        code(world.settle(&old, seq).await),
        code(hosts.renew_lease(&credential(), old.clone(), None).await),
        code(hosts.release_lease(&credential(), old.clone(), true).await),
        code(hosts.payload(&credential(), old.clone(), Sha256::of(b"")).await),
    ];
    assert_eq!(lost, [ErrorCode::LeaseLost; 7]);
    // Nor can the new epoch be used by the old host.
    let forged = LeaseRef { host: one, ..new.clone() };
    assert_eq!(code(world.complete(&forged, seq).await), ErrorCode::LeaseLost);
    let finished = CompleteCommandRequest { lease: old, seq, completion: Completion::Applied };
    let refused = world.store.journal_finish(finished.clone()).await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::LeaseLost { current })) if current == new.epoch));
    assert!(world.store.complete_command(finished).await.is_err());
    assert_eq!(world.read(session, seq).await.state, CommandState::Applying, "untouched");
}

async fn adm_p5_capacity_is_no_authority(world: World) {
    let session = world.session("k").await;
    world.host("eu-1").await;
    let page = world
        .store
        .candidates(ListCompatibleHostsRequest { key: key(), after: None, limit: 10 })
        .await
        .expect("candidates");
    let host = page.hosts[0].host.clone();
    let nothing = LeaseRef::new(arena(), session, host.clone(), Epoch(0));
    assert_eq!(code(world.claim(&nothing, CommandSeq(1)).await), ErrorCode::LeaseLost);
    // And the other way: a lease needs no capacity.
    world.hosts().heartbeat(&credential(), host.clone(), key(), 0).await.expect("no room");
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("the lease is enough");
}

async fn case_l1_a_renewal_is_granted_or_the_lease_is_lost(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    for (before, granted) in [(Duration::from_millis(1), true), (Duration::ZERO, false)] {
        let lease = world.lease(&host, session).await;
        world.clock.advance(TTL - before);
        let renewed = world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await;
        if granted {
            let until = renewed.expect("in time").until;
            world.clock.set(Timestamp(until.0 - 1));
            world.claim(&lease, CommandSeq(1)).await.expect_err("late, but not lost").refusal();
            let owner = world.store.owner(arena(), session).await.expect("an answer");
            assert!(owner.is_some_and(|owner| owner.lease.epoch == lease.epoch), "for the whole granted time");
        } else {
            assert_eq!(code(renewed), ErrorCode::LeaseLost);
            assert_eq!(world.store.owner(arena(), session).await, Ok(None), "never again under that lease");
        }
    }
}

async fn case_l3_a_renewal_counts_from_now(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.clock.advance(TTL / 2);
    let renewed = world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("in time");
    assert_eq!(renewed.until, world.clock.time().plus(TTL));
    assert_eq!(renewed.epoch, lease.epoch);
}

async fn case_l7_lifetimes_are_cut_to_their_bounds(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let limits = HostLimits::default();
    for (asked, granted) in [
        (Some(Duration::ZERO), limits.ttl_min),
        (Some(Duration::from_millis(1 << 36) * 100), limits.ttl_max),
        (Some(Duration::MAX), limits.ttl_max),
        (None, limits.ttl_default),
    ] {
        let lease = world.hosts().acquire_lease(&credential(), &host, arena(), session, asked).await.expect("a lease");
        assert_eq!(lease.until, world.clock.time().plus(granted), "the answer says what was granted");
    }
}

async fn case_l10_a_restarted_host_takes_over_from_itself(world: World) {
    let session = world.session("k").await;
    let (one, two) = (world.host("eu-1").await, world.host("eu-2").await);
    let before = world.lease(&one, session).await;
    let held = acquire(&world, &two, session).await.expect_err("held");
    assert_eq!(held.refusal(), Some(Refusal::LeaseHeld { until: world.clock.time().plus(TTL) }));
    let after = acquire(&world, &one, session).await.expect("it knows that it crashed");
    assert!(after.epoch > before.epoch);
    assert_eq!(code(world.claim(&before, CommandSeq(1)).await), ErrorCode::LeaseLost);
    // With nobody looking, the lapsed one is free.
    world.clock.advance(TTL);
    world.host("eu-2").await;
    acquire(&world, &two, session).await.expect("free at its end");
}

async fn case_l12_a_lease_lapses_in_every_state(world: World) {
    let host = world.host("eu-1").await;
    let mut leases = Vec::new();
    for n in 0..4 {
        let session = world.session(&format!("k{n}")).await;
        let lease = world.lease(&host, session).await;
        if n > 0 {
            world.claim(&lease, CommandSeq(1)).await.expect("claimed");
        }
        if n > 1 {
            world.begin(&lease, CommandSeq(1)).await.expect("begun");
        }
        if n > 2 {
            world.complete(&lease, CommandSeq(1)).await.expect("completed");
        }
        leases.push(lease);
    }
    for _ in 0..20 {
        world.clock.advance(TTL / 2);
        for lease in &leases {
            world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("renewed on time");
        }
    }
    world.clock.advance(TTL);
    for lease in &leases {
        assert_eq!(world.store.owner(arena(), lease.session).await, Ok(None));
    }
}

/// A heartbeat keeps the host a candidate, a renewal keeps the lease, a claim keeps neither.
async fn case_l13_what_keeps_what_alive(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let request = || ListCompatibleHostsRequest { key: key(), after: None, limit: 10 };
    world.clock.advance(HostLimits::default().heartbeat - SECOND);
    world.hosts().renew_lease(&credential(), lease.clone(), Some(TTL)).await.expect("in time");
    world.clock.advance(SECOND);
    assert_eq!(world.store.candidates(request()).await.expect("a page").hosts, [], "no heartbeat, no candidate");
    assert!(world.store.owner(arena(), session).await.expect("an answer").is_some(), "the lease is another matter");
    world.host("eu-1").await;
    assert_eq!(world.store.candidates(request()).await.expect("a page").hosts.len(), 1);
    world.clock.advance(TTL - SECOND);
    world.host("eu-1").await;
    assert_eq!(world.store.owner(arena(), session).await, Ok(None), "a heartbeat keeps no lease");
}

async fn a_closed_session_gives_no_lease(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let closed = world.hosts().release_lease(&credential(), lease.clone(), true).await.expect("closed");
    assert_eq!(closed.closed_at, Some(world.clock.time()));
    let again = world.hosts().release_lease(&credential(), lease, true).await.expect("again is the same");
    assert_eq!(again.closed_at, closed.closed_at);
    assert_eq!(code(acquire(&world, &host, session).await), ErrorCode::SessionClosed);
}
