//! The publisher: follows the machine's changes in a working copy of the view and swaps it in.
//!
//! Only the writer uses it. Between two publications the working copy shares everything with the published root that
//! has not changed, so a publication costs O(changed) (S9) and is one pointer swap. Roots that were replaced are kept
//! until no reader holds them, so that a reader never frees one (S8).

use super::chunk::Entry;
use super::snapshot::{Root, ScopeRows, ScopeTable};
use super::tree::Tree;
use crate::domain::{Details, ListingId, MonoTime, Scope, Visibility};
use crate::state_machine::{Change, ListingObject, Machine};
use crate::store::row::render_row;
use crate::sync::{Arc, Swap};
use std::collections::VecDeque;

/// The row of a listing: parked in its record while browsing does not show it, in a chunk while it does.
pub(crate) struct ParkedRow(Option<Box<[u8]>>);

impl ListingObject for ParkedRow {
    fn build(id: ListingId, scope: &Scope, details: Details) -> Self {
        Self(Some(render_row(id, scope, &details).into_bytes().into_boxed_slice()))
    }
}

pub(crate) struct Publisher {
    working: ScopeTable,
    published: Arc<Root>,
    cell: Swap<Root>,
    /// Number of the publication being prepared: chunks of this epoch are not published yet.
    epoch: u64,
    changed: bool,
    retired: VecDeque<Arc<Root>>,
}

impl Publisher {
    pub(crate) fn new(now: MonoTime) -> Self {
        let scopes = ScopeTable::new();
        let root = Arc::new(Root { commit: 0, published_at: now, drain: None, scopes: scopes.clone() });
        let cell = Swap::new(root.clone());
        Self { working: scopes, published: root, cell, epoch: 1, changed: false, retired: VecDeque::new() }
    }

    pub(crate) fn cell(&self) -> &Swap<Root> {
        &self.cell
    }

    pub(crate) fn published_commit(&self) -> u64 {
        self.published.commit
    }

    pub(crate) fn published_at(&self) -> MonoTime {
        self.published.published_at
    }

    /// Follows one change of the projection.
    pub(crate) fn follow(&mut self, machine: &mut Machine<ParkedRow>, change: Change, now: MonoTime) {
        match change {
            Change::Show { slot } => self.show(machine, slot),
            Change::Moved { slot } => self.move_deadline(machine, slot),
            Change::Hide { id, scope, parked } => self.hide(machine, id, &scope, parked, now),
        }
    }

    fn show(&mut self, machine: &mut Machine<ParkedRow>, slot: u32) {
        let Some(listed) = machine.listing(slot) else { return };
        let (id, scope, public) = (listed.id, listed.scope.clone(), listed.visibility == Visibility::Public);
        let deadline = listed.fresh_until;
        let parked = machine.object_mut(slot).and_then(|object| object.0.take());
        // Without a parked row only the visibility changed: the row is the one that is shown.
        let row =
            parked.or_else(|| self.working.find_in(&scope, id).map(|(chunk, position)| chunk.row(position).into()));
        let Some(row) = row else { return };
        let entry = Entry { id, public, deadline, row };
        let epoch = self.epoch;
        let bucket = self.working.bucket_mut(id);
        match bucket.iter_mut().find(|rows| rows.is_of(&scope)) {
            Some(rows) => rows.tree.insert(epoch, &entry),
            None => bucket.push(ScopeRows { scope, tree: Tree::single(epoch, &entry) }),
        }
        self.changed = true;
    }

    /// Moves a deadline in place. A chunk that was rewritten since the last publication has a published twin, and
    /// readers look at that one: both move, so that neither rule S1 nor rule S4 waits for the next publication.
    fn move_deadline(&self, machine: &Machine<ParkedRow>, slot: u32) {
        let Some(listed) = machine.listing(slot) else { return };
        let Some((chunk, position)) = self.working.find_in(listed.scope, listed.id) else { return };
        chunk.move_deadline(position, listed.fresh_until);
        if chunk.epoch == self.epoch
            && let Some((twin, position)) = self.published.scopes.find_in(listed.scope, listed.id)
        {
            twin.move_deadline(position, listed.fresh_until);
        }
    }

    fn hide(
        &mut self,
        machine: &mut Machine<ParkedRow>,
        id: ListingId,
        scope: &Scope,
        parked: Option<u32>,
        now: MonoTime,
    ) {
        let Some((chunk, position)) = self.working.find_in(scope, id) else { return };
        // The slot may belong to another listing by now: then this one has ended, and its row is not needed.
        let owner = parked.filter(|slot| machine.listing(*slot).is_some_and(|listed| listed.id == id));
        if let Some(object) = owner.and_then(|slot| machine.object_mut(slot))
            && object.0.is_none()
        {
            object.0 = Some(chunk.row(position).into());
        }
        // Browsing does not show what has ended (S1): taking it out only frees memory, and is done for several at once.
        if chunk.deadline(position).is_past(now) && !chunk.end(position) {
            return;
        }
        let epoch = self.epoch;
        let bucket = self.working.bucket_mut(id);
        if let Some(place) = bucket.iter().position(|rows| rows.is_of(scope)) {
            // Taken out whole: a second handle of the tree would make the removal copy nodes that nobody else has.
            let ScopeRows { scope, tree } = bucket.swap_remove(place);
            let mut tree = Some(tree);
            Tree::remove(&mut tree, epoch, id);
            bucket.extend(tree.map(|tree| ScopeRows { scope, tree }));
        }
        self.changed = true;
    }

    /// Whether the published root lacks something that it should have.
    pub(crate) fn is_behind(&self, machine: &Machine<ParkedRow>) -> bool {
        self.changed || self.published.commit != machine.commit() || self.published.drain != machine.drain_deadline()
    }

    /// Swaps the working copy in as the view after the machine's last transition.
    pub(crate) fn publish(&mut self, machine: &Machine<ParkedRow>, now: MonoTime) {
        let root = Arc::new(Root {
            commit: machine.commit(),
            published_at: now,
            drain: machine.drain_deadline(),
            scopes: self.working.clone(),
        });
        self.cell.store(root.clone());
        self.retired.push_back(std::mem::replace(&mut self.published, root));
        self.epoch += 1;
        self.changed = false;
        // Each thread's cache holds at most one old root, so what stays here is bounded by the number of threads.
        self.retired.retain(|root| Arc::strong_count(root) > 1);
    }

    /// Forgets everything that was shown; what it held is handed out to be freed off the lane.
    pub(crate) fn clear(&mut self) -> ScopeTable {
        self.changed = true;
        std::mem::replace(&mut self.working, ScopeTable::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Limits;

    #[test]
    fn rule_s8_a_reader_frees_no_root_and_what_nobody_holds_is_freed() {
        let machine = Machine::new(Limits::default());
        let mut publisher = Publisher::new(MonoTime(1));
        let mut reader = publisher.cell().cached();
        let held = Arc::downgrade(reader.load());
        publisher.publish(&machine, MonoTime(2));
        publisher.publish(&machine, MonoTime(3));
        assert_eq!(publisher.retired.len(), 1, "the one that the reader holds");
        assert_eq!(reader.load().published_at, MonoTime(3));
        assert!(held.upgrade().is_some(), "letting go of it was not freeing it");
        publisher.publish(&machine, MonoTime(4));
        assert!(held.upgrade().is_none(), "the publisher did");
    }
}
