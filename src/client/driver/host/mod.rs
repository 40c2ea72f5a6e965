//! Keeps a game listed and meets its players.

mod calls;
mod news;

pub use news::{HostNews, PlayerNews};

use super::{Port, sleep_until, system_entropy};
use crate::client::core::{AttemptEvent, Entropy, HostCore, HostEvent, Lease, PresenceEvent, is_stun};
use crate::client::error::Error;
use crate::client::http::{Directory, Guest, LeaseView, PathKind, PendingAttempts, Registered, Registration, Renewed};
use crate::clock::{Clock, SystemClock};
use crate::credentials::peer_key;
use crate::domain::{AttemptId, ListingId, MonoTime};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinSet;

/// How long [`Host::close`] waits for the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What to host.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The listing.
    pub registration: Registration,
}

/// A finished call.
enum Done {
    Login(Result<Guest, Error>),
    Register(Result<(Registered, Vec<SocketAddr>), Error>),
    Renew(Result<Renewed, Error>),
    Ask(Result<LeaseView, Error>),
    Poll(ListingId, Result<PendingAttempts, Error>),
    Relays(Vec<SocketAddr>),
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
    /// Addresses of the operator's relays, once an attempt has named them: a player who comes from one was relayed.
    relays: Vec<IpAddr>,
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
            relays: Vec::new(),
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
            HostEvent::Offered { attempt } => HostNews::Player { attempt, news: PlayerNews::Offered },
            HostEvent::Attempt { attempt, event } => match self.player_news(attempt, event) {
                Some(news) => HostNews::Player { attempt, news },
                None => return,
            },
        };
        self.news.push_back(news);
    }

    fn player_news(&mut self, attempt: AttemptId, event: AttemptEvent) -> Option<PlayerNews> {
        match event {
            AttemptEvent::Bound { .. } | AttemptEvent::FamilyEnded { .. } => None,
            AttemptEvent::Introduced { peers } => Some(PlayerNews::Introduced { peers }),
            AttemptEvent::Connected(path) => {
                let relayed = self.relays.contains(&path.peer.ip());
                self.report(attempt, if relayed { PathKind::Relayed } else { PathKind::Direct });
                let peer_key = peer_key(&self.registered.as_ref()?.presence.password, attempt);
                Some(PlayerNews::Connected { path, peer_key })
            }
            AttemptEvent::NotIntroduced(refusal) => Some(PlayerNews::NotConnected { refusal: Some(refusal) }),
            AttemptEvent::PunchFailed => {
                self.report(attempt, PathKind::Failed);
                Some(PlayerNews::NotConnected { refusal: None })
            }
        }
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
}
