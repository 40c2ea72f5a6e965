//! Tenants and protocols in use, each kept once; listings name theirs by slot.

use crate::domain::Scope;
use slab::Slab;
use std::collections::BTreeMap;

/// See the module's documentation. As many as there are listings at most.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    used: Slab<Used>,
    slots: BTreeMap<Scope, u32>,
}

#[derive(Debug)]
struct Used {
    scope: Scope,
    listings: u32,
}

impl Scopes {
    /// The slot of a scope that one more listing uses.
    pub(crate) fn acquire(&mut self, scope: Scope) -> u32 {
        if let Some(slot) = self.slots.get(&scope) {
            self.used[*slot as usize].listings += 1;
            return *slot;
        }
        let slot = self.used.insert(Used { scope: scope.clone(), listings: 1 }) as u32;
        self.slots.insert(scope, slot);
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> &Scope {
        &self.used[slot as usize].scope
    }

    /// Lets go of one use; the scope itself when it was the last.
    pub(crate) fn release(&mut self, slot: u32) -> Scope {
        let used = &mut self.used[slot as usize];
        used.listings -= 1;
        if used.listings > 0 {
            return used.scope.clone();
        }
        let scope = self.used.remove(slot as usize).scope;
        self.slots.remove(&scope);
        scope
    }

    /// `listings` names the slots that are in use, once for each use.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, listings: impl Iterator<Item = u32>) {
        let mut counted: BTreeMap<u32, u32> = BTreeMap::new();
        listings.for_each(|slot| *counted.entry(slot).or_default() += 1);
        assert_eq!(counted.len(), self.used.len());
        assert_eq!(self.slots.len(), self.used.len());
        for (slot, used) in &self.used {
            assert_eq!(counted.get(&(slot as u32)), Some(&used.listings));
            assert_eq!(self.slots.get(&used.scope), Some(&(slot as u32)));
        }
    }
}
