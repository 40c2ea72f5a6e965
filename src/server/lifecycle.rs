//! From ready to the end: signals, drain, a lost store (section J).

use super::Server;
use super::commands::RunningPlane;
use crate::clock::Clock;
use crate::domain::{Failure, MonoTime, Rejection, WallTime};
use crate::service::Service;
use std::io;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often drain looks whether anybody still waits.
const QUIET_CHECK: Duration = Duration::from_millis(25);
/// Longest time from the drain deadline to the end (rule J3).
const AFTER_DEADLINE_MS: u64 = 5_000;
/// Time for the edges to end once nothing is open.
const LAST_ANSWERS_MS: u64 = 250;
/// How often the command plane's store is looked at: two loads.
pub(super) const PLANE_CHECK: Duration = Duration::from_millis(250);
/// Longest time that the command plane's last step may take: it is one shard's sweep.
const UPKEEP_PATIENCE: Duration = Duration::from_secs(1);
/// A lost store still answers `service_unavailable` for this long, so that nobody is left without an answer (rule J1).
pub(super) const LOST_GRACE: Duration = Duration::from_secs(1);

/// How a server's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Drained after a signal.
    Drained,
    /// A second signal.
    Forced,
    /// The store can't guarantee anything any more (rule J1), or something that has to run for ever ended by itself.
    Lost,
}

impl Server {
    /// Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once.
    ///
    /// Listen before anybody is told that the server is ready: a signal that comes sooner would end the process undrained.
    pub async fn run_until_signal(mut self, mut signals: Signals) -> Exit {
        tokio::select! {
            name = signals.next() => tracing::info!(event = "signal", signal = name),
            () = self.lost() => return self.after_loss().await,
        }
        tokio::select! {
            exit = self.shutdown() => exit,
            name = signals.next() => {
                tracing::warn!(event = "signal", signal = name, "ending at once");
                Exit::Forced
            }
        }
    }

    /// Drains with the configured window, then stops: as soon as no attempt waits for an introduction and no request is
    /// open, at the latest 5 s after the drain deadline (rule J3).
    pub async fn shutdown(mut self) -> Exit {
        let service = self.service.clone();
        match begin_drain(&service).await {
            Ok((deadline, wall)) => {
                tracing::info!(event = "drain_began", deadline_unix_ms = wall.0);
                tokio::select! {
                    () = quiet(&service, deadline) => {}
                    () = self.lost() => return self.after_loss().await,
                }
                self.stop(deadline.plus_ms(AFTER_DEADLINE_MS)).await;
                tracing::info!(event = "drained");
                Exit::Drained
            }
            Err(failure) => {
                // Only a lost store refuses to drain.
                tracing::error!(event = "drain_failed", code = failure.code());
                self.after_loss().await
            }
        }
    }

    /// Answers what is open and stops, at the latest at `limit`.
    async fn stop(mut self, limit: MonoTime) {
        let clock = self.service.clock().clone();
        self.http.begin_drain();
        while self.http.open_requests() > 0 && !limit.is_past(clock.mono()) {
            tokio::time::sleep(QUIET_CHECK).await;
        }
        self.http.shutdown();
        let _already_over = self.stop_udp.send(());
        let ending = async { while self.edges.join_next().await.is_some() {} };
        let left_ms = limit.ms_since(clock.mono()).max(LAST_ANSWERS_MS);
        if tokio::time::timeout(Duration::from_millis(left_ms), ending).await.is_err() {
            tracing::warn!(event = "drain_cut_short", open_requests = self.http.open_requests());
        }
        if let Some(commands) = self.commands.take() {
            commands.stop(UPKEEP_PATIENCE).await;
        }
    }

    /// Resolves when the process can't do its work any more: the store is lost, a loop of an edge ended by itself, or what
    /// keeps the command plane or the metrics going has panicked (case D3).
    async fn lost(&mut self) {
        tokio::select! {
            () = self.ticker.lost() => tracing::error!(event = "store_lost"),
            _ = self.edges.join_next() => tracing::error!(event = "edge_lost"),
            lost = plane_lost(self.commands.as_ref()) => tracing::error!(event = lost),
            () = panicked(&mut self.upkeep) => tracing::error!(event = "upkeep_lost"),
        }
    }

    /// Requests are answered `service_unavailable` for a moment, then a supervisor has to start a new instance.
    async fn after_loss(self) -> Exit {
        self.service.end_long_polls();
        if let Some(commands) = &self.commands {
            if commands.is_lost() {
                commands.plane.lose();
            }
            commands.plane.end_long_polls();
        }
        tokio::time::sleep(LOST_GRACE).await;
        Exit::Lost
    }
}

/// Resolves when a thread of the command plane's store has panicked, or its upkeep: like a lost lane, that is for a new
/// process to mend. What it is called in the log.
async fn plane_lost(commands: Option<&RunningPlane>) -> &'static str {
    let Some(commands) = commands else { return std::future::pending().await };
    while !commands.is_lost() {
        tokio::time::sleep(PLANE_CHECK).await;
    }
    if commands.plane.is_lost() { "admission_store_lost" } else { "admission_upkeep_lost" }
}

/// Resolves when a task of these has panicked. One that ends otherwise has said why.
async fn panicked(upkeep: &mut JoinSet<()>) {
    while let Some(ended) = upkeep.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            return;
        }
    }
    std::future::pending().await
}

/// Begins drain, as often as it takes while the lane is full of other keep-alives.
///
/// An operator may have drained before, even until after the deadline: then his is the drain that counts (rule J2).
async fn begin_drain(service: &Service) -> Result<(MonoTime, WallTime), Failure> {
    loop {
        match service.drain(None).await {
            Ok(drain) => return Ok(drain.value),
            Err(Failure::Overloaded | Failure::Cancelled) => tokio::time::sleep(QUIET_CHECK).await,
            Err(Failure::Rejected(Rejection::Draining { deadline, wall })) => return Ok((deadline, wall)),
            Err(failure) => return Err(failure),
        }
    }
}

/// Resolves when nobody waits for an introduction, at the latest at the deadline, when drain has let go of everybody.
async fn quiet(service: &Service, deadline: MonoTime) {
    while !service.is_quiet().await && !deadline.is_past(service.clock().mono()) {
        tokio::time::sleep(QUIET_CHECK).await;
    }
}

/// The signals that ask for the end.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes the signals over from the system's default, which is to end the process.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Nothing to take over: waiting for Ctrl-C does it.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
