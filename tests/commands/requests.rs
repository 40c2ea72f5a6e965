//! Creates and commands: shapes, keys, refusals.

use crate::harness::{SESSIONS, World};
use serde_json::{Value, json};

#[tokio::test]
async fn adm_p4_a_create_is_accepted_once_and_replayed_with_the_same_answer() {
    let world = World::start().await;
    let body = json!({"profile": "arena", "payload": {"map": "dust"}, "apply_within_ms": 60_000});
    let first = world.post(SESSIONS, "k", body.clone()).await;
    assert_eq!(first.status, 202, "{first:?}");
    let session = first.json["session_id"].as_str().unwrap();
    assert_eq!(first.header("location"), Some(format!("{SESSIONS}/{session}/commands/1").as_str()));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert!(first.header("rendezvous-commit").is_some() && first.header("cache-control") == Some("private, no-store"));
    let command = &first.json["command"];
    assert_eq!(
        (&command["kind"], &command["state"], &command["command"]),
        (&json!("create"), &json!("admitted"), &json!(1))
    );
    assert_eq!(command["admitted_by"], "user:backend");
    assert_eq!(command.get("payload"), None, "what it carries is the host's business");
    let again = world.post(SESSIONS, "k", body.clone()).await;
    assert_eq!((again.status, &again.json), (202, &first.json));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let spelled_otherwise = json!({"apply_within_ms": 60_000, "payload": "{\"map\":\"dust\"}", "profile": "arena"});
    assert_eq!(
        world.post(SESSIONS, "k", spelled_otherwise).await.json,
        first.json,
        "the same content is the same request"
    );
    let other = world.post(SESSIONS, "k", json!({"profile": "arena", "payload": "else"})).await;
    assert_eq!((other.status, other.code(), &other.json["reason"]), (422, "conflict", &json!("idempotency_mismatch")));
    let look = world.get(first.header("location").unwrap()).await;
    assert_eq!((look.status, &look.json), (200, command));
    assert_eq!(look.header("etag"), Some(format!("\"{}\"", command["revision"]).as_str()));
    let seen = world.get(&format!("{SESSIONS}/{session}")).await.json;
    assert_eq!(
        (&seen["profile"], &seen["state"], &seen["open_commands"]),
        (&json!("arena"), &json!("open"), &json!(1))
    );
    assert_eq!(seen["binding"]["protocol_mode"], "disposition");
}

/// Case I1: one key, many callers at once, one session.
#[tokio::test(flavor = "multi_thread")]
async fn case_i1_concurrent_creates_under_one_key_make_one_session() {
    let world = World::start().await;
    let asked = (0..16).map(|_| world.post(SESSIONS, "same", json!({"profile": "arena"})));
    let mut answers = Vec::new();
    // All are on their way before the first answer is looked at.
    let mut open: Vec<_> = asked.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        open.retain_mut(|answer| match answer.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if open.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    let first = &answers[0].json["session_id"];
    assert!(answers.iter().all(|answer| answer.status == 202 && answer.json["session_id"] == *first), "{answers:?}");
    let created = answers.iter().filter(|answer| answer.header("idempotent-replayed").is_none()).count();
    assert_eq!(created, 1);
}

/// Case I2: the same key of another principal, another kind or another session is another request.
#[tokio::test]
async fn case_i2_keys_of_others_do_not_meet() {
    use crate::harness::jwt;
    let world = World::start().await;
    let session = world.session("k").await;
    let alice = jwt(json!({"sub": "alice", "tenant": "demo", "scope": "commands"}));
    let headers = [("authorization", alice.as_str()), ("idempotency-key", "k")];
    let hers = world.ask("POST", SESSIONS, &headers, r#"{"profile":"arena"}"#).await;
    assert_ne!(hers.json["session_id"], session.as_str());
    let commands = format!("{SESSIONS}/{session}/commands");
    let input = world.post(&commands, "k", json!({"kind": "input"})).await;
    let restore = world.post(&commands, "k", json!({"kind": "restore"})).await;
    assert_eq!((&input.json["command"], &restore.json["command"]), (&json!(2), &json!(3)));
    assert_eq!(world.post(&commands, "k", json!({"kind": "input"})).await.json["command"], 2);
}

/// Case I4: a refusal is not remembered.
#[tokio::test]
async fn case_i4_a_refused_key_may_be_used() {
    let world = World::start().await;
    let refused = world.post(SESSIONS, "k", json!({"profile": "nothing"})).await;
    assert_eq!((refused.status, &refused.json["reason"]), (400, &json!("unknown_target")));
    assert_eq!(refused.json["errors"][0]["pointer"], "/profile");
    assert_eq!(world.post(SESSIONS, "k", json!({"profile": "arena"})).await.status, 202);
}

#[tokio::test]
async fn refusals_are_distinct_and_name_the_field() {
    let world = World::with("store = \"memory\"\ninbox = 2\nsessions_per_tenant = 1").await;
    let session = world.session("first").await;
    let commands = format!("{SESSIONS}/{session}/commands");
    let unknown = format!("{SESSIONS}/{}/commands", "0".repeat(32));
    let rows: Vec<(&str, &str, Value, u16, &str, &str, &str)> = vec![
        (SESSIONS, "second", json!({"profile": "arena"}), 429, "capacity_exceeded", "quota_exceeded", ""),
        (
            SESSIONS,
            "a",
            json!({"profile": "arena", "apply_within_ms": 1}),
            400,
            "invalid",
            "invalid",
            "/apply_within_ms",
        ),
        (SESSIONS, "a", json!({"profile": "arena", "payload_base64": "?"}), 400, "invalid", "", "/payload_base64"),
        (SESSIONS, "a", json!({"profile": "arena", "x": 1}), 400, "invalid", "", "/x"),
        (&commands, "a", json!({"kind": "create"}), 400, "invalid", "", "/kind"),
        (&commands, "a", json!({"kind": "gate_response", "payload": "yes"}), 400, "invalid", "", "/payload"),
        (&commands, "a", json!({"kind": "input", "payload_ref": "ab".repeat(32)}), 409, "not_ready", "bad_payload", ""),
        (&unknown, "a", json!({"kind": "input"}), 404, "not_found", "unknown_session", ""),
        (&commands, "b", json!({"kind": "input"}), 202, "", "", ""),
        (&commands, "c", json!({"kind": "input"}), 429, "capacity_exceeded", "inbox_full", ""),
    ];
    for (path, key, body, status, code, reason, pointer) in rows {
        let answer = world.post(path, key, body.clone()).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body} {answer:?}");
        assert_eq!(answer.json["reason"].as_str().unwrap_or_default(), reason, "{body}");
        assert_eq!(answer.json["errors"][0]["pointer"].as_str().unwrap_or_default(), pointer, "{body}");
        assert_eq!(answer.header("retry-after").is_some(), status == 429, "{body}");
    }
    let missing_key = world.ask("POST", SESSIONS, &[("authorization", &crate::harness::backend())], "{}").await;
    assert_eq!((missing_key.status, missing_key.code()), (400, "invalid"));
    let odd = [
        format!("{SESSIONS}/x"),
        format!("{SESSIONS}/{session}/commands/0"),
        format!("{SESSIONS}/{session}/commands/01"),
    ];
    for path in odd {
        assert_eq!(world.get(&path).await.status, 404, "{path}");
    }
    assert_eq!(world.get(&format!("{SESSIONS}/{session}?x=1")).await.status, 400);
}

/// The bound of a body is that of an inline payload as it travels.
#[tokio::test]
async fn bodies_of_commands_have_their_own_bound() {
    let world = World::start().await;
    let longest = "x".repeat(32 << 10);
    let answer = world.post(SESSIONS, "a", json!({"profile": "arena", "payload": longest})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer = world.post(SESSIONS, "b", json!({"profile": "arena", "payload": "x".repeat(48 << 10)})).await;
    assert_eq!((answer.status, answer.code()), (413, "payload_too_large"));
}

/// A command whose time is over is settled by the sweep, and says that it never ran.
#[tokio::test]
async fn case_q4_an_expired_command_is_rejected_by_the_sweep_and_never_runs() {
    let world = World::start().await;
    let body = json!({"profile": "arena", "apply_within_ms": 100});
    let created = world.post(SESSIONS, "k", body).await;
    let path = created.header("location").unwrap().to_owned();
    let ended = world.get(&format!("{path}?wait_ms=15000")).await;
    assert_eq!((&ended.json["state"], &ended.json["disposition"]), (&json!("expired"), &json!("never_claimed")));
    assert_eq!(ended.json["outcome"]["by"], "service:sweep");
    let session = created.json["session_id"].as_str().unwrap();
    let seen = world.operate("GET", "/v1/operator/admission").await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let rejected = seen.json["counts"]["dispositions"]["rejected"].as_u64();
    assert_eq!(rejected, Some(1), "{seen:?}");
    assert_eq!((&seen.json["store"], &seen.json["control_shards"]), (&json!("memory"), &json!(2)));
    assert!(seen.json["disposition_sweeps"].as_array().is_some_and(|sweeps| !sweeps.is_empty()));
    assert_eq!(seen.json["counts"]["admitted"]["create"], 1);
    world.until(|world| world.metrics_text().contains("rendezvous_admission_oldest_due_age_seconds")).await;
    let text = world.metrics_text();
    for line in [
        "rendezvous_admission_sweep_dispositions_total{disposition=\"rejected\"} 1",
        "rendezvous_admission_commands_admitted_total{kind=\"create\"} 1",
        "rendezvous_admission_oldest_due_age_seconds",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!session.is_empty());
}
