//! One kept-alive HTTP/1.1 connection, one request at a time.
//!
//! The client library's pool would choose the connection itself and read every body as typed JSON, and would so become the
//! limit before a server is. Here a body is looked at where the load needs it.

use super::tally::Outcome;
use crate::client::Code;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// A page of 100 rows of 2 KiB of details, with room for a newer server's fields.
const BODY_BYTES_MAX: usize = 1 << 20;

/// One request. Headers come as text; the connection adds `Host` and the type of the body.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(HeaderName, &'a str)],
    pub(super) body: Bytes,
}

/// A whole answer that is no refusal.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A connection that is made when it is needed, and made again when it broke.
#[derive(Debug)]
pub(super) struct Connection {
    server: SocketAddr,
    authority: String,
    timeout: Duration,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// What the last conflict said the current version is.
    pub(super) current_version: Option<u64>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    current_version: Option<u64>,
}

impl Connection {
    pub(super) fn new(server: SocketAddr, authority: String, timeout: Duration) -> Self {
        Self { server, authority, timeout, sender: None, current_version: None }
    }

    /// Asks, and waits for the whole answer at most for the time-out.
    ///
    /// # Errors
    /// What became of it otherwise. After a time-out or a broken connection the next request gets a new connection.
    pub(super) async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer, Outcome> {
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(ask)).await;
        let answer = match exchanged {
            Ok(Ok(answer)) => answer,
            Ok(Err(outcome)) => {
                self.sender = None;
                return Err(outcome);
            }
            Err(_) => {
                self.sender = None;
                return Err(Outcome::TimedOut);
            }
        };
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) => {
                self.current_version = problem.current_version;
                Err(Outcome::refused(&Code::parse(&problem.code)))
            }
            Err(_) => Err(Outcome::Unexpected),
        }
    }

    async fn exchange(&mut self, ask: Ask<'_>) -> Result<Answer, Outcome> {
        let mut request = Request::builder().method(ask.method).uri(ask.path).header(header::HOST, &self.authority);
        for (name, value) in ask.headers {
            request = request.header(name, *value);
        }
        if !ask.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(ask.body)).map_err(|_| Outcome::Unexpected)?;
        let sender = match &mut self.sender {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.connect().await?,
        };
        // A server that is going to close says so in its last answer; the handle then isn't ready any more.
        sender.ready().await.map_err(|_| Outcome::Broken)?;
        let response = sender.send_request(request).await.map_err(|_| Outcome::Broken)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| Outcome::Broken)?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    async fn connect(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Outcome> {
        let stream = TcpStream::connect(self.server).await.map_err(|_| Outcome::Broken)?;
        stream.set_nodelay(true).map_err(|_| Outcome::Broken)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Outcome::Broken)?;
        // Ends with the handle; how it ended shows in the request that was on the way.
        tokio::spawn(async move { connection.await.is_ok() });
        Ok(self.sender.insert(sender))
    }
}

impl Answer {
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The version in a strong ETag.
    pub(super) fn version(&self) -> Option<u64> {
        self.header(&header::ETAG)?.trim_matches('"').parse().ok()
    }
}
