//! What goes in and out of the responder.

use super::conversation::Conversation;
use crate::domain::{Endpoint, Fingerprint, NoteUnverified};
use crate::service::Ask;
use crate::stun::TransactionId;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// How a listener treats a Binding request that names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Answers it with the address it came from.
    Plain,
    /// Challenges it.
    Challenging,
}

/// Our side of a path: which socket, and which of the host's addresses was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// Position among the edge's sockets.
    pub socket: usize,
    /// The address to answer from; `None` leaves the choice to the socket, which is bound to one address.
    pub ip: Option<IpAddr>,
}

/// Where a datagram came from and arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The source as the socket reports it, not folded.
    pub source: SocketAddr,
    /// Where it arrived, and where its answer leaves from.
    pub local: Local,
    /// The kind of the listener.
    pub listener: Listener,
}

/// One datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Destination.
    pub to: SocketAddr,
    /// Where it leaves from.
    pub local: Local,
    /// The message.
    pub bytes: Vec<u8>,
}

/// Why nothing is sent. A bounded set, counted by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// Empty, too long, no cookie, or lengths that disagree.
    NotStun,
    /// A response, an indication or another method: never answer an answer (case S11).
    NotABindingRequest,
    /// FINGERPRINT is there and wrong.
    Fingerprint,
    /// Port 0, a multicast, broadcast or unspecified address, or one of our own sockets.
    Source,
    /// The answer would be longer than the request, and the budget is empty.
    Budget,
}

impl Silence {
    /// Every cause, in the order of [`Silence::index`].
    pub const ALL: [Self; 5] = [Self::NotStun, Self::NotABindingRequest, Self::Fingerprint, Self::Source, Self::Budget];

    /// Position in a table.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The label in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStun => "not_stun",
            Self::NotABindingRequest => "not_a_binding_request",
            Self::Fingerprint => "fingerprint",
            Self::Source => "source",
            Self::Budget => "budget",
        }
    }
}

/// What the responder makes of one datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing is sent.
    Silence(Silence),
    /// Answered without the lane.
    Transmit(Transmit),
    /// The lane decides; its result becomes the answer.
    Ask(Box<Question>),
    /// Answered without the lane, which only notes the endpoint. No answer when the budget is empty.
    Note(NoteUnverified, Option<Transmit>),
}

/// A question to the lane, with what its answer needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question.
    pub ask: Ask,
    /// For the answer.
    pub reply: ReplyTo,
}

/// Everything about a request that its answer needs. Its integrity has been verified.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyTo {
    /// The source as the socket reported it.
    pub(super) source: SocketAddr,
    pub(super) local: Local,
    pub(super) transaction: TransactionId,
    /// Whose key signs the answer.
    pub(super) proven: Arc<Conversation>,
    /// Fingerprint of the whole request: of its integrity value, which covers what is before it, and what is behind.
    pub(super) datagram: Fingerprint,
}

impl ReplyTo {
    /// The source, folded.
    pub(super) fn endpoint(&self) -> Endpoint {
        self.proven.source
    }

    /// A number below `span_ms` that spreads retry advice: as good as random between requests, since the digest covers
    /// their integrity value, and the same for the same bytes.
    pub(super) fn spread_ms(&self, span_ms: u32) -> u32 {
        self.datagram.0 as u32 % span_ms
    }
}
