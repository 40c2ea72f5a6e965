//! What a transition did that somebody outside waits for.

use super::endpoint::Endpoint;
use super::id::{AttemptId, ListingId, SessionRef, TenantId};
use super::outcome::{EndReason, Introduction, ListingEnd};
use super::time::MonoTime;

/// Told to the [`Observer`](crate::store::Observer) in commit order, by the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A listing has a new pending attempt.
    AttemptCreated {
        /// The attempt.
        attempt: AttemptId,
        /// Its listing.
        listing: ListingId,
        /// The endpoint of the family that was refreshed last.
        host: Endpoint,
        /// When the attempt ends.
        deadline: MonoTime,
    },
    /// An attempt waits at the gate of a session; told after its creation.
    GateAsked {
        /// The session's tenant.
        tenant: TenantId,
        /// The session.
        session: SessionRef,
    },
    /// An attempt changed without ending: bound or admitted.
    AttemptChanged {
        /// The attempt.
        attempt: AttemptId,
        /// True when its host has bound (which cancels offers).
        host_bound: bool,
    },
    /// An attempt was introduced.
    Introduced(Box<Introduction>),
    /// An attempt ended.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptId,
        /// Its listing.
        listing: ListingId,
        /// Why.
        reason: EndReason,
    },
    /// A listing ended.
    ListingEnded {
        /// The listing.
        listing: ListingId,
        /// Why.
        reason: ListingEnd,
    },
    /// Drain began.
    DrainBegan {
        /// Its deadline.
        deadline: MonoTime,
    },
    /// The drain deadline passed and everything was let go.
    Drained,
}
