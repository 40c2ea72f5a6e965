//! Before the load: tokens, listings and their presence, so that there is something to browse, renew and join.

use super::http::Connection;
use super::mix::Kind;
use super::player::{Identity, Parts, Player, Ports};
use super::tally::Outcome;
use super::target::{Target, TargetError};
use super::udp::Port;
use super::{Commands, Options, clean_up};
use crate::client::Error;
use crate::client::core::Entropy;
use crate::client::http::Directory;
use crate::clock::SharedClock;
use crate::credentials::Secret;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Refusals in a row that are waited out, by creations that are limited in rate.
const REFUSALS_MAX: u32 = 20;
/// Wait after a refusal that doesn't say how long.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait that a refusal can ask for.
const REFUSAL_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why nothing was measured.
#[derive(Debug)]
pub(crate) enum PrepareError {
    /// The target may not be used.
    Target(TargetError),
    /// A call of the client library failed.
    Call(Error),
    /// A request of the generator's own connection failed.
    Step {
        /// Which.
        step: &'static str,
        /// What became of it.
        outcome: Outcome,
    },
    /// The mix needs UDP, and the server names no STUN address.
    NoUdp,
    /// Sockets, threads or entropy.
    Local(io::Error),
    /// Stopped by a signal before the load began.
    Stopped,
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
            Self::Step { step, outcome } => match outcome {
                Outcome::Refused(code) => write!(f, "{step}: the server refused with {code}"),
                Outcome::TimedOut => write!(f, "{step}: no answer in time"),
                Outcome::Broken => write!(f, "{step}: the connection could not be made or broke"),
                Outcome::Done | Outcome::NotModified | Outcome::Unexpected => {
                    write!(f, "{step}: the answer isn't what the contract says")
                }
            },
            Self::NoUdp => f.write_str("this mix needs UDP, and the server names no STUN address"),
            Self::Local(error) => write!(f, "this machine: {error}"),
            Self::Stopped => f.write_str("stopped before the load began"),
        }
    }
}

impl std::error::Error for PrepareError {}

impl From<TargetError> for PrepareError {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

/// What all workers are made from.
#[derive(Clone)]
struct Maker {
    directory: Directory,
    target: Target,
    clock: SharedClock,
    base: String,
    token: Option<Secret>,
    timeout: Duration,
    needs_udp: bool,
    commands: Option<Commands>,
    stopped: Arc<AtomicBool>,
}

/// One worker per connection, the listings spread over them. Deletes what was registered when that fails.
pub(super) async fn players(
    options: &Options,
    directory: &Directory,
    target: &Target,
    clock: &SharedClock,
    mut stop: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Result<Vec<Player>, PrepareError> {
    let maker = Maker {
        directory: directory.clone(),
        target: target.clone(),
        clock: clock.clone(),
        base: base(options),
        token: options.token.clone(),
        timeout: options.timeout,
        needs_udp: options.mix.has(Kind::Presence) || options.mix.has(Kind::Join),
        commands: options.commands.clone(),
        stopped: Arc::new(AtomicBool::new(false)),
    };
    let mut making = JoinSet::new();
    for number in 0..options.connections {
        let listings =
            options.listings / options.connections + usize::from(number < options.listings % options.connections);
        making.spawn(maker.clone().make(listings));
    }
    let (mut made, mut failure) = (Vec::new(), None);
    loop {
        let joined = tokio::select! {
            joined = making.join_next() => joined,
            () = &mut stop, if failure.is_none() => {
                failure = Some(PrepareError::Stopped);
                // A flag that tells nothing else.
                maker.stopped.store(true, Ordering::Relaxed);
                continue;
            }
        };
        match joined {
            Some(Ok((player, Ok(())))) => made.extend(player),
            Some(Ok((player, Err(error)))) => {
                made.extend(player);
                maker.stopped.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
            Some(Err(panicked)) => {
                failure.get_or_insert(PrepareError::Local(io::Error::other(panicked)));
            }
            None => break,
        }
    }
    match failure {
        None => Ok(made),
        Some(error) => {
            clean_up(options, made).await;
            Err(error)
        }
    }
}

/// `/v1/tenants/<tenant>` below the server's own path.
fn base(options: &Options) -> String {
    let path = options.server.parse::<hyper::Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
    format!("{}/v1/tenants/{}", path.unwrap_or_default(), options.tenant)
}

impl Maker {
    /// A worker with what it could get, and why that is not all.
    async fn make(self, listings: usize) -> (Option<Player>, Result<(), PrepareError>) {
        match self.player(listings).await {
            Ok(mut player) => {
                let filled = self.fill(&mut player, listings).await;
                (Some(player), filled)
            }
            Err(error) => (None, Err(error)),
        }
    }

    async fn player(&self, leases_max: usize) -> Result<Player, PrepareError> {
        let identity = match &self.token {
            Some(token) => Identity { host: token.clone(), joiner: token.clone() },
            None => Identity { host: self.guest().await?, joiner: self.guest().await? },
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| PrepareError::Local(io::Error::other(error)))?;
        Ok(Player::new(Parts {
            connection: Connection::new(self.target.http, self.directory.authority().to_owned(), self.timeout),
            ports: None,
            identity,
            base: self.base.clone(),
            leases_max,
            clock: self.clock.clone(),
            entropy: Entropy::new(seed),
        }))
    }

    async fn fill(&self, player: &mut Player, listings: usize) -> Result<(), PrepareError> {
        if let Some(commands) = &self.commands {
            return self.fill_sessions(player, listings, &commands.profile).await;
        }
        for _ in 0..listings {
            self.register(player).await?;
            if player.ports.is_none() {
                player.ports = self.ports(&player.stun).await?;
            }
            if player.ports.is_some() {
                let position = player.leases.len() - 1;
                let step = |outcome| PrepareError::Step { step: "a first presence", outcome };
                player.presence(position).await.map_err(step)?;
            } else if self.needs_udp {
                return Err(PrepareError::NoUdp);
            }
        }
        Ok(())
    }

    async fn fill_sessions(&self, player: &mut Player, sessions: usize, profile: &str) -> Result<(), PrepareError> {
        for _ in 0..sessions {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(PrepareError::Stopped);
            }
            let step = |outcome| PrepareError::Step { step: "asking for a session", outcome };
            player.create_session(profile).await.map_err(step)?;
        }
        Ok(())
    }

    /// Where the server limits the rate of creations, this takes as long as it has to.
    async fn register(&self, player: &mut Player) -> Result<(), PrepareError> {
        for _ in 0..REFUSALS_MAX {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(PrepareError::Stopped);
            }
            match player.register().await {
                Ok(_) => return Ok(()),
                Err(Outcome::Refused(code)) if code == "rate_limited" => tokio::time::sleep(REFUSAL_PAUSE).await,
                Err(outcome) => return Err(PrepareError::Step { step: "registering", outcome }),
            }
        }
        let outcome = Outcome::Refused("rate_limited".to_owned());
        Err(PrepareError::Step { step: "registering", outcome })
    }

    async fn guest(&self) -> Result<Secret, PrepareError> {
        let mut last = None;
        for _ in 0..REFUSALS_MAX {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(PrepareError::Stopped);
            }
            match self.directory.guest().await {
                Ok(guest) => return Ok(guest.token),
                Err(error) => {
                    let Some(pause) = error.problem().and_then(|problem| problem.retry_after) else {
                        return Err(PrepareError::Call(error));
                    };
                    last = Some(error);
                    tokio::time::sleep(pause.clamp(Duration::from_millis(1), REFUSAL_PAUSE_MAX)).await;
                }
            }
        }
        Err(last.map_or(PrepareError::Stopped, PrepareError::Call))
    }

    async fn ports(&self, stun: &[String]) -> Result<Option<Ports>, PrepareError> {
        let Some(address) = self.target.stun(stun).await? else { return Ok(None) };
        let open = || Port::open(address, self.clock.clone(), self.timeout);
        let (host, joiner) = tokio::try_join!(open(), open()).map_err(PrepareError::Local)?;
        Ok(Some(Ports { host, joiner }))
    }
}
