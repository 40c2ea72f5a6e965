//! A host, a joiner and a small server of their protocol on a network that loses, doubles and reorders.
//!
//! The server here is written for this test alone, from `docs/udp-protocol.md`: it shares nothing with the product's.

use super::super::attempt::{Attempt, AttemptEvent, AttemptSetup};
use super::super::host::{HostCore, HostEvent, HostSetup};
use super::*;
use crate::credentials::{
    derive, host_password, host_username, joiner_username, long_term_key, peer_key, presence_username,
};
use crate::domain::Role;
use std::collections::BTreeMap;

const HOST: &str = "198.51.100.1:1000";
const JOINER: &str = "198.51.100.2:2000";

fn presence_password() -> Secret {
    derive(b"the instance", &presence_username(LISTING))
}

/// Answers presence and binds; introduces when both have bound.
struct Server {
    passwords: BTreeMap<String, Secret>,
    present: Option<SocketAddr>,
    bound: BTreeMap<String, (SocketAddr, Vec<u8>)>,
    /// Whether the attempt has been made.
    attempt: bool,
}

impl Server {
    fn new() -> Self {
        let presence = presence_password();
        let passwords = BTreeMap::from([
            (presence_username(LISTING), presence.clone()),
            (host_username(LISTING, ATTEMPT), host_password(&presence, ATTEMPT)),
            (joiner_username(ATTEMPT), Secret::new("the joiner's")),
        ]);
        Self { passwords, present: None, bound: BTreeMap::new(), attempt: false }
    }

    fn answer(&mut self, datagram: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let request = Message::parse(datagram).ok()?;
        let name = request.text(AttributeType::USERNAME).ok()??.to_owned();
        let key = long_term_key(&name, REALM, self.passwords.get(&name)?);
        let nonce = format!("nonce for {from}");
        if request.attribute(AttributeType::NONCE) != Some(nonce.as_bytes()) || !request.verify_integrity(&key) {
            let code = if request.has_integrity() { 438 } else { 401 };
            return Some(challenge(datagram, code, &nonce));
        }
        if name.starts_with("p1.") {
            self.present = Some(from);
            let offered = self.attempt && !self.bound.contains_key(&host_username(LISTING, ATTEMPT));
            return Some(success(datagram, &key, |a| if offered { a.offer(ATTEMPT.0, 20_000) } else { a }));
        }
        let slot = self.bound.entry(name.clone()).or_insert_with(|| (from, datagram.to_vec()));
        if *slot != (from, datagram.to_vec()) {
            return Some(refusal(datagram, &key, if slot.0 == from { 3 } else { 2 }, None));
        }
        let peer = self.bound.iter().find(|(other, _)| **other != name).map(|(_, (peer, _))| *peer);
        Some(success(datagram, &key, |answer| {
            let answer = answer.u32(AttributeType::RV_LIFETIME, 20_000);
            let Some(peer) = peer else { return answer };
            answer.id(AttributeType::RV_INTRODUCTION, ATTEMPT.0).xor_address(AttributeType::RV_PEER_ADDRESS, peer)
        }))
    }

    /// The nudge to the host, under the presence credential.
    fn nudge(&self) -> Vec<u8> {
        let name = presence_username(LISTING);
        MessageBuilder::new(Class::Indication, Method::INTRODUCE, entropy(200).transaction())
            .text(AttributeType::USERNAME, &name)
            .offer(ATTEMPT.0, 20_000)
            .integrity(&long_term_key(&name, REALM, &presence_password()))
            .fingerprint()
            .finish()
            .unwrap()
    }
}

struct Flight {
    due: u64,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Loses `loss` of 100 datagrams, doubles one in ten, delays each by 1 to 80 ms.
fn send(air: &mut Vec<Flight>, chance: &mut Entropy, loss: u64, ms: u64, from: SocketAddr, transmit: Transmit) {
    if chance.between(0, 99) < loss {
        return;
    }
    let copies = if chance.between(0, 9) == 0 { 2 } else { 1 };
    for _ in 0..copies {
        let due = ms + chance.between(1, 80);
        air.push(Flight { due, from, to: transmit.to, bytes: transmit.bytes.to_vec() });
    }
}

/// Runs the story and gives when each side was connected, in milliseconds.
fn story(seed: u8, loss: u64) -> (Option<u64>, Option<u64>) {
    let mut chance = entropy(seed);
    let mut server_side = Server::new();
    let setup = HostSetup {
        listing: LISTING,
        username: presence_username(LISTING),
        password: presence_password(),
        interval_ms: 2_000,
        servers: vec![server()],
    };
    let mut host = HostCore::new(setup, entropy(seed ^ 0x0F), at(0));
    let mut joiner: Option<Attempt> = None;
    let (mut connected, mut air) = ((None, None), Vec::new());
    for ms in 0..40_000 {
        let now = at(ms);
        if joiner.is_none() && server_side.present.is_some() {
            server_side.attempt = true;
            let nudge = Transmit { to: address(HOST), bytes: server_side.nudge().into() };
            send(&mut air, &mut chance, loss, ms, server(), nudge);
            joiner = Some(Attempt::new(joiner_setup(now), entropy(seed ^ 0xF0), now));
        }
        if host.poll_timeout().is_some_and(|due| due.is_past(now)) {
            host.handle_timeout(now);
        }
        drain(|| host.poll_transmit())
            .into_iter()
            .for_each(|t| send(&mut air, &mut chance, loss, ms, address(HOST), t));
        if let Some(joiner) = &mut joiner {
            if joiner.poll_timeout().is_some_and(|due| due.is_past(now)) {
                joiner.handle_timeout(now);
            }
            let sent = drain(|| joiner.poll_transmit());
            sent.into_iter().for_each(|t| send(&mut air, &mut chance, loss, ms, address(JOINER), t));
        }
        let (arrived, later): (Vec<Flight>, Vec<Flight>) = air.into_iter().partition(|flight| flight.due <= ms);
        air = later;
        for flight in arrived {
            if flight.to == server() {
                if let Some(bytes) = server_side.answer(&flight.bytes, flight.from) {
                    let transmit = Transmit { to: flight.from, bytes: bytes.into() };
                    send(&mut air, &mut chance, loss, ms, server(), transmit);
                }
            } else if flight.to == address(HOST) {
                host.handle_input(&flight.bytes, flight.from, now);
            } else if let Some(joiner) = &mut joiner {
                joiner.handle_input(&flight.bytes, flight.from, now);
            }
        }
        while let Some(event) = host.poll_event() {
            if let HostEvent::Attempt { event: AttemptEvent::Connected(path), .. } = event {
                assert_eq!(path.peer, address(JOINER));
                connected.0 = Some(ms);
            }
        }
        while let Some(event) = joiner.as_mut().and_then(Attempt::poll_event) {
            if let AttemptEvent::Connected(path) = event {
                assert_eq!(path.peer, address(HOST));
                connected.1 = Some(ms);
            }
        }
    }
    connected
}

fn joiner_setup(now: MonoTime) -> AttemptSetup {
    AttemptSetup {
        attempt: ATTEMPT,
        role: Role::Joiner,
        username: joiner_username(ATTEMPT),
        password: Secret::new("the joiner's"),
        peer_key: peer_key(&presence_password(), ATTEMPT),
        servers: vec![server()],
        deadline: now.plus_ms(20_000),
    }
}

#[test]
fn on_a_good_network_they_meet_within_half_a_second() {
    let (host, joiner) = story(1, 0);
    assert!(host.is_some_and(|ms| ms < 1_500) && joiner.is_some_and(|ms| ms < 1_500), "{host:?} {joiner:?}");
}

#[test]
fn they_meet_though_a_third_of_all_datagrams_is_lost() {
    for seed in 0..12 {
        let connected = story(seed, 33);
        assert!(matches!(connected, (Some(_), Some(_))), "seed {seed}: {connected:?}");
    }
}

#[test]
fn a_host_answers_a_bounded_number_of_attempts_and_each_once() {
    let setup = HostSetup {
        listing: LISTING,
        username: presence_username(LISTING),
        password: presence_password(),
        interval_ms: 20_000,
        servers: vec![server()],
    };
    let mut host = HostCore::new(setup, entropy(1), at(0));
    for n in 0..200 {
        host.offer(AttemptId(n), 5_000, at(0));
        host.offer(AttemptId(n), 5_000, at(0));
    }
    let offered =
        || std::iter::from_fn(|| host.poll_event()).filter(|e| matches!(e, HostEvent::Offered { .. })).count();
    let mut offered = offered;
    assert_eq!(offered(), super::super::ATTEMPTS_MAX);
    let mut now = at(0);
    while now < at(20_000) {
        now = host.poll_timeout().expect("presence is due for ever");
        host.handle_timeout(now);
        while host.poll_transmit().is_some() {}
        while host.poll_event().is_some() {}
    }
    host.offer(AttemptId(500), 5_000, now);
    assert!(matches!(host.poll_event(), Some(HostEvent::Offered { .. })), "room again after the deadlines");
}
