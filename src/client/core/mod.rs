//! What to send and when, without a socket, a clock or a random number generator of its own.
//!
//! Every machine here is driven the same way, in this order after each call that hands something in:
//!
//! 1. `handle_input(datagram, from, now)` or `handle_timeout(now)`;
//! 2. `poll_transmit()` until it is `None`: send these datagrams from the game's socket;
//! 3. `poll_event()` until it is `None`;
//! 4. `poll_timeout()`: call `handle_timeout` then, even if nothing arrives.
//!
//! [`HostCore`] keeps a listing's presence and answers attempts, [`Attempt`] is one side's try to meet the other
//! (a joiner needs nothing else), [`Lease`] decides about HTTP calls, [`Survey`] asks how a socket is seen from outside. Time is [`MonoTime`], any monotonic clock will do;
//! randomness comes from the [`Entropy`] handed in. Datagrams that aren't STUN ([`is_stun`]) are the game's own.

mod attempt;
mod bind;
mod entropy;
mod exchange;
mod host;
mod lease;
mod presence;
mod punch;
mod survey;

#[cfg(test)]
mod tests;

pub use attempt::{Attempt, AttemptEvent, AttemptSetup};
pub use bind::BindRefusal;
pub use entropy::Entropy;
pub use host::{ATTEMPTS_MAX, HostCore, HostEvent, HostSetup};
pub use lease::{Action, CallFailure, Lease};
pub use presence::PresenceEvent;
pub use punch::{CANDIDATES_MAX, Path};
pub use survey::{Reply, SURVEY_TARGETS_MAX, Survey};

use crate::domain::MonoTime;
use crate::stun::{HEADER_BYTES, MAGIC_COOKIE};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A datagram to send. The family of `to` says from which of the game's sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// The whole datagram.
    pub bytes: Bytes,
}

/// Whether a datagram belongs to this library: STUN with its cookie (RFC 7983: first byte 0 to 3). Everything else is the
/// game's, so a game must not begin a datagram of 20 bytes or more with a byte below 4 and the cookie at offset 4.
pub fn is_stun(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER_BYTES && datagram[0] < 4 && datagram[4..8] == MAGIC_COOKIE.to_be_bytes()
}

/// The earlier of two instants, either of which may be missing.
fn earlier(a: Option<MonoTime>, b: Option<MonoTime>) -> Option<MonoTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, None) => a,
        (None, b) => b,
    }
}

/// A queue that forgets the newest when its reader doesn't come: datagrams are repeated anyway, and a caller that never
/// polls loses events, not memory.
#[derive(Debug)]
struct Outbox<T, const MAX: usize>(VecDeque<T>);

impl<T, const MAX: usize> Default for Outbox<T, MAX> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, const MAX: usize> Outbox<T, MAX> {
    fn push(&mut self, item: T) {
        if self.0.len() < MAX {
            self.0.push_back(item);
        }
    }

    fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
