//! The UDP edge: STUN in, questions to the lane, STUN out (`docs/udp-protocol.md`).
//!
//! [`Responder`] is sans-I/O: `(bytes, arrival, now)` give a [`Decision`], and what the lane said to a [`Question`] becomes a
//! [`Transmit`] by [`Answerer`]. [`UdpNotices`] carries what the store did from the writer to the edge, and [`Indications`]
//! make of it what hosts and both sides of introductions are told. [`UdpEdge`] owns the sockets and never waits for the lane:
//! what one system call read is judged, asked of the lane in one pass, and then answered.

mod answerer;
mod budget;
mod conversation;
mod cookie;
mod engine;
mod indications;
mod introduce;
mod lane;
mod metrics;
mod notices;
mod question;
mod reason;
mod responder;
mod routes;
mod run;
mod schedule;
mod settings;
mod socket;
#[cfg(test)]
mod tests;
mod username;

pub use answerer::Answerer;
pub use cookie::{CookieKey, NONCE_PREFIX};
pub use indications::{Indications, Said};
pub use notices::UdpNotices;
pub use question::{Arrival, Decision, Listener, Local, Question, ReplyTo, Silence, Transmit};
pub use reason::Reason;
pub use responder::{Protocol, Responder};
pub use run::UdpEdge;
pub use settings::{Budgets, Entropy, UdpSettings};
pub use socket::LocalAddrs;
