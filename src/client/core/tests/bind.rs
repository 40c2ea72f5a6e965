use super::super::attempt::{Attempt, AttemptEvent, AttemptSetup};
use super::super::bind::BindRefusal;
use super::*;
use crate::domain::Role;

const USERNAME: &str = "j1.x";
const V6: &str = "[2001:db8::1]:3478";

fn attempt_with(servers: &[SocketAddr]) -> Attempt {
    let setup = AttemptSetup {
        attempt: ATTEMPT,
        role: Role::Joiner,
        username: USERNAME.into(),
        password: Secret::new("a password"),
        peer_key: Secret::new("a peer key"),
        servers: servers.to_vec(),
        deadline: at(30_000),
    };
    Attempt::new(setup, entropy(2), at(0))
}

fn key() -> [u8; 32] {
    credential(USERNAME).key
}

fn sent(attempt: &mut Attempt) -> Vec<Vec<u8>> {
    drain(|| attempt.poll_transmit()).into_iter().map(|transmit| transmit.bytes.to_vec()).collect()
}

fn events(attempt: &mut Attempt) -> Vec<AttemptEvent> {
    std::iter::from_fn(|| attempt.poll_event()).collect()
}

fn challenged(attempt: &mut Attempt) -> Vec<u8> {
    let first = sent(attempt).pop().unwrap();
    attempt.handle_input(&challenge(&first, 401, "nonce-a"), server(), at(20));
    sent(attempt).pop().unwrap()
}

/// Runs the machine's own timer until `end` and notes when it sent what.
fn run(attempt: &mut Attempt, end: MonoTime) -> Vec<(u64, Vec<u8>)> {
    let mut log = Vec::new();
    while let Some(due) = attempt.poll_timeout().filter(|due| *due < end) {
        attempt.handle_timeout(due);
        log.extend(sent(attempt).into_iter().map(|bytes| (due.ms_since(at(0)), bytes)));
    }
    log
}

fn introduction(answer: MessageBuilder) -> MessageBuilder {
    answer
        .id(AttributeType::RV_INTRODUCTION, ATTEMPT.0)
        .xor_address(AttributeType::RV_PEER_ADDRESS, address("198.51.100.9:50000"))
        .xor_address(AttributeType::RV_CANDIDATE, address("192.168.1.7:5000"))
        .u32(AttributeType::RV_START_AFTER, 100)
        .u32(AttributeType::RV_LIFETIME, 25_000)
}

#[test]
fn case_s4_the_same_bytes_are_repeated_every_500_ms_for_5_s_then_every_2_s() {
    let mut attempt = attempt_with(&[server()]);
    let proof = challenged(&mut attempt);
    attempt.handle_input(&success(&proof, &key(), |a| a.u32(AttributeType::RV_LIFETIME, 20_000)), server(), at(40));
    assert_eq!(events(&mut attempt), [AttemptEvent::Bound { mapped: address("198.51.100.7:40000") }]);
    let log = run(&mut attempt, at(60_000));
    assert!(log.iter().all(|(_, bytes)| *bytes == proof), "only the accepted bytes");
    let times: Vec<u64> = log.into_iter().map(|(ms, _)| ms).collect();
    let mut expected: Vec<u64> = (1..=10).map(|n| n * 500).collect();
    expected.extend([7_000, 9_000, 11_000, 13_000, 15_000, 17_000, 19_000]);
    assert_eq!(times, expected);
    assert_eq!(events(&mut attempt), [AttemptEvent::NotIntroduced(BindRefusal::Deadline)]);
}

#[test]
fn other_datagram_leads_back_to_the_first_bytes() {
    let mut attempt = attempt_with(&[server()]);
    let first = challenged(&mut attempt);
    // The answer to `first` is lost, and a forger makes the client try another nonce.
    attempt.handle_input(&challenge(&first, 438, "forged"), server(), at(30));
    let second = sent(&mut attempt).pop().unwrap();
    attempt.handle_input(&refusal(&second, &key(), 3, None), server(), at(50));
    let repeated: Vec<Vec<u8>> = run(&mut attempt, at(600)).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(repeated.contains(&first) && !repeated.contains(&second));
    attempt.handle_input(&success(&first, &key(), |answer| answer), server(), at(620));
    assert!(matches!(events(&mut attempt)[..], [AttemptEvent::Bound { .. }]));
}

#[test]
fn other_datagram_for_every_spelling_ends() {
    let mut attempt = attempt_with(&[server()]);
    let first = challenged(&mut attempt);
    attempt.handle_input(&refusal(&first, &key(), 3, None), server(), at(50));
    let refusal = BindRefusal::OtherDatagram;
    let expected = [
        AttemptEvent::FamilyEnded { server: server(), refusal },
        AttemptEvent::NotIntroduced(BindRefusal::OtherDatagram),
    ];
    assert_eq!(events(&mut attempt), expected);
    assert_eq!(attempt.poll_timeout(), None, "nothing is left to do");
}

#[test]
fn signed_refusals_end_and_unsigned_ones_do_not() {
    for (reason, expected) in [
        (1, BindRefusal::Gone),
        (2, BindRefusal::OtherEndpoint),
        (4, BindRefusal::Draining),
        (6, BindRefusal::NoCommonFamily),
        (10, BindRefusal::Refused),
        (12, BindRefusal::SameEndpoint),
        (99, BindRefusal::Other(403, 99)),
    ] {
        let mut attempt = attempt_with(&[server()]);
        let proof = challenged(&mut attempt);
        attempt.handle_input(&refusal(&proof, b"forger", reason, None), server(), at(30));
        assert_eq!(events(&mut attempt), []);
        attempt.handle_input(&refusal(&proof, &key(), reason, None), server(), at(40));
        assert_eq!(events(&mut attempt).last(), Some(&AttemptEvent::NotIntroduced(expected)), "{reason}");
    }
}

#[test]
fn without_any_answer_it_ends_after_ten_seconds() {
    let mut attempt = attempt_with(&[server()]);
    let log = run(&mut attempt, at(60_000));
    assert!(log.iter().all(|(ms, _)| *ms < 10_000));
    assert_eq!(events(&mut attempt).last(), Some(&AttemptEvent::NotIntroduced(BindRefusal::Unanswered)));
}

#[test]
fn a_blocked_family_leaves_the_other_one() {
    let mut attempt = attempt_with(&[server(), address(V6), address("203.0.113.2:3478")]);
    let first: Vec<Transmit> = drain(|| attempt.poll_transmit());
    assert_eq!(first.iter().map(|t| t.to).collect::<Vec<_>>(), [server(), address(V6)], "one per family");
    attempt.handle_input(&challenge(&first[1].bytes, 401, "nonce"), address(V6), at(20));
    let proof = sent(&mut attempt).pop().unwrap();
    attempt.handle_input(&success(&proof, &key(), |answer| answer), address(V6), at(40));
    run(&mut attempt, at(12_000));
    let ended = AttemptEvent::FamilyEnded { server: server(), refusal: BindRefusal::Unanswered };
    assert_eq!(events(&mut attempt), [AttemptEvent::Bound { mapped: address("198.51.100.7:40000") }, ended]);
    assert!(attempt.poll_timeout().is_some(), "IPv6 goes on");
}

#[test]
fn an_introduction_in_an_answer_begins_the_punch_after_its_pause() {
    let mut attempt = attempt_with(&[server()]);
    let proof = challenged(&mut attempt);
    let answer = success(&proof, &key(), introduction);
    attempt.handle_input(&answer, server(), at(40));
    let peers = vec![address("198.51.100.9:50000"), address("192.168.1.7:5000")];
    assert_eq!(events(&mut attempt).last(), Some(&AttemptEvent::Introduced { peers: peers.clone() }));
    assert_eq!(sent(&mut attempt), Vec::<Vec<u8>>::new(), "not before the pause has passed");
    attempt.handle_timeout(at(140));
    attempt.handle_timeout(at(190));
    let to: Vec<SocketAddr> = drain(|| attempt.poll_transmit()).into_iter().map(|t| t.to).collect();
    assert_eq!(to, peers, "observed first, paced");
    attempt.handle_input(&answer, server(), at(200));
    assert_eq!(events(&mut attempt), [], "told once");
}

#[test]
fn an_introduce_counts_only_when_it_is_signed_and_addressed_to_us() {
    let indication = |username: &str, key: &[u8], id: u128| {
        let message = MessageBuilder::new(Class::Indication, Method::INTRODUCE, entropy(9).transaction())
            .text(AttributeType::USERNAME, username);
        introduction(message.id(AttributeType::RV_INTRODUCTION, id)).integrity(key).fingerprint().finish().unwrap()
    };
    let mut attempt = attempt_with(&[server()]);
    challenged(&mut attempt);
    let elsewhere = address("203.0.113.77:1");
    assert!(!attempt.handle_input(&indication(USERNAME, b"forger", ATTEMPT.0), elsewhere, at(40)));
    assert!(!attempt.handle_input(&indication("j1.other", &key(), ATTEMPT.0), elsewhere, at(40)));
    attempt.handle_input(&indication(USERNAME, &key(), 1), elsewhere, at(40));
    assert_eq!(events(&mut attempt), [], "another attempt's");
    assert!(attempt.handle_input(&indication(USERNAME, &key(), ATTEMPT.0), elsewhere, at(40)));
    assert!(matches!(events(&mut attempt)[..], [AttemptEvent::Introduced { .. }]));
}
