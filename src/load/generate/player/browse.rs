//! Browsing as players do: a scope, page after page, and now and then a look whether the first page has changed.

use super::{PROTOCOLS, Player};
use crate::load::generate::http::{Answer, Ask};
use crate::load::generate::tally::Outcome;
use bytes::Bytes;
use hyper::{Method, StatusCode, header};

/// Rows of a page, the server's own default.
const LIMIT: u32 = 50;
/// One look in so many at a first page is conditional.
const CONDITIONAL_ONE_IN: u64 = 2;
/// How the cursor stands at the end of a page.
const CURSOR: &str = "\"next_cursor\":\"";

/// Where in which scope a browser is.
#[derive(Debug)]
pub(super) struct Browser {
    scopes: Vec<Scope>,
}

#[derive(Debug)]
struct Scope {
    path: String,
    cursor: Option<String>,
    etag: Option<String>,
}

/// The protocol with this number.
pub(crate) fn protocol(number: u64) -> String {
    format!("load/{}", number % PROTOCOLS)
}

impl Browser {
    pub(super) fn new(base: &str) -> Self {
        let scope = |number| Scope {
            path: format!("{base}/listings?protocol={}&limit={LIMIT}", protocol(number)),
            cursor: None,
            etag: None,
        };
        Self { scopes: (0..PROTOCOLS).map(scope).collect() }
    }
}

impl Player {
    /// The next page of a random scope.
    pub(super) async fn browse(&mut self) -> Result<Outcome, Outcome> {
        let random = self.entropy.bits();
        let scope = &mut self.browser.scopes[(random % PROTOCOLS) as usize];
        let cursor = scope.cursor.take();
        let path = match &cursor {
            Some(cursor) => format!("{}&cursor={cursor}", scope.path),
            None => scope.path.clone(),
        };
        let is_conditional = cursor.is_none() && (random >> 32).is_multiple_of(CONDITIONAL_ONE_IN);
        let etag = scope.etag.clone().filter(|_| is_conditional);
        let condition: Vec<_> = etag.iter().map(|etag| (header::IF_NONE_MATCH, etag.as_str())).collect();
        let ask = Ask { method: Method::GET, path: &path, headers: &condition, body: Bytes::new() };
        let answer = self.connection.ask(ask).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return if etag.is_some() { Ok(Outcome::NotModified) } else { Err(Outcome::Unexpected) };
        }
        scope.cursor = next_cursor(&answer);
        if cursor.is_none() {
            scope.etag = answer.header(&header::ETAG).map(str::to_owned);
        }
        Ok(Outcome::Done)
    }
}

/// The cursor, found from the end: the page itself is not looked at. Cursors need no escapes, in JSON or in a query.
fn next_cursor(answer: &Answer) -> Option<String> {
    let body = std::str::from_utf8(&answer.body).ok()?;
    let (_, rest) = body.rsplit_once(CURSOR)?;
    let (cursor, _) = rest.split_once('"')?;
    let is_plain = cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
    is_plain.then(|| cursor.to_owned())
}
