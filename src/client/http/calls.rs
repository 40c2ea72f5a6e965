//! One method per route of the HTTP contract that players and hosts use.

use super::types::{
    AttemptView, Guest, JoinRequest, JoinTicket, LeaseView, Listing, Page, PathKind, PendingAttempts, Registered,
    Registration, Renewal, Renewed,
};
use super::{Call, Directory, IDEMPOTENCY_KEY, LEASE_TOKEN, encode};
use crate::client::error::Error;
use crate::credentials::Secret;
use crate::domain::{AttemptId, ListingId};
use hyper::{Method, StatusCode, header};
use std::time::Duration;

/// What to browse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowseQuery {
    /// The game's protocol, required.
    pub protocol: String,
    /// Rows of a page, 1 to 100.
    pub limit: Option<u32>,
    /// From [`Page::next_cursor`].
    pub cursor: Option<String>,
}

/// Answer of a conditional fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Browsed {
    /// Another content than the one whose ETag was sent.
    Page(Page),
    /// The same content.
    NotModified,
}

impl Directory {
    /// Gets a guest token, or a new one for the same guest when the directory carries one that is still valid.
    pub async fn guest(&self) -> Result<Guest, Error> {
        let answer = self.send(post("/guests".into(), Vec::new(), Some(b"{}".to_vec()))).await?;
        answer.json("POST guests")
    }

    /// Registers a listing. Repeat it with the same key until an answer comes: a repetition gives the original result.
    pub async fn register(&self, registration: &Registration, key: &str) -> Result<Registered, Error> {
        let body = encode_body("POST listings", registration)?;
        let answer = self.send(post("/listings".into(), vec![(IDEMPOTENCY_KEY, key)], Some(body))).await?;
        let mut registered: Registered = answer.json("POST listings")?;
        registered.instance = answer.instance();
        Ok(registered)
    }

    /// Moves the lease's deadline, if `version` is still the current one.
    pub async fn renew(
        &self,
        listing: ListingId,
        lease_token: &Secret,
        version: u64,
        change: &Renewal,
    ) -> Result<Renewed, Error> {
        let body = encode_body("POST renew", change)?;
        let version = format!("\"{version}\"");
        let headers = vec![(LEASE_TOKEN, lease_token.expose()), (header::IF_MATCH, version.as_str())];
        self.send(post(format!("/listings/{listing}/renew"), headers, Some(body))).await?.json("POST renew")
    }

    /// Ends a listing. May be repeated.
    pub async fn delete(&self, listing: ListingId, lease_token: &Secret) -> Result<(), Error> {
        let headers = vec![(LEASE_TOKEN, lease_token.expose())];
        let path = format!("/listings/{listing}");
        let call = Call { method: Method::DELETE, path, headers, body: None, wait: Duration::ZERO };
        self.send(call).await.map(|_| ())
    }

    /// The owner's view of its lease, and the instance that answers.
    pub async fn lease(&self, listing: ListingId, lease_token: &Secret) -> Result<LeaseView, Error> {
        let headers = vec![(LEASE_TOKEN, lease_token.expose())];
        let answer = self.send(get(format!("/listings/{listing}/lease"), headers, Duration::ZERO)).await?;
        let mut view: LeaseView = answer.json("GET lease")?;
        view.instance = answer.instance();
        Ok(view)
    }

    /// One page. With the ETag of an earlier fetch of the same page, [`Browsed::NotModified`] when nothing changed.
    pub async fn browse(&self, query: &BrowseQuery, etag: Option<&str>) -> Result<Browsed, Error> {
        let mut path = format!("/listings?protocol={}", encode(&query.protocol));
        if let Some(limit) = query.limit {
            path.push_str(&format!("&limit={limit}"));
        }
        if let Some(cursor) = &query.cursor {
            path.push_str(&format!("&cursor={}", encode(cursor)));
        }
        let headers = etag.map(|etag| (header::IF_NONE_MATCH, etag)).into_iter().collect();
        let answer = self.send(get(path, headers, Duration::ZERO)).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(Browsed::NotModified);
        }
        let mut page: Page = answer.json("GET listings")?;
        page.etag = answer.header(&header::ETAG).map(str::to_owned);
        Ok(Browsed::Page(page))
    }

    /// One fresh listing, public or unlisted.
    pub async fn listing(&self, listing: ListingId) -> Result<Listing, Error> {
        self.send(get(format!("/listings/{listing}"), Vec::new(), Duration::ZERO)).await?.json("GET listing")
    }

    /// Creates an attempt. Repeat it with the same key until an answer comes.
    pub async fn attempt(&self, listing: ListingId, request: &JoinRequest, key: &str) -> Result<JoinTicket, Error> {
        let body = encode_body("POST attempts", request)?;
        let path = format!("/listings/{listing}/attempts");
        self.send(post(path, vec![(IDEMPOTENCY_KEY, key)], Some(body))).await?.json("POST attempts")
    }

    /// The host's long poll: answers when an attempt newer than `after` exists, at the latest after `wait` (30 s at most).
    pub async fn pending(
        &self,
        listing: ListingId,
        lease_token: &Secret,
        after: u64,
        wait: Duration,
    ) -> Result<PendingAttempts, Error> {
        let path = format!("/listings/{listing}/attempts?after={after}&wait_ms={}", wait.as_millis());
        let headers = vec![(LEASE_TOKEN, lease_token.expose())];
        self.send(get(path, headers, wait)).await?.json("GET attempts")
    }

    /// One side's view of an attempt, as a long poll.
    pub async fn attempt_state(&self, attempt: AttemptId, after: u64, wait: Duration) -> Result<AttemptView, Error> {
        let path = format!("/attempts/{attempt}?after={after}&wait_ms={}", wait.as_millis());
        self.send(get(path, Vec::new(), wait)).await?.json("GET attempt")
    }

    /// Closes an attempt early; as host, refuses it.
    pub async fn close_attempt(&self, attempt: AttemptId) -> Result<(), Error> {
        let path = format!("/attempts/{attempt}");
        let call = Call { method: Method::DELETE, path, headers: Vec::new(), body: None, wait: Duration::ZERO };
        self.send(call).await.map(|_| ())
    }

    /// Answers a gated attempt.
    pub async fn admit(&self, attempt: AttemptId, lease_token: &Secret, admit: bool) -> Result<(), Error> {
        let body = encode_body("POST admission", &serde_json::json!({ "admit": admit }))?;
        let headers = vec![(LEASE_TOKEN, lease_token.expose())];
        self.send(post(format!("/attempts/{attempt}/admission"), headers, Some(body))).await.map(|_| ())
    }

    /// Reports how the peers met; counted, changes nothing else.
    pub async fn report(&self, attempt: AttemptId, path: PathKind) -> Result<(), Error> {
        let body = encode_body("POST outcome", &serde_json::json!({ "path": path }))?;
        self.send(post(format!("/attempts/{attempt}/outcome"), Vec::new(), Some(body))).await.map(|_| ())
    }
}

fn get<'a>(path: String, headers: Vec<(header::HeaderName, &'a str)>, wait: Duration) -> Call<'a> {
    Call { method: Method::GET, path, headers, body: None, wait }
}

fn post<'a>(path: String, headers: Vec<(header::HeaderName, &'a str)>, body: Option<Vec<u8>>) -> Call<'a> {
    Call { method: Method::POST, path, headers, body, wait: Duration::ZERO }
}

fn encode_body(request: &str, body: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body)
        .map_err(|error| Error::Malformed { request: request.to_owned(), detail: format!("the request: {error}") })
}
