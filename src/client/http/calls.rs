//! One method per route of the HTTP contract that players and hosts use.

use super::transport::encode_body;
use super::types::{
    AttemptView, Guest, JoinRequest, JoinTicket, LeaseView, Listing, Page, PathKind, PendingAttempts, Registered,
    Registration, Renewal, Renewed,
};
use super::{Call, Directory, IDEMPOTENCY_KEY, LEASE_TOKEN, encode};
use crate::client::error::Error;
use crate::credentials::Secret;
use crate::domain::{AttemptId, ListingId};
use hyper::{StatusCode, header};
use std::time::Duration;

/// What to browse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowseQuery {
    /// The game's protocol, required.
    pub protocol: String,
    /// Rows of a page, 1 to 100.
    pub limit: Option<u32>,
    /// From [`Page::next_cursor`], of a page with the same protocol and filter.
    pub cursor: Option<String>,
    /// Only games that match, such as `players < max_players and tags has "modded"` ([`crate::domain::filter`]).
    pub filter: Option<String>,
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
        let answer = self.send(Call::post("/guests".into(), b"{}".to_vec())).await?;
        answer.json("POST guests")
    }

    /// Registers a listing. Repeat it with the same key until an answer comes: a repetition gives the original result.
    pub async fn register(&self, registration: &Registration, key: &str) -> Result<Registered, Error> {
        let body = encode_body("POST listings", registration)?;
        let answer = self.send(Call::post("/listings".into(), body).header(IDEMPOTENCY_KEY, key)).await?;
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
        let call = Call::post(format!("/listings/{listing}/renew"), body)
            .header(LEASE_TOKEN, lease_token.expose())
            .header(header::IF_MATCH, &version);
        self.send(call).await?.json("POST renew")
    }

    /// Ends a listing. May be repeated.
    pub async fn delete(&self, listing: ListingId, lease_token: &Secret) -> Result<(), Error> {
        let call = Call::delete(format!("/listings/{listing}")).header(LEASE_TOKEN, lease_token.expose());
        self.send(call).await.map(|_| ())
    }

    /// The owner's view of its lease, and the instance that answers.
    pub async fn lease(&self, listing: ListingId, lease_token: &Secret) -> Result<LeaseView, Error> {
        let call = Call::get(format!("/listings/{listing}/lease")).header(LEASE_TOKEN, lease_token.expose());
        let answer = self.send(call).await?;
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
        for (name, value) in [("filter", &query.filter), ("cursor", &query.cursor)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encode(value)));
            }
        }
        let mut call = Call::get(path);
        call.headers.extend(etag.map(|etag| (header::IF_NONE_MATCH, etag)));
        let answer = self.send(call).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(Browsed::NotModified);
        }
        let mut page: Page = answer.json("GET listings")?;
        page.etag = answer.header(&header::ETAG).map(str::to_owned);
        Ok(Browsed::Page(page))
    }

    /// One fresh listing, public or unlisted.
    pub async fn listing(&self, listing: ListingId) -> Result<Listing, Error> {
        self.send(Call::get(format!("/listings/{listing}"))).await?.json("GET listing")
    }

    /// Creates an attempt. Repeat it with the same key until an answer comes.
    pub async fn attempt(&self, listing: ListingId, request: &JoinRequest, key: &str) -> Result<JoinTicket, Error> {
        let body = encode_body("POST attempts", request)?;
        let path = format!("/listings/{listing}/attempts");
        self.send(Call::post(path, body).header(IDEMPOTENCY_KEY, key)).await?.json("POST attempts")
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
        let call = Call::get(path).header(LEASE_TOKEN, lease_token.expose()).waiting(wait);
        self.send(call).await?.json("GET attempts")
    }

    /// One side's view of an attempt, as a long poll.
    pub async fn attempt_state(&self, attempt: AttemptId, after: u64, wait: Duration) -> Result<AttemptView, Error> {
        let path = format!("/attempts/{attempt}?after={after}&wait_ms={}", wait.as_millis());
        self.send(Call::get(path).waiting(wait)).await?.json("GET attempt")
    }

    /// Closes an attempt early; as host, refuses it.
    pub async fn close_attempt(&self, attempt: AttemptId) -> Result<(), Error> {
        self.send(Call::delete(format!("/attempts/{attempt}"))).await.map(|_| ())
    }

    /// Answers a gated attempt.
    pub async fn admit(&self, attempt: AttemptId, lease_token: &Secret, admit: bool) -> Result<(), Error> {
        let body = encode_body("POST admission", &serde_json::json!({ "admit": admit }))?;
        let call = Call::post(format!("/attempts/{attempt}/admission"), body).header(LEASE_TOKEN, lease_token.expose());
        self.send(call).await.map(|_| ())
    }

    /// Reports how the peers met; counted, changes nothing else.
    pub async fn report(&self, attempt: AttemptId, path: PathKind) -> Result<(), Error> {
        let body = encode_body("POST outcome", &serde_json::json!({ "path": path }))?;
        self.send(Call::post(format!("/attempts/{attempt}/outcome"), body)).await.map(|_| ())
    }
}
