//! Load on a store, as a process that is going to be killed makes it. Each line says what was acknowledged.

use rendezvous::admission::*;
use rendezvous::clock::SystemClock;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file.
pub(crate) const PATH: &str = "RENDEZVOUS_ADMISSION_LOAD";
/// Which round it is: keys of different rounds differ.
pub(crate) const ROUND: &str = "RENDEZVOUS_ADMISSION_ROUND";
/// Callers at once.
const CALLERS: u64 = 16;

pub(crate) fn run_if_asked() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    let round = std::env::var(ROUND).expect("a round");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let service = Arc::new(service(open(&path)));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            callers.spawn(call(Arc::clone(&service), format!("{round}-{caller}")));
        }
        while callers.join_next().await.is_some() {}
    });
}

/// One caller's admissions, until somebody kills it.
async fn call(service: Arc<Service>, name: String) {
    for n in 0u64.. {
        let key = format!("{name}-{n}");
        let (entry, _) = service.admit_create(&alice(), create(&key)).await.expect("a create");
        acknowledge(&key, &entry);
        for more in 0..3 {
            let key = format!("{key}-{more}");
            let (entry, _) = service.admit_input(&alice(), input(entry.session, &key)).await.expect("an input");
            acknowledge(&key, &entry);
        }
    }
}

fn acknowledge(key: &str, entry: &CommandEntry) {
    let line = format!("ack {key} {} {} .\n", entry.session, entry.seq);
    std::io::stdout().lock().write_all(line.as_bytes()).expect("a reader");
}

pub(crate) fn create(key: &str) -> CreateRequest {
    // Some are stored beside the command.
    let size = if key.ends_with('3') { INLINE_MAX + 1 } else { 200 };
    let payload = RequestPayload::Bytes(Bytes::from(vec![b'x'; size]));
    CreateRequest { key: RequestKey::new(key).expect("valid"), agent: agent(), payload, apply_within: None }
}

pub(crate) fn input(session: SessionId, key: &str) -> InputRequest {
    let payload = RequestPayload::Bytes(Bytes::from(vec![b'y'; 200]));
    InputRequest { session, key: RequestKey::new(key).expect("valid"), payload, apply_within: None }
}

pub(crate) fn arena() -> Tenant {
    Tenant::new("arena").expect("valid")
}

pub(crate) fn alice() -> Principal {
    let name = PrincipalName::new("user:alice").expect("valid");
    Principal::Tenant(TenantPrincipal { tenant: arena(), name })
}

fn agent() -> AgentId {
    AgentId::new("duel").expect("valid")
}

pub(crate) fn open(path: &Path) -> Store {
    let clock = Arc::new(RuntimeClock::new(SystemClock::new(), tokio::runtime::Handle::current()));
    let settings = Settings {
        sessions_max: 10_000_000,
        open_commands_max: 10_000_000,
        prepared_creates_max: 10_000_000,
        payload_bytes_max: 1 << 40,
        ..Settings::default()
    };
    Store::open_sqlite(path, settings, clock).expect("the store opens")
}

pub(crate) fn service(store: Store) -> Service {
    let template = SessionBindingTemplate { storage_binding_id: "embedded".into(), binding_version: "1".into() };
    let target = Target { key: HostTargetKey::new("arena/linux").expect("valid"), workload: Workload("duel".into()) };
    let targets: ConfiguredTargets = [(agent(), target)].into_iter().collect();
    let clock = SystemClock::new();
    let waits = Arc::clone(store.waits());
    let store = Arc::new(store);
    Service::new(Config {
        authorizer: Arc::new(KindAuthorizer),
        targets: Arc::new(targets),
        catalog: store.clone(),
        commands: store.clone(),
        directory: store.clone(),
        clock: Arc::new(RuntimeClock::new(clock, tokio::runtime::Handle::current())),
        ids: Arc::new(SystemUuids::new(clock)),
        public_creates: Some(store),
        binding: Some(template.clone()),
        objects: Some(Arc::new(ConfiguredBindings(vec![template]))),
        legacy: None,
        waits,
        counters: Arc::default(),
        apply_deadline: Duration::from_secs(24 * 3600),
    })
    .expect("a complete configuration")
}
