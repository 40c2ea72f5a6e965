//! The process's log, on standard error: standard output belongs to the ready line.

use crate::config::{LogFormat, LogSection};
use std::fmt;
use std::io::IsTerminal;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::TryInitError;
use tracing_subscriber::{fmt as lines, prelude::*};

/// The log could not be set up.
#[derive(Debug)]
pub struct LogError(TryInitError);

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log could not be set up: {}", self.0)
    }
}

impl std::error::Error for LogError {}

/// Sets the log of this process up, once.
pub fn init(section: &LogSection) -> Result<(), LogError> {
    let level = match section.level {
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => LevelFilter::INFO,
    };
    let registry = tracing_subscriber::registry().with(level);
    match section.format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal();
            registry.with(lines::layer().with_writer(std::io::stderr).with_ansi(colours)).try_init()
        }
        LogFormat::Json => {
            let json = lines::layer().json().flatten_event(true).with_writer(std::io::stderr);
            registry.with(json).try_init()
        }
    }
    .map_err(LogError)
}
