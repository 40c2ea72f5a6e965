//! Long polls over HTTP: what wakes them, and what ends them.

use crate::child::until;
use crate::http::{Connection, Response, request};
use crate::server::{Listing, Server, bearer};
use crate::udp::{Credential, Stun};
use std::time::{Duration, Instant};

/// An event is told long before the poll's own end of 30 s.
const QUICK: Duration = Duration::from_secs(5);

struct Poll {
    connection: Connection,
}

impl Poll {
    /// Sends the poll and waits until the server holds it.
    fn start(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let before = waiting(server);
        let mut connection = server.connect();
        connection.send(request("GET", path, headers, "").as_bytes());
        until("the poll", || (waiting(server) > before).then_some(()));
        Self { connection }
    }

    fn offers(server: &Server, listing: &Listing, after: u64) -> Self {
        let path = listing.path(&format!("/attempts?after={after}&wait_ms=30000"));
        let headers = [("Authorization", &*bearer(&listing.token)), ("Lease-Token", &listing.lease_token)];
        Self::start(server, &path, &headers)
    }

    /// The answer, which must come soon after `event`.
    #[track_caller]
    fn wakes(mut self, event: impl FnOnce()) -> Response {
        let begun = Instant::now();
        event();
        let answer = self.connection.response().expect("an answer");
        assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }
}

/// Long polls that the server holds at this moment.
fn waiting(server: &Server) -> u64 {
    let text = server.get("/metrics").body;
    // Counted once they have their place: the edge's own gauge goes up a moment earlier, when drain would not find them yet.
    let line = text.lines().find_map(|line| line.strip_prefix("rendezvous_long_polls_waiting "));
    line.unwrap_or_else(|| panic!("no gauge in\n{text}")).trim().parse::<f64>().expect("a number") as u64
}

fn joinable(server: &Server) -> (Listing, Stun) {
    let listing = server.register();
    let mut host = Stun::new("127.0.0.1:0", server.udp);
    host.present(&listing);
    (listing, host)
}

#[test]
fn a_host_that_waits_hears_of_an_attempt_at_once() {
    let server = Server::dev();
    let (listing, _host) = joinable(&server);
    let mut attempts = Vec::new();
    let first = Poll::offers(&server, &listing, 0).wakes(|| attempts.push(server.attempt(&listing)));
    let commit = first.json["commit"].as_u64().expect("a commit");
    let offered = first.json["attempts"].as_array().expect("offers");
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0]["attempt_id"], attempts[0].id);
    // The host's credential is the one that it would derive itself.
    let derived = rendezvous::credentials::derive(listing.password.as_bytes(), &attempts[0].id);
    assert_eq!(offered[0]["bind"]["password"], derived.expose());
    assert_eq!(offered[0]["bind"]["username"], format!("h1.{}.{}", listing.id, attempts[0].id));
    let second = Poll::offers(&server, &listing, commit).wakes(|| attempts.push(server.attempt(&listing)));
    assert!(second.json["attempts"].to_string().contains(&attempts[1].id), "{second:?}");
    assert!(second.json["commit"].as_u64() > Some(commit));
}

#[test]
fn a_poll_ends_with_its_listing_and_is_then_not_found() {
    let server = Server::dev();
    let (listing, _host) = joinable(&server);
    let ended = Poll::offers(&server, &listing, server.status()["commit"].as_u64().unwrap())
        .wakes(|| assert_eq!(listing.ask(&mut server.connect(), "DELETE", "").status, 204));
    assert_eq!(ended.json["ended"], true, "{ended:?}");
    assert!(ended.json["reason"].is_string(), "{ended:?}");
    let gone = listing.ask(&mut server.connect(), "GET", "/attempts?wait_ms=30000");
    assert_eq!((gone.status, gone.code()), (404, "not_found"), "{gone:?}");
}

#[test]
fn drain_lets_polls_go() {
    let mut server = Server::dev();
    let (listing, _host) = joinable(&server);
    let after = server.status()["commit"].as_u64().unwrap();
    Poll::offers(&server, &listing, after).wakes(|| {
        assert_eq!(server.operate("POST", "/v1/operator/drain", r#"{"window_ms":20000}"#).status, 202);
    });
    let mut another = Server::dev();
    let (listing, _host) = joinable(&another);
    let after = another.status()["commit"].as_u64().unwrap();
    Poll::offers(&another, &listing, after).wakes(|| another.terminate());
    another.process.assert_exit(0);
    assert!(server.process.is_running());
}

#[test]
fn a_joiner_that_waits_hears_of_its_introduction_at_once() {
    let server = Server::dev();
    let (listing, mut host) = joinable(&server);
    let attempt = server.attempt(&listing);
    let mut joiner = Stun::new("127.0.0.1:0", server.udp);
    joiner.bind(&Credential::joiner(&attempt));
    let authorization = bearer(&attempt.token);
    let headers = [("Authorization", authorization.as_str())];
    let now = server.ask("GET", &attempt.path(), &headers, "");
    assert_eq!((now.json["state"].as_str(), now.json["peer"].is_null()), (Some("waiting"), true), "{now:?}");
    let commit = now.json["commit"].as_u64().expect("a commit");
    let path = format!("{}?after={commit}&wait_ms=30000", attempt.path());
    let told = Poll::start(&server, &path, &headers).wakes(|| {
        host.bind(&Credential::host(&listing, &attempt.id));
    });
    assert_eq!(told.json["state"], "introduced");
    assert_eq!(told.json["peer"], serde_json::json!([host.local().to_string()]));
    let commit = told.json["commit"].as_u64().expect("a commit");
    let path = format!("{}?after={commit}&wait_ms=30000", attempt.path());
    let closed = Poll::start(&server, &path, &headers).wakes(|| {
        assert_eq!(server.ask("DELETE", &attempt.path(), &headers, "").status, 204);
    });
    assert_eq!(closed.header("cache-control"), Some("private, no-store"));
    assert!(closed.json["state"] != "waiting" && closed.json["state"] != "introduced", "{closed:?}");
}

#[test]
fn a_poll_without_news_answers_when_its_time_is_over() {
    let server = Server::dev();
    let (listing, _host) = joinable(&server);
    let after = server.status()["commit"].as_u64().unwrap();
    let begun = Instant::now();
    let rest = format!("/attempts?after={after}&wait_ms=300");
    let answer = listing.ask(&mut server.connect(), "GET", &rest);
    assert_eq!((answer.status, answer.json["attempts"].as_array().map(Vec::len)), (200, Some(0)), "{answer:?}");
    assert!((Duration::from_millis(300)..QUICK).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}
