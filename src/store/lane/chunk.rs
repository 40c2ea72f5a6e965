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

    /// A copy, so many bytes and digests further on.
    fn moved(&self, bytes: u32, digests: u64) -> Self {
        let (sum, end) = (self.sum.wrapping_add(digests), self.end.wrapping_add(bytes));
        Self { id: self.id, deadline: AtomicU64::new(self.deadline()), sum, end }
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
    /// Bit i: row i has ended and goes with the next rewrite. Only the writer looks; readers go by the deadline.
    ended: AtomicU64,
}

impl Chunk {
    /// Builds a chunk from the rows of `parts`, in order.
    fn build(epoch: u64, rows: &[RowRef<'_>]) -> Arc<Self> {
        debug_assert!(rows.len() <= ROWS_MAX && rows.windows(2).all(|pair| pair[0].id < pair[1].id));
        let mut json = Vec::with_capacity(rows.iter().map(|row| row.json.len() + 1).sum());
        let (mut public, mut sum) = (0, 0_u64);
        let mut kept = Vec::with_capacity(rows.len());
        for (position, row) in rows.iter().enumerate() {
            sum = row.append_to(&mut kept, &mut json, sum);
            public |= u64::from(row.public) << position;
        }
        let ranks = Ranks::new(rows.len(), |position| rows[position].id);
        Self::assemble(epoch, kept, json, ranks, public, 0)
    }

    fn assemble(
        epoch: u64,
        rows: Vec<Row>,
        json: Vec<u8>,
        ranks: Ranks<ROWS_MAX>,
        public: u64,
        ended: u64,
    ) -> Arc<Self> {
        let mut bounds = [u64::MAX; ROWS_MAX / GROUP];
        for (bound, group) in bounds.iter_mut().zip(rows.chunks(GROUP)) {
            *bound = least(group.iter().map(Row::deadline));
        }
        Arc::new(Self {
            epoch,
            public,
            earliest: AtomicU64::new(least(bounds.into_iter())),
            rows: rows.into(),
            json: json.into(),
            ranks,
            group_earliest: bounds.map(AtomicU64::new),
            ended: AtomicU64::new(ended),
        })
    }

    pub(crate) fn single(epoch: u64, entry: &Entry) -> Arc<Self> {
        Self::build(epoch, &[entry.as_row()])
    }

    /// A copy with `entry` put in or replaced; two chunks when one would be too large.
    pub(crate) fn with(&self, epoch: u64, entry: &Entry) -> (Arc<Self>, Option<Arc<Self>>) {
        match self.rows.binary_search_by_key(&entry.id, Row::id) {
            Ok(position) => return (self.spliced(epoch, position, 1, Some(entry)), None),
            Err(position) if self.len() < ROWS_MAX => return (self.spliced(epoch, position, 0, Some(entry)), None),
            Err(_full) => {}
        }
        let mut rows: Vec<RowRef<'_>> = self.lasting_rows().collect();
        let position = rows.partition_point(|row| row.id < entry.id);
        rows.insert(position, entry.as_row());
        if rows.len() <= ROWS_MAX {
            return (Self::build(epoch, &rows), None);
        }
        // Ids grow with time: a chunk that overflows at its end stays full, and its successor begins.
        let middle = if position == ROWS_MAX { ROWS_MAX } else { rows.len() / 2 };
        (Self::build(epoch, &rows[..middle]), Some(Self::build(epoch, &rows[middle..])))
    }

    /// A copy without `position`, and without what has ended; none when nothing is left.
    pub(crate) fn without(&self, epoch: u64, position: usize) -> Option<Arc<Self>> {
        let ended = self.ended.fetch_or(1 << position, Ordering::Relaxed) & !(1 << position);
        if ended == 0 {
            return (self.len() > 1).then(|| self.spliced(epoch, position, 1, None));
        }
        let rows: Vec<RowRef<'_>> = self.lasting_rows().collect();
        (!rows.is_empty()).then(|| Self::build(epoch, &rows))
    }

    /// Notes that a row has ended, which readers know by its deadline. True once a quarter of the rows have: then a
    /// rewrite takes them out together, where one each would copy the chunk as often as it has rows.
    pub(crate) fn end(&self, position: usize) -> bool {
        let ended = self.ended.fetch_or(1 << position, Ordering::Relaxed) | 1 << position;
        ended.count_ones() as usize * 4 >= self.len()
    }

    /// A copy in which `removed` rows from `at` on, none or one, give way to `entry`: what stays is copied as it lies.
    fn spliced(&self, epoch: u64, at: usize, removed: usize, entry: Option<&Entry>) -> Arc<Self> {
        let put = entry.map(Entry::as_row);
        let (head_end, tail_start) = (self.end_before(at), self.end_before(at + removed));
        let put_len = put.as_ref().map_or(0, |row| row.json.len() + 1);
        let mut json = Vec::with_capacity(self.json.len() - (tail_start - head_end) + put_len);
        json.extend_from_slice(&self.json[..head_end]);
        let mut rows = Vec::with_capacity(self.len() - removed + usize::from(put.is_some()));
        rows.extend(self.rows[..at].iter().map(|row| row.moved(0, 0)));
        let mut sum = self.digest_before(at);
        if let Some(row) = &put {
            sum = row.append_to(&mut rows, &mut json, sum);
        }
        let bytes = (json.len() as u32).wrapping_sub(tail_start as u32);
        let digests = sum.wrapping_sub(self.digest_before(at + removed));
        json.extend_from_slice(&self.json[tail_start..]);
        rows.extend(self.rows[at + removed..].iter().map(|row| row.moved(bytes, digests)));
        let ranks = match (removed, entry) {
            (1, Some(_same_id)) => self.ranks.clone(),
            (_, Some(_)) | (_, None) => Ranks::new(rows.len(), |position| rows[position].id()),
        };
        let public = spliced_bits(self.public, at, removed, put.map(|row| row.public));
        let ended = spliced_bits(self.ended.load(Ordering::Relaxed), at, removed, entry.map(|_| false));
        Self::assemble(epoch, rows, json, ranks, public, ended)
    }

    /// Both chunks in one, as soon as they fit. A full one is what listings are put into in the order of their making,
    /// and it takes half of its rows to go until it is merged again.
    pub(crate) fn merged(&self, epoch: u64, next: &Self) -> Option<Arc<Self>> {
        let fits = self.lasting() + next.lasting() <= ROWS_MAX;
        fits.then(|| Self::build(epoch, &self.lasting_rows().chain(next.lasting_rows()).collect::<Vec<_>>()))
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
        self.end_before(rows.start)..self.rows[rows.end - 1].end as usize
    }

    /// Where the rows before `position` end in the JSON.
    #[inline]
    fn end_before(&self, position: usize) -> usize {
        position.checked_sub(1).map_or(0, |last| self.rows[last].end as usize)
    }

    /// How many rows have not ended.
    fn lasting(&self) -> usize {
        self.len() - self.ended.load(Ordering::Relaxed).count_ones() as usize
    }

    /// The rows that have not ended.
    fn lasting_rows(&self) -> impl Iterator<Item = RowRef<'_>> {
        let ended = self.ended.load(Ordering::Relaxed);
        (0..self.len()).filter(move |position| ended >> position & 1 == 0).map(|position| RowRef {
            id: self.rows[position].id(),
            public: self.public >> position & 1 == 1,
            deadline: self.deadline(position).0,
            digest: self.digest_before(position + 1).wrapping_sub(self.digest_before(position)),
            json: self.row(position),
        })
    }
}

/// The bits with `removed` of them from `at` on taken out, none or one, and `put` there in their place.
fn spliced_bits(bits: u64, at: usize, removed: usize, put: Option<bool>) -> u64 {
    let upper = |bits: u64, from: usize| bits.checked_shr(from as u32).unwrap_or(0);
    let shifted = |bits: u64, by: usize| bits.checked_shl(by as u32).unwrap_or(0);
    let head = bits & !shifted(u64::MAX, at);
    let tail = shifted(upper(bits, at + removed), at + usize::from(put.is_some()));
    head | shifted(u64::from(put == Some(true)), at) | tail
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

impl RowRef<'_> {
    /// Puts the row behind others whose digests come to `sum`, and returns what they come to with its own.
    fn append_to(&self, rows: &mut Vec<Row>, json: &mut Vec<u8>, sum: u64) -> u64 {
        json.extend_from_slice(self.json);
        json.push(b',');
        let (id, sum) = ([(self.id.0 >> 64) as u64, self.id.0 as u64], sum.wrapping_add(self.digest));
        rows.push(Row { id, deadline: AtomicU64::new(self.deadline), sum, end: json.len() as u32 });
        sum
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, text: u64) -> Entry {
        let row = format!("{{\"n\":{text}}}").into_bytes().into_boxed_slice();
        let (id, public) = (ListingId(id.into()), !text.is_multiple_of(3));
        Entry { id, public, deadline: MonoTime(1_000 + text), row }
    }

    /// Everything that a chunk says about itself.
    fn all(chunk: &Chunk) -> Vec<(ListingId, bool, u64, u64, Vec<u8>)> {
        let row = |row: RowRef<'_>| (row.id, row.public, row.deadline, row.digest, row.json.to_vec());
        chunk.lasting_rows().map(row).collect()
    }

    #[test]
    fn a_splice_is_what_building_anew_would_be() {
        let mut chunk = Chunk::single(0, &entry(500, 0));
        let mut random = 17_u64;
        for step in 1..4_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (random >> 40) % 90 + 1;
            chunk = match chunk.find(ListingId(id.into())) {
                Some(position) if random.is_multiple_of(3) => chunk.without(step, position).unwrap_or(chunk),
                Some(_) | None => chunk.with(step, &entry(id, random >> 50)).0,
            };
            let rows: Vec<RowRef<'_>> = chunk.lasting_rows().collect();
            let anew = Chunk::build(step, &rows);
            assert_eq!(all(&chunk), all(&anew));
            let bounds =
                |chunk: &Chunk| chunk.group_earliest.iter().map(|b| b.load(Ordering::Relaxed)).collect::<Vec<_>>();
            assert_eq!(bounds(&chunk), bounds(&anew));
            assert_eq!(chunk.earliest.load(Ordering::Relaxed), anew.earliest.load(Ordering::Relaxed));
            assert!((0..chunk.len()).all(|position| chunk.find(chunk.id(position)) == Some(position)));
        }
    }

    #[test]
    fn rows_that_ended_go_together_with_the_rewrite_that_a_quarter_of_them_asks_for() {
        let mut chunk = Chunk::single(0, &entry(1, 1));
        (2..=40).for_each(|id| chunk = chunk.with(0, &entry(id, id)).0);
        let asked: Vec<bool> = (0..10).map(|position| chunk.end(position * 4)).collect();
        assert_eq!(asked, [[false; 9].as_slice(), &[true]].concat());
        assert_eq!(chunk.len(), 40, "until then they lie where they were");
        let rest = chunk.without(1, 36).unwrap();
        assert_eq!(rest.len(), 30);
        assert!((0..10).all(|n| rest.find(ListingId(n * 4 + 1)).is_none()));
    }

    #[test]
    fn a_row_that_comes_back_has_not_ended_any_more() {
        let mut chunk = Chunk::single(0, &entry(1, 1));
        (2..=8).for_each(|id| chunk = chunk.with(0, &entry(id, id)).0);
        assert!(!chunk.end(3));
        let back = chunk.with(1, &entry(4, 44)).0;
        assert_eq!(back.lasting_rows().count(), 8);
        let inserted_before = chunk.with(1, &entry(0, 9)).0;
        let ended = inserted_before.ended.load(Ordering::Relaxed);
        assert_eq!((inserted_before.len(), ended), (9, 1 << 4), "the note moves with its row");
    }
}
