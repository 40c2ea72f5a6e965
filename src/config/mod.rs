//! Configuration: built-in values, then a TOML file, then the environment, then flags, each stronger than the one before.
//!
//! One table (`config::keys`) knows every key: it drives the reading of the file and of the environment, the refusal of unknown
//! keys and the text of `rendezvous config default`.

mod admission;
mod check;
mod error;
pub(crate) mod keys;
mod limits;
mod load;
mod nearest;
mod print;
mod sections;
#[cfg(test)]
mod tests;
mod value;

pub use admission::{AdmissionSection, AdmissionStore, DEV_HOST_KEY, DEV_PROFILE, HostEntry, Profile};
pub use error::{ConfigError, ConfigErrors, Origin, Problem};
pub use limits::LimitsSection;
pub use load::{Flags, Layers, OPERATOR_KEY};
pub use print::default_text;
pub use sections::{
    AttemptSection, Browse, DrainSection, HttpSection, IdempotencySection, JwtSection, LeaseSection, LogFormat,
    LogSection, OperatorSection, PresenceSection, ServerSection, SnapshotSection, StoreKind, Tenant, TrustSection,
    TurnSection, UdpSection,
};

use crate::credentials::Secret;
use crate::domain::Limits;
use crate::domain::time::TtlBounds;
use crate::service::{EntropyError, Policy, TurnPolicy};

/// The name of the tenant that `--dev` brings along.
pub const DEV_TENANT: &str = "demo";

/// A whole configuration, section by section as in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Development on loopback: limiters are lifted there, and other addresses are refused.
    pub dev: bool,
    /// `[server]`
    pub server: ServerSection,
    /// `[operator]`
    pub operator: OperatorSection,
    /// `[[tenant]]`, by [`TenantId`](crate::domain::TenantId).
    pub tenants: Vec<Tenant>,
    /// `[limits]`
    pub limits: LimitsSection,
    /// `[lease]`
    pub lease: LeaseSection,
    /// `[presence]`
    pub presence: PresenceSection,
    /// `[attempt]`
    pub attempt: AttemptSection,
    /// `[idempotency]`
    pub idempotency: IdempotencySection,
    /// `[drain]`
    pub drain: DrainSection,
    /// `[snapshot]`
    pub snapshot: SnapshotSection,
    /// `[turn]`
    pub turn: TurnSection,
    /// `[trust]`
    pub trust: TrustSection,
    /// `[http]` and `[rates]`
    pub http: HttpSection,
    /// `[udp]`
    pub udp: UdpSection,
    /// `[log]`
    pub log: LogSection,
    /// `[admission]`
    pub admission: AdmissionSection,
}

impl Config {
    /// What `--dev` starts from: tenant `demo` with guests, quotas that let one machine reach the ceilings, and a
    /// command plane in memory.
    /// The operator's key is added by the composition, which has the entropy for it.
    pub fn dev() -> Self {
        let mut config = Self { dev: true, ..Self::default() };
        let demo = Tenant { name: DEV_TENANT.to_owned(), guests: true, ..Tenant::default() };
        config.tenants.push(demo);
        config.admission = AdmissionSection::dev(DEV_TENANT);
        config.limits.listings_per_owner = u32::MAX;
        config.limits.attempts_per_principal = u32::MAX;
        config.limits.attempts_per_tenant = u32::MAX;
        config.limits.guest_listings_per_source = u32::MAX;
        config.limits.guest_attempts_per_source = u32::MAX;
        config
    }

    /// The store's ceilings and windows.
    pub fn store_limits(&self) -> Limits {
        let fixed = Limits::default();
        Limits {
            listings: self.limits.listings,
            unproven_listings: self.limits.unproven_listings(),
            presence: self.limits.presence(),
            attempts: self.limits.attempts,
            idempotency: self.limits.idempotency,
            replay: self.limits.replay,
            revocations: self.limits.revocations,
            lease_ttl: TtlBounds {
                min_ms: self.lease.ttl_min_ms,
                max_ms: self.lease.ttl_max_ms,
                default_ms: self.lease.ttl_ms,
            },
            unproven_window_ms: self.lease.unproven_window_ms,
            presence_ttl_ms: self.presence.ttl_ms,
            attempt_ttl_ms: self.attempt.ttl_ms,
            bind_window_ms: self.attempt.bind_window_ms,
            no_common_family_ms: self.attempt.no_common_family_ms,
            idempotency_retention_ms: self.idempotency.retention_ms,
            drain_window_max_ms: fixed.drain_window_max_ms,
            revocation_ttl: fixed.revocation_ttl,
            nonce_fresh_ms: fixed.nonce_fresh_ms,
            one_way_tolerance_ms: fixed.one_way_tolerance_ms,
            sequence_optional: self.presence.sequence_optional,
        }
    }

    /// The policy that the service attaches to commands.
    pub fn policy(&self) -> Policy {
        let limits = &self.limits;
        Policy {
            listings_per_owner: limits.listings_per_owner,
            attempts_per_tenant: limits.attempts_per_tenant,
            attempts_per_listing: limits.attempts_per_listing,
            attempts_per_principal: limits.attempts_per_principal,
            guest_listings_per_source: limits.guest_listings_per_source,
            guest_attempts_per_source: limits.guest_attempts_per_source,
            long_polls: limits.long_polls(),
            drain_window_ms: self.drain.window_ms,
            turn: self.turn.secret.as_ref().map(|secret| TurnPolicy {
                uris: self.turn.uris.as_slice().into(),
                secret: secret.clone(),
                ttl_ms: self.turn.ttl_ms.into(),
            }),
        }
    }

    /// Adds an operator's key.
    pub fn add_operator_key(&mut self, key: Secret) {
        self.operator.keys.push(key);
    }

    /// Makes a key for the operator of `--dev` when none was given, and returns it to be shown once.
    pub fn ensure_dev_operator_key(&mut self) -> Result<Option<Secret>, EntropyError> {
        if !self.dev || !self.operator.keys.is_empty() {
            return Ok(None);
        }
        let key = Secret::new(crate::service::random_token()?);
        self.add_operator_key(key.clone());
        Ok(Some(key))
    }
}
