//! One worker: a host with some listings, a browser and a joiner, on one connection and two sockets.
//!
//! It keeps what it has listed alive, as hosts do, besides the load: presence at the advised interval, a renewal at half of
//! the lease. That upkeep is not measured.

mod browse;
mod commands;
mod host;
mod join;

use super::drive::Operator;
use super::http::Connection;
use super::mix::Kind;
use super::tally::Outcome;
use super::udp::Port;
use crate::client::core::Entropy;
use crate::client::http::SessionId;
use crate::clock::{Clock, SharedClock};
use crate::credentials::Secret;
use crate::domain::{ListingId, MonoTime};
use browse::Browser;
pub(crate) use browse::protocol;
use bytes::Bytes;
use std::time::Duration;

/// Listings are spread over so many protocols, so that pages come from different scopes.
pub(super) const PROTOCOLS: u64 = 10;

/// Upkeep that falls due within it is done at once, in one go.
const UPKEEP_AHEAD_MS: u64 = 500;
/// With nothing to keep alive.
const NO_UPKEEP: Duration = Duration::from_secs(3_600);

/// A listing that this worker owns.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: ListingId,
    pub(super) token: Secret,
    pub(super) version: u64,
    pub(super) ttl_ms: u32,
    pub(super) username: String,
    pub(super) password: Secret,
    pub(super) key: [u8; 32],
    pub(super) sequence: u64,
    pub(super) presence_due: MonoTime,
    pub(super) presence_interval_ms: u32,
    pub(super) renewal_due: MonoTime,
}

/// Who speaks: tokens of the worker as host and as joiner.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) host: Secret,
    pub(super) joiner: Secret,
}

/// Its two sockets: both roles of a join must not come from one address and port.
pub(super) struct Ports {
    pub(super) host: Port,
    pub(super) joiner: Port,
}

/// One worker.
pub(super) struct Player {
    pub(super) connection: Connection,
    /// `None` where the mix needs no UDP and the server has none.
    pub(super) ports: Option<Ports>,
    pub(super) identity: Identity,
    /// `/v1/tenants/<tenant>`, with the server's prefix.
    pub(super) base: String,
    pub(super) leases: Vec<Lease>,
    /// Listings that it may own: registering beyond them deletes the oldest first.
    pub(super) leases_max: usize,
    pub(super) clock: SharedClock,
    pub(super) entropy: Entropy,
    /// STUN URIs that the server named with the last registration.
    pub(super) stun: Vec<String>,
    /// Sessions of the command plane, as many as there were to be.
    pub(super) sessions: Vec<SessionId>,
    input: Bytes,
    browser: Browser,
    /// The lease, or the session, whose turn it is.
    turn: usize,
    upkeep_due: MonoTime,
}

/// What a worker is made of.
pub(super) struct Parts {
    pub(super) connection: Connection,
    pub(super) ports: Option<Ports>,
    pub(super) identity: Identity,
    pub(super) base: String,
    pub(super) leases_max: usize,
    pub(super) clock: SharedClock,
    pub(super) entropy: Entropy,
}

impl Player {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { connection, ports, identity, base, leases_max, clock, entropy } = parts;
        let browser = Browser::new(&base);
        Self {
            connection,
            ports,
            identity,
            base,
            leases: Vec::with_capacity(leases_max),
            leases_max,
            clock,
            entropy,
            stun: Vec::new(),
            sessions: Vec::new(),
            input: commands::input(),
            browser,
            turn: 0,
            upkeep_due: MonoTime::NEVER,
        }
    }

    /// The position of the next lease, each in its turn.
    fn next_lease(&mut self) -> Option<usize> {
        self.turn = (self.turn + 1) % self.leases.len().max(1);
        (!self.leases.is_empty()).then_some(self.turn)
    }

    /// When the first lease needs something.
    fn plan_upkeep(&mut self) {
        let has_udp = self.ports.is_some();
        let due = |lease: &Lease| if has_udp { lease.renewal_due.min(lease.presence_due) } else { lease.renewal_due };
        self.upkeep_due = self.leases.iter().map(due).min().unwrap_or(MonoTime::NEVER);
    }
}

impl Operator for Player {
    async fn perform(&mut self, kind: Kind) -> (Kind, Outcome) {
        let result = match kind {
            Kind::Browse => self.browse().await,
            Kind::Register if self.leases.len() >= self.leases_max => {
                return (Kind::Delete, self.delete_oldest().await.unwrap_or_else(|outcome| outcome));
            }
            Kind::Register => self.register().await,
            Kind::Delete => self.delete_oldest().await,
            Kind::Renew => self.renew_next().await,
            Kind::Presence => self.presence_next().await,
            Kind::Join => self.join().await,
            Kind::Admission => self.command_next().await,
        };
        (kind, result.unwrap_or_else(|outcome| outcome))
    }

    fn upkeep_in(&self) -> Duration {
        if self.upkeep_due == MonoTime::NEVER {
            return NO_UPKEEP;
        }
        let left_ns = self.upkeep_due.0.saturating_sub(self.clock.mono().0);
        Duration::from_nanos(left_ns)
    }

    async fn upkeep(&mut self) {
        let until = self.clock.mono().plus_ms(UPKEEP_AHEAD_MS);
        for position in 0..self.leases.len() {
            // A failure shows in the load itself, or the listing ends, which shows as well.
            if self.ports.is_some() && self.leases[position].presence_due <= until {
                let _not_measured = self.presence(position).await;
            }
            if self.leases[position].renewal_due <= until {
                let _not_measured = self.renew(position).await;
            }
        }
        self.plan_upkeep();
    }

    fn random(&mut self) -> u64 {
        self.entropy.bits()
    }
}
