//! The command plane's counters, and how far behind its sweeps are.

use super::store_metrics::gauge;
use crate::admission::{Counters, PrincipalName};
use crate::service::commands::CommandPlane;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How old the gauges may be: reading them is a range scan for each shard.
const DUE_EVERY: Duration = Duration::from_secs(5);

/// What only the store can tell; whoever serves metrics keeps it fresh.
#[derive(Debug, Default)]
pub struct DueGauge(Mutex<Option<Due>>);

#[derive(Clone, Copy, Debug)]
struct Due {
    age: Duration,
    commands: usize,
    waiting: usize,
}

impl DueGauge {
    /// Asks the plane again and again, until the task is dropped. A store that does not answer has no gauges.
    pub async fn keep_fresh(&self, plane: &CommandPlane) {
        let mut every = tokio::time::interval(DUE_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let due = Self::ask(plane).await;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = due;
        }
    }

    async fn ask(plane: &CommandPlane) -> Option<Due> {
        let view = plane.view(PrincipalName::new("service:metrics").ok()?).await.ok()?;
        Some(Due {
            age: view.oldest_due().map_or(Duration::ZERO, |(_, age)| age),
            commands: view.due.iter().map(|shard| shard.due).sum(),
            waiting: view.waiting,
        })
    }

    fn last(&self) -> Option<Due> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers the command plane's metrics.
pub fn register_admission(registry: &mut Registry, counters: Arc<Counters>, due: Arc<DueGauge>) {
    registry.register_collector(Box::new(AdmissionCollector { counters, due }));
}

#[derive(Debug)]
struct AdmissionCollector {
    counters: Arc<Counters>,
    due: Arc<DueGauge>,
}

impl Collector for AdmissionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let counts = self.counters.counts();
        let admitted = counts.admitted.iter().map(|(kind, count)| (kind.as_str().to_owned(), *count));
        family(&mut encoder, "commands_admitted", "Admitted commands by kind.", "kind", admitted)?;
        let refused = counts.refused.iter().map(|(code, count)| (code.as_str().to_owned(), *count));
        family(&mut encoder, "calls_refused", "Refused calls by reason.", "reason", refused)?;
        let fates = counts.dispositions.iter().map(|(fate, count)| (fate.to_string(), *count));
        family(&mut encoder, "sweep_dispositions", "What sweeps did with due rows.", "disposition", fates)?;
        for (name, meaning, count) in counts.events() {
            let name = format!("rendezvous_admission_{name}");
            let metric = encoder.encode_descriptor(&name, meaning.trim(), None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        let Some(due) = self.due.last() else { return Ok(()) };
        let age = "For how long the oldest due command has been past its deadline.";
        gauge(&mut encoder, "rendezvous_admission_oldest_due_age", age, Some(&Unit::Seconds), due.age.as_secs_f64())?;
        gauge(
            &mut encoder,
            "rendezvous_admission_due_commands",
            "Due commands, counted up to a bound.",
            None,
            due.commands as f64,
        )?;
        gauge(
            &mut encoder,
            "rendezvous_admission_long_polls_waiting",
            "Long polls that wait.",
            None,
            due.waiting as f64,
        )
    }
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &'static str,
    values: impl Iterator<Item = (String, u64)>,
) -> Result<(), fmt::Error> {
    let name = format!("rendezvous_admission_{name}");
    let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        ConstCounter::new(count).encode(metric.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}
