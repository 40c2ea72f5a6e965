//! The short way of a browse: from the bytes of its request to those of its answer in one step of the connection.
//!
//! Nearly all requests of a busy directory are the same few GETs, and a general HTTP stack spends more on each (a map of
//! headers in, one out, a task's worth of bookkeeping) than finding the page costs. So the connection's I/O looks at what it
//! reads before hyper does. What [`request::recognise`] takes for a plain browse, with a page or a 304 as its answer, is
//! answered here, by the same snapshot, limiter, query and cursor as in `handlers::browse`. Everything else, every refusal
//! included, goes to hyper as it came, so there is one place that says no.
//!
//! Nothing here waits: an answer that the socket does not take whole is sent on before anything else is read.

mod head;
mod request;

use super::connection::Connection;
use super::edge::Edge;
use super::handlers::{PAGE_START, PageQuery, PageTag};
use super::headers::line_names_tag;
use super::limiter::SourceBudget;
use super::query::Query;
use super::routes::{BROWSE, BROWSE_INDEX};
use super::settings::BrowsePolicy;
use crate::domain::{MonoTime, Source};
use crate::service::view::{Availability, PageView};
use bytes::Bytes;
pub(super) use head::Heads;
use head::{DateText, finish};
use hyper::{Method, StatusCode};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tracing::Level;

/// Rows up to this are copied behind the head and sent in one piece; more are sent from where they lie in the snapshot.
const COPIED_BYTES_MAX: usize = 4 * 1024;
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
}

impl Express {
    /// The short way of a connection from `peer`; none for one from a trusted proxy, which speaks for others.
    pub(super) fn new(edge: Arc<Edge>, peer: IpAddr) -> Option<Self> {
        if edge.is_proxy(peer) {
            return None;
        }
        let opened = edge.mono();
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
        })
    }

    /// Prepares the answer to `bytes`. False when they have to go the long way; then nothing was prepared.
    pub(super) fn answer(&mut self, bytes: &[u8], connection: &Connection) -> bool {
        // Whoever follows single requests in the log wants to see all of them.
        if connection.is_ending() || tracing::enabled!(Level::DEBUG) {
            return false;
        }
        let began = self.edge.mono();
        let Some(status) = request::recognise(bytes).and_then(|request| self.prepare(&request, began)) else {
            return false;
        };
        if !connection.answer_at_once(began.ms_since(self.opened)) {
            self.forget();
            return false;
        }
        let elapsed = Duration::from_nanos(self.edge.mono().0.saturating_sub(began.0));
        self.edge.metrics.answered(Some(BROWSE_INDEX), &Method::GET, status, elapsed);
        true
    }

    fn prepare(&mut self, request: &request::BrowseRequest<'_>, now: MonoTime) -> Option<StatusCode> {
        let edge = Arc::clone(&self.edge);
        let (tenant, settings) = edge.auth.tenant(request.tenant)?;
        if settings.browse != BrowsePolicy::Public || edge.service.availability() != Availability::Available {
            return None;
        }
        let parameters = Query::parse(Some(request.query), BROWSE.query).ok()?;
        let query = PageQuery::read(tenant, settings, parameters).ok()?;
        if query.min_commit.is_some() {
            return None;
        }
        if let Some(limiter) = &edge.limiter {
            limiter.take_source(SourceBudget::Browsing, self.client, now).ok()?;
        }
        let date = self.date.at(now, || edge.now().wall);
        let (head, slices) = (&mut self.head, &mut self.slices);
        let written = edge
            .service
            .browse(&query.browse(), |page| write(&edge.heads, page, &query, request.none_match, date, head, slices));
        written.ok()
    }

    /// Whether an answer is still on its way out.
    pub(super) fn is_sending(&self) -> bool {
        !self.head.is_empty() || self.unflushed
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

/// Writes the head, and the page behind it: small ones in one piece, others as slices of the snapshot.
fn write(
    heads: &Heads,
    page: &PageView<'_>,
    query: &PageQuery<'_>,
    none_match: Option<&str>,
    date: &[u8],
    head: &mut Vec<u8>,
    slices: &mut Vec<Bytes>,
) -> StatusCode {
    let tag = PageTag::of(page);
    if none_match.is_some_and(|line| line_names_tag(line, tag.opaque())) {
        heads.begin(head, None);
        finish(head, tag.text(), page.commit, date);
        return StatusCode::NOT_MODIFIED;
    }
    let rows = page.rows_len();
    let end = query.page_end(page);
    heads.begin(head, Some(PAGE_START.len() + rows + end.len()));
    finish(head, tag.text(), page.commit, date);
    head.extend_from_slice(PAGE_START);
    if rows <= COPIED_BYTES_MAX {
        page.write_rows(head);
        head.extend_from_slice(&end);
    } else {
        page.for_each_shared_run(|run| slices.push(run));
        if let Some(last) = slices.last_mut() {
            // Its comma has no row after it.
            last.truncate(last.len() - 1);
        }
        slices.push(end.into());
    }
    StatusCode::OK
}
