//! Requests to one server, over one kept-alive connection pool; whatever is asked for.

use super::problem;
use crate::client::error::Error;
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
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) const INSTANCE: HeaderName = HeaderName::from_static("rendezvous-instance");

/// One server, with a bearer token if there is one. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: Client<HttpConnector, Full<Bytes>>,
    /// `host:port`, for messages and as fallback for STUN URIs without an address.
    pub(super) authority: String,
    /// Path prefix without a slash at its end.
    pub(super) prefix: String,
    pub(super) token: Option<Secret>,
    pub(super) answer_timeout: Duration,
}

/// What a request carries.
pub(super) enum Body {
    Nothing,
    Json(Vec<u8>),
    /// A content of any kind.
    Octets(Bytes),
}

/// One request, before it is sent.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// Below the root, with query.
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, &'a str)>,
    pub(super) body: Body,
    /// How long the server may wait before it answers.
    pub(super) wait: Duration,
    /// Longest answer that is read.
    pub(super) answer_max: usize,
}

/// An answer, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl<'a> Call<'a> {
    fn new(method: Method, path: String, body: Body) -> Self {
        Self { method, path, headers: Vec::new(), body, wait: Duration::ZERO, answer_max: BODY_BYTES_MAX }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path, Body::Nothing)
    }

    pub(super) fn post(path: String, json: Vec<u8>) -> Self {
        Self::new(Method::POST, path, Body::Json(json))
    }

    pub(super) fn put(path: String, body: Body) -> Self {
        Self::new(Method::PUT, path, body)
    }

    pub(super) fn delete(path: String) -> Self {
        Self::new(Method::DELETE, path, Body::Nothing)
    }

    pub(super) fn header(mut self, name: HeaderName, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl Transport {
    /// # Errors
    /// [`Error::ServerUrl`] for anything that isn't plain HTTP with a host.
    pub(super) fn new(server: &str) -> Result<Self, Error> {
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
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .build(connector);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { client, authority: authority.to_owned(), prefix, token: None, answer_timeout: ANSWER_TIMEOUT })
    }

    /// Asks below `root`, which begins with a slash.
    pub(super) async fn send(&self, root: &str, call: Call<'_>) -> Result<Answer, Error> {
        let name = self.name(root, &call);
        let answer = self.send_any(root, call).await?;
        let is_good = answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED;
        if is_good { Ok(answer) } else { Err(problem::read(&name, &answer)) }
    }

    fn name(&self, root: &str, call: &Call<'_>) -> String {
        format!("{} {}{root}{}", call.method, self.prefix, call.path)
    }

    /// The same where a refusal is an answer too.
    pub(super) async fn send_any(&self, root: &str, call: Call<'_>) -> Result<Answer, Error> {
        let name = self.name(root, &call);
        let malformed = |detail: String| Error::Malformed { request: name.clone(), detail };
        let uri = format!("http://{}{}{root}{}", self.authority, self.prefix, call.path);
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
        let (kind, body) = match call.body {
            Body::Nothing => (None, Bytes::new()),
            Body::Json(json) => (Some("application/json"), Bytes::from(json)),
            Body::Octets(bytes) => (Some("application/octet-stream"), bytes),
        };
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| malformed(format!("the request can't be written: {error}")))?;
        let after = self.answer_timeout + call.wait;
        match tokio::time::timeout(after, self.exchange(request, call.answer_max)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout { server: self.authority.clone(), after }),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, answer_max: usize) -> Result<Answer, Error> {
        let unreachable = |cause: String| Error::Unreachable { server: self.authority.clone(), cause };
        let response = self.client.request(request).await.map_err(|error| unreachable(root_cause(&error)))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, answer_max).collect().await;
        let body = body.map_err(|error| unreachable(root_cause(error.as_ref())))?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

impl Answer {
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn instance(&self) -> Option<InstanceId> {
        self.header(&INSTANCE).and_then(InstanceId::parse)
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, request: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Malformed {
            request: request.to_owned(),
            detail: format!("status {}, {} bytes, {error}", self.status.as_u16(), self.body.len()),
        })
    }
}

/// A body as JSON.
pub(super) fn encode_body(request: &str, body: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body)
        .map_err(|error| Error::Malformed { request: request.to_owned(), detail: format!("the request: {error}") })
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
pub(super) fn encode(text: &str) -> String {
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
