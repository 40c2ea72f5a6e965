//! Every ceiling, quota and deadline of the store, with its default and its reason.

use super::time::TtlBounds;

/// Ceilings, windows and policies of one store. [`Limits::check`] refuses combinations that would break a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live listings.
    pub listings: u32,
    /// Listings that never had presence (rule D5).
    pub unproven_listings: u32,
    /// Live presences, one per listing and family.
    pub presence: u32,
    /// Live attempts.
    pub attempts: u32,
    /// Idempotency records, the tombstones of ended resources among them.
    pub idempotency: u32,
    /// Single-use operator keys.
    pub replay: u32,
    /// Revocations in force.
    pub revocations: u32,
    /// Bounds of a listing's lease.
    pub lease_ttl: TtlBounds,
    /// A listing without any presence this long after registration is removed.
    pub unproven_window_ms: u32,
    /// How long one presence datagram keeps a family fresh.
    pub presence_ttl_ms: u32,
    /// How long an attempt lives.
    pub attempt_ttl_ms: u32,
    /// An attempt that its joiner has not bound this long after creation is removed.
    pub bind_window_ms: u32,
    /// Both roles bound without a common family this long: the attempt ends.
    pub no_common_family_ms: u32,
    /// How long an idempotency record outlives its resource.
    pub idempotency_retention_ms: u32,
    /// Longest drain window.
    pub drain_window_max_ms: u32,
    /// Bounds of a revocation's lifetime.
    pub revocation_ttl: TtlBounds,
    /// Age up to which a nonce is fresh.
    pub nonce_fresh_ms: u32,
    /// How far a one-way refresh may run ahead of or behind the server's clock.
    pub one_way_tolerance_ms: u32,
    /// Whether presence without RV-SEQUENCE is accepted from stock STUN clients.
    pub sequence_optional: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            listings: 25_000,
            unproven_listings: 12_500,
            presence: 50_000,
            attempts: 10_000,
            idempotency: 250_000,
            replay: 16_384,
            revocations: 4_096,
            lease_ttl: TtlBounds { min_ms: 10_000, max_ms: 300_000, default_ms: 60_000 },
            unproven_window_ms: 30_000,
            presence_ttl_ms: 65_000,
            attempt_ttl_ms: 30_000,
            bind_window_ms: 10_000,
            no_common_family_ms: 2_000,
            idempotency_retention_ms: 300_000,
            drain_window_max_ms: 30_000,
            revocation_ttl: TtlBounds { min_ms: 1_000, max_ms: 2_592_000_000, default_ms: 86_400_000 },
            nonce_fresh_ms: 120_000,
            one_way_tolerance_ms: 10_000,
            sequence_optional: true,
        }
    }
}

/// A configuration that would break a promise, named by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// The key in the configuration file, for example `limits.idempotency`.
    pub key: &'static str,
    /// What is expected, with the values of other keys that it follows from.
    pub expected: String,
    /// What it is.
    pub seen: u64,
}

impl std::fmt::Display for LimitsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: expected {}, seen {}", self.key, self.expected, self.seen)
    }
}

impl std::error::Error for LimitsError {}

impl Limits {
    /// Refuses ceilings outside their bounds and retention that could let a live resource be created twice (rule D table).
    pub fn check(&self) -> Result<(), LimitsError> {
        let within = |key: &'static str, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(LimitsError { key, expected: format!("an integer from {min} to {max}"), seen: value })
            }
        };
        within("limits.listings", self.listings.into(), 1, 1_000_000)?;
        within("limits.unproven_listings", self.unproven_listings.into(), 1, self.listings.into())?;
        within("limits.presence", self.presence.into(), 1, 2_000_000)?;
        within("limits.attempts", self.attempts.into(), 1, 1_000_000)?;
        within("limits.replay", self.replay.into(), 1, 1_000_000)?;
        within("limits.revocations", self.revocations.into(), 1, 65_536)?;
        let resources = u64::from(self.listings) + u64::from(self.attempts);
        within("limits.idempotency", self.idempotency.into(), resources, 16_000_000)?;
        within("lease.ttl_min_ms", self.lease_ttl.min_ms.into(), 100, self.lease_ttl.max_ms.into())?;
        within("lease.ttl_max_ms", self.lease_ttl.max_ms.into(), self.lease_ttl.min_ms.into(), 3_600_000)?;
        let (min, max) = (self.lease_ttl.min_ms.into(), self.lease_ttl.max_ms.into());
        within("lease.ttl_ms", self.lease_ttl.default_ms.into(), min, max)?;
        within("lease.unproven_window_ms", self.unproven_window_ms.into(), 100, 3_600_000)?;
        within("presence.ttl_ms", self.presence_ttl_ms.into(), 100, 300_000)?;
        within("attempt.ttl_ms", self.attempt_ttl_ms.into(), 100, 120_000)?;
        within("attempt.bind_window_ms", self.bind_window_ms.into(), 100, 120_000)?;
        let longest = u64::from(self.lease_ttl.max_ms.max(self.attempt_ttl_ms));
        within("idempotency.retention_ms", self.idempotency_retention_ms.into(), longest, 86_400_000)?;
        within("drain.window_ms", self.drain_window_max_ms.into(), 0, 30_000)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_d_start_is_refused_when_retention_or_records_cannot_cover_a_lifetime() {
        assert_eq!(Limits::default().check(), Ok(()));
        let key = |limits: Limits| limits.check().unwrap_err().key;
        assert_eq!(key(Limits { idempotency: 34_999, ..Limits::default() }), "limits.idempotency");
        assert_eq!(Limits { idempotency: 35_000, ..Limits::default() }.check(), Ok(()));
        assert_eq!(key(Limits { idempotency_retention_ms: 299_999, ..Limits::default() }), "idempotency.retention_ms");
        assert_eq!(key(Limits { listings: 0, ..Limits::default() }), "limits.listings");
        let million = Limits {
            listings: 1_000_000,
            attempts: 1_000_000,
            idempotency: 2_000_000,
            presence: 2_000_000,
            ..Limits::default()
        };
        assert_eq!(million.check(), Ok(()));
    }
}
