//! What the store holds and how it feels, as gauges that are read when somebody scrapes.

use crate::domain::{Count, Status};
use crate::service::Service;
use crate::store::Availability;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts that only the lane can tell; whoever serves metrics refreshes them.
#[derive(Debug, Default)]
pub(super) struct StoreGauges(Mutex<Option<Status>>);

impl StoreGauges {
    /// Asks the store. A store that does not answer any more has no counts.
    pub(super) async fn refresh(&self, service: &Service) {
        let status = service.status().await.ok().map(|applied| applied.value);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn status(&self) -> Option<Status> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StoreCollector {
    service: Arc<Service>,
    gauges: Arc<StoreGauges>,
}

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreCollector")
    }
}

/// Registers the store's metrics.
pub(super) fn register_store(registry: &mut Registry, service: Arc<Service>, gauges: Arc<StoreGauges>) {
    registry.register_collector(Box::new(StoreCollector { service, gauges }));
}

/// The records of the store by name, in the order of the limits page.
fn counts(status: &Status) -> [(&'static str, Count); 7] {
    [
        ("listings", status.listings),
        ("unproven_listings", status.unproven_listings),
        ("presence", status.presence),
        ("attempts", status.attempts),
        ("idempotency", status.idempotency),
        ("replay", status.replay),
        ("revocations", status.revocations),
    ]
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(status) = self.gauges.status() {
            let live = counts(&status).map(|(name, count)| ([("resource", name)], count.live));
            family(&mut encoder, "rendezvous_store_records", "Live records by resource.", live)?;
            let ceilings = counts(&status).map(|(name, count)| ([("resource", name)], count.ceiling));
            family(&mut encoder, "rendezvous_store_records_ceiling", "Most live records by resource.", ceilings)?;
        }
        let (creations, keep_alives) = self.service.queued();
        let queued = [([("class", "creation")], creations), ([("class", "keep_alive")], keep_alives)];
        let queued = queued.map(|(labels, count)| (labels, u32::try_from(count).unwrap_or(u32::MAX)));
        family(&mut encoder, "rendezvous_lane_queued_commands", "Commands that wait for the writer by class.", queued)?;
        let (published, age_ms) = self.service.published();
        gauge(
            &mut encoder,
            "rendezvous_snapshot_age",
            "For how long browsing has been behind the last commit.",
            Some(&Unit::Seconds),
            age_ms as f64 / 1e3,
        )?;
        gauge(&mut encoder, "rendezvous_snapshot_commit", "Commit that browsing sees.", None, published as f64)?;
        gauge(
            &mut encoder,
            "rendezvous_store_commit",
            "Commit of the last transition.",
            None,
            self.service.last_commit() as f64,
        )?;
        let polls = self.service.waiting_polls();
        gauge(&mut encoder, "rendezvous_long_polls_waiting", "Long polls that wait.", None, f64::from(polls))?;
        let availability = self.service.availability();
        let states = [
            ([("state", "available")], availability == Availability::Available),
            ([("state", "draining")], matches!(availability, Availability::Draining { .. })),
            ([("state", "unavailable")], availability == Availability::Unavailable),
        ];
        let states = states.map(|(labels, is)| (labels, u32::from(is)));
        family(&mut encoder, "rendezvous_store_availability", "1 for the state that the store is in.", states)
    }
}

/// One gauge that is read when somebody scrapes.
pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, unit, prometheus_client::metrics::MetricType::Gauge)?)
}

fn family<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: [([(&'static str, &'static str); 1], u32); N],
) -> Result<(), fmt::Error> {
    let kind = prometheus_client::metrics::MetricType::Gauge;
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        ConstGauge::new(i64::from(value)).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
