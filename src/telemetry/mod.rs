//! Logs and metrics.
//!
//! A log line is one event: its name is in the field `event`, everything else in fields of their own, and secrets have types
//! that print `[redacted]`. A metric has the prefix `rendezvous_`, base units, and labels from closed sets only.

mod admission_metrics;
mod exposition;
mod log;
mod store_metrics;
mod writer;

pub use admission_metrics::{DueGauge, register_admission};
pub use exposition::Exposition;
pub use log::{Log, LogError, init};
