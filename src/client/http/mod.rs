//! The HTTP half: typed calls over one kept-alive connection pool.
//!
//! Plain HTTP only; put the server behind a TLS proxy on the same host, or use a client with TLS, where the way is not trusted.

mod calls;
mod problem;
mod types;

#[cfg(test)]
mod tests;

pub use calls::{BrowseQuery, Browsed};
pub use types::*;

use super::error::Error;
use crate::credentials::Secret;
use crate::domain::InstanceId;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// For a connection to come up: a SYN that was lost twice still makes it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a whole answer, besides the time that a long poll asked to wait: the server gives itself 10 s for a body.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// Idle connections are dropped before the server's 75 s, so that a request rarely meets a closing one.
const POOL_IDLE: Duration = Duration::from_secs(60);
/// Idle connections kept: a long poll, a renewal and a call of the game.
const POOL_IDLE_MAX: usize = 4;
/// A page of 100 rows of 2 KiB of details, with room for a newer server's fields.
const BODY_BYTES_MAX: usize = 1 << 20;

const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const INSTANCE: HeaderName = HeaderName::from_static("rendezvous-instance");

/// One tenant's directory on one server. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Directory {
    client: Client<HttpConnector, Full<Bytes>>,
    /// `host:port`, for messages and as fallback for STUN URIs without an address.
    authority: String,
    /// Path prefix without a slash at its end.
    prefix: String,
    tenant: String,
    token: Option<Secret>,
    answer_timeout: Duration,
}

/// One request, before it is sent.
struct Call<'a> {
    method: Method,
    /// Below the tenant, with query.
    path: String,
    headers: Vec<(HeaderName, &'a str)>,
    body: Option<Vec<u8>>,
    /// How long the server may wait before it answers.
    wait: Duration,
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Directory {
    /// A client of `server`, for example `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// [`Error::ServerUrl`] for anything that isn't plain HTTP with a host, or for a tenant that can't be part of a path.
    pub fn new(server: &str, tenant: &str) -> Result<Self, Error> {
        let refused = |expected| Error::ServerUrl { given: server.to_owned(), expected };
        let uri: Uri = server.parse().map_err(|_| refused("a URL such as http://127.0.0.1:8080"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refused("http://, this client has no TLS")),
            Some(_) | None => return Err(refused("a URL that begins with http://")),
        }
        let authority = uri.authority().ok_or_else(|| refused("a host in the URL"))?.as_str();
        if authority.contains('@') {
            return Err(refused("a URL without user and password"));
        }
        if tenant.is_empty() {
            return Err(Error::ServerUrl { given: tenant.to_owned(), expected: "a tenant's name" });
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .build(connector);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self {
            client,
            authority: authority.to_owned(),
            prefix,
            tenant: encode(tenant),
            token: None,
            answer_timeout: ANSWER_TIMEOUT,
        })
    }

    /// The same directory with a bearer token: a guest's, or a JWT of the tenant.
    pub fn with_token(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// The same directory without a token.
    pub fn without_token(mut self) -> Self {
        self.token = None;
        self
    }

    /// The same directory with a guest's token, unless it carries one. Asks again when no answer comes: a guest of whom
    /// nobody heard costs nothing.
    ///
    /// # Errors
    /// As [`Directory::guest`].
    pub async fn or_guest(self) -> Result<Self, Error> {
        if self.has_token() {
            return Ok(self);
        }
        let guest = persistently(|| self.guest()).await?;
        Ok(self.with_token(guest.token))
    }

    /// Whether calls carry a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The server's `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer, Error> {
        let name = format!("{} {}/v1/tenants/{}{}", call.method, self.prefix, self.tenant, call.path);
        let malformed = |detail: String| Error::Malformed { request: name.clone(), detail };
        let uri = format!("http://{}{}/v1/tenants/{}{}", self.authority, self.prefix, self.tenant, call.path);
        let mut request = Request::builder().method(call.method).uri(uri);
        if let Some(token) = &self.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| malformed("the token has characters that a header can't carry".into()))?;
            bearer.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, bearer);
        }
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(call.body.unwrap_or_default())))
            .map_err(|error| malformed(format!("the request can't be written: {error}")))?;
        let after = self.answer_timeout + call.wait;
        match tokio::time::timeout(after, self.exchange(request)).await {
            Ok(Ok(answer)) if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED => Ok(answer),
            Ok(Ok(answer)) => Err(problem::read(&name, &answer)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Timeout { server: self.authority.clone(), after }),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, Error> {
        let unreachable = |cause: String| Error::Unreachable { server: self.authority.clone(), cause };
        let response = self.client.request(request).await.map_err(|error| unreachable(root_cause(&error)))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unreachable(root_cause(error.as_ref())))?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

impl Answer {
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn instance(&self) -> Option<InstanceId> {
        self.header(&INSTANCE).and_then(InstanceId::parse)
    }

    fn json<T: serde::de::DeserializeOwned>(&self, request: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Malformed {
            request: request.to_owned(),
            detail: format!("status {}, {} bytes, {error}", self.status.as_u16(), self.body.len()),
        })
    }
}

/// Tries of a call on which a player waits, when no answer comes: at 30 % loss one connection in twenty fails.
const TRIES_MAX: u32 = 3;
/// Pause between them.
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// Makes a call again when it got no answer. Whether it happened is unknown then, so it has to be one that may be repeated.
pub(in crate::client) async fn persistently<T, F: Future<Output = Result<T, Error>>>(
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(Error::Unreachable { .. } | Error::Timeout { .. }) if tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(TRY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// The innermost cause: hyper's outer words ("client error (Connect)") tell a player nothing.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Percent-encodes one path segment or query value (RFC 3986, unreserved characters stay).
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
