//! The short way of browses and renewals gives the same answers as the long one, and keeps its place among a connection's
//! answers.

use crate::harness::{Client, Response, Server, jwt, request};
use crate::observer::Recorder;
use rendezvous::edge::http::{Cors, Rate, Rates};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";
/// Any header that the short way does not know; this one changes nothing but that it is echoed.
pub(crate) const LONG_WAY: (&str, &str) = ("x-request-id", "r");

/// A server with so many listings that pages of all of them are sent in slices.
async fn crowded(lane: bool, workers: usize) -> Server {
    let server = Server::start(lane, |settings| {
        settings.rates = None;
        settings.workers = workers;
    })
    .await;
    for n in 0..40 {
        let details = format!(r#"{{"name":"n{n}","max_players":8,"attributes":{{"pad":"{}"}}}}"#, "x".repeat(200));
        server.host(&jwt("demo", &format!("host-{n}")), "k", &details).await;
    }
    server
}

/// Everything but the time of day and what was echoed.
pub(crate) fn compared(response: &Response) -> (u16, BTreeSet<(String, String)>, &str) {
    let passing = ["date", LONG_WAY.0];
    let headers = response.headers.iter().filter(|(name, _)| !passing.contains(&name.as_str())).cloned().collect();
    (response.status, headers, &response.body)
}

async fn both_ways(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> Response {
    let short = client.ask("GET", path, headers, "").await;
    let long = client.ask("GET", path, &[headers, &[LONG_WAY]].concat(), "").await;
    assert_eq!(long.header(LONG_WAY.0), Some(LONG_WAY.1));
    assert_eq!(compared(&short), compared(&long), "{path} {headers:?}");
    assert!(short.header("date").is_some_and(|date| date.ends_with(" GMT")), "{short:?}");
    short
}

#[tokio::test]
async fn both_ways_answer_alike() {
    for (lane, workers) in [(true, 0), (false, 0), (true, 2)] {
        let server = crowded(lane, workers).await;
        let mut client = server.client().await;
        let all = both_ways(&mut client, PAGE, &[]).await;
        assert_eq!(all.json["listings"].as_array().map(Vec::len), Some(40), "{all:?}");
        let mut cursor = String::new();
        for _ in 0..4 {
            let page = both_ways(&mut client, &format!("{PAGE}&limit=12{cursor}"), &[]).await;
            cursor = page.json["next_cursor"].as_str().map_or(String::new(), |next| format!("&cursor={next}"));
        }
        for filter in ["name+in+%5B%22n3%22,%22n39%22%5D", "not+name%3D%22n3%22", "players%3e3", "%22"] {
            both_ways(&mut client, &format!("{PAGE}&limit=12&filter={filter}"), &[]).await;
        }
        let tag = all.header("etag").unwrap().to_owned();
        for line in [tag.clone(), tag[2..].to_owned(), format!("\"x\", {tag}"), "*".to_owned()] {
            assert_eq!(both_ways(&mut client, PAGE, &[("if-none-match", &line)]).await.status, 304);
        }
        assert_eq!(both_ways(&mut client, PAGE, &[("if-none-match", "\"x\"")]).await.status, 200);
        for refused in ["&limit=0", "&limit=1&limit=1", "&cursor=x", "&filter=1", "&min_commit=9007199254740991"] {
            assert_eq!(both_ways(&mut client, &format!("{PAGE}{refused}"), &[]).await.status, 400, "{refused}");
        }
        for path in ["/v1/tenants/other/listings?protocol=a", "/v1/tenants/closed/listings?protocol=a"] {
            assert!(both_ways(&mut client, path, &[]).await.status >= 401, "{path}");
        }
        assert_eq!(both_ways(&mut client, "/v1/tenants/demo/listings?protocol=empty", &[]).await.status, 200);
    }
}

#[tokio::test]
async fn answers_keep_the_order_of_their_requests() {
    let server = crowded(true, 0).await;
    let mut client = server.client().await;
    let short = |limit: usize| request("GET", &format!("{PAGE}&limit={limit}"), &[], "");
    let long = request("GET", "/livez", &[], "");
    // In one piece, then cut in the middle of a head, then a body that the short way must not look into.
    client.send([short(1), short(2), long.clone(), short(3)].concat().as_bytes()).await;
    for rows in [Some(1), Some(2), None, Some(3)] {
        let answer = client.response(false).await.unwrap();
        assert_eq!(answer.json["listings"].as_array().map(Vec::len), rows, "{answer:?}");
    }
    for limit in 1..6 {
        let bytes = short(limit);
        let (first, second) = bytes.as_bytes().split_at(7 * limit);
        client.send(first).await;
        server.until(|server| server.handle.open_requests() == 0).await;
        client.send(second).await;
        let answer = client.response(false).await.unwrap();
        assert_eq!(answer.json["listings"].as_array().map(Vec::len), Some(limit));
    }
    let smuggled =
        format!("POST /v1/tenants/demo/guests HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", short(1).len());
    client.send(smuggled.as_bytes()).await;
    client.send(short(1).as_bytes()).await;
    client.send(long.as_bytes()).await;
    assert!(client.response(false).await.unwrap().status >= 400);
    assert!(client.response(false).await.is_none_or(|answer| answer.json.get("listings").is_none()));
}

#[tokio::test]
async fn whoever_does_not_read_gets_no_more_until_it_does() {
    let server = crowded(true, 0).await;
    let mut client = server.client().await;
    let one = request("GET", PAGE, &[], "");
    // Far more answers than the sockets' buffers hold.
    let (mut reader, mut writer) = {
        let Client { stream, .. } = client;
        let (reader, writer) = stream.into_split();
        (reader, writer)
    };
    let count = 2_000;
    let asking = tokio::spawn(async move {
        for _ in 0..count {
            tokio::io::AsyncWriteExt::write_all(&mut writer, one.as_bytes()).await.unwrap();
        }
        writer
    });
    client = server.client().await;
    let single = client.ask("GET", PAGE, &[], "").await;
    let mut bytes = vec![0; 65_536];
    let mut total = 0;
    // Heads have one length as long as nothing changes.
    let head: usize = "HTTP/1.1 200 OK\r\n\r\n".len()
        + single.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
    while total < count * (head + single.body.len()) {
        let read = tokio::io::AsyncReadExt::read(&mut reader, &mut bytes).await.unwrap();
        assert!(read > 0, "the connection ended after {total} bytes");
        total += read;
    }
    assert_eq!(total, count * (head + single.body.len()));
    drop(asking.await.unwrap());
}

#[tokio::test]
async fn the_short_way_is_limited_and_counted_like_the_long_one() {
    let server = Server::start(true, |settings| {
        settings.rates = Some(Rates { browsing: Rate { per_second: 1, burst: 3 }, ..Rates::default() });
        settings.cors = Cors::Origins(vec!["https://game.example".into()]);
    })
    .await;
    let mut client = server.client().await;
    let page = both_ways(&mut client, PAGE, &[]).await;
    assert_eq!(page.header("vary"), Some("Accept-Encoding, Origin"));
    assert_eq!(client.ask("GET", PAGE, &[], "").await.status, 200);
    let refused = client.ask("GET", PAGE, &[], "").await;
    assert_eq!((refused.status, refused.code()), (429, "rate_limited"));
    assert_eq!(server.handle.open_requests(), 0);
    server.handle.begin_drain();
    let last = server.client().await.ask("GET", "/v1/tenants/demo/listings?protocol=a", &[], "").await;
    assert_eq!(last.header("connection"), Some("close"), "the long way says that a connection ends");
}

/// A listing as its host knows it, and what a renewal of it is sent with.
pub(crate) struct Lease {
    pub(crate) path: String,
    pub(crate) by: String,
    pub(crate) token: String,
}

impl Lease {
    pub(crate) fn of(listing: &Value, by: &str) -> Self {
        let text = |name: &str| listing[name].as_str().unwrap().to_owned();
        let path = format!("/v1/tenants/demo/listings/{}/renew", text("listing_id"));
        Self { path, by: by.to_owned(), token: text("lease_token") }
    }

    pub(crate) fn headers<'h>(&'h self, version: &'h str) -> Vec<(&'h str, &'h str)> {
        vec![("authorization", &self.by), ("lease-token", &self.token), ("if-match", version)]
    }

    pub(crate) async fn renew(&self, client: &mut Client, version: u64, body: &str, more: &[(&str, &str)]) -> Response {
        let version = format!("\"{version}\"");
        client.ask("POST", &self.path, &[self.headers(&version), more.to_vec()].concat(), body).await
    }
}

/// Everything but what one more renewal changes.
fn but_for_the_version(response: &Response) -> (u16, BTreeSet<(String, String)>, Value) {
    let changing = ["date", "etag", "rendezvous-commit", "content-length", LONG_WAY.0];
    let headers = response.headers.iter().filter(|(name, _)| !changing.contains(&name.as_str())).cloned().collect();
    let mut body = response.json.clone();
    for member in ["version", "expires_at"] {
        assert!(body.as_object_mut().is_some_and(|members| members.remove(member).is_some()), "{response:?}");
    }
    (response.status, headers, body)
}

#[tokio::test]
async fn renewals_are_answered_alike_both_ways() {
    for lane in [true, false] {
        let server = Server::start(lane, |settings| settings.rates = None).await;
        let mut client = server.client().await;
        let (alice, guest) = (jwt("demo", "alice"), server.guest().await);
        for by in [&alice, &guest] {
            let lease = Lease::of(&server.host(by, "k", r#"{"name":"n","max_players":8}"#).await, by);
            let more = r#"{"ttl_ms":45000,"visibility":"unlisted","details":{"name":"other","max_players":9}}"#;
            let mut version = 1;
            for body in ["{}", "", more] {
                let short = lease.renew(&mut client, version, body, &[]).await;
                let long = lease.renew(&mut client, version + 1, body, &[LONG_WAY]).await;
                assert_eq!(long.header(LONG_WAY.0), Some(LONG_WAY.1));
                assert_eq!(but_for_the_version(&short), but_for_the_version(&long));
                assert_eq!((short.status, short.json["version"].as_u64()), (200, Some(version + 1)), "{short:?}");
                let commit = |answer: &Response| answer.header("rendezvous-commit").unwrap().parse::<u64>().unwrap();
                assert_eq!((commit(&long), commit(&short) + 1), (commit(&short) + 1, server.service.last_commit()));
                assert_eq!(short.header("etag"), Some(format!("\"{}\"", version + 1).as_str()));
                version += 2;
            }
            server.tick().await;
            let row = server.ask("GET", lease.path.strip_suffix("/renew").unwrap(), &[], "").await;
            assert_eq!(row.json["name"], "other", "{row:?}");
        }
    }
}

#[tokio::test]
async fn what_the_store_says_to_a_renewal_is_said_once_and_alike_both_ways() {
    let server = Server::start(true, |settings| settings.rates = None).await;
    let alice = jwt("demo", "alice");
    let listing = server.host(&alice, "k", r#"{"name":"n","max_players":8}"#).await;
    let lease = Lease::of(&listing, &alice);
    let changed = |change: &dyn Fn(&mut Lease)| {
        let mut other = Lease::of(&listing, &alice);
        change(&mut other);
        other
    };
    let refusals = [
        (lease, 7, "{}", 412),
        (changed(&|lease| lease.token = "x".repeat(43)), 1, "{}", 404),
        (changed(&|lease| lease.by = jwt("demo", "bob")), 1, "{}", 404),
        (changed(&|lease| lease.by = jwt("closed", "alice")), 1, "{}", 404),
        (changed(&|lease| lease.by = "Bearer x".to_owned()), 1, "{}", 401),
        (changed(&|lease| lease.by = lease.by.replace("Bearer", "Basic")), 1, "{}", 401),
        (changed(&|lease| lease.by = format!("Bearer {}", crate::harness::OPERATOR)), 1, "{}", 403),
        (changed(&|lease| lease.token = "x".repeat(129)), 1, "{}", 400),
        (changed(&|lease| lease.path = lease.path.replace("/demo/", "/other/")), 1, "{}", 404),
        (changed(&|lease| lease.path = "/v1/tenants/demo/listings/x/renew".to_owned()), 1, "{}", 404),
        (changed(&|_| ()), 1, r#"{"ttl_ms":1}"#, 400),
        (changed(&|_| ()), 1, r#"{"ttl":1}"#, 400),
        (changed(&|_| ()), 1, "{", 400),
        (changed(&|_| ()), 0, "{}", 400),
    ];
    for (lease, version, body, status) in &refusals {
        let before = server.service.last_commit();
        // Each on a connection of its own: after a refusal of the edge the short way is not taken for a while.
        let mut client = server.client().await;
        let short = lease.renew(&mut client, *version, body, &[]).await;
        let long = lease.renew(&mut client, *version, body, &[LONG_WAY]).await;
        assert_eq!(compared(&short), compared(&long));
        assert_eq!((short.status, server.service.last_commit()), (*status, before), "{short:?}");
    }
}

/// A renewal that meets a held lane goes the long way, where it waits in its queue; its budget is charged once.
#[tokio::test]
async fn a_busy_lane_renews_once_and_charges_once() {
    let writer = Arc::new(Recorder::default());
    let server = Server::heard_by(writer.clone(), |settings| {
        let rate = Rate { per_second: 1, burst: 2 };
        settings.rates = Some(Rates { principal_keep_alives: rate, ..Rates::default() });
        settings.limits.idle_timeout = Duration::from_secs(2);
    })
    .await;
    let (alice, bob) = (jwt("demo", "alice"), jwt("demo", "bob"));
    let lease = Lease::of(&server.host(&alice, "k", r#"{"name":"n","max_players":8}"#).await, &alice);
    let gone = server.host(&bob, "k", r#"{"name":"n","max_players":8}"#).await;
    let stands = writer.hold_next();
    let deletion = server.delete_beside(&gone, "bob");
    stands.wait_entered();
    let mut client = server.client().await;
    client.send(request("POST", &lease.path, &lease.headers("\"1\""), "{}").as_bytes()).await;
    server.until(|server| server.service.queued().1 == 1).await;
    stands.release();
    deletion.await.unwrap();
    let renewed = client.response(false).await.unwrap();
    assert_eq!((renewed.status, renewed.json["version"].as_u64()), (200, Some(2)), "{renewed:?}");
    let second = lease.renew(&mut client, 2, "{}", &[]).await;
    assert_eq!(second.status, 200, "two were allowed: {second:?}");
    let third = lease.renew(&mut client, 3, "{}", &[]).await;
    assert_eq!((third.status, third.code()), (429, "rate_limited"));
    assert_eq!(server.handle.open_requests(), 0);
    assert!(client.is_closed().await, "neither way has left a request open");
}

/// What the store refuses costs as much as what it grants, and the store is asked once.
#[tokio::test]
async fn a_refused_renewal_is_charged_once() {
    let server = Server::start(true, |settings| {
        let rate = Rate { per_second: 1, burst: 2 };
        settings.rates = Some(Rates { principal_keep_alives: rate, ..Rates::default() });
    })
    .await;
    let alice = jwt("demo", "alice");
    let lease = Lease::of(&server.host(&alice, "k", r#"{"name":"n","max_players":8}"#).await, &alice);
    let mut client = server.client().await;
    for status in [412, 412, 429] {
        assert_eq!(lease.renew(&mut client, 7, "{}", &[]).await.status, status);
    }
}

/// A drain extends no lease (rule J2), neither in its window nor after it.
#[tokio::test]
async fn a_drain_is_told_alike_both_ways() {
    for window_ms in [30_000, 0] {
        let server = Server::start(true, |settings| settings.rates = None).await;
        let alice = jwt("demo", "alice");
        let lease = Lease::of(&server.host(&alice, "k", r#"{"name":"n","max_players":8}"#).await, &alice);
        let operator = format!("Bearer {}", crate::harness::OPERATOR);
        let body = format!(r#"{{"window_ms":{window_ms}}}"#);
        let drain = server.ask("POST", "/v1/operator/drain", &[("authorization", &operator)], &body).await;
        assert_eq!(drain.status, 202, "{drain:?}");
        let mut client = server.client().await;
        let short = lease.renew(&mut client, 1, "{}", &[]).await;
        let long = server.ask("POST", &lease.path, &[lease.headers("\"1\""), vec![LONG_WAY]].concat(), "{}").await;
        assert_eq!((short.status, short.code()), (503, "draining"), "{short:?}");
        assert_eq!(short.json, long.json);
    }
}

/// Pipelined, cut anywhere, and between others: each renewal is done once, in its place.
#[tokio::test]
async fn renewals_keep_their_place_and_are_done_once() {
    let server = Server::start(true, |settings| settings.rates = None).await;
    let alice = jwt("demo", "alice");
    let lease = Lease::of(&server.host(&alice, "k", r#"{"name":"n","max_players":8}"#).await, &alice);
    let renewal = |version: u64| {
        let version = format!("\"{version}\"");
        request("POST", &lease.path, &lease.headers(&version), r#"{"ttl_ms":60000}"#)
    };
    let mut client = server.client().await;
    let page = request("GET", PAGE, &[], "");
    client.send([renewal(1), page, renewal(2), renewal(3)].concat().as_bytes()).await;
    for version in [Some(2), None, Some(3), Some(4)] {
        let answer = client.response(false).await.unwrap();
        assert_eq!((answer.status, answer.json["version"].as_u64()), (200, version), "{answer:?}");
    }
    let length = renewal(4).len();
    for (version, cut) in (4..).zip([1, 40, length - 20, length - 16, length - 3, length - 1]) {
        let bytes = renewal(version);
        let (first, second) = bytes.as_bytes().split_at(cut);
        client.send(first).await;
        // Another connection's answer: the server has had its turn.
        assert_eq!(server.ask("GET", "/livez", &[], "").await.status, 200);
        client.send(second).await;
        let answer = client.response(false).await.unwrap();
        assert_eq!((answer.status, answer.json["version"].as_u64()), (200, Some(version + 1)), "{answer:?}");
    }
}
