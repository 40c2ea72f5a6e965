//! What a long poll is told by its caller, whichever plane it asks.

use std::time::Duration;

/// How long a poll may wait, and what its caller holds from the moment at which it has its place. A poll that is still on its
/// way to the store, or for which there is no place, does not wait yet: whoever counts the ones that do counts from
/// [`placed`](Self::placed) on.
pub trait Wait: Send {
    /// Dropped before the place is free again.
    type Held: Send;

    /// How long at most; zero for not at all.
    fn limit(&self) -> Duration;

    /// The poll has its place.
    fn placed(self) -> Self::Held;
}

/// Just so long.
impl Wait for Duration {
    type Held = ();

    fn limit(&self) -> Duration {
        *self
    }

    fn placed(self) {}
}

/// The same in milliseconds.
impl Wait for u64 {
    type Held = ();

    fn limit(&self) -> Duration {
        Duration::from_millis(*self)
    }

    fn placed(self) {}
}
