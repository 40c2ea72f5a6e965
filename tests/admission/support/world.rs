//! A store with a clock that tests move, and the services around it.

use super::clock::ManualClock;
use super::postgres;
use rendezvous::admission::*;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// The default deadline of a test's commands.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// How long a test's hosts hold leases and claims.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Which store, for what only databases can be told.
pub(crate) enum Backing {
    Memory,
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) backing: Backing,
}

/// Settings that make bounds reachable.
pub(crate) fn small() -> Settings {
    Settings {
        control_shards: 4,
        inbox_max: 8,
        inbox_span: 4,
        open_commands_max: 1_000,
        sessions_max: 100,
        prepared_creates_max: 50,
        payload_bytes_max: 16 << 20,
        writers: 2,
        ..Settings::default()
    }
}

impl World {
    pub(crate) fn memory(settings: Settings) -> Option<Self> {
        let clock = ManualClock::new();
        let store = Store::in_memory(settings, Arc::new(clock.clone()));
        Some(Self::around(store, clock, Backing::Memory))
    }

    pub(crate) fn sqlite(settings: Settings) -> Option<Self> {
        let clock = ManualClock::new();
        // In memory where that is possible: what survives power loss is another test's business (`durability`).
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory");
        let path = dir.path().join("admission.db");
        let store = Store::open_sqlite(&path, settings, Arc::new(clock.clone())).expect("a new store");
        Some(Self::around(store, clock, Backing::Sqlite(dir)))
    }

    pub(crate) fn postgres(settings: Settings) -> Option<Self> {
        let (url, schema) = postgres::shared()?.fresh_url();
        postgres::execute(&url, &schema);
        let clock = ManualClock::new();
        let store = Store::open_postgres(&url, settings, Some(Arc::new(clock.clone()))).expect("a new store");
        Some(Self::around(store, clock, Backing::Postgres(url)))
    }

    /// A world like this one with other settings.
    pub(crate) fn with(&self, settings: Settings) -> Option<Self> {
        match self.backing {
            Backing::Memory => Self::memory(settings),
            Backing::Sqlite(_) => Self::sqlite(settings),
            Backing::Postgres(_) => Self::postgres(settings),
        }
    }

    pub(crate) fn around(store: Store, clock: ManualClock, backing: Backing) -> Self {
        Self { store, clock, counters: Arc::default(), backing }
    }

    /// A second process over the same database; the same store where it is in memory.
    pub(crate) fn reopened(&self, settings: Settings) -> Store {
        let clock = Arc::new(self.clock.clone());
        match &self.backing {
            Backing::Memory => self.store.clone(),
            Backing::Sqlite(dir) => {
                Store::open_sqlite(&dir.path().join("admission.db"), settings, clock).expect("the same store")
            }
            Backing::Postgres(url) => Store::open_postgres(url, settings, Some(clock)).expect("the same store"),
        }
    }

    /// Writes past the store, as damage and newer builds do. Only databases.
    pub(crate) fn execute(&self, sql: &str) {
        match &self.backing {
            Backing::Memory => panic!("a store in memory has no other door"),
            Backing::Sqlite(dir) => {
                let other = rusqlite::Connection::open(dir.path().join("admission.db")).expect("the same file");
                other.busy_timeout(SECOND * 5).expect("a timeout");
                other.execute_batch(sql).expect("valid SQL");
            }
            Backing::Postgres(url) => postgres::execute(url, sql),
        }
    }

    pub(crate) fn config(&self) -> Config {
        let store = Arc::new(self.store.clone());
        Config {
            authorizer: Arc::new(KindAuthorizer),
            targets: Arc::new(targets()),
            catalog: store.clone(),
            commands: store.clone(),
            directory: store.clone(),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(Ids::default()),
            public_creates: Some(store.clone()),
            binding: Some(template()),
            objects: Some(Arc::new(ConfiguredBindings(vec![template()]))),
            legacy: Some(store),
            waits: Arc::clone(self.store.waits()),
            counters: Arc::clone(&self.counters),
            apply_deadline: DEADLINE,
        }
    }

    pub(crate) fn service(&self) -> Service {
        Service::new(self.config()).expect("a complete configuration")
    }

    pub(crate) fn host_config(&self) -> HostConfig {
        HostConfig {
            authorizer: Arc::new(KindAuthorizer),
            targets: Arc::new(targets()),
            store: Arc::new(self.store.clone()),
            clock: Arc::new(self.clock.clone()),
            waits: Arc::clone(self.store.waits()),
            counters: Arc::clone(&self.counters),
            limits: HostLimits::default(),
        }
    }

    pub(crate) fn hosts(&self) -> HostService {
        HostService::new(self.host_config())
    }

    pub(crate) fn sweep_config(&self, holder: &str) -> DispositionReconcilerConfig {
        let store = Arc::new(self.store.clone());
        DispositionReconcilerConfig {
            authorizer: Arc::new(KindAuthorizer),
            due: store.clone(),
            settlement: store.clone(),
            claims: store,
            clock: Arc::new(self.clock.clone()),
            holder_id: holder.into(),
            claim_ttl: SECOND * 5,
            page_limit: 4,
            max_pages: 3,
        }
    }

    pub(crate) fn sweeper(&self, holder: &str) -> DispositionReconciler {
        DispositionReconciler::new(self.sweep_config(holder)).expect("valid bounds")
    }

    pub(crate) fn legacy_config(&self, holder: &str) -> ReconcilerConfig {
        let store = Arc::new(self.store.clone());
        ReconcilerConfig {
            authorizer: Arc::new(KindAuthorizer),
            due: store.clone(),
            settlement: store.clone(),
            claims: store,
            clock: Arc::new(self.clock.clone()),
            holder_id: holder.into(),
            claim_ttl: SECOND * 5,
            page_limit: 4,
            max_pages: 3,
        }
    }

    /// What runs by itself, over this store.
    pub(crate) fn upkeep(&self, board: Arc<SweepBoard>) -> Upkeep {
        Upkeep::new(UpkeepParts {
            store: self.store.clone(),
            disposition: self.sweeper("a"),
            legacy: Reconciler::new(self.legacy_config("a")).expect("valid"),
            principal: operator(),
            clock: Arc::new(self.clock.clone()),
            board,
            counters: Arc::clone(&self.counters),
            period: SECOND,
        })
    }

    /// A session of `alice` in `arena`, just created.
    pub(crate) async fn session(&self, key: &str) -> SessionId {
        let (entry, created) = self.service().admit_create(&alice(), create(key)).await.expect("a create");
        assert!(created);
        entry.session
    }

    /// A registered host.
    pub(crate) async fn host(&self, name: &str) -> HostId {
        let host = HostId::new(name).unwrap();
        self.hosts().heartbeat(&credential(), host.clone(), key(), 10).await.expect("a heartbeat");
        host
    }

    /// The session's lease for a host that is registered.
    pub(crate) async fn lease(&self, host: &HostId, session: SessionId) -> LeaseRef {
        let lease =
            self.hosts().acquire_lease(&credential(), host, arena(), session, Some(TTL)).await.expect("a lease");
        LeaseRef::new(arena(), session, host.clone(), lease.epoch)
    }

    pub(crate) async fn input(&self, session: SessionId, key: &str) -> DispositionInboxEntry {
        let (entry, created) = self.service().admit_input(&alice(), input(session, key)).await.expect("an input");
        assert!(created);
        entry
    }

    pub(crate) async fn read(&self, session: SessionId, seq: CommandSeq) -> DispositionInboxEntry {
        let request = GetDispositionCommandRequest { tenant: arena(), session, seq };
        self.store.get_disposition_command(request).await.expect("a command").0
    }

    pub(crate) async fn view(&self, session: SessionId, seq: CommandSeq) -> (CallerState, Option<String>) {
        let view = self.service().command(&alice(), session, seq, Duration::ZERO).await.expect("a command");
        (view.state, view.entry.outcome.as_ref().map(|outcome| outcome.code.as_str().to_owned()))
    }

    pub(crate) async fn claim(&self, lease: &LeaseRef, seq: CommandSeq) -> Result<DispositionInboxEntry, Error> {
        self.hosts().claim(&credential(), lease.clone(), seq, Some(TTL), None).await
    }

    pub(crate) async fn begin(&self, lease: &LeaseRef, seq: CommandSeq) -> Result<DispositionInboxEntry, Error> {
        self.hosts().begin(&credential(), lease.clone(), seq).await
    }

    pub(crate) async fn complete(&self, lease: &LeaseRef, seq: CommandSeq) -> Result<DispositionInboxEntry, Error> {
        self.hosts().complete(&credential(), lease.clone(), seq, Completion::Applied).await
    }

    pub(crate) async fn settle(&self, lease: &LeaseRef, seq: CommandSeq) -> Result<DispositionInboxEntry, Error> {
        self.hosts().settle(&credential(), lease.clone(), seq).await
    }

    /// Sweeps every shard once; gives the sum of all fates.
    pub(crate) async fn sweep_all(
        &self,
        sweeper: &DispositionReconciler,
    ) -> std::collections::BTreeMap<Disposition, usize> {
        let mut sum = std::collections::BTreeMap::new();
        for _ in 0..DispositionDue::control_shards(&self.store) {
            for (fate, count) in sweeper.sweep(&operator()).await.expect("a sweep").dispositions {
                *sum.entry(fate).or_default() += count;
            }
        }
        sum
    }

    /// The rows of a due view, all shards.
    pub(crate) async fn due(&self) -> usize {
        let mut rows = 0;
        for shard in 0..DispositionDue::control_shards(&self.store) {
            let due_by = Timestamp(i64::MAX as u64);
            let request = ListDueCommandsRequest { shard, due_by, after: None, limit: 100_000 };
            rows += self.store.list_due_disposition_commands(request).await.expect("a page").examined;
        }
        rows
    }
}

/// Ids in sequence, so that a failure reads the same twice.
pub(crate) struct Ids(AtomicU64);

impl Default for Ids {
    fn default() -> Self {
        // Several services of one test never propose the same id.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(AtomicU64::new(NEXT.fetch_add(1 << 20, Ordering::Relaxed)))
    }
}

impl UuidSource for Ids {
    fn new_uuid(&self) -> Result<Uuid, Error> {
        Ok(Uuid(u128::from(self.0.fetch_add(1, Ordering::Relaxed))))
    }
}

pub(crate) fn arena() -> Tenant {
    Tenant::new("arena").unwrap()
}

pub(crate) fn name(text: &str) -> PrincipalName {
    PrincipalName::new(text).unwrap()
}

pub(crate) fn key() -> HostTargetKey {
    HostTargetKey::new("arena/linux").unwrap()
}

pub(crate) fn agent() -> AgentId {
    AgentId::new("duel").unwrap()
}

pub(crate) fn template() -> SessionBindingTemplate {
    SessionBindingTemplate { storage_binding_id: "embedded".into(), binding_version: "1".into() }
}

pub(crate) fn target() -> Target {
    Target { key: key(), workload: Workload("duel-server".into()) }
}

pub(crate) fn targets() -> ConfiguredTargets {
    [(agent(), target())].into_iter().collect()
}

pub(crate) fn tenant_principal(tenant: &str, who: &str) -> Principal {
    Principal::Tenant(TenantPrincipal { tenant: Tenant::new(tenant).unwrap(), name: name(who) })
}

pub(crate) fn alice() -> Principal {
    tenant_principal("arena", "user:alice")
}

pub(crate) fn credential() -> Principal {
    host_principal("host:eu", &["arena", "chess"])
}

pub(crate) fn host_principal(who: &str, tenants: &[&str]) -> Principal {
    let tenants = tenants.iter().map(|tenant| Tenant::new(tenant).unwrap()).collect();
    Principal::Host(HostPrincipal { name: name(who), tenants, keys: [key()].into() })
}

pub(crate) fn operator() -> Principal {
    Principal::Service(ServicePrincipal { name: name("service:sweep") })
}

pub(crate) fn request_key(text: &str) -> RequestKey {
    RequestKey::new(text).unwrap()
}

pub(crate) fn bytes(text: &str) -> RequestPayload {
    RequestPayload::Bytes(Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn create(key: &str) -> CreateRequest {
    CreateRequest { key: request_key(key), agent: agent(), payload: bytes("{}"), apply_within: None }
}

pub(crate) fn input(session: SessionId, key: &str) -> InputRequest {
    InputRequest { session, key: request_key(key), payload: bytes("{\"move\":1}"), apply_within: None }
}

/// The code of an error, for comparisons.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    result.expect_err("a refusal").code
}

/// Runs a test on a runtime of its own.
pub(crate) fn run<F: Future<Output = ()>>(world: Option<World>, test: impl FnOnce(World) -> F) {
    let Some(world) = world else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test(world));
}
