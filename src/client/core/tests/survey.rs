use super::super::survey::{Reply, Survey};
use super::*;

const OTHER: &str = "203.0.113.1:3479";
const USERNAME: &str = "p1.x";
const ENDS_MS: u64 = 3_000;

fn survey(credential: bool) -> Survey {
    let password = Secret::new("a password");
    let presence = credential.then(|| (USERNAME.to_owned(), &password));
    Survey::new(&[server(), address(OTHER)], presence, entropy(3), at(0), at(ENDS_MS))
}

fn replies(survey: &Survey) -> Vec<Reply> {
    survey.replies().map(|(_, reply)| reply).collect()
}

/// The last datagram for a target.
fn sent(survey: &mut Survey, to: &str) -> Option<Vec<u8>> {
    drain(|| survey.poll_transmit()).into_iter().filter(|t| t.to == address(to)).map(|t| t.bytes.to_vec()).next_back()
}

fn plain(request: &[u8], mapped: &str) -> Vec<u8> {
    let request = Message::parse(request).unwrap();
    MessageBuilder::new(Class::Success, Method::BINDING, request.transaction())
        .xor_address(AttributeType::XOR_MAPPED_ADDRESS, address(mapped))
        .finish()
        .unwrap()
}

fn sequence(request: &[u8]) -> u64 {
    Message::parse(request).unwrap().u64(AttributeType::RV_SEQUENCE).unwrap().unwrap()
}

#[test]
fn each_target_is_asked_until_it_answers() {
    let mut survey = survey(false);
    let first = drain(|| survey.poll_transmit());
    assert_eq!(first.iter().map(|t| t.to).collect::<Vec<_>>(), [server(), address(OTHER)]);
    assert!(first.iter().all(|t| t.bytes.len() == 160), "as long as any answer: it costs the server no token");
    survey.handle_input(&plain(&first[0].bytes, "198.51.100.7:40000"), server(), at(30));
    let (mut now, mut repeats) = (at(0), 0);
    while !survey.is_over(now) {
        now = survey.poll_timeout();
        survey.handle_timeout(now);
        for transmit in drain(|| survey.poll_transmit()) {
            assert_eq!((transmit.to, &transmit.bytes), (address(OTHER), &first[1].bytes), "the same bytes");
            repeats += 1;
        }
    }
    assert_eq!((now, repeats), (at(ENDS_MS), 6));
    let mapped = Reply::Mapped { mapped: address("198.51.100.7:40000"), round_trip_us: 30_000 };
    assert_eq!(replies(&survey), [mapped, Reply::Silent]);
}

#[test]
fn only_an_answer_to_our_own_request_from_where_it_went_counts() {
    let mut survey = survey(false);
    let first = drain(|| survey.poll_transmit());
    let answer = plain(&first[0].bytes, "198.51.100.66:6");
    survey.handle_input(&answer, address(OTHER), at(10));
    survey.handle_input(&answer, address("203.0.113.9:3478"), at(10));
    let mut strange = answer.clone();
    strange[19] ^= 1;
    survey.handle_input(&strange, server(), at(10));
    survey.handle_input(&first[0].bytes, server(), at(10));
    assert_eq!(replies(&survey), [Reply::Silent, Reply::Silent]);
}

#[test]
fn a_challenge_is_answered_under_the_credential() {
    let mut survey = survey(true);
    let first = sent(&mut survey, OTHER).unwrap();
    survey.handle_input(&challenge(&first, 401, "nonce-a"), address(OTHER), at(20));
    let signed = sent(&mut survey, OTHER).unwrap();
    let message = Message::parse(&signed).unwrap();
    assert_eq!(message.text(AttributeType::USERNAME), Ok(Some(USERNAME)));
    assert!(message.verify_integrity(&credential(USERNAME).key));
    // Unsigned, so anybody's.
    survey.handle_input(&plain(&signed, "198.51.100.66:6"), address(OTHER), at(25));
    assert_eq!(replies(&survey)[1], Reply::Challenged { round_trip_us: 20_000 });
    survey.handle_input(&success(&signed, &credential(USERNAME).key, |a| a), address(OTHER), at(35));
    let mapped = Reply::Mapped { mapped: address("198.51.100.7:40000"), round_trip_us: 15_000 };
    assert_eq!(replies(&survey)[1], mapped);
}

#[test]
fn without_a_credential_a_challenge_shows_that_the_target_is_there() {
    let mut survey = survey(false);
    let first = sent(&mut survey, OTHER).unwrap();
    survey.handle_input(&challenge(&first, 401, "nonce-a"), address(OTHER), at(20));
    assert_eq!(sent(&mut survey, OTHER), None, "nothing to sign with");
    assert_eq!(replies(&survey)[1], Reply::Challenged { round_trip_us: 20_000 });
}

#[test]
fn a_number_that_was_overtaken_is_followed_by_a_higher_one() {
    let mut survey = survey(true);
    let first = sent(&mut survey, OTHER).unwrap();
    survey.handle_input(&challenge(&first, 401, "nonce-a"), address(OTHER), at(20));
    let signed = sent(&mut survey, OTHER).unwrap();
    let highest = sequence(&signed) + 7;
    let key = credential(USERNAME).key;
    survey.handle_input(&refusal(&signed, &key, 9, Some(highest)), address(OTHER), at(30));
    let again = sent(&mut survey, OTHER).unwrap();
    assert_eq!(sequence(&again), highest + 1);
    survey.handle_input(&success(&again, &key, |a| a), address(OTHER), at(40));
    assert!(matches!(replies(&survey)[1], Reply::Mapped { .. }));
}
