//! A command plane in memory, whose ids count and whose time is the runtime's: one input gives one history. Nobody upkeeps
//! it, so that what an answer says is what its own connection did.

use rendezvous::admission::*;
use rendezvous::credentials::Secret;
use rendezvous::domain::TenantId;
use rendezvous::edge::http::{CommandSettings, HOST_PREFIX, HostCredential};
use rendezvous::service::commands::{CommandPlane, CommandPlaneParts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Of the credential of hosts.
const HOST_KEY: &str = "host-key-of-the-fuzzer-0123456789";
const TARGET_KEY: &str = "arena/eu";
/// Before the end of every JWT in the corpus.
const BEGINS: Duration = Duration::from_secs(1_700_000_000);
/// Little, so that an input reaches it.
const PAYLOAD_BYTES: usize = 1_024;

/// The runtime's time, which stands until nobody has anything to do.
struct RuntimeTime(Instant);

impl Clock for RuntimeTime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINS + self.0.elapsed()
    }

    fn after(&self, delay: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
        let task = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            run();
        });
        Box::new(move || {
            let is_prevented = !task.is_finished();
            task.abort();
            is_prevented
        })
    }
}

/// Counts instead of drawing.
struct Counted(AtomicU64);

impl UuidSource for Counted {
    fn new_uuid(&self) -> Result<Uuid, Error> {
        let number = u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1);
        // The version and the variant of RFC 9562 section 5.7.
        Ok(Uuid(number << 80 | 0x7 << 76 | 0x2 << 62 | number))
    }
}

/// What the edge is told of the plane, for these tenants in their order.
pub(crate) fn commands(tenants: &[&str]) -> CommandSettings {
    let named: Vec<Tenant> = tenants.iter().map(|name| Tenant::new(*name).expect("a name")).collect();
    let hosts = HostPrincipal {
        name: PrincipalName::new(format!("{HOST_PREFIX}eu")).expect("a name"),
        tenants: named.iter().cloned().collect(),
        keys: [HostTargetKey::new(TARGET_KEY).expect("a key")].into(),
    };
    let ids = (0..tenants.len()).map(|place| TenantId(place as u16)).collect();
    CommandSettings {
        plane: Arc::new(plane(named)),
        hosts: vec![HostCredential::new(&Secret::new(HOST_KEY), ids, hosts)],
        scope: None,
        guests: false,
        payload_bytes: PAYLOAD_BYTES,
        uploads: 1,
        downloads: 1,
    }
}

fn plane(tenants: Vec<Tenant>) -> CommandPlane {
    let clock: Arc<dyn Clock> = Arc::new(RuntimeTime(Instant::now()));
    // Ceilings that an input can reach.
    let settings = Settings {
        control_shards: 2,
        inbox_max: 4,
        open_commands_max: 6,
        sessions_max: 3,
        prepared_creates_max: 2,
        payload_bytes_max: 4 * PAYLOAD_BYTES as u64,
        waits_max: 4,
        ..Settings::default()
    };
    let store = Store::in_memory(settings, Arc::clone(&clock));
    let (shared, counters) = (Arc::new(store.clone()), Arc::new(Counters::default()));
    let profile = Target { key: HostTargetKey::new(TARGET_KEY).expect("a key"), workload: Workload("map dust".into()) };
    let targets: Arc<ConfiguredTargets> =
        Arc::new([(AgentId::new("arena").expect("a name"), profile)].into_iter().collect());
    let binding = SessionBindingTemplate { storage_binding_id: "fuzzer".into(), binding_version: "1".into() };
    let service = Service::new(Config {
        authorizer: Arc::new(KindAuthorizer),
        targets: targets.clone(),
        catalog: shared.clone(),
        commands: shared.clone(),
        directory: shared.clone(),
        clock: Arc::clone(&clock),
        ids: Arc::new(Counted(AtomicU64::new(0))),
        public_creates: Some(shared.clone()),
        objects: Some(Arc::new(ConfiguredBindings(vec![binding.clone()]))),
        binding: Some(binding),
        legacy: None,
        waits: store.waits().clone(),
        counters: counters.clone(),
        apply_deadline: Duration::from_secs(30),
    });
    let hosts = HostService::new(HostConfig {
        authorizer: Arc::new(KindAuthorizer),
        targets,
        store: shared.clone(),
        clock,
        waits: store.waits().clone(),
        counters: counters.clone(),
        limits: HostLimits::default(),
    });
    let board = Arc::new(SweepBoard::default());
    let operator = OperatorService { authorizer: Arc::new(KindAuthorizer), store: store.clone(), board, counters };
    CommandPlane::new(CommandPlaneParts {
        service: service.expect("parts that fit"),
        hosts,
        operator,
        commands: shared.clone(),
        catalog: shared,
        waits: store.waits().clone(),
        tenants: tenants.into(),
        store: "memory",
    })
}
