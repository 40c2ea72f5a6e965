//! A host: presence of one listing in each family, and a bounded number of attempts.

use super::attempt::{Attempt, AttemptEvent, AttemptSetup};
use super::exchange::Credential;
use super::presence::{Keeper, PresenceEvent};
use super::{Entropy, Outbox, Transmit, earlier};
use crate::credentials::{Secret, host_password, host_username, peer_key};
use crate::domain::endpoint::fold;
use crate::domain::{AttemptId, ListingId, MonoTime, Role};
use crate::stun::{AttributeType, Class, FingerprintCheck, Message, Method};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Attempts answered at one time: the server's own bound per listing. Further ones are offered again by the server.
pub const ATTEMPTS_MAX: usize = 64;

/// What a host needs to know of its listing.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// The listing.
    pub listing: ListingId,
    /// USERNAME of presence.
    pub username: String,
    /// The presence password, from which the host derives what it needs for each attempt.
    pub password: Secret,
    /// Advised interval of presence.
    pub interval_ms: u32,
    /// The server's UDP addresses; the first of each family is used.
    pub servers: Vec<SocketAddr>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// Of presence; [`PresenceEvent::Offer`] is answered by itself and appears as [`HostEvent::Offered`].
    Presence {
        /// The server's address, and so the family.
        server: SocketAddr,
        /// What.
        event: PresenceEvent,
    },
    /// A joiner waits; binding has begun.
    Offered {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Of one attempt.
    Attempt {
        /// The attempt.
        attempt: AttemptId,
        /// What.
        event: AttemptEvent,
    },
}

/// Keeps presence and answers attempts.
#[derive(Debug)]
pub struct HostCore {
    setup: HostSetup,
    credential: Credential,
    servers: Vec<SocketAddr>,
    keepers: Vec<Keeper>,
    attempts: BTreeMap<AttemptId, Attempt>,
    events: Outbox<HostEvent, 512>,
    entropy: Entropy,
}

impl HostCore {
    /// Begins presence at once, in each family.
    pub fn new(setup: HostSetup, mut entropy: Entropy, now: MonoTime) -> Self {
        let credential = Credential::new(setup.username.clone(), &setup.password);
        let mut servers: Vec<SocketAddr> = Vec::new();
        for server in setup.servers.iter().map(|server| fold(*server)) {
            if servers.iter().all(|used| used.is_ipv4() != server.is_ipv4()) {
                servers.push(server);
            }
        }
        let keeper = |server: &SocketAddr| {
            Keeper::new(*server, credential.clone(), setup.interval_ms.into(), entropy.fork(), now)
        };
        let keepers = servers.iter().map(keeper).collect();
        Self { setup, credential, servers, keepers, attempts: BTreeMap::new(), events: Outbox::default(), entropy }
    }

    /// Takes over the attempts of an earlier listing: who is introduced already can still meet.
    pub fn adopt(&mut self, earlier: Self) {
        self.attempts.extend(earlier.attempts);
    }

    /// The listing.
    pub fn listing(&self) -> ListingId {
        self.setup.listing
    }

    /// Begins to answer an attempt, learned from an offer or by HTTP. Knowing it already, or [`ATTEMPTS_MAX`], changes nothing.
    pub fn offer(&mut self, attempt: AttemptId, left_ms: u32, now: MonoTime) {
        if self.attempts.contains_key(&attempt) || self.attempts.len() >= ATTEMPTS_MAX {
            return;
        }
        let setup = AttemptSetup {
            attempt,
            role: Role::Host,
            username: host_username(self.setup.listing, attempt),
            password: host_password(&self.setup.password, attempt),
            peer_key: peer_key(&self.setup.password, attempt),
            servers: self.servers.clone(),
            deadline: now.plus_ms(left_ms.into()),
        };
        self.events.push(HostEvent::Offered { attempt });
        self.attempts.insert(attempt, Attempt::new(setup, self.entropy.fork(), now));
    }

    /// Takes a datagram; false when it isn't for this host.
    pub fn handle_input(&mut self, datagram: &[u8], from: SocketAddr, now: MonoTime) -> bool {
        let Ok(message) = Message::parse(datagram) else { return false };
        let from = fold(from);
        let taken = self.handle_offer(&message)
            || self.attempts.values_mut().any(|attempt| attempt.handle_message(&message, from, now));
        if !taken {
            self.keepers.iter_mut().for_each(|keeper| keeper.handle_answer(&message, from, now));
        }
        self.collect(now);
        taken
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: MonoTime) {
        self.keepers.iter_mut().for_each(|keeper| keeper.handle_timeout(now));
        self.attempts.values_mut().for_each(|attempt| attempt.handle_timeout(now));
        self.collect(now);
        self.attempts.retain(|_, attempt| !attempt.keep_until().is_past(now));
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let presence = self.keepers.iter_mut().find_map(Keeper::poll_transmit);
        presence.or_else(|| self.attempts.values_mut().find_map(Attempt::poll_transmit))
    }

    /// When [`HostCore::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        let keepers = self.keepers.iter().map(Keeper::poll_timeout).min();
        let ends = self.attempts.values().map(Attempt::keep_until).min();
        earlier(earlier(keepers, ends), self.attempts.values().filter_map(Attempt::poll_timeout).min())
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop()
    }

    /// An indication with offers; signed, so its source doesn't matter.
    fn handle_offer(&mut self, message: &Message<'_>) -> bool {
        let addressed = message.method() == Method::INTRODUCE
            && message.class() == Class::Indication
            && message.text(AttributeType::USERNAME) == Ok(Some(self.credential.username.as_str()))
            && message.check_fingerprint() != FingerprintCheck::Wrong
            && message.verify_integrity(&self.credential.key);
        if let (true, Some(keeper)) = (addressed, self.keepers.first_mut()) {
            keeper.take_offers(message);
        }
        addressed
    }

    fn collect(&mut self, now: MonoTime) {
        for position in 0..self.keepers.len() {
            while let Some(event) = self.keepers[position].poll_event() {
                match event {
                    PresenceEvent::Offer { attempt, left_ms } => self.offer(attempt, left_ms, now),
                    event @ (PresenceEvent::Verified { .. }
                    | PresenceEvent::InstanceSeen(_)
                    | PresenceEvent::Gone
                    | PresenceEvent::Draining { .. }
                    | PresenceEvent::Unanswered) => {
                        let server = self.servers[position];
                        self.events.push(HostEvent::Presence { server, event });
                    }
                }
            }
        }
        for (id, attempt) in &mut self.attempts {
            while let Some(event) = attempt.poll_event() {
                self.events.push(HostEvent::Attempt { attempt: *id, event });
            }
        }
    }
}
