//! The edge from outside: bind, look at the addresses, run.

use super::engine::{Asker, Engine};
use super::lane::Lane;
use super::metrics::UdpMetrics;
use super::notices::UdpNotices;
use super::responder::{Protocol, Responder};
use super::settings::{Budgets, Entropy, UdpSettings};
use super::socket::{LocalAddrs, Sockets};
use crate::clock::SharedClock;
use crate::service::Service;
use prometheus_client::registry::Registry;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Longest time between the end of receiving and the end: the lane answers in far less, and the process waits for it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Bound sockets, ready to serve.
#[derive(Debug)]
pub struct UdpEdge {
    sockets: Arc<Sockets>,
    metrics: Arc<UdpMetrics>,
    notices: Arc<UdpNotices>,
    budgets: Budgets,
    classic: bool,
    entropy: Entropy,
}

impl UdpEdge {
    /// Binds every listener of the settings; an error names the address. Must be called inside a tokio runtime.
    pub fn bind(settings: UdpSettings) -> io::Result<Self> {
        let sockets = Sockets::bind(&settings)?;
        Ok(Self {
            sockets: Arc::new(sockets),
            metrics: Arc::new(UdpMetrics::new(settings.notices.dropped())),
            notices: settings.notices,
            budgets: settings.budgets,
            classic: settings.classic,
            entropy: settings.entropy,
        })
    }

    /// The addresses in use, ports chosen by the system included.
    pub fn local_addrs(&self) -> LocalAddrs {
        self.sockets.local_addrs()
    }

    /// Adds the edge's counters, all named `rendezvous_udp_...`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// The counters, for tests that look at them from outside of the loop.
    #[cfg(test)]
    pub(super) fn metrics(&self) -> Arc<UdpMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Serves until `shutdown` resolves, then answers what is in the lane and tells what has happened. Questions that still
    /// wait for the lane 200 ms later are dropped, which cancels them (K1).
    pub async fn run(self, service: Arc<Service>, shutdown: impl Future<Output = ()> + Send) {
        let protocol = Protocol {
            credentials: service.key().clone(),
            entropy: self.entropy.clone(),
            instance: service.instance(),
            nonce_fresh_ms: service.limits().nonce_fresh_ms,
        };
        let clock = service.clock().clone();
        self.serve(service, &protocol, clock, shutdown).await;
    }

    /// The same for any lane.
    pub(super) async fn serve<L: Lane>(
        self,
        lane: Arc<L>,
        protocol: &Protocol,
        clock: SharedClock,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let Self { sockets, metrics, notices, budgets, classic, .. } = self;
        let responder = Responder::new(protocol, &budgets, sockets.addresses(), classic);
        let asker = Asker { lane, clock, sockets, metrics, answerer: responder.answerer().clone() };
        let mut engine = Engine::new(asker, responder, protocol, notices, budgets.questions_max);
        tracing::debug!(instance = %protocol.instance, "UDP edge serves");
        tokio::pin!(shutdown);
        tokio::select! {
            () = &mut shutdown => {}
            () = engine.run() => {}
        }
        // Whoever is owed a word gets it: an introduction may be what let the process go.
        let _cut_short = tokio::time::timeout(LAST_WORDS, engine.finish()).await;
    }
}
