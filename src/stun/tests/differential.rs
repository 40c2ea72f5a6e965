//! The same messages through an independent implementation (`stun-types`), both ways.

use super::*;
use crate::credentials::{REALM, Secret, long_term_key};
use stun_types::attribute as theirs;
use stun_types::message as other;
use stun_types::prelude::*;

const USER: &str = "j1.0123456789abcdef0123456789abcdef";
const PASSWORD: &str = "a-password";

fn credentials() -> other::MessageIntegrityCredentials {
    other::LongTermKeyCredentials::new(USER.into(), PASSWORD.into(), REALM.into()).into()
}

fn key() -> [u8; 32] {
    long_term_key(USER, REALM, &Secret::new(PASSWORD))
}

#[test]
fn they_verify_and_read_what_we_write() {
    let address = "[2001:db8::1]:4242".parse().unwrap();
    let raw = MessageBuilder::new(Class::Success, Method::BINDING, TRANSACTION)
        .text(AttributeType::USERNAME, USER)
        .xor_address(AttributeType::XOR_MAPPED_ADDRESS, address)
        .u32(AttributeType::RV_LIFETIME, 65_000)
        .integrity(&key())
        .fingerprint()
        .finish()
        .unwrap();
    let message = other::Message::from_bytes(&raw).unwrap();
    assert!(message.has_class(other::MessageClass::Success) && message.has_method(other::BINDING));
    assert_eq!(message.validate_integrity(&credentials()).unwrap(), other::IntegrityAlgorithm::Sha256);
    assert_eq!(message.attribute::<theirs::Username>().unwrap().username(), USER);
    let mapped = message.attribute::<theirs::XorMappedAddress>().unwrap();
    assert_eq!(mapped.addr(message.transaction_id()), address);
    assert!(message.has_attribute(theirs::Fingerprint::TYPE));
}

#[test]
fn we_verify_and_read_what_they_write() {
    let mut writer = other::Message::builder_request(other::BINDING, other::MessageWriteVec::new());
    writer.add_attribute(&theirs::Username::new(USER).unwrap()).unwrap();
    writer.add_attribute(&theirs::Realm::new(REALM).unwrap()).unwrap();
    writer.add_attribute(&theirs::Nonce::new("obMatJos2gAAAnonce").unwrap()).unwrap();
    writer.add_message_integrity(&credentials(), other::IntegrityAlgorithm::Sha256).unwrap();
    writer.add_fingerprint().unwrap();
    let raw = writer.finish();
    let message = Message::parse(&raw).unwrap();
    assert_eq!((message.class(), message.method()), (Class::Request, Method::BINDING));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert!(message.verify_integrity(&key()));
    assert_eq!(message.text(AttributeType::REALM), Ok(Some(REALM)));
    assert_eq!(message.text(AttributeType::NONCE), Ok(Some("obMatJos2gAAAnonce")));
}

proptest::proptest! {
    /// Whatever single bytes change: where both read the message, both see the same USERNAME and the same verdict.
    #[test]
    fn both_judge_a_changed_message_alike(position in 0_usize..160, change in 1_u8..) {
        let mut raw = MessageBuilder::binding_request(TRANSACTION)
            .text(AttributeType::USERNAME, USER)
            .text(AttributeType::REALM, REALM)
            .integrity(&key())
            .fingerprint()
            .finish()
            .unwrap();
        let position = position % raw.len();
        raw[position] ^= change;
        let (Ok(ours), Ok(message)) = (Message::parse(&raw), other::Message::from_bytes(&raw)) else { return Ok(()) };
        proptest::prop_assert_ne!(ours.check_fingerprint(), FingerprintCheck::Wrong, "they check it while reading");
        let verdict = message.validate_integrity(&credentials()).is_ok();
        proptest::prop_assert_eq!(ours.verify_integrity(&key()), verdict);
        if verdict {
            let username = message.attribute::<theirs::Username>().map(|name| name.username().to_owned());
            let ours = ours.text(AttributeType::USERNAME).ok().flatten().map(str::to_owned);
            proptest::prop_assert_eq!(ours, username.ok());
        }
    }
}
