//! Damaged datagrams through the whole responder: no panic, nothing reaches the lane, and the next good one works.

use super::*;
use crate::service::Ask;

#[test]
fn case_s6_every_prefix_of_a_valid_datagram() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let bytes = Speaker::host_presence().sequenced(&nonce, 7);
    for length in 0..bytes.len() {
        let decision = responder.receive(&bytes[..length], from(HOST), START);
        assert!(matches!(decision, Decision::Silence(Silence::NotStun)), "{length}: {decision:?}");
    }
    asked(responder.receive(&bytes, from(HOST), START));
}

#[test]
fn case_s6_every_single_byte_change_of_a_valid_datagram() {
    for speaker in [Speaker::host_presence(), Speaker::joiner(), Speaker::host()] {
        let mut responder = responder();
        let nonce = nonce(&mut responder, HOST, START);
        let bytes = speaker.sequenced(&nonce, 7);
        let marker = bytes.len() - FINGERPRINT_ATTRIBUTE_BYTES;
        for position in 0..bytes.len() {
            for change in 1..=u8::MAX {
                let mut changed = bytes.clone();
                changed[position] ^= change;
                let decision = responder.receive(&changed, from(HOST), START);
                // Without its type FINGERPRINT is an unknown attribute behind the integrity attribute.
                let is_unprotected = (marker..marker + 2).contains(&position);
                let asks = matches!(decision, Decision::Ask(_));
                assert!(!asks || is_unprotected, "byte {position} ^ {change:#x}: {decision:?}");
                // A length that swallows the fingerprint leaves an unproven request behind.
                let answer = if let Decision::Transmit(transmit) = decision { transmit.bytes.len() } else { 0 };
                assert!(answer <= changed.len(), "byte {position} ^ {change:#x}");
            }
        }
    }
}

#[test]
fn case_s6_every_change_with_a_corrected_fingerprint_asks_nothing() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let bytes = Speaker::host_presence().sequenced(&nonce, 7);
    let end = bytes.len() - FINGERPRINT_ATTRIBUTE_BYTES;
    // A millisecond apart, so that credentials are not what stops them.
    let mut now = START;
    for position in 20..end {
        for change in [0x01, 0x04, 0x80, 0xFF] {
            let mut changed = bytes[..end].to_vec();
            changed[position] ^= change;
            changed[2..4].copy_from_slice(&((end - 20) as u16).to_be_bytes());
            now = now.plus_ms(100);
            let decision = responder.receive(&changed, from(HOST), now);
            assert!(!matches!(decision, Decision::Ask(_)), "byte {position} ^ {change:#x}: {decision:?}");
            if let Decision::Transmit(answer) = decision {
                assert!(answer.bytes.len() <= 124);
            }
        }
    }
    asked(responder.receive(&bytes, from(HOST), now));
}

#[test]
fn case_s1_attributes_behind_integrity_change_nothing() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let speaker = Speaker::host_presence();
    let honest = speaker.claiming(&nonce).u64(AttributeType::RV_SEQUENCE, 7).integrity(&speaker.key);
    let presence = |question: Question| match question.ask {
        Ask::Presence(presence) => (presence.listing, presence.endpoint, presence.sequence),
        Ask::Bind(_) => panic!("a bind"),
    };
    let first = presence(asked(responder.receive(&honest.clone().finish().unwrap(), from(HOST), START)));
    let other = presence_username(ListingId(1));
    let appended = [
        honest.clone().text(AttributeType::USERNAME, &other),
        honest.clone().u64(AttributeType::RV_SEQUENCE, u64::MAX),
        honest.clone().xor_address(AttributeType::XOR_MAPPED_ADDRESS, address("203.0.113.9:27015")),
        honest.clone().attribute(AttributeType(0x0024), &[0; 4]),
        honest.clone().fingerprint().text(AttributeType::USERNAME, &other),
    ];
    for builder in appended {
        let changed = builder.fingerprint().finish().unwrap();
        let got = presence(asked(responder.receive(&changed, from(HOST), START)));
        assert_eq!(got, first);
    }
    // A duplicate before the integrity attribute: the first counts.
    let twice = speaker.claiming(&nonce).u64(AttributeType::RV_SEQUENCE, 7).u64(AttributeType::RV_SEQUENCE, 9);
    let twice = speaker.sign(twice.text(AttributeType::USERNAME, &other));
    assert_eq!(presence(asked(responder.receive(&twice, from(HOST), START))), first);
}

#[test]
fn case_x3_p5_only_the_observed_source_counts() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let speaker = Speaker::host_presence();
    let claimed = address("203.0.113.9:27015");
    let bytes = speaker.sign(
        speaker
            .claiming(&nonce)
            .u64(AttributeType::RV_SEQUENCE, 7)
            .xor_address(AttributeType::XOR_MAPPED_ADDRESS, claimed)
            .xor_address(AttributeType::RV_PEER_ADDRESS, claimed)
            .xor_address(AttributeType::RV_CANDIDATE, claimed),
    );
    let Ask::Presence(presence) = asked(responder.receive(&bytes, from(HOST), START)).ask else { panic!() };
    assert_eq!(presence.endpoint.address(), address(HOST));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_datagrams_ask_nothing(raw in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let decision = responder().receive(&raw, from(HOST), START);
        proptest::prop_assert!(!matches!(decision, Decision::Ask(_) | Decision::Note(..)));
    }

    #[test]
    fn random_attributes_ask_nothing(
        attributes in proptest::collection::vec(
            (proptest::num::u16::ANY, proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..12),
        known in proptest::num::u8::ANY,
    ) {
        let kinds = [0x0006_u16, 0x0008, 0x0014, 0x0015, 0x001C, 0x001D, 0x001E, 0x8002, 0x8028, 0xFE50];
        let mut builder = begun();
        for (n, (kind, value)) in attributes.iter().enumerate() {
            let kind = if known >> (n % 8) & 1 == 1 { kinds[usize::from(*kind) % kinds.len()] } else { *kind };
            builder = builder.attribute(AttributeType(kind), value);
        }
        let raw = builder.finish().unwrap();
        let decision = responder().receive(&raw, from(HOST), START);
        proptest::prop_assert!(!matches!(decision, Decision::Ask(_) | Decision::Note(..)));
    }
}
