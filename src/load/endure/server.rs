//! A server as a child process, and what it holds: its gauges, and what the system says of the process.

use super::plain;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::NamedTempFile;

/// A server that isn't ready after it never will be.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Gauges of things that come and go: none of them may outlive what it counts. Every label is a row of its own.
const GAUGES: [&str; 6] = [
    "rendezvous_store_records{",
    "rendezvous_lane_queued_commands{",
    "rendezvous_long_polls_waiting",
    "rendezvous_http_requests_in_flight",
    "rendezvous_http_connections",
    "rendezvous_http_long_polls",
];

/// The gauge of presences.
pub(super) const PRESENCE: &str = "rendezvous_store_records{resource=\"presence\"}";

/// Why nothing was found out.
#[derive(Debug)]
pub(crate) enum EndureError {
    /// The system refused something.
    System {
        /// What was tried.
        what: &'static str,
        /// Its word.
        error: io::Error,
    },
    /// The server did not start, or ended.
    Server(String),
    /// The load could not be prepared.
    Prepare(crate::load::generate::PrepareError),
    /// Ctrl-C.
    Stopped,
}

impl fmt::Display for EndureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, error } => write!(f, "{what}: {error}"),
            Self::Server(said) => write!(f, "the server did not start or ended early: {said}"),
            Self::Prepare(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for EndureError {}

/// Names what was tried.
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> EndureError {
    move |error| EndureError::System { what, error }
}

/// What a server holds at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Gauges by their names with labels.
    pub(super) gauges: BTreeMap<String, u64>,
    pub(super) files: u64,
    pub(super) threads: u64,
    pub(super) resident_bytes: u64,
}

impl Figures {
    /// Whether nothing is held for anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.gauges.values().all(|count| *count == 0)
    }
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(super) struct Served {
    child: Child,
    pub(super) http: SocketAddr,
    metrics: SocketAddr,
    /// Kept, so that the file lives as long as the process.
    _config: NamedTempFile,
}

impl Served {
    /// Starts this program as a server with the sections of `config`; it chooses its ports.
    pub(super) fn start(config: &str) -> Result<Self, EndureError> {
        let mut file = NamedTempFile::new().map_err(system("the configuration file"))?;
        let sections = format!(
            "[server]\nhttp = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nmetrics = \"127.0.0.1:0\"\n\n[[tenant]]\nname = \
             \"{}\"\nguests = true\n\n{config}",
            super::TENANT
        );
        file.write_all(sections.as_bytes()).map_err(system("the configuration file"))?;
        let program = std::env::current_exe().map_err(system("this program's own path"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(file.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(system("starting the server"))?;
        match ready_line(&mut child) {
            Some((http, metrics)) => Ok(Self { child, http, metrics, _config: file }),
            None => {
                let _gone = child.kill();
                let _reaped = child.wait();
                Err(EndureError::Server("no ready line".to_owned()))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Who looks at it, also from another thread.
    pub(super) fn looker(&self) -> Looker {
        Looker { metrics: self.metrics, pid: self.pid() }
    }

    /// What it holds now.
    pub(super) fn figures(&self) -> Result<Figures, EndureError> {
        self.looker().figures()
    }

    /// What it holds once `holds` is true of it, or after `most`; looked at every `pause`.
    pub(super) async fn figures_once(
        &self,
        holds: impl Fn(&Figures) -> bool,
        pause: Duration,
        most: Duration,
    ) -> Result<Figures, EndureError> {
        let mut figures = self.figures()?;
        for _ in 0..most.as_millis() / pause.as_millis() {
            if holds(&figures) {
                break;
            }
            tokio::time::sleep(pause).await;
            figures = self.figures()?;
        }
        Ok(figures)
    }
}

/// Looks at a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looker {
    metrics: SocketAddr,
    pid: u32,
}

impl Looker {
    /// What it holds now.
    pub(super) fn figures(&self) -> Result<Figures, EndureError> {
        let proc = |what: &str| format!("/proc/{}/{what}", self.pid);
        let status = std::fs::read_to_string(proc("status")).map_err(system("/proc/PID/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        // Before the connection of the request below: the server may close its end after this one.
        let files = std::fs::read_dir(proc("fd")).map_err(system("/proc/PID/fd"))?.count();
        let answer = plain::ask(self.metrics, "GET", "/metrics", &[], "").map_err(system("reading the metrics"))?;
        Ok(Figures {
            gauges: gauges(&answer.body),
            files: files as u64,
            threads: field("Threads:").unwrap_or_default(),
            resident_bytes: field("VmRSS:").unwrap_or_default() * 1_024,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Nothing that it holds outlives the run, so it need not drain.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The addresses of HTTP and of the metrics, from the one line of standard output.
fn ready_line(child: &mut Child) -> Option<(SocketAddr, SocketAddr)> {
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        // An error is an end without a line.
        let _read = BufReader::new(stdout).read_line(&mut line);
        let _heard = sender.send(line);
    });
    let line = receiver.recv_timeout(START_PATIENCE).ok()?;
    let field = |name: &str| line.split_whitespace().find_map(|part| part.strip_prefix(name)?.parse().ok());
    Some((field("http=")?, field("metrics=")?))
}

/// The gauges that count what comes and goes, out of the text format.
fn gauges(text: &str) -> BTreeMap<String, u64> {
    let of_interest = |line: &&str| GAUGES.iter().any(|gauge| line.starts_with(gauge));
    let rows = text.lines().filter(of_interest).filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse::<f64>().ok()? as u64))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_and_goes_is_read() {
        let text = "# HELP rendezvous_store_records x\nrendezvous_store_records{resource=\"listings\"} 7\n\
                    rendezvous_store_records_ceiling{resource=\"listings\"} 9\nrendezvous_store_commit 8\n\
                    rendezvous_http_connections 2\n";
        let found = gauges(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found["rendezvous_store_records{resource=\"listings\"}"], 7);
        assert_eq!(found["rendezvous_http_connections"], 2);
        assert!(!Figures { gauges: found, ..Figures::default() }.is_empty());
    }
}
