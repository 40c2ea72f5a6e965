//! The time of a store, the only one that decides (rule P5).

use crate::admission::model::Timestamp;
use crate::admission::traits::Clock;
use std::sync::{Arc, Mutex, PoisonError};

/// The clock of a store. It never steps back, not even over a restart, and never stands: deadlines pass and leases lapse
/// whatever the machine's clock did.
pub(crate) struct StoreClock {
    /// Absent where the database's clock decides, for all processes alike.
    own: Option<(Arc<dyn Clock>, Mutex<Reading>)>,
}

/// What a clock of our own said last.
struct Reading {
    clock: Timestamp,
    /// How far the store's time is ahead of it: what it lacked to the last write of an earlier life, and what it stepped
    /// back since, in milliseconds.
    ahead: u64,
}

impl StoreClock {
    /// `latest` is the time of the last write of an earlier life.
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>, latest: Timestamp) -> Self {
        let own = clock.map(|clock| {
            let now = Timestamp::from_system(clock.now());
            (clock, Mutex::new(Reading { clock: now, ahead: latest.0.saturating_sub(now.0) }))
        });
        Self { own }
    }

    /// The time now; `database` is the database's, which counts where no clock was given. `latest` is that of a write which
    /// this one comes after.
    pub(super) fn now(&self, database: Option<Timestamp>, latest: Option<Timestamp>) -> Timestamp {
        let Some((clock, last)) = &self.own else { return database.unwrap_or_default() };
        // Nothing that holds the lock can leave it half changed. The clock is read under it, so a step back is one of the
        // clock's and not of two threads.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::from_system(clock.now());
        last.ahead = last.ahead.saturating_add(last.clock.0.saturating_sub(now.0));
        last.ahead = last.ahead.max(latest.unwrap_or_default().0.saturating_sub(now.0));
        last.clock = now;
        Timestamp(now.0.saturating_add(last.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_p5_the_databases_time_is_taken_as_it_is() {
        let clock = StoreClock::new(None, Timestamp(0));
        // A server whose clock stepped ahead and was set right: other processes see the same.
        let ahead = Timestamp(3_600_000);
        assert_eq!(
            [ahead, Timestamp(5), Timestamp(6)].map(|now| clock.now(Some(now), None)),
            [ahead, Timestamp(5), Timestamp(6)]
        );
    }
}
