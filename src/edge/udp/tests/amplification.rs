//! Before a source is proven, no answer is longer than its request unless a token pays for it (cases X1, X2, X6).

use super::*;

/// Every shape of request that proves nothing, from the smallest legal one on.
fn unproven_shapes() -> Vec<Vec<u8>> {
    let speaker = Speaker::host_presence();
    let integrity = AttributeType::MESSAGE_INTEGRITY_SHA256;
    let stale = "obMatJos2gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let builders = [
        begun(),
        begun().fingerprint(),
        begun().attribute(AttributeType(0x0003), &[0; 4]),
        begun().attribute(AttributeType(0x7001), &[]),
        begun().attribute(AttributeType(0x7001), &[]).attribute(AttributeType(0x7002), &[]),
        begun().text(AttributeType::USERNAME, ""),
        begun().text(AttributeType::USERNAME, &speaker.username),
        begun().attribute(AttributeType::USERHASH, &[]),
        begun().attribute(integrity, &[]),
        begun().attribute(AttributeType::MESSAGE_INTEGRITY, &[]),
        begun().text(AttributeType::USERNAME, "x").attribute(integrity, &[]),
        begun().attribute(AttributeType::USERHASH, &[]).attribute(integrity, &[]),
        speaker.claiming("").attribute(integrity, &[0; 32]),
        speaker.claiming(stale).attribute(integrity, &[0; 32]),
        speaker.claiming(stale).integrity(&speaker.key),
        speaker.claiming(stale).u64(AttributeType::RV_SEQUENCE, 1).integrity(&speaker.key),
        Speaker::joiner().claiming("short").integrity(&speaker.key),
    ];
    let mut shapes: Vec<Vec<u8>> = builders.into_iter().map(|builder| builder.finish().unwrap()).collect();
    shapes.push(speaker.first());
    shapes.push(Speaker::joiner().first());
    shapes.push(Speaker::host().first());
    shapes
}

fn bytes_out(decision: &Decision) -> usize {
    match decision {
        Decision::Silence(_) => 0,
        Decision::Transmit(transmit) | Decision::Note(_, Some(transmit)) => transmit.bytes.len(),
        Decision::Note(_, None) => 0,
        Decision::Ask(_) => panic!("an unproven source asked the lane"),
    }
}

#[test]
fn case_x1_x2_without_tokens_nothing_is_longer_than_its_request() {
    for listener in [from(HOST), from_auth(HOST)] {
        let mut responder = responder();
        let request = begun().finish().unwrap();
        let paid = (0..1_000).filter(|_| bytes_out(&responder.receive(&request, listener, START)) > request.len());
        assert_eq!(paid.count(), 10, "ten tokens a second");
        for shape in unproven_shapes() {
            let decision = responder.receive(&shape, listener, START);
            assert!(bytes_out(&decision) <= shape.len(), "{} bytes: {decision:?}", shape.len());
        }
    }
}

#[test]
fn case_x2_ten_thousand_requests_in_a_second_get_ten_answers() {
    for shape in unproven_shapes() {
        let mut responder = responder();
        let mut longer = 0;
        for n in 0..10_000 {
            let now = START.plus_ms(n / 10);
            longer += usize::from(bytes_out(&responder.receive(&shape, from(HOST), now)) > shape.len());
        }
        assert!(longer <= 20, "{longer} answers were longer than {} bytes", shape.len());
    }
}

#[test]
fn a_request_as_long_as_its_answer_neither_needs_nor_spends_a_token() {
    let mut responder = responder();
    for _ in 0..1_000 {
        assert_eq!(code(responder.receive(&Speaker::host().first(), from(HOST), START)), 401);
        let padded = begun().pad_to(32, 0).finish().unwrap();
        assert_eq!(code(responder.receive(&padded, from(HOST), START)), 200);
    }
    let short = begun().finish().unwrap();
    let paid = (0..100).filter(|_| matches!(responder.receive(&short, from(HOST), START), Decision::Transmit(_)));
    assert_eq!(paid.count(), 10, "all tokens were left");
}

#[test]
fn a_valid_nonce_exempts_and_does_not_spend() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let short = begun().finish().unwrap();
    let paid = (0..100).filter(|_| matches!(responder.receive(&short, from(HOST), START), Decision::Transmit(_)));
    assert_eq!(paid.count(), 10, "now the budget is empty");
    asked(responder.receive(&Speaker::host_presence().sequenced(&nonce, 1), from(HOST), START));
    let wrong = Speaker { key: [0; 32], ..Speaker::host_presence() };
    assert_eq!(code(responder.receive(&wrong.plain(&nonce), from(HOST), START)), 401);

    // The shortest request that can carry a nonce is shorter than its answer.
    let shortest = Speaker { username: String::new(), ..wrong }.claiming(&nonce);
    let shortest = shortest.attribute(AttributeType::MESSAGE_INTEGRITY, &[]).finish().unwrap();
    assert!(shortest.len() < 124);
    let fresh = START.plus_ms(120_000);
    spend_all(&mut responder, fresh);
    assert_eq!(code(responder.receive(&shortest, from(HOST), fresh)), 401);
    let aged = START.plus_ms(120_001);
    let decision = responder.receive(&shortest, from(HOST), aged);
    assert!(matches!(decision, Decision::Silence(Silence::Budget)), "an old nonce proves no source: {decision:?}");
}

/// Spends what the source and everybody have left at `now`.
fn spend_all(responder: &mut Responder, now: MonoTime) {
    let short = begun().finish().unwrap();
    for _ in 0..100 {
        responder.receive(&short, from(HOST), now);
    }
}

#[test]
fn case_x6_a_flood_mutes_nobody_who_pads_and_the_global_budget_bounds_the_rest() {
    let mut responder = responder();
    let short = begun().finish().unwrap();
    let mut answered = 0;
    for n in 0..100_000_u32 {
        let source = format!("10.{}.{}.{}:4000", n >> 16, (n >> 8) & 0xFF, n & 0xFF);
        answered += usize::from(matches!(responder.receive(&short, from(&source), START), Decision::Transmit(_)));
    }
    assert_eq!(answered, 5_000);
    assert!(matches!(responder.receive(&short, from(HOST), START), Decision::Silence(Silence::Budget)));
    assert_eq!(code(responder.receive(&Speaker::joiner().first(), from(HOST), START)), 401);
}

#[test]
fn one_ipv6_network_has_one_budget() {
    let mut responder = responder();
    let short = begun().finish().unwrap();
    let answered = (0..200).filter(|n| {
        let source = format!("[2001:db8:0:1::{n:x}]:4000");
        matches!(responder.receive(&short, from(&source), START), Decision::Transmit(_))
    });
    assert_eq!(answered.count(), 10);
}

#[test]
fn case_x1_names_that_exist_and_names_that_do_not_are_answered_alike() {
    let mut responder = responder();
    let nonce = nonce(&mut responder, HOST, START);
    let shape = |responder: &mut Responder, listing: u128, signed: bool| {
        let username = presence_username(ListingId(listing));
        let speaker = Speaker { username, key: [0; 32] };
        let bytes = if signed { speaker.plain(&nonce) } else { speaker.first() };
        let answer = sent(responder.receive(&bytes, from(HOST), START)).bytes;
        let message = Message::parse(&answer).unwrap();
        (
            message.error_code().unwrap(),
            message.attributes().map(|(kind, value)| (kind, value.len())).collect::<Vec<_>>(),
        )
    };
    for signed in [false, true] {
        let known = shape(&mut responder, LISTING.0, signed);
        assert_eq!(known, shape(&mut responder, 1, signed));
        assert_eq!(known.0, Some(401));
    }
}
