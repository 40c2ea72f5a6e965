//! What runs by itself asks of the store: placement and forgetting, in bounded steps, and what is due.

use super::seams::{placement_plan, session_plan};
use super::{Store, rules};
use crate::admission::model::{DueInShard, StoreError};
use std::sync::atomic::Ordering;

impl Store {
    /// Looks at up to `limit` sessions that placement has to look at by now, and gives how many there were. Each is a
    /// write of its own, safe to run in several processes at once; one that can't be looked at keeps no other from it.
    pub async fn place_due(&self, limit: usize) -> Result<usize, StoreError> {
        let due = self.read(move |unit| rules::placement::due(unit, limit)).await?;
        let count = due.len();
        for session in due {
            let plan = placement_plan(&session.tenant, session.session, &session.key);
            self.passable(self.ask(plan, move |unit| rules::placement::look(unit, &session)).await)?;
        }
        Ok(count)
    }

    /// A step of a list that goes on: what can't be read is counted, and what is gone meanwhile is nobody's loss. `None` for
    /// both; an error when the store can't say, for then it can't say the next either.
    fn passable<T>(&self, step: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match step {
            Ok(done) => Ok(Some(done)),
            Err(StoreError::Unreadable(_)) => {
                // Relaxed: a count publishes nothing.
                self.engine.unreadable().fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(StoreError::Refused(_)) => Ok(None),
            Err(error @ StoreError::Unavailable(_)) => Err(error),
        }
    }

    /// How many rows placement, forgetting and the lists of work could not read since this was asked last. A row counts
    /// whenever it is met; those that sweeps meet are in their results.
    pub(in crate::admission) fn take_unreadable(&self) -> u64 {
        self.engine.unreadable().swap(0, Ordering::Relaxed)
    }

    /// Forgets, a step at a time, up to `limit` closed sessions and prepared creates whose retention is over; gives how many
    /// steps it took. Safe to run in several processes at once.
    pub async fn forget_due(&self, limit: usize) -> Result<usize, StoreError> {
        let due = self.read(move |unit| rules::forget::due(unit, limit)).await?;
        let count = due.len();
        for one in due {
            let (rules::forget::Due::Session(tenant, session) | rules::forget::Due::Create(tenant, _, session)) =
                one.clone();
            let plan = session_plan(&tenant, session);
            let also = one.clone();
            if self.passable(self.ask(plan, move |unit| rules::forget::step(unit, &one)).await)?.is_none() {
                let plan = session_plan(&tenant, session);
                self.passable(self.ask(plan, move |unit| rules::forget::put_off(unit, &also)).await)?;
            }
        }
        Ok(count)
    }

    /// What is due in each control shard of the disposition family by now, for the operator.
    pub async fn due_by_shard(&self) -> Result<Vec<DueInShard>, StoreError> {
        let mut shards = Vec::new();
        for shard in 0..self.settings.control_shards {
            shards.push(self.read(move |unit| rules::due::summary(unit, shard)).await?);
        }
        Ok(shards)
    }
}
