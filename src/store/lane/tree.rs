//! A persistent tree of chunks, ordered by listing id: a change copies one chunk and the path to it.
//!
//! Inner nodes hold at most [`CHILDREN_MAX`] children, so one publication copies O(log n) small nodes. Ids grow with
//! time, so listings are mostly put in at the right and fall away at the left; nodes that become empty are removed
//! and small neighbours merged, and the height follows the number of rows.

use super::chunk::{Chunk, Entry};
use super::ranks::Ranks;
use crate::domain::ListingId;
use crate::sync::Arc;
use arrayvec::ArrayVec;

/// Children of an inner node: copying a node touches one reference count per child.
const CHILDREN_MAX: usize = 24;

/// A subtree. Equal subtrees of two snapshots are the same allocation.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Leaf(Arc<Chunk>),
    Inner(Arc<Inner>),
}

/// Its arrays are part of it, with room for one child more than it keeps: a node is one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    ranks: Ranks<{ CHILDREN_MAX + 1 }>,
    /// The first id of each child at the time it was put there: at or below every id in it.
    firsts: ArrayVec<ListingId, { CHILDREN_MAX + 1 }>,
    children: ArrayVec<Tree, { CHILDREN_MAX + 1 }>,
}

/// A row's place.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) chunk: &'a Chunk,
    pub(crate) position: usize,
    /// The chunks behind this one under the same parent.
    siblings: &'a [Tree],
}

impl Tree {
    pub(crate) fn single(epoch: u64, entry: &Entry) -> Self {
        Self::Leaf(Chunk::single(epoch, entry))
    }

    /// The row with this id.
    pub(crate) fn find(&self, id: ListingId) -> Option<Found<'_>> {
        let mut place = self.descend(|inner| inner.child_for(id));
        place.position = place.chunk.find(id)?;
        Some(place)
    }

    /// The first chunk with a row after `id`, and that row's position in it.
    // Always: a place handed over in memory costs a browse more than finding it.
    #[inline(always)]
    pub(crate) fn seek(&self, after: Option<ListingId>) -> Option<Found<'_>> {
        let mut place = self.descend(|inner| after.map_or(0, |id| inner.child_for(id)));
        place.position = after.map_or(0, |id| place.chunk.after(id));
        // The chunk that would hold the cursor may end with it; then the next one begins after it.
        if place.position < place.chunk.len() { Some(place) } else { self.following(&place) }
    }

    /// The chunk behind a place, from its first row on.
    #[inline]
    pub(crate) fn following<'a>(&'a self, place: &Found<'a>) -> Option<Found<'a>> {
        if let [Self::Leaf(chunk), siblings @ ..] = place.siblings {
            return Some(Found { chunk, position: 0, siblings });
        }
        self.successor_of(place.chunk.first_id())
    }

    /// The leaf behind the one for `id`: once in a node's worth of chunks, by another descent.
    fn successor_of(&self, id: ListingId) -> Option<Found<'_>> {
        let Self::Inner(inner) = self else { return None };
        let child = inner.child_for(id);
        let below = inner.children[child].successor_of(id);
        below.or_else(|| inner.children.get(child + 1).map(|next| next.descend(|_| 0)))
    }

    /// Goes down to a leaf by the children that `choose` names.
    #[inline(always)]
    fn descend(&self, choose: impl Fn(&Inner) -> usize) -> Found<'_> {
        let (mut node, mut siblings) = (self, &[][..]);
        loop {
            match node {
                Self::Leaf(chunk) => return Found { chunk, position: 0, siblings },
                Self::Inner(inner) => {
                    let child = choose(inner);
                    (node, siblings) = (&inner.children[child], &inner.children[child + 1..]);
                }
            }
        }
    }

    /// Puts a row in, or replaces it.
    pub(crate) fn insert(&mut self, epoch: u64, entry: &Entry) {
        if let Some(right) = self.insert_below(epoch, entry) {
            let left = self.clone();
            *self = Self::Inner(Arc::new(Inner::new([left, right].into_iter())));
        }
    }

    /// Returns the right half when the node had to be split.
    fn insert_below(&mut self, epoch: u64, entry: &Entry) -> Option<Self> {
        match self {
            Self::Leaf(chunk) => {
                let (left, right) = chunk.with(epoch, entry);
                *chunk = left;
                right.map(Self::Leaf)
            }
            Self::Inner(inner) => {
                let inner = Arc::make_mut(inner);
                let child = inner.child_for(entry.id);
                inner.lower_first(child, entry.id);
                let right = inner.children[child].insert_below(epoch, entry)?;
                inner.put(child + 1, right);
                inner.split(child + 1).map(|right| Self::Inner(Arc::new(right)))
            }
        }
    }

    /// Takes a row out; false when it was not there. An empty tree is `None`.
    pub(crate) fn remove(tree: &mut Option<Self>, epoch: u64, id: ListingId) -> bool {
        let Some(root) = tree else { return false };
        if root.find(id).is_none() {
            return false;
        }
        if !root.remove_below(epoch, id) {
            *tree = None;
            return true;
        }
        // A root with one child is a level too many.
        while let Some(Self::Inner(inner)) = tree
            && inner.children.len() == 1
        {
            let child = inner.children[0].clone();
            *tree = Some(child);
        }
        true
    }

    /// Takes a row out that is there; false when nothing is left of the node.
    fn remove_below(&mut self, epoch: u64, id: ListingId) -> bool {
        match self {
            Self::Leaf(chunk) => {
                let Some(rest) = chunk.find(id).map(|position| chunk.without(epoch, position)) else { return true };
                match rest {
                    Some(rest) => *chunk = rest,
                    None => return false,
                }
                true
            }
            Self::Inner(inner) => {
                let inner = Arc::make_mut(inner);
                let child = inner.child_for(id);
                if !inner.children[child].remove_below(epoch, id) {
                    inner.take(child);
                } else {
                    inner.merge_around(epoch, child);
                }
                !inner.children.is_empty()
            }
        }
    }

    fn first_id(&self) -> ListingId {
        match self {
            Self::Leaf(chunk) => chunk.first_id(),
            Self::Inner(inner) => inner.firsts[0],
        }
    }
}

impl Inner {
    fn new(children: impl Iterator<Item = Tree>) -> Self {
        let children: ArrayVec<Tree, _> = children.collect();
        let firsts: ArrayVec<ListingId, _> = children.iter().map(Tree::first_id).collect();
        Self { ranks: ranks_of(&firsts), firsts, children }
    }

    /// The child whose range holds `id`; ids before the first child belong to it.
    #[inline]
    fn child_for(&self, id: ListingId) -> usize {
        self.ranks.up_to(id, |place| self.firsts[place]).saturating_sub(1)
    }

    /// Keeps a child's first id at or below a row that is put in before it.
    fn lower_first(&mut self, child: usize, id: ListingId) {
        if id < self.firsts[child] {
            self.firsts[child] = id;
            self.ranks = ranks_of(&self.firsts);
        }
    }

    fn put(&mut self, place: usize, child: Tree) {
        self.firsts.insert(place, child.first_id());
        self.children.insert(place, child);
        self.ranks = ranks_of(&self.firsts);
    }

    fn take(&mut self, place: usize) {
        self.firsts.remove(place);
        self.children.remove(place);
        self.ranks = ranks_of(&self.firsts);
    }

    /// Splits an overfull node: at its end when it grew there, else in the middle.
    fn split(&mut self, grown_at: usize) -> Option<Self> {
        if self.children.len() <= CHILDREN_MAX {
            return None;
        }
        let appended = grown_at + 1 == self.children.len();
        let middle = if appended { CHILDREN_MAX } else { self.children.len() / 2 };
        let right = Self::new(self.children.drain(middle..));
        self.firsts.truncate(middle);
        self.ranks = ranks_of(&self.firsts);
        Some(right)
    }

    /// Merges a small leaf with a neighbour under the same parent.
    fn merge_around(&mut self, epoch: u64, child: usize) {
        for left in [child, child.wrapping_sub(1)] {
            let (Some(Tree::Leaf(first)), Some(Tree::Leaf(second))) =
                (self.children.get(left), self.children.get(left.wrapping_add(1)))
            else {
                continue;
            };
            if let Some(merged) = first.merged(epoch, second) {
                self.children[left] = Tree::Leaf(merged);
                self.take(left + 1);
                return;
            }
        }
    }
}

fn ranks_of<const N: usize>(ids: &[ListingId]) -> Ranks<N> {
    Ranks::new(ids.len(), |place| ids[place])
}

#[cfg(test)]
mod tests {
    use super::super::chunk::{Chunk, Entry, ROWS_MAX};
    use super::*;
    use crate::domain::MonoTime;
    use std::collections::BTreeMap;

    fn entry(id: u128) -> Entry {
        let row = format!("{{\"n\":{id}}}").into_bytes().into_boxed_slice();
        Entry { id: ListingId(id), public: !id.is_multiple_of(5), deadline: MonoTime(1000 + id as u64), row }
    }

    fn walk(tree: &Option<Tree>) -> Vec<(u128, Vec<u8>)> {
        let mut rows = Vec::new();
        let mut after = None;
        while let Some(found) = tree.as_ref().and_then(|tree| tree.seek(after)) {
            let chunk: &Chunk = found.chunk;
            assert!(chunk.len() <= ROWS_MAX);
            for position in found.position..chunk.len() {
                rows.push((chunk.id(position).0, chunk.row(position).to_vec()));
            }
            after = Some(chunk.id(chunk.len() - 1));
        }
        rows
    }

    #[test]
    fn agrees_with_a_map_and_leaves_old_snapshots_alone() {
        let mut truth: BTreeMap<u128, Vec<u8>> = BTreeMap::new();
        let mut tree: Option<Tree> = None;
        let mut random = 11_u64;
        let mut kept = Vec::new();
        for step in 0..30_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = u128::from(random >> 33) % 6_000 + 1;
            let growing = step < 20_000;
            if random % 10 < if growing { 7 } else { 2 } {
                let entry = entry(id);
                truth.insert(id, entry.row.to_vec());
                match &mut tree {
                    Some(tree) => tree.insert(step, &entry),
                    none => *none = Some(Tree::single(step, &entry)),
                }
            } else {
                assert_eq!(Tree::remove(&mut tree, step, ListingId(id)), truth.remove(&id).is_some());
            }
            if step % 3_000 == 0 {
                kept.push((tree.clone(), truth.clone()));
            }
        }
        kept.push((tree, truth));
        for (tree, truth) in kept {
            assert_eq!(walk(&tree), truth.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn time_ordered_ids_fill_their_chunks() {
        let mut tree = Tree::single(0, &entry(1));
        (2..=6_400).for_each(|id| tree.insert(0, &entry(id)));
        let mut chunks = 0;
        let mut after = None;
        while let Some(found) = tree.seek(after) {
            chunks += 1;
            after = Some(found.chunk.id(found.chunk.len() - 1));
        }
        assert_eq!(chunks, 6_400 / ROWS_MAX);
    }

    fn chunks(tree: &Tree) -> Vec<*const Chunk> {
        let mut chunks = Vec::new();
        let mut after = None;
        while let Some(found) = tree.seek(after) {
            chunks.push(std::ptr::from_ref(found.chunk));
            after = Some(found.chunk.id(found.chunk.len() - 1));
        }
        chunks
    }

    /// Bar P9: what churn leaves is kept in full chunks, as it was filled, and not in many small ones.
    #[test]
    fn bar_p9_neighbours_are_merged_as_soon_as_they_fit() {
        let mut tree = Tree::single(0, &entry(1));
        (2..=640).for_each(|id| tree.insert(0, &entry(id)));
        let mut rest = Some(tree);
        (1..=640).step_by(2).for_each(|id| assert!(Tree::remove(&mut rest, 1, ListingId(id))));
        assert_eq!(walk(&rest).len(), 320);
        assert_eq!(chunks(rest.as_ref().unwrap()).len(), 320 / ROWS_MAX);
    }

    #[test]
    fn rule_s9_a_change_copies_its_own_chunk_and_shares_the_rest() {
        let mut published = Tree::single(0, &entry(1));
        (2..=6_400).for_each(|id| published.insert(0, &entry(id)));
        let before = chunks(&published);
        let mut working = Some(published.clone());
        working.as_mut().unwrap().insert(1, &entry(3_200));
        assert!(Tree::remove(&mut working, 1, ListingId(70)));
        let after = chunks(working.as_ref().unwrap());
        assert_eq!(after.iter().filter(|chunk| !before.contains(chunk)).count(), 2, "of {}", before.len());
        assert_eq!(chunks(&published), before, "what readers hold is as it was");
    }
}
