//! Polls under both ceilings: a connection counts as any other until its poll waits, and whoever asks too often waits longer.

use crate::harness::{Server, jwt, request};
use crate::observer::Recorder;
use rendezvous::edge::http::{Rate, Rates};
use std::sync::Arc;

/// A poll whose question stands in the lane has no place among the polls, so its connection keeps the one that it has: a
/// flood of them while the writer stands fills the ceiling of connections, and lets nobody past it.
#[tokio::test]
async fn a_poll_on_its_way_to_a_place_keeps_its_connections() {
    let writer = Arc::new(Recorder::default());
    let server = Server::heard_by(writer.clone(), |settings| settings.limits.connections = 2).await;
    let host = jwt("demo", "host");
    let gone = server.host(&host, "gone", r#"{"name":"A","max_players":2}"#).await;
    let mut polls = Vec::new();
    for key in ["one", "other"] {
        let listing = server.host(&host, key, r#"{"name":"B","max_players":2}"#).await;
        let path =
            format!("/v1/tenants/demo/listings/{}/attempts?wait_ms=30000", listing["listing_id"].as_str().unwrap());
        let headers = [("authorization", host.as_str()), ("lease-token", listing["lease_token"].as_str().unwrap())];
        polls.push(request("GET", &path, &headers, ""));
    }
    let stands = writer.hold_next();
    let deletion = server.delete_beside(&gone, "host");
    stands.wait_entered();
    let mut open = Vec::new();
    for poll in &polls {
        let mut client = server.client().await;
        client.send(poll.as_bytes()).await;
        open.push(client);
    }
    server.until(|server| server.handle.open_requests() == 2).await;
    let refused = server.ask("GET", "/livez", &[], "").await;
    assert_eq!((refused.status, refused.code()), (503, "capacity_exceeded"), "{refused:?}");
    assert_eq!(refused.json["resource"], "connections");
    stands.release();
    deletion.await.unwrap();
    server.until(|server| server.service.waiting_polls() == 2).await;
    assert_eq!(server.ask("GET", "/livez", &[], "").await.status, 200, "who waits has a place of its own");
}

/// Looks have a budget apart from keep-alives, whoever is looked for and whether the look waits or not.
#[tokio::test]
async fn who_looks_too_often_waits_and_still_keeps_alive_what_it_has() {
    let server = Server::start(true, |settings| {
        let few = Rate { per_second: 1, burst: 2 };
        settings.rates = Some(Rates { principal_keep_alives: few, ..Rates::default() });
    })
    .await;
    let (host, joiner) = (jwt("demo", "host"), jwt("demo", "joiner"));
    let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
    let path = format!("/v1/tenants/demo/listings/{}", listing["listing_id"].as_str().unwrap());
    let lease_token = listing["lease_token"].as_str().unwrap();
    let headers = [("authorization", joiner.as_str()), ("idempotency-key", "k")];
    let attempt = server.ask("POST", &format!("{path}/attempts"), &headers, "").await;
    let attempt = format!("/v1/tenants/demo/attempts/{}", attempt.json["attempt_id"].as_str().unwrap());
    for look in [format!("{path}/lease"), format!("{path}/attempts?wait_ms=0"), attempt] {
        let headers = [("authorization", host.as_str()), ("lease-token", lease_token)];
        let mut looks = 0;
        let refused = loop {
            let answer = server.ask("GET", &look, &headers, "").await;
            looks += 1;
            assert!(looks < 50, "never too many: {look}");
            if answer.status != 200 {
                break answer;
            }
        };
        assert_eq!((refused.status, refused.code()), (429, "rate_limited"), "{look}: {refused:?}");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    let headers = [("authorization", host.as_str()), ("lease-token", lease_token), ("if-match", "\"1\"")];
    assert_eq!(server.ask("POST", &format!("{path}/renew"), &headers, "").await.status, 200);
}
