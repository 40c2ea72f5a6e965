//! Who may do what: each kind of caller on each kind of route.

use crate::harness::{EU_KEY, FAR_KEY, OPERATOR, SESSIONS, World, jwt};
use serde_json::{Value, json};

/// Rule P1: three authorities that never mix.
#[tokio::test]
async fn adm_p1_each_route_is_for_one_kind_of_caller() {
    let world = World::start().await;
    let guest = world.ask("POST", "/v1/tenants/demo/guests", &[], "").await.json;
    let tokens = [
        ("nobody", String::new()),
        ("commander", jwt(json!({"sub": "a", "tenant": "demo", "scope": "commands"}))),
        ("list of scopes", jwt(json!({"sub": "a", "tenant": "demo", "scope": ["x", "commands"]}))),
        ("no scope", jwt(json!({"sub": "a", "tenant": "demo"}))),
        ("other scope", jwt(json!({"sub": "a", "tenant": "demo", "scope": "commandsx read"}))),
        ("odd scope", jwt(json!({"sub": "a", "tenant": "demo", "scope": 7}))),
        ("foreigner", jwt(json!({"sub": "a", "tenant": "other", "scope": "commands"}))),
        ("guest", format!("Bearer {}", guest["token"].as_str().unwrap())),
        ("host", format!("Bearer {EU_KEY}")),
        ("host of another tenant", format!("Bearer {FAR_KEY}")),
        ("would-be host", jwt(json!({"sub": "host:eu", "tenant": "demo", "scope": "commands"}))),
        ("operator", format!("Bearer {OPERATOR}")),
    ];
    let id = "0".repeat(32);
    let command = format!("{SESSIONS}/{id}/commands/1");
    let tenants_routes = [
        ("POST", SESSIONS.to_owned()),
        ("GET", format!("{SESSIONS}/{id}")),
        ("POST", format!("{SESSIONS}/{id}/commands")),
        ("GET", command.clone()),
        ("GET", format!("{SESSIONS}/{id}/gate")),
        ("PUT", format!("{SESSIONS}/{id}/payloads/{}", "a".repeat(64))),
    ];
    let hosts_routes = [
        ("POST", format!("{SESSIONS}/{id}/lease")),
        ("POST", format!("{command}/claim")),
        ("POST", format!("{command}/begin")),
        ("POST", format!("{command}/complete")),
        ("POST", format!("{command}/settle")),
        ("GET", format!("{SESSIONS}/{id}/payloads/{}", "a".repeat(64))),
    ];
    let no_tenant = [("PUT", "/v1/hosts/h".to_owned()), ("GET", "/v1/hosts/h/work".to_owned())];
    let operators = [("GET", "/v1/operator/admission".to_owned())];
    for (who, token) in &tokens {
        // What a caller is told who may call the route at all: anything but 401 and 403.
        let expected = |kind: &str| match (kind, *who) {
            (_, "nobody") => Some((401, "")),
            (_, "would-be host") => Some((401, "")),
            ("tenants", "commander" | "list of scopes") => None,
            ("tenants", "no scope" | "other scope" | "odd scope") => Some((403, "insufficient_scope")),
            ("tenants" | "hosts", "foreigner" | "host of another tenant") => Some((404, "")),
            ("hosts" | "no tenant", "host") => None,
            ("no tenant", "host of another tenant") => None,
            ("operators", "operator") => None,
            _ => Some((403, "")),
        };
        let all = [
            ("tenants", &tenants_routes[..]),
            ("hosts", &hosts_routes[..]),
            ("no tenant", &no_tenant[..]),
            ("operators", &operators[..]),
        ];
        for (kind, routes) in all {
            for (method, path) in routes {
                let headers = [("authorization", token.as_str())];
                let headers = if token.is_empty() { &[][..] } else { &headers[..] };
                let answer = world.ask(method, path, headers, "").await;
                match expected(kind) {
                    Some((status, reason)) => {
                        assert_eq!(answer.status, status, "{who}: {method} {path} {answer:?}");
                        assert_eq!(
                            answer.json["reason"].as_str().unwrap_or_default(),
                            reason,
                            "{who}: {method} {path}"
                        );
                        let challenged = answer.header("www-authenticate").is_some();
                        assert_eq!(challenged, status == 401 || reason == "insufficient_scope", "{who}");
                    }
                    None => assert!(!matches!(answer.status, 401 | 403), "{who}: {method} {path} {answer:?}"),
                }
            }
        }
    }
}

/// A session of another tenant looks exactly like one that never was.
#[tokio::test]
async fn a_session_of_another_tenant_looks_absent() {
    let world = World::start().await;
    let session = world.session("k").await;
    let stranger = jwt(json!({"sub": "a", "tenant": "other", "scope": "commands"}));
    let headers = [("authorization", stranger.as_str()), ("idempotency-key", "k")];
    let tail = |answer: &crate::harness::Response| (answer.status, answer.body.clone());
    for (method, rest, body) in [
        ("GET", "", ""),
        ("GET", "/commands/1", ""),
        ("GET", "/gate", ""),
        ("POST", "/commands", r#"{"kind":"input"}"#),
    ] {
        let there = world.ask(method, &format!("/v1/tenants/other/sessions/{session}{rest}"), &headers, body).await;
        let absent = format!("/v1/tenants/other/sessions/{}{rest}", "f".repeat(32));
        let absent = world.ask(method, &absent, &headers, body).await;
        assert_eq!(tail(&there), tail(&absent), "{method} {rest}");
        assert_eq!((there.status, there.code()), (404, "not_found"));
    }
}

#[tokio::test]
async fn without_a_plane_there_are_no_such_routes() {
    let world = World::with("store = \"off\"").await;
    let token = jwt(json!({"sub": "a", "tenant": "demo", "scope": "commands"}));
    for (method, path) in [("POST", SESSIONS), ("GET", "/v1/hosts/h/work"), ("GET", "/v1/operator/admission")] {
        let answer = world.ask(method, path, &[("authorization", &token)], "").await;
        assert_eq!((answer.status, answer.code()), (404, "route_not_found"), "{method} {path}");
    }
    assert_eq!(world.get("/readyz").await.status, 200);
    let host = jwt(json!({"sub": "host:eu", "tenant": "demo"}));
    let headers = [("authorization", host.as_str()), ("idempotency-key", "k")];
    let body = r#"{"protocol":"arena/3","details":{"name":"x","max_players":8}}"#;
    let registered = world.ask("POST", "/v1/tenants/demo/listings", &headers, body).await;
    assert_eq!(registered.status, 201, "a name like a host's is anybody's where there are no hosts: {registered:?}");
    let unknown = world.host(EU_KEY, "GET", "/v1/hosts/h/work", Value::Null).await;
    assert_eq!(unknown.status, 404, "a key of a plane that is off opens nothing");
    assert!(!world.metrics_text().contains("rendezvous_admission_"));
}

/// `--dev` has a plane in memory, which guests may use, and a host key that everybody knows.
#[tokio::test]
async fn dev_has_a_plane_for_guests() {
    use rendezvous::config::{Config, DEV_HOST_KEY, DEV_PROFILE};
    let any = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::dev();
    (config.server.http, config.server.udp, config.server.udp_auth) = (any, vec![any], vec![]);
    let world = World::of(rendezvous::server::Server::start(config).await.unwrap());
    let guest = world.ask("POST", "/v1/tenants/demo/guests", &[], "").await.json;
    let token = format!("Bearer {}", guest["token"].as_str().unwrap());
    let headers = [("authorization", token.as_str()), ("idempotency-key", "k")];
    let body = json!({"profile": DEV_PROFILE}).to_string();
    let created = world.ask("POST", SESSIONS, &headers, &body).await;
    assert_eq!(created.status, 202, "{created:?}");
    assert_eq!(created.json["command"]["admitted_by"], guest["principal"]);
    let body = json!({"target_key": DEV_PROFILE, "capacity": 1});
    assert_eq!(world.host(DEV_HOST_KEY, "PUT", "/v1/hosts/h", body).await.status, 200);
    world.work(DEV_HOST_KEY, "h", "acquire").await;
}
