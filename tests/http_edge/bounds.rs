//! Hostile, slow and silent clients; ceilings; drain.

use crate::harness::{OPERATOR, Server, jwt, request};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(80);

#[tokio::test]
async fn case_h1_slow_and_silent_clients_are_closed_and_delay_nobody() {
    let server = Server::start(true, |settings| {
        settings.limits.header_timeout = SHORT;
        settings.limits.body_timeout = SHORT;
        settings.limits.idle_timeout = SHORT;
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(server.client().await);
    }
    let mut half_head = server.client().await;
    half_head.send(b"GET /livez HT").await;
    let mut half_body = server.client().await;
    let key = format!("Bearer {OPERATOR}");
    half_body
        .send(
            request("POST", "/v1/operator/drain", &[("authorization", &key)], r#"{"window_ms":1}"#)
                .trim_end_matches('}')
                .as_bytes(),
        )
        .await;
    let mut idle = server.client().await;
    assert_eq!(idle.ask("GET", "/livez", &[], "").await.status, 200);
    assert_eq!(server.ask("GET", "/readyz", &[], "").await.status, 200);
    assert!(half_head.is_closed().await && idle.is_closed().await);
    let late = half_body.response(false).await.unwrap();
    assert_eq!((late.status, late.code(), late.header("connection")), (408, "request_timeout", Some("close")));
    for client in &mut silent {
        assert!(client.is_closed().await);
    }
    server.until(|server| server.handle.connections() == 0).await;
    assert_eq!(server.ask("GET", "/readyz", &[], "").await.status, 200, "half a body changed nothing");
}

#[tokio::test]
async fn case_h5_ambiguous_requests_are_refused_and_what_they_smuggle_never_runs() {
    let server = Server::start(true, |_| {}).await;
    let drain = format!(
        "POST /v1/operator/drain HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Length: 0\r\n\r\n"
    );
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: +0\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "X: a\r\n b\r\n",
        "X: a\n",
    ] {
        for route in ["POST /v1/tenants/demo/guests", "GET /livez"] {
            let mut client = server.client().await;
            client.send(format!("{route} HTTP/1.1\r\nHost: a\r\n{framing}\r\n0\r\n\r\n{drain}").as_bytes()).await;
            let answer = client.response(false).await.unwrap();
            assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{framing:?}");
            assert!(client.response(false).await.is_none(), "{framing:?}: a second answer");
        }
    }
    assert_eq!(server.ask("GET", "/readyz", &[], "").await.status, 200, "nothing was smuggled");
    for malformed in ["GET\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\u{1}\r\n\r\n"] {
        let mut client = server.client().await;
        client.send(malformed.as_bytes()).await;
        let answer = client.response(false).await.unwrap();
        assert_eq!((answer.status, answer.code(), answer.header("connection")), (400, "invalid", Some("close")));
        assert_eq!(answer.header("rendezvous-instance"), Some(server.service.instance().to_string().as_str()));
        assert!(client.is_closed().await);
    }
    let mut http2 = server.client().await;
    http2.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let refused = http2.response(false).await;
    assert!(refused.is_none_or(|answer| answer.status >= 400));
}

#[tokio::test]
async fn case_h5_a_request_names_its_host_once() {
    let server = Server::start(true, |_| {}).await;
    for (version, hosts, status) in [
        ("1.1", "", 400),
        ("1.1", "Host: a\r\nHost: a\r\n", 400),
        ("1.0", "Host: a\r\nHost: b\r\n", 400),
        ("1.0", "", 200),
        ("1.1", "Host: a\r\n", 200),
    ] {
        let mut client = server.client().await;
        client.send(format!("GET /livez HTTP/{version}\r\n{hosts}\r\n").as_bytes()).await;
        let answer = client.response(false).await.unwrap();
        assert_eq!(answer.status, status, "HTTP/{version} {hosts:?}");
        if status == 400 {
            assert_eq!((answer.code(), answer.header("connection")), ("invalid", Some("close")));
            assert!(client.is_closed().await);
        }
    }
}

#[tokio::test]
async fn case_h2_large_bodies_and_heads_are_refused() {
    let server = Server::start(true, |_| {}).await;
    let alice = jwt("demo", "alice");
    let head = format!(
        "POST /v1/tenants/demo/listings HTTP/1.1\r\nHost: a\r\nAuthorization: {alice}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\n"
    );
    let mut chunked = server.client().await;
    chunked.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(4_096));
    for _ in 0..5 {
        chunked.send(chunk.as_bytes()).await;
    }
    let answer = chunked.response(false).await.unwrap();
    assert_eq!((answer.status, answer.code()), (413, "payload_too_large"));
    let mut declared = server.client().await;
    declared.send(format!("{head}Content-Length: 1073741824\r\n\r\n").as_bytes()).await;
    assert_eq!(declared.response(false).await.unwrap().status, 413);
    let mut eager = server.client().await;
    let flood = format!("{head}Content-Length: 1048576\r\n\r\n{}", " ".repeat(1_048_576));
    eager.send(flood.as_bytes()).await;
    let refused = eager.response(false).await.expect("the answer is not overtaken by a reset");
    assert_eq!(refused.status, 413);
    let mut gzip = server.client().await;
    gzip.send(format!("{head}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes()).await;
    assert_eq!(gzip.response(false).await.unwrap().code(), "unsupported_media_type");
    for lines in [65, 200] {
        let mut many = server.client().await;
        many.send(format!("GET /livez HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(lines)).as_bytes()).await;
        let answer = many.response(false).await.unwrap();
        assert_eq!((answer.status, answer.code()), (431, "headers_too_large"));
    }
    let mut long = server.client().await;
    long.send(format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(17_000)).as_bytes()).await;
    assert_eq!(long.response(false).await.unwrap().status, 431);
    assert_eq!(server.ask("GET", "/livez", &[], "").await.status, 200);
}

#[tokio::test]
async fn case_h6_hostile_json_leaves_the_next_request_working() {
    let server = Server::start(true, |_| {}).await;
    let alice = jwt("demo", "alice");
    let headers = [("authorization", alice.as_str()), ("idempotency-key", "k")];
    let mut client = server.client().await;
    for body in [
        "[".repeat(16_000),
        format!("{{\"x\":{}", "{\"a\":".repeat(3_000)),
        "\\".repeat(16_000),
        "{\"a\":\"\\ud800\"}".into(),
    ] {
        assert_eq!(client.ask("POST", "/v1/tenants/demo/listings", &headers, &body).await.status, 400);
    }
    assert_eq!(client.ask("GET", "/livez", &[], "").await.status, 200);
}

#[tokio::test]
async fn at_the_ceiling_the_longest_idle_connection_makes_room() {
    let server = Server::start(true, |settings| settings.limits.connections = 2).await;
    let (mut first, mut second) = (server.client().await, server.client().await);
    assert_eq!(first.ask("GET", "/livez", &[], "").await.status, 200);
    assert_eq!(second.ask("GET", "/livez", &[], "").await.status, 200);
    let mut third = server.client().await;
    assert_eq!(third.ask("GET", "/livez", &[], "").await.status, 200);
    assert!(first.is_closed().await);
    assert_eq!(second.ask("GET", "/livez", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_waiting_long_poll_takes_no_connection_and_rule_k1_a_client_that_hangs_up_ends_it() {
    let server = Server::start(true, |settings| settings.limits.connections = 2).await;
    let host = jwt("demo", "host");
    let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
    let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
    let path = format!("/v1/tenants/demo/listings/{id}/attempts?wait_ms=30000");
    let text = request("GET", &path, &[("authorization", &host), ("lease-token", token)], "");
    let mut polling = server.client().await;
    polling.send(text.as_bytes()).await;
    server.until(|server| server.service.waiting_polls() == 1).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut client = server.client().await;
        assert_eq!(client.ask("GET", "/livez", &[], "").await.status, 200);
        others.push(client);
    }
    assert_eq!(others[0].ask("GET", "/livez", &[], "").await.status, 200, "both have a place beside the poll");
    drop(polling);
    server.until(|server| server.service.waiting_polls() == 0 && server.handle.open_requests() == 0).await;
}

#[tokio::test]
async fn case_d4_drain_is_seen_by_readiness_and_refuses_only_what_is_new() {
    for lane in [true, false] {
        let server = Server::start(lane, |_| {}).await;
        let (key, host) = (format!("Bearer {OPERATOR}"), jwt("demo", "host"));
        server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
        let operator = [("authorization", key.as_str())];
        for long in ["30001", "4294967296", "9007199254740991"] {
            let long = server.ask("POST", "/v1/operator/drain", &operator, &format!(r#"{{"window_ms":{long}}}"#)).await;
            let error = &long.json["errors"][0];
            assert_eq!((long.status, &error["pointer"]), (400, &"/window_ms".into()));
            assert_eq!(error["detail"], "must be from 0 to 30000", "the bound is told");
        }
        let begun = server.ask("POST", "/v1/operator/drain", &operator, r#"{"window_ms":30000}"#).await;
        assert_eq!(begun.status, 202, "{begun:?}");
        let again = server.ask("POST", "/v1/operator/drain", &operator, r#"{"window_ms":0}"#).await;
        assert_eq!(again.json["drain_deadline"], begun.json["drain_deadline"], "rule J2");
        let ready = server.ask("GET", "/readyz", &[], "").await;
        assert_eq!((ready.status, ready.header("cache-control")), (503, Some("no-store")));
        assert!(ready.header("retry-after").is_some());
        assert_eq!(server.ask("GET", "/livez", &[], "").await.status, 200);
        let registering = [("authorization", host.as_str()), ("idempotency-key", "k2")];
        let body = r#"{"protocol":"arena/3","details":{"name":"B","max_players":2}}"#;
        let refused = server.ask("POST", "/v1/tenants/demo/listings", &registering, body).await;
        assert_eq!((refused.status, refused.code()), (503, "draining"));
        assert_eq!(refused.json["drain_deadline"], begun.json["drain_deadline"]);
        let page = server.ask("GET", "/v1/tenants/demo/listings?protocol=arena/3", &[], "").await;
        assert_eq!(page.status, 200, "browsing goes on until the deadline");
    }
}

#[tokio::test]
async fn after_the_drain_deadline_only_health_and_status_answer() {
    let server = Server::start(true, |_| {}).await;
    let key = format!("Bearer {OPERATOR}");
    let operator = [("authorization", key.as_str())];
    assert_eq!(server.ask("POST", "/v1/operator/drain", &operator, r#"{"window_ms":0}"#).await.status, 202);
    for path in ["/v1/tenants/demo/listings?protocol=a", "/openapi.json"] {
        assert_eq!(server.ask("GET", path, &[], "").await.code(), "draining", "{path}");
    }
    assert_eq!(server.ask("POST", "/v1/tenants/demo/guests", &[], "").await.code(), "draining");
    assert_eq!(server.ask("GET", "/livez", &[], "").await.status, 200);
    assert_eq!(server.ask("GET", "/health/ready", &[], "").await.status, 503);
    let status = server.ask("GET", "/v1/operator/status", &operator, "").await;
    assert_eq!((status.status, &status.json["availability"]), (200, &"draining".into()));
}

#[tokio::test]
async fn case_d1_shutdown_answers_what_is_open_and_waits_for_nobody_else() {
    let server = Server::start(true, |_| {}).await;
    let host = jwt("demo", "host");
    let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
    let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
    let mut idle = server.client().await;
    assert_eq!(idle.ask("GET", "/livez", &[], "").await.status, 200);
    let mut silent = server.client().await;
    assert_eq!(silent.ask("GET", "/livez", &[], "").await.status, 200);
    let mut half = server.client().await;
    half.send(b"GET /livez HT").await;
    let mut polling = server.client().await;
    let path = format!("/v1/tenants/demo/listings/{id}/attempts?wait_ms=30000");
    polling.send(request("GET", &path, &[("authorization", &host), ("lease-token", token)], "").as_bytes()).await;
    server.until(|server| server.service.waiting_polls() == 1 && server.handle.open_requests() == 1).await;
    server.handle.begin_drain();
    let released = polling.response(false).await.unwrap();
    assert_eq!((released.status, released.header("connection")), (200, Some("close")));
    assert!(polling.is_closed().await);
    let told = idle.ask("GET", "/livez", &[], "").await;
    assert_eq!(
        (told.status, told.header("connection")),
        (200, Some("close")),
        "idle for the moment only: told, not cut"
    );
    assert!(idle.is_closed().await);
    let late = server.ask("GET", "/livez", &[], "").await;
    assert_eq!((late.status, late.header("connection")), (200, Some("close")), "still accepting while closing");
    server.handle.shutdown();
    assert!(half.is_closed().await && silent.is_closed().await);
    server.running.await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}
