//! What the lane said, as it stands in the answer. The results are built by hand.

use super::*;
use crate::domain::{
    Bound, Certainty, EndReason, Endpoint, Failure, Introduction, Invalid, Offer, Offers, Pair, Present, Rejection,
    Replay, Resource, WallTime,
};
use crate::service::{Applied, Ask, Told};
use crate::stun::OfferAttribute;

pub(super) fn applied<T>(value: T) -> Applied<T> {
    Applied { value, commit: 4711, replayed: false }
}

fn question(speaker: &Speaker, source: &str) -> (Answerer, ReplyTo) {
    let mut responder = responder();
    let nonce = nonce(&mut responder, source, START);
    let question = asked(responder.receive(&speaker.sequenced(&nonce, 1), from(source), START));
    (responder.answerer().clone(), question.reply)
}

fn endpoint(text: &str) -> Endpoint {
    Endpoint::new(address(text)).unwrap()
}

pub(super) fn introduction() -> Introduction {
    let pair = |host: &str, joiner: &str| Some(Pair { host: endpoint(host), joiner: endpoint(joiner) });
    Introduction {
        attempt: ATTEMPT,
        listing: LISTING,
        pairs: [pair("[2001:db8::1]:4000", "[2001:db8::2]:5000"), pair(HOST, JOINER)],
        candidates: [vec![address("192.168.1.7:4000")], vec![address("10.0.0.9:5000")]],
        last_bound: [endpoint(HOST), endpoint("[2001:db8::2]:5000")],
        at: START,
        deadline: START.plus_ms(30_000),
    }
}

#[test]
fn presence_success_carries_lifetime_commit_and_offers() {
    let speaker = Speaker::host_presence();
    let (answerer, reply) = question(&speaker, HOST);
    let offer = |n: u64| Offer { attempt: AttemptId(u128::from(n)), deadline: START.plus_ms(10_000 * n) };
    let offers = (0..3).map(offer).collect();
    let present = Present { deadline: START.plus_ms(65_000), offers, draining: None };
    let answer = answerer.answer(&reply, Ok(applied(Told::Present(present))), START.plus_ms(1_000));
    let message = Message::parse(&answer.bytes).unwrap();
    assert!(message.verify_integrity(&speaker.key));
    assert_eq!(message.check_fingerprint(), FingerprintCheck::Right);
    assert_eq!(message.class(), Class::Success);
    assert_eq!(message.xor_address(AttributeType::XOR_MAPPED_ADDRESS), Ok(Some(address(HOST))));
    assert_eq!(message.u32(AttributeType::RV_LIFETIME), Ok(Some(64_000)), "as of the answer");
    assert_eq!(message.u64(AttributeType::RV_COMMIT), Ok(Some(4711)));
    let offers: Vec<_> = message.offers().collect();
    let expected = |n: u128, left_ms| Ok(OfferAttribute { attempt: n, left_ms });
    assert_eq!(offers, [expected(0, 0), expected(1, 9_000), expected(2, 19_000)]);
    assert_eq!(message.u32(AttributeType::RV_RETRY_AFTER), Ok(None));
}

#[test]
fn rule_j2_presence_in_the_drain_window_says_when_to_come_back_spread_out() {
    let mut delays: Vec<u32> = (0..50_u64)
        .map(|n| {
            let mut responder = responder();
            let nonce = nonce(&mut responder, HOST, START);
            let bytes = Speaker::host_presence().sequenced(&nonce, n);
            let reply = asked(responder.receive(&bytes, from(HOST), START)).reply;
            let present = Present {
                deadline: START.plus_ms(5_000),
                offers: Offers::default(),
                draining: Some(START.plus_ms(5_000)),
            };
            let delay = || {
                let answer = responder.answerer().answer(&reply, Ok(applied(Told::Present(present.clone()))), START);
                Message::parse(&answer.bytes).unwrap().u32(AttributeType::RV_RETRY_AFTER).unwrap().unwrap()
            };
            assert_eq!(delay(), delay(), "the same datagram, the same advice");
            delay()
        })
        .collect();
    assert!(delays.iter().all(|ms| (5_000..25_000).contains(ms)), "{delays:?}");
    delays.sort_unstable();
    assert!(delays[49] - delays[0] > 10_000, "spread: {delays:?}");
}

#[test]
fn bind_success_without_introduction_means_wait() {
    let speaker = Speaker::joiner();
    let (answerer, reply) = question(&speaker, JOINER);
    let bound = Bound { deadline: START.plus_ms(30_000), repeated: false, introduction: None };
    let answer = answerer.answer(&reply, Ok(applied(Told::Bound(bound))), START);
    let message = Message::parse(&answer.bytes).unwrap();
    assert!(message.verify_integrity(&speaker.key));
    assert_eq!(message.xor_address(AttributeType::XOR_MAPPED_ADDRESS), Ok(Some(address(JOINER))));
    assert_eq!(message.u32(AttributeType::RV_LIFETIME), Ok(Some(30_000)));
    assert_eq!(message.id(AttributeType::RV_INTRODUCTION), Ok(None));
}

#[test]
fn rule_h4_bind_success_hands_out_the_other_side_ipv6_first() {
    for (speaker, source, peers, candidate) in [
        (Speaker::joiner(), JOINER, ["[2001:db8::1]:4000", HOST], "192.168.1.7:4000"),
        (Speaker::host(), HOST, ["[2001:db8::2]:5000", JOINER], "10.0.0.9:5000"),
    ] {
        let (answerer, reply) = question(&speaker, source);
        let bound =
            Bound { deadline: START.plus_ms(30_000), repeated: true, introduction: Some(Box::new(introduction())) };
        let at = |ms| answerer.answer(&reply, Ok(applied(Told::Bound(bound.clone()))), START.plus_ms(ms));
        let answer = at(100);
        let message = Message::parse(&answer.bytes).unwrap();
        assert!(message.verify_integrity(&speaker.key));
        assert_eq!(message.id(AttributeType::RV_INTRODUCTION), Ok(Some(ATTEMPT.0)));
        let found: Result<Vec<_>, _> = message.xor_addresses(AttributeType::RV_PEER_ADDRESS).collect();
        assert_eq!(found.unwrap(), peers.map(address));
        let found: Result<Vec<_>, _> = message.xor_addresses(AttributeType::RV_CANDIDATE).collect();
        assert_eq!(found.unwrap(), [address(candidate)]);
        assert_eq!(message.u32(AttributeType::RV_START_AFTER), Ok(Some(50)));
        let later = at(10_000);
        let message = Message::parse(&later.bytes).unwrap();
        assert_eq!(message.u32(AttributeType::RV_START_AFTER), Ok(Some(0)));
        assert_eq!(message.u32(AttributeType::RV_LIFETIME), Ok(Some(20_000)));
        assert_eq!(at(100), answer, "case S4: rebuilt, and equal at the same instant");
    }
}

#[test]
fn addresses_of_our_own_sockets_are_never_introduced() {
    let (answerer, reply) = question(&Speaker::joiner(), JOINER);
    let mut introduction = introduction();
    introduction.candidates[0] = vec![address("127.0.0.1:3478"), address("192.168.1.7:4000")];
    introduction.pairs[1].as_mut().unwrap().host = endpoint("127.0.0.1:3478");
    let bound = Bound { deadline: START, repeated: false, introduction: Some(Box::new(introduction)) };
    let answer = answerer.answer(&reply, Ok(applied(Told::Bound(bound))), START);
    let message = Message::parse(&answer.bytes).unwrap();
    assert_eq!(message.xor_addresses(AttributeType::RV_PEER_ADDRESS).count(), 1);
    assert_eq!(message.xor_addresses(AttributeType::RV_CANDIDATE).count(), 1);
}

/// Every failure that presence and bind can meet, with its code and reason.
fn failures() -> Vec<(Failure, u16, Option<Reason>)> {
    let rejected = |rejection: Rejection, reason: Reason| (rejection.into(), 403, Some(reason));
    let draining = Rejection::Draining { deadline: START, wall: WallTime(0) };
    vec![
        rejected(Rejection::NotFound, Reason::Gone),
        rejected(Rejection::Expired, Reason::Gone),
        rejected(Rejection::Revoked, Reason::Gone),
        rejected(Rejection::Ended(EndReason::Done), Reason::Gone),
        rejected(Rejection::Ended(EndReason::Closed), Reason::Gone),
        rejected(Rejection::Ended(EndReason::Expired), Reason::Gone),
        rejected(Rejection::Ended(EndReason::NotBound), Reason::Gone),
        rejected(Rejection::Ended(EndReason::Revoked), Reason::Gone),
        rejected(Rejection::Ended(EndReason::ListingGone), Reason::Gone),
        rejected(Rejection::Ended(EndReason::Refused), Reason::Refused),
        rejected(Rejection::Ended(EndReason::Drained), Reason::Draining),
        rejected(Rejection::Ended(EndReason::NoCommonFamily), Reason::NoCommonFamily),
        rejected(Rejection::ReplayRejected(Replay::OtherEndpoint), Reason::OtherEndpoint),
        rejected(Rejection::ReplayRejected(Replay::OtherDatagram), Reason::OtherDatagram),
        rejected(Rejection::ReplayRejected(Replay::OldSequence { highest: 99 }), Reason::OldSequence),
        rejected(Rejection::Invalid(Invalid::SameEndpoint), Reason::SameEndpoint),
        rejected(draining, Reason::Draining),
        (Rejection::StaleNonce.into(), 438, None),
        (Rejection::CapacityExceeded(Resource::Presence).into(), 500, Some(Reason::Overloaded)),
        (Failure::Overloaded, 500, Some(Reason::Overloaded)),
        (Failure::Unavailable(Certainty::Unknown), 500, Some(Reason::Overloaded)),
        (Failure::Cancelled, 500, Some(Reason::Overloaded)),
    ]
}

#[test]
fn every_failure_has_its_code_and_reason_and_is_signed() {
    let (bind_speaker, presence_speaker) = (Speaker::joiner(), Speaker::host_presence());
    let (answerer, bind) = question(&bind_speaker, JOINER);
    let (_, presence) = question(&presence_speaker, JOINER);
    for (failure, code, reason) in failures() {
        let answers = [
            (answerer.answer(&bind, Err(failure), START), &bind_speaker),
            (answerer.answer(&presence, Err(failure), START), &presence_speaker),
        ];
        for (answer, speaker) in answers {
            assert_eq!(error_of(&answer, speaker), (code, true), "{failure:?}");
            let message = Message::parse(&answer.bytes).unwrap();
            assert_eq!(message.u16(AttributeType::RV_REASON), Ok(reason.map(Reason::number)), "{failure:?}");
            let retry = message.u32(AttributeType::RV_RETRY_AFTER).unwrap();
            assert_eq!(retry.is_some(), code == 500 || reason == Some(Reason::Draining), "{failure:?}");
            let highest = message.u64(AttributeType::RV_SEQUENCE).unwrap();
            assert_eq!(highest, (reason == Some(Reason::OldSequence)).then_some(99));
        }
    }
}

#[test]
fn a_signed_438_brings_a_nonce_that_works() {
    let speaker = Speaker::host_presence();
    let mut responder = responder();
    let old = nonce(&mut responder, HOST, START);
    let later = START.plus_ms(500_000);
    let reply = asked(responder.receive(&speaker.sequenced(&old, 1), from(HOST), later)).reply;
    let answer = responder.answerer().answer(&reply, Err(Rejection::StaleNonce.into()), later);
    let message = Message::parse(&answer.bytes).unwrap();
    let fresh = message.text(AttributeType::NONCE).unwrap().unwrap();
    let question = asked(responder.receive(&speaker.sequenced(fresh, 2), from(HOST), later));
    assert!(matches!(question.ask, Ask::Presence(presence) if presence.nonce_issued == later));
    assert_eq!(message.id(AttributeType::RV_INSTANCE), Ok(Some(77)));
}

#[test]
fn secrets_never_print() {
    let (_, reply) = question(&Speaker::joiner(), JOINER);
    let shown = format!("{reply:?} {:?} {:?}", protocol(), responder());
    let key = format!("{:?}", Speaker::joiner().key);
    assert!(!shown.contains(&key[1..20]) && !shown.contains("[3, 3, 3") && !shown.contains("[9, 9, 9"), "{shown}");
}
