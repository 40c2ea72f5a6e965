//! One socket asks several addresses of a server how they see it: what a NAT does is in how the answers differ.
//!
//! An address that answers a plain Binding request needs no more. One that challenges is asked again under a listing's
//! presence credential, the only one that needs no other side; its answer counts as that listing's presence.

use super::exchange::{Credential, Exchange, Verdict, reason};
use super::{Entropy, Outbox, Transmit};
use crate::credentials::Secret;
use crate::domain::MonoTime;
use crate::domain::endpoint::fold;
use crate::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, FingerprintCheck, Message, MessageBuilder, Method, TransactionId,
};
use bytes::Bytes;
use std::net::SocketAddr;

/// Addresses that are asked: two listeners at two addresses of one family, and then some.
pub const SURVEY_TARGETS_MAX: usize = 8;
/// As long as any answer, so that the server answers whatever its budget for unproven sources.
const REQUEST_BYTES: usize = 160;
/// First repetition; each later one comes [`REPEAT_MS`] after the one before.
const REPEAT_MS_FIRST: u64 = 250;
/// Seven datagrams in three seconds: with 30 % loss each way one address in a hundred stays silent.
const REPEAT_MS: u64 = 500;

/// How one address answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Not at all, so far.
    Silent,
    /// With a challenge, and nothing after it: it is there, but how it sees this side is not known.
    Challenged {
        /// Of that exchange.
        round_trip_us: u64,
    },
    /// With the address that it sees.
    Mapped {
        /// This side, from there.
        mapped: SocketAddr,
        /// Of that exchange.
        round_trip_us: u64,
    },
}

/// Asks all its targets at once, and repeats until each has answered or the time is over.
#[derive(Debug)]
pub struct Survey {
    targets: Vec<Target>,
    credential: Option<Credential>,
    /// Numbers of one listing and family have to grow, over all targets.
    sequence: u64,
    ends_at: MonoTime,
    entropy: Entropy,
    out: Outbox<Transmit, 32>,
}

#[derive(Debug)]
struct Target {
    server: SocketAddr,
    plain: TransactionId,
    request: Bytes,
    signed: Option<Exchange>,
    /// The one that was tried last.
    nonce: Vec<u8>,
    asked_at: MonoTime,
    repeat_at: MonoTime,
    reply: Reply,
    is_done: bool,
}

impl Survey {
    /// Asks the first [`SURVEY_TARGETS_MAX`] of `servers` until `ends_at`. `presence` is USERNAME and password of a
    /// listing, for those that challenge.
    pub fn new(
        servers: &[SocketAddr],
        presence: Option<(String, &Secret)>,
        mut entropy: Entropy,
        now: MonoTime,
        ends_at: MonoTime,
    ) -> Self {
        // Below 2^62, as a first number has to be, with room for those that follow.
        let sequence = entropy.bits() >> 3;
        let mut survey = Self {
            targets: Vec::new(),
            credential: presence.map(|(username, password)| Credential::new(username, password)),
            sequence,
            ends_at,
            entropy,
            out: Outbox::default(),
        };
        for server in servers.iter().take(SURVEY_TARGETS_MAX) {
            survey.add(fold(*server), now);
        }
        survey
    }

    fn add(&mut self, server: SocketAddr, now: MonoTime) {
        let plain = self.entropy.transaction();
        let request = MessageBuilder::binding_request(plain)
            .pad_to(REQUEST_BYTES, FINGERPRINT_ATTRIBUTE_BYTES)
            .fingerprint()
            .finish();
        // Of a fixed length far below the longest.
        let Ok(request) = request.map(Bytes::from) else { return };
        self.out.push(Transmit { to: server, bytes: request.clone() });
        self.targets.push(Target {
            server,
            plain,
            request,
            signed: None,
            nonce: Vec::new(),
            asked_at: now,
            repeat_at: now.plus_ms(REPEAT_MS_FIRST),
            reply: Reply::Silent,
            is_done: false,
        });
    }

    /// What each target has answered so far, in the order in which they were given.
    pub fn replies(&self) -> impl Iterator<Item = (SocketAddr, Reply)> {
        self.targets.iter().map(|target| (target.server, target.reply))
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self, now: MonoTime) -> bool {
        self.ends_at.is_past(now) || self.targets.iter().all(|target| target.is_done)
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop()
    }

    /// When to call [`Survey::handle_timeout`].
    pub fn poll_timeout(&self) -> MonoTime {
        let open = self.targets.iter().filter(|target| !target.is_done);
        open.map(|target| target.repeat_at).min().unwrap_or(MonoTime::NEVER).min(self.ends_at)
    }

    /// Repeats what is due.
    pub fn handle_timeout(&mut self, now: MonoTime) {
        if self.ends_at.is_past(now) {
            return;
        }
        for target in self.targets.iter_mut().filter(|target| !target.is_done && target.repeat_at.is_past(now)) {
            target.repeat_at = now.plus_ms(REPEAT_MS);
            let spellings: Vec<Bytes> = match &target.signed {
                Some(signed) => signed.spellings().cloned().collect(),
                None => vec![target.request.clone()],
            };
            for bytes in spellings {
                self.out.push(Transmit { to: target.server, bytes });
            }
        }
    }

    /// Takes a datagram; what is no answer to this survey is passed over.
    pub fn handle_input(&mut self, datagram: &[u8], from: SocketAddr, now: MonoTime) {
        let from = fold(from);
        let Ok(message) = Message::parse(datagram) else { return };
        let Some(target) = self.targets.iter().position(|target| target.server == from) else { return };
        if self.targets[target].is_done || message.method() != Method::BINDING {
            return;
        }
        if message.transaction() == self.targets[target].plain {
            self.plain_answer(target, &message, now);
        } else {
            self.signed_answer(target, &message, now);
        }
    }

    fn plain_answer(&mut self, position: usize, message: &Message<'_>, now: MonoTime) {
        if message.check_fingerprint() == FingerprintCheck::Wrong {
            return;
        }
        let target = &mut self.targets[position];
        let round_trip_us = micros(target.asked_at, now);
        match message.class() {
            Class::Success => {
                if let Ok(Some(mapped)) = message.xor_address(AttributeType::XOR_MAPPED_ADDRESS) {
                    target.reply = Reply::Mapped { mapped: fold(mapped), round_trip_us };
                    target.is_done = true;
                }
            }
            Class::Error => {
                let nonce = message.attribute(AttributeType::NONCE).filter(|nonce| !nonce.is_empty());
                let (Ok(Some(401)), Some(nonce), true) = (message.error_code(), nonce, target.signed.is_none()) else {
                    return;
                };
                target.reply = Reply::Challenged { round_trip_us };
                target.is_done = self.credential.is_none();
                self.sign(position, nonce.to_vec(), now);
            }
            Class::Request | Class::Indication => {}
        }
    }

    fn signed_answer(&mut self, position: usize, message: &Message<'_>, now: MonoTime) {
        let (Some(credential), Some(signed)) = (&self.credential, &mut self.targets[position].signed) else { return };
        match signed.judge(message, credential) {
            Verdict::Nothing | Verdict::Stale { .. } => {}
            Verdict::Challenge { nonce, .. } => self.sign(position, nonce, now),
            Verdict::Success => {
                let target = &mut self.targets[position];
                if let Ok(Some(mapped)) = message.xor_address(AttributeType::XOR_MAPPED_ADDRESS) {
                    target.reply = Reply::Mapped { mapped: fold(mapped), round_trip_us: micros(target.asked_at, now) };
                }
                target.is_done = true;
            }
            // A number of ours went to another target and was there first: the next one is above both.
            Verdict::Refused(refusal) if refusal.reason == reason::OLD_SEQUENCE => {
                self.sequence = refusal.sequence.unwrap_or(self.sequence);
                let target = &mut self.targets[position];
                target.signed = None;
                let nonce = std::mem::take(&mut target.nonce);
                self.sign(position, nonce, now);
            }
            Verdict::Refused(_) => self.targets[position].is_done = true,
        }
    }

    /// Asks a target that challenges once more, under the credential.
    fn sign(&mut self, position: usize, nonce: Vec<u8>, now: MonoTime) {
        let Some(credential) = &self.credential else { return };
        self.sequence = self.sequence.saturating_add(1);
        let (transaction, sequence) = (self.entropy.transaction(), Some(self.sequence));
        let target = &mut self.targets[position];
        target.nonce.clone_from(&nonce);
        let bytes = match &mut target.signed {
            Some(signed) => signed.add(credential, transaction, nonce, sequence),
            None => {
                let signed = Exchange::with_nonce(credential, transaction, nonce, sequence);
                let bytes = signed.spellings().next().cloned();
                target.signed = Some(signed);
                bytes
            }
        };
        if let Some(bytes) = bytes {
            target.asked_at = now;
            target.repeat_at = now.plus_ms(REPEAT_MS_FIRST);
            self.out.push(Transmit { to: target.server, bytes });
        }
    }
}

fn micros(from: MonoTime, to: MonoTime) -> u64 {
    to.0.saturating_sub(from.0) / 1_000
}
