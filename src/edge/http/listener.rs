//! The accept loop, and the end of it.

use super::call::Link;
use super::connection::Connection;
use super::edge::Edge;
use super::entry::{Entrant, refuse};
use super::registry::{Ceiling, Registry};
use super::settings::HttpSettings;
use super::workers::Workers;
use crate::domain::Source;
use crate::domain::endpoint::fold;
use crate::repeats::Repeats;
use crate::service::Service;
use prometheus_client::registry::Registry as MetricsRegistry;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

/// How often token buckets are looked through for full ones, and connections for old ones.
const DECAY_EVERY: Duration = Duration::from_secs(5);
/// Connections that are told at a time that there is no place for them; more are closed without a word.
const REFUSALS_MAX: usize = 64;
/// Pause after a failed accept: trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Idle connections that are closed when the process has no descriptor left: enough for the store and for scrapers too ...
const EVICTED_FOR_DESCRIPTORS: usize = 16;
/// ... and the time for their tasks to close them, before more would have to go.
const EVICTION_PAUSE: Duration = Duration::from_millis(5);

/// What is left of the listener's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Still accepting, but every connection ends with its next answer: a client that is just asking on an idle one is
    /// told, not reset.
    Closing,
    /// Not accepting any more, and waiting for nobody without a request.
    Stopping,
}

/// A bound listener that does not serve yet.
pub struct HttpServer {
    listener: TcpListener,
    edge: Arc<Edge>,
    registry: Arc<Registry>,
    phase: watch::Sender<Phase>,
    open: Arc<AtomicUsize>,
    workers: Workers,
    refusals: Arc<Semaphore>,
    failures: Repeats,
}

/// Steers a running [`HttpServer`] from outside. Clones steer the same server.
#[derive(Clone)]
pub struct HttpHandle {
    service: Arc<Service>,
    registry: Arc<Registry>,
    phase: watch::Sender<Phase>,
    open: Arc<AtomicUsize>,
}

impl HttpServer {
    /// Takes the port. Errors are those of the socket: in use, or not ours.
    pub async fn bind(settings: HttpSettings, service: Arc<Service>) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let limits = &settings.limits;
        let registry = Registry::new(limits.connections, limits.connections_per_source);
        let workers = Workers::start(settings.workers)?;
        let edge = Arc::new(Edge::new(settings, service)?);
        let phase = watch::Sender::new(Phase::Serving);
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        Ok(Self {
            listener,
            edge,
            registry,
            phase,
            open: Arc::default(),
            workers,
            refusals,
            failures: Repeats::default(),
        })
    }

    /// Where it listens, with the port that was taken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle, to be taken before [`HttpServer::run`].
    pub fn handle(&self) -> HttpHandle {
        HttpHandle {
            service: Arc::clone(&self.edge.service),
            registry: Arc::clone(&self.registry),
            phase: self.phase.clone(),
            open: Arc::clone(&self.open),
        }
    }

    /// Adds the edge's metrics.
    pub fn register_metrics(&self, registry: &mut MetricsRegistry) {
        self.edge.metrics.register(registry);
        if let Some(tls) = &self.edge.tls {
            tls.register(registry);
        }
    }

    /// Serves until [`HttpHandle::shutdown`]; then closes what is idle at once, lets requests in progress finish for at
    /// most the configured grace, and returns. Dropping the future closes everything.
    pub async fn run(mut self) {
        let workers = std::mem::take(&mut self.workers);
        let mut phase = self.phase.subscribe();
        let mut tasks = JoinSet::new();
        let mut decay = interval(DECAY_EVERY);
        decay.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = reached(&mut phase, Phase::Stopping) => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                _ = decay.tick() => self.decay(),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.welcome(stream, peer, &mut tasks, &workers),
                    Err(error) => sleep(self.accept_failed(&error)).await,
                },
            }
        }
        let grace = Instant::now() + self.edge.limits.shutdown_grace;
        drop(self.listener);
        while let Ok(Some(_)) = timeout_at(grace, tasks.join_next()).await {}
        tasks.shutdown().await;
    }

    fn decay(&self) {
        if let Some(limiter) = &self.edge.limiter {
            limiter.decay(self.edge.mono());
        }
        self.registry.end_aged(Instant::now(), self.edge.limits.connection_age);
    }

    /// Tells of it, and makes room where that helps. How long to wait before the next try.
    fn accept_failed(&self, error: &io::Error) -> Duration {
        if let Some(repeated) = self.failures.note(&error.to_string(), self.edge.mono()) {
            tracing::warn!(event = "accept_failed", listener = "http", %error, repeated);
        }
        // Idle connections must not keep new ones out, as at a ceiling.
        let helped = is_out_of_descriptors(error) && self.registry.evict_idle(EVICTED_FOR_DESCRIPTORS) > 0;
        if helped { EVICTION_PAUSE } else { ACCEPT_PAUSE }
    }

    /// Finds a place for a connection and serves it in a task of its own.
    fn welcome(&self, stream: TcpStream, peer: SocketAddr, tasks: &mut JoinSet<()>, workers: &Workers) {
        let proxy = self.edge.is_proxy(peer.ip());
        let source = (!proxy).then(|| Source::of(peer.ip()));
        let connection = Arc::new(Connection::new(Instant::now()));
        let admission = match self.registry.admit(Arc::clone(&connection), source) {
            Ok(admission) => admission,
            Err(ceiling) => return self.refuse(stream, ceiling, tasks),
        };
        // Answers are written whole, so there is nothing to gather; without it small answers could wait for an ACK.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection lost before it was served");
            return;
        }
        let confidential = proxy || fold(peer).ip().is_loopback();
        let link = Link { connection, admission: Arc::new(admission), peer: peer.ip(), confidential };
        let edge = Arc::clone(&self.edge);
        let open = Arc::clone(&self.open);
        let Some(worker) = workers.least_busy() else {
            tasks.spawn(Entrant { stream, link, open }.serve(edge));
            return;
        };
        // The worker's own reactor has to watch the socket.
        let moved = stream.into_std();
        let busy = worker.busy();
        let serving = async move {
            match moved.and_then(TcpStream::from_std) {
                Ok(stream) => Entrant { stream, link, open }.serve(edge).await,
                Err(error) => tracing::debug!(%error, "connection lost before it was served"),
            }
            drop(busy);
        };
        tasks.spawn_on(serving, worker.handle());
    }

    /// Tells a client that there is no place for its connection. Under TLS that would cost a handshake, and a proxy has not
    /// said yet for whom it speaks: there it is closed without a word, and so it is while too many are being told.
    fn refuse(&self, stream: TcpStream, ceiling: Ceiling, tasks: &mut JoinSet<()>) {
        self.edge.metrics.refused(ceiling.reason());
        let turn = Arc::clone(&self.refusals).try_acquire_owned();
        if let (true, Ok(turn)) = (self.edge.is_direct(), turn) {
            let answer = self.edge.raw_answers.full(ceiling);
            tasks.spawn(async move {
                refuse(stream, answer).await;
                drop(turn);
            });
        }
    }
}

/// Whether the process, or the system, has no file descriptor left.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    #[cfg(unix)]
    let full = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    #[cfg(not(unix))]
    let full: [Option<i32>; 0] = [];
    error.raw_os_error().is_some() && full.contains(&error.raw_os_error())
}

/// Resolves once the listener's life has come to `at`.
async fn reached(phase: &mut watch::Receiver<Phase>, at: Phase) {
    // The sender lives in the server and its handles; when all are gone, so is everybody's interest.
    let _ = phase.wait_for(|phase| *phase >= at).await;
}

impl HttpHandle {
    /// The process is about to end: long polls answer, and every connection ends with its next answer. New connections
    /// are still accepted, for one request each. Nobody is reset; idle connections last until [`HttpHandle::shutdown`].
    pub fn begin_drain(&self) {
        self.service.end_long_polls();
        self.advance(Phase::Closing);
    }

    /// Stops accepting and lets [`HttpServer::run`] return.
    pub fn shutdown(&self) {
        self.service.end_long_polls();
        self.advance(Phase::Stopping);
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let forward = *phase < to;
            *phase = to.max(*phase);
            forward
        });
        match to {
            Phase::Serving => {}
            Phase::Closing => self.registry.end_all_with_next_answer(),
            Phase::Stopping => self.registry.close_all_when_idle(),
        }
    }

    /// Requests whose headers have arrived whole and whose answers were not handed over yet.
    pub fn open_requests(&self) -> usize {
        // A count that informs.
        self.open.load(Ordering::Relaxed)
    }

    /// Closes the longest idle connections, because the process is out of file descriptors. How many.
    pub fn free_descriptors(&self) -> usize {
        self.registry.evict_idle(EVICTED_FOR_DESCRIPTORS)
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.registry.open()
    }
}
