//! From presence to introduction with hand-made datagrams, over IPv4 and IPv6 (cases P1, P2, P5 to P8, rules H2, H3).

use crate::child::until;
use crate::http::Connection;
use crate::server::{Attempt, Listing, Server, bearer, guest, join};
use crate::udp::{Credential, Datagram, Stun};
use rendezvous::stun::AttributeType;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// With a UDP listener of either family.
fn dual_stack() -> Server {
    Server::with_listeners("", &["--http", "127.0.0.1:0", "--udp", V4, "--udp", V6])
}

fn of_family(listing: &Listing, v6: bool) -> SocketAddr {
    let found = listing.stun.iter().find(|address| address.is_ipv6() == v6);
    *found.expect("the answer names a listener of either family")
}

fn v4(listing: &Listing) -> Stun {
    Stun::new(V4, of_family(listing, false))
}

fn v6(listing: &Listing) -> Stun {
    Stun::new(V6, of_family(listing, true))
}

fn state(server: &Server, attempt: &Attempt) -> serde_json::Value {
    let answer = server.ask("GET", &attempt.path(), &[("Authorization", &bearer(&attempt.token))], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json
}

fn introduction(answer: &Datagram) -> String {
    let id = answer.message().id(AttributeType::RV_INTRODUCTION).expect("well formed").expect("introduced");
    format!("{id:032x}")
}

#[test]
fn an_introduction_is_told_in_the_answer_by_introduce_and_over_http() {
    let server = Server::dev();
    let listing = server.register();
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let mut joiner = Stun::new(V4, server.udp);
    let (host_credential, joiner_credential) = (Credential::host(&listing, &attempt.id), Credential::joiner(&attempt));
    let waits = joiner.bind(&joiner_credential);
    assert_eq!((waits.peers(), waits.mapped()), (vec![], joiner.local()));
    let answer = host.bind(&host_credential);
    assert_eq!((answer.peers(), introduction(&answer)), (vec![joiner.local()], attempt.id.clone()));
    for (stun, credential, peer) in
        [(&mut joiner, &joiner_credential, host.local()), (&mut host, &host_credential, waits.mapped())]
    {
        let told = stun.introduce(credential, |told| !told.peers().is_empty());
        assert_eq!((told.peers(), introduction(&told)), (vec![peer], attempt.id.clone()));
        assert!(told.message().attribute(AttributeType::NONCE).is_none());
    }
    let seen = state(&server, &attempt);
    assert_eq!(seen["state"], "introduced");
    assert_eq!(seen["peer"], serde_json::json!([host.local().to_string()]));
    assert_eq!(seen["own"], serde_json::json!([joiner.local().to_string()]));
}

#[test]
fn dual_stack_sides_are_introduced_over_both_families_ipv6_first() {
    let server = dual_stack();
    let listing = server.register();
    let (mut host_v4, mut host_v6) = (v4(&listing), v6(&listing));
    host_v4.present(&listing);
    host_v6.present(&listing);
    let mut connection = server.connect();
    let lease = listing.ask(&mut connection, "GET", "/lease");
    let seen: Vec<_> = lease.json["endpoints"].as_array().expect("endpoints").iter().collect();
    assert_eq!(seen.len(), 2, "one presence with two endpoints: {lease:?}");
    for (family, address) in [("ipv4", host_v4.local()), ("ipv6", host_v6.local())] {
        let found = seen.iter().find(|endpoint| endpoint["family"] == family).expect("the family");
        assert_eq!(
            (found["address"].as_str(), found["presence"].as_str()),
            (Some(&*address.to_string()), Some("verified"))
        );
    }
    let attempt = server.attempt(&listing);
    let (mut joiner_v4, mut joiner_v6) = (v4(&listing), v6(&listing));
    let (as_host, as_joiner) = (Credential::host(&listing, &attempt.id), Credential::joiner(&attempt));
    joiner_v4.bind(&as_joiner);
    joiner_v6.bind(&as_joiner);
    assert_eq!(host_v4.bind(&as_host).peers(), [joiner_v4.local()]);
    assert_eq!(host_v6.bind(&as_host).peers(), [joiner_v6.local(), joiner_v4.local()]);
    assert_eq!(
        state(&server, &attempt)["peer"],
        serde_json::json!([host_v6.local().to_string(), host_v4.local().to_string()])
    );
}

#[test]
fn case_p1_the_introduced_address_is_the_one_of_udp_whatever_http_came_from() {
    let server = Server::dev();
    let mut connection = Connection::from("127.0.0.5".parse().unwrap(), server.http);
    let token = guest(&mut connection);
    let listing = crate::server::register(&mut connection, &token, "k", "").expect("registered");
    let mut host = Stun::new("127.0.0.8:0", server.udp);
    host.present(&listing);
    let player = guest(&mut connection);
    let attempt = Attempt::of(&player, &join(&mut connection, &player, &listing.id, "k", "{}"));
    let mut joiner = Stun::new("127.0.0.9:0", server.udp);
    joiner.bind(&Credential::joiner(&attempt));
    assert_eq!(host.bind(&Credential::host(&listing, &attempt.id)).peers(), [joiner.local()]);
    assert_eq!(state(&server, &attempt)["peer"], serde_json::json!([host.local().to_string()]));
}

#[test]
fn case_p5_what_a_host_says_of_its_address_is_display_only() {
    let server = Server::dev();
    let mut connection = server.connect();
    let token = guest(&mut connection);
    let said = r#","candidates":["10.0.0.4:31337"]"#;
    let listing = crate::server::register(&mut connection, &token, "k", said).expect("registered");
    let mut host = Stun::new("127.0.0.4:0", server.udp);
    host.present(&listing);
    let player = guest(&mut connection);
    let attempt = Attempt::of(&player, &join(&mut connection, &player, &listing.id, "k", "{}"));
    let mut joiner = Stun::new("127.0.0.9:0", server.udp);
    joiner.bind(&Credential::joiner(&attempt));
    host.bind(&Credential::host(&listing, &attempt.id));
    let told = state(&server, &attempt);
    assert_eq!(told["peer"], serde_json::json!([host.local().to_string()]));
    assert!(!told.to_string().contains("10.0.0.4"), "candidates are for players behind one address: {told}");
}

#[test]
fn case_p2_peers_behind_one_address_are_introduced_with_their_candidates() {
    let server = Server::dev();
    let mut connection = server.connect();
    let token = guest(&mut connection);
    let candidates = r#","candidates":["192.168.1.7:5000"]"#;
    let listing = crate::server::register(&mut connection, &token, "k", candidates).expect("registered");
    let mut host = Stun::new("127.0.0.7:0", server.udp);
    host.present(&listing);
    let player = guest(&mut connection);
    let body = r#"{"candidates":["10.0.0.9:6000"]}"#;
    let attempt = Attempt::of(&player, &join(&mut connection, &player, &listing.id, "k", body));
    let mut joiner = Stun::new("127.0.0.7:0", server.udp);
    joiner.bind(&Credential::joiner(&attempt));
    let answer = host.bind(&Credential::host(&listing, &attempt.id));
    assert_eq!(answer.peers(), [joiner.local()]);
    let candidates: Vec<_> = answer.message().xor_addresses(AttributeType::RV_CANDIDATE).collect();
    assert_eq!(candidates, [Ok("10.0.0.9:6000".parse().unwrap())]);
}

#[test]
fn case_p2_candidates_are_kept_back_when_the_addresses_differ() {
    let server = Server::dev();
    let mut connection = server.connect();
    let listing = server.register();
    let mut host = Stun::new("127.0.0.7:0", server.udp);
    host.present(&listing);
    let player = guest(&mut connection);
    let body = r#"{"candidates":["10.0.0.9:6000"]}"#;
    let attempt = Attempt::of(&player, &join(&mut connection, &player, &listing.id, "k", body));
    let mut joiner = Stun::new("127.0.0.6:0", server.udp);
    joiner.bind(&Credential::joiner(&attempt));
    let answer = host.bind(&Credential::host(&listing, &attempt.id));
    assert_eq!(answer.peers(), [joiner.local()]);
    assert_eq!(answer.message().xor_addresses(AttributeType::RV_CANDIDATE).count(), 0);
    let refused = join(&mut connection, &player, &listing.id, "public", r#"{"candidates":["203.0.113.9:6000"]}"#);
    assert_eq!((refused.status, refused.code()), (400, "invalid"), "{refused:?}");
}

#[test]
fn case_p2_one_socket_for_both_sides_and_ones_own_game_are_clear_errors() {
    let server = Server::dev();
    let listing = server.register();
    let mut shared = Stun::new(V4, server.udp);
    shared.present(&listing);
    let mut connection = server.connect();
    let own = join(&mut connection, &listing.token, &listing.id, "own", "{}");
    assert_eq!((own.status, own.code()), (400, "invalid"), "{own:?}");
    let attempt = server.attempt(&listing);
    shared.bind(&Credential::joiner(&attempt));
    let refused = shared.log_in(&Credential::host(&listing, &attempt.id), None);
    assert_eq!((refused.error(), refused.reason()), (Some(403), Some(12)), "same_endpoint: {refused:?}");
}

#[test]
fn case_p6_sides_without_a_common_family_end_soon_with_their_own_code() {
    let server = dual_stack();
    let listing = server.register();
    let mut host = v6(&listing);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let mut joiner = v4(&listing);
    let as_joiner = Credential::joiner(&attempt);
    joiner.bind(&as_joiner);
    let waits = host.bind(&Credential::host(&listing, &attempt.id));
    assert_eq!(waits.peers(), []);
    let begun = Instant::now();
    let ended = until("the end of the attempt", || {
        let seen = state(&server, &attempt);
        (seen["state"] != "waiting").then_some(seen)
    });
    assert_eq!(ended["state"], "no_common_family");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let refused = joiner.log_in(&as_joiner, None);
    assert_eq!((refused.error(), refused.reason()), (Some(403), Some(6)), "{refused:?}");
    assert!(joiner.aside.iter().chain(&host.aside).all(|seen| seen.peers().is_empty()), "a useless introduction");
}

#[test]
fn case_p8_a_port_that_was_used_before_meets_no_leftovers() {
    let server = Server::dev();
    let mut connection = server.connect();
    let first = server.register();
    let mut host = Stun::new(V4, server.udp);
    host.present(&first);
    let player = guest(&mut connection);
    let mut joiner = Stun::new(V4, server.udp);
    let abandoned = Attempt::of(&player, &join(&mut connection, &player, &first.id, "one", "{}"));
    joiner.bind(&Credential::joiner(&abandoned));
    // The host comes back on the same port with a new listing; the player on his with a new attempt.
    let token = guest(&mut connection);
    let second = crate::server::register(&mut connection, &token, "again", "").expect("registered");
    host.present(&second);
    let attempt = Attempt::of(&player, &join(&mut connection, &player, &second.id, "two", "{}"));
    joiner.bind(&Credential::joiner(&attempt));
    let answer = host.bind(&Credential::host(&second, &attempt.id));
    assert_eq!((answer.peers(), introduction(&answer)), (vec![joiner.local()], attempt.id.clone()));
    assert_eq!(state(&server, &abandoned)["state"], "waiting", "and the old one is a matter of its own");
}

#[test]
fn case_p9_after_the_introduction_an_end_is_told() {
    let server = Server::dev();
    let listing = server.register();
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    Stun::new(V4, server.udp).bind(&Credential::joiner(&attempt));
    host.bind(&Credential::host(&listing, &attempt.id));
    assert_eq!(state(&server, &attempt)["state"], "introduced");
    let mut connection = server.connect();
    assert_eq!(listing.ask(&mut connection, "DELETE", "").status, 204);
    let ended = state(&server, &attempt);
    assert!(ended["state"] != "waiting" && ended["state"] != "introduced", "{ended}");
    assert!(ended.get("peer").is_none_or(|peer| peer.is_null()), "a tombstone has no endpoints: {ended}");
}

#[test]
fn an_offer_comes_to_the_presence_endpoint_until_the_host_binds() {
    let server = Server::dev();
    let listing = server.register();
    let presence = Credential::presence(&listing);
    let mut host = Stun::new(V4, server.udp);
    host.present(&listing);
    let attempt = server.attempt(&listing);
    let offers = |told: &Datagram| -> Vec<String> {
        told.message().offers().map(|offer| format!("{:032x}", offer.expect("well formed").attempt)).collect()
    };
    let told = host.introduce(&presence, |told| !offers(told).is_empty());
    assert_eq!(offers(&told), std::slice::from_ref(&attempt.id));
    let repeated = host.introduce(&presence, |told| !offers(told).is_empty());
    assert_eq!(repeated.message().transaction(), told.message().transaction(), "a repeat is a repeat");
    // Presence answers carry it too.
    let answer = host.log_in(&presence, Some(2));
    assert_eq!(offers(&answer), std::slice::from_ref(&attempt.id));

    // A second attempt, bound as soon as it is offered: its repeats at 250 and 750 ms don't come.
    let second = server.attempt(&listing);
    host.introduce(&presence, |told| offers(told) == std::slice::from_ref(&second.id));
    host.bind(&Credential::host(&listing, &second.id));
    host.aside.clear();
    let end = Instant::now() + Duration::from_millis(1_200);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let Some(datagram) = host.receive(left) else { break };
        assert_ne!(offers(&datagram), std::slice::from_ref(&second.id), "an offer that was taken up is repeated");
    }
}
