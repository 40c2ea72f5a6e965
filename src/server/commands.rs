//! The command plane, from its section of the configuration to what an edge may ask.

use super::StartError;
use crate::admission::{
    AgentId, Clock, Config as ServiceConfig, ConfiguredBindings, ConfiguredTargets, Counters, DispositionReconciler,
    DispositionReconcilerConfig, HostConfig, HostPrincipal, HostService, HostTargetKey, KindAuthorizer, OpenError,
    OperatorService, Principal, PrincipalName, Reconciler, ReconcilerConfig, RuntimeClock, Service as Admission,
    ServicePrincipal, SessionBindingTemplate, Store, SweepBoard, SystemUuids, Target, Tenant, Upkeep, UpkeepParts,
    Workload,
};
use crate::clock::SystemClock;
use crate::config::{AdmissionSection, AdmissionStore, Config};
use crate::domain::{InstanceId, TenantId};
use crate::edge::http::{CommandSettings, HOST_PREFIX, HostCredential};
use crate::service::commands::{CommandPlane, CommandPlaneParts};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The plane's store, opened, and what everything above it shares. Opened before anything listens: a store of a newer
/// build, or one that does not answer, is a reason not to start.
pub(super) struct OpenedPlane {
    pub(super) store: Store,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    board: Arc<SweepBoard>,
    ids: SystemUuids,
}

/// The plane at work.
pub(super) struct RunningPlane {
    pub(super) plane: Arc<CommandPlane>,
    pub(super) counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    pub(super) upkeep: JoinHandle<()>,
}

impl RunningPlane {
    /// Whether it can't do its work any more: a thread of its store has panicked, or its upkeep, which ends only when told.
    pub(super) fn is_lost(&self) -> bool {
        self.plane.is_lost() || self.upkeep.is_finished()
    }

    /// Ends the upkeep: its step under way is finished, at the latest after `patience`. What it leaves, the next life or
    /// another process does.
    pub(super) async fn stop(mut self, patience: Duration) {
        self.stop.send_replace(true);
        if tokio::time::timeout(patience, &mut self.upkeep).await.is_err() {
            self.upkeep.abort();
        }
    }
}

fn refused(reason: impl std::fmt::Display) -> StartError {
    StartError::Admission(reason.to_string())
}

/// Opens the store, when there is to be a plane.
pub(super) async fn open(section: &AdmissionSection, clock: SystemClock) -> Result<Option<OpenedPlane>, StartError> {
    let runtime_clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new(clock, Handle::current()));
    let (section, for_store) = (section.clone(), Arc::clone(&runtime_clock));
    // Opening reads and migrates a file, or speaks with a database.
    let opened = tokio::task::spawn_blocking(move || open_store(&section, for_store)).await;
    let Some(store) = opened.map_err(refused)?.map_err(refused)? else { return Ok(None) };
    Ok(Some(OpenedPlane {
        store,
        clock: runtime_clock,
        counters: Arc::new(Counters::default()),
        board: Arc::new(SweepBoard::default()),
        ids: SystemUuids::new(clock),
    }))
}

fn open_store(section: &AdmissionSection, clock: Arc<dyn Clock>) -> Result<Option<Store>, OpenError> {
    let settings = section.settings.clone();
    match section.store {
        AdmissionStore::Off => Ok(None),
        AdmissionStore::Memory => Ok(Some(Store::in_memory(settings, clock))),
        AdmissionStore::Sqlite => {
            let path = section.path.as_deref().ok_or(OpenError::Setting { field: "path", must: "a file" })?;
            Store::open_sqlite(path, settings, clock).map(Some)
        }
        AdmissionStore::Postgres => open_postgres(section, settings).map(Some),
    }
}

#[cfg(feature = "postgres")]
fn open_postgres(section: &AdmissionSection, settings: crate::admission::Settings) -> Result<Store, OpenError> {
    let url = section.postgres_url.as_ref().ok_or(OpenError::Setting { field: "postgres_url", must: "a URL" })?;
    // The server's clock decides (rule P5).
    Store::open_postgres(url.expose(), settings, None)
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(_: &AdmissionSection, _: crate::admission::Settings) -> Result<Store, OpenError> {
    Err(OpenError::Setting { field: "store", must: "a store that this binary was built with" })
}

impl OpenedPlane {
    /// Composes the services and starts the upkeep.
    pub(super) fn start(self, config: &Config, instance: InstanceId) -> Result<RunningPlane, StartError> {
        let section = &config.admission;
        let plane = Arc::new(self.plane(config)?);
        let upkeep = self.upkeep(section, instance)?;
        let (stop, stopped) = watch::channel(false);
        let upkeep = tokio::spawn(async move { upkeep.run(stopped).await });
        Ok(RunningPlane { plane, counters: self.counters, stop, upkeep })
    }

    fn plane(&self, config: &Config) -> Result<CommandPlane, StartError> {
        let section = &config.admission;
        let store = Arc::new(self.store.clone());
        let targets = Arc::new(targets(section)?);
        let binding = SessionBindingTemplate {
            storage_binding_id: section.storage_binding_id.clone(),
            binding_version: section.binding_version.clone(),
        };
        let service = Admission::new(ServiceConfig {
            authorizer: Arc::new(KindAuthorizer),
            targets: targets.clone(),
            catalog: store.clone(),
            commands: store.clone(),
            directory: store.clone(),
            clock: self.clock.clone(),
            ids: Arc::new(self.ids),
            public_creates: Some(store.clone()),
            objects: Some(Arc::new(ConfiguredBindings(vec![binding.clone()]))),
            binding: Some(binding),
            legacy: None,
            waits: self.store.waits().clone(),
            counters: self.counters.clone(),
            apply_deadline: section.apply_deadline,
        });
        let hosts = HostService::new(HostConfig {
            authorizer: Arc::new(KindAuthorizer),
            targets,
            store: store.clone(),
            clock: self.clock.clone(),
            waits: self.store.waits().clone(),
            counters: self.counters.clone(),
            limits: section.hosts,
        });
        let operator = OperatorService {
            authorizer: Arc::new(KindAuthorizer),
            store: self.store.clone(),
            board: self.board.clone(),
            counters: self.counters.clone(),
        };
        let names = config.tenants.iter().map(|tenant| Tenant::new(&tenant.name));
        Ok(CommandPlane::new(CommandPlaneParts {
            service: service.map_err(refused)?,
            hosts,
            operator,
            commands: store.clone(),
            catalog: store,
            waits: self.store.waits().clone(),
            tenants: names.collect::<Result<_, _>>().map_err(refused)?,
            store: section.store.name(),
        }))
    }

    fn upkeep(&self, section: &AdmissionSection, instance: InstanceId) -> Result<Upkeep, StartError> {
        let store = Arc::new(self.store.clone());
        // Stable for the life of the process, and nobody else's.
        let holder_id = format!("instance:{instance}");
        let disposition = DispositionReconciler::new(DispositionReconcilerConfig {
            authorizer: Arc::new(KindAuthorizer),
            due: store.clone(),
            settlement: store.clone(),
            claims: store.clone(),
            clock: self.clock.clone(),
            holder_id: holder_id.clone(),
            claim_ttl: section.sweep_claim_ttl,
            page_limit: section.sweep_page_rows,
            max_pages: section.sweep_pages,
        });
        let legacy = Reconciler::new(ReconcilerConfig {
            authorizer: Arc::new(KindAuthorizer),
            due: store.clone(),
            settlement: store.clone(),
            claims: store,
            clock: self.clock.clone(),
            holder_id,
            claim_ttl: section.sweep_claim_ttl,
            page_limit: section.sweep_page_rows,
            max_pages: section.sweep_pages,
        });
        let name = PrincipalName::new("service:sweep").map_err(refused)?;
        Ok(Upkeep::new(UpkeepParts {
            store: self.store.clone(),
            disposition: disposition.map_err(refused)?,
            legacy: legacy.map_err(refused)?,
            principal: Principal::Service(ServicePrincipal { name }),
            clock: self.clock.clone(),
            board: self.board.clone(),
            counters: self.counters.clone(),
            period: section.sweep_interval,
        }))
    }
}

fn targets(section: &AdmissionSection) -> Result<ConfiguredTargets, StartError> {
    let target = |profile: &crate::config::Profile| {
        let key = HostTargetKey::new(&profile.target_key)?;
        Ok((AgentId::new(&profile.name)?, Target { key, workload: Workload(profile.workload.clone()) }))
    };
    let targets: Result<_, crate::admission::NameError> = section.profiles.iter().map(target).collect();
    targets.map_err(refused)
}

/// What the HTTP edge is told of the plane.
pub(super) fn settings(config: &Config, plane: Arc<CommandPlane>) -> Result<CommandSettings, StartError> {
    let section = &config.admission;
    let position = |name: &String| config.tenants.iter().position(|tenant| tenant.name == *name);
    let hosts = section.credentials.iter().map(|entry| {
        let principal = HostPrincipal {
            name: PrincipalName::new(format!("{HOST_PREFIX}{}", entry.name)).map_err(refused)?,
            tenants: entry.tenants.iter().map(Tenant::new).collect::<Result<_, _>>().map_err(refused)?,
            keys: entry.target_keys.iter().map(HostTargetKey::new).collect::<Result<_, _>>().map_err(refused)?,
        };
        let tenants = entry.tenants.iter().filter_map(position).filter_map(|place| u16::try_from(place).ok());
        let key = entry.key.as_ref().ok_or_else(|| refused("a host credential without a key"))?;
        Ok(HostCredential::new(key, tenants.map(TenantId).collect(), principal))
    });
    Ok(CommandSettings {
        plane,
        hosts: hosts.collect::<Result<_, StartError>>()?,
        scope: Some(section.scope.clone()).filter(|scope| !scope.is_empty()),
        guests: config.dev,
        payload_bytes: section.payload_bytes,
        uploads: section.uploads,
        downloads: section.downloads,
    })
}

/// Keeps the age of the oldest due command fresh for the metrics.
pub(super) fn watch_due(tasks: &mut JoinSet<()>, plane: Arc<CommandPlane>, due: Arc<crate::telemetry::DueGauge>) {
    tasks.spawn(async move { due.keep_fresh(&plane).await });
}
