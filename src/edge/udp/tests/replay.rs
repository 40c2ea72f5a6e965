//! What a nonce binds, how long it is good for, and what the lane is told of one that is not (cases S3, S4).

use super::*;
use crate::domain::Endpoint;
use crate::service::Ask;

#[test]
fn case_s3_captured_bytes_are_worthless_from_elsewhere() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, JOINER, START);
    let bytes = Speaker::joiner().plain(&nonce);
    asked(responder.receive(&bytes, from(JOINER), START));
    for source in ["198.51.100.7:5001", "198.51.100.8:5000", "[2001:db8::1]:5000"] {
        let answer = sent(responder.receive(&bytes, from(source), START));
        assert_eq!(error_of(&answer, &Speaker::joiner()), (438, false), "{source}");
        assert!(answer.bytes.len() <= bytes.len());
    }
}

#[test]
fn rule_j4_a_nonce_of_another_instance_is_refused() {
    let mut earlier =
        Responder::new(&Protocol { instance: InstanceId(76), ..protocol() }, &Budgets::default(), Vec::new(), false);
    let old = nonce(&mut earlier, HOST, START);
    let answer = sent(responder().receive(&Speaker::joiner().plain(&old), from(HOST), START));
    let message = Message::parse(&answer.bytes).unwrap();
    assert_eq!((message.error_code(), message.id(AttributeType::RV_INSTANCE)), (Ok(Some(438)), Ok(Some(77))));
}

#[test]
fn case_s4_an_identical_datagram_is_an_identical_question() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, JOINER, START);
    let bytes = Speaker::joiner().plain(&nonce);
    let first = asked(responder.receive(&bytes, from(JOINER), START));
    let again = asked(responder.receive(&bytes, from(JOINER), START.plus_ms(500)));
    assert_eq!(first, again);
    let other =
        Speaker::joiner().sign(Speaker::joiner().claiming(&nonce).attribute(AttributeType::RV_PADDING, &[0; 4]));
    let other = asked(responder.receive(&other, from(JOINER), START));
    let datagram = |question: Question| match question.ask {
        Ask::Bind(bind) => bind.datagram,
        Ask::Presence(presence) => presence.datagram,
    };
    assert!(datagram(first) != datagram(other));
}

#[test]
fn case_s4_bytes_behind_the_integrity_make_another_datagram() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, JOINER, START);
    let signed = || Speaker::joiner().claiming(&nonce).integrity(&Speaker::joiner().key);
    let unheeded = |byte: u8| signed().attribute(AttributeType::RV_PADDING, &[byte; 4]);
    let variants = [
        signed().fingerprint(),
        signed(),
        unheeded(0),
        unheeded(1),
        unheeded(0).fingerprint(),
        signed().fingerprint().attribute(AttributeType::RV_PADDING, &[]),
    ];
    let mut seen = Vec::new();
    for (n, variant) in variants.into_iter().enumerate() {
        let bytes = variant.finish().unwrap();
        // The integrity is the same in all of them.
        let Ask::Bind(bind) = asked(responder.receive(&bytes, from(JOINER), START)).ask else { panic!("{n}") };
        assert!(!seen.contains(&bind.datagram), "{n}");
        seen.push(bind.datagram);
    }
}

#[test]
fn an_aged_nonce_still_asks_the_lane_with_its_issue_time() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    for age_ms in [0, 120_000, 120_001, 3_600_000] {
        let bytes = Speaker::host_presence().sequenced(&nonce, age_ms);
        let Ask::Presence(presence) = asked(responder.receive(&bytes, from(HOST), START.plus_ms(age_ms))).ask else {
            panic!()
        };
        assert_eq!(presence.nonce_issued, START, "the lane judges the age of {age_ms} ms");
    }
}

#[test]
fn a_presence_datagram_from_a_new_source_is_noted_and_challenged() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let bytes = Speaker::host_presence().sequenced(&nonce, 43);
    let Decision::Note(note, Some(answer)) = responder.receive(&bytes, from(JOINER), START) else { panic!() };
    let endpoint = Endpoint::new(address(JOINER)).unwrap();
    assert_eq!((note.listing, note.endpoint, note.sequence), (LISTING, endpoint, 43));
    assert_eq!(error_of(&answer, &Speaker::host_presence()), (438, false));

    // The same 438 without a note: something not understood, no sequence, another role, or a key that is wrong.
    let wrong = Speaker { key: [0; 32], ..Speaker::host_presence() };
    let host = Speaker::host_presence();
    let not_understood =
        host.claiming(&nonce).u64(AttributeType::RV_SEQUENCE, 43).attribute(AttributeType(0x7001), &[]);
    for bytes in [
        host.sign(not_understood),
        Speaker::host_presence().plain(&nonce),
        Speaker::joiner().sequenced(&nonce, 43),
        Speaker::host().sequenced(&nonce, 43),
        wrong.sequenced(&nonce, 43),
    ] {
        assert_eq!(code(responder.receive(&bytes, from(JOINER), START)), 438);
    }
}

#[test]
fn notes_stay_within_the_budget_of_their_source_and_of_their_credential() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let bytes = Speaker::host_presence().sequenced(&nonce, 43);
    let mut noted = |source: &str| matches!(responder.receive(&bytes, from(source), START), Decision::Note(..));
    let from_one = (0..100).filter(|_| noted(JOINER)).count();
    assert_eq!(from_one, 10, "per source");
    let from_many = (0..100).filter(|n| noted(&format!("203.0.113.{n}:4000"))).count();
    assert_eq!(from_many, 10, "per credential: 20 in all");
}

#[test]
fn case_s3_a_captured_datagram_from_many_sources_mutes_not_its_host() {
    let mut responder = responder();
    let (host, nonce) = (Speaker::host_presence(), nonce(&mut responder, HOST, START));
    let captured = host.sequenced(&nonce, 43);
    for n in 0..200 {
        let _ = responder.receive(&captured, from(&format!("203.0.113.{n}:4000")), START);
    }
    for sequence in 44..64 {
        asked(responder.receive(&host.sequenced(&nonce, sequence), from(HOST), START));
    }
}

#[test]
fn case_x7_authenticated_work_is_budgeted_by_credential_not_by_address() {
    let mut responder = responder();
    let base = protocol();
    for host in 0..300_u128 {
        let source = format!("192.0.2.1:{}", 10_000 + host);
        let listing = ListingId(host + 1);
        let speaker = Speaker::new(presence_username(listing), base.credentials.presence_password(listing));
        let answer = sent(responder.receive(&speaker.first(), from(&source), START));
        let nonce = Message::parse(&answer.bytes).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned();
        asked(responder.receive(&speaker.sequenced(&nonce, 1), from(&source), START));
    }
}

#[test]
fn one_credential_gets_a_signed_486_above_its_budget() {
    let mut responder = responder();
    let (speaker, nonce) = (Speaker::host_presence(), nonce(&mut responder, HOST, START));
    let decisions: Vec<Decision> =
        (0..100).map(|n| responder.receive(&speaker.sequenced(&nonce, n), from(HOST), START)).collect();
    let (questions, refused): (Vec<_>, Vec<_>) =
        decisions.into_iter().partition(|decision| matches!(decision, Decision::Ask(_)));
    assert_eq!(questions.len(), 20);
    for decision in refused {
        let answer = sent(decision);
        assert_eq!(error_of(&answer, &speaker), (486, true));
        let message = Message::parse(&answer.bytes).unwrap();
        assert!(message.u32(AttributeType::RV_RETRY_AFTER).unwrap().is_some_and(|ms| ms >= 1_000));
    }
    asked(responder.receive(&Speaker::joiner().plain(&nonce), from(HOST), START));
    asked(responder.receive(&speaker.sequenced(&nonce, 200), from(HOST), START.plus_ms(50)));
}
