//! Which requests take the short way: a browse as games and browsers send it, and nothing that could be read in two ways.

use crate::edge::http::compress::may_accept;

/// Longest head that is looked at: longer ones are rare, and hyper reads them as well.
const HEAD_BYTES_MAX: usize = 2 * 1024;
/// Most header lines: browsers send about a dozen.
const LINES_MAX: usize = 24;

const PATH_START: &str = "/v1/tenants/";
const PATH_END: &str = "/listings";

/// The parts of a browse that decide its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrowseRequest<'r> {
    pub(super) tenant: &'r str,
    pub(super) query: &'r str,
    pub(super) none_match: Option<&'r str>,
}

/// What a header line means to a browse.
enum Line {
    Host,
    NoneMatch,
    Connection,
    Encoding,
    /// No answer of a browse depends on it.
    Ignored,
    /// Something that only the long way knows.
    Other,
}

impl Line {
    fn of(name: &str) -> Self {
        const IGNORED: [&str; 10] = [
            "user-agent",
            "accept",
            "accept-language",
            "cache-control",
            "pragma",
            "referer",
            "dnt",
            "priority",
            "keep-alive",
            "upgrade-insecure-requests",
        ];
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            Self::Host
        } else if is("if-none-match") {
            Self::NoneMatch
        } else if is("connection") {
            Self::Connection
        } else if is("accept-encoding") {
            Self::Encoding
        } else if IGNORED.into_iter().any(is) || name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("sec-")) {
            Self::Ignored
        } else {
            Self::Other
        }
    }
}

/// Reads `bytes` as exactly one GET of a tenant's listings by HTTP/1.1 without a body. `None` for everything else, which is
/// no judgement: whoever asks so is answered the long way.
pub(super) fn recognise(bytes: &[u8]) -> Option<BrowseRequest<'_>> {
    let ours = bytes.len() <= HEAD_BYTES_MAX && bytes.starts_with(b"GET /v1/tenants/") && bytes.ends_with(b"\r\n\r\n");
    if !ours || has_bare_line_feed(bytes) {
        return None;
    }
    let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut request = httparse::Request::new(&mut lines);
    let parsed = request.parse(bytes).ok()?;
    if parsed != httparse::Status::Complete(bytes.len()) || request.version != Some(1) {
        return None;
    }
    let target = request.path.filter(|target| target.bytes().all(is_plain))?;
    let (path, query) = target.split_once('?')?;
    let tenant = path.strip_prefix(PATH_START)?.strip_suffix(PATH_END)?;
    if tenant.is_empty() || tenant.contains('/') {
        return None;
    }
    let (mut hosts, mut none_match) = (0, None);
    for line in request.headers.iter() {
        match Line::of(line.name) {
            Line::Host => hosts += 1,
            Line::NoneMatch if none_match.is_none() => none_match = Some(visible(line.value)?),
            Line::Connection if line.value.eq_ignore_ascii_case(b"keep-alive") => {}
            // A compressed page is the long way's.
            Line::Encoding if !may_accept(line.value) => {}
            Line::Ignored => {}
            Line::NoneMatch | Line::Connection | Line::Encoding | Line::Other => return None,
        }
    }
    (hosts == 1).then_some(BrowseRequest { tenant, query, none_match })
}

/// A line that ends without CR is read differently by different parsers (`framing` refuses it).
fn has_bare_line_feed(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', bytes).any(|at| at == 0 || bytes.get(at - 1) != Some(&b'\r'))
}

/// Characters of a target that no parser of URIs treats in a way of its own.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'-'..=b':' | b'_' | b'~' | b'?' | b'&' | b'=' | b'%' | b'+' | b',')
}

/// Text in the sense of `HeaderValue::to_str`.
fn visible(value: &[u8]) -> Option<&str> {
    let legal = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    if legal { std::str::from_utf8(value).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "GET /v1/tenants/demo/listings?protocol=arena%2F3&limit=5 HTTP/1.1\r\nHost: x\r\n\r\n";

    fn with_line(line: &str) -> String {
        GOOD.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"))
    }

    fn is_short(text: &str) -> bool {
        recognise(text.as_bytes()).is_some()
    }

    #[test]
    fn a_browse_is_recognised() {
        let query = "protocol=arena%2F3&limit=5";
        assert_eq!(recognise(GOOD.as_bytes()), Some(BrowseRequest { tenant: "demo", query, none_match: None }));
        assert!(is_short(&with_line("Accept-Encoding: identity, br")));
        let conditional = with_line("if-none-match: W/\"1\", \"2\"\r\nConnection: keep-alive\r\nSec-Fetch-Mode: cors");
        let found = recognise(conditional.as_bytes()).unwrap();
        assert_eq!((found.tenant, found.none_match), ("demo", Some("W/\"1\", \"2\"")));
    }

    #[test]
    fn what_another_header_could_change_goes_the_long_way() {
        for line in [
            "Authorization: Bearer x",
            "Origin: https://x.example",
            "X-Request-Id: 1",
            "traceparent: 00-1-1-00",
            "X-Forwarded-For: 192.0.2.1",
            "Content-Length: 0",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "Connection: close",
            "Accept-Encoding: br, GZip",
            "Accept-Encoding: *;q=0.1",
            "Host: y",
            "If-None-Match: \"1\"\r\nIf-None-Match: \"2\"",
            "If-None-Match: \u{e9}",
            "Unheard-Of: 1",
        ] {
            assert!(!is_short(&with_line(line)), "{line}");
        }
    }

    #[test]
    fn what_is_not_exactly_one_plain_request_goes_the_long_way() {
        for other in [
            GOOD.replace("GET", "HEAD"),
            GOOD.replace("GET", "POST"),
            GOOD.replace("HTTP/1.1", "HTTP/1.0"),
            GOOD.replace("Host: x\r\n", ""),
            GOOD.replace("Host: x\r\n", "Host: x\n"),
            GOOD.replace("Host: x\r\n", "Host: x\r\n folded\r\n"),
            GOOD.replace("Host: x", "Host : x"),
            GOOD.replace("?protocol=arena%2F3&limit=5", ""),
            GOOD.replace("/listings?", "/listings/1?"),
            GOOD.replace("/demo/", "//"),
            GOOD.replace("/demo/", "/a/b/"),
            GOOD.replace("limit=5", "limit=5#x"),
            GOOD.replace("limit=5", "limit=\"5\""),
            GOOD.replace("/v1/", "http://x/v1/"),
            format!("\r\n{GOOD}"),
            format!("{GOOD}{GOOD}"),
            format!("{GOOD}G"),
            with_line(&"A: b\r\n".repeat(LINES_MAX)),
            with_line(&format!("Accept: {}", "x".repeat(HEAD_BYTES_MAX))),
        ] {
            assert!(!is_short(&other), "{other}");
        }
        for end in 0..GOOD.len() {
            assert!(!is_short(&GOOD[..end]), "{end}");
        }
    }
}
