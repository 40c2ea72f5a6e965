//! Where the short way of renewals could be told from the long one: panics, bounds, odd requests, and the time that a
//! connection may be idle.

use crate::express::{LONG_WAY, Lease, compared};
use crate::harness::{Server, jwt};
use crate::proxies::{behind, declared, header};
use rendezvous::clock::{Clock, SystemClock};
use rendezvous::domain::{At, MonoTime, WallTime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const DETAILS: &str = r#"{"name":"n","max_players":8}"#;
const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";

/// The system's clocks, one look at which panics: so many looks at both from now on.
struct Brittle {
    system: SystemClock,
    looks_left: AtomicUsize,
}

impl Brittle {
    fn new() -> Arc<Self> {
        Arc::new(Self { system: SystemClock::new(), looks_left: AtomicUsize::new(0) })
    }

    fn panic_at_look(&self, look: usize) {
        self.looks_left.store(look, Ordering::SeqCst);
    }
}

impl Clock for Brittle {
    fn mono(&self) -> MonoTime {
        self.system.mono()
    }

    fn wall(&self) -> WallTime {
        self.system.wall()
    }

    fn at(&self) -> At {
        let one_less = |left: usize| left.checked_sub(1);
        let left = self.looks_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        assert_ne!(left, Ok(1), "the clock was armed to panic here");
        At { mono: self.mono(), wall: self.wall() }
    }
}

/// A panic before the store is asked, within it, and after it: the client is told each time, and nobody is promised anything.
#[tokio::test]
async fn a_panic_is_told_alike_both_ways() {
    let server_and_lease = async |clock: &Arc<Brittle>| {
        let server = Server::timed_by(clock.clone(), |settings| settings.rates = None).await;
        let alice = jwt("demo", "alice");
        let lease = Lease::of(&server.host(&alice, "k", DETAILS).await, &alice);
        (server, lease)
    };
    for (look, status, code, is_done) in
        [(1, 500, "internal", false), (2, 503, "service_unavailable", false), (3, 500, "internal", true)]
    {
        let clock = Brittle::new();
        let (server, lease) = server_and_lease(&clock).await;
        let (before, mut client) = (server.service.last_commit(), server.client().await);
        clock.panic_at_look(look);
        let told = lease.renew(&mut client, 1, "{}", &[]).await;
        assert_eq!(
            (told.status, told.code(), told.json["outcome"].as_str()),
            (status, code, Some("unknown")),
            "{told:?}"
        );
        assert!(told.header("rendezvous-instance").is_some() && told.header("rendezvous-commit").is_some(), "{told:?}");
        assert_eq!(server.service.last_commit() > before, is_done, "look {look}");
        if status == 500 {
            assert_eq!(told.header("connection"), Some("close"));
            assert!(client.is_closed().await);
            assert_eq!(lease.renew(&mut server.client().await, 1 + u64::from(is_done), "{}", &[]).await.status, 200);
        }
    }
    let clock = Brittle::new();
    let (server, lease) = server_and_lease(&clock).await;
    clock.panic_at_look(1);
    let short = lease.renew(&mut server.client().await, 1, "{}", &[]).await;
    clock.panic_at_look(1);
    let long = lease.renew(&mut server.client().await, 1, "{}", &[LONG_WAY]).await;
    assert_eq!(compared(&short), compared(&long));
}

#[tokio::test]
async fn a_panic_of_a_browse_is_told_too() {
    let clock = Brittle::new();
    let server = Server::timed_by(clock.clone(), |settings| settings.rates = None).await;
    let mut client = server.client().await;
    for more in [&[][..], &[LONG_WAY]] {
        clock.panic_at_look(1);
        let told = client.ask("GET", PAGE, more, "").await;
        assert_eq!((told.status, told.code(), told.header("connection")), (500, "internal", Some("close")), "{told:?}");
        assert!(client.is_closed().await);
        client = server.client().await;
    }
}

#[tokio::test]
async fn the_bound_of_bodies_holds_both_ways() {
    let server = Server::start(true, |settings| settings.limits.body_bytes = 1_024).await;
    let alice = jwt("demo", "alice");
    let lease = Lease::of(&server.host(&alice, "k", DETAILS).await, &alice);
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    for (more, version) in [(&[][..], 1), (&[LONG_WAY], 2)] {
        let too_long = lease.renew(&mut server.client().await, version, &padded(1_025), more).await;
        assert_eq!((too_long.status, too_long.code()), (413, "payload_too_large"), "{too_long:?}");
        assert_eq!(lease.renew(&mut server.client().await, version, &padded(1_024), more).await.status, 200);
    }
}

/// A connection is idle from its last answer on, however long it took to begin.
#[tokio::test]
async fn what_came_before_http_takes_nothing_from_the_idle_time() {
    const BEGINNING: Duration = Duration::from_millis(3_200);
    // Long enough that a machine which others use does not pass it between two requests.
    const IDLE: Duration = Duration::from_millis(3_000);
    let server = Server::start(true, |settings| {
        declared(settings);
        settings.limits.idle_timeout = IDLE;
    })
    .await;
    for more in [&[][..], &[LONG_WAY]] {
        let mut client = server.client().await;
        tokio::time::sleep(BEGINNING).await;
        client.send(&header("192.0.2.1")).await;
        for _ in 0..3 {
            assert_eq!(client.ask("GET", PAGE, more, "").await.status, 200, "{more:?}");
            tokio::time::sleep(IDLE / 30).await;
        }
    }
    assert_eq!(behind(&server, &header("192.0.2.1")).await.ask("GET", PAGE, &[], "").await.status, 200);
}

/// What JSON, headers and callers can be beside the plain ones.
#[tokio::test]
async fn odd_renewals_are_told_alike_both_ways() {
    let server = Server::start(true, |settings| settings.rates = None).await;
    let alice = jwt("demo", "alice");
    let lease = Lease::of(&server.host(&alice, "k", DETAILS).await, &alice);
    let long_name = format!(r#"{{"details":{{"name":"{}","max_players":8}}}}"#, "x".repeat(3_000));
    let bodies: [(&[u8], u16); 12] = [
        (br#"{"ttl_ms":60000,"ttl_ms":60000}"#, 400),
        (br#"{"details":{"name":"a","name":"b","max_players":8}}"#, 400),
        (b"{\"details\":{\"name\":\"\xff\",\"max_players\":8}}", 400),
        (b"\xef\xbb\xbf{}", 400),
        (br#"{"ttl_ms":9007199254740993}"#, 400),
        (br#"{"ttl_ms":-1}"#, 400),
        (br#"{"ttl_ms":6e4}"#, 400),
        (br#"{"ttl_ms":60000.0}"#, 400),
        (br#"{"ttl_ms":null}"#, 400),
        (br#"{"details":{"name":"\u0000","max_players":8}}"#, 400),
        (long_name.as_bytes(), 400),
        (b"[]", 400),
    ];
    let ask = async |more: &str, body: &[u8]| {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nLease-Token: {}\r\nIf-Match: \"7\"\r\n{more}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            lease.path,
            lease.by,
            lease.token,
            body.len()
        );
        let mut client = server.client().await;
        client.send(&[head.as_bytes(), body].concat()).await;
        client.response(false).await.unwrap()
    };
    let both = async |more: &str, body: &[u8]| {
        let short = ask(more, body).await;
        let long = ask(&format!("{more}X-Request-Id: r\r\n"), body).await;
        assert_eq!(compared(&short), compared(&long), "{more:?}");
        short
    };
    for (body, status) in bodies {
        assert_eq!(both("", body).await.status, status, "{}", String::from_utf8_lossy(body));
    }
    for (more, status, closes) in [
        ("Connection: close, keep-alive\r\n", 412, true),
        ("Connection: keep-alive\r\nConnection: close\r\n", 412, true),
        ("Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n", 412, false),
        ("User-Agent: \u{e9}\tx\r\nAccept:\t*/* \r\n", 412, false),
        ("Host: test\r\n", 400, true),
        ("Content-Encoding: gzip\r\n", 415, false),
        ("X-Forwarded-For: 192.0.2.7\r\n", 412, false),
    ] {
        let answer = both(more, b"{}").await;
        assert_eq!(
            (answer.status, answer.header("connection") == Some("close")),
            (status, closes),
            "{more:?} {answer:?}"
        );
    }
    let operator = format!("Bearer {}", crate::harness::OPERATOR);
    let headers = [("authorization", operator.as_str()), ("idempotency-key", "r")];
    let revocation = r#"{"tenant":"demo","principal":"alice","ttl_ms":60000}"#;
    assert_eq!(server.ask("POST", "/v1/operator/revocations", &headers, revocation).await.status, 200);
    let revoked = both("", b"{}").await;
    assert!(matches!(revoked.status, 403 | 404), "{revoked:?}");
}

/// Whoever has said all it wants to say is answered all the same, and what it did is seen by everybody.
#[tokio::test]
async fn a_client_that_only_listens_any_more_has_its_answer() {
    let server = Server::start(true, |settings| settings.rates = None).await;
    let alice = jwt("demo", "alice");
    let lease = Lease::of(&server.host(&alice, "k", DETAILS).await, &alice);
    let mut client = server.client().await;
    let version = "\"1\"";
    let renewal = crate::harness::request("POST", &lease.path, &lease.headers(version), r#"{"visibility":"unlisted"}"#);
    client.send(renewal.as_bytes()).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.response(false).await.unwrap().status, 200);
    assert!(client.is_closed().await);
    let page = server.ask("GET", PAGE, &[], "").await;
    assert_eq!(page.json["listings"].as_array().map(Vec::len), Some(0), "rule S1, without a tick: {page:?}");
}
