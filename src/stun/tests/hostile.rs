//! Bytes that are wrong in every single place.

use super::*;

/// Accepted as far as the codec goes: parsed, fingerprint not wrong, integrity right.
fn accepted(raw: &[u8]) -> bool {
    Message::parse(raw)
        .is_ok_and(|message| message.check_fingerprint() != FingerprintCheck::Wrong && message.verify_integrity(&KEY))
}

#[test]
fn case_s6_every_prefix_is_refused() {
    let raw = presence_request();
    assert!(accepted(&raw));
    for length in 0..raw.len() {
        assert!(Message::parse(&raw[..length]).is_err(), "prefix of {length}");
    }
}

#[test]
fn case_s6_every_single_byte_change_is_refused_or_outside_of_protection() {
    let raw = presence_request();
    // The type of FINGERPRINT itself stands behind the integrity attribute: changing it hides the fingerprint.
    let fingerprint_type = raw.len() - FINGERPRINT_ATTRIBUTE_BYTES;
    for position in 0..raw.len() {
        for change in 1..=u8::MAX {
            let mut changed = raw.clone();
            changed[position] ^= change;
            let hides_fingerprint = (fingerprint_type..fingerprint_type + 2).contains(&position);
            assert_eq!(accepted(&changed), hides_fingerprint, "byte {position} ^ {change:#x}");
        }
    }
}

#[test]
fn case_s6_length_fields() {
    let raw = presence_request();
    let honest = (raw.len() - HEADER_BYTES) as u16;
    for claimed in [honest + 1, honest - 1, honest + 4, honest - 4, 0, 0xFFFF] {
        let mut changed = raw.clone();
        changed[2..4].copy_from_slice(&claimed.to_be_bytes());
        assert_eq!(Message::parse(&changed).unwrap_err(), ParseError::LengthField);
    }
    let mut offset = HEADER_BYTES;
    while offset < raw.len() {
        let real = u16::from_be_bytes([raw[offset + 2], raw[offset + 3]]);
        for claimed in [0, 1, 3, real.wrapping_sub(1), real + 1, 0xFFFC, 0xFFFF] {
            let mut changed = raw.clone();
            changed[offset + 2..offset + 4].copy_from_slice(&claimed.to_be_bytes());
            assert!(claimed == real || !accepted(&changed), "attribute at {offset}: {claimed}");
        }
        offset += 4 + usize::from(real).next_multiple_of(4);
    }
}

#[test]
fn case_s6_trailing_bytes_and_top_bits() {
    let raw = presence_request();
    for extra in [1, 3, 4, 8] {
        let longer = [raw.clone(), vec![0; extra]].concat();
        assert!(Message::parse(&longer).is_err(), "{extra} trailing bytes");
    }
    for bits in [0x40, 0x80, 0xC0] {
        let mut changed = raw.clone();
        changed[0] |= bits;
        assert_eq!(Message::parse(&changed).unwrap_err(), ParseError::TopBits);
    }
}

#[test]
fn bounds_are_exact() {
    assert_eq!(Message::parse(&[0; 19]).unwrap_err(), ParseError::Length);
    let largest = MessageBuilder::binding_request(TRANSACTION).pad_to(MESSAGE_BYTES_MAX, 0).finish().unwrap();
    assert_eq!(largest.len(), MESSAGE_BYTES_MAX);
    assert!(Message::parse(&largest).is_ok());
    let mut longer = largest.clone();
    longer.extend_from_slice(&[0; 4]);
    let length = (longer.len() - HEADER_BYTES) as u16;
    longer[2..4].copy_from_slice(&length.to_be_bytes());
    assert_eq!(Message::parse(&longer).unwrap_err(), ParseError::Length);
    let overflow =
        MessageBuilder::binding_request(TRANSACTION).attribute(AttributeType::RV_PADDING, &[0; MESSAGE_BYTES_MAX]);
    assert_eq!(overflow.integrity(&KEY).fingerprint().finish(), Err(BuildError::TooLong));
}

#[test]
fn case_s8_truncated_or_short_integrity_proves_nothing() {
    let raw = presence_request();
    let body = &raw[..raw.len() - FINGERPRINT_ATTRIBUTE_BYTES - INTEGRITY_ATTRIBUTE_BYTES];
    let full = Message::parse(&raw).unwrap().integrity_sha256().unwrap().to_vec();
    for length in [0, 4, 16, 19, 20, 28, 31] {
        let mut forged = body.to_vec();
        forged.extend_from_slice(&AttributeType::MESSAGE_INTEGRITY_SHA256.0.to_be_bytes());
        forged.extend_from_slice(&(length as u16).to_be_bytes());
        forged.extend_from_slice(&full[..length]);
        forged.resize(forged.len().next_multiple_of(4), 0);
        let claimed = (forged.len() - HEADER_BYTES) as u16;
        forged[2..4].copy_from_slice(&claimed.to_be_bytes());
        let message = Message::parse(&forged).unwrap();
        assert_eq!(message.integrity_sha256().map(<[u8]>::len), Some(length));
        assert!(!message.verify_integrity(&KEY), "{length} bytes");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(raw in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        drive(&raw);
    }

    #[test]
    fn arbitrary_attributes_behind_a_valid_header_never_panic(
        body in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
    ) {
        let mut raw = MessageBuilder::binding_request(TRANSACTION).finish().unwrap();
        raw.extend_from_slice(&body[..body.len() / 4 * 4]);
        let length = (raw.len() - HEADER_BYTES) as u16;
        raw[2..4].copy_from_slice(&length.to_be_bytes());
        drive(&raw);
    }
}

/// Calls every reader.
fn drive(raw: &[u8]) {
    let Ok(message) = Message::parse(raw) else { return };
    for (attribute, _) in message.attributes() {
        let _ = (message.text(attribute), message.u16(attribute), message.u32(attribute), message.u64(attribute));
        let _ = (message.id(attribute), message.xor_address(attribute));
        assert!(message.xor_addresses(attribute).count() <= MESSAGE_BYTES_MAX / 4);
    }
    let _ = (message.error_code(), message.unknown_required(), message.offers().count());
    assert!(!message.verify_integrity(&KEY));
    let _ = message.check_fingerprint();
}
