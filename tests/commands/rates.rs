//! Budgets: whoever asks too often is told to wait, by itself, and what keeps sessions alive goes on.

use crate::harness::{EU_KEY, RIVAL_KEY, Response, SESSIONS, World};
use serde_json::{Value, json};

const FEW: &str = "store = \"memory\"\n[rates]\nhost_calls_per_s = 1\nhost_calls_burst = 3\n\
    principal_commands_per_s = 1\nprincipal_commands_burst = 3";

/// Repeats a request until it is one too many. A bucket of three that gets one a second gives out long before.
async fn until_limited(asked: impl AsyncFn() -> Response) {
    for _ in 0..50 {
        let answer = asked().await;
        if answer.status == 429 {
            assert_eq!(answer.code(), "rate_limited", "{answer:?}");
            assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
            return;
        }
    }
    panic!("never too many");
}

#[tokio::test]
async fn a_host_that_asks_too_often_waits_and_keeps_its_sessions() {
    let world = World::with(FEW).await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let lease = json!({"host": "eu-1", "epoch": epoch});
    let command = format!("{SESSIONS}/{session}/commands/1");
    let calls = [
        ("GET", "/v1/hosts/eu-1/work".to_owned(), Value::Null),
        ("GET", "/v1/hosts/nobody/work?wait_ms=1000".to_owned(), Value::Null),
        ("POST", format!("{command}/claim"), lease.clone()),
        ("POST", format!("{command}/begin"), lease.clone()),
        ("GET", format!("{SESSIONS}/{session}/payloads/{}?host=eu-1&epoch={epoch}", "a".repeat(64)), Value::Null),
    ];
    for (method, path, body) in &calls {
        until_limited(async || world.host(EU_KEY, method, path, body.clone()).await).await;
    }
    let other = world.host(RIVAL_KEY, "GET", "/v1/hosts/rival-1/work", Value::Null).await;
    assert_eq!((other.status, other.code()), (404, "not_found"), "another credential has its own");
    let renew = json!({"action": "renew", "host": "eu-1", "epoch": epoch});
    let renewed = world.host(EU_KEY, "POST", &format!("{SESSIONS}/{session}/lease"), renew.clone()).await;
    assert_eq!(renewed.status, 200, "calls take nothing from leases: {renewed:?}");
    let keep_alives = [
        ("PUT", "/v1/hosts/eu-1".to_owned(), json!({"target_key": "arena/eu", "capacity": 8})),
        ("POST", format!("{SESSIONS}/{session}/lease"), renew),
        ("POST", format!("{command}/complete"), json!({"host": "eu-1", "epoch": epoch, "result": "applied"})),
        ("POST", format!("{command}/settle"), lease),
    ];
    for (method, path, body) in &keep_alives {
        until_limited(async || world.host(EU_KEY, method, path, body.clone()).await).await;
    }
    let counted = world.metrics_text();
    for route in ["/v1/hosts/{id}/work", "/v1/tenants/{tenant}/sessions/{id}/commands/{command}/complete"] {
        let series = format!("rendezvous_http_rate_limited_total{{route=\"{route}\"}}");
        assert!(counted.contains(&series), "{series}");
    }
}

#[tokio::test]
async fn a_back_end_that_looks_too_often_waits_and_still_sends() {
    let world = World::with(FEW).await;
    let session = world.session("k").await;
    for look in ["", "/commands/1", "/commands/1?wait_ms=1", "/gate", "/gate?wait_ms=1"] {
        until_limited(async || world.get(&format!("{SESSIONS}/{session}{look}")).await).await;
    }
    let commands = format!("{SESSIONS}/{session}/commands");
    let sent = world.post(&commands, "i", json!({"kind": "input"})).await;
    assert_eq!(sent.status, 202, "looks take nothing from commands: {sent:?}");
    until_limited(async || world.post(&commands, "i", json!({"kind": "input"})).await).await;
}
