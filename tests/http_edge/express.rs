//! The short way of a browse gives the same answers as the long one, and keeps its place among a connection's answers.

use crate::harness::{Client, Response, Server, jwt, request};
use rendezvous::edge::http::{Cors, Rate, Rates};
use std::collections::BTreeSet;

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";
/// Any header that the short way does not know; this one changes nothing but that it is echoed.
const LONG_WAY: (&str, &str) = ("x-request-id", "r");

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
fn compared(response: &Response) -> (u16, BTreeSet<(String, String)>, &str) {
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
