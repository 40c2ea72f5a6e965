//! Places for what takes much memory while it is on its way: with the longest payload their number bounds what payloads take.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One caller has this part of all places at most, rounded up: whoever lets payloads hang leaves room for others.
const PART_OF: usize = 4;

/// The places of one direction. `K` is who takes them.
pub(super) struct Places<K> {
    max: usize,
    max_each: usize,
    /// At most as many as places.
    taken: Mutex<HashMap<K, usize>>,
}

/// One of the places; given back when dropped.
pub(super) struct Place<K: Hash + Eq> {
    places: Arc<Places<K>>,
    who: K,
}

impl<K: Hash + Eq + Clone> Places<K> {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, max_each: max.div_ceil(PART_OF), taken: Mutex::default() })
    }

    /// A place for `who`, if there is one.
    pub(super) fn place(self: &Arc<Self>, who: K) -> Option<Place<K>> {
        let mut taken = self.taken();
        let own = taken.get(&who).copied().unwrap_or(0);
        // A walk over as many as there are places.
        if own >= self.max_each || taken.values().sum::<usize>() >= self.max {
            return None;
        }
        taken.insert(who.clone(), own + 1);
        Some(Place { places: Arc::clone(self), who })
    }
}

impl<K> Places<K> {
    fn taken(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        // Guards single counts.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(own) = taken.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_to_others_and_all_are_given_back() {
        let places = Places::new(6);
        let place = |who| places.place(who);
        let own = (place("a"), place("a"));
        assert!(own.0.is_some() && own.1.is_some() && place("a").is_none(), "a quarter, rounded up");
        let others = [place("b"), place("b"), place("c"), place("d")];
        assert!(others.iter().all(Option::is_some));
        assert!(place("e").is_none(), "all places are taken");
        drop(own);
        assert!(place("e").is_some());
        drop(others);
        assert!(places.taken().is_empty());
        assert!(Places::new(1).place("a").is_some());
    }
}
