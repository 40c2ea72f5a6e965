//! The relay's client against a silent relay, and against a server of the protocol on a line that may lose.

use super::*;
use crate::client::core::Entropy;
use crate::credentials::Secret;
use std::collections::BTreeMap;
use turn_server_proto::api::{TurnServerApi, TurnServerPollRet};
use turn_server_proto::server::TurnServer;

const SERVER: &str = "203.0.113.10:3478";
const RELAY: &str = "203.0.113.11:3478";
const RELAYED: &str = "203.0.113.11:50000";
const LOCAL: &str = "10.0.0.2:40000";
const PEER: &str = "198.51.100.7:7000";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ms(ms: u64) -> MonoTime {
    MonoTime(1_000_000_000).plus_ms(ms)
}

fn relay(password: &str) -> Relay {
    let grant = TurnGrant {
        uris: vec![format!("turn:{RELAY}")],
        username: "1900000000:attempt".into(),
        credential: Secret::new(password),
        ttl_ms: 3_600_000,
    };
    Relay::new(address(RELAY), address(LOCAL), address(SERVER), &grant, ms(0))
}

/// A relay's client, the relay, and the line between them.
struct World {
    relay: Relay,
    turn: TurnServer,
    now: MonoTime,
    loss: u64,
    chance: Entropy,
    /// Answers by transaction id: a retransmission gets the first answer again (RFC 8656 section 7.2), which this server,
    /// unlike coturn, doesn't do by itself.
    answers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What the relay sent on to peers: from where, to whom, what.
    passed: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
}

impl World {
    fn new(password: &str, loss: u64, seed: u8) -> Self {
        let mut turn = TurnServer::new(TransportType::Udp, address(RELAY), "a realm".into());
        turn.add_user("1900000000:attempt".into(), "minted".into());
        let chance = Entropy::new([seed; 32]);
        Self { relay: relay(password), turn, now: ms(0), loss, chance, answers: BTreeMap::new(), passed: Vec::new() }
    }

    fn arrives(&mut self) -> bool {
        self.chance.between(0, 99) >= self.loss
    }

    /// One millisecond; gives what peers' datagrams were handed to this side.
    fn step(&mut self) -> Vec<Relayed> {
        self.now = self.now.plus_ms(1);
        self.relay.handle_timeout(self.now);
        while let Some(transmit) = self.relay.poll_transmit() {
            if self.arrives() {
                let id = transmit.bytes[8..20].to_vec();
                if let Some(answer) = self.answers.get(&id).cloned() {
                    self.out(address(RELAY), address(LOCAL), answer);
                    continue;
                }
                let sent = Sent::new(transmit.bytes, TransportType::Udp, address(LOCAL), transmit.to);
                let answer = self.turn.recv(sent, at(self.now)).map(TransmitBuild::build);
                if let Some(answer) = answer {
                    self.out(answer.from, answer.to, answer.data);
                }
            }
        }
        if let TurnServerPollRet::AllocateSocket { client_addr, family, .. } = self.turn.poll(at(self.now)) {
            let (udp, relayed) = (TransportType::Udp, Ok(address(RELAYED)));
            self.turn.allocated_socket(udp, address(RELAY), client_addr, udp, family, relayed, at(self.now));
        }
        let mut handed = Vec::new();
        while let Some(sent) = self.turn.poll_transmit(at(self.now)) {
            handed.extend(self.out(sent.from, sent.to, sent.data));
        }
        handed
    }

    fn out(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) -> Option<Relayed> {
        if to != address(LOCAL) {
            self.passed.push((from, to, bytes));
            return None;
        }
        if bytes[0] == 1 {
            self.answers.insert(bytes[8..20].to_vec(), bytes.clone());
        }
        if !self.arrives() {
            return None;
        }
        match self.relay.handle_input(&bytes, from, self.now) {
            data @ Relayed::Data { .. } => Some(data),
            Relayed::Taken | Relayed::Foreign => None,
        }
    }

    fn until_event(&mut self, ms: u64) -> Option<RelayEvent> {
        (0..ms).find_map(|_| {
            self.step();
            self.relay.poll_event()
        })
    }

    /// A datagram of a peer to the relay's address for this side.
    fn peer_sends(&mut self, from: &str, bytes: &[u8]) -> Option<Relayed> {
        let sent = Sent::new(bytes.to_vec(), TransportType::Udp, address(from), address(RELAYED));
        let passed = self.turn.recv(sent, at(self.now)).map(TransmitBuild::build)?;
        self.out(passed.from, passed.to, passed.data)
    }
}

#[test]
fn a_silent_relay_is_asked_every_half_second_for_ten_seconds_and_given_up() {
    let mut relay = relay("minted");
    let (mut sent, mut now) = (Vec::new(), ms(0));
    while let Some(due) = relay.poll_timeout() {
        while let Some(transmit) = relay.poll_transmit() {
            assert_eq!(transmit.to, address(RELAY));
            sent.push(now.ms_since(ms(0)));
        }
        now = due.max(now);
        assert!(now < ms(20_000), "{sent:?}");
        relay.handle_timeout(now);
    }
    assert_eq!(sent, (0..20).map(|n| n * 500).collect::<Vec<_>>());
    assert_eq!(relay.poll_event(), Some(RelayEvent::Failed(RelayFailure::NoAllocation)));
    assert_eq!(relay.poll_event(), None, "told once");
}

#[test]
fn what_is_sent_by_relay_comes_from_its_address_and_what_comes_there_comes_back() {
    let mut world = World::new("minted", 0, 1);
    assert_eq!(world.until_event(2_000), Some(RelayEvent::Ready(address(RELAYED))));
    world.relay.send(address(SERVER), b"a bind", world.now);
    world.step();
    assert_eq!(world.passed, [(address(RELAYED), address(SERVER), b"a bind".to_vec())]);
    assert_eq!(world.peer_sends(PEER, b"early"), None, "nobody is let in who wasn't sent to");
    // The first datagram to a peer asks for the permission and is lost.
    for _ in 0..200 {
        world.relay.send(address(PEER), b"a punch", world.now);
        world.step();
    }
    assert_eq!(world.passed.last(), Some(&(address(RELAYED), address(PEER), b"a punch".to_vec())));
    let data = world.peer_sends(PEER, b"an answer");
    assert_eq!(data, Some(Relayed::Data { from: address(PEER), bytes: b"an answer".to_vec() }));
    let other_port = world.peer_sends("198.51.100.7:9999", b"moved");
    assert!(matches!(other_port, Some(Relayed::Data { .. })), "a NAT may have changed the port: {other_port:?}");
}

#[test]
fn a_wrong_credential_is_told_as_no_allocation() {
    let mut world = World::new("a guess", 0, 1);
    assert_eq!(world.until_event(16_000), Some(RelayEvent::Failed(RelayFailure::NoAllocation)));
    assert_eq!(world.relay.poll_timeout(), None);
}

#[test]
fn a_line_that_loses_a_third_each_way_only_takes_longer() {
    for seed in 0..100 {
        let mut world = World::new("minted", 33, seed);
        let ready = world.until_event(30_000);
        assert_eq!(ready, Some(RelayEvent::Ready(address(RELAYED))), "seed {seed}");
    }
}

#[test]
fn a_relay_serves_as_long_as_the_game_goes_on() {
    let mut world = World::new("minted", 0, 1);
    world.until_event(2_000);
    for _ in 0..200 {
        world.relay.send(address(PEER), b"a punch", world.now);
        world.step();
    }
    // Past the lifetime of a permission (five minutes), a nonce (ten) and an allocation (half an hour).
    let hour = ms(3_600_000);
    while world.now < hour {
        let due = world.relay.poll_timeout().expect("in use");
        world.now = due.max(world.now.plus_ms(1_000)).min(hour);
        world.step();
    }
    let data = world.peer_sends(PEER, b"still here");
    assert_eq!(data, Some(Relayed::Data { from: address(PEER), bytes: b"still here".to_vec() }));
}

#[test]
fn case_x5_a_peer_cannot_aim_this_side_at_more_than_a_punch_may_try() {
    let mut world = World::new("minted", 0, 1);
    world.until_event(2_000);
    for n in 0..50 {
        let stranger = address(&format!("198.51.100.{}:7000", 100 + n));
        for _ in 0..100 {
            world.relay.send(stranger, b"a punch", world.now);
            world.step();
        }
    }
    let mut reached: Vec<IpAddr> = world.passed.iter().map(|(_, to, _)| to.ip()).collect();
    reached.dedup();
    assert_eq!(reached.len(), CANDIDATES_MAX);
}

#[test]
fn nothing_is_kept_of_what_strangers_send() {
    let mut world = World::new("minted", 0, 1);
    world.until_event(2_000);
    assert_eq!(world.relay.handle_input(b"hello", address(PEER), world.now), Relayed::Foreign);
    for length in [0, 3, 4, 20, 200] {
        let noise = vec![0x40; length];
        assert_eq!(world.relay.handle_input(&noise, address(RELAY), world.now), Relayed::Foreign, "{length}");
    }
}
