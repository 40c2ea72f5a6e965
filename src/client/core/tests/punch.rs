use super::super::punch::{CANDIDATES_MAX, PunchEvent, Puncher};
use super::*;
use crate::domain::Role;
use std::collections::BTreeSet;

const KEY: &str = "the peers' key";
const HOST: &str = "198.51.100.1:1000";
const JOINER: &str = "198.51.100.2:2000";

fn puncher(role: Role, seed: u8) -> Puncher {
    Puncher::new(ATTEMPT, role, Secret::new(KEY), entropy(seed), at(0))
}

fn sent(puncher: &mut Puncher) -> Vec<Transmit> {
    drain(|| puncher.poll_transmit())
}

fn input(puncher: &mut Puncher, datagram: &[u8], from: &str, now: MonoTime) -> bool {
    puncher.handle_message(&Message::parse(datagram).unwrap(), address(from), now)
}

/// A request of the host, signed with `key`.
fn request(name: &str, key: &str, seed: u8) -> Vec<u8> {
    MessageBuilder::binding_request(entropy(seed).transaction())
        .text(AttributeType::USERNAME, &format!("{ATTEMPT}.{name}"))
        .integrity(key.as_bytes())
        .fingerprint()
        .finish()
        .unwrap()
}

#[test]
fn one_datagram_per_50_ms_to_each_address_in_turn_for_ten_seconds() {
    let mut puncher = puncher(Role::Joiner, 3);
    let addresses = ["198.51.100.1:1", "198.51.100.1:2", "198.51.100.1:3"].map(address);
    addresses.iter().for_each(|to| assert!(puncher.add(*to)));
    let mut log = Vec::new();
    while let Some(due) = puncher.poll_timeout() {
        puncher.handle_timeout(due);
        log.extend(sent(&mut puncher).into_iter().map(|transmit| (due.ms_since(at(0)), transmit.to)));
    }
    assert_eq!(log.len(), 200);
    for (n, (ms, to)) in log.iter().enumerate() {
        assert_eq!((*ms, *to), (n as u64 * 50, addresses[n % 3]));
    }
    assert_eq!(puncher.poll_event(), Some(PunchEvent::Failed));
}

#[test]
fn an_address_is_chosen_by_a_signed_answer_to_our_own_request_from_it_alone() {
    let mut puncher = puncher(Role::Joiner, 3);
    puncher.add(address(HOST));
    puncher.add(address("198.51.100.1:1001"));
    puncher.handle_timeout(at(0));
    let asked = sent(&mut puncher).pop().unwrap();
    assert_eq!(asked.to, address(HOST));
    let right = success(&asked.bytes, KEY.as_bytes(), |answer| answer);
    let mut other_transaction = request("h", KEY, 50);
    other_transaction = success(&other_transaction, KEY.as_bytes(), |answer| answer);
    assert!(!input(&mut puncher, &other_transaction, HOST, at(30)), "not our transaction");
    assert!(!input(&mut puncher, &success(&asked.bytes, b"forger", |a| a), HOST, at(30)), "not signed");
    assert!(!input(&mut puncher, &right, "198.51.100.1:1001", at(30)), "not from where it was asked");
    assert!(!input(&mut puncher, &right, "198.51.100.66:6", at(30)), "from nowhere");
    assert_eq!(puncher.poll_event(), None);
    assert!(input(&mut puncher, &right, HOST, at(42)));
    let Some(PunchEvent::Chosen(path)) = puncher.poll_event() else { panic!("chosen") };
    assert_eq!((path.peer, path.round_trip_us), (address(HOST), 42_000));
    assert_eq!(puncher.poll_timeout(), None);
}

#[test]
fn a_request_of_the_peer_is_answered_and_adds_only_its_source() {
    let mut puncher = puncher(Role::Joiner, 3);
    puncher.add(address(HOST));
    let asked = request("h", KEY, 50);
    assert!(input(&mut puncher, &asked, "198.51.100.1:7777", at(10)));
    let answers = sent(&mut puncher);
    let answer = Message::parse(&answers[0].bytes).unwrap();
    assert_eq!((answers.len(), answers[0].to, answer.class()), (1, address("198.51.100.1:7777"), Class::Success));
    assert!(answer.verify_integrity(KEY.as_bytes()));
    assert_eq!(answer.xor_address(AttributeType::XOR_MAPPED_ADDRESS), Ok(Some(address("198.51.100.1:7777"))));
    assert!(answers[0].bytes.len() <= asked.len(), "never more than was asked");
    assert_eq!(puncher.poll_event(), None, "a request chooses nothing");
    puncher.handle_timeout(at(10));
    assert_eq!(sent(&mut puncher)[0].to, address("198.51.100.1:7777"), "the likeliest address is next");
}

#[test]
fn case_x5_at_most_eight_addresses_are_ever_asked() {
    let mut puncher = puncher(Role::Joiner, 3);
    puncher.add(address(HOST));
    for n in 0..30 {
        input(&mut puncher, &request("h", KEY, n), &format!("198.51.100.50:{}", 100 + n), at(0));
    }
    sent(&mut puncher);
    let mut asked = BTreeSet::new();
    while let Some(due) = puncher.poll_timeout() {
        puncher.handle_timeout(due);
        asked.extend(sent(&mut puncher).into_iter().map(|transmit| transmit.to));
    }
    assert_eq!(asked.len(), CANDIDATES_MAX);
}

#[test]
fn reflected_and_forged_requests_are_neither_answered_nor_followed() {
    let mut puncher = puncher(Role::Joiner, 3);
    puncher.add(address(HOST));
    puncher.handle_timeout(at(0));
    let own = sent(&mut puncher).pop().unwrap();
    assert!(input(&mut puncher, &own.bytes, HOST, at(5)), "ours, so nobody else's");
    assert!(!input(&mut puncher, &request("h", "a guess", 50), "198.51.100.66:6", at(5)));
    let other = MessageBuilder::binding_request(entropy(8).transaction())
        .text(AttributeType::USERNAME, &format!("{}.h", AttemptId(1)))
        .integrity(KEY.as_bytes())
        .finish()
        .unwrap();
    assert!(!input(&mut puncher, &other, "198.51.100.66:6", at(5)), "another attempt's");
    assert_eq!(sent(&mut puncher), []);
    let mut asked = BTreeSet::new();
    while let Some(due) = puncher.poll_timeout() {
        puncher.handle_timeout(due);
        asked.extend(sent(&mut puncher).into_iter().map(|transmit| transmit.to));
    }
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), [address(HOST)]);
    assert_eq!(puncher.poll_event(), Some(PunchEvent::Failed), "a mirror is no peer");
}

#[test]
fn an_address_that_works_one_way_only_does_not_take_every_turn() {
    let mut puncher = puncher(Role::Joiner, 3);
    puncher.add(address(HOST));
    let mut asked = Vec::new();
    for n in 0..20_u8 {
        input(&mut puncher, &request("h", KEY, n), "198.51.100.1:7777", at(u64::from(n) * 50));
        puncher.handle_timeout(at(u64::from(n) * 50));
        let requests =
            sent(&mut puncher).into_iter().filter(|t| Message::parse(&t.bytes).unwrap().class() == Class::Request);
        asked.extend(requests.map(|transmit| transmit.to));
    }
    assert_eq!(asked.iter().filter(|to| **to == address(HOST)).count(), 10);
}

/// Two punchers, and a network that loses, doubles and delays. The joiner sits behind a NAT that shows it under an
/// address of which the host was not told.
fn meet(seed: u8) -> (Option<PunchEvent>, Option<PunchEvent>) {
    let mut chance = entropy(seed);
    let (mut host, mut joiner) = (puncher(Role::Host, seed ^ 0x55), puncher(Role::Joiner, seed ^ 0xAA));
    host.add(address("198.51.100.2:9"));
    joiner.add(address(HOST));
    let mut wire: Vec<(u64, bool, Vec<u8>)> = Vec::new();
    for ms in 0..10_000 {
        let now = at(ms);
        for (to_host, side) in [(true, &mut joiner), (false, &mut host)] {
            if side.poll_timeout().is_some_and(|due| due.is_past(now)) {
                side.handle_timeout(now);
            }
            for transmit in sent(side) {
                let reaches = to_host || transmit.to == address(JOINER);
                for _ in 0..chance.between(0, 2) * u64::from(reaches) {
                    wire.push((ms + 1 + chance.between(0, 300), to_host, transmit.bytes.to_vec()));
                }
            }
        }
        let (arrived, later) = wire.into_iter().partition(|(due, ..)| *due <= ms);
        wire = later;
        let arrived: Vec<(u64, bool, Vec<u8>)> = arrived;
        for (_, to_host, bytes) in arrived {
            let (side, from) = if to_host { (&mut host, JOINER) } else { (&mut joiner, HOST) };
            input(side, &bytes, from, now);
        }
    }
    (host.poll_event(), joiner.poll_event())
}

#[test]
fn both_sides_meet_over_a_network_that_loses_doubles_and_reorders() {
    for seed in 0..100 {
        let (host, joiner) = meet(seed);
        let peer = |event| if let Some(PunchEvent::Chosen(path)) = event { Some(path.peer) } else { None };
        assert_eq!((peer(host), peer(joiner)), (Some(address(JOINER)), Some(address(HOST))), "seed {seed}");
    }
}
