//! Joins a game.

mod attempts;
mod detour;
mod failure;

pub use failure::{JoinFailure, Step};

use self::attempts::{ATTEMPTS_MAX, create, setup};
use self::detour::{DETOUR_AFTER_MS, DetourState};
use super::{Port, resolve, sleep_until, system_entropy};
use crate::client::core::{Attempt, AttemptEvent, BindRefusal, Entropy, Path, is_stun};
use crate::client::error::Error;
use crate::client::http::{AttemptView, Directory, JoinRequest, JoinTicket, PathKind};
use crate::client::relay::Relayed;
use crate::clock::{Clock, SystemClock};
use crate::credentials::Secret;
use crate::domain::{AttemptId, ListingId, MonoTime};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// Why an attempt ended whose joiner the server never saw.
const NEVER_BOUND: &str = "joiner_never_bound";
/// One long poll; the server's bound is 30 s.
const POLL_WAIT: Duration = Duration::from_secs(25);
/// Pause after a long poll that failed.
const POLL_PAUSE: Duration = Duration::from_secs(1);

/// What happened to the attempt.
#[derive(Debug)]
pub enum JoinNews {
    /// The server sees this side.
    Bound {
        /// Own address.
        mapped: SocketAddr,
    },
    /// One family can't be bound; another one may.
    FamilyEnded {
        /// The server's address.
        server: SocketAddr,
        /// Why.
        refusal: BindRefusal,
    },
    /// The punch has begun.
    Introduced {
        /// The host's addresses.
        peers: Vec<SocketAddr>,
    },
    /// The punch takes long, so a relay is asked beside it.
    Relaying {
        /// The relay.
        relay: SocketAddr,
    },
    /// The host can be reached: send the game's datagrams there, with [`Join::send`]. [`Join::path_kind`] says by which way.
    Connected(Path),
    /// It won't work. Nothing but datagrams follows.
    Failed(JoinFailure),
    /// A datagram of the game.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// All of it.
        bytes: Vec<u8>,
    },
}

/// A finished job.
enum Done {
    Seen(AttemptId, Result<AttemptView, Error>),
    Relays(Vec<SocketAddr>),
    /// Another attempt, after one that ended so.
    Again(Result<JoinTicket, Error>, JoinFailure),
    /// The attempt by relay.
    Detour(Result<JoinTicket, Error>),
    Told,
}

/// One join. Await [`Join::connect`], then go on awaiting [`Join::next`]: the host may need answers for a moment longer.
#[derive(Debug)]
pub struct Join {
    directory: Directory,
    port: Port,
    clock: SystemClock,
    entropy: Entropy,
    listing: ListingId,
    request: JoinRequest,
    servers: Vec<SocketAddr>,
    attempts_left: u32,
    attempt: Attempt,
    peer_key: Secret,
    bound: bool,
    tried: Vec<SocketAddr>,
    /// Another attempt is being made.
    renewing: bool,
    punch_failed: bool,
    detour: DetourState,
    detour_at: Option<MonoTime>,
    over: bool,
    kind: PathKind,
    jobs: JoinSet<Done>,
    /// At most what one datagram or one call gives; drained before more is taken in.
    news: VecDeque<JoinNews>,
}

impl Join {
    /// Creates the attempt and begins to bind. The directory needs a token.
    pub async fn start(
        directory: Directory,
        port: Port,
        listing: ListingId,
        request: &JoinRequest,
    ) -> Result<Self, Error> {
        let mut entropy = system_entropy()?;
        let ticket = create(&directory, listing, request, &mut entropy).await?;
        let servers = resolve::servers(&ticket.stun, directory.authority(), port.families()).await?;
        let clock = SystemClock::new();
        let now = clock.mono();
        let (peer_key, turn) = (ticket.peer_key.clone(), ticket.turn.clone());
        let setup = setup(ticket, servers.clone(), now);
        let detour = if turn.is_empty() { DetourState::None } else { DetourState::Spare(turn) };
        let mut join = Self {
            directory,
            port,
            clock,
            attempt: Attempt::new(setup, entropy.fork(), now),
            entropy,
            listing,
            request: request.clone(),
            servers,
            attempts_left: ATTEMPTS_MAX - 1,
            peer_key,
            bound: false,
            tried: Vec::new(),
            renewing: false,
            punch_failed: false,
            detour,
            detour_at: None,
            over: false,
            kind: PathKind::Failed,
            jobs: JoinSet::new(),
            news: VecDeque::new(),
        };
        join.watch(0, Duration::ZERO);
        Ok(join)
    }

    /// The attempt; another one once the host was reached by a relay.
    pub fn attempt(&self) -> AttemptId {
        self.detour_attempt().map_or(self.attempt.id(), |(attempt, _)| attempt)
    }

    /// Both sides of the attempt have it and nobody else; a game can derive its own keys from it.
    pub fn peer_key(&self) -> &Secret {
        self.detour_attempt().map_or(&self.peer_key, |(_, key)| key)
    }

    /// How the host was reached; [`PathKind::Failed`] as long as it was not.
    pub fn path_kind(&self) -> PathKind {
        self.kind
    }

    /// The sockets.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Sends a datagram of the game, by the relay when that is the way.
    pub async fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        let now = self.clock.mono();
        let Some(relay) = self.relay_in_use() else { return self.port.send(to, bytes).await };
        relay.send(to, bytes, now);
        while let Some(transmit) = self.relay_in_use().and_then(|relay| relay.poll_transmit()) {
            self.port.transmit(&transmit).await;
        }
    }

    /// Works until the host is reached or can't be. The game's datagrams that come meanwhile are dropped.
    pub async fn connect(&mut self) -> Result<Path, JoinFailure> {
        loop {
            match self.next().await {
                JoinNews::Connected(path) => return Ok(path),
                JoinNews::Failed(failure) => return Err(failure),
                JoinNews::Bound { .. }
                | JoinNews::FamilyEnded { .. }
                | JoinNews::Introduced { .. }
                | JoinNews::Relaying { .. }
                | JoinNews::Datagram { .. } => {}
            }
        }
    }

    /// The next thing that happened. Cancel safe.
    pub async fn next(&mut self) -> JoinNews {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let now = self.clock.mono();
            self.run_attempt(now).await;
            self.run_detour(now).await;
            if !self.news.is_empty() {
                continue;
            }
            let due = [self.attempt.poll_timeout(), self.detour_at, self.detour.poll_timeout()];
            let due = due.into_iter().flatten().min();
            tokio::select! {
                (datagram, from) = self.port.receive() => {
                    let now = self.clock.mono();
                    match self.detour.handle_input(datagram, from, now) {
                        Relayed::Data { from, bytes } => self.news.push_back(JoinNews::Datagram { from, bytes }),
                        Relayed::Taken => {}
                        Relayed::Foreign if is_stun(datagram) => {
                            self.attempt.handle_input(datagram, from, now);
                        }
                        Relayed::Foreign => {
                            self.news.push_back(JoinNews::Datagram { from, bytes: datagram.to_vec() });
                        }
                    }
                }
                Some(done) = self.jobs.join_next() => {
                    if let Ok(done) = done {
                        self.finish(done);
                    }
                }
                () = sleep_until(&self.clock, due) => {}
            }
        }
    }

    /// Tells the server how it went, for its metrics. Best effort.
    pub async fn report(&self, path: PathKind) -> Result<(), Error> {
        self.directory.report(self.attempt(), path).await
    }

    /// Gives up early, so that the host needn't wait.
    pub async fn abandon(&self) -> Result<(), Error> {
        self.directory.close_attempt(self.attempt()).await
    }

    async fn run_attempt(&mut self, now: MonoTime) {
        if self.attempt.poll_timeout().is_some_and(|due| due.is_past(now)) {
            self.attempt.handle_timeout(now);
        }
        while let Some(transmit) = self.attempt.poll_transmit() {
            self.port.transmit(&transmit).await;
        }
        while let Some(event) = self.attempt.poll_event() {
            self.tell(event, now);
        }
        if self.over && self.kind == PathKind::Direct {
            self.drop_detour(now).await;
        }
    }

    fn tell(&mut self, event: AttemptEvent, now: MonoTime) {
        let news = match event {
            AttemptEvent::Bound { mapped } => {
                self.bound = true;
                JoinNews::Bound { mapped }
            }
            AttemptEvent::FamilyEnded { server, refusal } => JoinNews::FamilyEnded { server, refusal },
            AttemptEvent::Introduced { peers } => {
                self.tried.extend(&peers);
                if matches!(self.detour, DetourState::Spare(_)) && self.detour_at.is_none() {
                    self.detour_at = Some(now.plus_ms(DETOUR_AFTER_MS));
                }
                JoinNews::Introduced { peers }
            }
            AttemptEvent::PunchFailed => return self.punch_failed(),
            // The other way was faster, and the game uses that.
            AttemptEvent::Connected(_) | AttemptEvent::NotIntroduced(_) if self.over => return,
            AttemptEvent::Connected(path) => {
                (self.over, self.kind) = (true, PathKind::Direct);
                JoinNews::Connected(path)
            }
            AttemptEvent::NotIntroduced(refusal) => {
                let unbound = !self.bound && refusal.is_about_address();
                let failure =
                    if unbound { JoinFailure::NotBound(refusal) } else { JoinFailure::NotIntroduced(refusal) };
                return self.ended(failure, refusal == BindRefusal::Gone);
            }
        };
        self.news.push_back(news);
    }

    fn finish(&mut self, done: Done) {
        let now = self.clock.mono();
        match done {
            Done::Seen(attempt, state) if attempt == self.attempt.id() => self.seen(state),
            Done::Seen(..) => {}
            Done::Relays(found) => self.relays_found(found, now),
            Done::Again(ticket, failure) => self.ticket_again(ticket, failure, now),
            Done::Detour(ticket) => self.ticket_for_detour(ticket, now),
            Done::Told => {}
        }
    }

    /// Watches the attempt over HTTP: only there a refusal comes with its reason.
    fn watch(&mut self, after: u64, pause: Duration) {
        let (directory, attempt) = (self.directory.clone(), self.attempt.id());
        self.jobs.spawn(async move {
            tokio::time::sleep(pause).await;
            Done::Seen(attempt, directory.attempt_state(attempt, after, POLL_WAIT).await)
        });
    }

    fn seen(&mut self, state: Result<AttemptView, Error>) {
        if self.over || !self.tried.is_empty() {
            return;
        }
        match state {
            Ok(view) if view.is_over() => {
                let gone = view.reason.as_deref() == Some(NEVER_BOUND);
                self.ended(JoinFailure::Ended { state: view.state, reason: view.reason }, gone);
            }
            // Introduced: what follows comes over UDP.
            Ok(view) if view.state == "introduced" => {}
            Ok(view) => self.watch(view.commit, Duration::ZERO),
            Err(_) => self.watch(0, POLL_PAUSE),
        }
    }
}
