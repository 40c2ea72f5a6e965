//! The HTTP calls of a host: what is called when the lease says so, and what their answers mean.

use super::super::port::Families;
use super::super::resolve;
use super::{Done, Host, HostNews, PlayerNews};
use crate::client::core::{Action, CallFailure, HostCore, HostSetup};
use crate::client::error::{Code, Error};
use crate::client::http::{Directory, PendingAttempts, Registered, Registration, Renewal};
use crate::clock::Clock;
use crate::domain::MonoTime;
use std::net::SocketAddr;
use std::time::Duration;

/// One long poll; the server's bound is 30 s.
const POLL_WAIT: Duration = Duration::from_secs(25);
/// Pause after a long poll that failed or brought nothing, at least; as much again is added at random.
const POLL_PAUSE_MS: u64 = 1_000;
/// Until an attempt's deadline, as long as only HTTP has told of it: the default lifetime. Its bind learns the true one.
const LEFT_MS: u32 = 30_000;

impl Host {
    pub(super) fn call(&mut self, action: Action, now: MonoTime) {
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

    pub(super) fn finish(&mut self, done: Done) {
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
            // No guest and no listing so far: what isn't there is the tenant, and asking again brings none.
            Done::Login(Err(error)) if !self.listed_before && error.code() == Some(&Code::NotFound) => {
                self.failed(CallFailure::Fatal, error, now);
            }
            Done::Login(Err(error)) | Done::Register(Err(error)) | Done::Renew(Err(error)) | Done::Ask(Err(error)) => {
                self.failed(classify(&error, self.fixed_token), error, now);
            }
            Done::Poll(listing, answer) if self.listing() == Some(listing) => self.polled(answer, now),
            Done::Relays(relays) => self.relays = relays.iter().map(SocketAddr::ip).collect(),
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

    fn failed(&mut self, failure: CallFailure, error: Error, now: MonoTime) {
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
                let lost = self.registered.take().is_some();
                self.news.push_back(if lost { HostNews::Lost } else { HostNews::Retrying { error } });
            }
            CallFailure::Transient { .. } => self.news.push_back(HostNews::Retrying { error }),
            CallFailure::Stale { .. } => {}
        }
    }

    /// Looks up the relays' addresses, once: for the report of how a player came, and for nothing else.
    fn note_relays(&mut self, pending: &PendingAttempts) {
        let grants = pending.attempts.iter().flat_map(|attempt| &attempt.turn);
        let uris: Vec<String> = grants.flat_map(|grant| grant.uris.clone()).collect();
        if self.relays.is_empty() && !uris.is_empty() {
            let families = self.port.families();
            self.jobs.spawn(async move { Done::Relays(resolve::relays(&uris, families).await) });
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
                let pause_ms = pause_after(&pending, pause_ms);
                self.note_relays(&pending);
                for attempt in pending.attempts {
                    if let Some(core) = &mut self.core {
                        core.offer(attempt.attempt_id, LEFT_MS, now);
                    }
                    if let Some(payload) = attempt.joiner_payload {
                        self.news.push_back(HostNews::Player {
                            attempt: attempt.attempt_id,
                            news: PlayerNews::Payload(payload),
                        });
                    }
                }
                if pending.ended {
                    self.lease.doubt(now);
                }
                self.poll(pause_ms);
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

/// The pause before the next long poll. An empty answer may have come at once: from a server that is about to end, or
/// because another poll took this one's place. Only one that brought something is no reason to wait.
fn pause_after(answer: &PendingAttempts, pause_ms: u64) -> u64 {
    if answer.ended || answer.attempts.is_empty() { pause_ms } else { 0 }
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
            Code::LegacySessionUnsupported
            | Code::LeaseHeld
            | Code::LeaseLost
            | Code::ClaimLost
            | Code::AlreadySettled
            | Code::HostTaken
            | Code::Revoked
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_is_not_asked_for_again_at_once() {
        let answer = |text: &str| serde_json::from_str::<PendingAttempts>(text).unwrap();
        assert_eq!(pause_after(&answer(r#"{"attempts":[],"commit":7}"#), 1_500), 1_500);
        assert_eq!(pause_after(&answer(r#"{"attempts":[],"commit":7,"ended":true,"reason":"deleted"}"#), 1_500), 1_500);
        let id = "0190b5d2b1d87c6e8a9b0c1d2e3f4a5b";
        let one = format!(
            r#"{{"attempts":[{{"attempt_id":"{id}","expires_at":"x","bind":{{"username":"u","password":"p"}},"peer_key":"k"}}],"commit":7}}"#
        );
        assert_eq!(pause_after(&answer(&one), 1_500), 0);
    }
}
