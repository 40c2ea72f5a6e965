//! One side of one attempt: bind every family, wait for the introduction, punch.

use super::bind::{BindEvent, BindRefusal, Binder};
use super::exchange::Credential;
use super::punch::{PunchEvent, Puncher};
use super::{Entropy, Outbox, Path, Transmit, earlier};
use crate::credentials::Secret;
use crate::domain::endpoint::fold;
use crate::domain::{AttemptId, MonoTime, Role};
use crate::stun::{AttributeType, Class, FingerprintCheck, Message, Method};
use std::net::SocketAddr;

/// At most one binder per family.
const BINDERS_MAX: usize = 2;
/// After its deadline a connected attempt still answers the peer's requests, which may have heard later: one punch long.
const LINGER_MS: u64 = 10_000;
/// Longest lifetime of an attempt (128 s is past the server's bound), so that a wrong answer can't keep one for ever.
const LIFETIME_MS_MAX: u32 = 128_000;

/// What an attempt needs to know.
#[derive(Clone, Debug)]
pub struct AttemptSetup {
    /// Its id.
    pub attempt: AttemptId,
    /// Which side this is.
    pub role: Role,
    /// USERNAME for binding.
    pub username: String,
    /// The password for binding.
    pub password: Secret,
    /// With which the peers know each other.
    pub peer_key: Secret,
    /// The server's UDP addresses; the first of each family is used.
    pub servers: Vec<SocketAddr>,
    /// When it ends, as far as is known; a bound one learns better.
    pub deadline: MonoTime,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEvent {
    /// One family is bound; the server sees this side so.
    Bound {
        /// Own address as the server sees it.
        mapped: SocketAddr,
    },
    /// One family can't be bound; another one may.
    FamilyEnded {
        /// The server's address of that family.
        server: SocketAddr,
        /// Why.
        refusal: BindRefusal,
    },
    /// Both sides are told; the punch begins.
    Introduced {
        /// The peer's addresses, observed ones first.
        peers: Vec<SocketAddr>,
    },
    /// A way to the peer works in both directions. Send the game's datagrams there.
    Connected(Path),
    /// No family is bound and none will be, or no introduction came in time.
    NotIntroduced(BindRefusal),
    /// Introduced, but no address of the peer answered.
    PunchFailed,
}

/// One side of an attempt.
#[derive(Debug)]
pub struct Attempt {
    attempt: AttemptId,
    role: Role,
    credential: Credential,
    peer_key: Secret,
    binders: Vec<Binder>,
    servers: Vec<SocketAddr>,
    puncher: Option<Puncher>,
    deadline: MonoTime,
    over: bool,
    events: Outbox<AttemptEvent, 32>,
    entropy: Entropy,
}

impl Attempt {
    /// Begins to bind at once.
    pub fn new(setup: AttemptSetup, mut entropy: Entropy, now: MonoTime) -> Self {
        let credential = Credential::new(setup.username, &setup.password);
        let mut servers: Vec<SocketAddr> = Vec::new();
        for server in setup.servers.iter().map(|server| fold(*server)) {
            if servers.len() < BINDERS_MAX && servers.iter().all(|used| used.is_ipv4() != server.is_ipv4()) {
                servers.push(server);
            }
        }
        let binders = servers.iter().map(|server| Binder::new(*server, &credential, entropy.fork(), now)).collect();
        Self {
            attempt: setup.attempt,
            role: setup.role,
            credential,
            peer_key: setup.peer_key,
            binders,
            servers,
            puncher: None,
            deadline: setup.deadline,
            over: false,
            events: Outbox::default(),
            entropy,
        }
    }

    /// The attempt's id.
    pub fn id(&self) -> AttemptId {
        self.attempt
    }

    /// Until when this side has to be kept, so that the peer's requests are answered.
    pub fn keep_until(&self) -> MonoTime {
        self.deadline.plus_ms(LINGER_MS)
    }

    /// Takes a datagram; false when it isn't for this attempt.
    pub fn handle_input(&mut self, datagram: &[u8], from: SocketAddr, now: MonoTime) -> bool {
        Message::parse(datagram).is_ok_and(|message| self.handle_message(&message, fold(from), now))
    }

    pub(super) fn handle_message(&mut self, message: &Message<'_>, from: SocketAddr, now: MonoTime) -> bool {
        if message.method() == Method::INTRODUCE {
            return self.handle_introduce(message, now);
        }
        if let Some(puncher) = &mut self.puncher
            && puncher.handle_message(message, from, now)
        {
            self.collect();
            return true;
        }
        let mut taken = false;
        for position in 0..self.binders.len() {
            if self.binders[position].handle_answer(message, &self.credential, from) {
                // Bound is told before introduced, also when one answer says both.
                self.collect();
                self.read_answer(message, now);
                taken = true;
            }
        }
        self.collect();
        taken
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: MonoTime) {
        self.binders.iter_mut().for_each(|binder| binder.handle_timeout(now));
        if let Some(puncher) = &mut self.puncher {
            puncher.handle_timeout(now);
        }
        self.collect();
        if self.deadline.is_past(now) {
            self.binders.iter_mut().for_each(Binder::stop);
            if self.puncher.is_none() {
                self.end(AttemptEvent::NotIntroduced(BindRefusal::Deadline));
            }
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let bound = self.binders.iter_mut().find_map(Binder::poll_transmit);
        bound.or_else(|| self.puncher.as_mut().and_then(Puncher::poll_transmit))
    }

    /// When [`Attempt::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        let binders = self.binders.iter().filter_map(Binder::poll_timeout).min();
        let puncher = self.puncher.as_ref().and_then(Puncher::poll_timeout);
        let deadline = if self.over || self.puncher.is_some() { None } else { Some(self.deadline) };
        earlier(earlier(binders, puncher), deadline)
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<AttemptEvent> {
        self.events.pop()
    }

    /// An introduction to the endpoint bound last; signed, so its source doesn't matter.
    fn handle_introduce(&mut self, message: &Message<'_>, now: MonoTime) -> bool {
        let addressed = message.class() == Class::Indication
            && message.text(AttributeType::USERNAME) == Ok(Some(self.credential.username.as_str()))
            && message.check_fingerprint() != FingerprintCheck::Wrong
            && message.verify_integrity(&self.credential.key);
        if addressed {
            self.read_introduction(message, now);
            self.collect();
        }
        addressed
    }

    fn read_answer(&mut self, message: &Message<'_>, now: MonoTime) {
        if let Ok(Some(lifetime_ms)) = message.u32(AttributeType::RV_LIFETIME) {
            self.deadline = now.plus_ms(lifetime_ms.min(LIFETIME_MS_MAX).into());
        }
        self.read_introduction(message, now);
    }

    fn read_introduction(&mut self, message: &Message<'_>, now: MonoTime) {
        if message.id(AttributeType::RV_INTRODUCTION) != Ok(Some(self.attempt.0)) || self.over {
            return;
        }
        let start_after_ms = message.u32(AttributeType::RV_START_AFTER).ok().flatten().unwrap_or(0);
        let start = now.plus_ms(start_after_ms.min(LIFETIME_MS_MAX).into());
        let (attempt, role, key, entropy) = (self.attempt, self.role, self.peer_key.clone(), &mut self.entropy);
        let puncher = self.puncher.get_or_insert_with(|| Puncher::new(attempt, role, key, entropy.fork(), start));
        let observed = message.xor_addresses(AttributeType::RV_PEER_ADDRESS);
        let declared = message.xor_addresses(AttributeType::RV_CANDIDATE);
        let peers: Vec<SocketAddr> =
            observed.chain(declared).flatten().map(fold).filter(|peer| puncher.add(*peer)).collect();
        if !peers.is_empty() {
            puncher.handle_timeout(now);
            self.events.push(AttemptEvent::Introduced { peers });
        }
    }

    fn collect(&mut self) {
        let mut last = None;
        for (binder, server) in self.binders.iter_mut().zip(&self.servers) {
            while let Some(event) = binder.poll_event() {
                match event {
                    BindEvent::Bound(mapped) => self.events.push(AttemptEvent::Bound { mapped }),
                    BindEvent::Ended(refusal) => {
                        self.events.push(AttemptEvent::FamilyEnded { server: *server, refusal });
                        last = Some(refusal);
                    }
                }
            }
        }
        let none_left = self.binders.iter().all(|binder| binder.poll_timeout().is_none());
        if let (Some(refusal), true, None) = (last, none_left, &self.puncher) {
            self.end(AttemptEvent::NotIntroduced(refusal));
        }
        while let Some(event) = self.puncher.as_mut().and_then(Puncher::poll_event) {
            self.binders.iter_mut().for_each(Binder::stop);
            self.end(match event {
                PunchEvent::Chosen(path) => AttemptEvent::Connected(path),
                PunchEvent::Failed => AttemptEvent::PunchFailed,
            });
        }
    }

    fn end(&mut self, event: AttemptEvent) {
        if !self.over {
            self.over = true;
            self.events.push(event);
        }
    }
}
