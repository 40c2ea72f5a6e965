//! Who hears what transitions did.

use crate::domain::{AttemptId, Event};
use crate::store::Observer;
use dashmap::DashSet;
use std::sync::Arc;

/// Tells several observers, in the order given.
pub struct Fanout(Vec<Arc<dyn Observer>>);

impl Fanout {
    /// An observer for all of `observers`.
    pub fn new(observers: Vec<Arc<dyn Observer>>) -> Arc<Self> {
        Arc::new(Self(observers))
    }
}

impl Observer for Fanout {
    fn observe(&self, event: &Event) {
        self.0.iter().for_each(|observer| observer.observe(event));
    }
}

/// Lets the command plane's long polls go when drain begins: one drain for both planes.
pub struct ReleasePolls(Arc<crate::admission::Waits>);

impl ReleasePolls {
    /// An observer for the polls of a store.
    pub fn at_drain(polls: &Arc<crate::admission::Waits>) -> Arc<dyn Observer> {
        Arc::new(Self(Arc::clone(polls)))
    }
}

impl Observer for ReleasePolls {
    fn observe(&self, event: &Event) {
        match event {
            Event::DrainBegan { .. } | Event::Drained => self.0.release(),
            Event::AttemptCreated { .. }
            | Event::GateAsked { .. }
            | Event::AttemptChanged { .. }
            | Event::Introduced(_)
            | Event::AttemptEnded { .. }
            | Event::ListingEnded { .. } => {}
        }
    }
}

/// The live attempts that still wait for their introduction: drain ends early once there are none (rule J3).
///
/// It holds at most as many ids as the store holds attempts.
#[derive(Debug, Default)]
pub struct WaitingAttempts(DashSet<AttemptId>);

impl WaitingAttempts {
    /// True while nobody waits for an introduction.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Observer for WaitingAttempts {
    fn observe(&self, event: &Event) {
        match event {
            Event::AttemptCreated { attempt, .. } => {
                self.0.insert(*attempt);
            }
            Event::Introduced(introduction) => {
                self.0.remove(&introduction.attempt);
            }
            Event::AttemptEnded { attempt, .. } => {
                self.0.remove(attempt);
            }
            Event::Drained => self.0.clear(),
            Event::GateAsked { .. }
            | Event::AttemptChanged { .. }
            | Event::ListingEnded { .. }
            | Event::DrainBegan { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EndReason, Endpoint, Introduction, ListingId, MonoTime};

    #[test]
    fn rule_j3_an_attempt_waits_until_it_is_introduced_or_ends() {
        let waiting = Arc::new(WaitingAttempts::default());
        let all = Fanout::new(vec![Arc::clone(&waiting) as Arc<dyn Observer>]);
        let endpoint = Endpoint::new("192.0.2.1:5000".parse().unwrap()).unwrap();
        let (listing, at) = (ListingId(1), MonoTime(1));
        for id in [1, 2, 3] {
            all.observe(&Event::AttemptCreated { attempt: AttemptId(id), listing, host: endpoint, deadline: at });
        }
        all.observe(&Event::Introduced(Box::new(Introduction {
            attempt: AttemptId(1),
            listing,
            pairs: [None, None],
            candidates: [vec![], vec![]],
            last_bound: [endpoint, endpoint],
            at,
            deadline: at,
        })));
        all.observe(&Event::AttemptEnded { attempt: AttemptId(2), listing, reason: EndReason::Closed });
        assert!(!waiting.is_empty());
        all.observe(&Event::AttemptEnded { attempt: AttemptId(1), listing, reason: EndReason::Done });
        assert!(!waiting.is_empty());
        all.observe(&Event::Drained);
        assert!(waiting.is_empty());
    }
}
