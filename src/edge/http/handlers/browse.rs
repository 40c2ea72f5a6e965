//! Browsing: pages and single rows, from the published snapshot, never through the lane.

use crate::domain::{Failure, Invalid, Rejection, Scope};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::cursor::CursorQuery;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::none_match_holds;
use crate::edge::http::problem::Problem;
use crate::edge::http::settings::{BrowsePolicy, TenantSettings};
use crate::service::view::{BrowseQuery, PAGE_DEFAULT, PAGE_MAX, PageView};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;

/// Bytes of a page around its rows: member names, brackets and a cursor.
const PAGE_FRAME: usize = 80;

fn cache(settings: &TenantSettings) -> Cache {
    match settings.browse {
        BrowsePolicy::Public => Cache::PublicSecond,
        BrowsePolicy::Principal => Cache::PrivateNoStore,
    }
}

/// A page of visible public listings.
pub(super) async fn page(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    let (tenant, settings) = edge.browsable(call)?;
    let mut query = call.query()?;
    let Some(protocol) = query.take("protocol") else {
        return Err(Problem::invalid_parameter("protocol", "is required"));
    };
    if Scope::new(tenant, &protocol).is_none() {
        return Err(Problem::invalid_parameter("protocol", "must be 1 to 64 of a-z 0-9 . _ - /"));
    }
    let limit = query.take_limit("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let cursors = CursorQuery { tenant: &settings.name, protocol: &protocol };
    let after = match query.take("cursor") {
        Some(text) => {
            let refused = || Problem::invalid_parameter("cursor", "must be the next_cursor of a page of this query");
            Some(cursors.decode(&text).ok_or_else(refused)?)
        }
        None => None,
    };
    if let Some(commit) = query.take_integer("min_commit")? {
        edge.service.await_commit(commit).await.map_err(|failure| refused_commit(call, failure))?;
    }
    let browse = BrowseQuery { tenant, protocol: &protocol, after, limit };
    let page = edge.service.browse(&browse, |page| answer(page, cursors, call.headers()));
    Ok(page.map_err(|failure| call.failed(failure))?.cache(cache(settings)))
}

fn refused_commit(call: &Call<'_>, failure: Failure) -> Problem {
    if failure == Failure::Rejected(Rejection::Invalid(Invalid::FutureCommit)) {
        return Problem::invalid_parameter("min_commit", "must not be above the last commit").reason("future_commit");
    }
    call.failed(failure)
}

/// The page, or that it is the one that the client has: then its rows are not touched.
fn answer(page: &PageView<'_>, cursors: CursorQuery<'_>, headers: &HeaderMap) -> Answer {
    let tag = format!("W/\"{:016x}\"", page.digest());
    let opaque = tag.get(2..).unwrap_or_default();
    let answer = if none_match_holds(headers, opaque) {
        Answer::empty(StatusCode::NOT_MODIFIED)
    } else {
        Answer::rendered(StatusCode::OK, render(page, cursors))
    };
    answer.etag(&tag).commit(page.commit)
}

fn render(page: &PageView<'_>, cursors: CursorQuery<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(page.rows_len() + PAGE_FRAME);
    body.extend_from_slice(b"{\"listings\":[");
    page.write_rows(&mut body);
    body.extend_from_slice(b"],\"next_cursor\":");
    match page.next {
        Some(position) => {
            body.push(b'"');
            body.extend_from_slice(cursors.encode(position).as_bytes());
            body.push(b'"');
        }
        None => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
    body
}

/// One fresh listing, public or unlisted.
pub(super) fn listing(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    let (tenant, settings) = edge.browsable(call)?;
    call.query()?;
    let row = edge.service.listing(tenant, call.listing()?, |row, commit| {
        Answer::rendered(StatusCode::OK, Bytes::copy_from_slice(row)).commit(commit)
    });
    Ok(row.map_err(|failure| call.failed(failure))?.cache(cache(settings)))
}
