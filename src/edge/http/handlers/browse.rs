//! Browsing: pages and single rows, from the published snapshot, never through the lane.

use crate::domain::{Failure, Filter, Invalid, ListingId, Rejection, Scope, TenantId};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::cursor::CursorQuery;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::none_match_holds;
use crate::edge::http::problem::Problem;
use crate::edge::http::query::Query;
use crate::edge::http::settings::{BrowsePolicy, TenantSettings};
use crate::service::view::{BrowseQuery, PAGE_DEFAULT, PAGE_MAX, PageView};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use std::borrow::Cow;

/// What stands before the rows of a page.
pub(in crate::edge::http) const PAGE_START: &[u8] = b"{\"listings\":[";

/// A page as it was asked for.
pub(in crate::edge::http) struct PageQuery<'q> {
    tenant: TenantId,
    protocol: Cow<'q, str>,
    limit: usize,
    /// As it was given, and as it was read.
    filter: Option<(Cow<'q, str>, Filter)>,
    after: Option<ListingId>,
    pub(in crate::edge::http) min_commit: Option<u64>,
    tenant_name: &'q str,
}

impl<'q> PageQuery<'q> {
    /// Reads the parameters of a browse of `tenant`.
    pub(in crate::edge::http) fn read(
        tenant: TenantId,
        settings: &'q TenantSettings,
        mut query: Query<'q>,
    ) -> Result<Self, Problem> {
        let Some(protocol) = query.take("protocol") else {
            return Err(Problem::invalid_parameter("protocol", "is required"));
        };
        if Scope::new(tenant, &protocol).is_none() {
            return Err(Problem::invalid_parameter("protocol", "must be 1 to 64 of a-z 0-9 . _ - /"));
        }
        let limit = query.take_limit("limit", PAGE_DEFAULT, PAGE_MAX)?;
        let filter = match query.take("filter") {
            Some(text) => {
                let filter = Filter::parse(&text).map_err(Problem::invalid_filter)?;
                Some((text, filter))
            }
            None => None,
        };
        let tenant_name = &settings.name;
        let mut read = Self { tenant, protocol, limit, filter, after: None, min_commit: None, tenant_name };
        if let Some(text) = query.take("cursor") {
            let refused = || Problem::invalid_parameter("cursor", "must be the next_cursor of a page of this query");
            read.after = Some(read.cursors().decode(&text).ok_or_else(refused)?);
        }
        read.min_commit = query.take_integer("min_commit")?;
        Ok(read)
    }

    /// The question to the snapshot.
    pub(in crate::edge::http) fn browse(&self) -> BrowseQuery<'_> {
        BrowseQuery {
            tenant: self.tenant,
            protocol: &self.protocol,
            after: self.after,
            limit: self.limit,
            filter: self.filter.as_ref().map(|(_, filter)| filter),
        }
    }

    fn cursors(&self) -> CursorQuery<'_> {
        let filter = self.filter.as_ref().map(|(text, _)| &**text);
        CursorQuery { tenant: self.tenant_name, protocol: &self.protocol, filter }
    }

    /// What stands behind the rows of `page`.
    pub(in crate::edge::http) fn page_end(&self, page: &PageView<'_>) -> Vec<u8> {
        match page.next {
            Some(position) => ["],\"next_cursor\":\"", &self.cursors().encode(position), "\"}"].concat().into(),
            None => b"],\"next_cursor\":null}".to_vec(),
        }
    }
}

/// A page's weak entity tag.
pub(in crate::edge::http) struct PageTag([u8; TAG_CHARS]);

/// `W/"` and 16 hex digits and `"`.
const TAG_CHARS: usize = 20;

impl PageTag {
    pub(in crate::edge::http) fn of(page: &PageView<'_>) -> Self {
        let mut text = *b"W/\"0000000000000000\"";
        let digest = page.digest().to_be_bytes();
        for (pair, byte) in text[3..19].chunks_exact_mut(2).zip(digest) {
            pair.copy_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 0x0F)]);
        }
        Self(text)
    }

    /// As it is sent.
    pub(in crate::edge::http) fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Without the mark of its weakness: what is compared.
    pub(in crate::edge::http) fn opaque(&self) -> &str {
        self.text().get(2..).unwrap_or_default()
    }
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

fn cache(settings: &TenantSettings) -> Cache {
    match settings.browse {
        BrowsePolicy::Public => Cache::PublicSecond,
        BrowsePolicy::Principal => Cache::PrivateNoStore,
    }
}

/// A page of visible public listings.
pub(super) async fn page(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    let (tenant, settings) = edge.browsable(call)?;
    let query = PageQuery::read(tenant, settings, call.query()?)?;
    if let Some(commit) = query.min_commit {
        edge.service.await_commit(commit).await.map_err(|failure| refused_commit(call, failure))?;
    }
    let page = edge.service.browse(&query.browse(), |page| (answer(page, &query, call.headers()), page.digest()));
    let (answer, tag) = page.map_err(|failure| call.failed(failure))?;
    Ok(answer.cache(cache(settings)).compressed(&edge.compressor, call.headers(), tag, call.now.mono))
}

fn refused_commit(call: &Call<'_>, failure: Failure) -> Problem {
    if failure == Failure::Rejected(Rejection::Invalid(Invalid::FutureCommit)) {
        return Problem::invalid_parameter("min_commit", "must not be above the last commit").reason("future_commit");
    }
    call.failed(failure)
}

/// The page, or that it is the one that the client has: then its rows are not touched.
fn answer(page: &PageView<'_>, query: &PageQuery<'_>, headers: &HeaderMap) -> Answer {
    let tag = PageTag::of(page);
    let answer = if none_match_holds(headers, tag.opaque()) {
        Answer::empty(StatusCode::NOT_MODIFIED)
    } else {
        Answer::rendered(StatusCode::OK, render(page, query))
    };
    answer.etag(tag.text()).commit(page.commit)
}

fn render(page: &PageView<'_>, query: &PageQuery<'_>) -> Vec<u8> {
    let end = query.page_end(page);
    let mut body = Vec::with_capacity(PAGE_START.len() + page.rows_len() + end.len());
    body.extend_from_slice(PAGE_START);
    page.write_rows(&mut body);
    body.extend_from_slice(&end);
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
