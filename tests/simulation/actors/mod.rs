//! Hosts and joiners: the client library's machines, driven as its driver drives them, with calls and datagrams that go to
//! the simulated network.

mod host;
mod joiner;

pub(crate) use host::Host;
pub(crate) use joiner::Joiner;

use crate::calls::Request;
use crate::network::Network;
use crate::rng::Rng;
use rendezvous::client::core::{AttemptEvent, CallFailure, Entropy};
use rendezvous::domain::{AttemptId, Failure, MonoTime, Path as Reported, Rejection};
use std::net::SocketAddr;

/// The protocol of every listing.
pub(crate) const PROTOCOL: &str = "arena/3";
/// Until an attempt's deadline, as long as only HTTP has told of it.
const LEFT_MS: u32 = 8_000;

/// What an actor's turn may use.
pub(crate) struct Turn<'a> {
    pub(crate) now: MonoTime,
    pub(crate) rng: &'a Rng,
    pub(crate) network: &'a mut Network,
    /// Requests to send, each after so many milliseconds.
    pub(crate) requests: &'a mut Vec<(Request, u64)>,
    /// What its machines say that the world has to judge.
    pub(crate) claims: &'a mut Vec<Claim>,
}

/// What a client believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// These are the peer's addresses.
    Introduced(AttemptId, Vec<SocketAddr>),
    /// This one works.
    Connected(AttemptId, SocketAddr),
    /// The server sees it there.
    Mapped(SocketAddr),
}

fn entropy(number: usize, life: u32, seed: u64) -> Entropy {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..12].copy_from_slice(&life.to_be_bytes());
    bytes[12] = number as u8;
    Entropy::new(bytes)
}

/// What an attempt's event means to the world, and what its side reports.
fn claim(attempt: AttemptId, event: AttemptEvent, turn: &mut Turn<'_>) {
    match event {
        AttemptEvent::Bound { mapped } => turn.claims.push(Claim::Mapped(mapped)),
        AttemptEvent::Introduced { peers } => turn.claims.push(Claim::Introduced(attempt, peers)),
        AttemptEvent::Connected(path) => {
            turn.claims.push(Claim::Connected(attempt, path.peer));
            turn.requests.push((Request::Report { attempt, path: Reported::Direct }, 0));
        }
        AttemptEvent::PunchFailed => {
            turn.requests.push((Request::Report { attempt, path: Reported::Failed }, 0));
        }
        AttemptEvent::FamilyEnded { .. } | AttemptEvent::NotIntroduced(_) => {}
    }
}

/// As the library's driver understands the codes of a problem.
fn classify(failure: Failure) -> CallFailure {
    match failure {
        Failure::Rejected(Rejection::NotFound) => CallFailure::NotFound,
        Failure::Rejected(
            Rejection::Expired | Rejection::Ended(_) | Rejection::ReplayRejected(_) | Rejection::IdempotencyMismatch,
        ) => CallFailure::KeyUsed,
        Failure::Rejected(Rejection::VersionConflict { current }) => CallFailure::Stale { current_version: current },
        Failure::Rejected(Rejection::Revoked | Rejection::Invalid(_) | Rejection::StaleNonce) => CallFailure::Fatal,
        Failure::Rejected(Rejection::CapacityExceeded(_) | Rejection::Draining { .. } | Rejection::NotReady)
        | Failure::Overloaded
        | Failure::Unavailable(_)
        | Failure::Cancelled => CallFailure::Transient { retry_after: None },
    }
}
