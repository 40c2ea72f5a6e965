//! The web page: a server browser and the server's state, in one file that asks nobody but this server.

use super::answer::{Answer, Cache};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("index.html");

/// The page with the policy under which browsers run it: its own script and style and nothing else, requests to this server
/// and to no other. So a listing's name that got past every check would still be text.
pub(super) struct Page {
    policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Self {
        let own = |tag: &str| element(tag).map(source).unwrap_or_else(|| "'none'".to_owned());
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            own("script"),
            own("style")
        );
        // Base64 and quotes are legal in a header.
        Self { policy: HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'")) }
    }

    pub(super) fn answer(&self) -> Answer {
        Answer::rendered(StatusCode::OK, Bytes::from_static(HTML.as_bytes()))
            .content_type("text/html; charset=utf-8")
            .cache(Cache::PublicHour)
            .header(CONTENT_SECURITY_POLICY, self.policy.clone())
            .header(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
            .header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
            .header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }
}

/// What stands in the page's only element of this name.
fn element(tag: &str) -> Option<&'static str> {
    let after = HTML.split_once(&format!("<{tag}>"))?.1;
    Some(after.split_once(&format!("</{tag}>"))?.0)
}

/// A source of Content Security Policy (level 3, section 2.3.1) that is good for this text only.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_runs_its_own_script_and_asks_its_own_server_only() {
        let policy = Page::new().policy;
        let policy = policy.to_str().unwrap();
        for part in ["default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(policy.contains(&source(element("script").unwrap())), "{policy}");
        assert_eq!(HTML.matches("<script").count(), 1);
        assert_eq!(HTML.matches("<style").count(), 1);
        for foreign in ["http://", "https://", " src=", "innerHTML", "insertAdjacentHTML", "eval(", " onclick="] {
            assert!(!HTML.contains(foreign), "{foreign}");
        }
    }
}
