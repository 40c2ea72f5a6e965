//! Which pages of other origins may read the GETs (Fetch standard, section 3.2). Mutations are never offered: a game's
//! own page on another origin browses, and its players act with clients.

use super::answer::Answer;
use super::settings::Cors;
use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue,
    ORIGIN,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a browser client needs to page, to revalidate and to back off.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Retry-After, Rendezvous-Instance, Rendezvous-Commit, X-Request-Id, traceparent, Preference-Applied",
);
const ALLOWED: HeaderValue =
    HeaderValue::from_static("Authorization, Lease-Token, If-None-Match, Prefer, X-Request-Id, traceparent");

/// Whether `text` is an origin as browsers send it (RFC 6454 section 6.2, URL standard), so that an `Origin` header can equal
/// it: scheme and host in lower case, ASCII, the port only where it is not the scheme's own, no path and no user. `null` is
/// what a page without an origin sends.
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return text == "null" };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b));
    let ipv6_end = if authority.starts_with('[') { authority.find(']').map_or(0, |end| end + 1) } else { 0 };
    let (host, port) = match authority[ipv6_end..].find(':') {
        Some(colon) => (&authority[..ipv6_end + colon], Some(&authority[ipv6_end + colon + 1..])),
        None => (authority, None),
    };
    is_scheme && is_host(host) && port.is_none_or(|port| is_port(scheme, port))
}

fn is_host(host: &str) -> bool {
    if let Some(ip) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return ip.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == ip);
    }
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
    // A name that ends in a number is an address to browsers, and they send it in four parts.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    !host.is_empty() && host.bytes().all(is_name) && (!is_number || host.parse::<Ipv4Addr>().is_ok())
}

fn is_port(scheme: &str, port: &str) -> bool {
    let own = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    port.parse::<u16>().is_ok_and(|number| number.to_string() == port && Some(number) != own)
}

pub(super) struct CorsPolicy(Cors);

impl CorsPolicy {
    pub(super) fn new(cors: Cors) -> Self {
        Self(cors)
    }

    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        match &self.0 {
            Cors::Off => None,
            Cors::Any => Some(HeaderValue::from_static("*")),
            Cors::Origins(origins) => {
                origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
            }
        }
    }

    /// `Vary` of every answer to a GET.
    pub(super) fn varies(&self) -> Option<&'static str> {
        match &self.0 {
            Cors::Off | Cors::Any => None,
            Cors::Origins(_) => Some("Origin"),
        }
    }

    /// Adds what lets a page of another origin read the answer. Where the answer depends on the origin, caches hear of it.
    pub(super) fn dress(&self, answer: Answer, headers: &HeaderMap) -> Answer {
        let answer = match self.varies() {
            Some(varies) => answer.vary(varies),
            None => answer,
        };
        match self.allowed(headers) {
            Some(origin) => {
                answer.header(ACCESS_CONTROL_ALLOW_ORIGIN, origin).header(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED)
            }
            None => answer,
        }
    }

    /// The answer to a preflight for a GET; `None` when this is none, or not from an allowed origin.
    pub(super) fn preflight(&self, headers: &HeaderMap) -> Option<Answer> {
        headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        self.allowed(headers)?;
        let answer = Answer::empty(StatusCode::NO_CONTENT)
            .header(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"))
            .header(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED)
            .header(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(self.dress(answer, headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::VARY;

    fn from(origin: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, HeaderValue::from_static(origin));
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        headers
    }

    fn origin_of(answer: &Answer) -> Option<&[u8]> {
        answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).map(HeaderValue::as_bytes)
    }

    #[test]
    fn only_configured_origins_may_read() {
        let some = CorsPolicy::new(Cors::Origins(vec!["https://game.example".into()]));
        let dressed = |policy: &CorsPolicy, headers: &HeaderMap| policy.dress(Answer::empty(StatusCode::OK), headers);
        let good = dressed(&some, &from("https://game.example"));
        assert_eq!(origin_of(&good), Some(&b"https://game.example"[..]));
        assert_eq!(good.headers()[VARY], "Origin");
        let bad = dressed(&some, &from("https://evil.example"));
        assert_eq!((origin_of(&bad), bad.headers()[VARY].as_bytes()), (None, &b"Origin"[..]));
        assert_eq!(origin_of(&dressed(&CorsPolicy::new(Cors::Any), &from("https://x.example"))), Some(&b"*"[..]));
        assert_eq!(origin_of(&dressed(&CorsPolicy::new(Cors::Off), &from("https://x.example"))), None);
    }

    #[test]
    fn an_origin_is_one_that_a_browser_can_send() {
        for good in [
            "https://game.example",
            "http://localhost:5173",
            "https://127.0.0.1:8443",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
            "capacitor://localhost",
            "null",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "game.example",
            "https://",
            "https://game.example/",
            "https://game.example/play",
            "https://game.example?x",
            "https://Game.example",
            "HTTPS://game.example",
            "https://game.example:443",
            "http://game.example:80",
            "https://game.example:",
            "https://game.example:08443",
            "https://game.example:65536",
            "https://user@game.example",
            "https://b\u{fc}cher.example",
            "https://*.game.example",
            "http://127.1",
            "http://[::0001]",
            "http://[::1",
            "http://[::1]x",
            " https://game.example",
            "://game.example",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn preflights_are_answered_for_allowed_origins_only() {
        let any = CorsPolicy::new(Cors::Any);
        assert!(any.preflight(&from("https://x.example")).is_some());
        assert!(any.preflight(&HeaderMap::new()).is_none());
        assert!(CorsPolicy::new(Cors::Off).preflight(&from("https://x.example")).is_none());
    }
}
