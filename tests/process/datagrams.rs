//! Authentication, replay and junk at the real UDP socket (cases S2 to S4, U1, U2, X1, X2).

use crate::child::until;
use crate::server::{Server, bearer};
use crate::udp::{Credential, Datagram, SILENCE, Stun, transaction};
use rendezvous::stun::{AttributeType, Message, MessageBuilder};
use std::net::UdpSocket;

const V4: &str = "127.0.0.1:0";

/// The address that the owner sees as verified.
fn verified(server: &Server, listing: &crate::server::Listing) -> String {
    let lease = listing.ask(&mut server.connect(), "GET", "/lease");
    let endpoints = lease.json["endpoints"].as_array().expect("endpoints").clone();
    let found = endpoints.iter().find(|endpoint| endpoint["presence"] == "verified");
    crate::server::text(&found.unwrap_or_else(|| panic!("none verified: {lease:?}"))["address"])
}

#[test]
fn case_s2_whoever_can_not_sign_takes_no_slot() {
    let server = Server::dev();
    let listing = server.register();
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let (attempt, other) = (server.attempt(&listing), server.attempt(&listing));
    let right = Credential::joiner(&attempt);
    let wrong = Credential::new(&right.username, "guessed");
    let of_another = Credential::new(&right.username, &other.password);
    let mut thief = Stun::new(V4, server.udp);
    let nonce = thief.challenge(&right);
    let cut = |bytes: Vec<u8>| {
        // 4 of 32 bytes of integrity.
        let unsigned = right.unsigned(&nonce, None);
        let value = Message::parse(&bytes).expect("signed").integrity_sha256().expect("there").to_vec();
        unsigned.attribute(AttributeType::MESSAGE_INTEGRITY_SHA256, &value[..4]).fingerprint().finish().expect("short")
    };
    for bytes in [
        wrong.signed(&nonce, None),
        of_another.signed(&nonce, None),
        cut(right.signed(&nonce, None)),
        right.unsigned(&nonce, None).fingerprint().finish().expect("short"),
    ] {
        let answer = thief.ask(&bytes);
        assert!(matches!(answer.error(), Some(400 | 401)), "{answer:?}");
        assert!(answer.0.len() <= bytes.len(), "{} for {}", answer.0.len(), bytes.len());
    }
    let mut joiner = Stun::new(V4, server.udp);
    joiner.bind(&right);
    assert_eq!(host.bind(&Credential::host(&listing, &attempt.id)).peers(), [joiner.local()]);
}

#[test]
fn case_s3_a_captured_heartbeat_moves_nothing_and_a_fresh_one_does() {
    let server = Server::dev();
    let listing = server.register();
    let credential = Credential::presence(&listing);
    let mut a = Stun::new(V4, server.udp);
    let nonce = a.challenge(&credential);
    let captured = credential.signed(&nonce, Some(100));
    assert!(a.ask(&captured).is_success());
    let mut b = Stun::new(V4, server.udp);
    let refused = b.ask(&captured);
    assert_eq!(refused.error(), Some(438), "{refused:?}");
    assert_eq!(verified(&server, &listing), a.local().to_string());
    assert!(a.ask(&credential.signed(&nonce, Some(101))).is_success());
    assert_eq!(b.ask(&captured).error(), Some(438));
    let old = a.ask(&captured);
    assert_eq!((old.error(), old.reason()), (Some(403), Some(9)), "old_sequence: {old:?}");
    assert_eq!(old.message().u64(AttributeType::RV_SEQUENCE), Ok(Some(101)));
    assert_eq!(verified(&server, &listing), a.local().to_string());
    let mut c = Stun::new(V4, server.udp);
    assert!(c.log_in(&credential, Some(102)).is_success());
    assert_eq!(verified(&server, &listing), c.local().to_string());
}

#[test]
fn an_unread_sender_from_elsewhere_is_shown_to_the_owner_and_changes_nothing() {
    let server = Server::dev();
    let listing = server.register();
    let credential = Credential::presence(&listing);
    let mut a = Stun::new(V4, server.udp);
    let nonce = a.challenge(&credential);
    assert!(a.ask(&credential.signed(&nonce, Some(100))).is_success());
    let mut moved = Stun::new(V4, server.udp);
    let answer = moved.ask(&credential.signed(&nonce, Some(200)));
    assert_eq!(answer.error(), Some(438), "{answer:?}");
    assert_eq!(verified(&server, &listing), a.local().to_string());
    // The note follows the answer: nobody waits for it.
    let mut owner = server.connect();
    until("the owner's view of the other sender", || {
        let lease = listing.ask(&mut owner, "GET", "/lease");
        let endpoints = lease.json["endpoints"].as_array().expect("endpoints");
        let moved = moved.local().to_string();
        let noted =
            |endpoint: &serde_json::Value| endpoint["presence"] == "unverified" && endpoint["address"] == *moved;
        endpoints.iter().any(noted).then_some(())
    });
    // Its number was not used up.
    assert!(a.ask(&credential.signed(&nonce, Some(101))).is_success());
}

#[test]
fn case_s4_an_exact_retransmission_is_no_conflict() {
    let server = Server::dev();
    let listing = server.register();
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let credential = Credential::joiner(&attempt);
    let mut joiner = Stun::new(V4, server.udp);
    let nonce = joiner.challenge(&credential);
    let bytes = credential.signed(&nonce, None);
    let commit = server.status()["commit"].as_u64().expect("a commit");
    let first = joiner.ask(&bytes);
    assert!(first.is_success(), "{first:?}");
    for _ in 0..4 {
        assert_eq!(stable(&joiner.ask(&bytes)), stable(&first));
    }
    assert_eq!(server.status()["commit"].as_u64(), Some(commit + 1), "five datagrams, one bind");
    // Controls: other bytes for the slot, and the same bytes from elsewhere.
    let other = joiner.ask(&credential.signed(&nonce, None));
    assert_eq!((other.error(), other.reason()), (Some(403), Some(3)), "other_datagram: {other:?}");
    let mut elsewhere = Stun::new(V4, server.udp);
    assert_eq!(elsewhere.ask(&bytes).error(), Some(438));
    let endpoint = elsewhere.log_in(&credential, None);
    assert_eq!((endpoint.error(), endpoint.reason()), (Some(403), Some(2)), "other_endpoint: {endpoint:?}");
    // After the introduction the same bytes get the new state's answer, again and again.
    host.bind(&Credential::host(&listing, &attempt.id));
    let introduced = joiner.ask(&bytes);
    assert_eq!(introduced.peers(), [host.local()]);
    for _ in 0..4 {
        assert_eq!(stable(&joiner.ask(&bytes)), stable(&introduced));
    }
}

/// An answer without what is as of now: lifetime, start, commit, and what covers them.
fn stable(answer: &Datagram) -> Vec<(AttributeType, Vec<u8>)> {
    let moving = [AttributeType::RV_LIFETIME, AttributeType::RV_START_AFTER, AttributeType::RV_COMMIT];
    let kept = answer.message().attributes().filter(|(attribute, _)| !moving.contains(attribute));
    let mut kept: Vec<_> = kept.map(|(attribute, value)| (attribute, value.to_vec())).collect();
    kept.push((AttributeType(0), answer.message().transaction().0.to_vec()));
    kept
}

/// The answers that come for one datagram.
fn answers(stun: &Stun, bytes: &[u8]) -> Vec<Datagram> {
    stun.send(bytes);
    std::iter::from_fn(|| stun.receive(SILENCE)).collect()
}

#[test]
fn case_x1_and_x2_nobody_unproven_gets_more_than_he_sent_and_ids_show_in_no_answer() {
    let server = Server::dev();
    let listing = server.register();
    Stun::new(V4, server.udp).present(&listing);
    let attempt = server.attempt(&listing);
    let existing =
        [Credential::presence(&listing), Credential::joiner(&attempt), Credential::host(&listing, &attempt.id)];
    let absent = existing.clone().map(|credential| {
        let swapped = credential.username.replace(&listing.id, &"7".repeat(32)).replace(&attempt.id, &"7".repeat(32));
        Credential::new(&swapped, "guessed")
    });
    for (real, unreal) in existing.iter().zip(&absent) {
        let shapes: Vec<_> = [real, unreal]
            .map(|credential| {
                let mut stun = Stun::new(V4, server.udp);
                let nonce = stun.challenge(credential);
                let guessed = Credential::new(&credential.username, "wrong");
                [credential.first(), guessed.signed(&nonce, Some(1))].map(|bytes| {
                    let got = answers(&stun, &bytes);
                    let received: usize = got.iter().map(|answer| answer.0.len()).sum();
                    assert!(received <= bytes.len(), "{received} bytes for {}", bytes.len());
                    got.iter().map(|answer| (answer.0.len(), answer.error())).collect::<Vec<_>>()
                })
            })
            .into();
        assert_eq!(shapes[0], shapes[1], "{} and {}", real.username, unreal.username);
    }
}

#[test]
fn case_x2_short_requests_are_answered_within_a_budget_only() {
    const SENT: usize = 300;
    let server = Server::dev();
    // An address of its own, so that no other traffic spends its budget.
    let stun = Stun::new("127.0.0.66:0", server.udp);
    let short = MessageBuilder::binding_request(transaction()).text(AttributeType::USERNAME, "p1.x").finish().unwrap();
    (0..SENT).for_each(|_| stun.send(&short));
    let got = std::iter::from_fn(|| stun.receive(SILENCE)).count();
    // 10 a second and 10 at once, over the second or so that this takes.
    assert!(got < SENT / 4, "{got} answers to {SENT} short requests");
    // Whoever pads is not muted by that.
    let listing = server.register();
    Stun::new("127.0.0.66:0", server.udp).present(&listing);
}

#[test]
fn case_u1_and_u2_junk_ends_nothing_and_is_not_answered() {
    let mut server = Server::dev();
    let listing = server.register();
    let credential = Credential::presence(&listing);
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let junk = UdpSocket::bind(V4).expect("a socket");
    junk.connect(server.udp).expect("loopback");
    let mut claims_more = vec![0; 1_600];
    claims_more[..8].copy_from_slice(&[0, 1, 0x0D, 0xAA, 0x21, 0x12, 0xA4, 0x42]);
    let valid = credential.first();
    let mut datagrams: Vec<Vec<u8>> = vec![vec![], vec![0; 20], claims_more, vec![0xFF; 65_507]];
    datagrams.extend([1_199, 1_200, 1_201, 1_500, 2_048].map(|length| vec![1; length]));
    datagrams.extend((0..valid.len()).map(|length| valid[..length].to_vec()));
    // Answers and indications are never answered (case S11).
    for head in [[0x01, 0x01], [0x01, 0x11], [0x00, 0x11], [0x02, 0xB7]] {
        let mut answer = valid.clone();
        answer[..2].copy_from_slice(&head);
        datagrams.push(answer);
    }
    for datagram in &datagrams {
        junk.send(datagram).expect("loopback");
    }
    (0..10_000).for_each(|_| {
        let _full = junk.send(&[]);
    });
    junk.set_read_timeout(Some(SILENCE)).expect("an option");
    assert!(junk.recv(&mut [0; 2_048]).is_err(), "junk was answered");
    let answer = host.log_in(&credential, Some(2));
    assert!(answer.is_success(), "{answer:?}");
    assert!(server.process.is_running());
}

#[test]
fn a_sequence_once_used_is_required() {
    let server = Server::dev();
    let listing = server.register();
    let credential = Credential::presence(&listing);
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let refused = host.log_in(&credential, None);
    assert_eq!((refused.error(), refused.reason()), (Some(403), Some(9)), "{refused:?}");
}

#[test]
fn case_x3_without_presence_there_is_nothing_to_join() {
    let server = Server::dev();
    let listing = server.register();
    assert_eq!(server.browse(), Vec::<String>::new());
    let headers = [("Authorization", &*bearer(&server.guest())), ("Idempotency-Key", "k")];
    let refused = server.ask("POST", &listing.path("/attempts"), &headers, "{}");
    assert_eq!((refused.status, refused.code()), (404, "not_found"), "{refused:?}");
}
