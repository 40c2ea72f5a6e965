//! Requests that are open: from the moment their headers have arrived whole until their answer was handed over.

use super::connection::Connection;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// Counts one open request until it is dropped, and keeps its connection from being idle.
pub(super) struct OpenRequest {
    number: u64,
    connection: Arc<Connection>,
    count: Arc<AtomicUsize>,
}

impl OpenRequest {
    /// `None` when the connection is being closed to make room for another.
    pub(super) fn begin(connection: &Arc<Connection>, count: &Arc<AtomicUsize>) -> Option<Self> {
        let number = connection.begin_request()?;
        // A count that informs; nothing is read on the strength of it.
        count.fetch_add(1, Ordering::Relaxed);
        Some(Self { number, connection: Arc::clone(connection), count: Arc::clone(count) })
    }

    /// The request's number on its connection, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.connection.end_request();
    }
}

/// An answer's body. hyper drops it once it has taken the last byte.
pub(super) struct Tracked {
    body: Full<Bytes>,
    _open: OpenRequest,
}

impl Tracked {
    pub(super) fn new(body: Bytes, open: OpenRequest) -> Self {
        Self { body: Full::new(body), _open: open }
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
