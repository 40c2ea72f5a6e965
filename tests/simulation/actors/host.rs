//! A host: its lease, its presence, and its players.

use super::{Claim, LEFT_MS, PROTOCOL, Turn, claim, classify, entropy};
use crate::calls::{Answer, Granted, Request, register_body, renew_body};
use crate::plan::HostAct;
use crate::support::name;
use rendezvous::client::core::*;
use rendezvous::domain::{Failure, InstanceId, ListingId, MonoTime, Rejection};
use std::net::SocketAddr;
use std::time::Duration;

/// A host's long poll; far below the server's bound.
const POLL_MS: u64 = 3_000;

/// What an actor remembers of its tokens.
#[derive(Clone, Debug)]
struct Listed {
    listing: ListingId,
    token: String,
    version: u64,
}

pub(crate) struct Host {
    number: usize,
    pub(crate) life: u32,
    lease: Lease,
    core: Option<HostCore>,
    listed: Option<Listed>,
    /// Its name so far, and whether it wants to be seen.
    label: u64,
    public: bool,
    gate: bool,
    declares: bool,
    polls: bool,
    polled: u64,
    pub(crate) frozen_until: MonoTime,
    /// Nothing more is worth trying.
    pub(crate) is_stopped: bool,
    entropy: Entropy,
}

impl Host {
    pub(crate) fn new(number: usize, life: u32, seed: u64, polls: bool, now: MonoTime) -> Self {
        let mut entropy = entropy(number, life, seed);
        Self {
            number,
            life,
            lease: Lease::new(entropy.fork(), now),
            core: None,
            listed: None,
            label: 0,
            public: true,
            gate: entropy.between(0, 3) == 0 && polls,
            declares: entropy.between(0, 1) == 0,
            polls,
            polled: 0,
            frozen_until: MonoTime(0),
            is_stopped: false,
            entropy,
        }
    }

    pub(crate) fn listing(&self) -> Option<ListingId> {
        self.listed.as_ref().map(|listed| listed.listing)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.listed.as_ref().map(|listed| listed.token.as_str())
    }

    /// From now on it wants what every host wants.
    pub(crate) fn wants_players(&mut self) {
        (self.public, self.polls) = (true, true);
    }

    fn name(&mut self) -> String {
        self.label += 1;
        name(self.number, self.life.into(), self.label)
    }

    /// When [`Host::turn`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<MonoTime> {
        if self.is_stopped {
            return None;
        }
        let due = [self.lease.poll_timeout(), self.core.as_ref().and_then(HostCore::poll_timeout)];
        due.into_iter().flatten().min().map(|due| due.max(self.frozen_until))
    }

    pub(crate) fn turn(&mut self, turn: &mut Turn<'_>) {
        if self.is_stopped || self.frozen_until > turn.now {
            return;
        }
        while let Some(action) = self.lease.poll_action(turn.now) {
            self.call(action, turn);
        }
        if let Some(core) = &mut self.core
            && core.poll_timeout().is_some_and(|due| due.is_past(turn.now))
        {
            core.handle_timeout(turn.now);
        }
        self.flush(turn);
    }

    pub(crate) fn receive(&mut self, bytes: &[u8], from: SocketAddr, turn: &mut Turn<'_>) {
        // A process that stands still reads nothing; its socket's buffer is not worth modelling.
        if self.is_stopped || self.frozen_until > turn.now {
            return;
        }
        if let Some(core) = &mut self.core {
            core.handle_input(bytes, from, turn.now);
        }
        self.flush(turn);
    }

    fn flush(&mut self, turn: &mut Turn<'_>) {
        let Some(core) = &mut self.core else { return };
        while let Some(transmit) = core.poll_transmit() {
            turn.network.send(self.number, transmit.to, &transmit.bytes, turn.now, turn.rng);
        }
        while let Some(event) = self.core.as_mut().and_then(HostCore::poll_event) {
            self.hear(event, turn);
        }
    }

    fn hear(&mut self, event: HostEvent, turn: &mut Turn<'_>) {
        match event {
            HostEvent::Presence { event, .. } => match event {
                PresenceEvent::Verified { mapped } => turn.claims.push(Claim::Mapped(mapped)),
                PresenceEvent::InstanceSeen(instance) => self.lease.instance_seen(instance, turn.now),
                PresenceEvent::Gone => self.lease.doubt(turn.now),
                PresenceEvent::Draining { retry_after_ms } => {
                    self.lease.draining(Duration::from_millis(retry_after_ms.into()), turn.now);
                }
                PresenceEvent::Offer { .. } | PresenceEvent::Unanswered => {}
            },
            HostEvent::Offered { .. } => {}
            HostEvent::Attempt { attempt, event } => claim(attempt, event, turn),
        }
    }

    fn call(&mut self, action: Action, turn: &mut Turn<'_>) {
        match (action, self.listed.clone()) {
            (Action::Login, _) => self.lease.logged_in(turn.now),
            (Action::Register, _) => {
                let key = self.lease.idempotency_key().to_owned();
                let candidate = turn.network.candidate(self.number).filter(|_| self.declares);
                let candidate = candidate.map(|address| address.to_string());
                // The same bytes for the same key: another name is another request.
                let name = name(self.number, self.life.into(), self.label);
                let body = register_body(PROTOCOL, &name, 6_000, self.public, self.gate, candidate);
                turn.requests.push((Request::Register { key, body }, 0));
            }
            (Action::Renew { version }, Some(listed)) => {
                let Listed { listing, token, .. } = listed;
                let body = renew_body(None, None, None);
                turn.requests.push((Request::Renew { listing, token, version, body }, 0));
            }
            (Action::Ask, Some(Listed { listing, token, .. })) => {
                turn.requests.push((Request::Lease { listing, token }, 0));
            }
            (Action::Renew { .. } | Action::Ask, None) => unreachable!("only of a listing"),
        }
    }

    /// Its owner does something beside what keeps it listed, by hand.
    pub(crate) fn act(&mut self, act: HostAct, turn: &mut Turn<'_>) {
        let Some(Listed { listing, token, version }) = self.listed.clone() else { return };
        let body = match act {
            HostAct::Rename => renew_body(None, Some(self.name()), None),
            HostAct::Unlist | HostAct::List => {
                self.public = act == HostAct::List;
                renew_body(None, None, Some(self.public))
            }
            HostAct::Shorten => renew_body(Some(2_000), None, None),
            HostAct::Delete => return turn.requests.push((Request::Delete { listing, token }, 0)),
        };
        turn.requests.push((Request::Renew { listing, token, version, body }, 0));
    }

    /// The answer to one of its requests; `None` when none came.
    pub(crate) fn answered(&mut self, request: &Request, answer: Option<(Answer, InstanceId)>, turn: &mut Turn<'_>) {
        let now = turn.now;
        match (request, answer) {
            (Request::Register { key, .. }, _) if key != self.lease.idempotency_key() => {}
            (Request::Register { .. }, Some((Ok(Granted::Listing(it)), instance))) => {
                let grant = it.value;
                let setup = HostSetup {
                    listing: grant.listing,
                    username: grant.presence.username,
                    password: grant.presence.password,
                    interval_ms: grant.presence_interval_ms,
                    servers: turn.network.servers(self.number),
                };
                let mut core = HostCore::new(setup, self.entropy.fork(), now);
                if let Some(earlier) = self.core.take() {
                    core.adopt(earlier);
                }
                self.core = Some(core);
                let token = grant.lease_token.expose().to_owned();
                self.listed = Some(Listed { listing: grant.listing, token, version: 1 });
                self.lease.registered(1, grant.ttl_ms, Some(instance), now);
                self.polled = 0;
                self.poll(0, turn);
            }
            (Request::Renew { body, .. }, Some((Ok(Granted::Renewed(it)), _))) => {
                if let Some(listed) = &mut self.listed {
                    listed.version = it.value.version;
                }
                // A renewal by hand is none of the lease's calls, but tells it the version all the same.
                if *body == renew_body(None, None, None) {
                    self.lease.renewed(it.value.version, Some(it.value.ttl_ms), now);
                }
            }
            (Request::Renew { body, .. }, Some((Err(_), _)) | None) if *body != renew_body(None, None, None) => {}
            (Request::Lease { .. }, Some((Ok(Granted::Lease(it)), instance))) => {
                if let Some(listed) = &mut self.listed {
                    listed.version = it.value.version;
                }
                self.lease.alive(it.value.version, Some(instance));
            }
            (Request::Offers { listing, .. }, answer) if self.listing() == Some(*listing) => self.offered(answer, turn),
            (Request::Register { .. } | Request::Renew { .. } | Request::Lease { .. }, Some((Err(failure), _))) => {
                self.failed(classify(failure), now);
            }
            (Request::Register { .. } | Request::Renew { .. } | Request::Lease { .. }, None) => {
                self.failed(CallFailure::Transient { retry_after: None }, now);
            }
            _ => {}
        }
        self.turn(turn);
    }

    fn failed(&mut self, failure: CallFailure, now: MonoTime) {
        self.lease.failed(failure, now);
        match failure {
            CallFailure::Fatal => self.is_stopped = true,
            CallFailure::NotFound | CallFailure::TokenRefused | CallFailure::KeyUsed => self.listed = None,
            CallFailure::Stale { current_version } => {
                if let Some(listed) = &mut self.listed {
                    listed.version = current_version;
                }
            }
            CallFailure::Transient { .. } => {}
        }
    }

    fn offered(&mut self, answer: Option<(Answer, InstanceId)>, turn: &mut Turn<'_>) {
        let mut pause_ms = 1_000;
        match answer {
            Some((Ok(Granted::Offers(offers)), _)) => {
                self.polled = self.polled.max(offers.commit);
                for offer in offers.attempts {
                    pause_ms = 0;
                    if let Some(core) = &mut self.core {
                        core.offer(offer.pending.id, LEFT_MS, turn.now);
                    }
                    if let (true, Some(token)) = (offer.pending.gated, self.token().map(str::to_owned)) {
                        let admit = !turn.rng.chance(200);
                        turn.requests.push((Request::Admit { attempt: offer.pending.id, token, admit }, 0));
                    }
                }
                if offers.ended.is_some() {
                    self.lease.doubt(turn.now);
                }
            }
            Some((Err(Failure::Rejected(Rejection::NotFound)), _)) => self.lease.doubt(turn.now),
            _ => {}
        }
        self.poll(pause_ms, turn);
    }

    fn poll(&mut self, pause_ms: u64, turn: &mut Turn<'_>) {
        let Some(Listed { listing, token, .. }) = self.listed.clone().filter(|_| self.polls) else { return };
        let after = self.polled;
        turn.requests.push((Request::Offers { listing, token, after, wait_ms: POLL_MS }, pause_ms));
    }
}
