//! Chunks: runs of up to [`ROWS_MAX`] rows in listing-id order, immutable but for their deadlines.
//!
//! All rows of a chunk share one buffer, each followed by a comma, so that a run of rows is one slice. Deadlines are
//! atomics beside it: the writer moves them in place (rule S4), readers compare one lower bound per chunk first.
//! One writer at a time stores; readers load relaxed, because each deadline stands for itself and whoever learns of
//! an acknowledgement learns of the stores before it (model `removal_is_seen`).

use super::super::page::fold_digest;
use super::super::row::row_digest;
use crate::domain::{ListingId, MonoTime};
use crate::sync::{Arc, AtomicU64, Ordering};
use bytes::Bytes;
use std::ops::Range;

/// Most rows in one chunk: a page of 50 touches two, and a rewrite copies about 20 KB. One bit each in a mask.
pub(crate) const ROWS_MAX: usize = 64;
/// A chunk below this is merged with a neighbour, so that pages stay few slices.
pub(crate) const ROWS_MIN: usize = 16;

/// One row to be put into a chunk.
pub(crate) struct Entry {
    pub(crate) id: ListingId,
    pub(crate) public: bool,
    pub(crate) deadline: MonoTime,
    pub(crate) row: Box<[u8]>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The publication that it is first part of; see [`super::publisher`].
    pub(crate) epoch: u64,
    ids: Box<[ListingId]>,
    /// Where each row ends in `json`, its comma included.
    ends: Box<[u32]>,
    digests: Box<[u64]>,
    /// Bit i: row i is public.
    public: u64,
    json: Bytes,
    deadlines: Box<[AtomicU64]>,
    /// At or before every deadline.
    earliest: AtomicU64,
}

impl Chunk {
    /// Builds a chunk from the rows of `parts`, in order.
    fn build(epoch: u64, rows: &[RowRef<'_>]) -> Arc<Self> {
        debug_assert!(rows.len() <= ROWS_MAX && rows.windows(2).all(|pair| pair[0].id < pair[1].id));
        let mut json = Vec::with_capacity(rows.iter().map(|row| row.json.len() + 1).sum());
        let mut ends = Vec::with_capacity(rows.len());
        let mut public = 0;
        for (position, row) in rows.iter().enumerate() {
            json.extend_from_slice(row.json);
            json.push(b',');
            ends.push(json.len() as u32);
            public |= u64::from(row.public) << position;
        }
        let earliest = rows.iter().map(|row| row.deadline).min().unwrap_or(u64::MAX);
        Arc::new(Self {
            epoch,
            ids: rows.iter().map(|row| row.id).collect(),
            ends: ends.into(),
            digests: rows.iter().map(|row| row.digest).collect(),
            public,
            json: json.into(),
            deadlines: rows.iter().map(|row| AtomicU64::new(row.deadline)).collect(),
            earliest: AtomicU64::new(earliest),
        })
    }

    pub(crate) fn single(epoch: u64, entry: &Entry) -> Arc<Self> {
        Self::build(epoch, &[entry.as_row()])
    }

    /// A copy with `entry` put in or replaced; two chunks when one would be too large.
    pub(crate) fn with(&self, epoch: u64, entry: &Entry) -> (Arc<Self>, Option<Arc<Self>>) {
        let mut rows: Vec<RowRef<'_>> = self.rows().collect();
        match self.ids.binary_search(&entry.id) {
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
        let mut rows: Vec<RowRef<'_>> = self.rows().collect();
        rows.remove(position);
        (!rows.is_empty()).then(|| Self::build(epoch, &rows))
    }

    /// Both chunks in one, when they fit well.
    pub(crate) fn merged(&self, epoch: u64, next: &Self) -> Option<Arc<Self>> {
        let fits = self.len().min(next.len()) < ROWS_MIN && self.len() + next.len() <= ROWS_MAX - ROWS_MIN;
        fits.then(|| Self::build(epoch, &self.rows().chain(next.rows()).collect::<Vec<_>>()))
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, position: usize) -> ListingId {
        self.ids[position]
    }

    pub(crate) fn first_id(&self) -> ListingId {
        self.ids[0]
    }

    pub(crate) fn find(&self, id: ListingId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// The position of the first row after `id`.
    pub(crate) fn after(&self, id: ListingId) -> usize {
        self.ids.partition_point(|known| *known <= id)
    }

    pub(crate) fn row(&self, position: usize) -> &[u8] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.json[start as usize..self.ends[position] as usize - 1]
    }

    pub(crate) fn deadline(&self, position: usize) -> MonoTime {
        MonoTime(self.deadlines[position].load(Ordering::Relaxed))
    }

    /// Moves one deadline, keeping `earliest` exact. Only the writer calls it.
    pub(crate) fn move_deadline(&self, position: usize, deadline: MonoTime) {
        let before = self.deadlines[position].load(Ordering::Relaxed);
        self.deadlines[position].store(deadline.0, Ordering::Relaxed);
        let earliest = self.earliest.load(Ordering::Relaxed);
        if deadline.0 < earliest {
            self.earliest.store(deadline.0, Ordering::Relaxed);
        } else if before == earliest && deadline.0 > before {
            let least = self.deadlines.iter().map(|deadline| deadline.load(Ordering::Relaxed)).min();
            self.earliest.store(least.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The rows that browsing shows at `now`, one bit each.
    pub(crate) fn visible(&self, now: MonoTime) -> u64 {
        if self.earliest.load(Ordering::Relaxed) > now.0 {
            return self.public;
        }
        let live = self.deadlines.iter().enumerate().filter(|(_, deadline)| deadline.load(Ordering::Relaxed) > now.0);
        live.fold(0, |mask, (position, _)| mask | 1 << position) & self.public
    }

    fn rows(&self) -> impl Iterator<Item = RowRef<'_>> {
        (0..self.len()).map(|position| RowRef {
            id: self.ids[position],
            public: self.public >> position & 1 == 1,
            deadline: self.deadline(position).0,
            digest: self.digests[position],
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

    /// Calls `f` with each run of adjacent rows, without the last comma.
    pub(crate) fn for_each_run(&self, f: &mut impl FnMut(&[u8])) {
        self.for_each_range(|range| f(&self.chunk.json[range.start..range.end - 1]));
    }

    /// Calls `f` with each run of adjacent rows, with the last comma.
    pub(crate) fn for_each_shared_run(&self, f: &mut impl FnMut(Bytes)) {
        self.for_each_range(|range| f(self.chunk.json.slice(range)));
    }

    fn for_each_range(&self, mut f: impl FnMut(Range<usize>)) {
        let mut rest = self.rows;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let run = (rest >> first).trailing_ones();
            let end = first + run;
            let start = if first == 0 { 0 } else { self.chunk.ends[first as usize - 1] };
            f(start as usize..self.chunk.ends[end as usize - 1] as usize);
            rest = if end >= 64 { 0 } else { rest & (u64::MAX << end) };
        }
    }

    pub(crate) fn fold_digest(&self, digest: u64) -> u64 {
        let positions = (0..self.chunk.len()).filter(|position| self.rows >> position & 1 == 1);
        positions.fold(digest, |digest, position| fold_digest(digest, self.chunk.digests[position]))
    }
}
