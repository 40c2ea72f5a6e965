//! Admission (rules P2, P4).

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(
    adm_p4_the_same_request_is_the_same_entry,
    adm_p4_the_deadline_is_admission_and_apply_within,
    adm_p2_a_legacy_session_is_refused_before_anything_is_written,
    adm_p2_legacy_creates_are_refused,
    case_i1_fifty_at_once_are_one,
    case_i2_keys_are_apart_by_caller_kind_and_session,
    case_i4_refusals_are_not_remembered,
    case_q4_deadlines_out_of_bounds_are_refused,
    refusals_are_distinct,
    numbers_have_no_gaps,
    a_payload_is_what_its_digest_says,
    a_withdrawn_call_is_not_begun,
);

async fn adm_p4_the_same_request_is_the_same_entry(world: World) {
    let session = world.session("k").await;
    let service = world.service();
    let (first, created) = service.admit_input(&alice(), input(session, "i")).await.expect("admitted");
    assert!(created);
    world.clock.advance(SECOND);
    let (again, created) = service.admit_input(&alice(), input(session, "i")).await.expect("the same");
    assert_eq!((&again, created), (&first, false), "also the deadline is the first one's");
    let other = InputRequest { payload: bytes("{\"move\":2}"), ..input(session, "i") };
    assert_eq!(code(service.admit_input(&alice(), other).await), ErrorCode::IdempotencyMismatch);
    // Spelled-out defaults don't matter (rule F1), other times do.
    let spelled = InputRequest { apply_within: Some(DEADLINE), ..input(session, "i") };
    assert!(!service.admit_input(&alice(), spelled).await.expect("the same").1);
    let longer = InputRequest { apply_within: Some(DEADLINE * 2), ..input(session, "i") };
    assert_eq!(code(service.admit_input(&alice(), longer).await), ErrorCode::IdempotencyMismatch);
    // Once it ended, it is still the same one.
    world.clock.advance(DEADLINE);
    world.sweep_all(&world.sweeper("a")).await;
    let (ended, created) = service.admit_input(&alice(), input(session, "i")).await.expect("the same");
    assert_eq!((ended.seq, ended.state.clone(), created), (first.seq, CommandState::Rejected, false));
}

async fn adm_p4_the_deadline_is_admission_and_apply_within(world: World) {
    let session = world.session("k").await;
    world.clock.advance(SECOND);
    let entry = world.input(session, "i").await;
    let now = world.clock.time();
    assert_eq!((entry.admitted_at, entry.deadline), (now, now.plus(DEADLINE)));
    let shorter = InputRequest { apply_within: Some(SECOND), ..input(session, "j") };
    let (entry, _) = world.service().admit_input(&alice(), shorter).await.expect("admitted");
    assert_eq!(entry.deadline, now.plus(SECOND));
}

async fn legacy_session(world: &World) -> SessionId {
    let session = SessionId(77);
    let request = CreateCatalogEntryRequest {
        tenant: arena(),
        session,
        binding: SessionBinding::derive(&template(), &arena(), session, ProtocolMode::Legacy),
        agent: agent(),
        target: target(),
        principal: name("user:alice"),
    };
    world.store.create_catalog_entry(request.clone()).await.expect_err("refused by a store that was not opened for it");
    let migration = world.reopened(Settings { allow_legacy: true, ..small() });
    if matches!(world.backing, Backing::Memory) {
        // In memory there is one store and it was opened without; its rows come from nowhere else.
        return session;
    }
    migration.create_catalog_entry(request).await.expect("a migration's row");
    session
}

async fn adm_p2_a_legacy_session_is_refused_before_anything_is_written(world: World) {
    let session = legacy_session(&world).await;
    let in_memory = matches!(world.backing, Backing::Memory);
    let expected = if in_memory { ErrorCode::UnknownSession } else { ErrorCode::LegacySessionUnsupported };
    let large = RequestPayload::Bytes(Bytes::from(vec![1; INLINE_MAX + 1]));
    let refused = world.service().admit_input(&alice(), InputRequest { payload: large, ..input(session, "i") }).await;
    assert_eq!(code(refused), expected);
    let digest = Sha256::of(&vec![1; INLINE_MAX + 1]);
    let stored =
        world.store.get_command_payload(GetCommandPayloadRequest { tenant: arena(), session, sha256: digest }).await;
    assert_eq!(stored, Err(StoreError::Refused(Refusal::UnknownPayload)), "not even its payload");
    if in_memory {
        return;
    }
    // The store refuses it once more, and so does residency.
    let request = AdmitDispositionCommandRequest {
        tenant: arena(),
        session,
        kind: CommandKind::Input,
        idempotency: Idempotency {
            principal: name("user:alice"),
            key: request_key("i"),
            fingerprint: Sha256::of(b"x"),
        },
        payload: Payload::Inline(Bytes::from_static(b"x")),
        apply_within: DEADLINE,
    };
    let refused = world.store.admit_disposition_command(request).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::LegacySessionUnsupported)));
    let host = world.host("eu-1").await;
    let refused = world.hosts().acquire_lease(&credential(), &host, arena(), session, None).await;
    assert_eq!(code(refused), ErrorCode::LegacySessionUnsupported);
}

async fn adm_p2_legacy_creates_are_refused(world: World) {
    let request = || LegacyCreateRequest { agent_id: agent(), blocks: Bytes::from_static(b"[]") };
    let refused = world.service().admit_legacy_create(&alice(), request()).await;
    assert_eq!(code(refused), ErrorCode::LegacySessionUnsupported);
    let without = Service::new(Config { legacy: None, ..world.config() }).expect("valid");
    assert_eq!(code(without.admit_legacy_create(&alice(), request()).await), ErrorCode::LegacySessionUnsupported);
    assert_eq!(world.due().await, 0);
}

async fn case_i1_fifty_at_once_are_one(world: World) {
    let session = world.session("k").await;
    let world = std::sync::Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let world = std::sync::Arc::clone(&world);
        calls.spawn(async move { world.service().admit_input(&alice(), input(session, "i")).await });
    }
    let mut created = 0;
    while let Some(answer) = calls.join_next().await {
        let (entry, is_new) = answer.expect("no panic").expect("never an error");
        assert_eq!(entry.seq, CommandSeq(2));
        created += usize::from(is_new);
    }
    assert_eq!(created, 1);
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    assert_eq!((entry.commands, entry.open), (2, 2));
}

async fn case_i2_keys_are_apart_by_caller_kind_and_session(world: World) {
    let (one, two) = (world.session("one").await, world.session("two").await);
    let service = world.service();
    let bob = tenant_principal("arena", "user:bob");
    let interrupt =
        InterruptRequest { session: one, key: request_key("i"), payload: bytes("{\"move\":1}"), apply_within: None };
    let admitted = [
        service.admit_input(&alice(), input(one, "i")).await.expect("admitted"),
        service.admit_input(&bob, input(one, "i")).await.expect("admitted"),
        service.admit_input(&alice(), input(two, "i")).await.expect("admitted"),
        service.admit_interrupt(&alice(), interrupt).await.expect("admitted"),
    ];
    assert!(admitted.iter().all(|(_, created)| *created), "independent effects");
}

async fn case_i4_refusals_are_not_remembered(world: World) {
    let session = world.session("k").await;
    let missing = InputRequest { payload: RequestPayload::Stored(Sha256::of(b"later")), ..input(session, "i") };
    assert_eq!(code(world.service().admit_input(&alice(), missing.clone()).await), ErrorCode::BadPayload);
    let content = Bytes::from_static(b"later");
    world.service().put_payload(&alice(), session, Sha256::of(&content), content).await.expect("stored");
    let (entry, created) = world.service().admit_input(&alice(), missing).await.expect("the reason is gone");
    assert!(created);
    let stored = PayloadRef { sha256: Sha256::of(b"later"), len: 5 };
    assert_eq!(entry.payload, Payload::Stored(stored), "with the length that is stored");
}

async fn case_q4_deadlines_out_of_bounds_are_refused(world: World) {
    let session = world.session("k").await;
    for (n, time) in [
        Duration::ZERO,
        APPLY_WITHIN_MIN - Duration::from_millis(1),
        APPLY_WITHIN_MAX + Duration::from_millis(1),
        Duration::from_millis(1 << 36) * 100,
        Duration::MAX,
    ]
    .into_iter()
    .enumerate()
    {
        let request = InputRequest { apply_within: Some(time), ..input(session, &format!("i{n}")) };
        let error = world.service().admit_input(&alice(), request).await.expect_err("out of bounds");
        assert!(matches!(error.cause, Some(Cause::Field { field: "apply_within_ms", .. })), "{error}");
    }
    for (n, time) in [APPLY_WITHIN_MIN, APPLY_WITHIN_MAX].into_iter().enumerate() {
        let request = InputRequest { apply_within: Some(time), ..input(session, &format!("j{n}")) };
        world.service().admit_input(&alice(), request).await.expect("inside the bounds");
    }
}

async fn refusals_are_distinct(world: World) {
    let service = world.service();
    assert_eq!(code(service.admit_input(&alice(), input(SessionId(9), "i")).await), ErrorCode::UnknownSession);
    let session = world.session("k").await;
    for n in 0..7 {
        world.input(session, &format!("i{n}")).await;
    }
    let full = service.admit_input(&alice(), input(session, "one-more")).await.expect_err("full");
    assert_eq!((full.code, full.refusal()), (ErrorCode::InboxFull, Some(Refusal::InboxFull { limit: 8 })));
    let huge = RequestPayload::Bytes(Bytes::from(vec![0; PAYLOAD_MAX + 1]));
    let other = world.session("other").await;
    let refused = service.admit_input(&alice(), InputRequest { payload: huge, ..input(other, "i") }).await;
    assert_eq!(code(refused), ErrorCode::BadPayload);
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, other).await;
    world.hosts().release_lease(&credential(), lease, true).await.expect("closed");
    assert_eq!(code(service.admit_input(&alice(), input(other, "i")).await), ErrorCode::SessionClosed);
    let counts = world.counters.counts();
    assert_eq!(counts.refused[&ErrorCode::InboxFull], 1);
    assert_eq!(counts.refused[&ErrorCode::SessionClosed], 1);
    assert_eq!((counts.admitted[&CommandKind::Create], counts.admitted[&CommandKind::Input]), (2, 7));
}

async fn numbers_have_no_gaps(world: World) {
    let session = world.session("k").await;
    let mut seqs = Vec::new();
    for n in 0..6 {
        drop(world.service().admit_input(&alice(), input(SessionId(404), &format!("lost{n}"))).await);
        seqs.push(world.input(session, &format!("i{n}")).await.seq.0);
    }
    assert_eq!(seqs, [2, 3, 4, 5, 6, 7]);
}

async fn a_payload_is_what_its_digest_says(world: World) {
    let session = world.session("k").await;
    let service = world.service();
    let content = Bytes::from_static(b"content");
    let wrong = service.put_payload(&alice(), session, Sha256::of(b"other"), content.clone()).await;
    assert_eq!(code(wrong), ErrorCode::BadPayload);
    let first = service.put_payload(&alice(), session, Sha256::of(&content), content.clone()).await.expect("stored");
    world.clock.advance(SECOND);
    let again = service.put_payload(&alice(), session, Sha256::of(&content), content.clone()).await.expect("the same");
    assert_eq!(first, again);
    let foreign = service.put_payload(&alice(), SessionId(404), Sha256::of(&content), content).await;
    assert_eq!(code(foreign), ErrorCode::UnknownSession);
}

/// Whoever drops a call before it was begun has withdrawn it (rule K1).
async fn a_withdrawn_call_is_not_begun(world: World) {
    let session = world.session("k").await;
    let service = world.service();
    drop(service.admit_input(&alice(), input(session, "never")));
    let entry = world.service().session(&alice(), session).await.expect("a session").entry;
    assert_eq!(entry.commands, 1);
}
