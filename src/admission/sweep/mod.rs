//! The sweep: settles what nobody applied in time, and nothing that may have had an effect (rules P6 to P9).

mod board;
mod disposition;
mod legacy;
mod pass;

pub use board::{LastSweep, SweepBoard};
pub use disposition::{DispositionReconciler, DispositionReconcilerConfig};
pub use legacy::{Reconciler, ReconcilerConfig};

use super::disposition::Disposition;
use super::model::{Error, ErrorCode};
use std::collections::BTreeMap;

/// What one sweep of one shard did, and what that cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// The shard that was visited.
    pub shard: u32,
    /// Pages read.
    pub pages: usize,
    /// Rows that the store returned. Not folded with `unreadable`: all rows examined and none of them readable is not the
    /// same as nothing due.
    pub examined: usize,
    /// Rows that the store could not vouch for (rule P9).
    pub unreadable: usize,
    /// Readable due rows.
    pub due: usize,
    /// Commands that this sweep rejected.
    pub rejected: usize,
    /// Reconciliation claims taken. Apart from `released`, for a difference between them is what is worth seeing.
    pub claimed: usize,
    /// Reconciliation claims given back.
    pub released: usize,
    /// How many rows had which fate; never [`Disposition::Settleable`].
    pub dispositions: BTreeMap<Disposition, usize>,
    /// Calls that reach the database: pages, claims, releases, settlements. How many shards there are is no such call.
    pub queries: usize,
    /// Releases that failed. Swallowed, for a settlement is right whatever becomes of the claim, which licensed nothing
    /// and lapses by itself; and counted, so that swallowed does not mean invisible.
    pub release_failures: usize,
    /// The bound of the pass was reached with rows left. They are still due; the next pass over this shard meets them.
    pub truncated: bool,
    /// The pass went on where an earlier one over this shard had stopped. Only the disposition sweep does.
    pub resumed: bool,
}

impl SweepResult {
    fn record(&mut self, disposition: Disposition, count: usize) {
        if count > 0 {
            *self.dispositions.entry(disposition).or_default() += count;
        }
    }
}

/// The bounds that both reconcilers share.
#[derive(Clone, Debug)]
struct Bounds {
    holder_id: String,
    claim_ttl: std::time::Duration,
    page_limit: usize,
    max_pages: usize,
}

impl Bounds {
    fn check(&self) -> Result<(), Error> {
        let wrong = |field, must: &str| Err(Error::field(ErrorCode::Invalid, field, must));
        if self.holder_id.is_empty() {
            return wrong("holder_id", "must name this process");
        }
        if self.claim_ttl.is_zero() {
            return wrong("claim_ttl", "must be positive");
        }
        if self.page_limit == 0 {
            return wrong("page_limit", "must be at least 1");
        }
        if self.max_pages == 0 {
            return wrong("max_pages", "must be at least 1");
        }
        Ok(())
    }
}
