//! The command plane's bars, as ratios of one run: `cargo bench --bench admission`.
//!
//! Each store is compared with itself: with group commit, and with one transaction per command. The disk is the same, the
//! callers are the same, and so is the code but for one setting.
#![allow(missing_docs)]

#[allow(dead_code, reason = "each target uses its own part of the shared helpers")]
#[path = "../tests/admission/support/postgres.rs"]
mod postgres;
#[allow(dead_code, unreachable_pub, reason = "each target uses its own part of the shared helpers")]
#[path = "support/report.rs"]
mod report;
#[allow(dead_code, reason = "each target uses its own part of the shared helpers")]
#[path = "../tests/support/say.rs"]
mod say;

use criterion::{Criterion, Throughput};
use rendezvous::admission::*;
use rendezvous::clock::SystemClock;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

/// Callers at once, each with a session of its own.
const CALLERS: u64 = 64;
/// How long a rate is measured.
const MEASURED: Duration = Duration::from_secs(4);
/// Commands that no sweep may reject, at the head of a shard.
const STUCK: u64 = 50_000;
/// Commands that are not due.
const LATER: u64 = 49_990;
/// Commands behind the stuck ones that the sweep is to settle.
const FREE: u64 = 10;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let place = tempfile::tempdir().expect("a temporary directory");
    let sqlite = |name: &str, batch_max| open_sqlite(&runtime, &place.path().join(name), batch_max);
    let (grouped, single) = (sqlite("grouped.db", 256), sqlite("single.db", 1));
    let server = postgres::Server::start(true);
    let databases = server.as_ref().map(|server| [256, 1].map(|batch_max| open_postgres(server, batch_max)));

    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let mut stores = vec![("SQLite, group commit", &grouped), ("SQLite, one commit each", &single)];
    if let Ok([grouped, single]) = &databases {
        stores.extend([("PostgreSQL, group commit", grouped), ("PostgreSQL, one commit each", single)]);
    }
    throughput(&mut criterion, &runtime, &stores);

    let mut table = Table::begin();
    compare(&mut table, &runtime, "SQLite", &grouped, &single, 5.0);
    match &databases {
        Ok([grouped, single]) => {
            compare(&mut table, &runtime, "PostgreSQL", grouped, single, 3.0);
            let other = another_process(grouped);
            wake(&mut table, &runtime, "PostgreSQL, admitted by another process", grouped, &other);
        }
        Err(missing) => table.row("PostgreSQL", &format!("not run: {missing}"), "3.0 times"),
    }
    wake(&mut table, &runtime, "SQLite", &grouped.store, &grouped.store);
    sweep(&mut table, &runtime, place.path());
    table.finish();
}

/// What was measured, shown row by row, and left as JSON at the end.
struct Table(Vec<serde_json::Value>);

impl Table {
    fn begin() -> Self {
        println!("| what | figure | bar |\n|---|---|---|");
        Self(Vec::new())
    }

    fn row(&mut self, what: &str, figure: &str, bar: &str) {
        println!("| {what} | {figure} | {bar} |");
        self.0.push(serde_json::json!({"what": what, "figure": figure, "bar": bar}));
    }

    fn finish(self) {
        let text = serde_json::json!({"bench": "admission", "rows": self.0}).to_string();
        std::fs::write(report::results_dir().join("admission.json"), text).expect("the results can be written");
    }
}

/// Admissions a second as criterion sees them: an iteration is one admission of each caller, all at once.
fn throughput(criterion: &mut Criterion, runtime: &Runtime, stores: &[(&str, &Opened)]) {
    let mut group = criterion.benchmark_group(format!("admission by {CALLERS} callers"));
    group.throughput(Throughput::Elements(CALLERS));
    for (name, store) in stores {
        let service = Arc::new(service(store, runtime.handle()));
        let sessions: Vec<SessionId> = runtime.block_on(async {
            let mut sessions = Vec::new();
            for caller in 0..CALLERS {
                sessions.push(session(&service, &format!("criterion-{caller}")).await);
            }
            sessions
        });
        let keys = Arc::new(AtomicU64::new(0));
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|iterations| {
                let begin = Instant::now();
                runtime.block_on(async {
                    let mut callers = tokio::task::JoinSet::new();
                    for session in &sessions {
                        let (service, keys, session) = (Arc::clone(&service), Arc::clone(&keys), *session);
                        callers.spawn(async move {
                            for _ in 0..iterations {
                                let key = format!("criterion-{}", keys.fetch_add(1, Ordering::Relaxed));
                                service.admit_input(&alice(), input(session, key)).await.expect("admitted");
                            }
                        });
                    }
                    while let Some(caller) = callers.join_next().await {
                        caller.expect("no panic");
                    }
                });
                begin.elapsed()
            });
        });
    }
    group.finish();
}

/// A store, with how to open its like.
struct Opened {
    store: Store,
    url: Option<String>,
}

impl std::ops::Deref for Opened {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

fn settings(batch_max: usize) -> Settings {
    Settings {
        batch_max,
        control_shards: 1,
        inbox_max: 1_000_000,
        open_commands_max: 100_000_000,
        sessions_max: 1_000_000,
        prepared_creates_max: 1_000_000,
        writers: 1,
        ..Settings::default()
    }
}

fn clock(handle: &Handle) -> Arc<RuntimeClock> {
    Arc::new(RuntimeClock::new(SystemClock::new(), handle.clone()))
}

fn open_sqlite(runtime: &Runtime, path: &Path, batch_max: usize) -> Opened {
    let store = Store::open_sqlite(path, settings(batch_max), clock(runtime.handle())).expect("a new store");
    Opened { store, url: None }
}

fn open_postgres(server: &postgres::Server, batch_max: usize) -> Opened {
    let (url, schema) = server.fresh_url();
    postgres::execute(&url, &schema);
    let store = Store::open_postgres(&url, settings(batch_max), None).expect("a new store");
    Opened { store, url: Some(url) }
}

/// The same database through a store of its own, as another process has it.
fn another_process(opened: &Opened) -> Store {
    let url = opened.url.as_deref().expect("a database");
    Store::open_postgres(url, settings(256), None).expect("the same store")
}

fn tenant() -> Tenant {
    Tenant::new("arena").expect("valid")
}

fn agent() -> AgentId {
    AgentId::new("duel").expect("valid")
}

fn key() -> HostTargetKey {
    HostTargetKey::new("arena/linux").expect("valid")
}

fn name(text: &str) -> PrincipalName {
    PrincipalName::new(text).expect("valid")
}

fn alice() -> Principal {
    Principal::Tenant(TenantPrincipal { tenant: tenant(), name: name("user:alice") })
}

fn targets() -> Arc<ConfiguredTargets> {
    let target = Target { key: key(), workload: Workload("duel".into()) };
    Arc::new([(agent(), target)].into_iter().collect())
}

fn service(store: &Store, handle: &Handle) -> Service {
    let template = SessionBindingTemplate { storage_binding_id: "embedded".into(), binding_version: "1".into() };
    let store = Arc::new(store.clone());
    Service::new(Config {
        authorizer: Arc::new(KindAuthorizer),
        targets: targets(),
        catalog: store.clone(),
        commands: store.clone(),
        directory: store.clone(),
        clock: clock(handle),
        ids: Arc::new(SystemUuids::new(SystemClock::new())),
        public_creates: Some(store.clone()),
        binding: Some(template.clone()),
        objects: Some(Arc::new(ConfiguredBindings(vec![template]))),
        legacy: None,
        waits: Arc::clone(store.waits()),
        counters: Arc::default(),
        apply_deadline: Duration::from_secs(3_600),
    })
    .expect("a complete configuration")
}

async fn session(service: &Service, key: &str) -> SessionId {
    let payload = RequestPayload::Bytes(Bytes::from_static(b"{}"));
    let create =
        CreateRequest { key: RequestKey::new(key).expect("valid"), agent: agent(), payload, apply_within: None };
    service.admit_create(&alice(), create).await.expect("a create").0.session
}

fn input(session: SessionId, key: String) -> InputRequest {
    let payload = RequestPayload::Bytes(Bytes::from(vec![b'x'; 200]));
    InputRequest { session, key: RequestKey::new(key).expect("valid"), payload, apply_within: None }
}

/// Admissions a second with [`CALLERS`] callers, each of whom waits for one before it sends the next.
fn rate(runtime: &Runtime, store: &Store) -> f64 {
    runtime.block_on(async {
        let service = Arc::new(service(store, runtime.handle()));
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let (service, stop, count) = (Arc::clone(&service), Arc::clone(&stop), Arc::clone(&count));
            callers.spawn(async move {
                let session = session(&service, &format!("caller-{caller}")).await;
                for n in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let input = input(session, format!("{caller}-{n}"));
                    service.admit_input(&alice(), input).await.expect("admitted");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (begin, before) = (Instant::now(), count.load(Ordering::Relaxed));
        tokio::time::sleep(MEASURED).await;
        let rate = (count.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        while callers.join_next().await.is_some() {}
        rate
    })
}

fn compare(table: &mut Table, runtime: &Runtime, what: &str, grouped: &Store, single: &Store, bar: f64) {
    let (single, grouped) = (rate(runtime, single), rate(runtime, grouped));
    let ratio = grouped / single;
    let figure = format!("{ratio:.1} times ({grouped:.0}/s against {single:.0}/s)");
    let what = format!("{what}: group commit against one commit per command, {CALLERS} callers");
    table.row(&what, &figure, &format!("{bar:.1} times"));
}

/// From the admission's answer to the idle worker's, and from the admission's beginning.
fn wake(table: &mut Table, runtime: &Runtime, what: &str, worker: &Store, caller: &Store) {
    let worst = runtime.block_on(async {
        let credential =
            Principal::Host(HostPrincipal { name: name("host:eu"), tenants: [tenant()].into(), keys: [key()].into() });
        let hosts = Arc::new(HostService::new(HostConfig {
            authorizer: Arc::new(KindAuthorizer),
            targets: targets(),
            store: Arc::new(worker.clone()),
            clock: clock(runtime.handle()),
            waits: Arc::clone(worker.waits()),
            counters: Arc::default(),
            limits: HostLimits::default(),
        }));
        let service = service(caller, runtime.handle());
        let host = HostId::new("idle").expect("valid");
        hosts.heartbeat(&credential, host.clone(), key(), 10).await.expect("a heartbeat");
        let session = session(&service, "wake").await;
        let lease = hosts.acquire_lease(&credential, &host, tenant(), session, Some(Duration::from_secs(300))).await;
        let lease = LeaseRef::new(tenant(), session, host.clone(), lease.expect("a lease").epoch);
        let mut seq = CommandSeq(1);
        let mut worst = Duration::ZERO;
        for n in 0..50 {
            hosts.claim(&credential, lease.clone(), seq, Some(Duration::from_secs(300)), None).await.expect("claimed");
            hosts.begin(&credential, lease.clone(), seq).await.expect("begun");
            hosts.complete(&credential, lease.clone(), seq, Completion::Applied).await.expect("completed");
            let poll = {
                let (hosts, credential, host) = (Arc::clone(&hosts), credential.clone(), host.clone());
                tokio::spawn(async move {
                    let work = hosts.work(&credential, &host, Duration::from_secs(20)).await.expect("work");
                    assert!(!work.is_empty());
                    Instant::now()
                })
            };
            while worker.waits().waiting() == 0 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            let (entry, _) =
                service.admit_input(&alice(), input(session, format!("wake-{n}"))).await.expect("admitted");
            let admitted = Instant::now();
            let woken = poll.await.expect("no panic");
            worst = worst.max(woken.saturating_duration_since(admitted));
            seq = entry.seq;
        }
        worst
    });
    let figure = format!("{:.1} ms at worst of 50", worst.as_secs_f64() * 1e3);
    table.row(&format!("{what}: an idle long poll wakes after the admission"), &figure, "50 ms");
}

/// What a sweep did until it had settled the free commands.
struct Swept {
    passes: u32,
    examined: usize,
    rejected: usize,
    took: Duration,
}

/// A store whose only shard has so many commands of each kind, and a sweep over it.
fn swept(runtime: &Runtime, path: &Path, stuck: u64, later: u64) -> Swept {
    let store = open_sqlite(runtime, path, 256).store;
    runtime.block_on(async {
        let service = service(&store, runtime.handle());
        for n in 0..FREE {
            session(&service, &format!("free-{n}")).await;
        }
    });
    let other = rusqlite::Connection::open(path).expect("the same file");
    other.busy_timeout(Duration::from_secs(10)).expect("a timeout");
    // The free ones became due a second ago, the stuck ones long before, the later ones will in an hour.
    let now = i64::try_from(SystemClock::new().steady_wall_ms()).expect("a time");
    other.execute("UPDATE command SET deadline = ?1, due_at = ?1", [now - 1_000]).expect("due");
    for (count, state, due_at, first) in
        [(stuck, "applying", now - 100_000, 1_000_000), (later, "pending", now + 3_600_000, 2_000_000)]
    {
        let copy = format!(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}), \
             t AS (SELECT * FROM command WHERE seq = 1 LIMIT 1) \
             INSERT INTO command (tenant, session, seq, family, shard, kind, state, revision, due_at, deadline, admitted_at, \
             admitted_by, request_key, payload, payload_len, deliveries, late) \
             SELECT tenant, session, {first} + n, family, shard, kind, '{state}', 1, {due_at}, {due_at}, admitted_at, \
             admitted_by, request_key, payload, payload_len, 1, 0 FROM t, c"
        );
        other.execute_batch(&copy).expect("copied");
    }
    let shared = Arc::new(store);
    let sweeper = DispositionReconciler::new(DispositionReconcilerConfig {
        authorizer: Arc::new(KindAuthorizer),
        due: shared.clone(),
        settlement: shared.clone(),
        claims: shared,
        clock: clock(runtime.handle()),
        holder_id: "bench".into(),
        claim_ttl: Duration::from_secs(5),
        page_limit: 500,
        max_pages: 10,
    })
    .expect("valid bounds");
    let who = Principal::Service(ServicePrincipal { name: name("service:sweep") });
    let begin = Instant::now();
    let mut swept = Swept { passes: 0, examined: 0, rejected: 0, took: Duration::ZERO };
    while swept.rejected < FREE as usize {
        let result = runtime.block_on(sweeper.sweep(&who)).expect("a sweep");
        swept.passes += 1;
        swept.examined += result.examined;
        swept.rejected += result.rejected;
        assert!(swept.passes <= 100, "the sweep starves");
    }
    swept.took = begin.elapsed();
    swept
}

fn sweep(table: &mut Table, runtime: &Runtime, place: &Path) {
    let full = swept(runtime, &place.join("full.db"), STUCK, LATER);
    let without_later = swept(runtime, &place.join("due.db"), STUCK, 0);
    let half = swept(runtime, &place.join("half.db"), STUCK / 2, LATER);
    let rows = STUCK + LATER + FREE;
    // 5,000 rows a pass.
    let figure = format!("{} ({} rows, {:.0} ms)", full.passes, full.examined, full.took.as_secs_f64() * 1e3);
    let what = format!("sweep: {rows} rows, {FREE} rejectable behind {STUCK} that are not: passes of 5000 rows");
    table.row(&what, &figure, "11");
    let each = |swept: &Swept| swept.took.as_secs_f64() * 1e6 / swept.examined as f64;
    let (all, half) = (each(&full), each(&half));
    let what = format!("sweep: time per row examined, {STUCK} against {} rows", STUCK / 2);
    table.row(&what, &format!("{:.2} times ({all:.2} against {half:.2} µs)", all / half), "0.5 to 2.0");
    let ratio = full.took.as_secs_f64() / without_later.took.as_secs_f64();
    let what = format!("sweep: with {LATER} rows that are not due against without");
    table.row(&what, &format!("{ratio:.2} times"), "0.5 to 2.0");
}
