//! The order of checks, each with the answer or the silence of the contract.

use super::*;
use crate::domain::{Endpoint, Role};
use crate::service::Ask;

fn silence(decision: Decision) -> Silence {
    let Decision::Silence(cause) = decision else { panic!("expected silence, got {decision:?}") };
    cause
}

#[test]
fn first_request_is_challenged_with_everything_a_client_needs() {
    let mut responder = responder();
    let speaker = Speaker::host_presence();
    let answer = sent(responder.receive(&speaker.first(), from(HOST), START));
    assert_eq!(answer.to, address(HOST));
    let message = Message::parse(&answer.bytes).unwrap();
    assert_eq!(message.transaction(), TransactionId([5; 12]));
    assert_eq!(message.error_code(), Ok(Some(401)));
    assert_eq!(message.text(AttributeType::REALM), Ok(Some(REALM)));
    assert!(message.text(AttributeType::NONCE).unwrap().unwrap().starts_with("obMatJos2gAAA"));
    assert_eq!(message.attribute(AttributeType::PASSWORD_ALGORITHMS), Some(&PASSWORD_ALGORITHM_SHA256[..]));
    assert_eq!(message.id(AttributeType::RV_INSTANCE), Ok(Some(77)));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert_eq!(message.attribute(AttributeType::ERROR_CODE).unwrap().len(), 4, "the reason phrase is empty");
}

#[test]
fn the_whole_exchange_asks_the_lane() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let endpoint = Endpoint::new(address(HOST)).unwrap();
    let bytes = Speaker::host_presence().sequenced(&nonce, 42);
    // A nonce is as old as its challenge, whenever it is first used.
    let later = START.plus_ms(90_000);
    let Ask::Presence(presence) = asked(responder.receive(&bytes, from(HOST), later)).ask else { panic!() };
    assert_eq!((presence.listing, presence.endpoint, presence.sequence), (LISTING, endpoint, Some(42)));
    assert_eq!(presence.nonce_issued, START);
    let mut datagram = |bytes: &[u8]| {
        let Ask::Presence(presence) = asked(responder.receive(bytes, from(HOST), later)).ask else { panic!() };
        presence.datagram
    };
    assert_eq!(presence.datagram, datagram(&bytes));
    assert_ne!(presence.datagram, datagram(&Speaker::host_presence().sequenced(&nonce, 43)));

    let Ask::Bind(bind) = asked(responder.receive(&Speaker::host().plain(&nonce), from(HOST), later)).ask else {
        panic!()
    };
    assert_eq!((bind.attempt, bind.role(), bind.listing), (ATTEMPT, Role::Host, Some(LISTING)));
    let Ask::Bind(bind) = asked(responder.receive(&Speaker::joiner().plain(&nonce), from(HOST), later)).ask else {
        panic!()
    };
    assert_eq!((bind.attempt, bind.role(), bind.listing, bind.endpoint), (ATTEMPT, Role::Joiner, None, endpoint));
}

#[test]
fn case_s11_answers_and_indications_are_never_answered() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let request = Speaker::host_presence().sequenced(&nonce, 1);
    let question = asked(responder.receive(&request, from(HOST), START));
    let recorded = [
        sent(responder.receive(&Speaker::joiner().first(), from(HOST), START)).bytes,
        sent(responder.receive(&begun().finish().unwrap(), from(HOST), START)).bytes,
        responder.answerer().overloaded(&question.reply, START).bytes,
    ];
    for bytes in recorded {
        assert_eq!(silence(responder.receive(&bytes, from(JOINER), START)), Silence::NotABindingRequest);
    }
    // Every class and method but the Binding request, with and without authentication.
    for kind in [0x0011_u16, 0x0101, 0x0111, 0x02B7, 0x0003, 0x0002] {
        let mut changed = request.clone();
        changed[..2].copy_from_slice(&kind.to_be_bytes());
        assert_eq!(silence(responder.receive(&changed, from(HOST), START)), Silence::NotABindingRequest, "{kind:#x}");
    }
    for foreign in [
        &b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x00\x00\x01\x00\x01\x00\x00\x00"[..],
        &[0xC3; 1200],
        &[0; 20],
        b"",
        b"\x00",
    ] {
        assert_eq!(silence(responder.receive(foreign, from(HOST), START)), Silence::NotStun);
    }
}

#[test]
fn sources_that_nobody_has_get_silence() {
    let mut responder = responder();
    let request = begun().finish().unwrap();
    for source in [
        "192.0.2.1:0",
        "224.0.0.1:4000",
        "255.255.255.255:4000",
        "0.0.0.0:4000",
        "[::]:4000",
        "[ff02::1]:4000",
        "127.0.0.1:3478",
        "[::ffff:127.0.0.1]:3478",
    ] {
        assert_eq!(silence(responder.receive(&request, from(source), START)), Silence::Source, "{source}");
    }
    // A wildcard socket owns its port on the address that was asked, and only there.
    let asked = |ip: &str| Local { socket: 1, ip: Some(ip.parse().unwrap()) };
    let own = Arrival { local: asked("203.0.113.5"), ..from("203.0.113.5:3479") };
    assert_eq!(silence(responder.receive(&request, own, START)), Silence::Source);
    let neighbour = Arrival { local: asked("203.0.113.5"), ..from("203.0.113.6:3479") };
    assert_eq!(code(responder.receive(&request, neighbour, START)), 200);
}

#[test]
fn plain_and_challenging_listeners() {
    let mut responder = responder();
    let request = begun().finish().unwrap();
    let answer = sent(responder.receive(&request, from("[::ffff:192.0.2.9]:4000"), START));
    let message = Message::parse(&answer.bytes).unwrap();
    assert_eq!(message.xor_address(AttributeType::XOR_MAPPED_ADDRESS), Ok(Some(address("192.0.2.9:4000"))), "case P7");
    assert_eq!((message.class(), answer.bytes.len()), (Class::Success, 32));
    assert_eq!(code(responder.receive(&request, from_auth(HOST), START)), 401);

    let marked = begun().fingerprint().finish().unwrap();
    let answer = sent(responder.receive(&marked, from(HOST), START));
    assert_eq!(Message::parse(&answer.bytes).unwrap().check_fingerprint(), FingerprintCheck::Right);
}

#[test]
fn unknown_comprehension_required_attributes() {
    let mut responder = responder();
    let change_request = AttributeType(0x0003);
    let plain = begun().attribute(change_request, &[0; 4]).finish().unwrap();
    let answer = sent(responder.receive(&plain, from(HOST), START));
    let message = Message::parse(&answer.bytes).unwrap();
    assert_eq!(message.error_code(), Ok(Some(420)));
    assert_eq!(message.attribute(AttributeType::UNKNOWN_ATTRIBUTES), Some(&[0, 3][..]));

    let (speaker, nonce) = (Speaker::joiner(), nonce(&mut responder, HOST, START));
    let bytes = speaker.sign(speaker.claiming(&nonce).attribute(change_request, &[0; 4]));
    let answer = sent(responder.receive(&bytes, from(HOST), START));
    assert_eq!(error_of(&answer, &speaker), (420, true));
    // Comprehension-optional ones are skipped.
    let bytes = speaker.sign(speaker.claiming(&nonce).attribute(AttributeType(0x8022), b"game"));
    asked(responder.receive(&bytes, from(HOST), START));
}

#[test]
fn case_s8_weak_or_missing_proof_is_refused_in_the_documented_way() {
    let mut responder = responder();
    let (speaker, nonce) = (Speaker::host_presence(), nonce(&mut responder, HOST, START));
    let mut answer_to = |builder: MessageBuilder| {
        let decision = responder.receive(&builder.finish().unwrap(), from(HOST), START);
        code(decision)
    };
    let named = begun().text(AttributeType::USERNAME, &speaker.username).pad_to(200, 0);
    assert_eq!(answer_to(named), 401, "USERNAME without integrity");
    let hashed = begun().attribute(AttributeType::USERHASH, &[1; 32]).pad_to(200, 0);
    assert_eq!(answer_to(hashed.clone()), 401, "USERHASH without integrity");
    assert_eq!(answer_to(hashed.integrity(&speaker.key)), 401, "USERHASH");
    let sha1 = speaker.claiming(&nonce).attribute(AttributeType::MESSAGE_INTEGRITY, &[1; 20]);
    assert_eq!(answer_to(sha1.clone()), 401, "SHA-1 alone");
    assert_eq!(answer_to(begun().attribute(AttributeType::MESSAGE_INTEGRITY, &[1; 20])), 400, "and without a name");
    assert_eq!(answer_to(speaker.claiming(&nonce).integrity(&[0; 32])), 401, "another key");
    for length in [4, 16, 20, 28] {
        let truncated = speaker.claiming(&nonce).attribute(AttributeType::MESSAGE_INTEGRITY_SHA256, &vec![1; length]);
        assert_eq!(answer_to(truncated), 400, "{length} bytes of integrity");
    }
}

#[test]
fn what_the_mechanism_asks_for_must_be_there_and_covered() {
    let needed: [(AttributeType, &[u8]); 5] = [
        (AttributeType::USERNAME, b""),
        (AttributeType::REALM, b""),
        (AttributeType::NONCE, b""),
        (AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256),
        (AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256),
    ];
    let mut responder = responder();
    let (speaker, nonce) = (Speaker::host_presence(), nonce(&mut responder, HOST, START));
    for (left_out, _) in needed {
        let value = |attribute| match attribute {
            AttributeType::USERNAME => speaker.username.clone().into_bytes(),
            AttributeType::REALM => REALM.as_bytes().to_vec(),
            AttributeType::NONCE => nonce.clone().into_bytes(),
            _ => PASSWORD_ALGORITHM_SHA256.to_vec(),
        };
        let mut builder = begun();
        for (attribute, _) in needed.iter().filter(|(attribute, _)| *attribute != left_out) {
            builder = builder.attribute(*attribute, &value(*attribute));
        }
        let without = builder.clone().integrity(&speaker.key).finish().unwrap();
        assert_eq!(code(responder.receive(&without, from(HOST), START)), 400, "without {left_out:?}");
        // Case S1: behind the integrity attribute it is as good as absent.
        let behind = builder.integrity(&speaker.key).attribute(left_out, &value(left_out)).finish().unwrap();
        assert_eq!(code(responder.receive(&behind, from(HOST), START)), 400, "{left_out:?} behind integrity");
    }
    let md5_too = [0, 2, 0, 0, 0, 1, 0, 0];
    let widened = begun()
        .text(AttributeType::USERNAME, &speaker.username)
        .text(AttributeType::REALM, REALM)
        .text(AttributeType::NONCE, &nonce)
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &md5_too)
        .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
    assert_eq!(code(responder.receive(&speaker.sign(widened), from(HOST), START)), 400, "bid down");
    let bad_sequence = speaker.sign(speaker.claiming(&nonce).u32(AttributeType::RV_SEQUENCE, 1));
    assert_eq!(code(responder.receive(&bad_sequence, from(HOST), START)), 400, "RV-SEQUENCE of four bytes");
}

#[test]
fn a_wrong_realm_or_username_is_challenged() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let mut speaker = Speaker::host_presence();
    let other_realm = begun()
        .text(AttributeType::USERNAME, &speaker.username)
        .text(AttributeType::REALM, "elsewhere")
        .text(AttributeType::NONCE, &nonce)
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
        .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
    assert_eq!(code(responder.receive(&speaker.sign(other_realm), from(HOST), START)), 401);
    for name in ["", "p1.", "admin", "p9.0123456789abcdef0123456789abcdef"] {
        speaker.username = name.into();
        assert_eq!(code(responder.receive(&speaker.plain(&nonce), from(HOST), START)), 401, "{name}");
    }
}

#[test]
fn case_s2_every_foreign_key_is_challenged_and_asks_nothing() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, JOINER, START);
    let right = Speaker::joiner();
    for wrong in [Speaker::host().key, Speaker::host_presence().key, [0; 32]] {
        let speaker = Speaker { key: wrong, ..right.clone() };
        let bytes = speaker.plain(&nonce);
        let answer = sent(responder.receive(&bytes, from(JOINER), START));
        assert_eq!(error_of(&answer, &right), (401, false));
        assert!(answer.bytes.len() <= bytes.len());
    }
    asked(responder.receive(&right.plain(&nonce), from(JOINER), START));
}

#[test]
fn a_wrong_fingerprint_is_silence_and_none_is_fine() {
    let mut responder = responder();
    let (speaker, nonce) = (Speaker::joiner(), nonce(&mut responder, HOST, START));
    let without = speaker.claiming(&nonce).integrity(&speaker.key).finish().unwrap();
    asked(responder.receive(&without, from(HOST), START));
    let mut wrong = speaker.plain(&nonce);
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(silence(responder.receive(&wrong, from(HOST), START)), Silence::Fingerprint);
}

#[test]
fn classic_requests_are_dropped_unless_wanted() {
    let mut classic = vec![0, 1, 0, 0];
    classic.extend_from_slice(b"sixteen byte id!");
    let mut strict = responder();
    assert_eq!(silence(strict.receive(&classic, from(HOST), START)), Silence::NotStun);

    let mut lenient = Responder::new(&protocol(), &Budgets::default(), Vec::new(), true);
    let answer = sent(lenient.receive(&classic, from(HOST), START));
    let expected =
        [&[1, 1, 0, 12][..], b"sixteen byte id!", &[0, 1, 0, 8, 0, 1], &4000_u16.to_be_bytes(), &[192, 0, 2, 1]];
    assert_eq!(answer.bytes, expected.concat());
    assert_eq!(silence(lenient.receive(&classic, from_auth(HOST), START)), Silence::NotStun);
    assert_eq!(silence(lenient.receive(&classic[..16], from(HOST), START)), Silence::NotStun);
    let answered = (0..100).filter(|_| matches!(lenient.receive(&classic, from(HOST), START), Decision::Transmit(_)));
    assert_eq!(answered.count(), 9, "within the budget");
}
