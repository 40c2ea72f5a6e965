//! What an edge may ask of the command plane: its services as they are, and where it meets the directory, the gate.
//!
//! The plane's own services authorise every call (rule P1 of the command plane); nothing here decides.

use super::GateAnswered;
use super::Service;
use super::readiness::{Looks, PROBE_WAIT, StoreFlaw, WriteProbe};
use crate::admission::{
    AdmissionView, Bytes, Catalog, CommandEntry, CommandKind, CommandSeq, CommandState, CommandStore, CommandView,
    Completion, CreateRequest, DispositionInboxEntry, Error, ErrorCode, GateDecision, GateResponseRequest,
    GetCatalogEntryRequest, GetDispositionCommandRequest, HostService, InputRequest, InterruptRequest, JournalStep,
    LeaseRef, ObjectMetadata, OperatorService, OutcomeCode, Principal, PrincipalName, RequestKey, RestoreRequest,
    ServicePrincipal, SessionId, SessionView, Sha256, Tenant, TenantPrincipal, Waits,
};
use crate::domain::{AttemptId, Failure, MonoTime, SessionRef, TenantId, Wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a `gate_response` ends whose attempt is over, or was never at the session's gate.
pub const ATTEMPT_GONE: &str = "attempt_gone";

/// What a [`CommandPlane`] is made of.
pub struct CommandPlaneParts {
    /// Admission.
    pub service: crate::admission::Service,
    /// What hosts may do.
    pub hosts: HostService,
    /// What an operator sees.
    pub operator: OperatorService,
    /// The commands and the sessions, to see what a host completes.
    pub commands: Arc<dyn CommandStore>,
    /// The same.
    pub catalog: Arc<dyn Catalog>,
    /// The polls of the store.
    pub waits: Arc<Waits>,
    /// The tenants' names, by [`TenantId`].
    pub tenants: Arc<[Tenant]>,
    /// What the store is called in the configuration.
    pub store: &'static str,
}

/// See the module's documentation. All methods may run concurrently.
pub struct CommandPlane {
    parts: CommandPlaneParts,
    looks: Looks,
    writes: WriteProbe,
    /// What keeps it going is lost, beside its store.
    lost: AtomicBool,
}

/// Why a completion was not taken.
#[derive(Debug)]
pub enum CompletionError {
    /// The command plane said no, or can't say.
    Plane(Error),
    /// The directory can't say whether the gate was answered: the same call may be repeated.
    Directory(Failure),
}

impl From<Error> for CompletionError {
    fn from(error: Error) -> Self {
        Self::Plane(error)
    }
}

impl CommandPlane {
    /// Composes it.
    pub fn new(parts: CommandPlaneParts) -> Self {
        Self { parts, looks: Looks::default(), writes: WriteProbe::default(), lost: AtomicBool::new(false) }
    }

    /// What hosts may do.
    pub fn hosts(&self) -> &HostService {
        &self.parts.hosts
    }

    /// What the store is called in the configuration.
    pub fn store(&self) -> &'static str {
        self.parts.store
    }

    /// The name under which durable rows know a tenant.
    pub fn tenant(&self, tenant: TenantId) -> Option<&Tenant> {
        self.parts.tenants.get(usize::from(tenant.0))
    }

    /// A principal of a tenant by its full name (`guest:` prefix for guests).
    ///
    /// A name that a durable row can't keep as it is, for it is too long or not ASCII, is kept as its digest.
    pub fn principal(&self, tenant: TenantId, name: &str, is_guest: bool) -> Option<Principal> {
        let tenant = self.tenant(tenant)?.clone();
        let kept = if is_guest { PrincipalName::new(name) } else { PrincipalName::new(format!("user:{name}")) };
        let digest = || PrincipalName::new(format!("user-sha256:{}", Sha256::of(name.as_bytes())));
        let name = kept.or_else(|_| digest()).ok()?;
        Some(Principal::Tenant(TenantPrincipal { tenant, name }))
    }

    /// Whether the store answers, and takes writes. Asked by readiness: a process whose store is gone should get no work.
    pub async fn readiness(&self, now: MonoTime) -> Result<(), StoreFlaw> {
        let store = &self.parts.operator.store;
        let look = async {
            let answers = tokio::time::timeout(PROBE_WAIT, store.now());
            let (answered, is_written) = tokio::join!(answers, self.writes.holds(now, || store.probe_write()));
            match answered {
                Ok(Ok(_)) if is_written => Ok(()),
                Ok(Ok(_)) => Err(StoreFlaw::Unwritable),
                Ok(Err(_)) | Err(_) => Err(StoreFlaw::Silent),
            }
        };
        self.looks.ask(now, look).await
    }

    /// Whether the plane is lost for ever, so that the process has to start again.
    pub fn is_lost(&self) -> bool {
        // Relaxed: the flag stands for itself.
        self.lost.load(Ordering::Relaxed) || self.parts.operator.store.is_lost()
    }

    /// From now on health says that the plane is lost: what runs beside its store ended by itself.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Lets every poll answer at once, those to come as well.
    pub fn end_long_polls(&self) {
        self.parts.waits.release();
    }

    /// Whether drain has let go of the polls.
    pub fn polls_are_released(&self) -> bool {
        self.parts.waits.is_released()
    }

    // ---- tenants' principals ------------------------------------------------------------------------------------

    /// Asks for a session; see [`crate::admission::Service::admit_create`].
    pub async fn create(&self, by: &Principal, request: CreateRequest) -> Result<(CommandEntry, bool), Error> {
        plain(self.parts.service.admit_create(by, request).await)
    }

    /// Sends an input.
    pub async fn input(&self, by: &Principal, request: InputRequest) -> Result<(CommandEntry, bool), Error> {
        plain(self.parts.service.admit_input(by, request).await)
    }

    /// Sends an interrupt.
    pub async fn interrupt(&self, by: &Principal, request: InterruptRequest) -> Result<(CommandEntry, bool), Error> {
        plain(self.parts.service.admit_interrupt(by, request).await)
    }

    /// Sends a restore.
    pub async fn restore(&self, by: &Principal, request: RestoreRequest) -> Result<(CommandEntry, bool), Error> {
        plain(self.parts.service.admit_restore(by, request).await)
    }

    /// Answers a join attempt.
    pub async fn gate_response(
        &self,
        by: &Principal,
        request: GateResponseRequest,
    ) -> Result<(CommandEntry, bool), Error> {
        plain(self.parts.service.admit_gate_response(by, request).await)
    }

    /// A command; waits up to `wait` for its end.
    pub async fn command(
        &self,
        by: &Principal,
        session: SessionId,
        seq: CommandSeq,
        wait: impl Wait,
    ) -> Result<CommandView, Error> {
        self.parts.service.command(by, session, seq, wait).await
    }

    /// A session with who runs it.
    pub async fn session(&self, by: &Principal, session: SessionId) -> Result<SessionView, Error> {
        self.parts.service.session(by, session).await
    }

    /// Stores a payload: for an admitted session, or with `create` for the create that was prepared under this key.
    pub async fn put_payload(
        &self,
        by: &Principal,
        session: SessionId,
        create: Option<RequestKey>,
        sha256: Sha256,
        bytes: Bytes,
    ) -> Result<ObjectMetadata, Error> {
        match create {
            Some(key) => self.parts.service.put_create_payload(by, session, key, sha256, bytes).await,
            None => self.parts.service.put_payload(by, session, sha256, bytes).await,
        }
    }

    // ---- hosts --------------------------------------------------------------------------------------------------

    /// Reports how it went. What answers a gate is done in the directory first, so that `applied` means that the player
    /// was let in, or not; an attempt that is over makes it a rejection, [`ATTEMPT_GONE`].
    pub async fn complete(
        &self,
        directory: &Service,
        by: &Principal,
        lease: LeaseRef,
        seq: CommandSeq,
        completion: Completion,
    ) -> Result<CommandEntry, CompletionError> {
        let asked = completion.clone();
        let completion = match completion {
            Completion::Applied => self.answer_gate(directory, by, &lease, seq).await?,
            Completion::Rejected(code) => Completion::Rejected(code),
        };
        match self.parts.hosts.complete(by, lease.clone(), seq, completion.clone()).await {
            // The attempt ended after an earlier try, which the journal knows as it was asked: that one is finished.
            Err(error) if error.code == ErrorCode::AlreadySettled && completion != asked => {
                Ok(self.parts.hosts.complete(by, lease, seq, asked).await?.0)
            }
            taken => Ok(taken?.0),
        }
    }

    /// Repeating it is harmless, so it may be done before the journal says so: a crash in between leaves an answered gate
    /// and a command that is redelivered.
    async fn answer_gate(
        &self,
        directory: &Service,
        by: &Principal,
        lease: &LeaseRef,
        seq: CommandSeq,
    ) -> Result<Completion, CompletionError> {
        let (tenant, session) = (lease.tenant.clone(), lease.session);
        let request = GetDispositionCommandRequest { tenant: tenant.clone(), session, seq };
        let (entry, _) = self.parts.commands.get_disposition_command(request).await.map_err(Error::from)?;
        let is_gone = entry.outcome.as_ref().is_some_and(|outcome| outcome.code.as_str() == ATTEMPT_GONE);
        if entry.kind == CommandKind::GateResponse && is_gone {
            // The same answer to the same call.
            return Ok(gone());
        }
        let is_begun = entry.state == CommandState::Applying && entry.applying == Some(lease.epoch);
        if entry.kind != CommandKind::GateResponse || !is_begun {
            return Ok(Completion::Applied);
        }
        // What the journal has is how it ended: nothing is asked of the directory any more.
        match self.parts.hosts.journaled_end(by, lease, seq).await? {
            Some(JournalStep::FinishApplied) => return Ok(Completion::Applied),
            Some(JournalStep::FinishRejected) => return Ok(gone()),
            Some(JournalStep::Fence | JournalStep::Begin) | None => {}
        }
        let request = GetCatalogEntryRequest { tenant, session };
        let last = self.parts.catalog.get_catalog_entry(request).await.map_err(Error::from)?.lease;
        // A lapsed lease may still complete what it has begun, but not once a newer one has written its fence: that the
        // store refuses, and nothing may have happened here before.
        if !last.is_some_and(|last| last.epoch == lease.epoch && last.host == lease.host) {
            return Ok(Completion::Applied);
        }
        let Some(GateDecision { attempt_id, admit }) = GateDecision::read(&entry.payload) else { return Ok(gone()) };
        let position = self.parts.tenants.iter().position(|tenant| *tenant == lease.tenant);
        let Some(tenant) = position.and_then(|position| u16::try_from(position).ok()).map(TenantId) else {
            return Ok(gone());
        };
        let host = directory.principal(tenant, by.name().as_str());
        match directory.answer_session_gate(host, SessionRef(session.0), AttemptId(attempt_id), admit).await {
            Ok(GateAnswered::AsAsked) => Ok(Completion::Applied),
            Ok(GateAnswered::Gone) => Ok(gone()),
            Err(failure) => Err(CompletionError::Directory(failure)),
        }
    }

    // ---- the operator -------------------------------------------------------------------------------------------

    /// The state of the plane over all tenants.
    pub async fn view(&self, operator: PrincipalName) -> Result<AdmissionView, Error> {
        self.parts.operator.view(&Principal::Service(ServicePrincipal { name: operator })).await
    }
}

fn plain(admitted: Result<(DispositionInboxEntry, bool), Error>) -> Result<(CommandEntry, bool), Error> {
    admitted.map(|(entry, created)| (entry.0, created))
}

fn gone() -> Completion {
    Completion::Rejected(OutcomeCode::known(ATTEMPT_GONE))
}
