//! Keeps one family's presence: one authenticated exchange per interval, repeated while no answer comes.

use super::exchange::{Credential, Exchange, Refusal, Verdict, reason};
use super::{Entropy, Outbox, Transmit};
use crate::domain::{AttemptId, InstanceId, MonoTime};
use crate::stun::{AttributeType, Message};
use std::net::SocketAddr;

/// First repetition; each next one waits twice as long, up to [`REPEAT_MS_MAX`].
const REPEAT_MS_FIRST: u64 = 500;
/// Slowest repetition: several fall into one interval of 16 to 20 s.
const REPEAT_MS_MAX: u64 = 4_000;
/// A nonce is fresh for 120 s at the server; it is used for 100 s, so that the exchange is a full one in time.
const NONCE_REUSE_MS: u64 = 100_000;
/// Without any answer for so long, the owner is told that UDP may be blocked.
const UNANSWERED_MS: u64 = 5_000;
/// Highest first RV-SEQUENCE, exclusive.
const SEQUENCE_START_MAX: u64 = 1 << 62;
/// An interval shorter than this, in a grant, would only be a flood.
const INTERVAL_MS_MIN: u64 = 20;

/// What a keeper found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresenceEvent {
    /// The server has verified this family; said again when the observed address changes.
    Verified {
        /// Own address as the server sees it.
        mapped: SocketAddr,
    },
    /// A joiner waits.
    Offer {
        /// The attempt.
        attempt: AttemptId,
        /// Until its deadline.
        left_ms: u32,
    },
    /// Unsigned, so only a reason to ask over HTTP: which instance answers.
    InstanceSeen(InstanceId),
    /// Signed: the listing has ended.
    Gone,
    /// The server is going down; come back after this time.
    Draining {
        /// Jittered by the server.
        retry_after_ms: u32,
    },
    /// No answer for five seconds, said once until an answer comes.
    Unanswered,
}

/// The keeper of one family.
#[derive(Debug)]
pub(super) struct Keeper {
    server: SocketAddr,
    credential: Credential,
    interval_ms: u64,
    nonce: Option<(Vec<u8>, MonoTime)>,
    sequence: Sequence,
    exchange: Option<Exchange>,
    /// When the next exchange begins, whether or not the current one was answered.
    due: MonoTime,
    repeat_at: MonoTime,
    repeat_ms: u64,
    answered_at: MonoTime,
    told_unanswered: bool,
    jumped: bool,
    mapped: Option<SocketAddr>,
    entropy: Entropy,
    out: Outbox<Transmit, 8>,
    events: Outbox<PresenceEvent, 32>,
}

/// Milliseconds of a monotonic clock from a random start, strictly growing.
#[derive(Debug)]
struct Sequence {
    base: u64,
    since: MonoTime,
    last: Option<u64>,
}

impl Sequence {
    fn next(&mut self, now: MonoTime) -> u64 {
        let by_clock = self.base.saturating_add(now.ms_since(self.since));
        let next = self.last.map_or(by_clock, |last| by_clock.max(last.saturating_add(1)));
        self.last = Some(next);
        next
    }

    /// Goes on above what somebody else has used.
    fn jump(&mut self, highest: u64, now: MonoTime) {
        *self = Self { base: highest.saturating_add(1), since: now, last: Some(highest) };
    }
}

impl Keeper {
    pub(super) fn new(
        server: SocketAddr,
        credential: Credential,
        interval_ms: u64,
        mut entropy: Entropy,
        now: MonoTime,
    ) -> Self {
        let base = entropy.bits() % SEQUENCE_START_MAX;
        let mut keeper = Self {
            server,
            credential,
            interval_ms: interval_ms.max(INTERVAL_MS_MIN),
            nonce: None,
            sequence: Sequence { base, since: now, last: None },
            exchange: None,
            due: now,
            repeat_at: MonoTime::NEVER,
            repeat_ms: REPEAT_MS_FIRST,
            answered_at: now,
            told_unanswered: false,
            jumped: false,
            mapped: None,
            entropy,
            out: Outbox::default(),
            events: Outbox::default(),
        };
        keeper.handle_timeout(now);
        keeper
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop()
    }

    pub(super) fn poll_event(&mut self) -> Option<PresenceEvent> {
        self.events.pop()
    }

    pub(super) fn poll_timeout(&self) -> MonoTime {
        let told = if self.told_unanswered { MonoTime::NEVER } else { self.answered_at.plus_ms(UNANSWERED_MS) };
        let waiting = if self.exchange.is_some() { self.repeat_at.min(told) } else { MonoTime::NEVER };
        self.due.min(waiting)
    }

    pub(super) fn handle_timeout(&mut self, now: MonoTime) {
        if self.due.is_past(now) {
            self.jumped = false;
            self.begin(now);
        } else if self.exchange.is_some() && self.repeat_at.is_past(now) {
            self.repeat_ms = (self.repeat_ms * 2).min(REPEAT_MS_MAX);
            self.repeat(now);
        }
        let silent = self.exchange.is_some() && self.answered_at.plus_ms(UNANSWERED_MS).is_past(now);
        if silent && !self.told_unanswered {
            self.told_unanswered = true;
            self.events.push(PresenceEvent::Unanswered);
        }
    }

    /// Whether the datagram was an answer to this keeper.
    pub(super) fn handle_answer(&mut self, message: &Message<'_>, from: SocketAddr, now: MonoTime) {
        if from != self.server {
            return;
        }
        let Some(exchange) = &mut self.exchange else { return };
        match exchange.judge(message, &self.credential) {
            Verdict::Nothing => {}
            Verdict::Challenge { nonce, instance } => {
                self.note_instance(instance);
                self.answer_challenge(nonce, now);
            }
            Verdict::Stale { instance } => self.note_instance(instance),
            Verdict::Success => self.accept(message, now),
            Verdict::Refused(refusal) => self.refuse(refusal, now),
        }
    }

    /// Offers in an answer or an indication whose integrity holds.
    pub(super) fn take_offers(&mut self, message: &Message<'_>) {
        for offer in message.offers().flatten() {
            let attempt = AttemptId(offer.attempt);
            self.events.push(PresenceEvent::Offer { attempt, left_ms: offer.left_ms });
        }
    }

    fn begin(&mut self, now: MonoTime) {
        if self.exchange.is_none() {
            // Silence is counted from the first datagram of a row that nobody answered.
            self.answered_at = now;
        }
        let transaction = self.entropy.transaction();
        // An unanswered exchange may mean that the address changed, for which the old nonce is worth nothing.
        let usable = self.exchange.is_none();
        let nonce = self.nonce.take().filter(|(_, got)| usable && now.ms_since(*got) < NONCE_REUSE_MS);
        self.exchange = Some(match &nonce {
            Some((nonce, _)) => {
                let sequence = self.sequence.next(now);
                Exchange::with_nonce(&self.credential, transaction, nonce.clone(), Some(sequence))
            }
            None => Exchange::first(&self.credential, transaction),
        });
        self.nonce = nonce;
        self.due = now.plus_ms(self.interval_ms);
        self.repeat_ms = REPEAT_MS_FIRST;
        self.repeat(now);
    }

    fn repeat(&mut self, now: MonoTime) {
        let Some(exchange) = &self.exchange else { return };
        for bytes in exchange.spellings() {
            self.out.push(Transmit { to: self.server, bytes: bytes.clone() });
        }
        self.repeat_at = now.plus_ms(self.repeat_ms);
    }

    fn answer_challenge(&mut self, nonce: Vec<u8>, now: MonoTime) {
        let Some(exchange) = &mut self.exchange else { return };
        let sequence = self.sequence.next(now);
        let transaction = self.entropy.transaction();
        self.nonce = Some((nonce.clone(), now));
        if let Some(bytes) = exchange.add(&self.credential, transaction, nonce, Some(sequence)) {
            self.out.push(Transmit { to: self.server, bytes });
        }
    }

    fn accept(&mut self, message: &Message<'_>, now: MonoTime) {
        let accepted = self.exchange.take().and_then(|exchange| exchange.accepted_nonce().map(<[u8]>::to_vec));
        // A nonce that was forged or overtaken is forgotten, an accepted one keeps the time when it was got.
        self.nonce = self.nonce.take().filter(|(nonce, _)| Some(nonce) == accepted.as_ref());
        self.answered(now, self.interval_ms);
        if let Ok(Some(mapped)) = message.xor_address(AttributeType::XOR_MAPPED_ADDRESS)
            && self.mapped.replace(mapped) != Some(mapped)
        {
            self.events.push(PresenceEvent::Verified { mapped });
        }
        if let Ok(Some(retry_after_ms)) = message.u32(AttributeType::RV_RETRY_AFTER) {
            self.events.push(PresenceEvent::Draining { retry_after_ms });
        }
        self.take_offers(message);
    }

    fn refuse(&mut self, refusal: Refusal, now: MonoTime) {
        let wait_ms = refusal.retry_after_ms.map_or(self.interval_ms, u64::from).max(INTERVAL_MS_MIN);
        match refusal.reason {
            reason::OLD_SEQUENCE => self.old_sequence(refusal.sequence, now),
            reason::GONE | reason::REFUSED => {
                self.exchange = None;
                self.answered(now, self.interval_ms);
                self.events.push(PresenceEvent::Gone);
            }
            reason::DRAINING => {
                self.exchange = None;
                self.answered(now, wait_ms);
                let retry_after_ms = refusal.retry_after_ms.unwrap_or(0);
                self.events.push(PresenceEvent::Draining { retry_after_ms });
            }
            _ => {
                self.exchange = None;
                self.answered(now, wait_ms);
            }
        }
    }

    /// Either another spelling of this exchange was accepted and its answer will come, or somebody else has used higher
    /// numbers under this credential: then once per interval ours go on above them.
    fn old_sequence(&mut self, highest: Option<u64>, now: MonoTime) {
        let ours = self.sequence.last.unwrap_or(0);
        match highest {
            Some(highest) if highest > ours && !self.jumped => {
                self.jumped = true;
                self.sequence.jump(highest, now);
                self.exchange = None;
                self.begin(now);
            }
            Some(_) | None => {
                if self.exchange.as_ref().is_some_and(Exchange::is_exhausted) {
                    self.exchange = None;
                    self.answered(now, self.interval_ms);
                }
            }
        }
    }

    fn answered(&mut self, now: MonoTime, wait_ms: u64) {
        self.answered_at = now;
        self.told_unanswered = false;
        self.due = now.plus_ms(wait_ms);
        self.repeat_at = MonoTime::NEVER;
    }

    fn note_instance(&mut self, instance: Option<InstanceId>) {
        if let Some(instance) = instance {
            self.events.push(PresenceEvent::InstanceSeen(instance));
        }
    }
}
