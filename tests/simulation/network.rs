//! The network: datagrams that get lost, doubled, delayed and so reordered, and a NAT in front of each actor.
//!
//! A NAT maps endpoint-independently and lets in only what comes from where it has sent to, so two of them can be punched.

use crate::plan::Knobs;
use crate::rng::Rng;
use rendezvous::domain::MonoTime;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Captured datagrams that an attacker may send again.
const CAPTURED_MAX: usize = 24;

/// The server's address in each family.
pub(crate) const SERVER_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), 3478);
pub(crate) const SERVER_V6: SocketAddr =
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10)), 3478);
/// Nobody's address: where an attacker sends from.
pub(crate) const STRANGER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 66)), 6666);

/// Who really sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Server,
    /// This actor, from the address it had.
    Actor(usize),
    /// Bytes that this actor sent once, from the same source.
    Repeated(usize),
    /// Somebody who may not have a say: another source, or other bytes.
    Attacker,
}

#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) origin: Origin,
}

/// One family of one actor.
#[derive(Clone, Debug)]
struct Socket {
    inner: SocketAddr,
    outer: SocketAddr,
    /// Where it has sent to since it has this outer address.
    sent_to: BTreeSet<SocketAddr>,
    /// All outer addresses so far.
    past: Vec<SocketAddr>,
}

/// An actor's place in the network.
#[derive(Clone, Debug)]
struct Place {
    lan: u8,
    sockets: Vec<Socket>,
}

pub(crate) struct Network {
    flights: BTreeMap<(MonoTime, u64), Flight>,
    places: Vec<Place>,
    captured: VecDeque<Flight>,
    sent: u64,
    next_port: u16,
    lost: u64,
    doubled: u64,
    delay_ms: u64,
}

impl Network {
    pub(crate) fn new(knobs: &Knobs, rng: &Rng) -> Self {
        let lans = 1 + rng.below(knobs.actors() as u64 + 2);
        let mut network = Self {
            flights: BTreeMap::new(),
            places: Vec::new(),
            captured: VecDeque::new(),
            sent: 0,
            next_port: 20_000,
            lost: knobs.lost,
            doubled: knobs.doubled,
            delay_ms: knobs.delay_ms,
        };
        for actor in 0..knobs.actors() {
            let lan = 10 + rng.below(lans) as u8;
            // Most have both families; all have one in common with most.
            let (v4, v6) = match rng.below(10) {
                0 => (false, true),
                1..=4 => (true, true),
                _ => (true, false),
            };
            let number = actor as u8;
            let mut sockets = Vec::new();
            if v4 {
                let inner = SocketAddr::from(([192, 168, lan, 10 + number], 4_000 + u16::from(number)));
                sockets.push(network.socket(inner, lan));
            }
            if v6 {
                let ip = [0x2001, 0xdb8, 1, lan.into(), 0, 0, 0, 10 + u16::from(number)];
                sockets.push(network.socket(SocketAddr::from((ip, 5_000 + u16::from(number))), lan));
            }
            network.places.push(Place { lan, sockets });
        }
        network
    }

    /// No more faults: what is sent arrives soon, once.
    pub(crate) fn calm(&mut self) {
        (self.lost, self.doubled, self.delay_ms) = (0, 0, 20);
    }

    fn socket(&mut self, inner: SocketAddr, lan: u8) -> Socket {
        let outer = self.outer(inner, lan);
        Socket { inner, outer, sent_to: BTreeSet::new(), past: vec![outer] }
    }

    /// A fresh outer address. There is no NAT in IPv6, but a host's prefix changes.
    fn outer(&mut self, inner: SocketAddr, lan: u8) -> SocketAddr {
        self.next_port += 1;
        match inner.ip() {
            IpAddr::V4(_) => SocketAddr::from(([203, 0, 113, lan], self.next_port)),
            IpAddr::V6(ip) => {
                let [a, b, c, d, .., h] = ip.segments();
                SocketAddr::from(([a, b, c, d, 0, 0, self.next_port, h], inner.port()))
            }
        }
    }

    /// The NAT forgets: everything goes out from another address now, and nothing comes in by the old one.
    pub(crate) fn rebind(&mut self, actor: usize) {
        let lan = self.places[actor].lan;
        let fresh: Vec<_> = self.places[actor].sockets.iter().map(|socket| socket.inner).collect();
        for (position, inner) in fresh.into_iter().enumerate() {
            let outer = self.outer(inner, lan);
            let socket = &mut self.places[actor].sockets[position];
            socket.outer = outer;
            socket.sent_to.clear();
            socket.past.push(outer);
        }
    }

    /// The server's addresses that an actor can reach.
    pub(crate) fn servers(&self, actor: usize) -> Vec<SocketAddr> {
        let has = |v4| self.places[actor].sockets.iter().any(|socket| socket.inner.is_ipv4() == v4);
        [SERVER_V4, SERVER_V6].into_iter().filter(|server| has(server.is_ipv4())).collect()
    }

    /// The private address that an actor may declare.
    pub(crate) fn candidate(&self, actor: usize) -> Option<SocketAddr> {
        self.places[actor].sockets.iter().map(|socket| socket.inner).find(SocketAddr::is_ipv4)
    }

    /// Whether two actors have a family in common.
    pub(crate) fn can_meet(&self, one: usize, other: usize) -> bool {
        let families = |actor: usize| self.places[actor].sockets.iter().map(|socket| socket.inner.is_ipv4());
        families(one).any(|v4| families(other).any(|also| v4 == also))
    }

    /// Whether the address is one of an actor's, by which it was ever seen.
    pub(crate) fn is_of(&self, actor: usize, address: SocketAddr) -> bool {
        self.places[actor].sockets.iter().any(|socket| socket.inner == address || socket.past.contains(&address))
    }

    /// Sends from an actor; without a socket of the family nothing happens.
    pub(crate) fn send(&mut self, actor: usize, to: SocketAddr, bytes: &[u8], now: MonoTime, rng: &Rng) {
        let lan = self.places[actor].lan;
        let Some(socket) = self.places[actor].sockets.iter_mut().find(|socket| socket.inner.is_ipv4() == to.is_ipv4())
        else {
            return;
        };
        let is_inside = matches!(to.ip(), IpAddr::V4(ip) if ip.is_private());
        if is_inside && !matches!(to.ip(), IpAddr::V4(ip) if ip.octets()[2] == lan) {
            return;
        }
        let from = if is_inside { socket.inner } else { socket.outer };
        socket.sent_to.insert(to);
        let flight = Flight { from, to, bytes: bytes.to_vec(), origin: Origin::Actor(actor) };
        if to == SERVER_V4 || to == SERVER_V6 {
            if self.captured.len() == CAPTURED_MAX {
                self.captured.pop_front();
            }
            self.captured.push_back(flight.clone());
        }
        self.fly(flight, now, rng);
    }

    /// Sends whatever anybody wants.
    pub(crate) fn fly(&mut self, flight: Flight, now: MonoTime, rng: &Rng) {
        if rng.chance(self.lost) {
            return;
        }
        let copies = if rng.chance(self.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            self.sent += 1;
            let due = now.plus_ms(1 + rng.below(self.delay_ms));
            self.flights.insert((due, self.sent), flight.clone());
        }
    }

    pub(crate) fn captured(&self, rng: &Rng) -> Option<Flight> {
        self.captured.get(rng.below(self.captured.len() as u64) as usize).cloned()
    }

    /// When the next datagram arrives.
    pub(crate) fn next_due(&self) -> Option<MonoTime> {
        self.flights.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next datagram that has arrived.
    pub(crate) fn arrived(&mut self, now: MonoTime) -> Option<Flight> {
        let first = self.flights.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// Whom a datagram reaches, if a NAT lets it in.
    pub(crate) fn receiver(&self, flight: &Flight) -> Option<usize> {
        self.places.iter().position(|place| {
            place.sockets.iter().any(|socket| {
                socket.inner == flight.to || socket.outer == flight.to && socket.sent_to.contains(&flight.from)
            })
        })
    }
}
