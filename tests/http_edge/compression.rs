//! gzip and zstd, for those who accept them.

use crate::harness::{Server, jwt};
use std::io::Read;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3";

/// Head and body of one answer, as they came.
pub(crate) async fn raw(server: &Server, method: &str, path: &str, lines: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{lines}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let body = answer.split_off(end);
    (String::from_utf8(answer).unwrap().to_ascii_lowercase(), body)
}

#[tokio::test]
async fn pages_are_compressed_for_those_who_accept_it() {
    for lane in [true, false] {
        let server = Server::start(lane, |_| {}).await;
        for n in 0..8 {
            let details = format!(r#"{{"name":"n{n}","max_players":8}}"#);
            server.host(&jwt("demo", &format!("host-{n}")), "k", &details).await;
        }
        let (head, plain) = raw(&server, "GET", PAGE, "").await;
        assert!(head.contains("vary: accept-encoding\r\n") && !head.contains("content-encoding"), "{head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        for (accepted, coding) in
            [("gzip, deflate", "gzip"), ("gzip;q=0.5, zstd", "zstd"), ("br", ""), ("gzip;q=0", "")]
        {
            let lines = format!("Accept-Encoding: {accepted}\r\n");
            let (head, body) = raw(&server, "GET", PAGE, &lines).await;
            assert!(head.contains("vary: accept-encoding\r\n") && head.contains(&format!("etag: {tag}\r\n")), "{head}");
            let named = head.lines().find_map(|line| line.strip_prefix("content-encoding: ")).unwrap_or_default();
            assert_eq!(named, coding, "{accepted}");
            let mut back = Vec::new();
            match coding {
                "gzip" => drop(flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut back).unwrap()),
                "zstd" => back = zstd::bulk::decompress(&body, plain.len()).unwrap(),
                _ => back.clone_from(&body),
            }
            assert_eq!(back, plain, "{accepted}");
            assert!(coding.is_empty() || body.len() < plain.len());
            let (same, nothing) = raw(&server, "HEAD", PAGE, &lines).await;
            assert!(nothing.is_empty() && same.contains(&format!("content-length: {}\r\n", body.len())), "{same}");
            let lines = format!("{lines}If-None-Match: {}\r\n", tag.replace("w/", "W/"));
            let (unchanged, nothing) = raw(&server, "GET", PAGE, &lines).await;
            assert!(unchanged.starts_with("http/1.1 304") && nothing.is_empty(), "{unchanged}");
            assert!(unchanged.contains("vary: accept-encoding\r\n") && !unchanged.contains("content-encoding"));
        }
        let (head, body) = raw(&server, "GET", "/openapi.json", "Accept-Encoding: gzip\r\n").await;
        assert!(head.contains("content-encoding: gzip\r\n") && body.starts_with(&[0x1F, 0x8B]), "{head}");
        let (head, page) = raw(&server, "GET", "/", "").await;
        assert!(
            head.starts_with("http/1.1 200") && head.contains("content-type: text/html; charset=utf-8\r\n"),
            "{head}"
        );
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'sha256-"), "{head}");
        assert!(page.starts_with(b"<!DOCTYPE html>"));
        let (head, packed) = raw(&server, "GET", "/", "Accept-Encoding: gzip\r\n").await;
        assert!(head.contains("content-encoding: gzip\r\n") && packed.len() < page.len() / 2, "{head}");
        let (head, _) = raw(&server, "GET", "/livez", "Accept-Encoding: gzip\r\n").await;
        assert!(!head.contains("content-encoding"), "{head}");
    }
}
