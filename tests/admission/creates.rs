//! Creates in three steps (rules P2, P3).

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;
use std::time::Duration;

contract!(
    adm_p3_a_create_resumes_from_each_step_to_the_same_session,
    adm_p3_before_the_last_step_nobody_sees_anything,
    adm_p3_the_same_key_is_the_same_session,
    adm_p3_a_large_payload_is_stored_and_referred_to,
    adm_p3_prepared_creates_have_a_quota,
    adm_p3_what_a_quota_refuses_is_taken_back_whole,
    adm_p3_without_creates_everything_else_works,
    adm_p2_creates_are_of_the_disposition_family,
    case_i4_a_refused_create_is_not_remembered,
    creates_that_nobody_applied_hold_nothing,
    a_create_that_ends_otherwise_than_applied_closes_its_session,
);

fn idempotency(key: &str) -> Idempotency {
    Idempotency { principal: name("user:alice"), key: request_key(key), fingerprint: Sha256::of(b"what it says") }
}

fn prepare(key: &str, proposed: u128) -> PreparePublicCreateRequest {
    PreparePublicCreateRequest {
        tenant: arena(),
        idempotency: idempotency(key),
        proposed: SessionId(proposed),
        template: template(),
    }
}

fn admit(key: &str, session: SessionId, payload: Payload) -> AdmitPublicCreateRequest {
    AdmitPublicCreateRequest {
        tenant: arena(),
        idempotency: idempotency(key),
        session,
        agent: agent(),
        target: target(),
        payload,
        apply_within: DEADLINE,
    }
}

fn put(key: &str, session: SessionId, content: &'static [u8]) -> PutCommandPayloadRequest {
    let owner = PayloadOwner::Create { principal: name("user:alice"), key: request_key(key) };
    PutCommandPayloadRequest { tenant: arena(), session, owner, bytes: Bytes::from_static(content) }
}

/// Rule P3: a crash between any two steps, which is a step that was done and never answered.
async fn adm_p3_a_create_resumes_from_each_step_to_the_same_session(world: World) {
    let store = &world.store;
    for steps in 0..=3 {
        let key = format!("steps-{steps}");
        let first = SessionId(1_000 + steps);
        let mut stored = None;
        if steps >= 1 {
            let prepared = store.prepare_public_create(prepare(&key, first.0)).await.expect("a preparation");
            assert_eq!((prepared.session, prepared.resumed), (first, false));
        }
        if steps >= 2 {
            stored =
                Some(PublicCreateStore::put_command_payload(store, put(&key, first, b"large")).await.expect("stored"));
        }
        if steps >= 3 {
            let stored = stored.expect("the step before");
            let payload = Payload::Stored(PayloadRef { sha256: stored.sha256, len: 5 });
            store.admit_public_create(admit(&key, first, payload)).await.expect("admitted");
        }
        // The process is gone, the caller asks again with the same key: another process, which proposes another id.
        let again = SessionId(2_000 + steps);
        let other = world.reopened(small());
        let prepared = other.prepare_public_create(prepare(&key, again.0)).await.expect("a preparation");
        let expected = if steps == 0 { again } else { first };
        assert_eq!((prepared.session, prepared.resumed, prepared.admitted), (expected, steps > 0, steps == 3));
        let metadata = if steps == 3 {
            stored.expect("stored before")
        } else {
            PublicCreateStore::put_command_payload(&other, put(&key, expected, b"large")).await.expect("stored again")
        };
        let payload = Payload::Stored(PayloadRef { sha256: metadata.sha256, len: 0 });
        let (entry, created) = other.admit_public_create(admit(&key, expected, payload)).await.expect("admitted");
        assert_eq!((entry.session, entry.seq, created), (expected, CommandSeq(1), steps < 3));
        assert_eq!(entry.payload, Payload::Stored(PayloadRef { sha256: Sha256::of(b"large"), len: 5 }));
    }
}

async fn adm_p3_before_the_last_step_nobody_sees_anything(world: World) {
    let store = &world.store;
    let host = world.host("eu-1").await;
    let session = SessionId(7);
    store.prepare_public_create(prepare("k", session.0)).await.expect("a preparation");
    PublicCreateStore::put_command_payload(store, put("k", session, b"large")).await.expect("stored");
    store.place_due(10).await.expect("placement");
    assert_eq!(world.hosts().work(&credential(), &host, Duration::ZERO).await, Ok(Vec::new()));
    assert_eq!(code(world.service().session(&alice(), session).await), ErrorCode::UnknownSession);
    let refused = world.hosts().acquire_lease(&credential(), &host, arena(), session, None).await;
    assert_eq!(code(refused), ErrorCode::UnknownSession);
    assert_eq!(world.due().await, 0);
    assert_eq!(code(world.service().admit_input(&alice(), input(session, "i")).await), ErrorCode::UnknownSession);

    let payload = Payload::Stored(PayloadRef { sha256: Sha256::of(b"large"), len: 5 });
    store.admit_public_create(admit("k", session, payload)).await.expect("admitted");
    store.place_due(10).await.expect("placement");
    let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
    assert_eq!(work.len(), 1, "the session, its command and that it wants a host came at once");
    assert_eq!(world.due().await, 1);
}

async fn adm_p3_the_same_key_is_the_same_session(world: World) {
    let service = world.service();
    let (first, created) = service.admit_create(&alice(), create("k")).await.expect("a create");
    assert!(created);
    let (again, created) = service.admit_create(&alice(), create("k")).await.expect("the same");
    assert_eq!((again.session, again.seq, created), (first.session, first.seq, false));
    // Case I7: what it says otherwise is another request.
    let other = CreateRequest { payload: bytes("{ }"), ..create("k") };
    assert_eq!(code(service.admit_create(&alice(), other).await), ErrorCode::IdempotencyMismatch);
    // Case I2: another caller's key is another key.
    let bob = tenant_principal("arena", "user:bob");
    let (bobs, created) = service.admit_create(&bob, create("k")).await.expect("a create of his own");
    assert!(created && bobs.session != first.session);
    let (foreign, created) =
        service.admit_create(&tenant_principal("chess", "user:alice"), create("k")).await.expect("own");
    assert!(created && foreign.session != first.session);
}

async fn adm_p3_a_large_payload_is_stored_and_referred_to(world: World) {
    let large = Bytes::from(vec![b'x'; INLINE_MAX + 1]);
    let request = CreateRequest { payload: RequestPayload::Bytes(large.clone()), ..create("large") };
    let (entry, _) = world.service().admit_create(&alice(), request.clone()).await.expect("a create");
    let stored = PayloadRef { sha256: Sha256::of(&large), len: large.len() as u64 };
    assert_eq!(entry.payload, Payload::Stored(stored));
    let (_, created) = world.service().admit_create(&alice(), request).await.expect("the same");
    assert!(!created, "a create that was admitted takes no payload and is the same all the same");
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, entry.session).await;
    let content = world.hosts().payload(&credential(), lease, stored.sha256).await.expect("the content");
    assert_eq!(content, large);
    let inline = CreateRequest { payload: RequestPayload::Bytes(large.slice(1..)), ..create("small") };
    let (entry, _) = world.service().admit_create(&alice(), inline).await.expect("a create");
    assert!(matches!(&entry.payload, Payload::Inline(bytes) if bytes.len() == INLINE_MAX));
    let too_large = Bytes::from(vec![0; PAYLOAD_MAX + 1]);
    let request = CreateRequest { payload: RequestPayload::Bytes(too_large), ..create("huge") };
    assert_eq!(code(world.service().admit_create(&alice(), request).await), ErrorCode::BadPayload);
}

async fn adm_p3_prepared_creates_have_a_quota(world: World) {
    let limit = world.store.settings().prepared_creates_max;
    for n in 0..limit {
        world.store.prepare_public_create(prepare(&format!("k{n}"), u128::from(n) + 1)).await.expect("below the quota");
    }
    let refused = world.store.prepare_public_create(prepare("one-more", 9_999)).await;
    let quota = Refusal::QuotaExceeded { quota: Quota::PreparedCreates, limit };
    assert_eq!(refused, Err(StoreError::Refused(quota)));
    // An admission makes room.
    let payload = Payload::Inline(Bytes::from_static(b"{}"));
    world.store.admit_public_create(admit("k0", SessionId(1), payload)).await.expect("admitted");
    world.store.prepare_public_create(prepare("one-more", 9_999)).await.expect("room");
}

/// Rule P3: the absence of either is a supported composition.
async fn adm_p3_without_creates_everything_else_works(world: World) {
    let without_store = Config { public_creates: None, ..world.config() };
    let without_binding = Config { binding: None, ..world.config() };
    for (n, config) in [without_store, without_binding].into_iter().enumerate() {
        let session = world.session(&format!("k{n}")).await;
        let service = Service::new(config).expect("a supported composition");
        assert_eq!(code(service.admit_create(&alice(), create("n")).await), ErrorCode::CreatesUnsupported);
        let key = format!("large-{n}");
        let large = RequestPayload::Bytes(Bytes::from(vec![b'x'; INLINE_MAX + 1]));
        service.admit_input(&alice(), InputRequest { payload: large, ..input(session, &key) }).await.expect("an input");
        let restore = RestoreRequest { session, key: request_key(&key), payload: bytes("state"), apply_within: None };
        service.admit_restore(&alice(), restore).await.expect("a restore");
        let interrupt = InterruptRequest { session, key: request_key(&key), payload: bytes(""), apply_within: None };
        service.admit_interrupt(&alice(), interrupt).await.expect("an interrupt");
        let gate =
            GateResponseRequest { session, key: request_key(&key), attempt_id: 5, admit: true, apply_within: None };
        let (entry, _) = service.admit_gate_response(&alice(), gate).await.expect("a gate response");
        let text = Bytes::from_static(b"{\"attempt_id\":\"00000000000000000000000000000005\",\"admit\":true}");
        assert_eq!(entry.payload, Payload::Inline(text));
    }
    // A binding whose objects nobody could read is refused when the service is built: it has no repair.
    for objects in [None, Some(Arc::new(ConfiguredBindings::default()) as Arc<dyn ObjectStoreResolver>)] {
        let error = Service::new(Config { objects, ..world.config() }).err().expect("refused");
        assert!(matches!(error.cause, Some(Cause::Field { field: "storage_binding_id", .. })), "{error}");
    }
}

async fn adm_p2_creates_are_of_the_disposition_family(world: World) {
    let session = world.session("k").await;
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    assert_eq!(entry.binding.protocol_mode, ProtocolMode::Disposition);
    assert_eq!(entry.binding, SessionBinding::derive(&template(), &arena(), session, ProtocolMode::Disposition));
    assert_eq!(entry.target, target());
}

async fn case_i4_a_refused_create_is_not_remembered(world: World) {
    let unknown = CreateRequest { agent: AgentId::new("chess").unwrap(), ..create("k") };
    assert_eq!(code(world.service().admit_create(&alice(), unknown).await), ErrorCode::UnknownTarget);
    let late = CreateRequest { apply_within: Some(Duration::ZERO), ..create("k") };
    assert_eq!(code(world.service().admit_create(&alice(), late).await), ErrorCode::Invalid);
    let (_, created) = world.service().admit_create(&alice(), create("k")).await.expect("the key is free");
    assert!(created);
}

/// The quota of commands is looked at last, when the create and the counters have been written already.
async fn adm_p3_what_a_quota_refuses_is_taken_back_whole(world: World) {
    let Some(world) = world.with(Settings { open_commands_max: 1, ..small() }) else { return };
    let first = world.session("first").await;
    let (store, payload) = (&world.store, || Payload::Inline(Bytes::from_static(b"{}")));
    store.prepare_public_create(prepare("second", 7)).await.expect("a preparation");
    let refused = store.admit_public_create(admit("second", SessionId(7), payload())).await;
    let quota = Refusal::QuotaExceeded { quota: Quota::OpenCommands, limit: 1 };
    assert_eq!(refused, Err(StoreError::Refused(quota)));
    let again = store.prepare_public_create(prepare("second", 8)).await.expect("a preparation");
    assert_eq!((again.session, again.resumed, again.admitted), (SessionId(7), true, false));
    let get = GetCatalogEntryRequest { tenant: arena(), session: SessionId(7) };
    assert_eq!(store.get_catalog_entry(get).await, Err(StoreError::Refused(Refusal::UnknownSession)));
    let lease = world.lease(&world.host("eu-1").await, first).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.complete(&lease, CommandSeq(1)).await.expect("completed");
    let (_, created) =
        store.admit_public_create(admit("second", SessionId(7), payload())).await.expect("there is room now");
    assert!(created);
}

/// As many creates as the quota allows and a host could take expire while no host is up; then there is one.
async fn creates_that_nobody_applied_hold_nothing(world: World) {
    let quota = 10;
    let world = world.with(Settings { sessions_max: quota, ..small() }).expect("as the first");
    let mut expired = Vec::new();
    for n in 0..quota {
        expired.push(world.session(&format!("k{n}")).await);
    }
    world.store.place_due(100).await.expect("placement");
    let refused = world.service().admit_create(&alice(), create("one-more")).await.expect_err("at the quota");
    assert_eq!(refused.refusal(), Some(Refusal::QuotaExceeded { quota: Quota::Sessions, limit: quota }));
    world.clock.advance(DEADLINE);
    assert_eq!(world.sweep_all(&world.sweeper("a")).await, [(Disposition::Rejected, expired.len())].into());

    let host = world.host("eu-1").await;
    world.store.place_due(100).await.expect("placement");
    assert_eq!(
        world.hosts().work(&credential(), &host, Duration::ZERO).await,
        Ok(Vec::new()),
        "nothing is left to run"
    );
    for session in &expired {
        let entry = world.service().session(&alice(), *session).await.expect("to be read").entry;
        assert_eq!((entry.closed_at, entry.placed), (Some(world.clock.time()), None));
        assert_eq!(code(world.service().admit_input(&alice(), input(*session, "i")).await), ErrorCode::SessionClosed);
    }
    assert_eq!(world.store.place_due(100).await, Ok(0), "nor to look at");

    let mut fresh = Vec::new();
    for n in 0..quota {
        fresh.push(world.session(&format!("new-{n}")).await);
    }
    world.store.place_due(100).await.expect("placement");
    assert_eq!(world.store.get_host(host.clone()).await.expect("a host").placed, 10, "all of its room is theirs");
    let lease = world.lease(&host, fresh[0]).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.complete(&lease, CommandSeq(1)).await.expect("applied");
    world.clock.advance(world.store.settings().closed_for);
    for _ in 0..3 {
        world.store.forget_due(100).await.expect("a step");
    }
    assert_eq!(code(world.service().session(&alice(), expired[0]).await), ErrorCode::UnknownSession, "forgotten");
}

/// Refused by its host, or left behind by one that crashed: both ways nobody runs the session. One that was applied is
/// its host's to close.
async fn a_create_that_ends_otherwise_than_applied_closes_its_session(world: World) {
    let host = world.host("eu-1").await;
    let refused = Completion::Rejected(OutcomeCode::new("no_such_map").unwrap());
    for (completion, closed) in [(Completion::Applied, false), (refused, true)] {
        let session = world.session(if closed { "refused" } else { "applied" }).await;
        let lease = world.lease(&host, session).await;
        world.claim(&lease, CommandSeq(1)).await.expect("claimed");
        world.begin(&lease, CommandSeq(1)).await.expect("begun");
        world.hosts().complete(&credential(), lease.clone(), CommandSeq(1), completion).await.expect("completed");
        let entry = world.service().session(&alice(), session).await.expect("a session").entry;
        assert_eq!(entry.closed_at.is_some(), closed);
        let work = world.hosts().work(&credential(), &host, Duration::ZERO).await.expect("work");
        let tasks: Vec<_> = work.iter().flat_map(|work| work.tasks.clone()).collect();
        assert_eq!(tasks, if closed { vec![Task::Release] } else { vec![] });
        let again = world.hosts().release_lease(&credential(), lease, true).await.expect("closed, or closed before");
        assert!(again.closed_at.is_some());
    }
    let session = world.session("abandoned").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.clock.advance(TTL);
    let next = world.host("eu-2").await;
    let lease = world.lease(&next, session).await;
    world.settle(&lease, CommandSeq(1)).await.expect("settled");
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    assert!(entry.closed_at.is_some() && entry.open == 0);
}
