//! `[limits]` and what follows from it where it is not set.

use crate::domain::Limits;

/// `[limits]`: ceilings and quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsSection {
    /// Live listings.
    pub listings: u32,
    /// Listings without presence; half of the listings when not set.
    pub unproven_listings: Option<u32>,
    /// Live presences; twice the listings when not set.
    pub presence: Option<u32>,
    /// Live attempts.
    pub attempts: u32,
    /// Idempotency records.
    pub idempotency: u32,
    /// Single-use operator keys.
    pub replay: u32,
    /// Revocations in force.
    pub revocations: u32,
    /// Listings of one owner.
    pub listings_per_owner: u32,
    /// Active attempts of one tenant.
    pub attempts_per_tenant: u32,
    /// Active attempts on one listing.
    pub attempts_per_listing: u32,
    /// Active attempts of one joiner.
    pub attempts_per_principal: u32,
    /// Guests' listings of one source.
    pub guest_listings_per_source: u32,
    /// Guests' attempts of one source.
    pub guest_attempts_per_source: u32,
    /// Creations that wait in the lane.
    pub lane_creations: u32,
    /// Keep-alives that wait in the lane.
    pub lane_keep_alives: u32,
    /// Waiting long polls; listings + 2 x attempts + 1,024 when not set.
    pub long_polls: Option<u32>,
}

impl Default for LimitsSection {
    fn default() -> Self {
        let store = Limits::default();
        Self {
            listings: store.listings,
            unproven_listings: None,
            presence: None,
            attempts: store.attempts,
            idempotency: store.idempotency,
            replay: store.replay,
            revocations: store.revocations,
            listings_per_owner: 4,
            attempts_per_tenant: 5_000,
            attempts_per_listing: 64,
            attempts_per_principal: 8,
            guest_listings_per_source: 32,
            guest_attempts_per_source: 128,
            lane_creations: 4_096,
            lane_keep_alives: 4_096,
            long_polls: None,
        }
    }
}

impl LimitsSection {
    /// As set, or half of the listings.
    pub fn unproven_listings(&self) -> u32 {
        self.unproven_listings.unwrap_or((self.listings / 2).max(1))
    }

    /// As set, or both families of every listing.
    pub fn presence(&self) -> u32 {
        self.presence.unwrap_or(self.listings.saturating_mul(2))
    }

    /// As set, or one for each listing and two for each attempt, and some for what is just being replaced.
    pub fn long_polls(&self) -> u32 {
        let every = self.attempts.saturating_mul(2).saturating_add(self.listings).saturating_add(1_024);
        self.long_polls.unwrap_or(every)
    }
}
