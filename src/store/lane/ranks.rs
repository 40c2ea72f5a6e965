//! Where an id stands among sorted ids, without a mispredicted branch per step of a binary search.
//!
//! Each id is reduced to a 15-bit key that keeps the order: its distance from the first id, shifted so that the last one
//! still fits. The keys below a given one are counted all at once, which compilers turn into a few vector compares; only ids
//! that share its key, mostly none or one, are then looked at whole.

use crate::domain::ListingId;

/// Largest key of an id; what pads the array is above it.
const KEY_MAX: i16 = i16::MAX - 1;

/// The keys of at most `N` sorted ids, which their owner keeps.
#[derive(Clone, Debug)]
pub(crate) struct Ranks<const N: usize> {
    base: u128,
    shift: u32,
    keys: [i16; N],
}

impl<const N: usize> Ranks<N> {
    /// Keys for the `len` ids that `id_at` gives in their order.
    pub(crate) fn new(len: usize, id_at: impl Fn(usize) -> ListingId) -> Self {
        debug_assert!(len <= N && (1..len).all(|place| id_at(place - 1) < id_at(place)));
        let (base, last) = if len == 0 { (0, 0) } else { (id_at(0).0, id_at(len - 1).0) };
        let span = last - base;
        // Ids behind the last one are clamped, so the span itself has to stay below the largest key.
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(KEY_MAX.ilog2());
        let mut ranks = Self { base, shift, keys: [i16::MAX; N] };
        for place in 0..len {
            ranks.keys[place] = ranks.key(id_at(place));
        }
        ranks
    }

    /// How many of the ids are at or before `id`; `id_at` gives the id at a place.
    #[inline(always)]
    pub(crate) fn up_to(&self, id: ListingId, id_at: impl Fn(usize) -> ListingId) -> usize {
        if id.0 < self.base {
            return 0;
        }
        let key = self.key(id);
        let below: i16 = self.keys.iter().map(|known| i16::from(*known < key)).sum();
        let mut rank = below as usize;
        while self.keys.get(rank) == Some(&key) && id_at(rank) <= id {
            rank += 1;
        }
        rank
    }

    /// The place of `id`.
    #[inline]
    pub(crate) fn find(&self, id: ListingId, id_at: impl Fn(usize) -> ListingId) -> Option<usize> {
        let place = self.up_to(id, &id_at).checked_sub(1)?;
        (id_at(place) == id).then_some(place)
    }

    #[inline]
    fn key(&self, id: ListingId) -> i16 {
        let distance = (id.0 - self.base) >> self.shift;
        // At most the largest key, so it fits.
        distance.min(KEY_MAX as u128) as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &[ListingId], probes: impl IntoIterator<Item = u128>) {
        let ranks = Ranks::<64>::new(ids.len(), |place| ids[place]);
        for probe in probes {
            let id = ListingId(probe);
            assert_eq!(
                ranks.up_to(id, |place| ids[place]),
                ids.partition_point(|known| *known <= id),
                "{probe:x} among {ids:x?}"
            );
            assert_eq!(ranks.find(id, |place| ids[place]), ids.binary_search(&id).ok());
        }
    }

    #[test]
    fn agrees_with_a_binary_search() {
        let mut random = 5_u128;
        for spread in [1, 8, 31, 32, 62, 64, 96, 127] {
            for len in [0, 1, 2, 24, 63, 64] {
                let mut ids = Vec::new();
                while ids.len() < len {
                    random = random.wrapping_mul(0xDA94_2042_E4DD_58B5_0F5B_2B6E_4B1D_9D3B).wrapping_add(0x9E37_79B9);
                    ids.push(ListingId((1 << 90) + (random >> (128 - spread))));
                    if spread < 8 {
                        break;
                    }
                    ids.sort_unstable();
                    ids.dedup();
                }
                let around: Vec<u128> = ids.iter().flat_map(|id| [id.0 - 1, id.0, id.0 + 1]).collect();
                check(&ids, around);
                check(&ids, [0, 1, 1 << 90, u128::MAX, u128::MAX - 1]);
            }
        }
    }

    #[test]
    fn ids_that_share_a_key_are_told_apart() {
        let ids: Vec<_> = std::iter::once(0).chain((1 << 100)..(1 << 100) + 62).map(ListingId).collect();
        check(&ids, (1 << 100) - 2..(1 << 100) + 66);
        check(&ids, [0, 1, 2, u128::MAX]);
    }
}
