//! Which attributes count, and what the builder promises.

use super::*;
use std::net::SocketAddr;

const NAME: AttributeType = AttributeType::USERNAME;

/// Appends a raw attribute behind everything and corrects the header's length, nothing else.
fn append(mut raw: Vec<u8>, attribute: AttributeType, value: &[u8]) -> Vec<u8> {
    raw.extend_from_slice(&attribute.0.to_be_bytes());
    raw.extend_from_slice(&(value.len() as u16).to_be_bytes());
    raw.extend_from_slice(value);
    raw.resize(raw.len().next_multiple_of(4), 0);
    let length = (raw.len() - HEADER_BYTES) as u16;
    raw[2..4].copy_from_slice(&length.to_be_bytes());
    raw
}

fn begun() -> MessageBuilder {
    MessageBuilder::binding_request(TRANSACTION)
}

#[test]
fn case_s1_the_first_occurrence_counts() {
    let raw = begun().text(NAME, "first").text(NAME, "second").integrity(&KEY).finish().unwrap();
    let message = Message::parse(&raw).unwrap();
    assert!(message.verify_integrity(&KEY));
    assert_eq!(message.text(NAME), Ok(Some("first")));
}

#[test]
fn case_s1_nothing_behind_integrity_counts() {
    let raw = begun().text(NAME, "first").integrity(&KEY).finish().unwrap();
    let raw = append(append(raw, AttributeType::RV_SEQUENCE, &[0xFF; 8]), AttributeType(0x7777), b"?");
    let message = Message::parse(&raw).unwrap();
    assert!(message.verify_integrity(&KEY));
    assert_eq!(message.u64(AttributeType::RV_SEQUENCE), Ok(None));
    assert_eq!(message.unknown_required(), []);
}

#[test]
fn case_s1_needed_attribute_only_behind_integrity_is_missing() {
    let raw = append(begun().integrity(&KEY).finish().unwrap(), NAME, b"late");
    assert_eq!(Message::parse(&raw).unwrap().text(NAME), Ok(None));
}

#[test]
fn case_s1_sha1_before_sha256_is_legal_and_closes_the_list() {
    let sha1 = AttributeType::MESSAGE_INTEGRITY;
    let raw = begun().text(NAME, "x").attribute(sha1, &[1; 20]).u64(AttributeType::RV_SEQUENCE, 9);
    let raw = raw.integrity(&KEY).fingerprint().finish().unwrap();
    let message = Message::parse(&raw).unwrap();
    assert!(message.verify_integrity(&KEY));
    assert_eq!(message.text(NAME), Ok(Some("x")));
    assert_eq!(message.u64(AttributeType::RV_SEQUENCE), Ok(None));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);

    let alone = begun().text(NAME, "x").attribute(sha1, &[1; 20]).finish().unwrap();
    let message = Message::parse(&alone).unwrap();
    assert!(message.has_integrity() && !message.verify_integrity(&KEY));
}

#[test]
fn case_s1_a_second_integrity_attribute_has_no_effect() {
    let raw = begun().text(NAME, "x").integrity(&KEY).integrity(&[9; 32]).finish().unwrap();
    assert!(Message::parse(&raw).unwrap().verify_integrity(&KEY));
    assert!(!Message::parse(&raw).unwrap().verify_integrity(&[9; 32]));
}

#[test]
fn case_s1_nothing_behind_fingerprint_counts() {
    let raw = append(begun().fingerprint().finish().unwrap(), NAME, b"late");
    let message = Message::parse(&raw).unwrap();
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert_eq!(message.text(NAME), Ok(None));

    let raw = begun().text(NAME, "x").fingerprint().integrity(&KEY).finish().unwrap();
    let message = Message::parse(&raw).unwrap();
    assert!(!message.has_integrity() && !message.verify_integrity(&KEY));
}

#[test]
fn fingerprint_of_another_length_is_wrong() {
    let raw = begun().attribute(AttributeType::FINGERPRINT, &[0; 3]).finish().unwrap();
    assert_eq!(Message::parse(&raw).unwrap().check_fingerprint(), FingerprintCheck::Wrong);
    let none = begun().finish().unwrap();
    assert_eq!(Message::parse(&none).unwrap().check_fingerprint(), FingerprintCheck::Absent);
}

#[test]
fn case_s8_integrity_covers_a_length_that_ends_with_itself() {
    let with_fingerprint = begun().text(NAME, "x").integrity(&KEY).fingerprint().finish().unwrap();
    let without = begun().text(NAME, "x").integrity(&KEY).finish().unwrap();
    let value = |raw: &[u8]| Message::parse(raw).unwrap().integrity_sha256().unwrap().to_vec();
    assert_eq!(value(&with_fingerprint), value(&without));
}

#[test]
fn every_typed_attribute_round_trips() {
    let addresses: [SocketAddr; 3] =
        ["[2001:db8::7]:65535".parse().unwrap(), "192.0.2.7:1".parse().unwrap(), "10.0.0.1:4000".parse().unwrap()];
    let mut builder = MessageBuilder::new(Class::Success, Method::BINDING, TRANSACTION)
        .u64(AttributeType::RV_SEQUENCE, u64::MAX)
        .u32(AttributeType::RV_LIFETIME, 65_000)
        .u16(AttributeType::RV_REASON, 12)
        .id(AttributeType::RV_INSTANCE, 1 << 127)
        .offer(1, 30_000)
        .offer(2, 0)
        .error_code(438)
        .unknown_attributes(&[AttributeType(3), AttributeType(0x24)]);
    for address in addresses {
        builder = builder.xor_address(AttributeType::RV_PEER_ADDRESS, address);
    }
    let raw = builder.finish().unwrap();
    let message = Message::parse(&raw).unwrap();
    assert_eq!(message.u64(AttributeType::RV_SEQUENCE), Ok(Some(u64::MAX)));
    assert_eq!(message.u32(AttributeType::RV_LIFETIME), Ok(Some(65_000)));
    assert_eq!(message.u16(AttributeType::RV_REASON), Ok(Some(12)));
    assert_eq!(message.id(AttributeType::RV_INSTANCE), Ok(Some(1 << 127)));
    let offers: Vec<_> = message.offers().map(|offer| offer.map(|o| (o.attempt, o.left_ms))).collect();
    assert_eq!(offers, [Ok((1, 30_000)), Ok((2, 0))]);
    assert_eq!(message.error_code(), Ok(Some(438)));
    assert_eq!(message.attribute(AttributeType::UNKNOWN_ATTRIBUTES), Some(&[0, 3, 0, 0x24][..]));
    let peers: Result<Vec<_>, _> = message.xor_addresses(AttributeType::RV_PEER_ADDRESS).collect();
    assert_eq!(peers.unwrap(), addresses);
    let wrong = AttributeType::RV_REASON;
    assert_eq!(message.u32(wrong), Err(Malformed(wrong)));
    assert_eq!(message.xor_address(wrong), Err(Malformed(wrong)));
}

#[test]
fn malformed_error_codes_and_addresses() {
    for value in [&[0, 0, 2, 0][..], &[0, 0, 7, 0], &[0, 0, 4, 100], &[0, 0, 4], &[]] {
        let raw = begun().attribute(AttributeType::ERROR_CODE, value).finish().unwrap();
        assert!(Message::parse(&raw).unwrap().error_code().is_err(), "{value:?}");
    }
    for value in [&[0, 1, 0, 0][..], &[0, 2, 0, 0, 1, 2, 3, 4], &[0, 3, 0, 0, 1, 2, 3, 4], &[0, 1], &[]] {
        let raw = begun().attribute(AttributeType::RV_CANDIDATE, value).finish().unwrap();
        assert!(Message::parse(&raw).unwrap().xor_address(AttributeType::RV_CANDIDATE).is_err(), "{value:?}");
    }
}

#[test]
fn padding_reaches_the_asked_length_exactly() {
    let longest = "h".repeat(68);
    for name in ["", "a", "p1.0123456789abcdef0123456789abcdef", &longest] {
        let raw = begun().text(NAME, name).pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES).fingerprint().finish().unwrap();
        assert_eq!(raw.len(), 160, "{name}");
        assert_eq!(Message::parse(&raw).unwrap().check_fingerprint(), FingerprintCheck::Right);
    }
    let long = begun().text(NAME, &"x".repeat(200));
    assert_eq!(long.clone().pad_to(160, 0).len(), long.len());
}

#[test]
fn private_code_points_are_optional_unique_and_in_order() {
    assert!(PRIVATE_CODE_POINTS.is_sorted_by(|a, b| a.attribute < b.attribute));
    for row in PRIVATE_CODE_POINTS {
        assert!(!row.attribute.is_comprehension_required(), "{}", row.name);
        assert_eq!(row.attribute.name(), row.name);
    }
}
