//! A TURN client (RFC 8656) for one join, for pairs that no punch brings together.
//!
//! It behaves as a second socket: what is sent to a peer goes to the relay, which sends it from an address of its own, and
//! what the peer sends there comes back. So a bind through it shows the server the relay's address as this side's, and the
//! host punches to that address like to any other: hosts need no relay and need not know of one.
//!
//! Driven like the machines of [`core`](super::core): no socket and no clock. The protocol is `turn-client-proto`'s, which
//! draws its own transaction ids.

#[cfg(test)]
mod tests;

use super::core::{CANDIDATES_MAX, Transmit};
use super::http::TurnGrant;
use crate::domain::endpoint::fold;
use crate::domain::{Family, MonoTime};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use turn_client_proto::api::{TransmitBuild, TurnClientApi, TurnConfig, TurnEvent, TurnPollRet, TurnRecvRet};
use turn_client_proto::prelude::DelayedTransmitBuild;
use turn_client_proto::stun::Instant;
use turn_client_proto::stun::agent::Transmit as Sent;
use turn_client_proto::types::{AddressFamily, TransportType, TurnCredentials};
use turn_client_proto::udp::TurnClientUdp;

/// Permissions asked for: the server's address, and those that one punch may try.
const PERMISSIONS_MAX: usize = 1 + CANDIDATES_MAX;
/// Datagrams that wait to be sent; more are lost, as datagrams may be.
const OUT_MAX: usize = 64;
/// Repetition of a request without an answer, as a bind's: a player waits, and RFC 8489's doubling assumes patience.
const REPEAT: Duration = Duration::from_millis(500);
/// Times that a request is sent: ten seconds in all. At 30 % loss each way one in a million is never answered.
const SENDS_MAX: u32 = 20;
/// Until the relay is ready, at most: the challenge, the allocation and the permission, of which each may take some tries. A
/// relay that answers a credential by another challenge says nothing better.
const READY_MS: u64 = 15_000;
/// Steps of the protocol at one instant; it takes a handful, and a loop of its own making must not become ours.
const STEPS_MAX: usize = 32;

/// What became of the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayEvent {
    /// The server can be reached through the relay, which shows this side as this address.
    Ready(SocketAddr),
    /// There is none, or there is none any more.
    Failed(RelayFailure),
}

/// Why there is no relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayFailure {
    /// No URI of a relay could be used from here: only TURN over UDP is spoken.
    NoAddress,
    /// It doesn't answer, refuses the credential, or is full.
    NoAllocation,
    /// It refuses to send to the rendezvous server (its configuration denies that address).
    NoPermission,
    /// The server refused another attempt.
    NoAttempt,
    /// The relay works, but the host didn't come to it.
    NoPeer,
}

impl std::fmt::Display for RelayFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "no relay that speaks TURN over UDP can be reached from here",
            Self::NoAllocation => "the relay gave no address",
            Self::NoPermission => "the relay may not send to the rendezvous server",
            Self::NoAttempt => "the server refused an attempt by relay",
            Self::NoPeer => "the host didn't come to the relay",
        })
    }
}

/// What a datagram was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Relayed {
    /// Of the relay itself.
    Taken,
    /// Not the relay's.
    Foreign,
    /// What a peer sent to the relay's address.
    Data {
        /// The peer.
        from: SocketAddr,
        /// What it sent.
        bytes: Vec<u8>,
    },
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Relay {
    client: TurnClientUdp,
    local: SocketAddr,
    relay: SocketAddr,
    server: SocketAddr,
    allocated: Option<SocketAddr>,
    ready: bool,
    ready_until: MonoTime,
    asked: Vec<IpAddr>,
    due: MonoTime,
    failed: bool,
    out: VecDeque<Transmit>,
    events: VecDeque<RelayEvent>,
}

impl Relay {
    /// Asks `relay` for an address of the family of `server`, the rendezvous server. `local` is the own socket's.
    pub(crate) fn new(
        relay: SocketAddr,
        local: SocketAddr,
        server: SocketAddr,
        grant: &TurnGrant,
        now: MonoTime,
    ) -> Self {
        let mut config = TurnConfig::new(TurnCredentials::new(&grant.username, grant.credential.expose()));
        config.set_address_family(match family(server) {
            Family::V4 => AddressFamily::IPV4,
            Family::V6 => AddressFamily::IPV6,
        });
        config.set_request_retransmits(REPEAT, REPEAT, SENDS_MAX, REPEAT);
        let mut relayed = Self {
            client: TurnClientUdp::allocate(local, relay, config),
            local,
            relay,
            server,
            allocated: None,
            ready: false,
            ready_until: now.plus_ms(READY_MS),
            asked: Vec::new(),
            due: now,
            failed: false,
            out: VecDeque::new(),
            events: VecDeque::new(),
        };
        relayed.drive(now);
        relayed
    }

    /// Takes a datagram of the socket.
    pub(crate) fn handle_input(&mut self, datagram: &[u8], from: SocketAddr, now: MonoTime) -> Relayed {
        if from != self.relay || self.failed {
            return Relayed::Foreign;
        }
        let sent = Sent::new(datagram, TransportType::Udp, from, self.local);
        let relayed = match self.client.recv(sent, at(now)) {
            TurnRecvRet::PeerData(data) => Relayed::Data { from: fold(data.peer), bytes: data.data().to_vec() },
            TurnRecvRet::Ignored(_) => Relayed::Foreign,
            TurnRecvRet::Handled | TurnRecvRet::PeerIcmp { .. } => Relayed::Taken,
        };
        self.drive(now);
        relayed
    }

    /// Sends to a peer from the relay's address. As long as the relay has no permission for that peer the datagram is lost,
    /// and the permission is asked for: whoever sends repeats itself anyway.
    ///
    /// In Send indications, 36 bytes longer than the datagram. A channel would add four, but its number is used by the relay
    /// before this side has the answer that tells of it, and on a line that loses what comes until then would be lost too.
    pub(crate) fn send(&mut self, peer: SocketAddr, bytes: &[u8], now: MonoTime) {
        if self.client.have_permission(TransportType::Udp, peer.ip()) {
            if let Ok(Some(sent)) = self.client.send_to(TransportType::Udp, peer, bytes, at(now)) {
                self.push(sent);
            }
        } else {
            self.permit(peer.ip(), now);
        }
        self.drive(now);
    }

    /// Gives the address back.
    pub(crate) fn release(&mut self, now: MonoTime) {
        if self.client.delete(at(now)).is_ok() {
            self.drive(now);
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: MonoTime) {
        if self.due.is_past(now) {
            self.drive(now);
        }
        if !self.ready && self.ready_until.is_past(now) {
            self.fail(RelayFailure::NoAllocation);
        }
    }

    /// The next datagram to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next thing that happened.
    pub(crate) fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    /// When [`Relay::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<MonoTime> {
        let due = if self.ready { self.due } else { self.due.min(self.ready_until) };
        (!self.failed).then_some(due)
    }

    fn permit(&mut self, ip: IpAddr, now: MonoTime) {
        let room = self.asked.len() < PERMISSIONS_MAX;
        if room && !self.asked.contains(&ip) && self.client.create_permission(TransportType::Udp, ip, at(now)).is_ok() {
            self.asked.push(ip);
        }
    }

    fn drive(&mut self, now: MonoTime) {
        for _ in 0..STEPS_MAX {
            let due = match self.client.poll(at(now)) {
                TurnPollRet::WaitUntil(due) => MonoTime(u64::try_from(due.as_nanos()).unwrap_or(0)),
                TurnPollRet::Closed => {
                    self.fail(RelayFailure::NoAllocation);
                    now
                }
                TurnPollRet::AllocateTcpSocket { .. } | TurnPollRet::TcpClose { .. } => now,
            };
            let mut moved = false;
            while let Some(sent) = self.client.poll_transmit(at(now)) {
                moved = true;
                if self.out.len() < OUT_MAX {
                    self.out.push_back(Transmit { to: sent.to, bytes: sent.data.to_vec().into() });
                }
            }
            while let Some(event) = self.client.poll_event() {
                moved = true;
                self.note(&event, now);
            }
            self.due = due;
            if self.failed || (!moved && !due.is_past(now)) {
                return;
            }
        }
        self.due = now.plus_ms(1);
    }

    fn note(&mut self, event: &TurnEvent, now: MonoTime) {
        match event {
            TurnEvent::AllocationCreated(_, address) => {
                self.allocated = Some(fold(*address));
                self.permit(self.server.ip(), now);
            }
            TurnEvent::AllocationCreateFailed(_) => self.fail(RelayFailure::NoAllocation),
            TurnEvent::PermissionCreated(_, ip) if *ip == self.server.ip() => {
                if let Some(address) = self.allocated {
                    self.ready = true;
                    self.events.push_back(RelayEvent::Ready(address));
                }
            }
            TurnEvent::PermissionCreateFailed(_, ip) if *ip == self.server.ip() => {
                self.fail(RelayFailure::NoPermission)
            }
            // A peer that the relay doesn't serve answers no punch, and that ends by itself.
            TurnEvent::PermissionCreated(..)
            | TurnEvent::PermissionCreateFailed(..)
            | TurnEvent::ChannelCreated(..)
            | TurnEvent::ChannelCreateFailed(..)
            | TurnEvent::TcpConnected(_)
            | TurnEvent::TcpConnectFailed(_) => {}
        }
    }

    fn fail(&mut self, failure: RelayFailure) {
        if !self.failed {
            self.failed = true;
            self.events.push_back(RelayEvent::Failed(failure));
        }
    }

    fn push<T: DelayedTransmitBuild + std::fmt::Debug>(&mut self, sent: TransmitBuild<T>) {
        if self.out.len() < OUT_MAX {
            let to = sent.to;
            self.out.push_back(Transmit { to, bytes: sent.build().data.into() });
        }
    }
}

fn family(address: SocketAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

fn at(now: MonoTime) -> Instant {
    Instant::from_nanos(i64::try_from(now.0).unwrap_or(i64::MAX))
}
