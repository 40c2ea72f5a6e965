//! Which refusal wins where several apply, and what every answer carries.

use crate::harness::{OPERATOR, Server, jwt};
use rendezvous::edge::http::{Cors, Rate, Rates};

const BODY: &str = r#"{"protocol":"arena/3","details":{"name":"x","max_players":8}}"#;

#[tokio::test]
async fn the_first_check_that_fails_decides() {
    let server = Server::start(true, |_| {}).await;
    let (operator, alice, foreign) = (format!("Bearer {OPERATOR}"), jwt("demo", "alice"), jwt("closed", "alice"));
    let id = "0".repeat(32);
    let listing = format!("/v1/tenants/demo/listings/{id}");
    let auth = |value: &str| vec![("authorization".to_owned(), value.to_owned())];
    let with = |mut headers: Vec<(String, String)>, name: &str, value: &str| {
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };
    let leased = with(auth(&alice), "lease-token", "t");
    type Row<'a> = (&'a str, String, Vec<(String, String)>, &'a str, u16, &'a str);
    let rows: Vec<Row<'_>> = vec![
        ("PUT", "/v2/nothing".into(), vec![], "", 404, "route_not_found"),
        ("PUT", "/v1/tenants/nobody/listings".into(), vec![], "", 405, "method_not_allowed"),
        ("POST", "/v1/tenants/nobody/listings".into(), auth("Bearer bad"), "", 404, "not_found"),
        ("POST", "/v1/tenants/demo/listings".into(), vec![], "", 401, "unauthenticated"),
        ("POST", "/v1/tenants/demo/listings".into(), auth("Bearer bad"), "", 401, "unauthenticated"),
        ("POST", "/v1/tenants/demo/listings".into(), auth(&foreign), "", 404, "not_found"),
        ("POST", "/v1/tenants/demo/listings".into(), auth(&operator), "", 403, "forbidden"),
        ("POST", "/v1/tenants/demo/listings".into(), auth(&alice), BODY, 400, "invalid"),
        ("POST", "/v1/tenants/closed/guests".into(), vec![], "", 403, "forbidden"),
        ("POST", "/v1/operator/drain".into(), auth(&alice), "", 403, "forbidden"),
        ("POST", "/v1/operator/drain".into(), vec![], "", 401, "unauthenticated"),
        ("POST", format!("{listing}/renew"), auth(&alice), "", 400, "invalid"),
        ("POST", format!("{listing}/renew"), leased.clone(), "", 428, "precondition_required"),
        ("POST", format!("{listing}/renew"), with(leased.clone(), "if-match", "*"), "", 400, "invalid"),
        ("POST", format!("{listing}/renew"), with(leased.clone(), "if-match", "\"1\""), "{", 400, "invalid"),
        ("POST", format!("{listing}/renew"), with(leased.clone(), "if-match", "\"1\""), "", 404, "not_found"),
        ("DELETE", format!("{listing}?x=1"), leased, "", 400, "invalid"),
    ];
    for (method, path, headers, body, status, code) in rows {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = server.ask(method, &path, &headers, body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{method} {path} {headers:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("rendezvous-instance"), Some(server.service.instance().to_string().as_str()));
        assert_eq!(answer.json["status"], status);
        assert_eq!(status == 401, answer.header("www-authenticate").is_some());
        assert_eq!(status == 405, answer.header("allow").is_some());
        let is_mutation = !matches!(code, "route_not_found" | "method_not_allowed");
        assert_eq!(is_mutation, answer.header("rendezvous-commit").is_some(), "refusals say it too: {method} {path}");
    }
}

#[tokio::test]
async fn bodies_are_refused_with_a_pointer_and_name_no_value() {
    let server = Server::start(true, |_| {}).await;
    let alice = jwt("demo", "alice");
    let headers = [("authorization", alice.as_str()), ("idempotency-key", "k")];
    for (body, pointer) in [
        (BODY.replace("8}", "8,\"s3cret\":1}"), "/details/s3cret"),
        (BODY.replace('8', "8.0"), "/details/max_players"),
        (BODY.replace("\"x\"", "\"s3cret\\n\""), "/details/name"),
        (BODY.replace("\"x\"", "null"), "/details/name"),
        (BODY.replace("arena", "ARENA"), "/protocol"),
        (BODY.replacen('{', "{\"ttl_ms\":9999,", 1), "/ttl_ms"),
        (BODY.replacen('{', "{\"protocol\":\"b\",", 1), "/protocol"),
        ("[]".into(), ""),
    ] {
        let answer = server.ask("POST", "/v1/tenants/demo/listings", &headers, &body).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid"), "{body}");
        assert_eq!(answer.json["errors"][0]["pointer"], pointer, "{body}");
    }
    let fixed = server.ask("POST", "/v1/tenants/demo/listings", &headers, BODY).await;
    assert_eq!(fixed.status, 201, "case I4: a refusal is not remembered");
}

#[tokio::test]
async fn a_source_and_a_principal_that_ask_too_often_wait() {
    let rate = |per_second, burst| Rate { per_second, burst };
    let server = Server::start(true, |settings| {
        settings.rates = Some(Rates { guests: rate(1, 2), principal_creations: rate(1, 1), ..Rates::default() });
    })
    .await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = server.ask("POST", "/v1/tenants/demo/guests", &[("x-forwarded-for", "203.0.113.9")], "").await;
        statuses.push(answer.status);
        if answer.status == 429 {
            assert_eq!((answer.code(), answer.header("retry-after")), ("rate_limited", Some("1")));
        }
    }
    assert_eq!(statuses, [201, 201, 429], "case X9: a forwarded header from anybody changes nothing");
    let by = |name: &str| [("authorization", jwt("demo", name)), ("idempotency-key", "k".to_owned())];
    for (name, status) in [("alice", 201), ("alice", 429), ("bob", 201)] {
        let headers = by(name);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(server.ask("POST", "/v1/tenants/demo/listings", &headers, BODY).await.status, status, "{name}");
    }
}

#[tokio::test]
async fn case_x9_behind_a_trusted_proxy_each_client_has_its_own_budget() {
    let server = Server::start(true, |settings| {
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        settings.rates = Some(Rates { guests: Rate { per_second: 1, burst: 1 }, ..Rates::default() });
    })
    .await;
    for (forwarded, status) in [("198.51.100.1", 201), ("198.51.100.2", 201), ("203.0.113.66, 198.51.100.1", 429)] {
        let answer = server.ask("POST", "/v1/tenants/demo/guests", &[("x-forwarded-for", forwarded)], "").await;
        assert_eq!(answer.status, status, "{forwarded}");
    }
}

/// RFC 9110 sections 9.3.7 and 10.2.1.
#[tokio::test]
async fn options_tells_what_a_path_takes_and_so_does_a_refusal() {
    let server = Server::start(true, |_| {}).await;
    for (path, allow) in [
        ("/v1/tenants/demo/listings", "POST, GET, HEAD, OPTIONS"),
        ("/v1/operator/drain", "POST, OPTIONS"),
        ("*", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
    ] {
        let options = server.ask("OPTIONS", path, &[("origin", "https://game.example")], "").await;
        assert_eq!((options.status, options.header("allow")), (204, Some(allow)), "{path}");
        assert_eq!(options.header("access-control-allow-origin"), None);
    }
    let refused = server.ask("PUT", "/v1/operator/drain", &[], "").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST, OPTIONS")));
    assert_eq!(server.ask("OPTIONS", "/v1/nowhere", &[], "").await.code(), "route_not_found");
    assert_eq!(server.ask("GET", "*", &[], "").await.code(), "route_not_found");
}

#[tokio::test]
async fn ids_are_echoed_and_pages_of_allowed_origins_may_read() {
    let server = Server::start(true, |settings| settings.cors = Cors::Any).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("x-request-id", "r-1"), ("traceparent", parent), ("origin", "https://game.example")];
    let answer = server.ask("GET", "/v1/tenants/demo/listings?protocol=a", &headers, "").await;
    assert_eq!((answer.header("x-request-id"), answer.header("traceparent")), (Some("r-1"), Some(parent)));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("Rendezvous-Commit"));
    let preflight = [("origin", "https://game.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.ask("OPTIONS", "/v1/tenants/demo/listings", &preflight, "").await.status, 204);
    let drain = server.ask("OPTIONS", "/v1/operator/drain", &preflight, "").await;
    assert_eq!((drain.status, drain.header("access-control-allow-origin")), (204, None), "no mutation is offered");
    let document = server.ask("GET", "/openapi.json", &[], "").await;
    assert_eq!(
        (document.json["openapi"].as_str(), document.body),
        (Some("3.1.0"), rendezvous::edge::http::openapi_json())
    );
    assert_eq!(server.ask("GET", "/metrics", &[], "").await.code(), "route_not_found");
}
