//! The one API that an edge may call: it derives ids, tokens and fingerprints, attaches policy, and waits.
//!
//! Edges authorise by the outcome of a transition (rule A3); the service holds no state that decides.
#![allow(clippy::todo, unused_variables, unused_imports, dead_code)]

mod types;

pub use types::*;

use crate::clock::SharedClock;
use crate::credentials::{InstanceKey, Secret};
use crate::domain::{
    AttemptId, Bound, CreateAttempt, Details, Endpoint, Event, Failure, Family, Fingerprint, InstanceId, LeaseView,
    Limits, ListingId, MonoTime, Path, Present, Principal, Renewed, Revoked, Role, Status, TenantId, Ttl, Visibility,
    WallTime,
};
use crate::store::{AnyStore, Availability, BrowseQuery, PageView, Store};
use std::sync::Arc;

/// See the module's documentation. All methods that take `&self` may run concurrently.
pub struct Service {
    store: AnyStore<SharedClock>,
    clock: SharedClock,
    instance: InstanceId,
    key: InstanceKey,
    limits: Limits,
    policy: Policy,
}

impl Service {
    // ---- facts -------------------------------------------------------------------------------------------------

    /// This life of the process.
    pub fn instance(&self) -> InstanceId {
        todo!()
    }

    /// The key of derived credentials: the UDP edge checks datagrams with it before it asks the store for anything.
    pub fn key(&self) -> &InstanceKey {
        todo!()
    }

    /// Ceilings and windows, for bounds checks at an edge (`Ttl::checked(ms, limits().lease_ttl)`).
    pub fn limits(&self) -> &Limits {
        todo!()
    }

    /// The clock of the store.
    pub fn clock(&self) -> &SharedClock {
        todo!()
    }

    /// The principal with this full name (`guest:` prefix for guests) in `tenant`.
    pub fn principal(&self, tenant: TenantId, name: &str) -> Principal {
        todo!()
    }

    /// Availability as of now; drain deadlines included.
    pub fn availability(&self) -> Availability {
        todo!()
    }

    /// The commit of the last accepted transition, for `Rendezvous-Commit`.
    pub fn last_commit(&self) -> u64 {
        todo!()
    }

    /// What browsing sees now: commit, and its age in milliseconds.
    pub fn published(&self) -> (u64, u64) {
        todo!()
    }

    /// Commands waiting in the lane: creations, keep-alives.
    pub fn queued(&self) -> (usize, usize) {
        todo!()
    }

    /// Sets the STUN URIs once the UDP sockets are bound.
    pub fn set_stun_uris(&self, uris: Vec<String>) {
        todo!()
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
        todo!()
    }

    // ---- hosts -----------------------------------------------------------------------------------------------------

    /// Registers a listing. `idempotency_key` is the caller's header, as sent without its quotes.
    pub async fn register(
        &self,
        caller: &Caller,
        idempotency_key: &str,
        request: RegisterRequest,
    ) -> Result<Applied<ListingGrant>, Failure> {
        todo!()
    }

    /// Renews a lease by compare-and-swap. `lease_token` is the header as sent.
    pub async fn renew(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
        request: RenewRequest,
    ) -> Result<Applied<Renewed>, Failure> {
        todo!()
    }

    /// Deletes a listing.
    pub async fn delete(&self, caller: &Caller, listing: ListingId, lease_token: &str) -> Result<Applied<()>, Failure> {
        todo!()
    }

    /// The owner's view of its lease.
    pub async fn lease(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
    ) -> Result<Applied<LeaseView>, Failure> {
        todo!()
    }

    /// Pending attempts newer than `after`; waits up to `wait_ms` (clamped to 30,000) while there are none.
    pub async fn host_offers(
        &self,
        caller: &Caller,
        listing: ListingId,
        lease_token: &str,
        after: u64,
        wait_ms: u64,
    ) -> Result<HostOffers, Failure> {
        todo!()
    }

    /// Answers a gated attempt.
    pub async fn answer_gate(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        lease_token: &str,
        admit: bool,
    ) -> Result<Applied<()>, Failure> {
        todo!()
    }

    // ---- joiners and both sides ---------------------------------------------------------------------------------------

    /// Creates a join attempt.
    pub async fn create_attempt(
        &self,
        caller: &Caller,
        idempotency_key: &str,
        request: AttemptRequest,
    ) -> Result<Applied<AttemptGrant>, Failure> {
        todo!()
    }

    /// One side's view; with `after`, waits up to `wait_ms` until something newer than that commit happened to it.
    pub async fn attempt(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        after: Option<u64>,
        wait_ms: u64,
    ) -> Result<AttemptStatus, Failure> {
        todo!()
    }

    /// Ends an attempt: its joiner closes it, its host refuses it.
    pub async fn close_attempt(&self, caller: &Caller, attempt: AttemptId) -> Result<Applied<()>, Failure> {
        todo!()
    }

    /// Counts the path that one side saw. The family is that of the introduction, for the metrics.
    pub async fn report_path(
        &self,
        caller: &Caller,
        attempt: AttemptId,
        path: Path,
    ) -> Result<Applied<Option<Family>>, Failure> {
        todo!()
    }

    // ---- the UDP edge: integrity has been verified -----------------------------------------------------------------------

    /// One authenticated presence datagram (`p1`).
    pub async fn presence(&self, presence: crate::domain::Presence) -> Result<Applied<Present>, Failure> {
        todo!()
    }

    /// An authentic `p1` datagram whose nonce was not issued for its source.
    pub async fn note_unverified(&self, note: crate::domain::NoteUnverified) -> Result<Applied<()>, Failure> {
        todo!()
    }

    /// One authenticated bind datagram (`j1` or `h1`); introduces in the same transition when it completes a family.
    /// The service fills in the capability, because the verified integrity proves that the sender has it.
    pub async fn bind(
        &self,
        attempt: AttemptId,
        role: Role,
        listing: Option<ListingId>,
        endpoint: Endpoint,
        datagram: Fingerprint,
        nonce_issued: MonoTime,
    ) -> Result<Applied<Bound>, Failure> {
        todo!()
    }

    // ---- operators ---------------------------------------------------------------------------------------------------------

    /// Revokes a listing or principal of `tenant`. The key is good once.
    pub async fn revoke(
        &self,
        tenant: TenantId,
        subject: &NamedSubject,
        ttl: Ttl,
        idempotency_key: &str,
    ) -> Result<Applied<Revoked>, Failure> {
        todo!()
    }

    /// Lifts a revocation; `NotFound` when there was none.
    pub async fn lift_revocation(&self, tenant: TenantId, subject: &NamedSubject) -> Result<Applied<()>, Failure> {
        todo!()
    }

    /// Begins drain, or returns the first deadline. `None` uses the configured window.
    pub async fn drain(&self, window_ms: Option<u32>) -> Result<Applied<(MonoTime, WallTime)>, Failure> {
        todo!()
    }

    /// Counts against ceilings.
    pub async fn status(&self) -> Result<Applied<Status>, Failure> {
        todo!()
    }

    /// True while nobody waits for an introduction: drain may end early.
    pub async fn is_quiet(&self) -> bool {
        todo!()
    }
}
