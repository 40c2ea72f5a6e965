//! What is over is forgotten, in bounded steps; and what the operator sees of what is not.

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;

contract!(
    a_closed_session_is_forgotten_after_its_retention,
    an_open_command_keeps_its_closed_session,
    a_prepared_create_is_forgotten_and_makes_room,
    hosts_of_a_key_are_bounded,
    adm_p1_the_operators_view_is_the_deployments,
);

async fn closed(world: &World) -> SessionId {
    let large = RequestPayload::Bytes(Bytes::from(vec![b'x'; INLINE_MAX + 1]));
    let request = CreateRequest { payload: large, ..create("k") };
    let session = world.service().admit_create(&alice(), request).await.expect("a create").0.session;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.complete(&lease, CommandSeq(1)).await.expect("completed");
    world.hosts().release_lease(&credential(), lease, true).await.expect("closed");
    session
}

async fn a_closed_session_is_forgotten_after_its_retention(world: World) {
    let session = closed(&world).await;
    let kept = world.store.settings().closed_for;
    world.clock.advance(kept - SECOND);
    assert_eq!(world.store.forget_due(10).await, Ok(0));
    assert_eq!(world.view(session, CommandSeq(1)).await.0, CallerState::Applied, "to be read as long as that");
    world.clock.advance(SECOND);
    assert_eq!(world.store.forget_due(10).await, Ok(1));
    assert_eq!(world.store.forget_due(10).await, Ok(0));
    assert_eq!(code(world.service().session(&alice(), session).await), ErrorCode::UnknownSession);
    let journal = world.store.read_journal(arena(), session, CommandSeq(1), 10).await;
    assert_eq!(journal, Ok(Vec::new()));
    let sha256 = Sha256::of(&vec![b'x'; INLINE_MAX + 1]);
    let content = world.store.get_command_payload(GetCommandPayloadRequest { tenant: arena(), session, sha256 }).await;
    assert_eq!(content, Err(StoreError::Refused(Refusal::UnknownPayload)));
    // Its key means nothing any more.
    let (again, created) = world.service().admit_create(&alice(), create("k")).await.expect("a new create");
    assert!(created && again.session != session);
}

async fn an_open_command_keeps_its_closed_session(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.hosts().release_lease(&credential(), lease, true).await.expect("closed");
    world.clock.advance(world.store.settings().closed_for);
    world.store.forget_due(10).await.expect("a step");
    assert_eq!(world.view(session, CommandSeq(1)).await.0, CallerState::Applying, "somebody still owes it an end");
}

async fn a_prepared_create_is_forgotten_and_makes_room(world: World) {
    let limit = world.store.settings().prepared_creates_max;
    let prepare = |n: u64| PreparePublicCreateRequest {
        tenant: arena(),
        idempotency: Idempotency {
            principal: name("user:alice"),
            key: request_key(&format!("k{n}")),
            fingerprint: Sha256::of(b"x"),
        },
        proposed: SessionId(u128::from(n) + 1),
        template: template(),
    };
    for n in 0..limit {
        world.store.prepare_public_create(prepare(n)).await.expect("below the quota");
    }
    world.store.prepare_public_create(prepare(limit)).await.expect_err("at the quota");
    world.clock.advance(world.store.settings().prepared_for);
    forget_all(&world).await;
    let fresh = world.store.prepare_public_create(prepare(0)).await.expect("room");
    assert!(!fresh.resumed);
    // An admitted one is no prepared one.
    let session = world.session("admitted").await;
    world.clock.advance(world.store.settings().prepared_for);
    forget_all(&world).await;
    assert!(world.service().session(&alice(), session).await.is_ok());
}

/// Steps until nothing is left to forget, which is soon.
async fn forget_all(world: &World) {
    for _ in 0..1_000 {
        if world.store.forget_due(16).await.expect("a step") == 0 {
            return;
        }
    }
    panic!("what is found to be over is never gone");
}

async fn hosts_of_a_key_are_bounded(world: World) {
    let register = |n: u32| RegisterHostRequest {
        host: HostId::new(format!("h{n:04}")).unwrap(),
        credential: name("host:eu"),
        key: key(),
        capacity: 1,
        ttl: if n == 7 { SECOND } else { TTL },
    };
    for n in 0..1_024 {
        world.store.register_host(register(n)).await.expect("below the bound");
    }
    let full = world.store.register_host(register(1_024)).await.map(drop);
    assert_eq!(full, Err(StoreError::Refused(Refusal::TooManyHosts { limit: 1_024 })));
    world.store.register_host(register(3)).await.expect("one that is there is refreshed");
    world.clock.advance(SECOND);
    world.store.register_host(register(1_024)).await.expect("in the place of one that is gone");
    let gone = world.store.get_host(HostId::new("h0007").unwrap()).await.map(drop);
    assert_eq!(gone, Err(StoreError::Refused(Refusal::UnknownHost)));
}

async fn adm_p1_the_operators_view_is_the_deployments(world: World) {
    let board = Arc::new(SweepBoard::default());
    let operator_service = OperatorService {
        authorizer: Arc::new(KindAuthorizer),
        store: world.store.clone(),
        board: Arc::clone(&board),
        counters: Arc::clone(&world.counters),
    };
    for principal in [alice(), credential()] {
        assert_eq!(code(operator_service.view(&principal).await), ErrorCode::Forbidden);
    }
    world.session("k").await;
    let upkeep = world.upkeep(board);
    world.clock.advance(DEADLINE + SECOND);
    let oldest = START.plus(DEADLINE);
    let due = operator_service.view(&operator()).await.expect("a view").due;
    let found: Vec<_> = due.iter().filter(|shard| shard.due > 0).collect();
    assert_eq!((due.len(), found.len(), found[0].due, found[0].oldest), (4, 1, 1, Some(oldest)));
    for _ in 0..4 {
        upkeep.step().await;
    }
    let view = operator_service.view(&operator()).await.expect("a view");
    assert_eq!((view.disposition_sweeps.len(), view.legacy_sweeps.len()), (4, 4));
    assert_eq!(view.counts.dispositions[&Disposition::Rejected], 1);
    assert_eq!((view.counts.sweeps, view.counts.failed_sweeps), (8, 0));
    assert!(view.due.iter().all(|shard| shard.due == 0 && shard.oldest.is_none()));
}
