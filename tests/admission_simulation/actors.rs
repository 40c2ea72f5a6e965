//! Those who act: callers, hosts, sweepers. Each is a loop that never ends; a crash drops it, a restart begins it anew.

use crate::clock::{ManualClock, Skewed};
use crate::flaky::{Flaky, step};
use crate::rng::Rng;
use rendezvous::admission::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) type Actor = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) fn key() -> HostTargetKey {
    HostTargetKey::new("arena/linux").unwrap()
}

fn agent() -> AgentId {
    AgentId::new("duel").unwrap()
}

fn targets() -> Arc<ConfiguredTargets> {
    let target = Target { key: key(), workload: Workload("duel".into()) };
    Arc::new([(agent(), target)].into_iter().collect())
}

fn name(text: &str) -> PrincipalName {
    PrincipalName::new(text).unwrap()
}

/// What every actor has.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) flaky: Flaky,
    pub(crate) clock: ManualClock,
    pub(crate) rng: Rng,
    pub(crate) ids: Arc<AtomicU64>,
    pub(crate) apply_within: Duration,
    pub(crate) ttl: Duration,
    /// Callers that have been told of everything they asked for.
    pub(crate) served: Arc<AtomicU64>,
}

struct Ids(Arc<AtomicU64>);

impl UuidSource for Ids {
    fn new_uuid(&self) -> Result<Uuid, Error> {
        Ok(Uuid(u128::from(self.0.fetch_add(1, Ordering::Relaxed))))
    }
}

impl Ground {
    fn service(&self) -> Service {
        let store = Arc::new(self.flaky.clone());
        let template = SessionBindingTemplate { storage_binding_id: "embedded".into(), binding_version: "1".into() };
        Service::new(Config {
            authorizer: Arc::new(KindAuthorizer),
            targets: targets(),
            catalog: store.clone(),
            commands: store.clone(),
            directory: store.clone(),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(Ids(self.ids.clone())),
            public_creates: Some(store),
            binding: Some(template.clone()),
            objects: Some(Arc::new(ConfiguredBindings(vec![template]))),
            legacy: None,
            waits: Arc::clone(self.flaky.inner.waits()),
            counters: Arc::default(),
            apply_deadline: self.apply_within,
        })
        .expect("a complete configuration")
    }

    fn hosts(&self) -> HostService {
        HostService::new(HostConfig {
            authorizer: Arc::new(KindAuthorizer),
            targets: targets(),
            store: Arc::new(self.flaky.clone()),
            clock: Arc::new(self.clock.clone()),
            waits: Arc::clone(self.flaky.inner.waits()),
            counters: Arc::default(),
            limits: HostLimits::default(),
        })
    }

    /// A caller who asks for `creates` sessions and sends each of them `inputs` commands. What it has not been told, it asks
    /// for again, with the same key; its list outlives its crashes.
    pub(crate) fn caller(self, tenant: Tenant, creates: u64, inputs: u64) -> Actor {
        Box::pin(async move {
            let who = Principal::Tenant(TenantPrincipal { tenant: tenant.clone(), name: name("user:alice") });
            let service = self.service();
            for n in 0..creates {
                let key = format!("create-{n}");
                let payload = RequestPayload::Bytes(self.payload(n));
                let create =
                    CreateRequest { key: RequestKey::new(&key).unwrap(), agent: agent(), payload, apply_within: None };
                let session = loop {
                    if let Ok((entry, _)) = service.admit_create(&who, create.clone()).await {
                        self.flaky.model.created(&tenant, &key, &entry);
                        break entry.session;
                    }
                };
                for n in 0..inputs {
                    let key = RequestKey::new(format!("input-{n}")).unwrap();
                    let payload = RequestPayload::Bytes(Bytes::from_static(b"{}"));
                    let input = InputRequest { session, key, payload, apply_within: None };
                    loop {
                        match service.admit_input(&who, input.clone()).await {
                            Ok((entry, _)) => break self.flaky.model.admitted(&entry),
                            // Closed by its host, or full: not this caller's fault.
                            Err(error) if error.code == ErrorCode::SessionClosed => break,
                            Err(_) => step().await,
                        }
                    }
                }
            }
            self.served.fetch_add(1, Ordering::Relaxed);
            loop {
                step().await;
            }
        })
    }

    /// Some creates carry more than fits inline.
    fn payload(&self, n: u64) -> Bytes {
        if n % 4 == 3 { Bytes::from(vec![b'x'; INLINE_MAX + 1]) } else { Bytes::from_static(b"{}") }
    }

    /// A host that does what it finds to do.
    pub(crate) fn host(self, host: HostId, tenants: Vec<Tenant>) -> Actor {
        Box::pin(async move {
            let credential = Principal::Host(HostPrincipal {
                name: name("host:all"),
                tenants: tenants.into(),
                keys: [key()].into(),
            });
            let hosts = self.hosts();
            loop {
                drop(hosts.heartbeat(&credential, host.clone(), key(), 16).await);
                let work = hosts.work(&credential, &host, Duration::ZERO).await.unwrap_or_default();
                for work in work {
                    self.session(&hosts, &credential, &host, work).await;
                }
                step().await;
            }
        })
    }

    async fn session(&self, hosts: &HostService, who: &Principal, host: &HostId, work: Work) {
        let CatalogEntry { tenant, session, lease, .. } = work.session;
        let epoch = lease.map(|lease| lease.epoch).unwrap_or_default();
        let mut lease = LeaseRef::new(tenant.clone(), session, host.clone(), epoch);
        for task in work.tasks {
            match task {
                Task::Acquire => {
                    let ttl = Some(self.ttl);
                    let Ok(granted) = hosts.acquire_lease(who, host, tenant.clone(), session, ttl).await else {
                        return;
                    };
                    lease.epoch = granted.epoch;
                }
                Task::Deliver(entry) => self.deliver(hosts, who, &lease, entry.seq).await,
                Task::Settle(entry) => drop(hosts.settle(who, lease.clone(), entry.seq).await),
                Task::Release => drop(hosts.release_lease(who, lease.clone(), false).await),
            }
        }
        match self.rng.below(12) {
            0..=5 => drop(hosts.renew_lease(who, lease, Some(self.ttl)).await),
            6 => drop(hosts.release_lease(who, lease, self.rng.chance(200)).await),
            _ => {}
        }
    }

    async fn deliver(&self, hosts: &HostService, who: &Principal, lease: &LeaseRef, seq: CommandSeq) {
        let Ok(claimed) = hosts.claim(who, lease.clone(), seq, Some(self.ttl), None).await else { return };
        if claimed.state.is_terminal() || self.rng.chance(100) || hosts.begin(who, lease.clone(), seq).await.is_err() {
            return;
        }
        // Here the host works. Its effect is what it journals: see `model`.
        let refuses = self.rng.chance(150);
        let completion =
            if refuses { Completion::Rejected(OutcomeCode::new("busy").unwrap()) } else { Completion::Applied };
        for _ in 0..3 {
            let done = hosts.complete(who, lease.clone(), seq, completion.clone()).await;
            if done.is_ok_and(|entry| entry.state.is_terminal()) {
                break;
            }
        }
    }

    /// A sweeper whose clock is off by `skew_ms`.
    pub(crate) fn sweeper(self, holder: String, skew_ms: i64, with_claims: bool) -> Actor {
        Box::pin(async move {
            let store = Arc::new(self.flaky.clone());
            let claims: Arc<dyn Claims> = if with_claims { store.clone() } else { Arc::new(NoClaims) };
            let sweeper = DispositionReconciler::new(DispositionReconcilerConfig {
                authorizer: Arc::new(KindAuthorizer),
                due: store.clone(),
                settlement: store,
                claims,
                clock: Arc::new(Skewed(self.clock.clone(), skew_ms)),
                holder_id: holder.clone(),
                claim_ttl: Duration::from_secs(2),
                page_limit: 2,
                max_pages: 2,
            })
            .expect("valid bounds");
            let who = Principal::Service(ServicePrincipal { name: name(&format!("service:{holder}")) });
            loop {
                if let Ok(result) = sweeper.sweep(&who).await {
                    self.flaky.model.count(|report| report.count_sweep(&result));
                }
                drop(self.flaky.inner.place_due(8).await);
                step().await;
            }
        })
    }
}

/// Rule P8: sweeps are safe without claims.
struct NoClaims;

impl Claims for NoClaims {
    fn acquire_reconciliation_claim(
        &self,
        request: AcquireReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        let entry = ReconciliationClaimEntry { holder: request.holder, until: Timestamp(0) };
        Box::pin(std::future::ready(Ok(entry)))
    }

    fn release_reconciliation_claim(
        &self,
        request: ReleaseReconciliationClaimRequest,
    ) -> StoreAnswer<'_, ReconciliationClaimEntry> {
        let entry = ReconciliationClaimEntry { holder: request.holder, until: Timestamp(0) };
        Box::pin(std::future::ready(Ok(entry)))
    }
}
