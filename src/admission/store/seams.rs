//! The traits of the plane, each call one rule.

use super::records::{
    COMMAND, COMMAND_KEY, CommandKeyRow, CommandRow, CreateRow, HOST, HostRow, Key, MetaRow, PUBLIC_CREATE, SESSION,
    SessionRow, TENANT_USAGE, Table, TenantRow,
};
use super::rules::{self, reject::Reject};
use super::{Plan, Store};
use crate::admission::model::*;
use crate::admission::traits::*;
use std::time::Duration;

/// Locks are numbers: equal names give equal locks, and a rare other name too, which costs waiting and nothing else.
fn lock(kind: &str, parts: &[&[u8]]) -> u64 {
    let parts = parts.iter().flat_map(|part| part.iter().copied().chain([0xFF]));
    fnv1a(kind.bytes().chain([0xFF]).chain(parts))
}

fn session_lock(tenant: &Tenant, session: SessionId) -> u64 {
    lock("session", &[tenant.as_str().as_bytes(), &session.0.to_be_bytes()])
}

fn tenant_lock(tenant: &Tenant) -> u64 {
    lock("tenant", &[tenant.as_str().as_bytes()])
}

fn key_lock(key: &HostTargetKey) -> u64 {
    lock("key", &[key.as_str().as_bytes()])
}

/// All that writes about a session holds its lock; its tenant's counters change with most of them.
pub(super) fn session_plan(tenant: &Tenant, session: SessionId) -> Plan {
    Plan {
        is_read: false,
        locks: vec![session_lock(tenant, session), tenant_lock(tenant)],
        wanted: vec![(&SESSION, SessionRow::key(tenant, &session)), (&TENANT_USAGE, TenantRow::key(tenant))],
    }
}

/// A command's own row too.
fn command_plan(tenant: &Tenant, session: SessionId, seq: CommandSeq) -> Plan {
    let mut plan = session_plan(tenant, session);
    plan.wanted.push((&COMMAND, CommandRow::key(tenant, &session, &seq)));
    plan
}

/// Also the hosts of a key, whose counts change with placements.
pub(super) fn placement_plan(tenant: &Tenant, session: SessionId, key: &HostTargetKey) -> Plan {
    let mut plan = session_plan(tenant, session);
    plan.locks.push(key_lock(key));
    plan
}

fn create_rows(tenant: &Tenant, idempotency: &Idempotency) -> (&'static Table, Key) {
    let digest = rules::admit::key_digest(&idempotency.principal, CommandKind::Create, &idempotency.key);
    (&PUBLIC_CREATE, CreateRow::key(tenant, &digest))
}

/// The name under which [`Store::probe_write`] writes.
const PROBED: &str = "probed";

impl Store {
    /// Writes a row that nobody reads: whether a write gets through, as far as the disk.
    pub fn probe_write(&self) -> StoreAnswer<'static, ()> {
        let plan = Plan { locks: vec![lock(PROBED, &[])], ..Plan::default() };
        self.ask(plan, |unit| {
            unit.put(&MetaRow { name: PROBED.into(), value: unit.now.0 });
            Ok(())
        })
    }
}

impl Catalog for Store {
    fn get_catalog_entry(&self, request: GetCatalogEntryRequest) -> StoreAnswer<'_, CatalogEntry> {
        self.read(move |unit| rules::catalog::get(unit, &request))
    }

    fn create_catalog_entry(&self, request: CreateCatalogEntryRequest) -> StoreAnswer<'_, (CatalogEntry, bool)> {
        let plan = session_plan(&request.tenant, request.session);
        self.ask(plan, move |unit| rules::catalog::create(unit, &request))
    }
}

impl CommandStore for Store {
    fn admit_disposition_command(
        &self,
        request: AdmitDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
        let mut plan = session_plan(&request.tenant, request.session);
        let digest = rules::admit::key_digest(&request.idempotency.principal, request.kind, &request.idempotency.key);
        plan.wanted.push((&COMMAND_KEY, CommandKeyRow::key(&request.tenant, &request.session, &digest)));
        self.ask(plan, move |unit| {
            rules::admit::disposition(unit, &request).map(|(entry, created)| (DispositionInboxEntry(entry), created))
        })
    }

    fn get_disposition_command(
        &self,
        request: GetDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, Timestamp)> {
        self.read(move |unit| {
            let row = rules::command(unit, &request.tenant, request.session, request.seq)?;
            if row.family != ProtocolMode::Disposition {
                return Err(Refusal::UnknownCommand.into());
            }
            Ok((DispositionInboxEntry(row.entry()?), unit.now))
        })
    }

    fn put_command_payload(&self, request: PutCommandPayloadRequest) -> StoreAnswer<'_, ObjectMetadata> {
        put_payload(self, request)
    }
}

fn put_payload(store: &Store, request: PutCommandPayloadRequest) -> StoreAnswer<'static, ObjectMetadata> {
    // Hashed by the caller, not by the writer whom everybody waits for.
    let sha256 = Sha256::of(&request.bytes);
    let plan = session_plan(&request.tenant, request.session);
    store.ask(plan, move |unit| rules::payloads::put(unit, sha256, &request))
}

impl PublicCreateStore for Store {
    fn prepare_public_create(&self, request: PreparePublicCreateRequest) -> StoreAnswer<'_, PublicCreatePreparation> {
        let plan = Plan {
            is_read: false,
            // The create's row is found by the key: with the tenant's lock nobody else can reserve for it.
            locks: vec![tenant_lock(&request.tenant)],
            wanted: vec![
                create_rows(&request.tenant, &request.idempotency),
                (&TENANT_USAGE, TenantRow::key(&request.tenant)),
            ],
        };
        self.ask(plan, move |unit| rules::create::prepare(unit, &request))
    }

    fn put_command_payload(&self, request: PutCommandPayloadRequest) -> StoreAnswer<'_, ObjectMetadata> {
        put_payload(self, request)
    }

    fn admit_public_create(&self, request: AdmitPublicCreateRequest) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
        let mut plan = session_plan(&request.tenant, request.session);
        plan.wanted.push(create_rows(&request.tenant, &request.idempotency));
        self.ask(plan, move |unit| {
            rules::create::admit(unit, &request).map(|(entry, created)| (DispositionInboxEntry(entry), created))
        })
    }
}

impl LegacyCreates for Store {
    fn admit_legacy_command(&self, request: AdmitLegacyCommandRequest) -> StoreAnswer<'_, (InboxEntry, bool)> {
        let plan = session_plan(&request.tenant, request.session);
        self.ask(plan, move |unit| {
            rules::admit::legacy(unit, &request).map(|(entry, created)| (InboxEntry(entry), created))
        })
    }
}

impl Settlement for Store {
    fn reject_command(&self, request: RejectCommandRequest) -> StoreAnswer<'_, InboxEntry> {
        let plan = command_plan(&request.tenant, request.session, request.seq);
        self.ask(plan, move |unit| {
            let RejectCommandRequest { tenant, session, seq, revision, by } = &request;
            let family = ProtocolMode::Legacy;
            let reject = Reject { family, tenant, session: *session, seq: *seq, revision: *revision, by };
            rules::reject::reject(unit, &reject).map(|(entry, _)| InboxEntry(entry))
        })
    }
}

impl DispositionSettlement for Store {
    fn reject_disposition_command(
        &self,
        request: RejectDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
        let plan = command_plan(&request.tenant, request.session, request.seq);
        self.ask(plan, move |unit| {
            let RejectDispositionCommandRequest { tenant, session, seq, revision, by } = &request;
            let family = ProtocolMode::Disposition;
            let reject = Reject { family, tenant, session: *session, seq: *seq, revision: *revision, by };
            rules::reject::reject(unit, &reject).map(|(entry, rejected)| (DispositionInboxEntry(entry), rejected))
        })
    }
}

impl DueCommands for Store {
    fn control_shards(&self) -> u32 {
        self.settings.control_shards
    }

    fn list_due_commands(&self, request: ListDueCommandsRequest) -> StoreAnswer<'_, DueCommandPage> {
        self.read(move |unit| rules::due::list(unit, ProtocolMode::Legacy, &request))
    }
}

impl DispositionDue for Store {
    fn control_shards(&self) -> u32 {
        self.settings.control_shards
    }

    fn list_due_disposition_commands(
        &self,
        request: ListDueDispositionCommandsRequest,
    ) -> StoreAnswer<'_, DispositionDueCommandPage> {
        self.read(move |unit| rules::due::list(unit, ProtocolMode::Disposition, &request))
    }
}

impl Claims for Store {
    fn acquire_reconciliation_claim(
        &self,
        request: AcquireReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        let locks = vec![session_lock(&request.tenant, request.session)];
        let plan = Plan { locks, ..Plan::default() };
        self.ask(plan, move |unit| rules::claims::acquire(unit, &request))
    }

    fn release_reconciliation_claim(
        &self,
        request: ReleaseReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        let locks = vec![session_lock(&request.tenant, request.session)];
        let plan = Plan { locks, ..Plan::default() };
        self.ask(plan, move |unit| rules::claims::release(unit, &request))
    }
}

impl OwnerDirectory for Store {
    fn owner(&self, tenant: Tenant, session: SessionId) -> StoreAnswer<'_, Option<OwnerObservation>> {
        self.read(move |unit| rules::catalog::owner(unit, &tenant, session))
    }
}

impl Directory for Store {
    fn candidates(&self, request: ListCompatibleHostsRequest) -> StoreAnswer<'_, HostTargetPage> {
        self.read(move |unit| rules::hosts::candidates(unit, &request))
    }
}

impl PlacementController for Store {
    fn ensure_placement(&self, desired: DesiredWorkload) -> Pending<'_, Result<(), Error>> {
        let plan = placement_plan(&desired.tenant, desired.session, &desired.target.key);
        let answer = self.ask(plan, move |unit| rules::placement::ensure(unit, &desired));
        Box::pin(async move { answer.await.map_err(Error::from) })
    }

    fn release_placement(&self, tenant: Tenant, session: SessionId) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            let entry = match self.get_catalog_entry(GetCatalogEntryRequest { tenant: tenant.clone(), session }).await {
                Ok(entry) => entry,
                Err(StoreError::Refused(Refusal::UnknownSession)) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let plan = placement_plan(&tenant, session, &entry.target.key);
            self.ask(plan, move |unit| rules::placement::release(unit, &tenant, session)).await.map_err(Error::from)
        })
    }
}

impl HostStore for Store {
    fn register_host(&self, request: RegisterHostRequest) -> StoreAnswer<'_, HostEntry> {
        Box::pin(async move {
            // A host that moves to another key leaves hosts of the old one behind: both are locked.
            let known = match self.get_host(request.host.clone()).await {
                Ok(entry) => Some(entry.key),
                Err(StoreError::Refused(Refusal::UnknownHost)) => None,
                Err(error) => return Err(error),
            };
            let keys = known.iter().chain([&request.key]);
            let plan = Plan {
                is_read: false,
                locks: keys.map(key_lock).collect(),
                wanted: vec![(&HOST, HostRow::key(&request.host))],
            };
            self.ask(plan, move |unit| rules::hosts::register(unit, &request, known.as_ref())).await
        })
    }

    fn get_host(&self, host: HostId) -> StoreAnswer<'_, HostEntry> {
        self.read(move |unit| rules::hosts::get(unit, &host))
    }

    fn list_work(&self, host: HostId, limit: usize) -> StoreAnswer<'_, Vec<Work>> {
        self.read(move |unit| rules::work::list(unit, &host, limit))
    }

    fn acquire_lease(&self, request: AcquireLeaseRequest) -> StoreAnswer<'_, Lease> {
        let plan = placement_plan(&request.tenant, request.session, &request.key);
        self.ask(plan, move |unit| rules::leases::acquire(unit, &request))
    }

    fn renew_lease(&self, lease: LeaseRef, ttl: Duration) -> StoreAnswer<'_, Lease> {
        let plan = session_plan(&lease.tenant, lease.session);
        self.ask(plan, move |unit| rules::leases::renew(unit, &lease, ttl))
    }

    fn release_lease(&self, request: ReleaseLeaseRequest) -> StoreAnswer<'_, CatalogEntry> {
        Box::pin(async move {
            let LeaseRef { tenant, session, .. } = &request.lease;
            let entry = GetCatalogEntryRequest { tenant: tenant.clone(), session: *session };
            let key = self.get_catalog_entry(entry).await?.target.key;
            let plan = placement_plan(tenant, *session, &key);
            self.ask(plan, move |unit| rules::leases::release(unit, &request)).await
        })
    }

    fn claim_command(&self, request: ClaimCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::apply::claim(unit, &request).map(DispositionInboxEntry))
    }

    fn journal_begin(&self, request: BeginCommandRequest) -> StoreAnswer<'_, JournalEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::apply::journal_begin(unit, &request))
    }

    fn begin_applying(&self, request: BeginCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::apply::begin_applying(unit, &request).map(DispositionInboxEntry))
    }

    fn journal_finish(&self, request: CompleteCommandRequest) -> StoreAnswer<'_, JournalEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::apply::journal_finish(unit, &request))
    }

    fn complete_command(&self, request: CompleteCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::apply::complete(unit, &request).map(DispositionInboxEntry))
    }

    fn settle_command(&self, request: SettleCommandRequest) -> StoreAnswer<'_, DispositionInboxEntry> {
        let plan = command_plan(&request.lease.tenant, request.lease.session, request.seq);
        self.ask(plan, move |unit| rules::settle::settle(unit, &request).map(DispositionInboxEntry))
    }

    fn get_command_payload(&self, request: GetCommandPayloadRequest) -> StoreAnswer<'_, Bytes> {
        self.read(move |unit| rules::payloads::get(unit, &request))
    }

    fn read_journal(
        &self,
        tenant: Tenant,
        session: SessionId,
        seq: CommandSeq,
        limit: usize,
    ) -> StoreAnswer<'_, Vec<JournalEntry>> {
        self.read(move |unit| rules::work::journal(unit, &tenant, session, seq, limit))
    }
}
