//! RFC 5769 and RFC 8489 appendix B, byte for byte.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

const RFC_5769_2_1: &str = "00010058 2112a442 b7e7a701bc34d686fa87dfae 80220010 5354554e207465737420636c69656e74
    00240004 6e0001ff 80290008 932ff9b151263b36 00060009 6576746a3a68367659 202020
    00080014 9aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a2 80280004 e57a3bcf";

const RFC_5769_2_2: &str = "0101003c 2112a442 b7e7a701bc34d686fa87dfae 8022000b 7465737420766563746f7220
    00200008 0001a147e112a643 00080014 2b91f599fd9e90c38c7489f92af9ba53f06be7d7 80280004 c07d4c96";

const RFC_5769_2_3: &str = "01010048 2112a442 b7e7a701bc34d686fa87dfae 8022000b 7465737420766563746f7220
    00200014 0002a1470113a9faa5d3f179bc25f4b5bed2b9d9
    00080014 a382954e4be67bf11784c97c8292c275bfe3ed41 80280004 c8fb0b4c";

/// Appendix B.1 with erratum 6268, which corrects the length and adds PASSWORD-ALGORITHM.
const RFC_8489_B_1: &str = "00010090 2112a442 78ad3433c6ad72c029da412e
    001e0020 4a3cf38fef6992bda952c6780417da0f24819415569e60b205c46e41407f1704
    00150029 6f624d61744a6f73324141414366 2f2f3439396b393534643 64f4c33346f4c394653547679363473 41000000
    0014000b 6578616d706c652e6f726700 001d0004 00020000
    001c0020 b5c7bf005b6c52a21c51c5e892f81924136296cb927c43149309278cc6518e65";

#[test]
fn case_s8_rfc_5769_request() {
    let raw = bytes(RFC_5769_2_1);
    let message = Message::parse(&raw).unwrap();
    assert_eq!((message.class(), message.method()), (Class::Request, Method::BINDING));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert_eq!(message.text(AttributeType::USERNAME), Ok(Some("evtj:h6vY")));
    assert!(message.has_integrity() && message.integrity_sha256().is_none(), "SHA-1 is seen and proves nothing");
    assert_eq!(message.unknown_required(), [AttributeType(0x0024)], "PRIORITY belongs to ICE");
}

#[test]
fn case_s8_rfc_5769_mapped_addresses() {
    for (hex, address) in
        [(RFC_5769_2_2, "192.0.2.1:32853"), (RFC_5769_2_3, "[2001:db8:1234:5678:11:2233:4455:6677]:32853")]
    {
        let raw = bytes(hex);
        let message = Message::parse(&raw).unwrap();
        let address: std::net::SocketAddr = address.parse().unwrap();
        assert_eq!((message.class(), message.method()), (Class::Success, Method::BINDING));
        assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
        assert_eq!(message.xor_address(AttributeType::XOR_MAPPED_ADDRESS), Ok(Some(address)));
        let built = MessageBuilder::new(Class::Success, Method::BINDING, message.transaction())
            .xor_address(AttributeType::XOR_MAPPED_ADDRESS, address)
            .finish()
            .unwrap();
        let value =
            |raw: &[u8]| Message::parse(raw).unwrap().attribute(AttributeType::XOR_MAPPED_ADDRESS).map(<[u8]>::to_vec);
        assert_eq!(value(&built), value(&raw));
    }
}

#[test]
fn case_s8_rfc_8489_long_term_sha256() {
    let raw = bytes(RFC_8489_B_1);
    let message = Message::parse(&raw).unwrap();
    let password = crate::credentials::Secret::new("TheMatrIX");
    let username = "\u{30DE}\u{30C8}\u{30EA}\u{30C3}\u{30AF}\u{30B9}";
    let key = crate::credentials::long_term_key(username, "example.org", &password);
    assert!(message.verify_integrity(&key));
    let other = crate::credentials::long_term_key(username, "example.com", &password);
    assert!(!message.verify_integrity(&other));

    let mut builder = MessageBuilder::binding_request(message.transaction());
    for (attribute, value) in message.attributes() {
        builder = builder.attribute(attribute, value);
    }
    assert_eq!(builder.integrity(&key).finish().unwrap(), raw);
}

#[test]
fn introduce_has_the_documented_type() {
    let built = MessageBuilder::new(Class::Indication, Method::INTRODUCE, TRANSACTION).finish().unwrap();
    assert_eq!(built[..2], [0x02, 0xB7]);
    let message = Message::parse(&built).unwrap();
    assert_eq!((message.class(), message.method()), (Class::Indication, Method::INTRODUCE));
}

#[test]
fn every_class_and_method_survives_the_header() {
    for class in [Class::Request, Class::Indication, Class::Success, Class::Error] {
        for method in 0..0x1000 {
            assert_eq!(class_and_method(message_type(class, Method(method))), (class, Method(method)));
            assert_eq!(message_type(class, Method(method)) & 0xC000, 0);
        }
    }
}
