//! Browsing with a filter over HTTP.

use crate::harness::{Server, jwt};
use std::collections::BTreeSet;
use std::io::Read;

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";

/// Games 0 to 11, of which every third is modded and game n has n players.
async fn games(lane: bool) -> Server {
    let server = Server::start(lane, |settings| settings.rates = None).await;
    for n in 0..12 {
        let tags = if n % 3 == 0 { r#"["modded"]"# } else { "[]" };
        let details = format!(
            r#"{{"name":"game {n}","max_players":10,"players":{},"region":"eu-west","tags":{tags},"attributes":{{"n":{n},"pad":"{}"}}}}"#,
            n.min(10),
            "x".repeat(200)
        );
        server.host(&jwt("demo", &format!("host-{n}")), "k", &details).await;
    }
    server
}

/// Percent-encodes everything that is no letter or digit.
fn encoded(filter: &str) -> String {
    let one = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    filter.bytes().map(one).collect()
}

fn page_of(filter: &str) -> String {
    format!("{PAGE}&filter={}", encoded(filter))
}

/// Sorted: ids of one millisecond are in no order.
fn names(page: &crate::harness::Response) -> Vec<String> {
    assert_eq!(page.status, 200, "{page:?}");
    let rows = page.json["listings"].as_array().unwrap();
    let mut names: Vec<String> = rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_page_has_what_matches() {
    for lane in [true, false] {
        let server = games(lane).await;
        let full = r#"players < max_players and region in ["eu-west","eu-north"] and tags has "modded""#;
        let page = server.ask("GET", &page_of(full), &[], "").await;
        assert_eq!(names(&page), ["game 0", "game 3", "game 6", "game 9"]);
        assert!(page.json["next_cursor"].is_null());
        let spaces_as_plus = format!("{PAGE}&filter=attributes.n+in+%5B4,5%5D");
        assert_eq!(names(&server.ask("GET", &spaces_as_plus, &[], "").await), ["game 4", "game 5"]);
        let none = server.ask("GET", &page_of("ping < 50"), &[], "").await;
        assert_eq!(none.body, r#"{"listings":[],"next_cursor":null}"#);
    }
}

#[tokio::test]
async fn a_syntax_error_names_the_parameter_and_its_position() {
    let server = games(true).await;
    let long = format!("name == \"{}\"", "x".repeat(503));
    let deep = "(".repeat(17);
    for (filter, position, detail) in [
        ("players <", 10, "must have a field or a value at character 10"),
        ("name == \"\u{e9}\" & s3cret", 13, "must end, or go on with `and` or `or`, at character 13"),
        (&long, 513, "must have at most 512 characters"),
        (&deep, 17, "must nest at most 16 deep; one more level begins at character 17"),
    ] {
        let answer = server.ask("GET", &page_of(filter), &[], "").await;
        assert_eq!((answer.status, answer.code()), (400, "invalid"), "{filter}");
        let error = &answer.json["errors"][0];
        assert_eq!((&error["parameter"], &error["position"]), (&"filter".into(), &position.into()), "{filter}");
        assert_eq!(error["detail"], detail, "{filter}");
        assert_eq!(answer.json["detail"], format!("query parameter \"filter\" {detail}"));
        assert!(!answer.body.contains("s3cret"), "case O2: {}", answer.body);
    }
    for odd in ["&filter=", "&filter", "&filter=%00", "&filter=%ff", "&filter=players&filter=players"] {
        let answer = server.ask("GET", &format!("{PAGE}{odd}"), &[], "").await;
        assert_eq!((answer.status, answer.code()), (400, "invalid"), "{odd}");
    }
}

#[tokio::test]
async fn a_walk_shows_each_match_once_and_its_cursors_belong_to_it() {
    for lane in [true, false] {
        let server = games(lane).await;
        let filter = "players >= 2 and not players == 7";
        for limit in [1, 2, 5, 100] {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = server.ask("GET", &format!("{}&limit={limit}{cursor}", page_of(filter)), &[], "").await;
                seen.extend(names(&page));
                match page.json["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(seen.len(), 9, "{seen:?}");
            assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 9);
        }
        let next = |page: crate::harness::Response| page.json["next_cursor"].as_str().unwrap().to_owned();
        let filtered = next(server.ask("GET", &format!("{}&limit=1", page_of(filter)), &[], "").await);
        let plain = next(server.ask("GET", &format!("{PAGE}&limit=3"), &[], "").await);
        let walks = [
            format!("{PAGE}&cursor={filtered}"),
            format!("{}&cursor={plain}", page_of(filter)),
            format!("{}&cursor={filtered}", page_of("players >= 3")),
            format!("{}&cursor={filtered}", page_of("players  >= 2 and not players == 7")),
        ];
        for walk in walks {
            let answer = server.ask("GET", &walk, &[], "").await;
            assert_eq!((answer.status, answer.code()), (400, "invalid"), "{walk}");
            assert_eq!(answer.json["errors"][0]["parameter"], "cursor", "{walk}");
        }
        let otherwise_encoded = format!(
            "{PAGE}&filter={}&cursor={filtered}",
            filter.replace(' ', "+").replace('=', "%3d").replace('>', "%3e")
        );
        assert_eq!(server.ask("GET", &otherwise_encoded, &[], "").await.status, 200, "the same characters");
    }
}

#[tokio::test]
async fn filtered_pages_have_tags_of_their_own_and_are_compressed() {
    for lane in [true, false] {
        let server = games(lane).await;
        let path = page_of("tags has \"modded\"");
        let page = server.ask("GET", &path, &[], "").await;
        let tag = page.header("etag").unwrap().to_owned();
        let all = server.ask("GET", PAGE, &[], "").await;
        assert_ne!(all.header("etag"), Some(tag.as_str()));
        let same = server.ask("GET", &path, &[("if-none-match", &tag)], "").await;
        assert_eq!((same.status, same.body.as_str()), (304, ""));
        let head = server.ask("HEAD", &path, &[], "").await;
        assert_eq!((head.status, head.header("etag")), (200, Some(tag.as_str())));
        let (_, compressed) = crate::compression::raw(&server, "GET", &path, "Accept-Encoding: gzip\r\n").await;
        let mut plain = String::new();
        flate2::read::GzDecoder::new(&*compressed).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, page.body);

        server.host(&jwt("demo", "unseen"), "k", r#"{"name":"vanilla","max_players":2}"#).await;
        assert_eq!(server.ask("GET", &path, &[("if-none-match", &tag)], "").await.status, 304, "nothing of it changed");
        server.host(&jwt("demo", "seen"), "k", r#"{"name":"new","max_players":2,"tags":["modded"]}"#).await;
        let changed = server.ask("GET", &path, &[("if-none-match", &tag)], "").await;
        assert_eq!(names(&changed).last().map(String::as_str), Some("new"));
    }
}
