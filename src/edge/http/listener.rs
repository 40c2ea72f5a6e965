//! The accept loop, and the end of it.

use super::call::Link;
use super::connection::{Connection, Registry};
use super::edge::Edge;
use super::express::Express;
use super::io::{Deadlines, GuardedIo};
use super::settings::HttpSettings;
use super::tracked::OpenRequest;
use super::workers::Workers;
use crate::domain::Source;
use crate::service::Service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry as MetricsRegistry;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

/// Bytes that hyper holds of one connection's requests; a head that does not fit is refused with 431.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// How often token buckets are looked through for full ones.
const DECAY_EVERY: Duration = Duration::from_secs(5);
/// Pause after a failed accept: the process is out of descriptors, and trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
        let edge = Arc::new(Edge::new(settings, service));
        let phase = watch::Sender::new(Phase::Serving);
        Ok(Self { listener, edge, registry, phase, open: Arc::default(), workers })
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
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        sleep(ACCEPT_PAUSE).await;
                    }
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
    }

    /// Finds a place for a connection and serves it in a task of its own. Without a place it is closed unanswered.
    fn welcome(&self, stream: TcpStream, peer: SocketAddr, tasks: &mut JoinSet<()>, workers: &Workers) {
        let proxy = self.edge.trusted_proxies.iter().any(|range| range.contains(peer.ip()));
        let source = (!proxy).then(|| Source::of(peer.ip()));
        let connection = Arc::new(Connection::new(Instant::now()));
        let Some(admission) = self.registry.admit(Arc::clone(&connection), source) else {
            self.edge.metrics.refused("ceiling");
            return;
        };
        // Answers are written whole, so there is nothing to gather; without it small answers could wait for an ACK.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection lost before it was served");
            return;
        }
        let link = Link { connection, admission: Arc::new(admission), peer: peer.ip() };
        let edge = Arc::clone(&self.edge);
        let open = Arc::clone(&self.open);
        let Some(worker) = workers.least_busy() else {
            tasks.spawn(serve(stream, edge, link, open));
            return;
        };
        // The worker's own reactor has to watch the socket.
        let moved = stream.into_std();
        let busy = worker.busy();
        let serving = async move {
            match moved.and_then(TcpStream::from_std) {
                Ok(stream) => serve(stream, edge, link, open).await,
                Err(error) => tracing::debug!(%error, "connection lost before it was served"),
            }
            drop(busy);
        };
        tasks.spawn_on(serving, worker.handle());
    }
}

/// Resolves once the listener's life has come to `at`.
async fn reached(phase: &mut watch::Receiver<Phase>, at: Phase) {
    // The sender lives in the server and its handles; when all are gone, so is everybody's interest.
    let _ = phase.wait_for(|phase| *phase >= at).await;
}

/// Serves one connection until either side ends it.
async fn serve(stream: TcpStream, edge: Arc<Edge>, link: Link, open: Arc<AtomicUsize>) {
    let express = Express::new(Arc::clone(&edge), link.peer);
    serve_on(stream, edge, link, open, express).await;
}

/// The same on any stream; without `express` every request goes the long way.
pub(super) async fn serve_on<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    edge: Arc<Edge>,
    link: Link,
    open: Arc<AtomicUsize>,
    express: Option<Express>,
) {
    let _counted = edge.metrics.connection();
    let limits = &edge.limits;
    let deadlines = Deadlines { head: limits.header_timeout, idle: limits.idle_timeout, write: limits.write_timeout };
    let io = GuardedIo::new(stream, deadlines, Arc::clone(&link.connection), Arc::clone(&edge.raw_answers));
    let io = io.with_express(express);
    let service = service_fn(|request| {
        let (edge, link) = (&edge, &link);
        let begun = OpenRequest::begin(&link.connection, &open);
        async move {
            match begun {
                Some(open) => Ok::<_, Infallible>(edge.respond(request, link, open).await),
                // Chosen to make room a moment ago: the task ends here.
                None => std::future::pending().await,
            }
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // The I/O has deadlines of its own: hyper's single one would end idle connections too.
        .header_read_timeout(None)
        .max_buf_size(READ_BUFFER_BYTES)
        .serve_connection(TokioIo::new(io), service);
    let mut served = pin!(served);
    let (mut woken_by, mut closing) = (None::<Waker>, false);
    let ended = poll_fn(|cx| {
        if !woken_by.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            link.connection.wake_by(cx.waker());
            woken_by = Some(cx.waker().clone());
        }
        if link.connection.is_evicted() {
            edge.metrics.refused("evicted");
            return Poll::Ready(Ok(()));
        }
        if !closing && link.connection.closes_when_idle() {
            closing = true;
            served.as_mut().graceful_shutdown();
        }
        served.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
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

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.registry.open()
    }
}
