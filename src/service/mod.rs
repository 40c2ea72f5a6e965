//! The one API that an edge may call: it derives ids, tokens and fingerprints, attaches policy, and waits.
//!
//! Edges authorise by the outcome of a transition (rule A3); the service holds no state that decides.

pub mod commands;
mod datagrams;
mod digest;
mod hosts;
mod ids;
mod joins;
mod keys;
mod observers;
mod operators;
pub mod readiness;
#[cfg(test)]
mod tests;
mod turn;
mod types;
mod waits;

pub use crate::store::{Observer, TOGETHER_MAX};
pub use datagrams::{Ask, BindRequest, Together, Told};
pub use ids::{EntropyError, IdSource, SystemIds, random_token};
pub use keys::{InstanceKeys, KeyBytes};
pub use observers::{Fanout, ReleasePolls, WaitingAttempts};
pub use types::*;
pub use waits::Waits;

use crate::clock::{Clock, SharedClock};
use crate::credentials::{InstanceKey, Secret, fingerprint};
use crate::domain::{
    Certainty, Command, Failure, Fingerprint, InstanceId, Invalid, LeaseProof, Limits, ListingId, Outcome, Principal,
    Rejection, Reply, TenantId,
};
use crate::store::{AnyStore, Availability, BrowseQuery, PageView, Store};
use digest::Digests;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest time for which a browser waits for its commit to be published.
pub const COMMIT_WAIT_MS: u64 = 2_000;
/// Longest long poll; more is clamped.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// What a [`Service`] is made of.
pub struct ServiceParts {
    /// The store; its observers are `waits` and `waiting_attempts`.
    pub store: AnyStore<SharedClock>,
    /// The store's clock.
    pub clock: SharedClock,
    /// This life of the process.
    pub instance: InstanceId,
    /// Its keys.
    pub keys: InstanceKeys,
    /// The store's limits.
    pub limits: Limits,
    /// Policy for commands.
    pub policy: Policy,
    /// Source of new ids.
    pub ids: Box<dyn IdSource>,
    /// Long polls.
    pub waits: Arc<Waits>,
    /// Attempts without an introduction.
    pub waiting_attempts: Arc<WaitingAttempts>,
}

/// See the module's documentation. All methods that take `&self` may run concurrently.
pub struct Service {
    store: AnyStore<SharedClock>,
    clock: SharedClock,
    instance: InstanceId,
    key: InstanceKey,
    digests: Digests,
    limits: Limits,
    policy: Policy,
    ids: Box<dyn IdSource>,
    waits: Arc<Waits>,
    waiting_attempts: Arc<WaitingAttempts>,
    stun_uris: OnceLock<Arc<[String]>>,
}

impl Service {
    /// Composes a service.
    pub fn new(parts: ServiceParts) -> Self {
        Self {
            store: parts.store,
            clock: parts.clock,
            instance: parts.instance,
            key: parts.keys.credentials,
            digests: Digests::new(parts.keys.digests),
            limits: parts.limits,
            policy: parts.policy,
            ids: parts.ids,
            waits: parts.waits,
            waiting_attempts: parts.waiting_attempts,
            stun_uris: OnceLock::new(),
        }
    }

    // ---- facts -------------------------------------------------------------------------------------------------

    /// This life of the process.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The key of derived credentials: the UDP edge checks datagrams with it before it asks the store for anything.
    pub fn key(&self) -> &InstanceKey {
        &self.key
    }

    /// Ceilings and windows, for bounds checks at an edge (`Ttl::checked(ms, limits().lease_ttl)`).
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The clock of the store.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// The principal with this full name (`guest:` prefix for guests) in `tenant`.
    pub fn principal(&self, tenant: TenantId, name: &str) -> Principal {
        Principal { tenant, key: self.digests.principal(tenant, name) }
    }

    /// Availability as of now; drain deadlines included.
    pub fn availability(&self) -> Availability {
        self.store.availability()
    }

    /// The commit of the last accepted transition, for `Rendezvous-Commit`.
    pub fn last_commit(&self) -> u64 {
        self.store.last_commit()
    }

    /// What browsing sees now: commit, and for how many milliseconds it has been behind; 0 while nothing newer exists.
    pub fn published(&self) -> (u64, u64) {
        let commit = self.store.published_commit();
        let is_behind = commit < self.store.last_commit();
        let age_ms = self.clock.mono().ms_since(self.store.published_at());
        (commit, if is_behind { age_ms } else { 0 })
    }

    /// Commands waiting in the lane: creations, keep-alives.
    pub fn queued(&self) -> (usize, usize) {
        self.store.queued()
    }

    /// Long polls that wait now.
    pub fn waiting_polls(&self) -> u32 {
        self.waits.waiting()
    }

    /// Sets the STUN URIs once the UDP sockets are bound. The first call counts.
    pub fn set_stun_uris(&self, uris: Vec<String>) {
        let _ = self.stun_uris.set(uris.into());
    }

    /// Cleans up and publishes what is due, and lets long polls go once the store is lost. The server's ticker calls it
    /// every publish interval; it takes as long as the work that it finds.
    pub fn tick(&self) {
        self.store.tick();
        if self.store.availability() == Availability::Unavailable {
            self.waits.close();
        }
    }

    /// Lets every long poll answer at once, those to come as well: the process is about to end.
    pub fn end_long_polls(&self) {
        self.waits.close();
    }

    // ---- browsing: never enters the lane ------------------------------------------------------------------------

    /// One page of visible public listings.
    pub fn browse<R>(&self, query: &BrowseQuery<'_>, use_page: impl FnOnce(&PageView<'_>) -> R) -> Result<R, Failure> {
        self.store.browse(query, use_page)
    }

    /// The JSON row of one fresh listing, public or unlisted, with the commit of the view.
    pub fn listing<R>(
        &self,
        tenant: TenantId,
        id: ListingId,
        use_row: impl FnOnce(&[u8], u64) -> R,
    ) -> Result<R, Failure> {
        self.store.listing(tenant, id, use_row)
    }

    /// Waits at most 2 s until browsing sees `commit`; above the last commit: `Rejection::Invalid(FutureCommit)` at once;
    /// too late: `Failure::Unavailable(NotApplied)`.
    pub async fn await_commit(&self, commit: u64) -> Result<(), Failure> {
        self.has_reached(commit)?;
        let bound = Duration::from_millis(COMMIT_WAIT_MS);
        // Timed out or not, what browsing sees decides: the wait also ends when the store is lost.
        let _ = tokio::time::timeout(bound, self.store.published(commit)).await;
        if self.store.published_commit() < commit {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        Ok(())
    }

    // ---- shared by the methods in the other files ----------------------------------------------------------------

    async fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.store.submit(command).await
    }

    /// Refuses a commit above the last one: another instance gave it, and what is newer than it here would stay unseen.
    fn has_reached(&self, commit: u64) -> Result<(), Failure> {
        if commit > self.store.last_commit() {
            return Err(Rejection::Invalid(Invalid::FutureCommit).into());
        }
        Ok(())
    }

    fn stun(&self) -> Arc<[String]> {
        self.stun_uris.get().cloned().unwrap_or_default()
    }

    fn proof(&self, caller: &Caller, listing: ListingId, lease_token: &str) -> LeaseProof {
        LeaseProof { listing, caller: caller.principal, lease: fingerprint(lease_token.as_bytes()) }
    }

    fn random(&self) -> Result<u128, Failure> {
        self.ids.random().map_err(|error| {
            tracing::error!(event = "entropy_failed", %error);
            Failure::Unavailable(Certainty::NotApplied)
        })
    }
}

fn secret_fingerprint(secret: &Secret) -> Fingerprint {
    fingerprint(secret.expose().as_bytes())
}

/// A store that answers a command with another command's outcome keeps no promise: nobody knows what was applied.
fn foreign(outcome: &Outcome) -> Failure {
    tracing::error!(event = "foreign_outcome", ?outcome);
    Failure::Unavailable(Certainty::Unknown)
}
