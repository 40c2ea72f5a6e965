//! Introduce: what is said to hosts and to both sides without being asked.

use super::answers::introduction;
use super::*;
use crate::domain::{Endpoint, Role};
use crate::edge::udp::introduce::Introducer;
use crate::edge::udp::notices::Offer;
use crate::stun::{Method, OfferAttribute};

fn introducer() -> Introducer {
    Introducer::new(&protocol(), responder().answerer().clone())
}

#[test]
fn an_offer_is_signed_for_the_presence_credential_and_repeats_with_one_transaction() {
    let host = Endpoint::new(address(HOST)).unwrap();
    let deadline = START.plus_ms(30_000);
    let offer = Offer { attempt: ATTEMPT, listing: LISTING, host, deadline, until: deadline };
    let (first, again) = (introducer().offer(&offer, START), introducer().offer(&offer, START.plus_ms(250)));
    let (message, repeated) = (Message::parse(&first).unwrap(), Message::parse(&again).unwrap());
    assert_eq!((message.class(), message.method()), (Class::Indication, Method::INTRODUCE));
    assert_eq!(message.transaction(), repeated.transaction());
    let speaker = Speaker::host_presence();
    assert_eq!(message.text(AttributeType::USERNAME), Ok(Some(&speaker.username[..])));
    assert!(message.verify_integrity(&speaker.key) && repeated.verify_integrity(&speaker.key));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert_eq!(message.attribute(AttributeType::REALM).or(message.attribute(AttributeType::NONCE)), None);
    let offers: Vec<_> = message.offers().collect();
    assert_eq!(offers, [Ok(OfferAttribute { attempt: ATTEMPT.0, left_ms: 30_000 })]);
    let other = introducer().offer(&Offer { attempt: AttemptId(1), ..offer }, START);
    assert_ne!(Message::parse(&other).unwrap().transaction(), message.transaction());
}

#[test]
fn an_introduction_tells_each_side_the_other_where_it_bound_last() {
    let introduction = introduction();
    let peers = |message: &Message<'_>| -> Vec<SocketAddr> {
        message.xor_addresses(AttributeType::RV_PEER_ADDRESS).map(Result::unwrap).collect()
    };
    let mut transactions = Vec::new();
    for (role, speaker, to, peer) in [
        (Role::Host, Speaker::host(), HOST, ["[2001:db8::2]:5000", JOINER]),
        (Role::Joiner, Speaker::joiner(), "[2001:db8::2]:5000", ["[2001:db8::1]:4000", HOST]),
    ] {
        let (endpoint, bytes) = introducer().introduction(&introduction, role, START.plus_ms(50));
        assert_eq!(endpoint.address(), address(to));
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.class(), message.method()), (Class::Indication, Method::INTRODUCE));
        assert_eq!(message.text(AttributeType::USERNAME), Ok(Some(&speaker.username[..])));
        assert!(message.verify_integrity(&speaker.key));
        assert_eq!(message.id(AttributeType::RV_INTRODUCTION), Ok(Some(ATTEMPT.0)));
        assert_eq!(peers(&message), peer.map(address));
        assert_eq!(message.u32(AttributeType::RV_START_AFTER), Ok(Some(100)));
        assert_eq!(message.u32(AttributeType::RV_LIFETIME), Ok(Some(29_950)));
        transactions.push(message.transaction());
    }
    assert_ne!(transactions[0], transactions[1]);
}
