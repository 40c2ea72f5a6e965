//! The published view: one root over scopes of chunk trees, and the way readers take a page from it.
//!
//! A browse reads one root (S3). It finds its scope by the 32-bit tag in two steps of a 64-ary table, seeks its
//! cursor by counting keys, and collects masks of visible rows; nothing is copied, counted or allocated (S8).

use super::chunk::{Chunk, Segment};
use super::tree::{Found, Tree};
use crate::domain::{Filter, ListingId, MonoTime, Scope, TenantId, WallTime};
use crate::store::page::{BrowseQuery, EXAMINED_MAX, PageView, Runs};
use crate::store::row::row_matches;
use crate::sync::Arc;

/// Slots per level of the scope table.
const FANOUT: usize = 64;
/// Chunks of most pages: 50 rows touch two, and a third behind a small one.
const SEGMENTS_FEW: usize = 4;
/// Most chunks of one page; a page that would need more is short, with a cursor. Neighbours that fit into one chunk are
/// merged, so this is more than [`EXAMINED_MAX`] rows reach.
const SEGMENTS_MAX: usize = 40;

/// One scope's rows.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRows {
    pub(crate) scope: Scope,
    pub(crate) tree: Tree,
}

/// Scopes whose tags share their upper twelve bits.
type Bucket = Vec<ScopeRows>;
type Buckets = [Bucket; FANOUT];

/// All scopes with visible rows, as a persistent two-level table.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    top: Arc<[Option<Arc<Buckets>>; FANOUT]>,
}

impl ScopeTable {
    pub(crate) fn new() -> Self {
        Self { top: Arc::new([const { None }; FANOUT]) }
    }

    #[inline]
    fn bucket(&self, tag: u32) -> &[ScopeRows] {
        let (high, low) = slots(tag);
        self.top[high].as_ref().map_or(&[], |middle| &middle[low])
    }

    /// The scope's rows. A cursor of this scope ends with its tag, which saves hashing the name.
    #[inline]
    fn rows_of(&self, query: &BrowseQuery<'_>) -> Option<&ScopeRows> {
        let in_bucket = |tag| self.bucket(tag).iter().find(|rows| rows.scope.is(query.tenant, query.protocol));
        let by_cursor = query.after.and_then(|cursor| in_bucket(cursor.tag()));
        by_cursor.or_else(|| in_bucket(Scope::tag(query.tenant, query.protocol)))
    }

    /// The row with this id: its tag names the scopes where it can be.
    fn find(&self, tenant: TenantId, id: ListingId) -> Option<(&Chunk, usize)> {
        let bucket = self.bucket(id.tag()).iter().filter(|rows| rows.scope.tenant == tenant);
        bucket.filter_map(|rows| rows.tree.find(id)).map(|found| (found.chunk, found.position)).next()
    }

    /// The chunk and position of a row whose scope is known.
    pub(crate) fn find_in(&self, scope: &Scope, id: ListingId) -> Option<(&Chunk, usize)> {
        let rows = self.bucket(id.tag()).iter().find(|rows| rows.is_of(scope))?;
        let found = rows.tree.find(id)?;
        Some((found.chunk, found.position))
    }

    /// The bucket of the scope that the id belongs to, copied if it is shared with a snapshot.
    pub(crate) fn bucket_mut(&mut self, id: ListingId) -> &mut Bucket {
        let (high, low) = slots(id.tag());
        let middle = Arc::make_mut(&mut self.top)[high].get_or_insert_with(|| Arc::new([const { Vec::new() }; FANOUT]));
        &mut Arc::make_mut(middle)[low]
    }
}

impl ScopeRows {
    pub(crate) fn is_of(&self, scope: &Scope) -> bool {
        // The same allocation is the same protocol, and mostly it is the same.
        self.scope.tenant == scope.tenant
            && (Arc::ptr_eq(&self.scope.protocol, &scope.protocol) || self.scope.protocol == scope.protocol)
    }
}

#[inline]
fn slots(tag: u32) -> (usize, usize) {
    (tag as usize >> 26, tag as usize >> 20 & (FANOUT - 1))
}

/// What readers see: exactly the visible projection after the transitions up to `commit`.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) commit: u64,
    pub(crate) published_at: MonoTime,
    pub(crate) drain: Option<(MonoTime, WallTime)>,
    pub(crate) scopes: ScopeTable,
}

impl Root {
    /// Hands the page at `now` to `use_page`.
    #[inline]
    pub(crate) fn page<R>(
        &self,
        query: &BrowseQuery<'_>,
        now: MonoTime,
        use_page: impl FnOnce(&PageView<'_>) -> R,
    ) -> R {
        let empty = PageView { commit: self.commit, next: None, count: 0, runs: Runs::Chunks(&[]) };
        let Some(scope) = self.scopes.rows_of(query) else { return use_page(&empty) };
        let Some(first) = scope.tree.seek(query.after) else { return use_page(&empty) };
        let limit = query.limit.max(1);
        if let Some(filter) = query.filter {
            return use_page(&Gathered::matching(&scope.tree, first, limit, now, filter).view(self.commit));
        }
        let take = move |chunk: &Chunk, start, wanted, room| take_rows(chunk, start, wanted, room, now);
        let few = Gathered::<SEGMENTS_FEW>::gather(&scope.tree, first, limit, take);
        if !few.is_cut_short {
            return use_page(&few.view(self.commit));
        }
        // Rows that are far apart: begun again with room for as many chunks as a page may touch.
        let many = Gathered::<SEGMENTS_MAX>::gather(&scope.tree, first, limit, take);
        use_page(&many.view(self.commit))
    }

    /// Hands one fresh row, public or not, to `use_row`.
    pub(crate) fn row<R>(
        &self,
        tenant: TenantId,
        id: ListingId,
        now: MonoTime,
        use_row: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (chunk, position) = self.scopes.find(tenant, id)?;
        (chunk.deadline(position) > now).then(|| use_row(chunk.row(position)))
    }
}

/// The chunks of one page, at most `N`.
struct Gathered<'a, const N: usize> {
    segments: [Segment<'a>; N],
    used: usize,
    count: usize,
    next: Option<ListingId>,
    /// Whether the page ended because there was no room for another chunk.
    is_cut_short: bool,
}

impl<'a> Gathered<'a, SEGMENTS_MAX> {
    /// The rows that match. Apart from where nothing is filtered, which costs less than one row here.
    #[inline(never)]
    fn matching(tree: &'a Tree, first: Found<'a>, limit: usize, now: MonoTime, filter: &Filter) -> Self {
        Self::gather(tree, first, limit, |chunk, start, wanted, room| {
            take_matching_rows(chunk, start, wanted, room, now, filter)
        })
    }
}

impl<'a, const N: usize> Gathered<'a, N> {
    /// `take` is asked for rows of each chunk: from a position on, so many, examining so many.
    #[inline]
    fn gather(
        tree: &'a Tree,
        first: Found<'a>,
        limit: usize,
        take: impl Fn(&Chunk, usize, usize, usize) -> Taken,
    ) -> Self {
        let segments = [Segment::new(first.chunk, 0); N];
        let mut page = Self { segments, used: 0, count: 0, next: None, is_cut_short: false };
        let mut examined = 0;
        let mut place = first;
        loop {
            let (chunk, start) = (place.chunk, place.position);
            let taken = take(chunk, start, limit - page.count, EXAMINED_MAX - examined);
            if taken.rows != 0 {
                page.segments[page.used] = Segment::new(chunk, taken.rows);
                page.used += 1;
            }
            page.count += taken.count;
            examined += taken.last + 1 - start;
            let is_full = page.count == limit || examined >= EXAMINED_MAX;
            page.is_cut_short = !is_full && page.used == N;
            let following = if taken.last + 1 < chunk.len() { Some(place) } else { tree.following(&place) };
            match following {
                Some(next) if !is_full && !page.is_cut_short => place = next,
                Some(_) => page.next = Some(chunk.id(taken.last)),
                None => page.is_cut_short = false,
            }
            if following.is_none() || page.next.is_some() {
                return page;
            }
        }
    }

    #[inline]
    fn view(&self, commit: u64) -> PageView<'_> {
        PageView { commit, next: self.next, count: self.count, runs: Runs::Chunks(&self.segments[..self.used]) }
    }
}

/// What a page takes from one chunk.
struct Taken {
    rows: u64,
    count: usize,
    /// The last row examined.
    last: usize,
}

/// Takes up to `wanted` visible rows from `start` on, examining at most `room`. Rows after the last wanted one are not
/// examined, so that the cursor stays as early as it can.
#[inline]
fn take_rows(chunk: &Chunk, start: usize, wanted: usize, room: usize, now: MonoTime) -> Taken {
    let end = chunk.len().min(start + room);
    let visible = chunk.visible(now, start..end);
    let mut hidden = !visible & bits(start, end);
    // Each hidden row before the last wanted one moves it on by one.
    let mut last = start + wanted - 1;
    let mut passed = 0;
    while hidden != 0 && hidden.trailing_zeros() as usize <= last {
        hidden &= hidden - 1;
        last += 1;
        passed += 1;
    }
    let last = last.min(end - 1);
    Taken { rows: visible & bits(start, last + 1), count: last + 1 - start - passed, last }
}

/// Like [`take_rows`], of the visible rows those that match.
fn take_matching_rows(
    chunk: &Chunk,
    start: usize,
    wanted: usize,
    room: usize,
    now: MonoTime,
    filter: &Filter,
) -> Taken {
    let end = chunk.len().min(start + room);
    let mut left = chunk.visible(now, start..end) & bits(start, end);
    let (mut rows, mut count) = (0, 0);
    while left != 0 {
        let position = left.trailing_zeros() as usize;
        left &= left - 1;
        if row_matches(chunk.row(position), filter) {
            rows |= 1 << position;
            count += 1;
        }
        if count == wanted {
            return Taken { rows, count, last: position };
        }
    }
    Taken { rows, count, last: end - 1 }
}

/// The bits from `start` to before `end`, at least one.
#[inline]
fn bits(start: usize, end: usize) -> u64 {
    (u64::MAX << start) & (u64::MAX >> (64 - end))
}
