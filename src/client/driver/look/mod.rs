//! Gathers what [`judge`](crate::client::diagnosis::judge) judges: one look at a server from this machine's network.

mod hairpin;
mod probe;
mod silence;

use super::{idempotency_key, resolve, system_entropy};
use crate::client::core::Entropy;
use crate::client::diagnosis::{
    AddressesSeen, ClockSeen, Failure, FamilySeen, Observations, ServerSeen, SilenceSeen, TakesNew,
};
use crate::client::error::Error;
use crate::client::http::{Directory, ListingDetails, Registered, Registration, Visibility};
use crate::clock::{Clock, SystemClock};
use crate::credentials::Secret;
use crate::domain::{Family, ListingId};
use std::net::SocketAddr;
use std::time::Duration;

/// For the server's first answer: a connection whose first two packets were lost still comes up.
const CONNECT_PATIENCE: Duration = Duration::from_secs(4);
/// For what is asked then: a token and a listing, or an attempt.
const HTTP_PATIENCE: Duration = Duration::from_secs(3);
/// For the names of its UDP addresses.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(1);
/// For taking a listing down again; one that stays ends by itself with its presence.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// What the listing of a look plays. It is unlisted, so nobody sees it.
const PROTOCOL: &str = "rendezvous.doctor";

/// What to look at besides.
#[derive(Clone, Debug, Default)]
pub struct LookOptions {
    /// STUN URIs to ask instead of those that the server names to a host; then nothing is registered.
    pub stun: Vec<String>,
    /// A silence after which to see whether the server still gets through.
    pub silence: Option<Duration>,
}

/// A look at one server. Takes some ten seconds at most, and the silence.
#[derive(Debug)]
pub struct Look {
    directory: Directory,
    options: LookOptions,
    clock: SystemClock,
    entropy: Entropy,
    open: Vec<(Directory, ListingId, Secret)>,
}

impl Look {
    /// Prepares a look through `directory`, as a guest where that carries no token.
    ///
    /// # Errors
    /// [`Error::Socket`] when the system has no randomness.
    pub fn new(directory: Directory, options: LookOptions) -> Result<Self, Error> {
        Ok(Self { directory, options, clock: SystemClock::new(), entropy: system_entropy()?, open: Vec::new() })
    }

    /// Looks. `progress` hears what is looked at next. May be dropped at any point; [`Look::close`] then cleans up.
    ///
    /// # Errors
    /// [`Error::Socket`] when this machine has no socket in any family. All else is an observation.
    pub async fn run(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Observations, Error> {
        progress(&format!("asking http://{}", self.directory.authority()));
        let (server, clock) = self.server().await;
        let takes_new = matches!(server, ServerSeen::Answers { takes_new: TakesNew::Yes, .. });
        let registered = self.register(takes_new, progress).await;
        let (addresses, registered) = match registered {
            None if !self.options.stun.is_empty() => (AddressesSeen::Given(self.options.stun.clone()), None),
            None => (AddressesSeen::NotAsked, None),
            Some(Err(error)) if error.problem().is_some() => (AddressesSeen::Refused(Failure::from(&error)), None),
            Some(Err(error)) => (AddressesSeen::Failed(Failure::from(&error)), None),
            Some(Ok(registered)) => (AddressesSeen::Named(registered.presence.stun.clone()), Some(registered)),
        };
        let (addresses, found) = self.resolve(addresses).await;
        let (v4, v6) = if found.is_empty() {
            (FamilySeen::NotAsked, FamilySeen::NotAsked)
        } else {
            progress(&format!("asking {} addresses over UDP", found.len()));
            self.families(found, registered.as_ref()).await?
        };
        let silence = self.silence(&v4, &v6, progress).await;
        Ok(Observations { server, clock, addresses, v4, v6, silence })
    }

    /// Takes down what was registered. May be repeated.
    pub async fn close(&mut self) {
        for (directory, listing, lease_token) in std::mem::take(&mut self.open) {
            match tokio::time::timeout(CLOSE_PATIENCE, directory.delete(listing, &lease_token)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%listing, %error, "not taken down"),
                Err(_) => tracing::debug!(%listing, "not taken down in time"),
            }
        }
    }

    async fn server(&self) -> (ServerSeen, Option<ClockSeen>) {
        let (begun, before) = (self.clock.mono(), self.clock.wall());
        let health = match in_time(&self.directory, CONNECT_PATIENCE, self.directory.health()).await {
            Ok(health) => health,
            Err(error) => return (ServerSeen::Failed(Failure::from(&error)), None),
        };
        let (ended, after) = (self.clock.mono(), self.clock.wall());
        let takes_new = match health.status.as_str() {
            "ok" => TakesNew::Yes,
            "draining" => TakesNew::Draining { deadline: health.drain_deadline },
            _ => TakesNew::Unavailable { reason: health.reason },
        };
        let took_us = ended.0.saturating_sub(begun.0) / 1_000;
        let clock = health.date_ms.map(|date_ms| ClockSeen::new(before.0, after.0, date_ms));
        (ServerSeen::Answers { took_us, instance: health.instance, takes_new }, clock)
    }

    /// A listing that nobody sees, for only a host is told the addresses. `None` where there is none to be had or wanted.
    async fn register(&mut self, takes_new: bool, progress: &mut dyn FnMut(&str)) -> Option<Result<Registered, Error>> {
        if !takes_new || !self.options.stun.is_empty() {
            return None;
        }
        progress("asking for the server's UDP addresses, as a host whom nobody sees");
        Some(self.list(None).await)
    }

    async fn list(&mut self, ttl: Option<Duration>) -> Result<Registered, Error> {
        let (directory, key) = (self.directory.clone(), idempotency_key()?);
        let registration = Registration {
            protocol: PROTOCOL.to_owned(),
            visibility: Visibility::Unlisted,
            ttl_ms: ttl.map(|ttl| u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX)),
            details: ListingDetails { name: "rendezvous doctor".to_owned(), ..ListingDetails::default() },
            ..Registration::default()
        };
        let listed = in_time(&self.directory, HTTP_PATIENCE, async {
            let directory = directory.or_guest().await?;
            let registered = directory.register(&registration, &key).await?;
            Ok((directory, registered))
        });
        let (directory, registered) = listed.await?;
        // The same guest for all that follows.
        self.directory = directory.clone();
        self.open.push((directory, registered.listing_id, registered.lease_token.clone()));
        Ok(registered)
    }

    async fn resolve(&self, addresses: AddressesSeen) -> (AddressesSeen, Vec<SocketAddr>) {
        let (AddressesSeen::Named(uris) | AddressesSeen::Given(uris)) = &addresses else {
            return (addresses, Vec::new());
        };
        let found = resolve::all(uris, self.directory.authority());
        let found = tokio::time::timeout(RESOLVE_PATIENCE, found).await.unwrap_or_default();
        let is_lost = found.is_empty() && !uris.is_empty();
        (if is_lost { AddressesSeen::Unresolved(uris.clone()) } else { addresses }, found)
    }

    async fn families(
        &mut self,
        found: Vec<SocketAddr>,
        registered: Option<&Registered>,
    ) -> Result<(FamilySeen, FamilySeen), Error> {
        let presence =
            registered.map(|registered| (registered.presence.username.as_str(), &registered.presence.password));
        let (v4, v6): (Vec<SocketAddr>, Vec<SocketAddr>) = found.into_iter().partition(SocketAddr::is_ipv4);
        let (for_v4, for_v6) = (self.entropy.fork(), self.entropy.fork());
        let v4 = probe::family(Family::V4, &v4, presence, for_v4, &self.clock);
        let v6 = probe::family(Family::V6, &v6, presence, for_v6, &self.clock);
        let seen = tokio::join!(v4, v6);
        match seen {
            // Neither: this is no matter of the network.
            (Err(error), Err(_)) => Err(Error::Socket(error)),
            (v4, v6) => {
                let no_socket = |error: std::io::Error| FamilySeen::NoRoute { cause: error.to_string() };
                Ok((v4.unwrap_or_else(no_socket), v6.unwrap_or_else(no_socket)))
            }
        }
    }

    async fn silence(
        &mut self,
        v4: &FamilySeen,
        v6: &FamilySeen,
        progress: &mut dyn FnMut(&str),
    ) -> Option<SilenceSeen> {
        let lasted = self.options.silence?;
        let open = |family, seen: &FamilySeen| silence::server(seen).map(|server| (family, server));
        let (family, server) = open(Family::V4, v4).or_else(|| open(Family::V6, v6))?;
        let end = silence::look(self, server, lasted, progress).await;
        Some(SilenceSeen { family, lasted, end })
    }
}

/// A call, for which a player does not wait as long as a game may.
async fn in_time<T>(
    directory: &Directory,
    after: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(after, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Timeout { server: directory.authority().to_owned(), after }),
    }
}
