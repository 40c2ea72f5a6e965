//! The text of `GET /metrics`, in Prometheus' own format: linters and old scrapers read it too.

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
