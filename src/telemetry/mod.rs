//! Logs and metrics.
//!
//! A log line is one event: its name is in the field `event`, everything else in fields of their own, and secrets have types
//! that print `[redacted]`. A metric has the prefix `rendezvous_`, base units, and labels from closed sets only.

mod log;
mod store_metrics;

pub use log::{LogError, init};
pub use store_metrics::{StoreGauges, register_store};
