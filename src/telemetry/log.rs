//! The process's log, on standard error: standard output belongs to the ready line.

use super::writer::LineWriter;
use crate::config::{LogFormat, LogSection};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::TryInitError;
use tracing_subscriber::{fmt as lines, prelude::*};

/// Longest time that the end of the process waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The lines that this process has dropped, once it has a log.
static DROPPED: OnceLock<Arc<AtomicU64>> = OnceLock::new();

/// The log could not be set up.
#[derive(Debug)]
pub enum LogError {
    /// No thread to write it.
    Thread(io::Error),
    /// The process has one already.
    Taken(TryInitError),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the log could not be set up: ")?;
        match self {
            Self::Thread(error) => error.fmt(f),
            Self::Taken(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

/// The log of this process. Nobody who writes to it waits for whoever reads it: what does not fit is dropped and counted.
/// Dropping it waits a moment for the last lines.
pub struct Log(LineWriter);

impl Log {
    /// Text for people among the lines, as it is.
    pub fn say(&self, text: &str) {
        // It counts what it has to drop.
        let _taken = self.0.clone().write_all(format!("{text}\n").as_bytes());
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.finish(LAST_LINES);
    }
}

/// Sets the log of this process up, once.
pub fn init(section: &LogSection) -> Result<Log, LogError> {
    let level = match section.level {
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => LevelFilter::INFO,
    };
    let writer = LineWriter::start(io::stderr()).map_err(LogError::Thread)?;
    let registry = tracing_subscriber::registry().with(level);
    let lines_of = writer.clone();
    let make = move || lines_of.clone();
    match section.format {
        LogFormat::Text => {
            let colours = io::stderr().is_terminal();
            registry.with(lines::layer().with_writer(make).with_ansi(colours)).try_init()
        }
        LogFormat::Json => registry.with(lines::layer().json().flatten_event(true).with_writer(make)).try_init(),
    }
    .map_err(LogError::Taken)?;
    // One log a process, as `try_init` has just shown.
    let _first = DROPPED.set(writer.dropped());
    Ok(Log(writer))
}

/// Registers what is known of the log.
pub(super) fn register_log(registry: &mut Registry) {
    registry.register_collector(Box::new(LogCollector));
}

#[derive(Debug)]
struct LogCollector;

impl Collector for LogCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let dropped = DROPPED.get().map_or(0, |dropped| dropped.load(Ordering::Relaxed));
        let help = "Lines of the log that were dropped because nobody took them.";
        let metric = encoder.encode_descriptor("rendezvous_log_lines_dropped", help, None, MetricType::Counter)?;
        ConstCounter::new(dropped).encode(metric)
    }
}
