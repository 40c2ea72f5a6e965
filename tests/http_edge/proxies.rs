//! Proxies in front: whom they speak for, who is believed, and what it does to budgets and ceilings.

use crate::harness::{Client, Server, request};
use crate::tls::{self, connect};
use rendezvous::edge::http::{HttpSettings, Rate, Rates};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const GUESTS: &str = "/v1/tenants/demo/guests";

/// A header of version 2 for a stream from `source`.
pub(crate) fn header(source: &str) -> Vec<u8> {
    let (family, addresses) = match source.parse().unwrap() {
        std::net::IpAddr::V4(source) => (0x11, [&source.octets()[..], &[192, 0, 2, 1]].concat()),
        std::net::IpAddr::V6(source) => (0x21, [source.octets(), [0xFD; 16]].concat()),
    };
    // A further field that decides nothing: an authority.
    let rest = [&addresses[..], &[0x12, 0x34, 0x00, 0x50], &[0x02, 0, 4], b"demo"].concat();
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[0x21, family], &length, &rest].concat()
}

/// Each source may make one guest and no more for long.
fn one_guest_each(settings: &mut HttpSettings) {
    settings.rates = Some(Rates { guests: Rate { per_second: 1, burst: 1 }, ..Rates::default() });
}

pub(crate) fn declared(settings: &mut HttpSettings) {
    settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    settings.proxy_protocol = true;
}

pub(crate) async fn behind(server: &Server, header: &[u8]) -> Client {
    let mut client = server.client().await;
    client.send(header).await;
    client
}

#[tokio::test]
async fn case_x7_clients_behind_a_proxy_have_budgets_of_their_own() {
    let server = Server::start(true, |settings| {
        declared(settings);
        one_guest_each(settings);
    })
    .await;
    for (source, status) in [
        ("192.0.2.1", 201),
        ("192.0.2.1", 429),
        ("192.0.2.2", 201),
        ("::ffff:192.0.2.1", 429),
        ("::ffff:192.0.2.3", 201),
        ("192.0.2.3", 429),
        ("2001:db8:1:1::1", 201),
        ("2001:db8:1:1:ffff::2", 429),
        ("2001:db8:1:2::1", 201),
        // The IPv4 address as the low bits of an IPv6 one is no form of it.
        ("::192.0.2.4", 201),
        ("192.0.2.4", 201),
    ] {
        let mut client = behind(&server, &header(source)).await;
        assert_eq!(client.ask("POST", GUESTS, &[], "").await.status, status, "{source}");
    }
    let mut chained = behind(&server, &header("127.0.0.9")).await;
    let headers = [("x-forwarded-for", "192.0.2.77")];
    assert_eq!(chained.ask("POST", GUESTS, &headers, "").await.status, 201, "a trusted proxy behind another");
    assert_eq!(chained.ask("POST", GUESTS, &headers, "").await.status, 429);
}

#[tokio::test]
async fn case_x9_a_client_told_by_its_proxy_is_not_believed_about_others() {
    let server = Server::start(true, |settings| {
        declared(settings);
        one_guest_each(settings);
    })
    .await;
    let mut client = behind(&server, &header("192.0.2.1")).await;
    assert_eq!(client.ask("POST", GUESTS, &[("x-forwarded-for", "198.51.100.1")], "").await.status, 201);
    for forged in ["198.51.100.2", "127.0.0.1", "::1"] {
        let headers = [("x-forwarded-for", forged), ("forwarded", "for=198.51.100.3"), ("x-real-ip", "198.51.100.4")];
        assert_eq!(client.ask("POST", GUESTS, &headers, "").await.status, 429, "{forged}");
    }
}

#[tokio::test]
async fn a_declared_listener_serves_nobody_without_a_good_header() {
    let server = Server::start(true, |settings| {
        declared(settings);
        settings.limits.header_timeout = Duration::from_millis(80);
    })
    .await;
    let good = header("192.0.2.1");
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    for (what, bytes) in [
        ("no header", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("version 1", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("another signature", changed(11, b'!')),
        ("version 3", changed(12, 0x31)),
        ("an unassigned command", changed(12, 0x22)),
        ("datagrams", changed(13, 0x12)),
        ("an unassigned family", changed(13, 0x41)),
        ("too short for its addresses", changed(15, 11)),
        ("longer than allowed", changed(14, 0xFF)),
        ("half a header", good[..20].to_vec()),
        ("nothing", Vec::new()),
    ] {
        let mut client = behind(&server, &bytes).await;
        assert!(client.is_closed().await, "{what}");
    }
    server.until(|server| server.handle.connections() == 0).await;
    let mut local = behind(&server, &[SIGNATURE, &[0x20, 0, 0, 0]].concat()).await;
    assert_eq!(local.ask("GET", "/livez", &[], "").await.status, 200, "a proxy's own check");
    let mut unnamed = behind(&server, &[SIGNATURE, &[0x21, 0, 0, 0]].concat()).await;
    assert_eq!(unnamed.ask("GET", "/livez", &[], "").await.status, 200, "for somebody whom it can't name");
}

#[tokio::test]
async fn a_header_from_anybody_but_a_trusted_proxy_opens_nothing() {
    let server = Server::start(true, |settings| {
        settings.trusted_proxies = vec!["192.0.2.0/24".parse().unwrap()];
        settings.proxy_protocol = true;
    })
    .await;
    assert!(behind(&server, &header("192.0.2.1")).await.is_closed().await);
    let undeclared =
        Server::start(true, |settings| settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let mut client = behind(&undeclared, &header("192.0.2.1")).await;
    client.send(request("GET", "/livez", &[], "").as_bytes()).await;
    assert_eq!(client.response(false).await.map(|answer| answer.status), Some(400), "not declared: not HTTP");
}

#[tokio::test]
async fn a_header_may_arrive_in_pieces_and_together_with_a_request() {
    let server = Server::start(true, declared).await;
    let mut client = server.client().await;
    client.stream.set_nodelay(true).unwrap();
    for byte in header("2001:db8::1") {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.ask("GET", "/livez", &[], "").await.status, 200);
    let together = [header("192.0.2.1"), request("GET", "/livez", &[], "").into_bytes()].concat();
    let mut client = behind(&server, &together).await;
    assert_eq!(client.response(false).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_header_comes_before_tls() {
    let (server, _, trusted) = tls::server(declared).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&header("192.0.2.1")).await.unwrap();
    let mut stream = connect(stream, &trusted, &["http/1.1"]).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // How it ends does not matter.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
}

/// A request whose body does not come: it keeps its connection busy.
fn stuck() -> String {
    let body = r#"{"window_ms":1}"#;
    request("POST", GUESTS, &[], body).trim_end_matches('}').to_owned()
}

#[tokio::test]
async fn at_a_ceiling_of_busy_connections_the_next_one_is_told_so() {
    let server = Server::start(true, |settings| {
        settings.limits.connections = 3;
        settings.limits.connections_per_source = 2;
        settings.trusted_proxies = vec!["127.0.0.9".parse().unwrap()];
    })
    .await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        busy.push(behind(&server, stuck().as_bytes()).await);
    }
    server.until(|server| server.handle.open_requests() == 2).await;
    let mut next = server.client().await;
    let refused = next.response(false).await.unwrap();
    assert_eq!((refused.status, refused.code()), (429, "capacity_exceeded"));
    assert_eq!(refused.json["resource"], "connections_per_source");
    assert!(refused.header("retry-after").is_some() && refused.header("rendezvous-instance").is_some());
    assert!(next.is_closed().await);
    let from_proxy = tokio::net::TcpSocket::new_v4().unwrap();
    from_proxy.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let mut from_proxy = from_proxy.connect(server.address).await.unwrap();
    from_proxy.write_all(stuck().as_bytes()).await.unwrap();
    server.until(|server| server.handle.open_requests() == 3).await;
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.5:0".parse().unwrap()).unwrap();
    let mut other = other.connect(server.address).await.unwrap();
    let mut told = Vec::new();
    other.read_to_end(&mut told).await.unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("\"resource\":\"connections\""), "{told}");
}

#[tokio::test]
async fn a_source_told_by_a_proxy_has_its_own_ceiling_of_connections() {
    let server = Server::start(true, |settings| {
        declared(settings);
        settings.limits.connections_per_source = 1;
    })
    .await;
    let _busy = behind(&server, &[header("192.0.2.1"), stuck().into_bytes()].concat()).await;
    server.until(|server| server.handle.open_requests() == 1).await;
    let refused = behind(&server, &header("::ffff:192.0.2.1")).await.response(false).await.unwrap();
    assert_eq!((refused.status, refused.json["resource"].as_str()), (429, Some("connections_per_source")));
    let mut other = behind(&server, &header("192.0.2.2")).await;
    assert_eq!(other.ask("GET", "/livez", &[], "").await.status, 200);
}
