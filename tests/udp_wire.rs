//! The UDP protocol through its public surface, without a store: documentation against code, and a stock STUN
//! implementation as the client.
#![cfg(feature = "server")]

use rendezvous::credentials::{InstanceKey, REALM, Secret, presence_username};
use rendezvous::domain::{InstanceId, ListingId, MonoTime, Offers, Present};
use rendezvous::edge::udp::{
    Arrival, Budgets, Decision, Entropy, Listener, Local, Protocol, Reason, Responder, Silence, Transmit,
};
use rendezvous::service::{Applied, Ask, Told};
use rendezvous::stun::PRIVATE_CODE_POINTS;
use std::net::SocketAddr;
use stun_types::attribute as attributes;
use stun_types::attribute::{PasswordAlgorithmValue, RawAttribute};
use stun_types::message::{
    BINDING, IntegrityAlgorithm, LongTermKeyCredentials, Message, MessageClass, MessageIntegrityCredentials,
    MessageWriteVec,
};
use stun_types::prelude::*;

const DOCUMENT: &str = include_str!("../docs/udp-protocol.md");
const LISTING: ListingId = ListingId(0x1234_5678);
const NOW: MonoTime = MonoTime(7_000_000_000);

/// The cells of every row of the table below `heading`, without the two header lines.
fn table(heading: &str) -> Vec<Vec<String>> {
    let section = DOCUMENT.split(&format!("\n## {heading}\n")).nth(1).expect("the section exists");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

#[test]
fn the_documented_code_points_are_those_of_the_code() {
    let documented = table("Code points");
    let coded: Vec<Vec<String>> = PRIVATE_CODE_POINTS
        .iter()
        .map(|row| vec![format!("`0x{:04X}`", row.attribute.0), row.name.to_owned(), row.value.to_owned()])
        .collect();
    assert_eq!(documented, coded);
}

#[test]
fn the_documented_reasons_are_those_of_the_code() {
    let documented: Vec<(String, String)> =
        table("Reasons").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let coded: Vec<(String, String)> =
        Reason::ALL.iter().map(|reason| (reason.number().to_string(), reason.name().to_owned())).collect();
    assert_eq!(documented, coded);
}

#[test]
fn the_documented_limits_are_the_defaults() {
    let limits = table("Limits").into_iter().map(|row| row[1].replace(',', "")).collect::<Vec<_>>();
    let budgets = Budgets::default();
    assert!(limits[0].starts_with(&format!("{} a second", budgets.unproven_per_source_per_s)));
    assert!(limits[0].contains(&format!("{} a second in all", budgets.unproven_global_per_s)));
    assert!(limits[1].starts_with(&budgets.per_credential_per_s.to_string()));
    assert!(limits[2].starts_with(&budgets.questions_max.to_string()));
    assert!(limits[4].starts_with(&rendezvous::stun::MESSAGE_BYTES_MAX.to_string()));
}

fn protocol() -> Protocol {
    Protocol {
        credentials: InstanceKey::new([1; 32]),
        entropy: Entropy::new([2; 32]),
        instance: InstanceId(3),
        nonce_fresh_ms: 120_000,
    }
}

fn responder() -> Responder {
    Responder::new(&protocol(), &Budgets::default(), Vec::new(), false)
}

fn arrival(source: &str, listener: Listener) -> Arrival {
    Arrival { source: source.parse().unwrap(), local: Local { socket: 0, ip: None }, listener }
}

fn answer(decision: Decision) -> Transmit {
    let Decision::Transmit(transmit) = decision else { panic!("expected an answer, got {decision:?}") };
    transmit
}

fn credentials(password: &Secret) -> MessageIntegrityCredentials {
    let username = presence_username(LISTING);
    LongTermKeyCredentials::new(username, password.expose().to_owned(), REALM.to_owned()).into()
}

/// What a stock client makes of a challenge: everything echoed, SHA-256 chosen.
fn log_in(challenge: &Message<'_>, credentials: &MessageIntegrityCredentials) -> Vec<u8> {
    let mut request = Message::builder_request(BINDING, MessageWriteVec::new());
    let realm = challenge.attribute::<attributes::Realm>().unwrap();
    let nonce = challenge.attribute::<attributes::Nonce>().unwrap();
    let algorithms = challenge.attribute::<attributes::PasswordAlgorithms>().unwrap();
    request.add_attribute(&attributes::Username::new(&presence_username(LISTING)).unwrap()).unwrap();
    request.add_attribute(&realm).unwrap();
    request.add_attribute(&nonce).unwrap();
    request.add_attribute(&algorithms).unwrap();
    request.add_attribute(&attributes::PasswordAlgorithm::new(PasswordAlgorithmValue::SHA256)).unwrap();
    request.add_message_integrity(credentials, IntegrityAlgorithm::Sha256).unwrap();
    request.add_fingerprint().unwrap();
    request.finish()
}

#[test]
fn a_stock_client_logs_in_at_the_challenging_listener_without_our_attributes() {
    let source = "[2001:db8::5]:6000";
    let mut responder = responder();
    let first = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
    let challenge = answer(responder.receive(&first, arrival(source, Listener::Challenging), NOW));
    let challenge = Message::from_bytes(&challenge.bytes).unwrap();
    assert_eq!(challenge.attribute::<attributes::ErrorCode>().unwrap().code(), 401);
    let credentials = credentials(&protocol().credentials.presence_password(LISTING));

    let request = log_in(&challenge, &credentials);
    let Decision::Ask(question) = responder.receive(&request, arrival(source, Listener::Challenging), NOW) else {
        panic!("not asked")
    };
    let Ask::Presence(presence) = question.ask else { panic!("not presence") };
    assert_eq!((presence.listing, presence.sequence), (LISTING, None));

    let present = Present { deadline: NOW.plus_ms(65_000), offers: Offers::default(), draining: None };
    let result = Ok(Applied { value: Told::Present(present), commit: 5, replayed: false });
    let success = responder.answerer().answer(&question.reply, result, NOW);
    let success = Message::from_bytes(&success.bytes).unwrap();
    assert!(success.has_class(MessageClass::Success));
    assert_eq!(success.validate_integrity(&credentials).unwrap(), IntegrityAlgorithm::Sha256);
    let mapped = success.attribute::<attributes::XorMappedAddress>().unwrap();
    let expected: SocketAddr = source.parse().unwrap();
    assert_eq!(mapped.addr(success.transaction_id()), expected);
}

#[test]
fn a_stock_client_sees_its_address_at_the_plain_listener() {
    let mut responder = responder();
    for (source, shown) in [("192.0.2.3:4000", "192.0.2.3:4000"), ("[::ffff:192.0.2.3]:4000", "192.0.2.3:4000")] {
        let mut request = Message::builder_request(BINDING, MessageWriteVec::new());
        request.add_attribute(&attributes::Software::new("game").unwrap()).unwrap();
        request.add_fingerprint().unwrap();
        let request = request.finish();
        let answer = answer(responder.receive(&request, arrival(source, Listener::Plain), NOW));
        let answer = Message::from_bytes(&answer.bytes).unwrap();
        let mapped = answer.attribute::<attributes::XorMappedAddress>().unwrap();
        assert_eq!(mapped.addr(answer.transaction_id()), shown.parse::<SocketAddr>().unwrap(), "case P7");
    }
}

#[test]
fn case_s1_a_stock_message_with_unprotected_attributes_behind_integrity() {
    let source = "192.0.2.3:4000";
    let mut responder = responder();
    let first = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
    let challenge = answer(responder.receive(&first, arrival(source, Listener::Challenging), NOW));
    let challenge = Message::from_bytes(&challenge.bytes).unwrap();
    let mut request = log_in(&challenge, &credentials(&protocol().credentials.presence_password(LISTING)));
    // The fingerprint goes, an RV-SEQUENCE that nobody signed comes.
    request.truncate(request.len() - 8);
    request.extend_from_slice(&RawAttribute::new(0xFE50.into(), &9_u64.to_be_bytes()).to_bytes());
    let length = (request.len() - 20) as u16;
    request[2..4].copy_from_slice(&length.to_be_bytes());
    let Decision::Ask(question) = responder.receive(&request, arrival(source, Listener::Plain), NOW) else {
        panic!("not asked")
    };
    assert!(matches!(question.ask, Ask::Presence(presence) if presence.sequence.is_none()));
}

#[test]
fn case_x1_out_is_never_more_than_in_once_the_budget_is_spent() {
    let mut responder = responder();
    let spoofed = arrival("203.0.113.1:53", Listener::Challenging);
    let request = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
    let (mut bytes_in, mut bytes_out) = (0, 0);
    for _ in 0..10_000 {
        bytes_in += request.len();
        match responder.receive(&request, spoofed, NOW) {
            Decision::Transmit(transmit) => bytes_out += transmit.bytes.len(),
            Decision::Silence(cause) => assert_eq!(cause, Silence::Budget),
            Decision::Ask(_) | Decision::Note(..) => panic!("an unproven source asked the lane"),
        }
    }
    assert!(bytes_out <= bytes_in && bytes_out == 10 * 124, "{bytes_out} of {bytes_in}");
}
