//! Browsing over HTTP.

use crate::harness::{Server, jwt};
use std::collections::BTreeSet;

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";

async fn with_listings(lane: bool, count: usize) -> (Server, BTreeSet<String>) {
    let server = Server::start(lane, |settings| settings.rates = None).await;
    let mut ids = BTreeSet::new();
    for n in 0..count {
        let host = jwt("demo", &format!("host-{n}"));
        let details = format!(r#"{{"name":"q\" \\ {n}","max_players":8,"attributes":{{"n":{n}}}}}"#);
        let listing = server.host(&host, "k", &details).await;
        ids.insert(listing["listing_id"].as_str().unwrap().to_owned());
    }
    (server, ids)
}

#[tokio::test]
async fn case_b1_a_walk_shows_each_listing_once_whatever_the_limit() {
    for lane in [true, false] {
        let (server, ids) = with_listings(lane, 7).await;
        for limit in [1, 3, 7, 1_000] {
            let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, String::new());
            loop {
                let page = server.ask("GET", &format!("{PAGE}&limit={limit}{cursor}"), &[], "").await;
                assert_eq!(page.status, 200, "{page:?}");
                let rows = page.json["listings"].as_array().unwrap();
                seen.extend(rows.iter().map(|row| row["listing_id"].as_str().unwrap().to_owned()));
                pages += 1;
                match page.json["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert!(pages <= 7_usize.div_ceil(limit) + 1, "{pages} pages of {limit}");
            assert_eq!(seen.len(), 7);
            assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), ids);
        }
    }
}

#[tokio::test]
async fn pages_have_tags_and_are_not_sent_twice() {
    for lane in [true, false] {
        let (server, _) = with_listings(lane, 2).await;
        let page = server.ask("GET", PAGE, &[], "").await;
        let tag = page.header("etag").unwrap().to_owned();
        assert!(tag.starts_with("W/\""));
        assert_eq!(page.header("cache-control"), Some("public, max-age=1"));
        for matching in [tag.clone(), tag[2..].to_owned(), format!("\"x\", {tag}")] {
            let same = server.ask("GET", PAGE, &[("if-none-match", &matching)], "").await;
            assert_eq!((same.status, same.body.as_str()), (304, ""));
            assert_eq!(same.header("etag"), Some(tag.as_str()));
            assert!(same.header("rendezvous-commit").is_some());
        }
        let head = server.ask("HEAD", PAGE, &[], "").await;
        assert_eq!((head.status, head.header("etag")), (200, Some(tag.as_str())));
        assert_eq!(head.header("content-length"), Some(page.body.len().to_string().as_str()));
        server.host(&jwt("demo", "third"), "k", r#"{"name":"new","max_players":2}"#).await;
        let changed = server.ask("GET", PAGE, &[("if-none-match", &tag)], "").await;
        assert_eq!((changed.status, changed.json["listings"].as_array().unwrap().len()), (200, 3));
        let row = &changed.json["listings"][0];
        assert!(row.get("version").is_none() && row.get("expires_at").is_none() && row.get("lease_token").is_none());
    }
}

#[tokio::test]
async fn case_b2_odd_queries_are_refused_by_name() {
    let (server, _) = with_listings(true, 2).await;
    let page = server.ask("GET", &format!("{PAGE}&limit=1"), &[], "").await;
    let cursor = page.json["next_cursor"].as_str().unwrap();
    let refused = [
        ("limit", format!("{PAGE}&limit=0")),
        ("limit", format!("{PAGE}&limit=")),
        ("limit", format!("{PAGE}&limit=1&limit=1")),
        ("cursor", format!("{PAGE}&cursor={}", &cursor[1..])),
        ("cursor", format!("/v1/tenants/demo/listings?protocol=arena%2F4&cursor={cursor}")),
        ("protocol", "/v1/tenants/demo/listings".to_owned()),
        ("protocol", "/v1/tenants/demo/listings?protocol=Arena".to_owned()),
        ("min_commit", format!("{PAGE}&min_commit=9007199254740991")),
        ("min_commit", format!("{PAGE}&min_commit=1.0")),
        ("filter", format!("{PAGE}&filter=1")),
    ];
    for (parameter, path) in refused {
        let answer = server.ask("GET", &path, &[], "").await;
        assert_eq!((answer.status, answer.code()), (400, "invalid"), "{path}");
        assert_eq!(answer.json["errors"][0]["parameter"], parameter, "{path}");
    }
    let secret = server.ask("GET", &format!("{PAGE}&token=s3cret"), &[], "").await;
    assert_eq!(secret.status, 400);
    assert!(!secret.body.contains("s3cret") && !secret.body.contains("token"), "case O2: {}", secret.body);
    let closed = format!("/v1/tenants/closed/listings?protocol=arena%2F3&cursor={cursor}");
    let foreign = server.ask("GET", &closed, &[("authorization", &jwt("closed", "a"))], "").await;
    assert_eq!((foreign.status, &foreign.json["errors"][0]["parameter"]), (400, &"cursor".into()));
}

#[tokio::test]
async fn rule_s5_a_browser_waits_for_its_commit() {
    let (server, _) = with_listings(true, 1).await;
    let host = jwt("demo", "late");
    let body = r#"{"protocol":"arena/3","details":{"name":"late","max_players":8}}"#;
    let headers = [("authorization", host.as_str()), ("idempotency-key", "k")];
    let registered = server.ask("POST", "/v1/tenants/demo/listings", &headers, body).await;
    let commit: u64 = registered.header("rendezvous-commit").unwrap().parse().unwrap();
    let path = format!("{PAGE}&min_commit={commit}");
    let (page, ()) = tokio::join!(server.ask("GET", &path, &[], ""), server.tick());
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.header("rendezvous-commit").unwrap().parse::<u64>().unwrap() >= commit);
}

#[tokio::test]
async fn a_closed_tenant_is_browsed_by_its_principals_and_never_cached() {
    let server = Server::start(true, |_| {}).await;
    let path = "/v1/tenants/closed/listings?protocol=a";
    assert_eq!(server.ask("GET", path, &[], "").await.status, 401);
    assert_eq!(server.ask("GET", path, &[("authorization", &jwt("demo", "a"))], "").await.status, 404);
    let key = format!("Bearer {}", crate::harness::OPERATOR);
    assert_eq!(server.ask("GET", path, &[("authorization", &key)], "").await.status, 403);
    let page = server.ask("GET", path, &[("authorization", &jwt("closed", "a"))], "").await;
    assert_eq!((page.status, page.header("cache-control")), (200, Some("private, no-store")));
    assert_eq!(page.body, r#"{"listings":[],"next_cursor":null}"#);
}
