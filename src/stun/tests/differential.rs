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

/// Whatever single byte changes: where both read the message, both give the same verdict and see the same USERNAME.
#[test]
fn both_judge_a_changed_message_alike() {
    let honest = MessageBuilder::binding_request(TRANSACTION)
        .text(AttributeType::USERNAME, USER)
        .text(AttributeType::REALM, REALM)
        .integrity(&key())
        .fingerprint()
        .finish()
        .unwrap();
    let mut compared = 0;
    for position in 0..honest.len() {
        for change in 1..=u8::MAX {
            let mut raw = honest.clone();
            raw[position] ^= change;
            let (Ok(ours), Ok(message)) = (Message::parse(&raw), other::Message::from_bytes(&raw)) else { continue };
            // They stop looking at the fingerprint where a change makes a second integrity attribute; we don't.
            if ours.check_fingerprint() == FingerprintCheck::Wrong {
                continue;
            }
            let verdict = message.validate_integrity(&credentials()).is_ok();
            assert_eq!(ours.verify_integrity(&key()), verdict, "byte {position} ^ {change:#x}");
            let username = message.attribute::<theirs::Username>().map(|name| name.username().to_owned());
            let ours = ours.text(AttributeType::USERNAME).ok().flatten().map(str::to_owned);
            assert!(!verdict || ours == username.ok(), "byte {position} ^ {change:#x}");
            compared += 1;
        }
    }
    assert!(compared > 255, "most changes hide the fingerprint's type: {compared}");
}
