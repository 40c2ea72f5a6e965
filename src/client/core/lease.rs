//! Which HTTP call a host makes next: log in, register, renew, or ask whether its listing still lives.
//!
//! One call at a time. Everything that is repeated waits, longer each time, and never exactly as long as another host.

use super::Entropy;
use crate::domain::{InstanceId, MonoTime};
use std::time::Duration;

/// Hosts that lost their listing by a restart come back spread over so long.
const RETURN_MS: (u64, u64) = (200, 3_000);
/// First pause after a failure; it doubles.
const PAUSE_MS_FIRST: u64 = 1_000;
/// Longest pause before a registration.
const PAUSE_MS_MAX: u64 = 30_000;
/// Longest pause before a renewal: several fit into the shortest lease of 10 s.
const RENEW_PAUSE_MS_MAX: u64 = 3_000;
/// Another instance is seen in unsigned answers, so a forger can make us ask, but not more often than this.
const ASK_PAUSE_MS: u64 = 5_000;
/// Spread of the asking itself.
const ASK_SPREAD_MS: u64 = 500;
/// A guest's token lives 24 h; half-way it is renewed, which keeps the guest's name and so its listing.
const LOGIN_MS: u64 = 12 * 3_600_000;

/// The call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Get a guest token, with the present one if there is one. Skip it (say [`Lease::logged_in`]) when the token is fixed.
    Login,
    /// Register, with [`Lease::idempotency_key`].
    Register,
    /// Renew, with this version in `If-Match`.
    Renew {
        /// The version.
        version: u64,
    },
    /// Read the lease.
    Ask,
}

/// How a call failed, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// Nothing is known, or the server said not now.
    Transient {
        /// As the server asked.
        retry_after: Option<Duration>,
    },
    /// The listing isn't there.
    NotFound,
    /// The token isn't valid (any more).
    TokenRefused,
    /// The version isn't the current one.
    Stale {
        /// This is.
        current_version: u64,
    },
    /// The idempotency key is used up.
    KeyUsed,
    /// Repeating won't help.
    Fatal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unlisted { register_at: MonoTime },
    Listed { version: u64, ttl_ms: u32, renew_at: MonoTime, ask_at: MonoTime },
    Stopped,
}

/// The decisions about one listing.
#[derive(Debug)]
pub struct Lease {
    state: State,
    /// When the token has to be got or renewed.
    login_at: MonoTime,
    in_flight: Option<Action>,
    /// Calls in a row that failed, and listings in a row that were lost before their first renewal.
    failures: u32,
    instance: Option<InstanceId>,
    asked_at: Option<MonoTime>,
    not_before: MonoTime,
    key: String,
    entropy: Entropy,
}

impl Lease {
    /// Registers at once.
    pub fn new(mut entropy: Entropy, now: MonoTime) -> Self {
        Self {
            state: State::Unlisted { register_at: now },
            login_at: now,
            in_flight: None,
            failures: 0,
            instance: None,
            asked_at: None,
            not_before: now,
            key: entropy.key(),
            entropy,
        }
    }

    /// The key of the registration that is going on; another one for each listing.
    pub fn idempotency_key(&self) -> &str {
        &self.key
    }

    /// The call to make now. Nothing more comes until its result has been handed in.
    pub fn poll_action(&mut self, now: MonoTime) -> Option<Action> {
        if self.in_flight.is_some() {
            return None;
        }
        let action = match self.state {
            State::Stopped => return None,
            State::Unlisted { register_at } if !register_at.is_past(now) => return None,
            State::Unlisted { .. } if self.login_at.is_past(now) => Action::Login,
            State::Unlisted { .. } => Action::Register,
            State::Listed { ask_at, .. } if ask_at.is_past(now) => Action::Ask,
            State::Listed { renew_at, version, .. } if renew_at.is_past(now) => Action::Renew { version },
            State::Listed { .. } if self.login_at.is_past(now) => Action::Login,
            State::Listed { .. } => return None,
        };
        if action == Action::Ask {
            self.asked_at = Some(now);
        }
        self.in_flight = Some(action);
        Some(action)
    }

    /// When [`Lease::poll_action`] may have something.
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        if self.in_flight.is_some() {
            return None;
        }
        match self.state {
            State::Unlisted { register_at } => Some(register_at),
            State::Listed { renew_at, ask_at, .. } => Some(renew_at.min(ask_at).min(self.login_at)),
            State::Stopped => None,
        }
    }

    /// [`Action::Login`] worked.
    pub fn logged_in(&mut self, now: MonoTime) {
        self.in_flight = None;
        self.login_at = now.plus_ms(LOGIN_MS);
    }

    /// [`Action::Register`] worked.
    pub fn registered(&mut self, version: u64, ttl_ms: u32, instance: Option<InstanceId>, now: MonoTime) {
        self.in_flight = None;
        self.instance = instance;
        self.listed(version, ttl_ms, now);
    }

    /// [`Action::Renew`] worked.
    pub fn renewed(&mut self, version: u64, ttl_ms: Option<u32>, now: MonoTime) {
        self.in_flight = None;
        self.failures = 0;
        if let State::Listed { ttl_ms: last, .. } = self.state {
            self.listed(version, ttl_ms.unwrap_or(last), now);
        }
    }

    /// [`Action::Ask`] was answered: the listing lives.
    pub fn alive(&mut self, current_version: u64, answered_by: Option<InstanceId>) {
        self.in_flight = None;
        self.failures = 0;
        self.instance = answered_by.or(self.instance);
        if let State::Listed { version, ask_at, .. } = &mut self.state {
            *version = current_version;
            *ask_at = MonoTime::NEVER;
        }
    }

    /// The call failed.
    pub fn failed(&mut self, failure: CallFailure, now: MonoTime) {
        let Some(action) = self.in_flight.take() else { return };
        match failure {
            CallFailure::Transient { retry_after } => self.pause(action, retry_after, now),
            CallFailure::NotFound | CallFailure::KeyUsed => self.lost(now),
            CallFailure::TokenRefused => {
                self.login_at = now;
                self.lost(now);
            }
            CallFailure::Stale { current_version } => {
                if let State::Listed { version, .. } = &mut self.state {
                    // A renewal whose answer was lost: it has happened, the next one is due at once.
                    *version = current_version;
                }
            }
            CallFailure::Fatal => self.state = State::Stopped,
        }
    }

    /// An unsigned answer named this instance. If it isn't ours, the next action is to ask.
    pub fn instance_seen(&mut self, seen: InstanceId, now: MonoTime) {
        if self.instance.is_some_and(|own| own != seen) {
            self.doubt(now);
        }
    }

    /// Something says that the listing has ended; ask.
    pub fn doubt(&mut self, now: MonoTime) {
        let spread = self.entropy.between(0, ASK_SPREAD_MS);
        if let State::Listed { ask_at, .. } = &mut self.state
            && *ask_at == MonoTime::NEVER
        {
            let allowed = self.asked_at.map_or(now, |asked| asked.plus_ms(ASK_PAUSE_MS).max(now));
            *ask_at = allowed.plus_ms(spread);
        }
    }

    /// The server is going down: don't come back before this.
    pub fn draining(&mut self, retry_after: Duration, now: MonoTime) {
        let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).min(PAUSE_MS_MAX);
        self.not_before = now.plus_ms(retry_after_ms);
    }

    fn listed(&mut self, version: u64, ttl_ms: u32, now: MonoTime) {
        // A third of the lease leaves two more tries; the spread keeps hosts that began together apart.
        let third = u64::from(ttl_ms) / 3;
        let renew_at = now.plus_ms(self.entropy.between(third * 8 / 10, third));
        self.state = State::Listed { version, ttl_ms, renew_at, ask_at: MonoTime::NEVER };
    }

    fn lost(&mut self, now: MonoTime) {
        let delay = if self.failures == 0 {
            self.entropy.between(RETURN_MS.0, RETURN_MS.1)
        } else {
            self.backoff(PAUSE_MS_MAX)
        };
        self.failures = self.failures.saturating_add(1);
        self.key = self.entropy.key();
        self.instance = None;
        self.state = State::Unlisted { register_at: now.plus_ms(delay).max(self.not_before) };
    }

    fn pause(&mut self, action: Action, retry_after: Option<Duration>, now: MonoTime) {
        let asked_ms = retry_after.map_or(0, |after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        let listed = matches!(self.state, State::Listed { .. });
        let delay = self.backoff(if listed { RENEW_PAUSE_MS_MAX } else { PAUSE_MS_MAX }).max(asked_ms);
        self.failures = self.failures.saturating_add(1);
        let again_at = now.plus_ms(delay);
        match (&mut self.state, action) {
            (State::Unlisted { register_at }, _) => *register_at = again_at.max(self.not_before),
            (State::Listed { ask_at, .. }, Action::Ask) => *ask_at = again_at,
            (State::Listed { .. }, Action::Login) => self.login_at = again_at,
            (State::Listed { renew_at, .. }, Action::Renew { .. } | Action::Register) => *renew_at = again_at,
            (State::Stopped, _) => {}
        }
    }

    /// Between half of the pause and all of it; the pause doubles with each failure.
    fn backoff(&mut self, max_ms: u64) -> u64 {
        let pause = (PAUSE_MS_FIRST << self.failures.min(10)).min(max_ms);
        self.entropy.between(pause / 2, pause)
    }
}
