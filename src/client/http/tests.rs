//! The calls against a small server on loopback that answers as it is told and notes what it was asked.

use super::transport::BODY_BYTES_MAX;
use super::*;
use crate::client::error::Code;
use crate::client::{Worker, WorkerNews, WorkerOptions};
use crate::domain::{AttemptId, InstanceId, ListingId};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

/// What was asked: method and path, headers, body.
#[derive(Clone, Debug)]
struct Asked {
    line: String,
    headers: HeaderMap,
    body: String,
}

/// Status, headers and body to answer with.
type Scripted = (u16, Vec<(&'static str, &'static str)>, &'static str);

#[derive(Default)]
struct State {
    script: VecDeque<Scripted>,
    asked: Vec<Asked>,
    connections: usize,
}

struct Stub {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Stub {
    async fn start(script: Vec<Scripted>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { script: script.into(), ..State::default() }));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let shared = shared.clone();
                let service = service_fn(move |request| answer(shared.clone(), request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, state }
    }

    fn directory(&self) -> Directory {
        Directory::new(&self.url, "demo").unwrap().with_token(Secret::new("the-token"))
    }

    fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
    let scripted = {
        let mut state = state.lock().unwrap();
        let line = format!("{} {}", parts.method, parts.uri);
        state.asked.push(Asked { line, headers: parts.headers, body });
        state.script.pop_front()
    };
    // Without a script the server never answers.
    let Some((status, headers, body)) = scripted else { return std::future::pending().await };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

const REGISTERED: &str = r#"{"listing_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","version":1,"expires_at":"2026-03-01T12:00:00.000Z",
    "ttl_ms":60000,"lease_token":"the-lease-token","new_member":{"of":"a newer server"},
    "presence":{"username":"p1.0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","password":"the-password","realm":"rendezvous",
    "interval_ms":17000,"ttl_ms":65000,"stun":["stun:203.0.113.1:3478"],"also":"new"}}"#;

fn listing() -> ListingId {
    ListingId::parse("0190b5d2a3c47e8f9a0b1c2d3e4f5a6b").unwrap()
}

fn registration() -> Registration {
    Registration {
        protocol: "arena/3".into(),
        details: ListingDetails { name: "Friday night".into(), max_players: 8, ..ListingDetails::default() },
        ..Registration::default()
    }
}

#[tokio::test]
async fn a_draining_server_is_an_answer_and_a_strange_one_is_none() {
    let instance = "0123456789abcdef0123456789abcdef";
    let date = ("date", "Sun, 01 Mar 2026 12:00:00 GMT");
    let body = r#"{"status":"draining","reason":"nothing new","drain_deadline":"2026-03-01T12:00:30.000Z","also":1}"#;
    let script = vec![
        (503, vec![("rendezvous-instance", instance), date], body),
        (503, vec![], body),
        (404, vec![("rendezvous-instance", instance)], r#"{"code":"route_not_found"}"#),
    ];
    let stub = Stub::start(script).await;
    let health = stub.directory().health().await.unwrap();
    assert_eq!((health.status.as_str(), health.date_ms), ("draining", Some(1_772_366_400_000)));
    assert_eq!(health.drain_deadline.as_deref(), Some("2026-03-01T12:00:30.000Z"));
    assert_eq!(health.instance, InstanceId::parse(instance));
    assert!(stub.asked()[0].line.starts_with("GET /readyz"), "of the server, not of a tenant");
    let proxy = stub.directory().health().await;
    assert!(matches!(proxy, Err(Error::Malformed { .. })), "{proxy:?}");
    let older = stub.directory().health().await;
    assert_eq!(older.unwrap_err().code(), Some(&Code::RouteNotFound));
}

#[tokio::test]
async fn a_registration_carries_key_and_token_and_reads_a_newer_answer() {
    let instance = "0123456789abcdef0123456789abcdef";
    let stub = Stub::start(vec![(201, vec![("rendezvous-instance", instance)], REGISTERED)]).await;
    let registered = stub.directory().register(&registration(), "key-1").await.unwrap();
    assert_eq!((registered.listing_id, registered.version, registered.ttl_ms), (listing(), 1, 60_000));
    assert_eq!(registered.instance, InstanceId::parse(instance));
    assert_eq!(registered.presence.stun, ["stun:203.0.113.1:3478"]);
    let asked = &stub.asked()[0];
    assert_eq!(asked.line, "POST /v1/tenants/demo/listings");
    assert_eq!(asked.headers["authorization"], "Bearer the-token");
    assert_eq!(asked.headers["idempotency-key"], "key-1");
    assert_eq!(asked.headers["content-type"], "application/json");
    let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    let expected = serde_json::json!({
        "protocol": "arena/3", "visibility": "public",
        "details": { "name": "Friday night", "players": 0, "max_players": 8, "password_required": false },
    });
    assert_eq!(body, expected, "nothing that was not given, and no null");
}

#[tokio::test]
async fn a_renewal_names_the_version_as_one_strong_tag() {
    let renewed = r#"{"listing_id":"x","version":8,"expires_at":"t","ttl_ms":60000,"visibility":"public"}"#;
    let stub = Stub::start(vec![(200, vec![], renewed), (204, vec![], "")]).await;
    let (directory, token) = (stub.directory(), Secret::new("lease"));
    let renewed = directory.renew(listing(), &token, 7, &Renewal::default()).await.unwrap();
    assert_eq!((renewed.version, renewed.ttl_ms), (8, Some(60_000)));
    directory.delete(listing(), &token).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].line, format!("POST /v1/tenants/demo/listings/{}/renew", listing()));
    assert_eq!(asked[0].headers["if-match"], "\"7\"");
    assert_eq!(asked[0].headers["lease-token"], "lease");
    assert_eq!(asked[0].body, "{}");
    assert_eq!(asked[1].line, format!("DELETE /v1/tenants/demo/listings/{}", listing()));
    assert_eq!(stub.state.lock().unwrap().connections, 1, "the connection is kept");
}

#[tokio::test]
async fn browsing_is_conditional_and_values_are_encoded() {
    let page = r#"{"listings":[{"listing_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","protocol":"arena/3",
        "created_at":"2026-03-01T12:00:00.000Z","name":"Friday night","players":3,"max_players":16,"later":1}],
        "next_cursor":"abc/+="}"#;
    let stub = Stub::start(vec![(200, vec![("etag", "W/\"e1\"")], page), (304, vec![], "")]).await;
    let query = BrowseQuery {
        protocol: "arena/3".into(),
        limit: Some(100),
        cursor: Some("abc/+= & \u{e9}".into()),
        filter: Some("region == \"eu\"".into()),
    };
    let Browsed::Page(page) = stub.directory().browse(&query, None).await.unwrap() else { panic!("a page") };
    assert_eq!((page.listings[0].details.players, page.listings[0].details.name.as_str()), (3, "Friday night"));
    assert_eq!((page.next_cursor.as_deref(), page.etag.as_deref()), (Some("abc/+="), Some("W/\"e1\"")));
    assert_eq!(stub.directory().browse(&query, page.etag.as_deref()).await.unwrap(), Browsed::NotModified);
    let asked = stub.asked();
    let encoded = "protocol=arena%2F3&limit=100&filter=region%20%3D%3D%20%22eu%22&cursor=abc%2F%2B%3D%20%26%20%C3%A9";
    assert_eq!(asked[0].line, format!("GET /v1/tenants/demo/listings?{encoded}"));
    assert!(!asked[0].headers.contains_key("if-none-match"));
    assert_eq!(asked[1].headers["if-none-match"], "W/\"e1\"");
}

#[tokio::test]
async fn refusals_are_typed_and_an_unknown_code_stays_readable() {
    let problem = [("content-type", "application/problem+json"), ("retry-after", "7")].to_vec();
    let stub = Stub::start(vec![
        (412, problem.clone(), r#"{"status":412,"code":"conflict","detail":"stale","current_version":9}"#),
        (400, vec![], r#"{"code":"invalid","errors":[{"pointer":"/details/name","detail":"too long"}]}"#),
        (429, problem, r#"{"code":"capacity_exceeded","resource":"listings_per_owner"}"#),
        (418, vec![], r#"{"code":"teapot","detail":"of a newer server"}"#),
        (401, vec![], r#"{"code":"unauthenticated","reason":"stale_instance"}"#),
    ])
    .await;
    let directory = stub.directory();
    let mut problems = Vec::new();
    for _ in 0..5 {
        let error = directory.guest().await.unwrap_err();
        problems.push(error.problem().cloned().unwrap_or_else(|| panic!("{error:?}")));
    }
    assert_eq!((problems[0].code.clone(), problems[0].current_version), (Code::Conflict, Some(9)));
    assert_eq!(problems[1].to_string(), "the server answered 400 invalid; /details/name: too long");
    assert_eq!(problems[2].retry_after, Some(Duration::from_secs(7)));
    assert_eq!(problems[2].resource.as_deref(), Some("listings_per_owner"));
    assert_eq!(problems[3].code, Code::Unrecognised("teapot".into()));
    assert!(problems[3].to_string().contains("unrecognised code \"teapot\""), "{}", problems[3]);
    assert_eq!(problems[4].reason.as_deref(), Some("stale_instance"));
}

const COMMAND: &str = r#"{"session_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","command":1,"kind":"create","state":"admitted","revision":1,
    "admitted_at":"t","admitted_by":"user:alice","deadline":"t","deliveries":0,"new_member":1}"#;

fn session() -> SessionId {
    SessionId::parse("0190b5d2a3c47e8f9a0b1c2d3e4f5a6b").unwrap()
}

fn held() -> Held {
    Held { tenant: "demo".into(), session: session(), epoch: 7 }
}

fn body(asked: &Asked) -> serde_json::Value {
    serde_json::from_str(&asked.body).unwrap()
}

#[tokio::test]
async fn commands_carry_their_payload_in_one_of_three_ways() {
    let answer = (202, vec![], COMMAND);
    let stub = Stub::start(vec![answer.clone(), answer.clone(), answer.clone(), answer]).await;
    let directory = stub.directory();
    let kinds = [
        CommandRequest::new(CommandKind::Input, Carried::Text("map dust".into())),
        CommandRequest::new(CommandKind::Interrupt, Carried::Bytes(Bytes::from_static(&[0xff]))),
        CommandRequest { apply_within_ms: Some(500), ..CommandRequest::new(CommandKind::Restore, Carried::Nothing) },
        CommandRequest::gate_response(AttemptId(5), false),
    ];
    for command in &kinds {
        let view = directory.send_command(session(), command, "key-1").await.unwrap();
        assert_eq!((view.command, view.kind, view.state), (1, CommandKind::Create, CommandState::Admitted));
    }
    let asked = stub.asked();
    assert_eq!(asked[0].line, format!("POST /v1/tenants/demo/sessions/{}/commands", session()));
    assert_eq!(asked[0].headers["idempotency-key"], "key-1");
    assert_eq!(body(&asked[0]), serde_json::json!({ "kind": "input", "payload": "map dust" }));
    assert_eq!(body(&asked[1]), serde_json::json!({ "kind": "interrupt", "payload_base64": "/w==" }));
    assert_eq!(body(&asked[2]), serde_json::json!({ "kind": "restore", "apply_within_ms": 500 }));
    let payload = serde_json::json!({ "attempt_id": AttemptId(5).to_string(), "admit": false });
    assert_eq!(body(&asked[3]), serde_json::json!({ "kind": "gate_response", "payload": payload }));
}

#[tokio::test]
async fn a_long_content_is_stored_first_and_a_create_waits_for_its_own() {
    let waits = r#"{"code":"not_ready","reason":"unknown_payload","session_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b"}"#;
    let created: &'static str =
        Box::leak(format!(r#"{{"session_id":"{}","command":{COMMAND}}}"#, session()).into_boxed_str());
    let script = vec![
        (200, vec![], "{}"),
        (202, vec![], COMMAND),
        (409, vec![], waits),
        (200, vec![], "{}"),
        (202, vec![], created),
    ];
    let stub = Stub::start(script).await;
    let directory = stub.directory();
    let text = "x".repeat((32 << 10) + 1);
    let sha256 = digest(text.as_bytes());
    let command = CommandRequest::new(CommandKind::Restore, Carried::Text(text.clone()));
    directory.send_command(session(), &command, "key-1").await.unwrap();
    let payload = Carried::Bytes(text.clone().into());
    let create = SessionCreate { profile: "demo".into(), payload, apply_within_ms: None };
    assert_eq!(directory.create_session(&create, "key-2").await.unwrap().session_id, session());
    let asked = stub.asked();
    let stored = format!("PUT /v1/tenants/demo/sessions/{}/payloads/{sha256}", session());
    assert_eq!((&asked[0].line, &asked[3].line), (&stored, &stored));
    assert_eq!((asked[0].body.len(), asked[3].body.len()), (text.len(), text.len()));
    assert_eq!(asked[0].headers["content-type"], "application/octet-stream");
    assert!(!asked[0].headers.contains_key("idempotency-key"), "only a create's content belongs to a key");
    assert_eq!(asked[3].headers["idempotency-key"], "key-2");
    assert_eq!(body(&asked[1]), serde_json::json!({ "kind": "restore", "payload_ref": sha256 }));
    assert_eq!(body(&asked[4]), serde_json::json!({ "profile": "demo", "payload_ref": sha256 }));
    assert_eq!(asked[2].body, asked[4].body, "the same request again");
}

const HOST: &str =
    r#"{"host":"eu 1","target_key":"k","capacity":4,"placed":0,"expires_at":"t","heartbeat_ttl_ms":30000}"#;
const LEASE: &str = r#"{"session_id":"x","host":"eu 1","epoch":7,"expires_at":"t","ttl_ms":30000}"#;

/// A work list with three tasks of one session.
fn work() -> &'static str {
    let list = format!(
        r#"{{"work":[{{"tenant":"demo","session":{{"session_id":"{}","profile":"demo","target_key":"k","workload":"w",
        "state":"open","created_at":"t","commands":1,"open_commands":1}},"tasks":[{{"task":"acquire"}},
        {{"task":"deliver","command":{COMMAND}}},{{"task":"dance","of":"a newer server"}}]}}]}}"#,
        session()
    );
    Box::leak(list.into_boxed_str())
}

#[tokio::test]
async fn a_host_names_itself_and_its_lease_in_every_call() {
    let script = vec![
        (200, vec![], HOST),
        (200, vec![], work()),
        (200, vec![], LEASE),
        (204, vec![], ""),
        (200, vec![], COMMAND),
        (200, vec![], "content"),
    ];
    let stub = Stub::start(script).await;
    let host = CommandHost::new(&stub.url, "eu 1", Secret::new("the-credential")).unwrap();
    assert_eq!(host.register("k", 4).await.unwrap().heartbeat_ttl_ms, 30_000);
    let work = host.work(Duration::from_millis(40)).await.unwrap();
    assert!(matches!(work[0].tasks[..], [HostTask::Acquire, HostTask::Deliver { .. }, HostTask::Unrecognised]));
    assert_eq!(host.acquire("demo", session(), Some(Duration::from_secs(1))).await.unwrap().epoch, 7);
    host.release(&held(), true).await.unwrap();
    host.complete(&held(), 3, &Completion::Rejected("busy".into())).await.unwrap();
    assert_eq!(host.payload(&held(), "ab").await.unwrap(), "content");
    let asked = stub.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    let below = format!("/v1/tenants/demo/sessions/{}", session());
    assert_eq!(lines[..2], ["PUT /v1/hosts/eu%201", "GET /v1/hosts/eu%201/work?wait_ms=40"]);
    assert_eq!(lines[2], format!("POST {below}/lease"));
    assert_eq!(lines[4], format!("POST {below}/commands/3/complete"));
    assert_eq!(lines[5], format!("GET {below}/payloads/ab?host=eu%201&epoch=7"));
    assert!(asked.iter().all(|asked| asked.headers["authorization"] == "Bearer the-credential"));
    assert_eq!(body(&asked[0]), serde_json::json!({ "target_key": "k", "capacity": 4 }));
    assert_eq!(body(&asked[2]), serde_json::json!({ "action": "acquire", "host": "eu 1", "ttl_ms": 1000 }));
    let released = serde_json::json!({ "action": "release", "host": "eu 1", "epoch": 7, "close": true });
    assert_eq!(body(&asked[3]), released);
    let completed = serde_json::json!({ "host": "eu 1", "epoch": 7, "result": "rejected", "code": "busy" });
    assert_eq!(body(&asked[4]), completed);
}

/// What a lease has begun is told to nobody while it lasts, so a beginning whose answer was lost is asked for again, and a
/// lease under which it stays in doubt is renewed no more.
#[tokio::test]
async fn case_l10_a_worker_whose_beginning_is_in_doubt_asks_again_and_then_lets_the_lease_lapse() {
    let down = || (503, vec![], "");
    let late = (410, vec![], r#"{"code":"expired","title":"Too late","status":410}"#);
    let script =
        vec![(200, vec![], HOST), (200, vec![], work()), (200, vec![], LEASE), (200, vec![], COMMAND), down(), late];
    let stub = Stub::start(script).await;
    let host = CommandHost::new(&stub.url, "eu 1", Secret::new("the-credential")).unwrap();
    let options = WorkerOptions { target_key: "k".into(), capacity: 1, ttl: None };
    let mut worker = Worker::new(vec![host], options).unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&"lost") {
        heard.push(match worker.next().await.unwrap() {
            WorkerNews::Registered { .. } => "registered",
            WorkerNews::Acquired { .. } => "acquired",
            WorkerNews::Claimed { .. } => "claimed",
            WorkerNews::Retrying { .. } => "retrying",
            WorkerNews::Passed { .. } => "passed",
            WorkerNews::Lost { .. } => "lost",
            WorkerNews::Apply(_)
            | WorkerNews::Settled { .. }
            | WorkerNews::Released { .. }
            | WorkerNews::Moved { .. } => "what was not expected",
        });
    }
    assert_eq!(heard, ["registered", "acquired", "claimed", "retrying", "passed", "lost"]);
    let begun = stub.asked().iter().filter(|asked| asked.line.ends_with("/commands/1/begin")).count();
    assert_eq!((begun, worker.sessions().count()), (2, 0));
}

#[test]
fn case_o2_what_a_command_carries_is_not_printed() {
    let with_payload = COMMAND.replace("\"new_member\"", "\"payload\":\"hidden\",\"new_member\"");
    let view: CommandView = serde_json::from_str(&with_payload).unwrap();
    assert_eq!(view.carried(), Some(Carried::Text("hidden".into())));
    let shown = format!("{view:?} {:?}", view.carried());
    assert!(!shown.contains("hidden"), "{shown}");
}

#[test]
fn every_code_reads_back_as_itself() {
    for text in
        ["not_found", "capacity_exceeded", "draining", "service_unavailable", "rate_limited", "headers_too_large"]
    {
        let code = Code::parse(text);
        assert!(!matches!(code, Code::Unrecognised(_)), "{text}");
        assert_eq!(code.as_str(), text);
    }
}

#[tokio::test]
async fn what_is_no_rendezvous_server_is_said_to_be_none() {
    let html = "<html>It works!</html>";
    let stub =
        Stub::start(vec![(200, vec![], html), (502, vec![], html), (201, vec![], "{\"listing_id\":\"X\"}")]).await;
    let directory = stub.directory();
    for _ in 0..2 {
        let error = directory.guest().await.unwrap_err();
        assert!(matches!(&error, Error::Malformed { .. }), "{error:?}");
    }
    let error = directory.register(&registration(), "k").await.unwrap_err();
    assert!(error.to_string().contains("32 lower-case hex digits"), "{error}");
}

#[tokio::test]
async fn silence_ends_with_a_timeout_and_a_closed_port_with_unreachable() {
    let stub = Stub::start(Vec::new()).await;
    let mut directory = stub.directory();
    directory.transport.answer_timeout = Duration::from_millis(50);
    let error = directory.attempt_state(AttemptId(1), 4, Duration::from_millis(30)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { after, .. } if after == Duration::from_millis(80)), "{error:?}");
    assert!(stub.asked()[0].line.ends_with("?after=4&wait_ms=30"), "{}", stub.asked()[0].line);

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Directory::new(&format!("http://{closed}"), "demo").unwrap().guest().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { server, .. } if *server == closed.to_string()), "{error:?}");
    assert!(error.to_string().contains("refused"), "the innermost cause: {error}");
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let long: &'static str = Box::leak(" ".repeat(BODY_BYTES_MAX + 1).into_boxed_str());
    let stub = Stub::start(vec![(200, vec![], long)]).await;
    let error = stub.directory().guest().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }), "{error:?}");
}

#[test]
fn urls_that_cannot_work_are_refused_before_anything_is_sent() {
    for (url, word) in [
        ("127.0.0.1:8080", "http://"),
        ("https://play.example", "no TLS"),
        ("http://", "URL"),
        ("http://user:secret@play.example", "without user"),
        ("ftp://play.example", "http://"),
    ] {
        let error = Directory::new(url, "demo").unwrap_err();
        assert!(error.to_string().contains(word), "{url}: {error}");
    }
    let directory = Directory::new("http://play.example/games/", "a b/c").unwrap();
    assert_eq!((directory.transport.prefix.as_str(), directory.tenant.as_str()), ("/games", "a%20b%2Fc"));
}

#[tokio::test]
async fn case_o2_no_secret_is_printed() {
    let stub = Stub::start(vec![(201, vec![], REGISTERED)]).await;
    let directory = stub.directory();
    let registered = directory.register(&registration(), "key").await.unwrap();
    let shown = format!("{directory:?} {registered:?}");
    for secret in ["the-token", "the-lease-token", "the-password"] {
        assert!(!shown.contains(secret), "{secret}");
    }
}
