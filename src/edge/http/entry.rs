//! From an accepted socket to a connection that is served: whom it is for (PROXY protocol), TLS, and which HTTP.

use super::call::Link;
use super::connection::Connection;
use super::edge::Edge;
use super::proxy_protocol::{self, Client, HeaderError};
use super::registry::Ceiling;
use super::tls::Protocol;
use super::{http1, http2};
use crate::domain::Source;
use bytes::Bytes;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

/// A refusal is read by its client before the connection is reset if the client has stopped sending by then; so what it
/// sends is read and dropped for this long, and this much.
const REFUSAL_LINGER: Duration = Duration::from_secs(1);
const REFUSAL_BYTES: u64 = 64 * 1024;

/// Why a connection was closed before its first request.
pub(super) enum Refused {
    /// The client or the network ended it.
    Lost(io::Error),
    /// No header of the PROXY protocol, a bad one, or one from somebody who is not a trusted proxy.
    Untrusted,
    /// A header that can't be read.
    Header(HeaderError),
    /// No header within the deadline.
    HeaderTimeout,
    /// Its client's ceiling of connections, known only after its header.
    Full(Ceiling, TcpStream),
    /// The handshake failed.
    Handshake(io::Error),
    /// The handshake took too long.
    HandshakeTimeout,
    /// HTTP without TLS on a port that wants TLS.
    Plaintext(TcpStream),
}

impl Refused {
    /// As a label of metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Lost(_) => "lost",
            Self::Untrusted => "untrusted_proxy",
            Self::Header(_) => "proxy_header",
            Self::HeaderTimeout => "proxy_header_timeout",
            Self::Full(ceiling, _) => ceiling.reason(),
            Self::Handshake(_) => "tls_handshake",
            Self::HandshakeTimeout => "tls_handshake_timeout",
            Self::Plaintext(_) => "plaintext",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) | Self::Handshake(error) => write!(f, "{}: {error}", self.reason()),
            Self::Header(error) => write!(f, "{}: {error:?}", self.reason()),
            Self::Untrusted | Self::HeaderTimeout | Self::Full(..) | Self::HandshakeTimeout | Self::Plaintext(_) => {
                f.write_str(self.reason())
            }
        }
    }
}

/// An accepted socket with its place among the connections.
pub(super) struct Entrant {
    pub(super) stream: TcpStream,
    pub(super) link: Link,
    pub(super) open: Arc<AtomicUsize>,
}

impl Entrant {
    /// Serves the connection until either side ends it.
    pub(super) async fn serve(self, edge: Arc<Edge>) {
        let _counted = edge.metrics.connection();
        let Self { stream, mut link, open } = self;
        let connection = Arc::clone(&link.connection);
        if edge.is_direct() {
            return http1::serve(stream, edge, link, open).await;
        }
        let entered = connection.while_wanted(enter(stream, &edge, &mut link)).await;
        match entered {
            None => note_eviction(&edge, &connection),
            Some(Ok(Entered::Plain(stream))) => http1::serve(stream, edge, link, open).await,
            Some(Ok(Entered::Tls(stream, Protocol::Http1))) => http1::serve(*stream, edge, link, open).await,
            Some(Ok(Entered::Tls(stream, Protocol::Http2))) => http2::serve(*stream, edge, link, open).await,
            Some(Err(refused)) => {
                edge.metrics.refused(refused.reason());
                tracing::debug!(reason = %refused, "connection refused");
                // It still has a place, which others may need.
                let _told = connection.while_wanted(tell(refused, &edge)).await;
            }
        }
    }
}

enum Entered {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>, Protocol),
}

async fn enter(mut stream: TcpStream, edge: &Edge, link: &mut Link) -> Result<Entered, Refused> {
    let mut source = (!edge.is_proxy(link.peer)).then(|| Source::of(link.peer));
    if edge.proxy_protocol
        && let Some(client) = proxied(&mut stream, edge, link).await?
    {
        let told = Source::of(client);
        if !edge.is_proxy(client) {
            source = Some(told);
            if let Err(ceiling) = link.admission.attribute(told) {
                return Err(Refused::Full(ceiling, stream));
            }
        }
        link.peer = client;
    }
    let Some(tls) = &edge.tls else { return Ok(Entered::Plain(stream)) };
    let (stream, protocol) = tls.handshake(stream, source).await?;
    link.confidential = true;
    Ok(Entered::Tls(Box::new(stream), protocol))
}

/// Whom a proxy speaks for; `None` when for itself. The header is under the deadline of a head.
async fn proxied(stream: &mut TcpStream, edge: &Edge, link: &Link) -> Result<Option<IpAddr>, Refused> {
    if !edge.is_proxy(link.peer) {
        return Err(Refused::Untrusted);
    }
    let deadline = link.connection.opened() + edge.limits.header_timeout;
    match timeout_at(deadline, proxy_protocol::read(stream)).await {
        Err(_) => Err(Refused::HeaderTimeout),
        Ok(Err(error)) => Err(Refused::Lost(error)),
        Ok(Ok(Err(error))) => Err(Refused::Header(error)),
        Ok(Ok(Ok(Client::Proxy))) => Ok(None),
        Ok(Ok(Ok(Client::At(client)))) => Ok(Some(client)),
    }
}

pub(super) fn note_eviction(edge: &Edge, connection: &Connection) {
    if connection.is_evicted() {
        edge.metrics.refused("evicted");
    }
}

/// Tells those who would understand it. A port that wants TLS can tell nothing before the handshake.
async fn tell(refused: Refused, edge: &Edge) {
    match refused {
        Refused::Plaintext(stream) => refuse(stream, edge.raw_answers.needs_tls()).await,
        Refused::Full(ceiling, stream) if edge.tls.is_none() => refuse(stream, edge.raw_answers.full(ceiling)).await,
        Refused::Full(..)
        | Refused::Lost(_)
        | Refused::Untrusted
        | Refused::Header(_)
        | Refused::HeaderTimeout
        | Refused::Handshake(_)
        | Refused::HandshakeTimeout => {}
    }
}

/// Sends an answer to a request that nobody reads.
pub(super) async fn refuse(mut stream: TcpStream, answer: Bytes) {
    let refusing = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        let mut dropped = (&mut stream).take(REFUSAL_BYTES);
        tokio::io::copy(&mut dropped, &mut tokio::io::sink()).await
    };
    // Whoever does not want to know is not told.
    let _ = timeout(REFUSAL_LINGER, refusing).await;
}
