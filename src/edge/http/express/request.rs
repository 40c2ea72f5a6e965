//! Which requests take the short way: browses and renewals as games and browsers send them, and nothing that could be read in
//! two ways.

use crate::edge::http::compress::may_accept;

/// Longest head that is looked at: longer ones are rare, and hyper reads them as well.
const HEAD_BYTES_MAX: usize = 2 * 1024;
/// Longest body: a renewal that replaces the details has up to some 2 KiB.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// Most header lines: browsers send about a dozen.
const LINES_MAX: usize = 24;

const PATH_START: &str = "/v1/tenants/";
const LISTINGS: &str = "/listings";
const RENEW: &str = "/renew";

/// A request that takes the short way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plain<'r> {
    Browse(BrowseRequest<'r>),
    Renewal(RenewalRequest<'r>),
}

/// The parts of a browse that decide its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrowseRequest<'r> {
    pub(super) tenant: &'r str,
    pub(super) query: &'r str,
    pub(super) none_match: Option<&'r str>,
}

/// The same of a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenewalRequest<'r> {
    pub(super) tenant: &'r str,
    pub(super) listing: &'r str,
    pub(super) authorization: &'r str,
    pub(super) lease_token: &'r str,
    pub(super) if_match: &'r str,
    pub(super) body: &'r [u8],
}

/// The header lines of a request: those of which either kind may have one, by name.
#[derive(Default)]
struct Lines<'r> {
    host: Option<&'r [u8]>,
    none_match: Option<&'r [u8]>,
    encoding: Option<&'r [u8]>,
    authorization: Option<&'r [u8]>,
    lease_token: Option<&'r [u8]>,
    if_match: Option<&'r [u8]>,
    content_type: Option<&'r [u8]>,
    content_length: Option<&'r [u8]>,
}

impl<'r> Lines<'r> {
    /// `None` where a line is given twice, or could mean something that only the long way knows.
    fn read(lines: &[httparse::Header<'r>]) -> Option<Self> {
        let mut read = Self::default();
        for line in lines {
            let is = |known: &str| line.name.eq_ignore_ascii_case(known);
            let place = if is("host") {
                &mut read.host
            } else if is("if-none-match") {
                &mut read.none_match
            } else if is("authorization") {
                &mut read.authorization
            } else if is("lease-token") {
                &mut read.lease_token
            } else if is("if-match") {
                &mut read.if_match
            } else if is("content-type") {
                &mut read.content_type
            } else if is("content-length") {
                &mut read.content_length
            } else if is("accept-encoding") {
                &mut read.encoding
            } else if is_ignored(line.name) || is("connection") && line.value.eq_ignore_ascii_case(b"keep-alive") {
                continue;
            } else {
                return None;
            };
            if place.replace(line.value).is_some() {
                return None;
            }
        }
        read.host.is_some().then_some(read)
    }
}

/// Header lines on which no answer of ours depends.
fn is_ignored(name: &str) -> bool {
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
    IGNORED.into_iter().any(|known| name.eq_ignore_ascii_case(known))
        || name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("sec-"))
}

/// Reads `bytes` as exactly one request by HTTP/1.1 that takes the short way. `None` for everything else, which is no
/// judgement: whoever asks so is answered the long way.
pub(super) fn recognise(bytes: &[u8]) -> Option<Plain<'_>> {
    if bytes.len() > HEAD_BYTES_MAX + BODY_BYTES_MAX || !could_be_plain(bytes) {
        return None;
    }
    let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut request = httparse::Request::new(&mut lines);
    let httparse::Status::Complete(head_bytes) = request.parse(bytes).ok()? else { return None };
    let (head, body) = bytes.split_at_checked(head_bytes)?;
    if request.version != Some(1) || head.len() > HEAD_BYTES_MAX || has_bare_line_feed(head) {
        return None;
    }
    let target = request.path.filter(|target| target.bytes().all(is_plain))?;
    let in_tenants = target.strip_prefix(PATH_START)?;
    let (tenant, of_tenant) =
        in_tenants.split_at_checked(in_tenants.find('/')?).filter(|(name, _)| !name.is_empty())?;
    let in_listings = of_tenant.strip_prefix(LISTINGS)?;
    let lines = Lines::read(request.headers)?;
    match request.method? {
        "GET" => browse(tenant, in_listings.strip_prefix('?')?, &lines, body).map(Plain::Browse),
        "POST" => renewal(tenant, in_listings.strip_prefix('/')?, &lines, body).map(Plain::Renewal),
        _ => None,
    }
}

/// A first look, so that others pay little for the short way.
fn could_be_plain(bytes: &[u8]) -> bool {
    if let Some(rest) = bytes.strip_prefix(b"POST ") {
        let target = memchr::memchr(b' ', rest).and_then(|end| rest.get(..end));
        return target.is_some_and(|target| target.ends_with(RENEW.as_bytes()));
    }
    bytes.starts_with(b"GET /v1/tenants/") && bytes.ends_with(b"\r\n\r\n")
}

fn browse<'r>(tenant: &'r str, query: &'r str, lines: &Lines<'r>, body: &[u8]) -> Option<BrowseRequest<'r>> {
    let others = [lines.authorization, lines.lease_token, lines.if_match, lines.content_type, lines.content_length];
    // A compressed page is the long way's.
    let is_plain = body.is_empty() && others.iter().all(Option::is_none) && !lines.encoding.is_some_and(may_accept);
    let none_match = match lines.none_match {
        Some(value) => Some(visible(value)?),
        None => None,
    };
    is_plain.then_some(BrowseRequest { tenant, query, none_match })
}

fn renewal<'r>(tenant: &'r str, rest: &'r str, lines: &Lines<'r>, body: &'r [u8]) -> Option<RenewalRequest<'r>> {
    let listing = rest.strip_suffix(RENEW).filter(|id| !id.contains('/'))?;
    // Its one spelling: what somebody could read otherwise is not judged here.
    let is_whole = itoa::Buffer::new().format(body.len()).as_bytes() == lines.content_length?;
    let is_json = lines.content_type?.eq_ignore_ascii_case(b"application/json");
    let is_plain = is_whole && is_json && body.len() <= BODY_BYTES_MAX && lines.none_match.is_none();
    is_plain.then_some(RenewalRequest {
        tenant,
        listing,
        authorization: visible(lines.authorization?)?,
        lease_token: visible(lines.lease_token?)?,
        if_match: visible(lines.if_match?)?,
        body,
    })
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

    const RENEWAL: &str = "POST /v1/tenants/demo/listings/l1/renew HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\
                           Lease-Token: k\r\nIf-Match: \"3\"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn a_browse_is_recognised() {
        let query = "protocol=arena%2F3&limit=5";
        let found = BrowseRequest { tenant: "demo", query, none_match: None };
        assert_eq!(recognise(GOOD.as_bytes()), Some(Plain::Browse(found)));
        assert!(is_short(&with_line("Accept-Encoding: identity, br")));
        let conditional = with_line("if-none-match: W/\"1\", \"2\"\r\nConnection: keep-alive\r\nSec-Fetch-Mode: cors");
        let found = BrowseRequest { tenant: "demo", query, none_match: Some("W/\"1\", \"2\"") };
        assert_eq!(recognise(conditional.as_bytes()), Some(Plain::Browse(found)));
    }

    #[test]
    fn a_renewal_is_recognised() {
        let found = RenewalRequest {
            tenant: "demo",
            listing: "l1",
            authorization: "Bearer t",
            lease_token: "k",
            if_match: "\"3\"",
            body: b"{}",
        };
        assert_eq!(recognise(RENEWAL.as_bytes()), Some(Plain::Renewal(found)));
        for line in ["Accept-Encoding: gzip", "User-Agent: x", "Connection: Keep-Alive"] {
            assert!(is_short(&RENEWAL.replace("Host: x", &format!("Host: x\r\n{line}"))), "{line}");
        }
    }

    #[test]
    fn what_is_not_exactly_one_plain_renewal_goes_the_long_way() {
        for (part, other) in [
            ("POST", "PUT"),
            ("/renew", "/renew?x=1"),
            ("/renew", "/renew/"),
            ("/l1/", "/l1/x/"),
            ("/l1/", "/"),
            ("/demo/", "//"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Host: x\r\n", ""),
            ("Authorization: Bearer t\r\n", ""),
            ("Authorization: Bearer t", "Authorization: Bearer \u{e9}"),
            ("Lease-Token: k\r\n", ""),
            ("Lease-Token: k", "Lease-Token: k\r\nLease-Token: k"),
            ("If-Match: \"3\"\r\n", ""),
            ("If-Match: \"3\"", "If-Match: \"3\"\r\nIf-None-Match: \"3\""),
            ("If-Match: \"3\"", "If-Match: \"3\"\n"),
            ("application/json", "application/json; charset=utf-8"),
            ("Content-Type: application/json\r\n", ""),
            ("Content-Length: 2", "Content-Length: 02"),
            ("Content-Length: 2", "Content-Length: +2"),
            ("Content-Length: 2", "Content-Length: 1"),
            ("Content-Length: 2", "Content-Length: 3"),
            ("Content-Length: 2", "Content-Length: 2\r\nContent-Length: 2"),
            ("Content-Length: 2\r\n", ""),
            ("Content-Length: 2", "Transfer-Encoding: chunked"),
            ("Content-Length: 2", "Content-Length: 2\r\nTransfer-Encoding: chunked"),
            ("Content-Length: 2", "Content-Length: 2\r\nContent-Encoding: identity"),
            ("Host: x", "Host: x\r\nExpect: 100-continue"),
            ("Host: x", "Host: x\r\nIdempotency-Key: k"),
            ("Host: x", "Host: x\r\nX-Forwarded-For: 192.0.2.1"),
            ("{}", "{}G"),
        ] {
            let text = RENEWAL.replace(part, other);
            assert!(text != RENEWAL && !is_short(&text), "{text}");
        }
        for end in 0..RENEWAL.len() {
            assert!(!is_short(&RENEWAL[..end]), "{end}");
        }
        let long = RENEWAL.replace("h: 2\r\n\r\n{}", &format!("h: 5000\r\n\r\n{}", " ".repeat(5_000)));
        assert!(!is_short(&long));
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
