//! The published view: one root over scopes of chunk trees, and the way readers take a page from it.
//!
//! A browse reads one root (S3). It finds its scope by the 32-bit tag in two steps of a 64-ary table, seeks its cursor
//! by binary search, and collects masks of visible rows; nothing is copied, counted or allocated (S8).

use super::chunk::{Chunk, Segment};
use super::tree::Tree;
use crate::domain::{ListingId, MonoTime, Scope, TenantId, WallTime};
use crate::store::page::{BrowseQuery, EXAMINED_MAX, PageView, Runs};
use crate::sync::Arc;

/// Slots per level of the scope table.
const FANOUT: usize = 64;
/// Most chunks of one page; a page that would need more is short, with a cursor. With chunks of 16 rows and more,
/// this is more than [`EXAMINED_MAX`] rows reach.
const SEGMENTS_MAX: usize = 40;

/// One scope's rows.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRows {
    pub(crate) scope: Scope,
    pub(crate) tree: Tree,
}

/// Scopes whose tags share their upper twelve bits.
type Bucket = Vec<ScopeRows>;

/// All scopes with visible rows, as a persistent two-level table.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    top: Arc<Vec<Option<Arc<Vec<Bucket>>>>>,
}

impl ScopeTable {
    pub(crate) fn new() -> Self {
        Self { top: Arc::new(vec![None; FANOUT]) }
    }

    fn bucket(&self, tag: u32) -> &[ScopeRows] {
        let (high, low) = slots(tag);
        self.top[high].as_ref().map_or(&[], |middle| &middle[low])
    }

    fn rows_of(&self, tenant: TenantId, protocol: &str) -> Option<&ScopeRows> {
        let bucket = self.bucket(Scope::tag(tenant, protocol));
        bucket.iter().find(|rows| rows.scope.tenant == tenant && *rows.scope.protocol == *protocol)
    }

    /// The row with this id: its tag names the scopes where it can be.
    fn find(&self, tenant: TenantId, id: ListingId) -> Option<(&Chunk, usize)> {
        let bucket = self.bucket(id.tag()).iter().filter(|rows| rows.scope.tenant == tenant);
        bucket.filter_map(|rows| rows.tree.find(id)).map(|found| (&**found.chunk, found.position)).next()
    }

    /// The chunk and position of a row whose scope is known.
    pub(crate) fn find_in(&self, scope: &Scope, id: ListingId) -> Option<(&Chunk, usize)> {
        let found = self.rows_of(scope.tenant, &scope.protocol)?.tree.find(id)?;
        Some((found.chunk, found.position))
    }

    /// The scope's bucket, copied if it is shared with a snapshot.
    pub(crate) fn bucket_mut(&mut self, scope: &Scope) -> &mut Bucket {
        let (high, low) = slots(Scope::tag(scope.tenant, &scope.protocol));
        let middle = Arc::make_mut(&mut self.top)[high].get_or_insert_with(|| Arc::new(vec![Vec::new(); FANOUT]));
        &mut Arc::make_mut(middle)[low]
    }
}

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
    pub(crate) fn page<R>(
        &self,
        query: &BrowseQuery<'_>,
        now: MonoTime,
        use_page: impl FnOnce(&PageView<'_>) -> R,
    ) -> R {
        let limit = query.limit.max(1);
        let empty = PageView { commit: self.commit, next: None, count: 0, runs: Runs::Chunks(&[]) };
        let Some(scope) = self.scopes.rows_of(query.tenant, query.protocol) else { return use_page(&empty) };
        let Some(first) = scope.tree.seek(query.after) else { return use_page(&empty) };
        let mut segments = [Segment::new(first.chunk, 0); SEGMENTS_MAX];
        let mut used = 0;
        let (mut count, mut examined) = (0, 0);
        let (mut chunk, mut start) = (&**first.chunk, first.position);
        let next = loop {
            let wanted = limit - count;
            let room = EXAMINED_MAX - examined;
            let (rows, last) = take_rows(chunk, start, wanted, room, now);
            segments[used] = Segment::new(chunk, rows);
            used += usize::from(rows != 0);
            count += rows.count_ones() as usize;
            examined += last + 1 - start;
            let last_id = chunk.id(last);
            let in_chunk = last + 1 < chunk.len();
            let following = if in_chunk { None } else { scope.tree.seek(Some(last_id)) };
            if count == limit || examined >= EXAMINED_MAX || used == SEGMENTS_MAX {
                break (in_chunk || following.is_some()).then_some(last_id);
            }
            match following {
                Some(found) => (chunk, start) = (found.chunk, found.position),
                None => break None,
            }
        };
        use_page(&PageView { commit: self.commit, next, count, runs: Runs::Chunks(&segments[..used]) })
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

/// Takes up to `wanted` visible rows from `start` on, examining at most `room`; the mask and the last row examined.
fn take_rows(chunk: &Chunk, start: usize, wanted: usize, room: usize, now: MonoTime) -> (u64, usize) {
    let end = chunk.len().min(start + room);
    let window = (u64::MAX << start) & (u64::MAX >> (64 - end));
    let mut rows = chunk.visible(now) & window;
    if rows.count_ones() as usize <= wanted {
        // Rows after the last wanted one are not examined, so that the cursor stays as early as it can.
        return match rows.count_ones() as usize == wanted {
            true => (rows, rows.ilog2() as usize),
            false => (rows, end - 1),
        };
    }
    let mut after = rows;
    for _ in 0..wanted {
        after &= after - 1;
    }
    rows ^= after;
    (rows, rows.ilog2() as usize)
}
