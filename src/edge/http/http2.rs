//! HTTP/2 on one connection, chosen in the TLS handshake.
//!
//! One connection carries many requests, so what a client may hold here is bounded once more: streams, resets, lists of
//! headers, windows. hyper's part runs under one watch, which knows the same deadlines as HTTP/1.1 has.

use super::call::Link;
use super::connection::Connection;
use super::edge::Edge;
use super::entry::note_eviction;
use super::framing::HEAD_BYTES_MAX;
use super::io::WriteDeadline;
use super::tracked::{OpenRequest, Streams};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Requests in progress on one connection: a browser opens about a dozen, a game's proxy some more.
const STREAMS_MAX: u32 = 64;
/// Streams that a client has reset before they were looked at (CVE-2023-44487); more end the connection.
const PENDING_RESETS_MAX: usize = 20;
/// Streams that this side has reset for an error of the client (CVE-2025-8671); more end the connection.
const LOCAL_RESETS_MAX: usize = 1_024;
/// Requests that a client has cancelled while they were in progress; more end the connection with its last answer, so that a
/// client which does nothing else has to pay for a handshake each time.
const CANCELLED_MAX: u64 = 256;
/// Bytes of a request's body that a client may send before it is read: the longest body, and the default of RFC 9113.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Bytes of one answer that wait for the client's window.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// A client that has gone without a word is noticed after this and [`PONG_WITHIN`].
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// Serves one connection until either side ends it.
pub(super) async fn serve<S>(stream: S, edge: Arc<Edge>, link: Link, open: Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let streams = Arc::new(Streams::default());
    let connection = Arc::clone(&link.connection);
    let io = PromptIo { stream, write: WriteDeadline::new(edge.limits.write_timeout) };
    let mut watch = Watch::new(&edge, &connection, &streams);
    let service = service_fn(|request| {
        let (edge, link) = (Arc::clone(&edge), link.clone());
        let begun = OpenRequest::begin_stream(&link.connection, &open, &streams);
        async move {
            match begun {
                Some(open) => Ok::<_, Infallible>(edge.respond(request, &link, open).await),
                // Chosen to make room a moment ago: the connection is dropped, and this with it.
                None => std::future::pending().await,
            }
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    let mut served = pin!(builder.serve_connection(TokioIo::new(io), service));
    let ended = poll_fn(|cx| {
        connection.wake_by(cx.waker());
        if connection.is_evicted() {
            note_eviction(&edge, &connection);
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(result) = served.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        let mut verdict = watch.poll(cx);
        if verdict == Verdict::Finish {
            served.as_mut().graceful_shutdown();
            if let Poll::Ready(result) = served.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            // From here on there is another deadline.
            verdict = watch.poll(cx);
        }
        if verdict == Verdict::Drop { Poll::Ready(Ok(())) } else { Poll::Pending }
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// What is to become of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Wait,
    /// Tell the client, and let requests in progress finish.
    Finish,
    /// End it at once.
    Drop,
}

/// The deadlines of one connection.
struct Watch<'c> {
    began: Instant,
    head: Duration,
    idle: Duration,
    write: Duration,
    connection: &'c Connection,
    streams: &'c Streams,
    /// Since when the client has known that the connection ends.
    finishing: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<'c> Watch<'c> {
    fn new(edge: &Edge, connection: &'c Connection, streams: &'c Streams) -> Self {
        let began = Instant::now();
        let limits = &edge.limits;
        Self {
            began,
            head: limits.header_timeout,
            idle: limits.idle_timeout,
            write: limits.write_timeout,
            connection,
            streams,
            finishing: None,
            timer: Box::pin(sleep_until(began + limits.header_timeout)),
        }
    }

    /// Looks now, and wakes the task when there is something to look at again.
    fn poll(&mut self, cx: &mut Context<'_>) -> Verdict {
        if self.finishing.is_none() && self.is_over() {
            self.finishing = Some(Instant::now());
            return Verdict::Finish;
        }
        let Some(at) = self.deadline() else { return Verdict::Wait };
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Pending => Verdict::Wait,
            Poll::Ready(()) if self.finishing.is_some() || self.streams.sending_since().is_some() => Verdict::Drop,
            Poll::Ready(()) => {
                self.finishing = Some(Instant::now());
                Verdict::Finish
            }
        }
    }

    /// Whether the client has cancelled more than it may, or the connection is one of those that end: with their first
    /// answer, or, once nobody is waited for, at once.
    fn is_over(&self) -> bool {
        let connection = self.connection;
        self.streams.cancelled() > CANCELLED_MAX
            || connection.closes_when_idle()
            || connection.is_ending() && connection.requests() > 0
    }

    /// The next moment at which something has to have happened; `None` while a request is in progress whose handler has
    /// deadlines of its own.
    fn deadline(&self) -> Option<Instant> {
        let answer = self.streams.sending_since().map(|since| since + self.write);
        let silence = match (self.finishing, self.connection.idle_since()) {
            (_, None) => None,
            (Some(since), Some(_)) => Some(since + self.write),
            (None, Some(_)) if self.connection.requests() == 0 => Some(self.began + self.head),
            (None, Some(since)) => Some(since + self.idle),
        };
        answer.into_iter().chain(silence).min()
    }
}

/// A stream whose writes have to be taken in time.
struct PromptIo<S> {
    stream: S,
    write: WriteDeadline,
}

impl<S: AsyncRead + Unpin> AsyncRead for PromptIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PromptIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.write.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.write.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.write.bound(cx, flushed))?;
        self.write.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.write.bound(cx, shut)
    }
}
