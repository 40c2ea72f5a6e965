//! Requests that are open: from the moment their headers have arrived whole until their answer was handed over.

use super::connection::Connection;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::time::Instant;

/// An answer on a connection with several is handed over in pieces of this size, so that what a client does not take stays
/// visible as an answer that is being sent.
const PIECE_BYTES: usize = 16 * 1024;

/// Counts one open request until it is dropped, and keeps its connection from being idle.
pub(super) struct OpenRequest {
    number: u64,
    connection: Arc<Connection>,
    count: Arc<AtomicUsize>,
    /// Where requests don't follow each other.
    streams: Option<Arc<Streams>>,
    answered: bool,
}

impl OpenRequest {
    /// `None` when the connection is being closed to make room for another.
    pub(super) fn begin(connection: &Arc<Connection>, count: &Arc<AtomicUsize>) -> Option<Self> {
        let number = connection.begin_request()?;
        // A count that informs; nothing is read on the strength of it.
        count.fetch_add(1, Ordering::Relaxed);
        let (connection, count) = (Arc::clone(connection), Arc::clone(count));
        Some(Self { number, connection, count, streams: None, answered: false })
    }

    /// The same for one of several at a time.
    pub(super) fn begin_stream(
        connection: &Arc<Connection>,
        count: &Arc<AtomicUsize>,
        streams: &Arc<Streams>,
    ) -> Option<Self> {
        let mut open = Self::begin(connection, count)?;
        open.streams = Some(Arc::clone(streams));
        Some(open)
    }

    /// The request's number on its connection, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn answering(&mut self) {
        self.answered = true;
        if let Some(streams) = &self.streams {
            streams.lock().insert(self.number, Instant::now());
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.connection.end_request();
        if let Some(streams) = &self.streams {
            streams.lock().remove(&self.number);
            if !self.answered {
                streams.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            // The connection's task has to look at its deadlines again.
            self.connection.wake();
        }
    }
}

/// The answers that one connection is sending at a time, and the requests that its client has given up.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Request numbers with the begin of their answers; bounded by the streams of a connection. They are in order of their
    /// requests, and looked through for the oldest answer.
    sending: Mutex<BTreeMap<u64, Instant>>,
    cancelled: AtomicU64,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        // Guards single inserts and removals.
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the oldest answer has been on its way out.
    pub(super) fn sending_since(&self) -> Option<Instant> {
        self.lock().values().min().copied()
    }

    /// Requests that ended without an answer.
    pub(super) fn cancelled(&self) -> u64 {
        // A count that decides only when to say good-bye.
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// An answer's body. hyper drops it once it has taken the last byte.
pub(super) struct Tracked {
    body: Bytes,
    open: OpenRequest,
}

impl Tracked {
    pub(super) fn new(body: Bytes, mut open: OpenRequest) -> Self {
        open.answering();
        Self { body, open }
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.body.is_empty() {
            return Poll::Ready(None);
        }
        let piece = match self.open.streams {
            Some(_) => self.body.len().min(PIECE_BYTES),
            None => self.body.len(),
        };
        Poll::Ready(Some(Ok(Frame::data(self.body.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.len() as u64)
    }
}
