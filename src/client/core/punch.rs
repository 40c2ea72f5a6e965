//! From introduced to connected: both sides send, so that both NATs open, until a signed answer shows a way.
//!
//! A request proves only that the peer's bytes came from there, so its source becomes one more address to try. An answer
//! to our own transaction proves that the address works in both directions; only that chooses it.

use super::{Entropy, Outbox, Transmit};
use crate::credentials::Secret;
use crate::domain::{AttemptId, MonoTime, Role};
use crate::stun::{AttributeType, Class, FingerprintCheck, Message, MessageBuilder, Method, TransactionId};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Addresses tried in all: at most two observed and four declared ones, and room for what NATs make of them. More would
/// let a peer aim this side at strangers.
pub const CANDIDATES_MAX: usize = 8;
/// One datagram per 50 ms, over all addresses.
const PACE_MS: u64 = 50;
/// How long to try: 200 datagrams.
const PUNCH_MS: u64 = 10_000;
/// Transactions remembered per address: at the fastest pace two seconds' worth, longer than a usable round trip.
const TRANSACTIONS_MAX: usize = 40;

/// A way to the peer that works in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Send the game's datagrams there, from the same socket.
    pub peer: SocketAddr,
    /// Of the exchange that chose it, in microseconds.
    pub round_trip_us: u64,
}

#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    sent: VecDeque<(TransactionId, MonoTime)>,
}

/// What a puncher found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PunchEvent {
    Chosen(Path),
    Failed,
}

/// One side of a punch.
#[derive(Debug)]
pub(super) struct Puncher {
    own_name: String,
    peer_name: String,
    key: Secret,
    candidates: Vec<Candidate>,
    /// Whose turn is next.
    turn: usize,
    next_at: MonoTime,
    ends_at: MonoTime,
    state: State,
    out: Outbox<Transmit, 32>,
    events: Outbox<PunchEvent, 2>,
    entropy: Entropy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Trying,
    /// Chosen or given up. Requests of the peer are still answered, it may not be as far.
    Settled,
}

impl Puncher {
    pub(super) fn new(attempt: AttemptId, role: Role, key: Secret, entropy: Entropy, start: MonoTime) -> Self {
        Self {
            own_name: username(attempt, role),
            peer_name: username(attempt, role.other()),
            key,
            candidates: Vec::new(),
            turn: 0,
            next_at: start,
            ends_at: start.plus_ms(PUNCH_MS),
            state: State::Trying,
            out: Outbox::default(),
            events: Outbox::default(),
            entropy,
        }
    }

    /// Adds an address to try; false when it is there already or the table is full.
    pub(super) fn add(&mut self, address: SocketAddr) -> bool {
        let known = self.candidates.iter().any(|candidate| candidate.address == address);
        if known || self.candidates.len() >= CANDIDATES_MAX || address.port() == 0 {
            return false;
        }
        self.candidates.push(Candidate { address, sent: VecDeque::new() });
        true
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop()
    }

    pub(super) fn poll_event(&mut self) -> Option<PunchEvent> {
        self.events.pop()
    }

    pub(super) fn poll_timeout(&self) -> Option<MonoTime> {
        match self.state {
            State::Trying => Some(self.next_at.min(self.ends_at)),
            State::Settled => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: MonoTime) {
        if self.state == State::Settled {
            return;
        }
        if self.ends_at.is_past(now) {
            self.state = State::Settled;
            self.events.push(PunchEvent::Failed);
        } else if self.next_at.is_past(now) && !self.candidates.is_empty() {
            self.turn %= self.candidates.len();
            self.send_request(self.turn, now);
            self.turn += 1;
            self.next_at = now.plus_ms(PACE_MS);
        }
    }

    /// True when the message belongs to this punch.
    pub(super) fn handle_message(&mut self, message: &Message<'_>, from: SocketAddr, now: MonoTime) -> bool {
        if message.method() != Method::BINDING || message.check_fingerprint() == FingerprintCheck::Wrong {
            return false;
        }
        match message.class() {
            Class::Request => self.handle_request(message, from),
            Class::Success => self.handle_success(message, from, now),
            Class::Indication | Class::Error => false,
        }
    }

    fn handle_request(&mut self, message: &Message<'_>, from: SocketAddr) -> bool {
        let Ok(Some(name)) = message.text(AttributeType::USERNAME) else { return false };
        if name == self.own_name {
            // Our own request, reflected: by a NAT's hairpin, or by somebody who wants us to believe in ourselves.
            return true;
        }
        if name != self.peer_name || !message.verify_integrity(self.key.expose().as_bytes()) {
            return false;
        }
        let answer = MessageBuilder::new(Class::Success, Method::BINDING, message.transaction())
            .xor_address(AttributeType::XOR_MAPPED_ADDRESS, from)
            .integrity(self.key.expose().as_bytes())
            .fingerprint()
            .finish();
        if let Ok(bytes) = answer {
            self.out.push(Transmit { to: from, bytes: bytes.into() });
        }
        self.add(from);
        let unasked = |candidate: &Candidate| candidate.address == from && candidate.sent.is_empty();
        if let Some(position) = self.candidates.iter().position(unasked) {
            // The peer's way to here is open, so this address is the likeliest: it is next, at the same pace. Once only,
            // or an address that works one way would take every turn.
            self.turn = position;
        }
        true
    }

    fn handle_success(&mut self, message: &Message<'_>, from: SocketAddr, now: MonoTime) -> bool {
        let Some(candidate) = self.candidates.iter().find(|candidate| candidate.address == from) else { return false };
        let asked = candidate.sent.iter().find(|(id, _)| *id == message.transaction());
        let Some((_, sent_at)) = asked else { return false };
        if !message.verify_integrity(self.key.expose().as_bytes()) {
            return false;
        }
        if self.state == State::Trying {
            self.state = State::Settled;
            let round_trip_us = now.0.saturating_sub(sent_at.0) / 1_000;
            self.events.push(PunchEvent::Chosen(Path { peer: from, round_trip_us }));
        }
        true
    }

    fn send_request(&mut self, position: usize, now: MonoTime) {
        let transaction = self.entropy.transaction();
        let request = MessageBuilder::binding_request(transaction)
            .text(AttributeType::USERNAME, &self.own_name)
            .integrity(self.key.expose().as_bytes())
            .fingerprint()
            .finish();
        let (Some(candidate), Ok(bytes)) = (self.candidates.get_mut(position), request) else { return };
        if candidate.sent.len() == TRANSACTIONS_MAX {
            candidate.sent.pop_front();
        }
        candidate.sent.push_back((transaction, now));
        self.out.push(Transmit { to: candidate.address, bytes: bytes.into() });
    }
}

/// `<attempt id>.h` or `<attempt id>.j`.
fn username(attempt: AttemptId, role: Role) -> String {
    match role {
        Role::Host => format!("{attempt}.h"),
        Role::Joiner => format!("{attempt}.j"),
    }
}
