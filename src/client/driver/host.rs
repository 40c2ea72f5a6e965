//! Keeps a game listed and meets its players.

use super::port::Families;
use super::{Port, resolve, sleep_until, system_entropy};
use crate::client::core::{
    Action, AttemptEvent, BindRefusal, CallFailure, Entropy, HostCore, HostEvent, HostSetup, Lease, Path,
    PresenceEvent, is_stun,
};
use crate::client::error::{Code, Error};
use crate::client::http::{
    Directory, Guest, LeaseView, PathKind, PendingAttempts, Registered, Registration, Renewal, Renewed,
};
use crate::clock::{Clock, SystemClock};
use crate::credentials::{Secret, peer_key};
use crate::domain::{AttemptId, ListingId, MonoTime};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// One long poll; the server's bound is 30 s.
const POLL_WAIT: Duration = Duration::from_secs(25);
/// Pause after a long poll that failed, at least; as much again is added at random.
const POLL_PAUSE_MS: u64 = 1_000;
/// Until an attempt's deadline, as long as only HTTP has told of it: the default lifetime. Its bind learns the true one.
const LEFT_MS: u32 = 30_000;
/// How long [`Host::close`] waits for the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What to host.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The listing.
    pub registration: Registration,
}

/// What happened to the listing and its players.
#[derive(Debug)]
pub enum HostNews {
    /// A guest token was got.
    LoggedIn {
        /// The principal.
        principal: String,
    },
    /// Registered; joinable as soon as [`HostNews::Verified`] follows.
    Listed {
        /// What players need.
        listing: ListingId,
        /// True when an earlier listing was lost.
        again: bool,
    },
    /// The server has verified one family's address.
    Verified {
        /// Own address as the server sees it.
        mapped: SocketAddr,
    },
    /// No answer over UDP for five seconds; the game isn't joinable in this family until one comes.
    Unanswered {
        /// The server's address.
        server: SocketAddr,
    },
    /// The lease was renewed.
    Renewed {
        /// The new version.
        version: u64,
    },
    /// The listing has ended, by a restart, an expiry or a revocation. It will be registered again.
    Lost,
    /// The server is going down.
    Draining {
        /// When to come back.
        retry_after: Duration,
    },
    /// A call failed and will be repeated.
    Retrying {
        /// What failed.
        error: Error,
    },
    /// A player wants to join; binding has begun. At a gated listing, [`Host::admit`] decides.
    Offered {
        /// The attempt.
        attempt: AttemptId,
    },
    /// What the player sent along, known only from HTTP.
    Payload {
        /// The attempt.
        attempt: AttemptId,
        /// Opaque to everybody but the game.
        payload: String,
    },
    /// The punch has begun.
    Introduced {
        /// The attempt.
        attempt: AttemptId,
        /// The player's addresses.
        peers: Vec<SocketAddr>,
    },
    /// A player can be reached.
    Connected {
        /// The attempt.
        attempt: AttemptId,
        /// The way.
        path: Path,
        /// Both sides have it and nobody else; a game can derive its own keys from it.
        peer_key: Secret,
    },
    /// A player couldn't be reached.
    NotConnected {
        /// The attempt.
        attempt: AttemptId,
        /// Why there was no introduction; `None` when the punch failed.
        refusal: Option<BindRefusal>,
    },
    /// A datagram of the game.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// All of it.
        bytes: Vec<u8>,
    },
    /// The listing can't be kept, and trying again won't help. Nothing follows.
    Stopped(Error),
}

/// A finished call.
enum Done {
    Login(Result<Guest, Error>),
    Register(Result<(Registered, Vec<SocketAddr>), Error>),
    Renew(Result<Renewed, Error>),
    Ask(Result<LeaseView, Error>),
    Poll(ListingId, Result<PendingAttempts, Error>),
    Told,
}

/// A hosted game. Await [`Host::next`] in a loop: it does the work.
#[derive(Debug)]
pub struct Host {
    directory: Directory,
    fixed_token: bool,
    options: HostOptions,
    port: Port,
    clock: SystemClock,
    lease: Lease,
    core: Option<HostCore>,
    registered: Option<Registered>,
    listed_before: bool,
    jobs: JoinSet<Done>,
    /// At most what one datagram or one call gives; drained before more is taken in.
    news: VecDeque<HostNews>,
    /// Commit up to which pending attempts are known.
    polled: u64,
    entropy: Entropy,
}

impl Host {
    /// Hosts under `directory`; when it carries no token, as a guest.
    pub fn new(directory: Directory, port: Port, options: HostOptions) -> Result<Self, Error> {
        let clock = SystemClock::new();
        let mut entropy = system_entropy()?;
        Ok(Self {
            fixed_token: directory.has_token(),
            directory,
            options,
            port,
            lease: Lease::new(entropy.fork(), clock.mono()),
            clock,
            core: None,
            registered: None,
            listed_before: false,
            jobs: JoinSet::new(),
            news: VecDeque::new(),
            polled: 0,
            entropy,
        })
    }

    /// The listing, when there is one.
    pub fn listing(&self) -> Option<ListingId> {
        self.registered.as_ref().map(|registered| registered.listing_id)
    }

    /// Sends a datagram of the game from the listed socket.
    pub async fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.port.send(to, bytes).await;
    }

    /// The sockets.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Answers a gated attempt; a refusal also works for any other.
    pub fn admit(&mut self, attempt: AttemptId, admit: bool) {
        let Some(token) = self.registered.as_ref().map(|registered| registered.lease_token.clone()) else { return };
        let directory = self.directory.clone();
        self.jobs.spawn(async move {
            // A call that fails leaves the attempt waiting, and its deadline ends it.
            let answer = if admit {
                directory.admit(attempt, &token, true).await
            } else {
                directory.close_attempt(attempt).await
            };
            if let Err(error) = answer {
                tracing::info!(%attempt, %error, "the attempt was not answered");
            }
            Done::Told
        });
    }

    /// The next thing that happened. Cancel safe.
    pub async fn next(&mut self) -> HostNews {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let now = self.clock.mono();
            while let Some(action) = self.lease.poll_action(now) {
                self.call(action, now);
            }
            self.run_core(now).await;
            if !self.news.is_empty() {
                continue;
            }
            let due = [self.lease.poll_timeout(), self.core.as_ref().and_then(HostCore::poll_timeout)];
            let due = due.into_iter().flatten().min();
            tokio::select! {
                (datagram, from) = self.port.receive() => {
                    let now = self.clock.mono();
                    if !is_stun(datagram) {
                        self.news.push_back(HostNews::Datagram { from, bytes: datagram.to_vec() });
                    } else if let Some(core) = &mut self.core {
                        core.handle_input(datagram, from, now);
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

    /// Takes the listing down, so that nobody tries to join a game that has gone.
    pub async fn close(self) -> Result<(), Error> {
        let Some(registered) = &self.registered else { return Ok(()) };
        let call = self.directory.delete(registered.listing_id, &registered.lease_token);
        let timeout = Error::Timeout { server: self.directory.authority().to_owned(), after: CLOSE_TIMEOUT };
        tokio::time::timeout(CLOSE_TIMEOUT, call).await.unwrap_or(Err(timeout))
    }

    async fn run_core(&mut self, now: MonoTime) {
        let Some(core) = &mut self.core else { return };
        if core.poll_timeout().is_some_and(|due| due.is_past(now)) {
            core.handle_timeout(now);
        }
        while let Some(transmit) = core.poll_transmit() {
            self.port.transmit(&transmit).await;
        }
        while let Some(event) = self.core.as_mut().and_then(HostCore::poll_event) {
            self.tell(event, now);
        }
    }

    fn tell(&mut self, event: HostEvent, now: MonoTime) {
        let news = match event {
            HostEvent::Presence { server, event } => match event {
                PresenceEvent::Verified { mapped } => HostNews::Verified { mapped },
                PresenceEvent::Unanswered => HostNews::Unanswered { server },
                PresenceEvent::InstanceSeen(instance) => return self.lease.instance_seen(instance, now),
                PresenceEvent::Gone => return self.lease.doubt(now),
                PresenceEvent::Offer { .. } => return,
                PresenceEvent::Draining { retry_after_ms } => {
                    let retry_after = Duration::from_millis(retry_after_ms.into());
                    self.lease.draining(retry_after, now);
                    HostNews::Draining { retry_after }
                }
            },
            HostEvent::Offered { attempt } => HostNews::Offered { attempt },
            HostEvent::Attempt { attempt, event } => match event {
                AttemptEvent::Bound { .. } | AttemptEvent::FamilyEnded { .. } => return,
                AttemptEvent::Introduced { peers } => HostNews::Introduced { attempt, peers },
                AttemptEvent::Connected(path) => {
                    self.report(attempt, PathKind::Direct);
                    let Some(registered) = &self.registered else { return };
                    let peer_key = peer_key(&registered.presence.password, attempt);
                    HostNews::Connected { attempt, path, peer_key }
                }
                AttemptEvent::NotIntroduced(refusal) => HostNews::NotConnected { attempt, refusal: Some(refusal) },
                AttemptEvent::PunchFailed => {
                    self.report(attempt, PathKind::Failed);
                    HostNews::NotConnected { attempt, refusal: None }
                }
            },
        };
        self.news.push_back(news);
    }

    fn report(&mut self, attempt: AttemptId, path: PathKind) {
        let directory = self.directory.clone();
        self.jobs.spawn(async move {
            if let Err(error) = directory.report(attempt, path).await {
                tracing::debug!(%attempt, %error, "outcome not reported");
            }
            Done::Told
        });
    }

    fn call(&mut self, action: Action, now: MonoTime) {
        let directory = self.directory.clone();
        match action {
            Action::Login if self.fixed_token => self.lease.logged_in(now),
            Action::Login => {
                self.jobs.spawn(async move { Done::Login(directory.guest().await) });
            }
            Action::Register => {
                let registration = self.options.registration.clone();
                let key = self.lease.idempotency_key().to_owned();
                let families = self.port.families();
                self.jobs
                    .spawn(async move { Done::Register(register(&directory, &registration, &key, families).await) });
            }
            Action::Renew { version } => {
                let Some(registered) = &self.registered else { return };
                let (listing, token) = (registered.listing_id, registered.lease_token.clone());
                self.jobs.spawn(async move {
                    Done::Renew(directory.renew(listing, &token, version, &Renewal::default()).await)
                });
            }
            Action::Ask => {
                let Some(registered) = &self.registered else { return };
                let (listing, token) = (registered.listing_id, registered.lease_token.clone());
                self.jobs.spawn(async move { Done::Ask(directory.lease(listing, &token).await) });
            }
        }
    }

    fn finish(&mut self, done: Done) {
        let now = self.clock.mono();
        match done {
            Done::Login(Ok(guest)) => {
                let again = self.directory.has_token();
                self.directory = self.directory.clone().with_token(guest.token);
                self.lease.logged_in(now);
                if !again || self.registered.is_none() {
                    self.news.push_back(HostNews::LoggedIn { principal: guest.principal });
                }
            }
            Done::Register(Ok((registered, servers))) => self.listed(registered, servers, now),
            Done::Renew(Ok(renewed)) => {
                self.lease.renewed(renewed.version, renewed.ttl_ms, now);
                self.news.push_back(HostNews::Renewed { version: renewed.version });
            }
            Done::Ask(Ok(view)) => self.lease.alive(view.version, view.instance),
            Done::Login(Err(error)) | Done::Register(Err(error)) | Done::Renew(Err(error)) | Done::Ask(Err(error)) => {
                self.fail(error, now);
            }
            Done::Poll(listing, answer) if self.listing() == Some(listing) => self.polled(answer, now),
            Done::Poll(..) | Done::Told => {}
        }
    }

    fn listed(&mut self, registered: Registered, servers: Vec<SocketAddr>, now: MonoTime) {
        let setup = HostSetup {
            listing: registered.listing_id,
            username: registered.presence.username.clone(),
            password: registered.presence.password.clone(),
            interval_ms: registered.presence.interval_ms,
            servers,
        };
        let mut core = HostCore::new(setup, self.entropy.fork(), now);
        if let Some(earlier) = self.core.take() {
            core.adopt(earlier);
        }
        self.core = Some(core);
        self.lease.registered(registered.version, registered.ttl_ms, registered.instance, now);
        let news = HostNews::Listed { listing: registered.listing_id, again: self.listed_before };
        self.news.push_back(news);
        self.listed_before = true;
        self.polled = 0;
        self.registered = Some(registered);
        self.poll(0);
    }

    fn fail(&mut self, error: Error, now: MonoTime) {
        let failure = classify(&error, self.fixed_token);
        self.lease.failed(failure, now);
        match failure {
            CallFailure::Fatal => {
                self.registered = None;
                self.core = None;
                self.news.push_back(HostNews::Stopped(error));
            }
            CallFailure::NotFound | CallFailure::TokenRefused | CallFailure::KeyUsed => {
                if failure == CallFailure::TokenRefused {
                    self.directory = self.directory.clone().without_token();
                }
                if self.registered.take().is_some() {
                    self.news.push_back(HostNews::Lost);
                }
            }
            CallFailure::Transient { .. } => self.news.push_back(HostNews::Retrying { error }),
            CallFailure::Stale { .. } => {}
        }
    }

    /// Starts the next long poll, after a pause.
    fn poll(&mut self, pause_ms: u64) {
        let Some(registered) = &self.registered else { return };
        let (listing, token) = (registered.listing_id, registered.lease_token.clone());
        let (directory, after) = (self.directory.clone(), self.polled);
        self.jobs.spawn(async move {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            Done::Poll(listing, directory.pending(listing, &token, after, POLL_WAIT).await)
        });
    }

    fn polled(&mut self, answer: Result<PendingAttempts, Error>, now: MonoTime) {
        let pause_ms = POLL_PAUSE_MS + self.entropy.between(0, POLL_PAUSE_MS);
        match answer {
            Ok(pending) => {
                self.polled = self.polled.max(pending.commit);
                for attempt in pending.attempts {
                    if let Some(core) = &mut self.core {
                        core.offer(attempt.attempt_id, LEFT_MS, now);
                    }
                    if let Some(payload) = attempt.joiner_payload {
                        self.news.push_back(HostNews::Payload { attempt: attempt.attempt_id, payload });
                    }
                }
                if pending.ended {
                    self.lease.doubt(now);
                }
                self.poll(if pending.ended { pause_ms } else { 0 });
            }
            Err(error) => {
                if matches!(error.code(), Some(Code::NotFound | Code::Unauthenticated)) {
                    self.lease.doubt(now);
                }
                tracing::debug!(%error, "long poll failed");
                let asked_ms = error.problem().and_then(|problem| problem.retry_after).unwrap_or_default().as_millis();
                self.poll(pause_ms.max(u64::try_from(asked_ms).unwrap_or(u64::MAX)));
            }
        }
    }
}

/// Registers, and finds the server's UDP addresses.
async fn register(
    directory: &Directory,
    registration: &Registration,
    key: &str,
    families: Families,
) -> Result<(Registered, Vec<SocketAddr>), Error> {
    let registered = directory.register(registration, key).await?;
    let servers = resolve::servers(&registered.presence.stun, directory.authority(), families).await?;
    Ok((registered, servers))
}

fn classify(error: &Error, fixed_token: bool) -> CallFailure {
    match error {
        Error::Unreachable { .. } | Error::Timeout { .. } | Error::Malformed { .. } => {
            // A proxy in front of a server that restarts answers with its own pages.
            CallFailure::Transient { retry_after: None }
        }
        Error::ServerUrl { .. } | Error::NoUdp { .. } | Error::Socket(_) => CallFailure::Fatal,
        Error::Refused(problem) => match &problem.code {
            Code::NotFound => CallFailure::NotFound,
            Code::Expired | Code::ReplayRejected => CallFailure::KeyUsed,
            Code::Conflict => match problem.current_version {
                Some(current_version) => CallFailure::Stale { current_version },
                None => CallFailure::KeyUsed,
            },
            Code::Unauthenticated if fixed_token => CallFailure::Fatal,
            Code::Unauthenticated => CallFailure::TokenRefused,
            Code::CapacityExceeded
            | Code::Draining
            | Code::ServiceUnavailable
            | Code::NotReady
            | Code::Cancelled
            | Code::RequestTimeout
            | Code::RateLimited
            | Code::Internal => CallFailure::Transient { retry_after: problem.retry_after },
            Code::Unrecognised(_) if problem.status >= 500 => {
                CallFailure::Transient { retry_after: problem.retry_after }
            }
            Code::Revoked
            | Code::Invalid
            | Code::Forbidden
            | Code::RouteNotFound
            | Code::MethodNotAllowed
            | Code::PayloadTooLarge
            | Code::UnsupportedMediaType
            | Code::PreconditionRequired
            | Code::HeadersTooLarge
            | Code::Unrecognised(_) => CallFailure::Fatal,
        },
    }
}
