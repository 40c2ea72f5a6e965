//! Answers before they become responses: status, body, and the headers that the route decides.

use super::compress::{Coding, Compressor};
use crate::domain::MonoTime;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};
use serde::Serialize;

pub(super) const COMMIT: HeaderName = HeaderName::from_static("rendezvous-commit");
pub(super) const INSTANCE: HeaderName = HeaderName::from_static("rendezvous-instance");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What caches may do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// Nothing: the answer has a token or an address in it, or is good for one caller only.
    PrivateNoStore,
    /// Nothing: the answer is out of date at once.
    NoStore,
    /// A second, for everybody: a page or a row of a public tenant (the exception that rule C3 states).
    PublicSecond,
    /// Until the next release.
    PublicHour,
}

impl Cache {
    fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::PrivateNoStore => "private, no-store",
            Self::NoStore => "no-store",
            Self::PublicSecond => "public, max-age=1",
            Self::PublicHour => "public, max-age=3600",
        })
    }
}

/// An answer on its way out.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn new(status: StatusCode, body: Bytes) -> Self {
        // Six headers of the route, six of the edge.
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(CACHE_CONTROL, Cache::NoStore.value());
        Self { status, headers, body }
    }

    /// An answer without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self::new(status, Bytes::new())
    }

    /// JSON that has been rendered already.
    pub(super) fn rendered(status: StatusCode, json: impl Into<Bytes>) -> Self {
        Self::new(status, json.into()).content_type("application/json")
    }

    /// A value as JSON.
    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // The shapes in `wire` have string keys and no maps that could fail.
        Self::rendered(status, serde_json::to_vec(value).unwrap_or_default())
    }

    pub(super) fn content_type(self, value: &'static str) -> Self {
        self.header(CONTENT_TYPE, HeaderValue::from_static(value))
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn cache(self, cache: Cache) -> Self {
        self.header(CACHE_CONTROL, cache.value())
    }

    /// The commit that the answer saw or made.
    pub(super) fn commit(self, commit: u64) -> Self {
        self.header(COMMIT, HeaderValue::from(commit))
    }

    pub(super) fn etag(self, tag: &str) -> Self {
        match HeaderValue::from_str(tag) {
            Ok(value) => self.header(ETAG, value),
            Err(_) => self,
        }
    }

    /// The answer depends on this header of the request.
    pub(super) fn vary(self, name: &'static str) -> Self {
        let joined = self
            .headers
            .get(VARY)
            .and_then(|before| HeaderValue::try_from([before.as_bytes(), b", ", name.as_bytes()].concat()).ok());
        self.header(VARY, joined.unwrap_or(HeaderValue::from_static(name)))
    }

    /// The body in this coding, where the client accepts one and it is worth it. Equal bodies have equal tags.
    pub(super) fn compressed(self, compressor: &Compressor, headers: &HeaderMap, tag: u64, now: MonoTime) -> Self {
        let answer = self.vary("Accept-Encoding");
        let Some(coding) = Coding::accepted(headers) else { return answer };
        match compressor.compressed(&answer.body, tag, coding, now) {
            Some(body) => Self { body, ..answer }.header(CONTENT_ENCODING, coding.name()),
            None => answer,
        }
    }

    pub(super) fn replayed(self, replayed: bool) -> Self {
        if replayed { self.header(REPLAYED, HeaderValue::from_static("true")) } else { self }
    }

    /// The connection ends with this answer.
    pub(super) fn close(self) -> Self {
        self.header(CONNECTION, HeaderValue::from_static("close"))
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn into_response<B>(self, wrap: impl FnOnce(Bytes) -> B) -> hyper::Response<B> {
        let mut response = hyper::Response::new(wrap(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
