//! Chunks: runs of up to [`ROWS_MAX`] rows in listing-id order, immutable but for their deadlines.
//!
//! All rows of a chunk share one buffer, each followed by a comma, so that a run of rows is one slice. Deadlines are
//! atomics: the writer moves them in place (rule S4). Readers compare one lower bound per chunk, in the common
//! case; below it one per group of rows, and only in a group with an ended lease each row.
//! One writer at a time stores; readers load relaxed, because each deadline stands for itself and whoever learns of
//! an acknowledgement learns of the stores before it (model `removal_is_seen`).

use super::super::row::row_digest;
use super::ranks::Ranks;
use crate::domain::{ListingId, MonoTime};
use crate::sync::{Arc, AtomicU64, Ordering};
use bytes::Bytes;
use std::ops::Range;

/// Most rows in one chunk: a page of 50 touches two, and a rewrite copies about 20 KB. One bit each in a mask.
pub(crate) const ROWS_MAX: usize = 64;
/// A chunk below this is merged with a neighbour, so that pages stay few slices.
pub(crate) const ROWS_MIN: usize = 16;
/// Rows that share one lower bound of their deadlines.
const GROUP: usize = 8;

/// One row to be put into a chunk.
pub(crate) struct Entry {
    pub(crate) id: ListingId,
    pub(crate) public: bool,
    pub(crate) deadline: MonoTime,
    pub(crate) row: Box<[u8]>,
}

/// What is looked up for a row, together: mostly one cache line.
#[derive(Debug)]
struct Row {
    /// Upper and lower half, so that a row needs no padding.
    id: [u64; 2],
    deadline: AtomicU64,
    /// Sum of the rows' digests up to and with this one: a run's digest is one difference.
    sum: u64,
    /// Where it ends in the chunk's JSON, its comma included.
    end: u32,
}

impl Row {
    #[inline]
    fn id(&self) -> ListingId {
        ListingId(u128::from(self.id[0]) << 64 | u128::from(self.id[1]))
    }

    #[inline]
    fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The publication that it is first part of; see [`super::publisher`].
    pub(crate) epoch: u64,
    /// Bit i: row i is public.
    public: u64,
    /// At or before every deadline.
    earliest: AtomicU64,
    rows: Box<[Row]>,
    json: Bytes,
    ranks: Ranks<ROWS_MAX>,
    /// At or before every deadline of each group of rows.
    group_earliest: [AtomicU64; ROWS_MAX / GROUP],
}

impl Chunk {
    /// Builds a chunk from the rows of `parts`, in order.
    fn build(epoch: u64, rows: &[RowRef<'_>]) -> Arc<Self> {
        debug_assert!(rows.len() <= ROWS_MAX && rows.windows(2).all(|pair| pair[0].id < pair[1].id));
        let mut json = Vec::with_capacity(rows.iter().map(|row| row.json.len() + 1).sum());
        let (mut public, mut sum) = (0, 0_u64);
        let mut earliest = [u64::MAX; ROWS_MAX / GROUP];
        let mut kept = Vec::with_capacity(rows.len());
        for (position, row) in rows.iter().enumerate() {
            json.extend_from_slice(row.json);
            json.push(b',');
            sum = sum.wrapping_add(row.digest);
            let id = [(row.id.0 >> 64) as u64, row.id.0 as u64];
            kept.push(Row { id, deadline: AtomicU64::new(row.deadline), sum, end: json.len() as u32 });
            public |= u64::from(row.public) << position;
            earliest[position / GROUP] = earliest[position / GROUP].min(row.deadline);
        }
        Arc::new(Self {
            epoch,
            public,
            earliest: AtomicU64::new(earliest.into_iter().min().unwrap_or(u64::MAX)),
            rows: kept.into(),
            json: json.into(),
            ranks: Ranks::new(rows.len(), |position| rows[position].id),
            group_earliest: earliest.map(AtomicU64::new),
        })
    }

    pub(crate) fn single(epoch: u64, entry: &Entry) -> Arc<Self> {
        Self::build(epoch, &[entry.as_row()])
    }

    /// A copy with `entry` put in or replaced; two chunks when one would be too large.
    pub(crate) fn with(&self, epoch: u64, entry: &Entry) -> (Arc<Self>, Option<Arc<Self>>) {
        let mut rows: Vec<RowRef<'_>> = self.row_refs().collect();
        match self.rows.binary_search_by_key(&entry.id, Row::id) {
            Ok(position) => rows[position] = entry.as_row(),
            Err(position) => rows.insert(position, entry.as_row()),
        }
        if rows.len() <= ROWS_MAX {
            return (Self::build(epoch, &rows), None);
        }
        // Ids grow with time: a chunk that overflows at its end stays full, and its successor begins.
        let appended = rows.last().is_some_and(|last| last.id == entry.id);
        let middle = if appended { ROWS_MAX } else { rows.len() / 2 };
        (Self::build(epoch, &rows[..middle]), Some(Self::build(epoch, &rows[middle..])))
    }

    /// A copy without `position`; none when it was the last row.
    pub(crate) fn without(&self, epoch: u64, position: usize) -> Option<Arc<Self>> {
        let mut rows: Vec<RowRef<'_>> = self.row_refs().collect();
        rows.remove(position);
        (!rows.is_empty()).then(|| Self::build(epoch, &rows))
    }

    /// Both chunks in one, when they fit well.
    pub(crate) fn merged(&self, epoch: u64, next: &Self) -> Option<Arc<Self>> {
        let fits = self.len().min(next.len()) < ROWS_MIN && self.len() + next.len() <= ROWS_MAX - ROWS_MIN;
        fits.then(|| Self::build(epoch, &self.row_refs().chain(next.row_refs()).collect::<Vec<_>>()))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn id(&self, position: usize) -> ListingId {
        self.rows[position].id()
    }

    pub(crate) fn first_id(&self) -> ListingId {
        self.rows[0].id()
    }

    pub(crate) fn find(&self, id: ListingId) -> Option<usize> {
        self.ranks.find(id, |position| self.rows[position].id())
    }

    /// The position of the first row after `id`.
    #[inline]
    pub(crate) fn after(&self, id: ListingId) -> usize {
        self.ranks.up_to(id, |position| self.rows[position].id())
    }

    pub(crate) fn row(&self, position: usize) -> &[u8] {
        let bytes = self.bytes_of(position..position + 1);
        &self.json[bytes.start..bytes.end - 1]
    }

    pub(crate) fn deadline(&self, position: usize) -> MonoTime {
        MonoTime(self.rows[position].deadline())
    }

    /// Moves one deadline, keeping the lower bounds exact. Only the writer calls it.
    pub(crate) fn move_deadline(&self, position: usize, deadline: MonoTime) {
        let before = self.rows[position].deadline();
        self.rows[position].deadline.store(deadline.0, Ordering::Relaxed);
        let group = position / GROUP;
        let bound = self.group_earliest[group].load(Ordering::Relaxed);
        // Most moves are of a row that no bound depends on.
        if before > bound && deadline.0 >= bound {
            return;
        }
        let first = group * GROUP;
        let rows = &self.rows[first..self.len().min(first + GROUP)];
        self.group_earliest[group].store(least(rows.iter().map(Row::deadline)), Ordering::Relaxed);
        let bounds = self.group_earliest.iter().map(|bound| bound.load(Ordering::Relaxed));
        self.earliest.store(least(bounds), Ordering::Relaxed);
    }

    /// The rows that browsing shows at `now`, one bit each; those outside of `wanted` may be missing.
    #[inline]
    pub(crate) fn visible(&self, now: MonoTime, wanted: Range<usize>) -> u64 {
        if self.earliest.load(Ordering::Relaxed) > now.0 {
            return self.public;
        }
        let mut visible = self.public;
        for group in wanted.start / GROUP..wanted.end.div_ceil(GROUP) {
            if self.group_earliest[group].load(Ordering::Relaxed) > now.0 {
                continue;
            }
            let first = group * GROUP;
            for position in first..self.len().min(first + GROUP) {
                let is_live = self.rows[position].deadline() > now.0;
                visible &= !(u64::from(!is_live) << position);
            }
        }
        visible
    }

    /// The sum of the digests of the rows before `position`.
    fn digest_before(&self, position: usize) -> u64 {
        position.checked_sub(1).map_or(0, |last| self.rows[last].sum)
    }

    /// Where adjacent rows are in the JSON, with the last comma.
    #[inline]
    fn bytes_of(&self, rows: Range<usize>) -> Range<usize> {
        let start = rows.start.checked_sub(1).map_or(0, |before| self.rows[before].end);
        start as usize..self.rows[rows.end - 1].end as usize
    }

    fn row_refs(&self) -> impl Iterator<Item = RowRef<'_>> {
        (0..self.len()).map(|position| RowRef {
            id: self.rows[position].id(),
            public: self.public >> position & 1 == 1,
            deadline: self.deadline(position).0,
            digest: self.digest_before(position + 1).wrapping_sub(self.digest_before(position)),
            json: self.row(position),
        })
    }
}

impl Entry {
    fn as_row(&self) -> RowRef<'_> {
        RowRef {
            id: self.id,
            public: self.public,
            deadline: self.deadline.0,
            digest: row_digest(&self.row),
            json: &self.row,
        }
    }
}

struct RowRef<'a> {
    id: ListingId,
    public: bool,
    deadline: u64,
    digest: u64,
    json: &'a [u8],
}

/// The least of some deadlines.
fn least(deadlines: impl Iterator<Item = u64>) -> u64 {
    deadlines.min().unwrap_or(u64::MAX)
}

/// The rows of one chunk that belong to a page.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    chunk: &'a Chunk,
    rows: u64,
}

impl<'a> Segment<'a> {
    pub(crate) fn new(chunk: &'a Chunk, rows: u64) -> Self {
        Self { chunk, rows }
    }

    /// Runs of adjacent rows.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let mut rest = self.rows;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros();
            let run = rest.checked_shr(first)?.trailing_ones();
            // Adding at the lowest set bit carries through the run and clears it.
            rest &= rest.wrapping_add(1 << first);
            Some(first as usize..(first + run) as usize)
        })
    }

    /// Calls `f` with the bytes of each run of adjacent rows, without the last comma.
    #[inline]
    pub(crate) fn for_each_run(&self, f: &mut impl FnMut(&[u8])) {
        for run in self.runs() {
            let bytes = self.chunk.bytes_of(run);
            f(&self.chunk.json[bytes.start..bytes.end - 1]);
        }
    }

    /// Calls `f` with the bytes of each run of adjacent rows, with the last comma.
    pub(crate) fn for_each_shared_run(&self, f: &mut impl FnMut(Bytes)) {
        self.runs().for_each(|run| f(self.chunk.json.slice(self.chunk.bytes_of(run))));
    }

    /// Adds the digests of the rows.
    pub(crate) fn add_digest(&self, sum: u64) -> u64 {
        self.runs().fold(sum, |sum, run| {
            let (start, end) = (self.chunk.digest_before(run.start), self.chunk.digest_before(run.end));
            sum.wrapping_add(end).wrapping_sub(start)
        })
    }
}
