//! The text of `GET /metrics`, in Prometheus' own format: linters and old scrapers read it too.

use super::log::register_log;
use super::store_metrics::{StoreGauges, register_store};
use crate::service::Service;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinSet;

/// How old the store's counts may be.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// Every metric of the process. It is handed out before the edges have registered theirs, because they serve it.
#[derive(Default)]
pub struct Exposition(OnceLock<Registry>);

impl Exposition {
    /// Renders on each call; empty until [`Exposition::fill`].
    pub fn text(self: &Arc<Self>) -> Arc<dyn Fn() -> String + Send + Sync> {
        let exposition = Arc::clone(self);
        Arc::new(move || {
            let mut text = String::new();
            if let Some(registry) = exposition.0.get() {
                // Writing into a string can't fail.
                let _ = encode(&mut text, registry);
            }
            text
        })
    }

    /// Registers the store's metrics and what `edges` adds, once. The task keeps the store's counts fresh until it is dropped.
    pub fn fill(&self, service: &Arc<Service>, edges: impl FnOnce(&mut Registry)) -> JoinSet<()> {
        let gauges = Arc::new(StoreGauges::default());
        let _filled_once = self.0.get_or_init(|| {
            let mut registry = Registry::default();
            register_store(&mut registry, service.clone(), gauges.clone());
            register_log(&mut registry);
            edges(&mut registry);
            registry
        });
        let mut upkeep = JoinSet::new();
        upkeep.spawn(keep_fresh(gauges, service.clone()));
        upkeep
    }
}

async fn keep_fresh(gauges: Arc<StoreGauges>, service: Arc<Service>) {
    let mut every = tokio::time::interval(GAUGES_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        gauges.refresh(&service).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::server::Server;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server that has answered one request: families of metrics without a member are not shown.
    async fn used_server() -> Server {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut config = Config::dev();
        (config.server.http, config.server.udp, config.server.udp_auth) = (any, vec![any], vec![]);
        let server = Server::start(config).await.unwrap();
        let mut stream = tokio::net::TcpStream::connect(server.http_addr()).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        server
    }

    /// The operations page names no metric that does not exist.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_operations_page_names_metrics_that_exist() {
        let server = used_server().await;
        // The stores' counts are filled in by tasks that have just begun.
        let text = loop {
            let text = server.metrics_text();
            if text.contains("rendezvous_store_records{") && text.contains("rendezvous_admission_due_commands") {
                break text;
            }
            tokio::task::yield_now().await;
        };
        let page = include_str!("../../docs/operations.md");
        let named = page.split('`').filter(|word| word.starts_with("rendezvous_"));
        for name in named.map(|word| word.split('{').next().unwrap()) {
            // Prefixes, and what has no series before it has happened: a report, a refusal, TLS.
            let shown_when_used = [
                "rendezvous_",
                "rendezvous_admission_",
                "rendezvous_path_reports_total",
                "rendezvous_http_connections_refused_total",
                "rendezvous_http_rate_limited_total",
                "rendezvous_tls_certificate_reloads_total",
                "rendezvous_tls_certificate_expiry_timestamp_seconds",
            ]
            .contains(&name);
            assert!(shown_when_used || text.contains(&format!("# TYPE {name} ")), "{name} is not in:\n{text}");
        }
        server.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_metric_has_the_prefix_a_help_text_and_base_units() {
        let server = used_server().await;
        let text = server.metrics_text();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            assert!(name.starts_with("rendezvous_"), "{name}");
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            assert!(!name.ends_with("_ms") && !name.contains("millis"), "{name}");
        }
        server.shutdown().await;
    }
}
