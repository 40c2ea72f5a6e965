//! HTTP/2 behind TLS: the same answers, and what one connection may hold.

use crate::harness::{OPERATOR, Server, jwt};
use crate::tls::{connect, server};
use bytes::Bytes;
use h2::client::SendRequest;
use hyper::{Request, StatusCode, Version};
use rendezvous::edge::http::HttpSettings;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const SHORT: Duration = Duration::from_millis(80);
/// Nothing here takes this long; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(20);
/// RFC 9113 section 7.
const ENHANCE_YOUR_CALM: u32 = 0xB;

/// A well-behaved client.
struct Client {
    requests: SendRequest<Bytes>,
    /// The connection, until it ends.
    running: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn to(server: &Server, trusted: &CertificateDer<'static>) -> Self {
        Self::with(server, trusted, &mut h2::client::Builder::new()).await
    }

    async fn with(server: &Server, trusted: &CertificateDer<'static>, builder: &mut h2::client::Builder) -> Self {
        let (requests, connection) = builder.handshake(raw(server, trusted).await).await.unwrap();
        Self { requests, running: tokio::spawn(connection) }
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let uri = format!("https://localhost{path}");
        let builder = Request::builder().method(method).uri(uri).version(Version::HTTP_2);
        headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value)).body(()).unwrap()
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (answer, mut sending) =
            requests.send_request(Self::request(method, path, headers), body.is_empty()).unwrap();
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body.as_bytes()), true).unwrap();
        }
        let answer = timeout(PATIENCE, answer).await.expect("an answer in time").unwrap();
        let (parts, mut body) = answer.into_parts();
        let mut bytes = Vec::new();
        while let Some(piece) = timeout(PATIENCE, body.data()).await.expect("a body in time") {
            let piece = piece.unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            bytes.extend_from_slice(&piece);
        }
        Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(bytes).unwrap() }
    }
}

struct Answer {
    status: StatusCode,
    headers: hyper::HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

async fn raw(server: &Server, trusted: &CertificateDer<'static>) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let stream = connect(stream, trusted, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream
}

async fn short_server() -> (Server, CertificateDer<'static>) {
    let short = |settings: &mut HttpSettings| {
        let limits = &mut settings.limits;
        (limits.header_timeout, limits.idle_timeout, limits.write_timeout) = (SHORT, SHORT, SHORT);
    };
    let (server, _, trusted) = server(short).await;
    (server, trusted)
}

/// Frames written by hand.
mod frame {
    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// `GET /livez`: pseudo-headers from the static table, the path as a literal.
    pub(super) fn get(stream: u32, flags: u8) -> Vec<u8> {
        let mut block = vec![0x82, 0x87, 0x01, 9];
        block.extend_from_slice(b"localhost");
        block.extend_from_slice(&[0x04, 6]);
        block.extend_from_slice(b"/livez");
        frame(1, flags, stream, &block)
    }

    pub(super) fn reset(stream: u32) -> Vec<u8> {
        frame(3, 0, stream, &8_u32.to_be_bytes())
    }

    /// A window that is opened too far is an error of its stream, which the server has to reset.
    pub(super) fn window_overflow(stream: u32) -> Vec<u8> {
        frame(8, 0, stream, &0x7FFF_FFFF_u32.to_be_bytes())
    }

    pub(super) fn continuation(stream: u32, payload: &[u8]) -> Vec<u8> {
        frame(9, 0, stream, payload)
    }
}

/// Reads to the end of the connection: the code of the last GOAWAY, if there was one.
async fn end_of(stream: &mut TlsStream<TcpStream>) -> Option<u32> {
    let mut received = Vec::new();
    // However it ends.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut received)).await.expect("the connection stays open");
    let (mut rest, mut code) = (&received[..], None);
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = &after[..length.min(after.len())];
        if head[3] == 7 {
            code = payload.get(4..8).map(|code| u32::from_be_bytes(code.try_into().unwrap()));
        }
        rest = &after[payload.len()..];
    }
    code
}

#[tokio::test]
async fn answers_are_those_of_the_other_version() {
    let (server, _, trusted) = server(|settings| settings.workers = 2).await;
    let client = Client::to(&server, &trusted).await;
    let host = jwt("demo", "host");
    let headers = [("authorization", host.as_str()), ("idempotency-key", "k"), ("content-type", "application/json")];
    let body = r#"{"protocol":"arena/3","details":{"name":"A","max_players":2}}"#;
    let registered = client.ask("POST", "/v1/tenants/demo/listings", &headers, body).await;
    assert_eq!(registered.status, 201, "{}", registered.body);
    server.present(registered.json()["listing_id"].as_str().unwrap(), "p").await;
    let page = client.ask("GET", "/v1/tenants/demo/listings?protocol=arena%2F3", &[], "").await;
    assert_eq!((page.status.as_u16(), page.json()["listings"].as_array().map(Vec::len)), (200, Some(1)));
    for name in ["etag", "rendezvous-commit", "rendezvous-instance", "content-length"] {
        assert!(page.headers.contains_key(name), "{name}");
    }
    let unknown = client.ask("GET", "/nowhere", &[], "").await;
    assert_eq!((unknown.status.as_u16(), unknown.json()["code"].as_str()), (404, Some("route_not_found")));
    let large = client.ask("POST", "/v1/tenants/demo/listings", &headers, &" ".repeat(17_000)).await;
    assert_eq!((large.status.as_u16(), large.headers.get("connection")), (413, None));
    let hosts = client.ask("GET", "/livez", &[("host", "another.example")], "").await;
    assert_eq!(hosts.status, 400, "two hosts");
    let crowd: Vec<_> = (0..65).map(|n| format!("x-{n}")).collect();
    let crowd: Vec<_> = crowd.iter().map(|name| (name.as_str(), "1")).collect();
    let many = client.ask("GET", "/livez", &crowd, "").await;
    assert_eq!((many.status.as_u16(), many.json()["code"].as_str()), (431, Some("headers_too_large")));
    let long = client.ask("GET", "/livez", &[("x", &"x".repeat(17_000))], "").await;
    assert_eq!(long.status, 431);
}

#[tokio::test]
async fn long_polls_of_one_connection_wait_beside_other_requests() {
    let (server, _, trusted) = server(|_| {}).await;
    let client = Client::to(&server, &trusted).await;
    let host = jwt("demo", "host");
    let key = [("authorization", host.as_str())];
    let mut polls = Vec::new();
    for n in 0..2 {
        let headers =
            [key[0], ("idempotency-key", if n == 0 { "a" } else { "b" }), ("content-type", "application/json")];
        let body = r#"{"protocol":"arena/3","details":{"name":"A","max_players":2}}"#;
        let listing = client.ask("POST", "/v1/tenants/demo/listings", &headers, body).await.json();
        let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
        let path = format!("/v1/tenants/demo/listings/{id}/attempts?wait_ms=30000");
        let request = Client::request("GET", &path, &[key[0], ("lease-token", token)]);
        polls.push(client.requests.clone().ready().await.unwrap().send_request(request, true).unwrap().0);
    }
    server.until(|server| server.service.waiting_polls() == 2).await;
    assert_eq!(client.ask("GET", "/livez", &[], "").await.status, 200);
    drop(polls.pop());
    server.until(|server| server.service.waiting_polls() == 1 && server.handle.open_requests() == 1).await;
    server.handle.begin_drain();
    assert_eq!(timeout(PATIENCE, polls.pop().unwrap()).await.unwrap().unwrap().status(), 200);
    timeout(PATIENCE, client.running).await.expect("told to go").unwrap().unwrap();
}

#[tokio::test]
async fn case_h1_silent_slow_and_idle_connections_end_at_their_deadlines() {
    let (server, trusted) = short_server().await;
    for begin in [
        Vec::new(),
        frame::PREFACE.to_vec(),
        [frame::PREFACE, &frame::get(1, frame::END_STREAM)].concat(),
        [frame::PREFACE, &frame::get(1, frame::END_STREAM | frame::END_HEADERS)].concat(),
    ] {
        let mut stream = raw(&server, &trusted).await;
        stream.write_all(&begin).await.unwrap();
        let code = end_of(&mut stream).await;
        assert!(code.is_none_or(|code| code == 0), "{code:?}");
    }
    server.until(|server| server.handle.connections() == 0 && server.handle.open_requests() == 0).await;
}

#[tokio::test]
async fn case_h1_an_answer_that_is_not_taken_ends_its_connection() {
    let (server, trusted) = short_server().await;
    let client = Client::with(&server, &trusted, h2::client::Builder::new().initial_window_size(0)).await;
    let answer = client.requests.clone().ready().await.unwrap();
    let (answer, _) = { answer }.send_request(Client::request("GET", "/openapi.json", &[]), true).unwrap();
    let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200, "its head needs no window");
    let ended = timeout(PATIENCE, answer.into_body().data()).await.expect("the connection stays open");
    assert!(ended.is_none_or(|piece| piece.is_err()));
    server.until(|server| server.handle.connections() == 0 && server.handle.open_requests() == 0).await;
}

#[tokio::test]
async fn case_h7_floods_end_their_own_connection_and_no_other() {
    let (server, _, trusted) = server(|_| {}).await;
    let bystander = Client::to(&server, &trusted).await;
    let whole = frame::END_STREAM | frame::END_HEADERS;
    let odd = |n: u32| 2 * n + 1;
    let resets: Vec<u8> = (0..200).flat_map(|n| [frame::get(odd(n), whole), frame::reset(odd(n))].concat()).collect();
    let made_you: Vec<u8> = (0..1_200)
        .flat_map(|n| [frame::get(odd(n), frame::END_HEADERS), frame::window_overflow(odd(n))].concat())
        .collect();
    let endless: Vec<u8> = std::iter::once(frame::get(1, frame::END_STREAM))
        .chain((0..200).map(|_| frame::continuation(1, &[0x40, 1, b'x', 1, b'y'].repeat(3_000))))
        .flatten()
        .collect();
    for (flood, code) in [(resets, Some(ENHANCE_YOUR_CALM)), (made_you, Some(ENHANCE_YOUR_CALM)), (endless, None)] {
        let mut stream = raw(&server, &trusted).await;
        // The server may end the connection before it has read everything.
        let _ = stream.write_all(&[frame::PREFACE, &flood].concat()).await;
        let ended = end_of(&mut stream).await;
        assert!(code.is_none() || ended.is_none() || ended == code, "{ended:?}");
        assert_eq!(bystander.ask("GET", "/livez", &[], "").await.status, 200);
    }
    server.until(|server| server.handle.connections() == 1 && server.handle.open_requests() == 0).await;
}

#[tokio::test]
async fn case_h7_a_client_that_cancels_all_the_time_has_to_come_again() {
    // Without a budget, which would refuse most of them.
    let (server, _, trusted) = server(|settings| settings.rates = None).await;
    let client = Client::to(&server, &trusted).await;
    let host = jwt("demo", "host");
    let headers = [("authorization", host.as_str()), ("idempotency-key", "k"), ("content-type", "application/json")];
    let body = r#"{"protocol":"arena/3","details":{"name":"A","max_players":2}}"#;
    let listing = client.ask("POST", "/v1/tenants/demo/listings", &headers, body).await.json();
    let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
    let path = format!("/v1/tenants/demo/listings/{id}/attempts?wait_ms=30000");
    let mut cancelled = 0;
    while let Ok(mut requests) = client.requests.clone().ready().await {
        let request = Client::request("GET", &path, &[("authorization", &host), ("lease-token", token)]);
        let Ok((answer, _)) = requests.send_request(request, true) else { break };
        server.until(|server| server.service.waiting_polls() == 1 || client.running.is_finished()).await;
        drop(answer);
        server.until(|server| server.service.waiting_polls() == 0).await;
        cancelled += 1;
        assert!(cancelled < 1_000, "never ended");
    }
    assert!(cancelled > 256, "{cancelled}");
    let again = Client::to(&server, &trusted).await;
    assert_eq!(again.ask("GET", "/readyz", &[], "").await.status, 200);
}

#[tokio::test]
async fn while_the_server_closes_a_new_connection_still_gets_an_answer() {
    let (server, _, trusted) = server(|_| {}).await;
    let idle = Client::to(&server, &trusted).await;
    assert_eq!(idle.ask("GET", "/livez", &[], "").await.status, 200);
    server.handle.begin_drain();
    timeout(PATIENCE, idle.running).await.expect("told to go").unwrap().unwrap();
    let late = Client::to(&server, &trusted).await;
    assert_eq!(late.ask("GET", "/livez", &[], "").await.status, 200);
    timeout(PATIENCE, late.running).await.expect("told to go").unwrap().unwrap();
    let silent = Client::to(&server, &trusted).await;
    server.until(|server| server.handle.connections() == 1).await;
    server.handle.shutdown();
    timeout(PATIENCE, silent.running).await.expect("closed").unwrap().ok();
    timeout(PATIENCE, server.running).await.expect("ended").unwrap();
}

#[tokio::test]
async fn http2_is_not_offered_where_it_is_off() {
    let (server, _, trusted) = server(|settings| settings.tls.as_mut().unwrap().http2 = false).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let stream = connect(stream, &trusted, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn an_old_connection_is_told_to_go_and_finishes_what_it_has() {
    let (server, _, trusted) = server(|settings| settings.limits.connection_age = Duration::ZERO).await;
    let client = Client::to(&server, &trusted).await;
    let key = format!("Bearer {OPERATOR}");
    let status = client.ask("GET", "/v1/operator/status", &[("authorization", &key)], "").await;
    assert_eq!(status.status, 200);
    let server = Arc::new(server);
    timeout(PATIENCE, client.running).await.expect("told to go").unwrap().unwrap();
    server.until(|server| server.handle.connections() == 0).await;
}
