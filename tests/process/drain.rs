//! The end of a process: drain by signal and by operator (rules J2, J3, cases D1, D4).

use crate::child::until;
use crate::http::{Connection, request};
use crate::server::{Server, bearer, guest, join, register, registration};
use crate::udp::{Credential, Stun};
use std::time::{Duration, Instant};

/// A longer time than any test has patience for would hide a process that only ends at its deadline.
const LONG_WINDOW: &str = "[drain]\nwindow_ms = 30000\n";

/// A server on which an attempt waits: its joiner has bound, its host has not.
struct Waiting {
    server: Server,
    host: Stun,
    host_credential: Credential,
    joiner: Stun,
    joiner_credential: Credential,
}

fn waiting() -> Waiting {
    let server = Server::start(LONG_WINDOW, &[]);
    let listing = server.register();
    let mut host = Stun::new("127.0.0.1:0", server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let mut joiner = Stun::new("127.0.0.1:0", server.udp);
    let joiner_credential = Credential::joiner(&attempt);
    joiner.bind(&joiner_credential);
    let host_credential = Credential::host(&listing, &attempt.id);
    Waiting { server, host, host_credential, joiner, joiner_credential }
}

#[test]
fn case_d4_readiness_turns_before_the_listener_closes_and_liveness_stays() {
    let mut waiting = waiting();
    assert_eq!(waiting.server.get("/readyz").status, 200);
    waiting.server.terminate();
    let not_ready = until("readiness 503", || {
        let answer = waiting.server.get("/readyz");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(not_ready.header("cache-control"), Some("no-store"));
    let mut connection = waiting.server.connect();
    let refused = register(&mut connection, &waiting.server.guest(), "k", "").expect_err("draining");
    assert_eq!((refused.status, refused.code()), (503, "draining"), "{refused:?}");
    assert!(refused.json["drain_deadline"].is_string() && refused.header("retry-after").is_some(), "{refused:?}");
    // The waiting attempt holds the process, and each look on a new connection is answered.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_millis(700) {
        assert_eq!((waiting.server.get("/livez").status, waiting.server.get("/readyz").status), (200, 503));
    }
    assert!(waiting.server.process.is_running());
    // Its introduction is what lets it go: within the window both sides still hear of each other.
    let answer = waiting.host.bind(&waiting.host_credential);
    assert_eq!(answer.peers(), [waiting.joiner.local()]);
    let told = waiting.joiner.introduce(&waiting.joiner_credential, |told| !told.peers().is_empty());
    assert_eq!(told.peers(), [waiting.host.local()]);
    let introduced = Instant::now();
    waiting.server.process.assert_exit(0);
    assert!(introduced.elapsed() < Duration::from_secs(15), "it waited for its deadline");
}

#[test]
fn rule_j3_a_waiting_attempt_holds_the_process_no_longer_than_the_window_and_a_little() {
    let server = Server::start("[drain]\nwindow_ms = 1500\n", &[]);
    let listing = server.register();
    Stun::new("127.0.0.1:0", server.udp).present(&listing);
    let attempt = server.attempt(&listing);
    Stun::new("127.0.0.1:0", server.udp).bind(&Credential::joiner(&attempt));
    let mut server = server;
    server.terminate();
    let begun = Instant::now();
    server.process.assert_exit(0);
    assert!(begun.elapsed() >= Duration::from_millis(1_400), "the attempt did not hold it");
    assert!(begun.elapsed() < Duration::from_millis(1_500 + 5_000 + 3_000), "{:?}", begun.elapsed());
}

#[test]
fn rule_j3_a_second_signal_ends_at_once() {
    let mut waiting = waiting();
    waiting.server.terminate();
    until("drain", || (waiting.server.get("/readyz").status == 503).then_some(()));
    waiting.server.terminate();
    let begun = Instant::now();
    waiting.server.process.assert_exit(1);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn case_d1_stuck_connections_do_not_hold_the_exit_and_requests_in_flight_are_answered() {
    let mut server = Server::start("[drain]\nwindow_ms = 1000\n", &[]);
    let token = server.guest();
    let silent = server.connect();
    let mut idle = server.connect();
    assert_eq!(idle.ask("GET", "/livez", &[], "").status, 200);
    let mut half_head = server.connect();
    half_head.send(b"GET /livez HTTP/1.1\r\nHost: t");
    let headers = [("Authorization", &*bearer(&token)), ("Idempotency-Key", "k")];
    let whole = request("POST", "/v1/tenants/demo/listings", &headers, &registration(""));
    let (first, rest) = whole.split_at(whole.len() - 10);
    let mut in_flight = server.connect();
    in_flight.send(first.as_bytes());
    let mut half_body = server.connect();
    half_body.send(first.as_bytes());
    let mut deaf = server.connect();
    // Answers of some megabytes, of which none is read: more than the buffers on the way hold.
    let asks = request("GET", "/openapi.json", &[], "").repeat(200);
    deaf.send(asks.as_bytes());
    // A later request on a connection of its own is answered, so what came before has been read.
    assert_eq!(server.get("/livez").status, 200);

    server.terminate();
    let begun = Instant::now();
    until("drain", || match Connection::try_open(server.http) {
        Ok(mut connection) => {
            connection.send(request("GET", "/readyz", &[], "").as_bytes());
            connection.response().is_none_or(|answer| answer.status == 503).then_some(())
        }
        Err(_) => Some(()),
    });
    in_flight.send(rest.as_bytes());
    let answer = in_flight.response().expect("a request in flight is answered");
    assert_eq!((answer.status, answer.code()), (503, "draining"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert!(idle.is_closed(), "an idle connection is let go of");
    server.process.assert_exit(0);
    assert!(begun.elapsed() < Duration::from_millis(1_000 + 5_000 + 3_000), "{:?}", begun.elapsed());
    drop((silent, half_head, half_body, deaf));
}

#[test]
fn case_d1_a_busy_keep_alive_client_gets_connection_close_and_nothing_is_reset() {
    let mut waiting = waiting();
    let mut busy = waiting.server.connect();
    assert_eq!(busy.ask("GET", "/livez", &[], "").header("connection"), None);
    waiting.server.terminate();
    until("drain", || (waiting.server.get("/readyz").status == 503).then_some(()));
    waiting.host.bind(&waiting.host_credential);
    // From now on the process may end at any moment; until then every request gets a whole answer.
    let told_to_close = loop {
        busy.send(request("GET", "/livez", &[], "").as_bytes());
        let Some(answer) = busy.response() else { break false };
        assert_eq!(answer.status, 200);
        if answer.header("connection") == Some("close") {
            break true;
        }
    };
    assert!(told_to_close || busy.is_closed());
    waiting.server.process.assert_exit(0);
}

#[test]
fn rule_j2_an_operators_drain_keeps_the_process_and_after_its_deadline_only_health_answers() {
    let mut server = Server::dev();
    let listing = server.register();
    let mut host = Stun::new("127.0.0.1:0", server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let began = server.operate("POST", "/v1/operator/drain", r#"{"window_ms":1000}"#);
    assert_eq!(began.status, 202, "{began:?}");
    let again = server.operate("POST", "/v1/operator/drain", r#"{"window_ms":30000}"#);
    assert_eq!((again.status, &again.json), (202, &began.json), "the first deadline stays");
    let answer = host.log_in(&Credential::presence(&listing), Some(2));
    if answer.is_success() {
        let retry = answer.message().u32(rendezvous::stun::AttributeType::RV_RETRY_AFTER);
        assert!(matches!(retry, Ok(Some(_))), "presence says when to come back: {answer:?}");
    }
    until("the deadline", || {
        let page = server.get("/v1/tenants/demo/listings?protocol=arena/3");
        (page.status == 503).then_some(())
    });
    let mut connection = server.connect();
    let token = guest_or_none(&mut connection);
    let authorization = bearer(&listing.token);
    for (method, path) in [
        ("GET", "/v1/tenants/demo/listings?protocol=arena/3".to_owned()),
        ("GET", listing.path("")),
        ("POST", "/v1/tenants/demo/listings".to_owned()),
        ("GET", listing.path("/lease")),
        ("DELETE", listing.path("")),
        ("POST", listing.path("/attempts")),
        ("GET", attempt.path()),
    ] {
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Lease-Token", &listing.lease_token),
            ("Idempotency-Key", "after"),
        ];
        let body = if method == "POST" { registration("") } else { String::new() };
        let answer = server.ask(method, &path, &headers, &body);
        assert_eq!((answer.status, answer.code()), (503, "draining"), "{method} {path}: {answer:?}");
    }
    assert!(token.is_none(), "a guest could not do anything any more");
    let status = server.status();
    assert_eq!(status["availability"], "draining");
    for (path, expected) in [("/livez", 200), ("/health/live", 200), ("/readyz", 503), ("/metrics", 200)] {
        assert_eq!(server.get(path).status, expected, "{path}");
    }
    let refused = host.log_in(&Credential::presence(&listing), Some(3));
    assert_eq!((refused.error(), refused.reason()), (Some(403), Some(4)), "{refused:?}");
    assert!(server.process.is_running(), "only a signal ends the process");
    server.terminate();
    server.process.assert_exit(0);
}

/// A guest's token, unless guests are refused as everything is.
fn guest_or_none(connection: &mut Connection) -> Option<String> {
    let answer = connection.ask("POST", "/v1/tenants/demo/guests", &[], "");
    if answer.status == 201 {
        return Some(crate::server::text(&answer.json["token"]));
    }
    assert_eq!((answer.status, answer.code()), (503, "draining"), "{answer:?}");
    None
}

#[test]
fn case_d2_nothing_undoes_a_drain() {
    let server = Server::start(LONG_WINDOW, &[]);
    let listing = server.register();
    let mut host = Stun::new("127.0.0.1:0", server.udp);
    host.present(&listing);
    assert_eq!(server.operate("POST", "/v1/operator/drain", r#"{"window_ms":30000}"#).status, 202);
    let mut connection = server.connect();
    let renewed = listing.renew(&mut connection, 1);
    assert_eq!((renewed.status, renewed.code()), (503, "draining"), "{renewed:?}");
    let answer = host.log_in(&Credential::presence(&listing), Some(2));
    assert!(answer.is_success(), "{answer:?}");
    let headers = [("Authorization", &*bearer(&listing.token)), ("Idempotency-Key", "first")];
    let replayed = connection.ask("POST", "/v1/tenants/demo/listings", &headers, &registration(""));
    assert_eq!((replayed.status, replayed.json["listing_id"].as_str()), (200, Some(&*listing.id)), "{replayed:?}");
    let token = guest(&mut connection);
    let joined = join(&mut connection, &token, &listing.id, "k", "{}");
    assert_eq!((joined.status, joined.code()), (503, "draining"), "{joined:?}");
    assert_eq!(server.get("/readyz").status, 503);
    assert_eq!(server.status()["availability"], "draining");
}
