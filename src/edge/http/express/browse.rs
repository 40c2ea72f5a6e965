//! A page, from its request's bytes to its own.

use super::Express;
use super::head::{Heads, finish};
use super::request::BrowseRequest;
use crate::domain::MonoTime;
use crate::edge::http::connection::Connection;
use crate::edge::http::handlers::{PAGE_START, PageQuery, PageTag};
use crate::edge::http::headers::line_names_tag;
use crate::edge::http::limiter::SourceBudget;
use crate::edge::http::query::Query;
use crate::edge::http::routes::BROWSE;
use crate::edge::http::settings::BrowsePolicy;
use crate::service::view::{Availability, PageView};
use bytes::Bytes;
use hyper::StatusCode;
use std::sync::Arc;

/// Rows up to this are copied behind the head and sent in one piece; more are sent from where they lie in the snapshot.
const COPIED_BYTES_MAX: usize = 4 * 1024;

impl Express {
    /// Prepares a page, or that it is the one that the client has.
    pub(super) fn browse(
        &mut self,
        request: &BrowseRequest<'_>,
        connection: &Connection,
        now: MonoTime,
    ) -> Option<StatusCode> {
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
        let status = written.ok()?;
        if !connection.answer_at_once(now.ms_since(self.opened)) {
            self.forget();
            return None;
        }
        Some(status)
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
        heads.begin_not_modified(head);
        finish(head, &[tag.text()], page.commit, date);
        return StatusCode::NOT_MODIFIED;
    }
    let rows = page.rows_len();
    let end = query.page_end(page);
    heads.begin_page(head, PAGE_START.len() + rows + end.len());
    finish(head, &[tag.text()], page.commit, date);
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
