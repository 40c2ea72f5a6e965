//! HTTP/1.1 on one connection.

use super::call::Link;
use super::edge::Edge;
use super::entry::note_eviction;
use super::express::Express;
use super::io::{Deadlines, GuardedIo};
use super::tracked::OpenRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes that hyper holds of one connection's requests; a head that does not fit is refused with 431.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Serves one connection until either side ends it.
pub(super) async fn serve<S>(stream: S, edge: Arc<Edge>, link: Link, open: Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let express = Express::new(Arc::clone(&edge), link.peer, &link.connection);
    serve_with(express, stream, edge, link, open).await;
}

/// The same; without `express` every request goes the long way.
pub(super) async fn serve_with<S>(
    express: Option<Express>,
    stream: S,
    edge: Arc<Edge>,
    link: Link,
    open: Arc<AtomicUsize>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = &edge.limits;
    let deadlines = Deadlines { head: limits.header_timeout, idle: limits.idle_timeout, write: limits.write_timeout };
    let io = GuardedIo::new(stream, deadlines, Arc::clone(&link.connection), Arc::clone(&edge.raw_answers));
    let io = io.with_express(express);
    let service = service_fn(|request| {
        let (edge, link) = (&edge, &link);
        let begun = OpenRequest::begin(&link.connection, &open);
        async move {
            match begun {
                Some(open) => Ok::<_, Infallible>(edge.respond(request, link, open).await),
                // Chosen to make room a moment ago: the task ends here.
                None => std::future::pending().await,
            }
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // The I/O has deadlines of its own: hyper's single one would end idle connections too.
        .header_read_timeout(None)
        .max_buf_size(READ_BUFFER_BYTES)
        .serve_connection(TokioIo::new(io), service);
    let mut served = pin!(served);
    let (mut woken_by, mut closing) = (None::<Waker>, false);
    let ended = poll_fn(|cx| {
        if !woken_by.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            link.connection.wake_by(cx.waker());
            woken_by = Some(cx.waker().clone());
        }
        if link.connection.is_evicted() {
            note_eviction(&edge, &link.connection);
            return Poll::Ready(Ok(()));
        }
        if !closing && link.connection.closes_when_idle() {
            closing = true;
            served.as_mut().graceful_shutdown();
        }
        served.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}
