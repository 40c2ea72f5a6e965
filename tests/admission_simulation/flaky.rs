//! The store as one process sees it: a call may fail before it is made, be made twice, or lose its reply; and between any
//! two steps the process may be stopped for a while or for good.

use crate::model::Model;
use crate::rng::Rng;
use rendezvous::admission::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// How often what goes wrong, in a thousand calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) fails: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
}

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Flaky {
    pub(crate) inner: Store,
    pub(crate) model: Arc<Model>,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    /// Set once faults are over.
    pub(crate) calm: Arc<AtomicBool>,
}

/// Gives way once: here a schedule goes on with somebody else.
pub(crate) struct Step(bool);

pub(crate) fn step() -> Step {
    Step(false)
}

impl Future for Step {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Flaky {
    fn hits(&self, permille: u64) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.rng.chance(permille)
    }

    async fn call<R: Request, T: Send>(
        &self,
        request: R,
        make: impl Fn(R) -> StoreAnswer<'static, T> + Send + Sync,
    ) -> Result<T, StoreError> {
        step().await;
        if self.hits(self.faults.fails) {
            return Err(Unavailable::nothing_happened("simulated").into());
        }
        let mut answer = make(request.clone()).await;
        self.model.after(&self.inner, &request, answer.is_ok()).await;
        if self.hits(self.faults.doubled) {
            // The network delivered it twice; the caller sees the second reply.
            self.model.count(|report| report.doubled += 1);
            answer = make(request.clone()).await;
            self.model.after(&self.inner, &request, answer.is_ok()).await;
        }
        step().await;
        if self.hits(self.faults.lost) {
            self.model.count(|report| report.lost += 1);
            return Err(Unavailable::outcome_unknown("simulated").into());
        }
        answer
    }
}

/// What the model looks at after a call.
pub(crate) trait Request: Clone + Send + Sync {
    fn session(&self) -> Option<(&Tenant, SessionId)> {
        None
    }

    fn seq(&self) -> Option<CommandSeq> {
        None
    }

    /// The epoch whose end of an application this journals.
    fn finishes(&self) -> Option<Epoch> {
        None
    }
}

macro_rules! request {
    ($($type:ty $(: $($path:ident).+)?  $(=> $seq:ident)?;)+) => {
        $(impl Request for $type {
            $(fn session(&self) -> Option<(&Tenant, SessionId)> {
                Some((&self.$($path.)+tenant, self.$($path.)+session))
            })?
            $(fn seq(&self) -> Option<CommandSeq> {
                Some(self.$seq)
            })?
        })+
    };
}

macro_rules! plain {
    ($($type:ty $(=> $seq:ident)?;)+) => {
        $(impl Request for $type {
            fn session(&self) -> Option<(&Tenant, SessionId)> {
                Some((&self.tenant, self.session))
            }
            $(fn seq(&self) -> Option<CommandSeq> {
                Some(self.$seq)
            })?
        })+
    };
}

macro_rules! leased {
    ($($type:ty $(=> $seq:ident)?;)+) => {
        $(impl Request for $type {
            fn session(&self) -> Option<(&Tenant, SessionId)> {
                Some((&self.lease.tenant, self.lease.session))
            }
            $(fn seq(&self) -> Option<CommandSeq> {
                Some(self.$seq)
            })?
        })+
    };
}

request! {
    PreparePublicCreateRequest;
    ListDueCommandsRequest;
    RegisterHostRequest;
    HostId;
}

plain! {
    GetCatalogEntryRequest;
    CreateCatalogEntryRequest;
    AdmitDispositionCommandRequest;
    PutCommandPayloadRequest;
    GetCommandPayloadRequest;
    AdmitPublicCreateRequest;
    AcquireReconciliationClaimRequest;
    ReleaseReconciliationClaimRequest;
    AcquireLeaseRequest;
    GetDispositionCommandRequest => seq;
    RejectDispositionCommandRequest => seq;
}

leased! {
    ReleaseLeaseRequest;
    ClaimCommandRequest => seq;
    BeginCommandRequest => seq;
    SettleCommandRequest => seq;
}

impl Request for CompleteCommandRequest {
    fn session(&self) -> Option<(&Tenant, SessionId)> {
        Some((&self.lease.tenant, self.lease.session))
    }

    fn seq(&self) -> Option<CommandSeq> {
        Some(self.seq)
    }

    fn finishes(&self) -> Option<Epoch> {
        (self.completion == Completion::Applied).then_some(self.lease.epoch)
    }
}

impl Request for (LeaseRef, Duration) {
    fn session(&self) -> Option<(&Tenant, SessionId)> {
        Some((&self.0.tenant, self.0.session))
    }
}

impl Request for (Tenant, SessionId) {
    fn session(&self) -> Option<(&Tenant, SessionId)> {
        Some((&self.0, self.1))
    }
}

impl Request for (HostId, usize) {}

impl Request for (Tenant, SessionId, CommandSeq, usize) {}

/// Each method makes its call on a clone of the store, which lives as long as the answer.
macro_rules! forward {
    ($trait:ident { $($method:ident($request:ty) -> $answer:ty;)+ }) => {
        impl $trait for Flaky {
            $(fn $method(&self, request: $request) -> StoreAnswer<'_, $answer> {
                let store = self.inner.clone();
                Box::pin(self.call(request, move |request| {
                    let store = store.clone();
                    Box::pin(async move { $trait::$method(&store, request).await })
                }))
            })+
        }
    };
}

forward!(Catalog {
    get_catalog_entry(GetCatalogEntryRequest) -> CatalogEntry;
    create_catalog_entry(CreateCatalogEntryRequest) -> (CatalogEntry, bool);
});
forward!(CommandStore {
    admit_disposition_command(AdmitDispositionCommandRequest) -> (DispositionInboxEntry, bool);
    get_disposition_command(GetDispositionCommandRequest) -> (DispositionInboxEntry, Timestamp);
    put_command_payload(PutCommandPayloadRequest) -> ObjectMetadata;
});
forward!(PublicCreateStore {
    prepare_public_create(PreparePublicCreateRequest) -> PublicCreatePreparation;
    put_command_payload(PutCommandPayloadRequest) -> ObjectMetadata;
    admit_public_create(AdmitPublicCreateRequest) -> (DispositionInboxEntry, bool);
});
forward!(DispositionSettlement {
    reject_disposition_command(RejectDispositionCommandRequest) -> (DispositionInboxEntry, bool);
});
forward!(Claims {
    acquire_reconciliation_claim(AcquireReconciliationClaimRequest) -> ReconciliationClaimEntry;
    release_reconciliation_claim(ReleaseReconciliationClaimRequest) -> ReconciliationClaimEntry;
});

impl DispositionDue for Flaky {
    fn control_shards(&self) -> u32 {
        DispositionDue::control_shards(&self.inner)
    }

    fn list_due_disposition_commands(&self, request: ListDueCommandsRequest) -> StoreAnswer<'_, DueCommandPage> {
        let store = self.inner.clone();
        Box::pin(self.call(request, move |request| {
            let store = store.clone();
            Box::pin(async move { store.list_due_disposition_commands(request).await })
        }))
    }
}

impl OwnerDirectory for Flaky {
    fn owner(&self, tenant: Tenant, session: SessionId) -> StoreAnswer<'_, Option<OwnerObservation>> {
        let store = self.inner.clone();
        Box::pin(self.call((tenant, session), move |(tenant, session)| {
            let store = store.clone();
            Box::pin(async move { store.owner(tenant, session).await })
        }))
    }
}

/// As `forward`, for methods of several arguments.
macro_rules! spread {
    ($self:ident, ($($name:ident: $value:expr),+), $method:ident) => {{
        let store = $self.inner.clone();
        Box::pin($self.call(($($value,)+), move |($($name,)+)| {
            let store = store.clone();
            Box::pin(async move { store.$method($($name),+).await })
        }))
    }};
}

macro_rules! single {
    ($($method:ident($request:ty) -> $answer:ty;)+) => {
        $(fn $method(&self, request: $request) -> StoreAnswer<'_, $answer> {
            let store = self.inner.clone();
            Box::pin(self.call(request, move |request| {
                let store = store.clone();
                Box::pin(async move { HostStore::$method(&store, request).await })
            }))
        })+
    };
}

impl HostStore for Flaky {
    single! {
        register_host(RegisterHostRequest) -> HostEntry;
        get_host(HostId) -> HostEntry;
        acquire_lease(AcquireLeaseRequest) -> Lease;
        release_lease(ReleaseLeaseRequest) -> CatalogEntry;
        claim_command(ClaimCommandRequest) -> DispositionInboxEntry;
        journal_begin(BeginCommandRequest) -> JournalEntry;
        begin_applying(BeginCommandRequest) -> DispositionInboxEntry;
        journal_finish(CompleteCommandRequest) -> JournalEntry;
        complete_command(CompleteCommandRequest) -> DispositionInboxEntry;
        settle_command(SettleCommandRequest) -> DispositionInboxEntry;
        get_command_payload(GetCommandPayloadRequest) -> Bytes;
    }

    fn list_work(&self, host: HostId, limit: usize) -> StoreAnswer<'_, Vec<Work>> {
        spread!(self, (host: host, limit: limit), list_work)
    }

    fn renew_lease(&self, lease: LeaseRef, ttl: Duration) -> StoreAnswer<'_, Lease> {
        spread!(self, (lease: lease, ttl: ttl), renew_lease)
    }

    fn read_journal(
        &self,
        tenant: Tenant,
        session: SessionId,
        seq: CommandSeq,
        limit: usize,
    ) -> StoreAnswer<'_, Vec<JournalEntry>> {
        spread!(self, (tenant: tenant, session: session, seq: seq, limit: limit), read_journal)
    }
}
