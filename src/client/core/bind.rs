//! Binds one family of one role of an attempt.

use super::exchange::{Credential, Exchange, Refusal, Verdict, reason};
use super::{Entropy, Outbox, Transmit};
use crate::domain::MonoTime;
use crate::stun::{AttributeType, Message};
use std::fmt;
use std::net::SocketAddr;

/// Repetition while an answer or the other side is expected any moment.
const REPEAT_MS_FAST: u64 = 500;
/// How long that is.
const FAST_MS: u64 = 5_000;
/// Repetition afterwards.
const REPEAT_MS_SLOW: u64 = 2_000;
/// The server drops an attempt that its joiner has not bound within 10 s; without an answer by then there will be none.
const UNANSWERED_MS: u64 = 10_000;

/// Why a bind ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindRefusal {
    /// No signed answer came within ten seconds: UDP is blocked on the way, or the server is gone.
    Unanswered,
    /// The attempt has ended.
    Gone,
    /// The host refused.
    Refused,
    /// This role and family are bound from another address: the address of this side has changed.
    OtherEndpoint,
    /// This role and family are bound by bytes that this side has not.
    OtherDatagram,
    /// Both roles use one address and port.
    SameEndpoint,
    /// One side has IPv4 only, the other IPv6 only.
    NoCommonFamily,
    /// The server is going down.
    Draining,
    /// The deadline of the attempt passed.
    Deadline,
    /// Another signed refusal: its STUN code and RV-REASON.
    Other(u16, u16),
}

impl BindRefusal {
    /// Whether it is about this side's address and not about the attempt or the other side.
    pub fn is_about_address(self) -> bool {
        match self {
            Self::Unanswered
            | Self::OtherEndpoint
            | Self::OtherDatagram
            | Self::SameEndpoint
            | Self::Deadline
            | Self::Other(..) => true,
            Self::Gone | Self::Refused | Self::NoCommonFamily | Self::Draining => false,
        }
    }
}

impl fmt::Display for BindRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unanswered => "no answer over UDP within 10 s",
            Self::Gone => "the attempt has ended",
            Self::Refused => "the host refused",
            Self::OtherEndpoint => "bound from another address already",
            Self::OtherDatagram => "bound by another datagram already",
            Self::SameEndpoint => "both sides use one address and port",
            Self::NoCommonFamily => "one side has only IPv4, the other only IPv6",
            Self::Draining => "the server is going down",
            Self::Deadline => "nothing happened before the deadline",
            Self::Other(code, reason) => return write!(f, "refused with code {code}, reason {reason}"),
        })
    }
}

/// What a binder found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BindEvent {
    /// Own address as the server sees it.
    Bound(SocketAddr),
    /// It will not happen.
    Ended(BindRefusal),
}

/// The binder of one family.
#[derive(Debug)]
pub(super) struct Binder {
    server: SocketAddr,
    exchange: Exchange,
    started: MonoTime,
    repeat_at: MonoTime,
    state: State,
    out: Outbox<Transmit, 8>,
    events: Outbox<BindEvent, 4>,
    entropy: Entropy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    Bound,
    Ended,
}

impl Binder {
    pub(super) fn new(server: SocketAddr, credential: &Credential, mut entropy: Entropy, now: MonoTime) -> Self {
        let exchange = Exchange::first(credential, entropy.transaction());
        let mut binder = Self {
            server,
            exchange,
            started: now,
            repeat_at: now,
            state: State::Asking,
            out: Outbox::default(),
            events: Outbox::default(),
            entropy,
        };
        binder.handle_timeout(now);
        binder
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop()
    }

    pub(super) fn poll_event(&mut self) -> Option<BindEvent> {
        self.events.pop()
    }

    pub(super) fn poll_timeout(&self) -> Option<MonoTime> {
        match self.state {
            State::Asking => Some(self.repeat_at.min(self.started.plus_ms(UNANSWERED_MS))),
            State::Bound => Some(self.repeat_at),
            State::Ended => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: MonoTime) {
        if self.state == State::Asking && self.started.plus_ms(UNANSWERED_MS).is_past(now) {
            self.end(BindRefusal::Unanswered);
        }
        if self.state == State::Ended || !self.repeat_at.is_past(now) {
            return;
        }
        for bytes in self.exchange.spellings() {
            self.out.push(Transmit { to: self.server, bytes: bytes.clone() });
        }
        let fast = now.ms_since(self.started) < FAST_MS;
        self.repeat_at = now.plus_ms(if fast { REPEAT_MS_FAST } else { REPEAT_MS_SLOW });
    }

    /// Judges an answer; true when it is a signed success, whose introduction the caller may read.
    pub(super) fn handle_answer(&mut self, message: &Message<'_>, credential: &Credential, from: SocketAddr) -> bool {
        if from != self.server || self.state == State::Ended {
            return false;
        }
        match self.exchange.judge(message, credential) {
            Verdict::Nothing | Verdict::Stale { .. } => {}
            Verdict::Challenge { nonce, .. } => {
                let transaction = self.entropy.transaction();
                if let Some(bytes) = self.exchange.add(credential, transaction, nonce, None) {
                    self.out.push(Transmit { to: self.server, bytes });
                }
            }
            Verdict::Success => {
                self.bound(message);
                return true;
            }
            Verdict::Refused(refusal) => self.refuse(refusal),
        }
        false
    }

    /// Nothing more is sent.
    pub(super) fn stop(&mut self) {
        self.state = State::Ended;
    }

    fn bound(&mut self, message: &Message<'_>) {
        if self.state == State::Asking {
            self.state = State::Bound;
            if let Ok(Some(mapped)) = message.xor_address(AttributeType::XOR_MAPPED_ADDRESS) {
                self.events.push(BindEvent::Bound(mapped));
            }
        }
    }

    /// The slot belongs to the first bytes that the server accepted, which may be any spelling: `other_datagram` says that
    /// it isn't this one, and the rest go on, oldest first.
    fn refuse(&mut self, refusal: Refusal) {
        let refusal = match refusal.reason {
            reason::OTHER_DATAGRAM if !self.exchange.is_exhausted() => return,
            reason::OTHER_DATAGRAM => BindRefusal::OtherDatagram,
            reason::GONE => BindRefusal::Gone,
            reason::REFUSED => BindRefusal::Refused,
            reason::OTHER_ENDPOINT => BindRefusal::OtherEndpoint,
            reason::SAME_ENDPOINT => BindRefusal::SameEndpoint,
            reason::NO_COMMON_FAMILY => BindRefusal::NoCommonFamily,
            reason::DRAINING => BindRefusal::Draining,
            other => BindRefusal::Other(refusal.code, other),
        };
        self.end(refusal);
    }

    fn end(&mut self, refusal: BindRefusal) {
        if self.state != State::Ended {
            self.state = State::Ended;
            self.events.push(BindEvent::Ended(refusal));
        }
    }
}
