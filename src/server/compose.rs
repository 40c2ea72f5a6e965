//! From a configuration to a running server.

use super::certificates;
use super::commands;
use super::stun_uris::stun_uris;
use super::ticker::Ticker;
use super::{Addresses, Server};
use crate::clock::{SharedClock, StampClock, SystemClock};
use crate::config::{Browse, CertificateFileError, Config, StoreKind, Tenant};
use crate::domain::limits::LimitsError;
use crate::edge::http::{
    BrowsePolicy, Cors, HttpServer, HttpSettings, JwtKeyError, KeyFingerprint, MetricsServer, MetricsText,
    TenantSettings,
};
use crate::edge::udp::{Entropy, UdpEdge, UdpNotices, UdpSettings};
use crate::service::{
    EntropyError, Fanout, InstanceKeys, Observer, ReleasePolls, Service, ServiceParts, SystemIds, WaitingAttempts,
    Waits,
};
use crate::store::AnyStore;
use crate::store::lane::{Lane, LaneSettings};
use crate::store::single_lock::SingleLock;
use crate::telemetry::{DueGauge, Exposition, register_admission};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// A limit breaks a promise.
    Limits(LimitsError),
    /// No entropy.
    Entropy(EntropyError),
    /// A listener could not be bound.
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// What it names.
        wanted: String,
        /// The system's word.
        error: io::Error,
    },
    /// A thread could not be started.
    Thread(io::Error),
    /// The command plane's store could not be opened, or its parts don't fit.
    Admission(String),
    /// The certificate can't be used.
    Certificate(CertificateFileError),
    /// Signals can't be listened to.
    Signals(io::Error),
    /// A tenant's settings were refused by an edge.
    Tenant {
        /// The tenant.
        name: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(error) => error.fmt(f),
            Self::Entropy(error) => error.fmt(f),
            Self::Bind { key, wanted, error } => write!(f, "{key}: {wanted} could not be bound: {error}"),
            Self::Thread(error) => write!(f, "a thread could not be started: {error}"),
            Self::Admission(reason) => write!(f, "admission: {reason}"),
            Self::Certificate(error) => error.fmt(f),
            Self::Signals(error) => write!(f, "signals can't be listened to: {error}"),
            Self::Tenant { name, reason } => write!(f, "tenant {name}: {reason}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Builds and binds everything. Once it returns, requests and datagrams are answered.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let clock = SystemClock::new();
        let (instance, keys) = InstanceKeys::random().map_err(StartError::Entropy)?;
        let notices = Arc::new(UdpNotices::new());
        let policy = config.policy();
        let (waits, waiting_attempts) = (Waits::new(policy.long_polls), Arc::new(WaitingAttempts::default()));
        let opened = commands::open(&config.admission, clock).await?;
        let mut observers: Vec<Arc<dyn Observer>> = vec![waits.clone(), waiting_attempts.clone(), notices.clone()];
        observers.extend(opened.as_ref().map(|opened| ReleasePolls::at_drain(opened.store.waits())));
        let observer = Fanout::new(observers);
        let shared: SharedClock = Arc::new(StampClock::new(clock));
        let store = store(&config, shared.clone(), observer).map_err(StartError::Limits)?;
        let service = Arc::new(Service::new(ServiceParts {
            store,
            clock: shared,
            instance,
            keys: keys.clone(),
            limits: config.store_limits(),
            policy,
            ids: Box::new(SystemIds::new(clock)),
            waits,
            waiting_attempts,
        }));
        let udp = bind_udp(&config, &keys, notices)?;
        service.set_stun_uris(stun_uris(&config.server.stun, &udp.local_addrs()));
        let interval = Duration::from_millis(config.snapshot.publish_interval_ms.into());
        let ticker = Ticker::start(service.clone(), interval).map_err(StartError::Thread)?;
        let exposition = Arc::new(Exposition::default());
        let text = exposition.text();
        let running = opened.map(|opened| opened.start(&config, instance)).transpose()?;
        let mut settings = http_settings(&config, &keys, &text)?;
        settings.commands =
            running.as_ref().map(|running| commands::settings(&config, running.plane.clone())).transpose()?;
        let watch = certificates::settings(&config.tls, clock).map_err(StartError::Certificate)?;
        settings.tls = watch.as_ref().map(|(tls, _)| tls.clone());
        let http =
            HttpServer::bind(settings, service.clone()).await.map_err(bind_error("server.http", config.server.http))?;
        let due = Arc::new(DueGauge::default());
        let mut upkeep = exposition.fill(&service, |registry| {
            http.register_metrics(registry);
            udp.register_metrics(registry);
            if let Some(running) = &running {
                register_admission(registry, running.counters.clone(), due.clone());
            }
        });
        if let Some(running) = &running {
            commands::watch_due(&mut upkeep, running.plane.clone(), due);
        }
        if let Some((_, watch)) = watch {
            upkeep.spawn(watch.run().map_err(StartError::Signals)?);
        }
        let metrics = bind_metrics(&service, config.server.metrics, text.clone()).await?;
        let metrics_address = metrics.as_ref().map(MetricsServer::local_addr).transpose();
        let metrics_address = metrics_address.map_err(bind_error("server.metrics", "its port"))?;
        let http_address = http.local_addr().map_err(bind_error("server.http", config.server.http))?;
        let addresses = Addresses { http: http_address, udp: udp.local_addrs(), metrics: metrics_address };
        let (stop_udp, stopped) = tokio::sync::oneshot::channel();
        let http_handle = http.handle();
        if let Some(metrics) = metrics {
            let http = http_handle.clone();
            upkeep.spawn(metrics.run(move || {
                http.free_descriptors();
            }));
        }
        let mut edges = JoinSet::new();
        edges.spawn(http.run());
        edges.spawn(udp.run(service.clone(), async {
            // A dropped sender ends it as well.
            let _ = stopped.await;
        }));
        let server = Self {
            service,
            addresses,
            http: http_handle,
            metrics: text,
            stop_udp,
            edges,
            ticker,
            commands: running,
            upkeep,
        };
        server.log_start(&config);
        Ok(server)
    }

    fn log_start(&self, config: &Config) {
        tracing::info!(
            event = "started",
            instance = %self.instance(),
            store = config.server.store.name(),
            http = %self.http_addr(),
            udp = ?self.addresses.udp.plain,
            udp_auth = ?self.addresses.udp.auth,
            metrics = ?self.metrics_addr(),
            tenants = config.tenants.len(),
            commands = config.admission.store.name(),
        );
        if config.tenants.is_empty() {
            tracing::warn!(
                event = "no_tenants",
                "every path under /v1/tenants is not_found; add a [[tenant]] or try --dev"
            );
        }
    }
}

fn bind_error(key: &'static str, wanted: impl fmt::Display) -> impl FnOnce(io::Error) -> StartError {
    let wanted = wanted.to_string();
    move |error| StartError::Bind { key, wanted, error }
}

fn store(config: &Config, clock: SharedClock, observer: Arc<Fanout>) -> Result<AnyStore<SharedClock>, LimitsError> {
    let limits = config.store_limits();
    Ok(match config.server.store {
        StoreKind::Lane => {
            let settings = LaneSettings {
                queue_creations: config.limits.lane_creations as usize,
                queue_keep_alives: config.limits.lane_keep_alives as usize,
                publish_interval_ms: config.snapshot.publish_interval_ms,
            };
            AnyStore::Lane(Lane::new(limits, settings, clock, observer)?)
        }
        StoreKind::SingleLock => AnyStore::SingleLock(SingleLock::new(limits, clock, observer)?),
    })
}

fn bind_udp(config: &Config, keys: &InstanceKeys, notices: Arc<UdpNotices>) -> Result<UdpEdge, StartError> {
    let settings = UdpSettings {
        plain: config.server.udp.clone(),
        auth: config.server.udp_auth.clone(),
        budgets: config.udp.budgets,
        classic: config.udp.rfc3489,
        notices,
        entropy: Entropy::new(*keys.nonces.expose()),
    };
    // The edge doesn't say which of them it was.
    let wanted: Vec<_> = settings.plain.iter().chain(&settings.auth).map(SocketAddr::to_string).collect();
    UdpEdge::bind(settings).map_err(bind_error("server.udp, server.udp_auth", wanted.join(" or ")))
}

async fn bind_metrics(
    service: &Service,
    listen: Option<SocketAddr>,
    text: MetricsText,
) -> Result<Option<MetricsServer>, StartError> {
    let Some(listen) = listen else { return Ok(None) };
    let bound = MetricsServer::bind(listen, text, service.instance(), service.clock().clone()).await;
    bound.map(Some).map_err(bind_error("server.metrics", listen))
}

/// What the HTTP edge is told.
fn http_settings(config: &Config, keys: &InstanceKeys, text: &MetricsText) -> Result<HttpSettings, StartError> {
    let tenants = config.tenants.iter().map(tenant_settings).collect::<Result<_, _>>()?;
    let mut settings = HttpSettings::new(config.server.http, tenants, keys.guest_tokens.clone());
    settings.operators = config.operator.keys.iter().map(KeyFingerprint::of).collect();
    settings.guest_token_ttl = Duration::from_millis(config.http.guest_token_ttl_ms.into());
    settings.trusted_proxies = config.trust.proxies.iter().filter_map(|range| range.parse().ok()).collect();
    settings.proxy_protocol = config.trust.proxy_protocol;
    settings.plain_keys = config.server.insecure;
    settings.cors = match config.http.cors_origins.as_slice() {
        [] => Cors::Off,
        origins if origins.iter().any(|origin| origin == "*") => Cors::Any,
        origins => Cors::Origins(origins.to_vec()),
    };
    settings.limits = config.http.limits.clone();
    settings.rates = (!config.dev).then_some(config.http.rates);
    settings.metrics = config.dev.then(|| text.clone());
    settings.workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    Ok(settings)
}

fn tenant_settings(tenant: &Tenant) -> Result<TenantSettings, StartError> {
    let refused = |error: JwtKeyError| StartError::Tenant { name: tenant.name.clone(), reason: error.to_string() };
    Ok(TenantSettings {
        name: tenant.name.clone(),
        browse: match tenant.browse {
            Browse::Public => BrowsePolicy::Public,
            Browse::Principal => BrowsePolicy::Principal,
        },
        guests: tenant.guests,
        jwt: tenant.jwt.verifier().transpose().map_err(refused)?,
    })
}
