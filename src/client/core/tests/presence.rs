use super::super::presence::{Keeper, PresenceEvent};
use super::*;
use crate::domain::InstanceId;

const INTERVAL_MS: u64 = 18_000;

fn keeper() -> Keeper {
    Keeper::new(server(), credential("p1.x"), INTERVAL_MS, entropy(1), at(0))
}

fn sent(keeper: &mut Keeper) -> Vec<Vec<u8>> {
    drain(|| keeper.poll_transmit()).into_iter().map(|transmit| transmit.bytes.to_vec()).collect()
}

fn input(keeper: &mut Keeper, datagram: &[u8], now: MonoTime) {
    keeper.handle_answer(&Message::parse(datagram).unwrap(), server(), now);
}

fn events(keeper: &mut Keeper) -> Vec<PresenceEvent> {
    std::iter::from_fn(|| keeper.poll_event()).collect()
}

/// Through the challenge: gives the authenticated request.
fn challenged(keeper: &mut Keeper, now: MonoTime) -> Vec<u8> {
    let first = sent(keeper).pop().unwrap();
    input(keeper, &challenge(&first, 401, "nonce-a"), now);
    events(keeper);
    sent(keeper).pop().unwrap()
}

fn verified(keeper: &mut Keeper, now: MonoTime) -> Vec<u8> {
    let request = challenged(keeper, now);
    input(keeper, &success(&request, &credential("p1.x").key, |answer| answer), now);
    request
}

fn sequence(request: &[u8]) -> u64 {
    Message::parse(request).unwrap().u64(AttributeType::RV_SEQUENCE).unwrap().unwrap()
}

#[test]
fn a_padded_question_then_the_proof() {
    let mut keeper = keeper();
    let first = sent(&mut keeper);
    assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [160]);
    let message = Message::parse(&first[0]).unwrap();
    assert_eq!(message.text(AttributeType::USERNAME), Ok(Some("p1.x")));
    assert!(!message.has_integrity());

    input(&mut keeper, &challenge(&first[0], 401, "nonce-a"), at(20));
    let proofs = sent(&mut keeper);
    let proof = Message::parse(&proofs[0]).unwrap();
    assert!(proof.verify_integrity(&credential("p1.x").key));
    assert_eq!(proof.attribute(AttributeType::NONCE), Some(b"nonce-a".as_slice()));
    assert_eq!(proof.text(AttributeType::REALM), Ok(Some("rendezvous")));
    for echoed in [AttributeType::PASSWORD_ALGORITHMS, AttributeType::PASSWORD_ALGORITHM] {
        assert_eq!(proof.attribute(echoed), Some(PASSWORD_ALGORITHM_SHA256.as_slice()));
    }
    input(&mut keeper, &success(&proofs[0], &credential("p1.x").key, |answer| answer.offer(9, 1_500)), at(40));
    let mapped = address("198.51.100.7:40000");
    let offer = PresenceEvent::Offer { attempt: AttemptId(9), left_ms: 1_500 };
    let expected = [PresenceEvent::InstanceSeen(InstanceId(77)), PresenceEvent::Verified { mapped }, offer];
    assert_eq!(events(&mut keeper), expected);
    assert_eq!(keeper.poll_timeout(), at(40).plus_ms(INTERVAL_MS));
}

#[test]
fn what_is_lost_is_repeated_as_the_same_bytes_and_told_once() {
    let mut keeper = keeper();
    let first = sent(&mut keeper);
    let mut times = Vec::new();
    while keeper.poll_timeout() < at(INTERVAL_MS) {
        let due = keeper.poll_timeout();
        keeper.handle_timeout(due);
        let repeated = sent(&mut keeper);
        assert!(repeated.is_empty() || repeated == first);
        if !repeated.is_empty() {
            times.push(due.ms_since(at(0)));
        }
    }
    assert_eq!(times, [500, 1_500, 3_500, 7_500, 11_500, 15_500]);
    assert_eq!(events(&mut keeper), [PresenceEvent::Unanswered]);
    keeper.handle_timeout(at(INTERVAL_MS));
    assert_ne!(sent(&mut keeper), first, "a new exchange for the new interval");
    keeper.handle_timeout(at(2 * INTERVAL_MS));
    assert_eq!(events(&mut keeper), [], "told once");
}

#[test]
fn forged_challenges_never_stop_what_was_sent_and_three_nonces_are_tried() {
    let mut keeper = keeper();
    let proof = challenged(&mut keeper, at(20));
    for forged in 0..10 {
        for code in [401, 438] {
            input(&mut keeper, &challenge(&proof, code, &format!("forged-{forged}-{code}")), at(30));
        }
    }
    assert_eq!(sent(&mut keeper).len(), 2, "two more nonces beside the first");
    keeper.handle_timeout(at(500));
    let repeated = sent(&mut keeper);
    assert!(repeated.contains(&proof), "the first proof is still repeated");
    assert_eq!(repeated.len(), 4, "the question and three proofs");
    input(&mut keeper, &success(&proof, &credential("p1.x").key, |answer| answer), at(520));
    assert!(events(&mut keeper).iter().any(|event| matches!(event, PresenceEvent::Verified { .. })));
    keeper.handle_timeout(keeper.poll_timeout());
    let next = sent(&mut keeper);
    let nonce = Message::parse(&next[0]).unwrap().attribute(AttributeType::NONCE).map(<[u8]>::to_vec);
    assert_ne!(nonce.as_deref(), Some(b"forged-0-438".as_slice()), "a nonce that was not accepted is forgotten");
}

#[test]
fn unsigned_or_misplaced_answers_decide_nothing() {
    let mut keeper = keeper();
    let proof = challenged(&mut keeper, at(20));
    let key = credential("p1.x").key;
    let forged = success(&proof, b"another key", |answer| answer);
    input(&mut keeper, &forged, at(30));
    input(&mut keeper, &refusal(&proof, b"another key", 1, None), at(30));
    let unknown = success(&challenge(&proof, 401, "x"), &key, |answer| answer);
    let mut other = Message::parse(&unknown).unwrap().bytes().to_vec();
    other[19] ^= 1;
    keeper.handle_answer(&Message::parse(&other).unwrap(), server(), at(30));
    let right = success(&proof, &key, |answer| answer);
    keeper.handle_answer(&Message::parse(&right).unwrap(), address("203.0.113.9:3478"), at(30));
    assert_eq!(events(&mut keeper), []);
    input(&mut keeper, &right, at(40));
    assert_eq!(events(&mut keeper).len(), 1);
    input(&mut keeper, &right, at(50));
    assert_eq!(events(&mut keeper), [], "a duplicate says nothing new");
}

#[test]
fn sequences_are_milliseconds_from_a_random_start() {
    let mut starts = Vec::new();
    for seed in 0..20 {
        let mut keeper = Keeper::new(server(), credential("p1.x"), INTERVAL_MS, entropy(seed), at(0));
        let first = sequence(&verified(&mut keeper, at(0)));
        assert!(first < 1 << 62);
        starts.push(first >> 58);
        keeper.handle_timeout(at(INTERVAL_MS));
        let second = sequence(&sent(&mut keeper)[0]);
        assert_eq!(second - first, INTERVAL_MS);
    }
    starts.dedup();
    assert!(starts.len() > 5, "starts are spread: {starts:?}");
}

#[test]
fn a_nonce_is_reused_while_it_is_fresh_and_then_asked_for_again() {
    let mut keeper = keeper();
    let mut now = at(0);
    let mut request = verified(&mut keeper, now);
    let mut fresh = Vec::new();
    for _ in 0..6 {
        now = now.plus_ms(INTERVAL_MS);
        keeper.handle_timeout(now);
        request = sent(&mut keeper).pop().unwrap();
        let signed = Message::parse(&request).unwrap().has_integrity();
        fresh.push(signed);
        if signed {
            input(&mut keeper, &success(&request, &credential("p1.x").key, |answer| answer), now);
        }
    }
    assert_eq!(fresh, [true, true, true, true, true, false], "90 s are fresh, 108 s are not");
    assert_eq!(request.len(), 160);
}

#[test]
fn a_higher_sequence_of_somebody_else_is_passed_once_per_interval() {
    let mut keeper = keeper();
    let key = credential("p1.x").key;
    let proof = challenged(&mut keeper, at(20));
    let highest = sequence(&proof) + 1_000;
    input(&mut keeper, &refusal(&proof, &key, 9, Some(highest)), at(30));
    let next = sent(&mut keeper);
    assert!(sequence(&next[0]) > highest);
    let again = refusal(&next[0], &key, 9, Some(sequence(&next[0]) + 1));
    input(&mut keeper, &again, at(40));
    assert_eq!(sent(&mut keeper).len(), 0, "no race within the interval");
    assert_eq!(keeper.poll_timeout(), at(40).plus_ms(INTERVAL_MS));
}

#[test]
fn endings_are_told_and_never_repeated_in_a_tight_loop() {
    let key = credential("p1.x").key;
    for (reason, expected) in
        [(1, PresenceEvent::Gone), (4, PresenceEvent::Draining { retry_after_ms: 0 }), (10, PresenceEvent::Gone)]
    {
        let mut keeper = keeper();
        let proof = challenged(&mut keeper, at(20));
        input(&mut keeper, &refusal(&proof, &key, reason, None), at(30));
        assert_eq!(events(&mut keeper), [expected]);
        assert_eq!(keeper.poll_timeout(), at(30).plus_ms(INTERVAL_MS));
    }
    let mut keeper = keeper();
    let proof = challenged(&mut keeper, at(20));
    let draining = success(&proof, &key, |answer| answer.u32(AttributeType::RV_RETRY_AFTER, 4_000));
    input(&mut keeper, &draining, at(30));
    assert!(events(&mut keeper).contains(&PresenceEvent::Draining { retry_after_ms: 4_000 }));
}

#[test]
fn another_instance_is_seen_in_the_challenge_to_an_old_nonce() {
    let mut keeper = keeper();
    verified(&mut keeper, at(0));
    events(&mut keeper);
    keeper.handle_timeout(at(INTERVAL_MS));
    let request = sent(&mut keeper).pop().unwrap();
    let challenge = challenge(&request, 438, "nonce-of-the-new-life");
    input(&mut keeper, &challenge, at(INTERVAL_MS + 5));
    assert_eq!(events(&mut keeper), [PresenceEvent::InstanceSeen(InstanceId(77))]);
    assert_eq!(sent(&mut keeper).len(), 1, "tried under the new nonce, in case it is a forgery");
}
