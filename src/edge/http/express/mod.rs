//! The short way of browses and renewals: from the bytes of a request to those of its answer in one step of the connection.
//!
//! Nearly all requests of a busy directory are the same few GETs of its browsers and POSTs of its hosts, and a general HTTP
//! stack spends more on each (a map of headers in, one out, a task's worth of bookkeeping) than finding the page or renewing
//! the lease costs. So the connection's I/O looks at what it reads before hyper does. What [`request::recognise`] takes for
//! plain is answered here, by the same snapshot, lane, limiter, authenticator and readers of headers, queries and bodies as
//! in `handlers`. Everything else goes to hyper as it came, whatever the edge would refuse included, so there is one place
//! that says no. Only what the store itself said to a renewal is answered here whatever it is: to ask it twice would be to
//! do it twice.
//!
//! Nothing here waits: a renewal that finds the lane busy goes the long way, and an answer that the socket does not take
//! whole is sent on before anything else is read.

mod browse;
mod head;
mod renewal;
mod request;

use super::auth::proven::Proven;
use super::connection::Connection;
use super::edge::Edge;
use super::problem::Problem;
use super::routes::{BROWSE_INDEX, RENEW_INDEX};
use crate::domain::{MonoTime, Source};
use bytes::Bytes;
pub(super) use head::Heads;
use head::{DateText, write_whole};
use hyper::{Method, StatusCode};
use request::Plain;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tracing::Level;

/// Slices handed to one system call. A page has about three; one full of gaps takes several calls.
const SLICES_PER_CALL: usize = 16;

/// One connection's short way.
pub(super) struct Express {
    edge: Arc<Edge>,
    client: Source,
    opened: MonoTime,
    date: DateText,
    /// What is being sent: `head` from `head_sent` on, then `slices` from `next` on. Bounded by one page.
    head: Vec<u8>,
    head_sent: usize,
    slices: Vec<Bytes>,
    next: usize,
    /// The stream has taken bytes that it may not have passed on yet.
    unflushed: bool,
    /// A body that is read in place, then one that is rendered; a small one is kept for its memory.
    body: Vec<u8>,
    /// Who renewed on this connection last.
    proven: Option<Proven>,
    /// Renewals that go the long way without a look.
    spared: u8,
    /// Something panicked: nothing more is read.
    broken: bool,
}

impl Express {
    /// The short way of a connection from `peer`; none for one from a trusted proxy, which speaks for others.
    pub(super) fn new(edge: Arc<Edge>, peer: IpAddr, connection: &Connection) -> Option<Self> {
        if edge.is_proxy(peer) {
            return None;
        }
        // A handshake or a proxy's header may have come first, and taken its time.
        let age_ms = u64::try_from(connection.opened().elapsed().as_millis()).unwrap_or(u64::MAX);
        let opened = edge.mono().minus_ms(age_ms);
        Some(Self {
            edge,
            client: Source::of(peer),
            opened,
            date: DateText::default(),
            head: Vec::new(),
            head_sent: 0,
            slices: Vec::new(),
            next: 0,
            unflushed: false,
            body: Vec::new(),
            proven: None,
            spared: 0,
            broken: false,
        })
    }

    /// Prepares the answer to `bytes`. False when they have to go the long way; then nothing was prepared.
    pub(super) fn answer(&mut self, bytes: &[u8], connection: &Connection) -> bool {
        // Whoever follows single requests in the log wants to see all of them.
        if connection.is_ending() || tracing::enabled!(Level::DEBUG) {
            return false;
        }
        let began = self.edge.mono();
        let Some(plain) = request::recognise(bytes) else { return false };
        let (index, method) = match &plain {
            Plain::Browse(_) => (BROWSE_INDEX, Method::GET),
            Plain::Renewal(_) => (RENEW_INDEX, Method::POST),
        };
        let looked = catch_unwind(AssertUnwindSafe(|| match &plain {
            Plain::Browse(request) => self.browse(request, connection, began),
            Plain::Renewal(request) => self.renew(request, connection, began),
        }));
        let Some(status) = looked.unwrap_or_else(|_panic| Some(self.break_off(connection, index, began))) else {
            return false;
        };
        let elapsed = Duration::from_nanos(self.edge.mono().0.saturating_sub(began.0));
        self.edge.metrics.answered(Some(index), &method, status, elapsed);
        true
    }

    /// Prepares what is told after a panic, as the long way tells it. The connection ends with it.
    fn break_off(&mut self, connection: &Connection, index: usize, now: MonoTime) -> StatusCode {
        tracing::error!("a handler panicked");
        self.broken = true;
        self.forget();
        connection.end_request();
        let edge = Arc::clone(&self.edge);
        let answer = edge.with_instance(Problem::internal().into_answer(), Some(index));
        write_whole(&mut self.head, &answer, self.date.at(now, || edge.now().wall));
        answer.status()
    }

    /// Whether an answer is still on its way out.
    pub(super) fn is_sending(&self) -> bool {
        !self.head.is_empty() || self.unflushed
    }

    /// Whether what was sent last was the connection's last answer.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    fn forget(&mut self) {
        self.head.clear();
        self.slices.clear();
        (self.head_sent, self.next) = (0, 0);
    }

    /// Sends what is left of the answer.
    pub(super) fn poll_send<S: AsyncWrite>(
        &mut self,
        mut stream: Pin<&mut S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.head.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_PER_CALL];
            let head = self.head.get(self.head_sent..).unwrap_or_default();
            let rest = self.slices.get(self.next..).unwrap_or_default();
            let parts = std::iter::once(head).chain(rest.iter().map(|slice| &**slice)).filter(|part| !part.is_empty());
            let mut count = 0;
            for (slot, part) in slices.iter_mut().zip(parts) {
                *slot = IoSlice::new(part);
                count += 1;
            }
            let sent = match count {
                1 => ready!(stream.as_mut().poll_write(cx, &slices[0]))?,
                _ => ready!(stream.as_mut().poll_write_vectored(cx, &slices[..count]))?,
            };
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.advance(sent);
        }
        ready!(stream.as_mut().poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut sent: usize) {
        let of_head = sent.min(self.head.len() - self.head_sent);
        self.head_sent += of_head;
        sent -= of_head;
        while let Some(slice) = self.slices.get_mut(self.next) {
            if sent < slice.len() {
                let _sent = slice.split_to(sent);
                return;
            }
            sent -= slice.len();
            self.next += 1;
        }
        if self.head_sent == self.head.len() {
            self.forget();
        }
    }
}
