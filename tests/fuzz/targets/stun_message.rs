//! Datagrams through the parser, and through an independent one (`stun-types`): where both read a message they must agree
//! on what it is and on whether its integrity holds.
#![no_main]

#[path = "../world/input.rs"]
mod input;
#[path = "../world/oracle.rs"]
mod oracle;

use input::Input;
use libfuzzer_sys::fuzz_target;
use oracle::integrity_holds;
use rendezvous::credentials::{REALM, Secret, long_term_key};
use rendezvous::stun::{AttributeType, Class, HEADER_BYTES, MESSAGE_BYTES_MAX, Message, MessageBuilder, TransactionId};
use std::sync::LazyLock;
use stun_types::attribute as theirs;
use stun_types::message as other;

const USER: &str = "p1.0123456789abcdef0123456789abcdef";
const PASSWORD: &str = "a-password";

static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| long_term_key(USER, REALM, &Secret::new(PASSWORD)));
static CREDENTIALS: LazyLock<other::MessageIntegrityCredentials> =
    LazyLock::new(|| other::LongTermKeyCredentials::new(USER.into(), PASSWORD.into(), REALM.into()).into());

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    // A fuzzer finds no checksums: most messages get theirs from us, before or instead of a last change.
    match input.byte() % 4 {
        0 => judge(input.rest()),
        1 => judge(&framed(input.rest())),
        _ => {
            let (place, change) = (input.number(), input.byte());
            let Some(mut message) = sealed(&mut input) else { return };
            let place = usize::from(place) % message.len();
            message[place] ^= change;
            judge(&message);
        }
    }
});

/// `body` behind a header that fits it.
fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = MessageBuilder::binding_request(TransactionId([7; 12])).finish().expect("a header is short");
    message.extend_from_slice(body);
    let length = (message.len() - HEADER_BYTES) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
    message
}

/// Attributes as the input says, with integrity and fingerprint in any order and number.
fn sealed(input: &mut Input<'_>) -> Option<Vec<u8>> {
    let class = [Class::Request, Class::Indication, Class::Success, Class::Error][usize::from(input.byte() % 4)];
    let mut builder = MessageBuilder::new(class, rendezvous::stun::Method::BINDING, TransactionId([7; 12]));
    while !input.is_empty() {
        builder = match input.byte() % 8 {
            0 => builder.integrity(&*KEY),
            1 => builder.fingerprint(),
            2 => builder.text(AttributeType::USERNAME, USER),
            3 => builder.text(AttributeType::REALM, REALM),
            _ => {
                let kind = AttributeType(input.number());
                let length = usize::from(input.byte());
                builder.attribute(kind, input.bytes(length))
            }
        };
    }
    builder.finish().ok()
}

fn judge(raw: &[u8]) {
    let (ours, theirs) = (Message::parse(raw), other::Message::from_bytes(raw));
    let Ok(message) = ours else { return };
    read_all(&message);
    assert!((HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&raw.len()));
    let holds = message.verify_integrity(&*KEY);
    if let Some(verdict) = integrity_holds(raw, &CREDENTIALS) {
        assert_eq!(holds, verdict, "{raw:02x?}");
    }
    // They refuse a wrong fingerprint while they parse.
    let Ok(theirs) = theirs else { return };
    assert_eq!(theirs.method().value(), message.method().bits());
    let class = match message.class() {
        Class::Request => other::MessageClass::Request,
        Class::Indication => other::MessageClass::Indication,
        Class::Success => other::MessageClass::Success,
        Class::Error => other::MessageClass::Error,
    };
    assert!(theirs.has_class(class));
    if holds {
        let username = theirs.attribute::<theirs::Username>().map(|name| name.username().to_owned()).ok();
        if let Ok(ours) = message.text(AttributeType::USERNAME) {
            // Longer ones than RFC 8489 allows are no names to them.
            assert!(username.is_none() || ours == username.as_deref(), "{raw:02x?}");
        }
    }
}

/// Calls every reader; they may refuse, not panic.
fn read_all(message: &Message<'_>) {
    let mut count = 0;
    for (attribute, value) in message.attributes() {
        count += 1;
        assert!(value.len() <= message.bytes().len() - HEADER_BYTES);
        let _ = (message.text(attribute), message.u16(attribute), message.u32(attribute), message.u64(attribute));
        let _ = (message.id(attribute), message.xor_address(attribute));
        assert!(message.xor_addresses(attribute).count() <= message.bytes().len() / 4);
    }
    assert!(count <= message.bytes().len() / 4);
    let _ = (message.error_code(), message.offers().count(), message.check_fingerprint(), message.integrity_and_rest());
    let unknown = message.unknown_required();
    assert!(unknown.iter().all(|attribute| message.attribute(*attribute).is_some()));
}
