//! Long polls: released by the event, by their time, by drain, and by a client that hangs up.

use crate::harness::{EU_KEY, SESSIONS, World, backend, request};
use serde_json::{Value, json};

/// Cases Q7 and Q10: who waits holds nothing that others need; hundreds of waiting polls delay no command.
#[tokio::test(flavor = "multi_thread")]
async fn case_q10_a_poll_is_released_by_the_event_and_others_are_not_delayed() {
    let world = World::start().await;
    let session = world.session("k").await;
    let path = format!("{SESSIONS}/{session}/commands/1?wait_ms=20000");
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut client = world.client().await;
        client.send(request("GET", &path, &[("authorization", &backend())], "").as_bytes()).await;
        waiting.push(client);
    }
    world.until_waiting(100).await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    world.begins(&session, 1, "eu-1", epoch).await;
    let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    assert_eq!(world.step(&session, 1, "complete", done).await.status, 200);
    for mut client in waiting {
        let answer = client.response().await;
        assert_eq!((answer.status, &answer.json["state"]), (200, &json!("applied")));
    }
    world.until_waiting(0).await;
}

#[tokio::test]
async fn a_worker_that_waits_hears_of_a_command_at_once() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    world.begins(&session, 1, "eu-1", epoch).await;
    let path = "/v1/hosts/eu-1/work?wait_ms=20000";
    let mut worker = world.client().await;
    let token = format!("Bearer {EU_KEY}");
    worker.send(request("GET", path, &[("authorization", &token)], "").as_bytes()).await;
    world.until_waiting(1).await;
    let sent =
        world.post(&format!("{SESSIONS}/{session}/commands"), "i", json!({"kind": "input", "payload": "go"})).await;
    assert_eq!(sent.status, 202);
    let answer = worker.response().await;
    assert_eq!(answer.json["work"][0]["tasks"][0]["command"]["payload"], "go", "{answer:?}");
}

#[tokio::test]
async fn a_poll_ends_with_its_time_and_says_how_it_stands() {
    let world = World::start().await;
    let session = world.session("k").await;
    let answer = world.get(&format!("{SESSIONS}/{session}/commands/1?wait_ms=30")).await;
    assert_eq!((answer.status, &answer.json["state"]), (200, &json!("admitted")));
    let headers = [("authorization", &*backend()), ("prefer", "wait=0")];
    let preferred = world.ask("GET", &format!("{SESSIONS}/{session}/commands/1"), &headers, "").await;
    assert_eq!(preferred.header("preference-applied"), Some("wait=0"));
    let body = json!({"target_key": "arena/us", "capacity": 1});
    world.host(EU_KEY, "PUT", "/v1/hosts/idle", body).await;
    let idle = world.host(EU_KEY, "GET", "/v1/hosts/idle/work?wait_ms=30", Value::Null).await;
    assert_eq!((idle.status, &idle.json), (200, &json!({"work": []})));
}

/// Rule K1: who hangs up waits no more.
#[tokio::test]
async fn case_k1_a_hang_up_frees_the_place() {
    let world = World::start().await;
    let session = world.session("k").await;
    let path = format!("{SESSIONS}/{session}/commands/1?wait_ms=20000");
    let mut client = world.client().await;
    client.send(request("GET", &path, &[("authorization", &backend())], "").as_bytes()).await;
    world.until_waiting(1).await;
    drop(client);
    world.until_waiting(0).await;
}

#[tokio::test]
async fn rule_j2_drain_lets_polls_go_and_sends_new_ones_elsewhere() {
    let world = World::start().await;
    let session = world.session("k").await;
    let body = json!({"target_key": "arena/us", "capacity": 1});
    world.host(EU_KEY, "PUT", "/v1/hosts/idle", body).await;
    let token = format!("Bearer {EU_KEY}");
    let command = format!("{SESSIONS}/{session}/commands/1?wait_ms=20000");
    let work = "/v1/hosts/idle/work?wait_ms=20000";
    let gate = format!("{SESSIONS}/{session}/gate?wait_ms=20000");
    let mut open = Vec::new();
    for (path, token) in [(command.as_str(), &backend()), (work, &token), (&gate, &backend())] {
        let mut client = world.client().await;
        client.send(request("GET", path, &[("authorization", token)], "").as_bytes()).await;
        open.push(client);
    }
    world.until_waiting(2).await;
    world.until(|world| world.service().waiting_polls() == 1).await;
    assert_eq!(world.operate("POST", "/v1/operator/drain").await.status, 202);
    for mut client in open {
        assert_eq!(client.response().await.status, 200, "who waited is answered as it stands");
    }
    let late = world.host(EU_KEY, "GET", work, Value::Null).await;
    assert_eq!((late.status, late.code()), (503, "draining"), "a new poll would come again at once: {late:?}");
    assert!(late.header("retry-after").is_some());
    let looks = world.get(&format!("{SESSIONS}/{session}/commands/1")).await;
    assert_eq!(looks.status, 200, "who does not wait is served");
    let sent = world.post(&format!("{SESSIONS}/{session}/commands"), "i", json!({"kind": "input"})).await;
    assert_eq!(sent.status, 202, "what is durable may come until the end");
    assert_eq!(world.get("/readyz").await.status, 503);
}
