//! A page of browsing, as both stores hand it out: rows that are JSON already.

use super::lane::Segment;
use super::row::row_digest;
use crate::domain::{Filter, ListingId, TenantId};
use bytes::Bytes;

/// Most rows of one page; a larger `limit` is clamped.
pub const PAGE_MAX: usize = 100;
/// Rows of a page when the caller names no limit.
pub const PAGE_DEFAULT: usize = 50;
/// Most rows that one page examines (rule S8); past them it is short, with a cursor.
pub const EXAMINED_MAX: usize = 512;

/// What a browser asks for.
#[derive(Clone, Copy, Debug)]
pub struct BrowseQuery<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// The protocol.
    pub protocol: &'a str,
    /// Only listings after this id.
    pub after: Option<ListingId>,
    /// Most rows, 1 to [`PAGE_MAX`].
    pub limit: usize,
    /// Only listings whose details match. A page examines no more for it, so it may be short or empty, with a cursor.
    pub filter: Option<&'a Filter>,
}

/// One page. Rows are in listing-id order; each is one JSON object.
pub struct PageView<'a> {
    /// The commit of the view that the page was read from.
    pub commit: u64,
    /// Where the next page begins, when there may be more.
    pub next: Option<ListingId>,
    /// Number of rows.
    pub count: usize,
    pub(crate) runs: Runs<'a>,
}

/// How the rows of a page are held.
pub(crate) enum Runs<'a> {
    /// Rendered for this page.
    Rendered(&'a [String]),
    /// Runs inside the chunks of a snapshot.
    Chunks(&'a [Segment<'a>]),
}

impl PageView<'_> {
    /// Calls `f` with runs of rows; joining the runs with commas gives the members of the JSON array.
    pub fn for_each_run(&self, mut f: impl FnMut(&[u8])) {
        match &self.runs {
            Runs::Rendered(rows) => rows.iter().for_each(|row| f(row.as_bytes())),
            Runs::Chunks(segments) => segments.iter().for_each(|segment| segment.for_each_run(&mut f)),
        }
    }

    /// Calls `f` with the runs of rows as shared slices of the snapshot, each followed by a comma, the last one too. What
    /// `f` keeps holds on to the snapshot's chunks, so it must not keep them for long.
    pub fn for_each_shared_run(&self, mut f: impl FnMut(Bytes)) {
        match &self.runs {
            Runs::Rendered(rows) => rows.iter().for_each(|row| f([row.as_bytes(), b","].concat().into())),
            Runs::Chunks(segments) => segments.iter().for_each(|segment| segment.for_each_shared_run(&mut f)),
        }
    }

    /// Appends the rows, joined by commas.
    pub fn write_rows(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.for_each_run(|run| {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(run);
        });
    }

    /// Bytes of the joined rows.
    pub fn rows_len(&self) -> usize {
        let mut len = 0;
        self.for_each_run(|run| len += run.len() + 1);
        len.saturating_sub(1)
    }

    /// A digest over rows and cursor: equal pages have equal digests. The page is not built for it: rows know their
    /// digests, chunks the sums, and a page's rows are in the order of their ids, which the digests cover.
    pub fn digest(&self) -> u64 {
        let sum = match &self.runs {
            Runs::Rendered(rows) => rows.iter().fold(0_u64, |sum, row| sum.wrapping_add(row_digest(row.as_bytes()))),
            Runs::Chunks(segments) => segments.iter().fold(0, |sum, segment| segment.add_digest(sum)),
        };
        let next = self.next.map_or(0, |id| (id.0 >> 64) as u64 ^ id.0 as u64);
        fold_digest(fold_digest(sum, self.count as u64), next)
    }
}

/// Folds one more value into a digest.
pub(crate) fn fold_digest(digest: u64, value: u64) -> u64 {
    (digest ^ value).wrapping_mul(0xFF51_AFD7_ED55_8CCD).rotate_left(29)
}
