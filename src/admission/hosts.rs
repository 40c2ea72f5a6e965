//! What hosts may do: register, find work, hold leases, apply commands.

use super::counters::Counters;
use super::model::{
    AcquireLeaseRequest, BeginCommandRequest, Bytes, CatalogEntry, ClaimCommandRequest, CommandSeq, CommandState,
    CompleteCommandRequest, Completion, DispositionInboxEntry, Epoch, Error, ErrorCode, GetCommandPayloadRequest,
    HostEntry, HostId, HostTargetKey, JournalStep, Lease, LeaseRef, Principal, RegisterHostRequest,
    ReleaseLeaseRequest, Revision, SessionId, SettleCommandRequest, Sha256, Tenant, Work,
};
use super::store::Notice;
use super::traits::{Clock, HostAuthorizer, HostStore, TargetResolver};
use super::waits::Waits;
use crate::domain::Wait;
use std::sync::Arc;
use std::time::Duration;

/// Most journal entries of one command that are looked through: two of each of this many leases and some.
const JOURNAL_MAX: usize = 512;
/// Most sessions in one answer about work.
const WORK_MAX: usize = 64;
/// Most sessions that one host may offer to run.
pub const CAPACITY_MAX: u32 = 4_096;

/// How long what hosts hold is granted for. What a host asks for is cut to these bounds, and the answer says what it got
/// (case L7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// How long a heartbeat counts.
    pub heartbeat: Duration,
    /// Shortest lease and claim.
    pub ttl_min: Duration,
    /// Longest lease and claim.
    pub ttl_max: Duration,
    /// What is granted to who does not ask.
    pub ttl_default: Duration,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(30),
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(300),
            ttl_default: Duration::from_secs(30),
        }
    }
}

/// What a [`HostService`] is made of.
#[derive(Clone)]
pub struct HostConfig {
    /// Decides every call.
    pub authorizer: Arc<dyn HostAuthorizer>,
    /// The keys that profiles use.
    pub targets: Arc<dyn TargetResolver>,
    /// The store.
    pub store: Arc<dyn HostStore>,
    /// Timers of long polls.
    pub clock: Arc<dyn Clock>,
    /// The polls of the store.
    pub waits: Arc<Waits>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// Bounds of what is granted.
    pub limits: HostLimits,
}

/// See the module's documentation. Every call says which host makes it, and every call checks that the host belongs to the
/// credential.
pub struct HostService {
    config: HostConfig,
}

impl HostService {
    /// Composes a service.
    pub fn new(config: HostConfig) -> Self {
        Self { config }
    }

    fn refused(&self, error: impl Into<Error>) -> Error {
        self.config.counters.refuse(error.into())
    }

    /// How long a heartbeat counts.
    pub fn heartbeat_ttl(&self) -> Duration {
        self.config.limits.heartbeat
    }

    /// What is granted to a host that asks for so much.
    pub fn granted(&self, asked: Option<Duration>) -> Duration {
        let limits = &self.config.limits;
        asked.unwrap_or(limits.ttl_default).clamp(limits.ttl_min, limits.ttl_max)
    }

    /// Registers a host, or says that it is still there.
    ///
    /// Errors: `forbidden`, `invalid` (key, capacity), `host_taken`, `unavailable`.
    pub async fn heartbeat(
        &self,
        principal: &Principal,
        host: HostId,
        key: HostTargetKey,
        capacity: u32,
    ) -> Result<HostEntry, Error> {
        let register = async {
            self.config.authorizer.authorize_host(principal, &key).await?;
            if !self.config.targets.is_known(&key).await? {
                return Err(Error::field(ErrorCode::Invalid, "target_key", "must be the key of a configured target"));
            }
            if capacity > CAPACITY_MAX {
                return Err(Error::field(ErrorCode::Invalid, "capacity", format!("must be at most {CAPACITY_MAX}")));
            }
            let credential = principal.name().clone();
            let ttl = self.config.limits.heartbeat;
            let request = RegisterHostRequest { host, credential, key, capacity, ttl };
            Ok(self.config.store.register_host(request).await?)
        };
        register.await.map_err(|error| self.refused(error))
    }

    /// The host, if it belongs to the principal and may still serve its key.
    async fn own(&self, principal: &Principal, host: &HostId) -> Result<HostEntry, Error> {
        // Asked first, so that no other kind of principal learns which hosts there are.
        let Principal::Host(credential) = principal else { return Err(Error::new(ErrorCode::Forbidden)) };
        let entry = self.config.store.get_host(host.clone()).await?;
        if entry.credential != credential.name {
            return Err(Error::new(ErrorCode::UnknownHost));
        }
        self.config.authorizer.authorize_host(principal, &entry.key).await?;
        Ok(entry)
    }

    /// The host, if it may hold leases of this tenant.
    async fn resident(&self, principal: &Principal, host: &HostId, tenant: &Tenant) -> Result<HostEntry, Error> {
        let entry = self.own(principal, host).await?;
        self.config.authorizer.authorize_residency(principal, tenant).await?;
        Ok(entry)
    }

    /// What there is to do; waits up to `wait` until there is something.
    pub async fn work(&self, principal: &Principal, host: &HostId, wait: impl Wait) -> Result<Vec<Work>, Error> {
        let find = async {
            self.own(principal, host).await?;
            let ask = || async {
                let mut served = Vec::new();
                for work in self.config.store.list_work(host.clone(), WORK_MAX).await? {
                    if self.config.authorizer.authorize_residency(principal, &work.session.tenant).await.is_ok() {
                        served.push(work);
                    }
                }
                let is_news = !served.is_empty();
                Ok((served, is_news))
            };
            self.config.waits.until(&*self.config.clock, Notice::Host(host.clone()), wait, ask).await
        };
        find.await.map_err(|error| self.refused(error))
    }

    /// Acquires a session's lease under a new epoch, which fences all before it.
    ///
    /// Errors: `forbidden`, `unknown_host`, `unknown_session` (also one of another key), `lease_held`, `session_closed`,
    /// `legacy_session_unsupported`, `unavailable`.
    pub async fn acquire_lease(
        &self,
        principal: &Principal,
        host: &HostId,
        tenant: Tenant,
        session: SessionId,
        ttl: Option<Duration>,
    ) -> Result<Lease, Error> {
        let acquire = async {
            let entry = self.resident(principal, host, &tenant).await?;
            let ttl = self.granted(ttl);
            let request = AcquireLeaseRequest { tenant, session, host: host.clone(), key: entry.key, ttl };
            let lease = self.config.store.acquire_lease(request).await?;
            self.config.counters.count_lease();
            Ok(lease)
        };
        acquire.await.map_err(|error: Error| self.refused(error))
    }

    /// Extends a lease. Errors: `lease_lost` and those of [`acquire_lease`](Self::acquire_lease).
    pub async fn renew_lease(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        ttl: Option<Duration>,
    ) -> Result<Lease, Error> {
        let renew = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            Ok(self.config.store.renew_lease(lease, self.granted(ttl)).await?)
        };
        renew.await.map_err(|error: Error| self.refused(error))
    }

    /// Lets go of a lease; with `close` the session is over.
    pub async fn release_lease(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        close: bool,
    ) -> Result<CatalogEntry, Error> {
        let release = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            Ok(self.config.store.release_lease(ReleaseLeaseRequest { lease, close }).await?)
        };
        release.await.map_err(|error: Error| self.refused(error))
    }

    /// Claims a command, or extends the claim. An answer that has ended already was finished by an older epoch, and is
    /// settled as its journal says.
    ///
    /// Errors: `late`, `lease_lost`, `claim_lost`, `already_settled`, `not_ready`, `revision_conflict`, `unavailable`.
    pub async fn claim(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        seq: CommandSeq,
        ttl: Option<Duration>,
        revision: Option<Revision>,
    ) -> Result<DispositionInboxEntry, Error> {
        let claim = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            let request = ClaimCommandRequest { lease, seq, ttl: self.granted(ttl), revision };
            let entry = self.config.store.claim_command(request).await?;
            if entry.state.is_terminal() {
                self.config.counters.count_settlement();
            } else {
                self.config.counters.count_claim(entry.deliveries > 1);
            }
            Ok(entry)
        };
        claim.await.map_err(|error: Error| self.refused(error))
    }

    /// Begins to apply a command: journal first, then the command (rule P5). Only who gets `Ok` may apply it. Again is the
    /// same. Errors: as [`claim`](Self::claim).
    pub async fn begin(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        seq: CommandSeq,
    ) -> Result<DispositionInboxEntry, Error> {
        let begin = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            let request = BeginCommandRequest { lease, seq };
            self.config.store.journal_begin(request.clone()).await?;
            let entry = self.config.store.begin_applying(request).await?;
            self.config.counters.count_begin();
            Ok(entry)
        };
        begin.await.map_err(|error: Error| self.refused(error))
    }

    /// Reports how it went: journal first, then the command. After the deadline it is accepted from the epoch that had
    /// begun in time, and marked late. Again is the same. Errors: as [`claim`](Self::claim).
    pub async fn complete(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        seq: CommandSeq,
        completion: Completion,
    ) -> Result<DispositionInboxEntry, Error> {
        let complete = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            let request = CompleteCommandRequest { lease, seq, completion };
            self.config.store.journal_finish(request.clone()).await?;
            let entry = self.config.store.complete_command(request).await?;
            let late = entry.outcome.as_ref().is_some_and(|outcome| outcome.late);
            self.config.counters.count_completion(entry.state == CommandState::Applied, late);
            Ok(entry)
        };
        complete.await.map_err(|error: Error| self.refused(error))
    }

    /// Settles what an older epoch left, by what the journal says: applied if it finished, else, once the deadline has
    /// passed, expired as `claimed_not_applied` (rule P5). Errors: as [`claim`](Self::claim).
    pub async fn settle(
        &self,
        principal: &Principal,
        lease: LeaseRef,
        seq: CommandSeq,
    ) -> Result<DispositionInboxEntry, Error> {
        let settle = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            let entry = self.config.store.settle_command(SettleCommandRequest { lease, seq }).await?;
            self.config.counters.count_settlement();
            Ok(entry)
        };
        settle.await.map_err(|error: Error| self.refused(error))
    }

    /// How the journal has the command's end under this lease, when it has one: what [`complete`](Self::complete) wrote first.
    ///
    /// Errors: `forbidden`, `unknown_host`, `unavailable`.
    pub async fn journaled_end(
        &self,
        principal: &Principal,
        lease: &LeaseRef,
        seq: CommandSeq,
    ) -> Result<Option<JournalStep>, Error> {
        let look = async {
            self.resident(principal, &lease.host, &lease.tenant).await?;
            let journal = self.config.store.read_journal(lease.tenant.clone(), lease.session, seq, JOURNAL_MAX).await?;
            let ends = |step| matches!(step, JournalStep::FinishApplied | JournalStep::FinishRejected);
            let end = journal.into_iter().find(|entry| entry.epoch == lease.epoch && ends(entry.step));
            Ok(end.map(|entry| entry.step))
        };
        look.await.map_err(|error: Error| self.refused(error))
    }

    async fn holder(&self, principal: &Principal, lease: &LeaseRef) -> Result<(), Error> {
        self.resident(principal, &lease.host, &lease.tenant).await?;
        let owner = self.config.store.owner(lease.tenant.clone(), lease.session).await?;
        let is_holder = owner.is_some_and(|owner| owner.lease.host == lease.host && owner.lease.epoch == lease.epoch);
        if is_holder { Ok(()) } else { Err(Error::new(ErrorCode::LeaseLost)) }
    }

    /// Whether any host of the principal's credential holds the session's lease now. Errors: `lease_lost` and those of
    /// [`acquire_lease`](Self::acquire_lease).
    pub async fn runs(&self, principal: &Principal, tenant: Tenant, session: SessionId) -> Result<(), Error> {
        let look = async {
            let Principal::Host(_) = principal else { return Err(Error::new(ErrorCode::Forbidden)) };
            let owner = self.config.store.owner(tenant.clone(), session).await?;
            let lease = owner.ok_or(Error::new(ErrorCode::LeaseLost))?.lease;
            match self.resident(principal, &lease.host, &tenant).await {
                // Somebody else's host: who runs the session is no business of this one.
                Err(error) if error.code == ErrorCode::UnknownHost => Err(Error::new(ErrorCode::LeaseLost)),
                looked => looked.map(|_| ()),
            }
        };
        look.await.map_err(|error| self.refused(error))
    }

    /// The content that a command refers to. Only for the holder of the session's lease.
    pub async fn payload(&self, principal: &Principal, lease: LeaseRef, sha256: Sha256) -> Result<Bytes, Error> {
        let read = async {
            self.holder(principal, &lease).await?;
            let request = GetCommandPayloadRequest { tenant: lease.tenant, session: lease.session, sha256 };
            Ok(self.config.store.get_command_payload(request).await?)
        };
        read.await.map_err(|error: Error| self.refused(error))
    }
}

/// The lease that a host names in a call.
impl LeaseRef {
    /// Names a lease.
    pub fn new(tenant: Tenant, session: SessionId, host: HostId, epoch: Epoch) -> Self {
        Self { tenant, session, host, epoch }
    }
}
