//! Clients that repeat, race or hang up (cases I1, L1, L5, D7, rule K1).

use crate::child::until;
use crate::http::{Connection, Response, request};
use crate::server::{Attempt, Listing, Server, bearer, guest, join, registration, text};
use crate::udp::{Credential, Stun};
use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;

/// Sends the same bytes on `count` connections at one moment.
fn at_once(server: &Server, count: usize, bytes: &str) -> Vec<Response> {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        let send = || {
            let mut connection = server.connect();
            barrier.wait();
            connection.send(bytes.as_bytes());
            connection.response().expect("an answer")
        };
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// One first answer, the rest replays, one body.
#[track_caller]
fn assert_one(answers: &[Response]) {
    let first = answers.iter().filter(|answer| answer.status == 201).count();
    let replayed =
        answers.iter().filter(|answer| answer.status == 200 && answer.header("idempotent-replayed") == Some("true"));
    assert_eq!((first, replayed.count()), (1, answers.len() - 1), "{answers:?}");
    let bodies: HashSet<&str> = answers.iter().map(|answer| answer.body.as_str()).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}

#[test]
fn case_i1_parallel_identical_registrations_make_one_listing() {
    const ROUNDS: u64 = 20;
    let server = Server::dev();
    let authorization = bearer(&server.guest());
    for round in 0..ROUNDS {
        let key = format!("round-{round}");
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", &key)];
        assert_one(&at_once(&server, 20, &request("POST", "/v1/tenants/demo/listings", &headers, &registration(""))));
        assert_eq!(server.live("listings"), round + 1);
    }
}

#[test]
fn case_i1_parallel_identical_attempts_make_one_attempt() {
    const ROUNDS: u64 = 10;
    let server = Server::dev();
    let listing = server.register();
    Stun::new("127.0.0.1:0", server.udp).present(&listing);
    let authorization = bearer(&server.guest());
    for round in 0..ROUNDS {
        let key = format!("round-{round}");
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", &key)];
        assert_one(&at_once(&server, 20, &request("POST", &listing.path("/attempts"), &headers, "{}")));
        assert_eq!(server.live("attempts"), round + 1);
    }
}

fn owner_request(listing: &Listing, method: &str, rest: &str, version: Option<u64>) -> String {
    let authorization = bearer(&listing.token);
    let version = version.map(|version| format!("\"{version}\""));
    let mut headers = vec![("Authorization", authorization.as_str()), ("Lease-Token", &listing.lease_token)];
    headers.extend(version.as_deref().map(|version| ("If-Match", version)));
    request(method, &listing.path(rest), &headers, if method == "POST" { "{}" } else { "" })
}

#[test]
fn case_l5_of_concurrent_renewals_of_one_version_exactly_one_succeeds() {
    let server = Server::dev();
    let listing = server.register();
    for version in 1..=10 {
        let answers = at_once(&server, 20, &owner_request(&listing, "POST", "/renew", Some(version)));
        let renewed: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(renewed.len(), 1, "{answers:?}");
        assert_eq!(renewed[0].json["version"], version + 1);
        assert_eq!(renewed[0].header("etag"), Some(&*format!("\"{}\"", version + 1)));
        for loser in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!((loser.status, loser.code()), (412, "conflict"), "{loser:?}");
            assert_eq!(loser.json["current_version"], version + 1);
        }
    }
    let mut connection = server.connect();
    for future in [12, 99] {
        assert_eq!(listing.renew(&mut connection, future).status, 412, "version {future}");
    }
    assert_eq!(listing.renew(&mut connection, 0).status, 400, "versions begin with 1");
    let missing = listing.ask(&mut connection, "POST", "/renew");
    assert_eq!((missing.status, missing.code()), (428, "precondition_required"), "{missing:?}");
}

#[test]
fn case_l1_a_renewal_commits_before_a_deletion_or_not_at_all() {
    let server = Server::dev();
    let (mut renewed_first, mut connection) = (0, server.connect());
    for _ in 0..100 {
        let token = guest(&mut connection);
        let listing = crate::server::register(&mut connection, &token, "k", "").expect("registered");
        let barrier = Barrier::new(2);
        let send = |bytes: String| {
            let mut connection = server.connect();
            barrier.wait();
            connection.send(bytes.as_bytes());
            connection.response().expect("an answer")
        };
        let (renewal, deletion) = thread::scope(|scope| {
            let renewal = scope.spawn(|| send(owner_request(&listing, "POST", "/renew", Some(1))));
            let deletion = scope.spawn(|| send(owner_request(&listing, "DELETE", "", None)));
            (renewal.join().expect("no panic"), deletion.join().expect("no panic"))
        });
        assert_eq!(deletion.status, 204, "{deletion:?}");
        let commit = |answer: &Response| answer.header("rendezvous-commit").and_then(|text| text.parse::<u64>().ok());
        match renewal.status {
            200 => {
                renewed_first += 1;
                assert!(commit(&renewal) < commit(&deletion), "{renewal:?} {deletion:?}");
            }
            404 => assert_eq!(renewal.code(), "not_found"),
            other => panic!("{other}: {renewal:?}"),
        }
        assert_eq!(listing.ask(&mut connection, "GET", "/lease").status, 404, "the deletion is the last word");
        assert_eq!(listing.ask(&mut connection, "DELETE", "").status, 204, "and may be repeated");
    }
    println!("{renewed_first} of 100 renewals came first");
    assert_eq!(server.live("listings"), 0);
}

#[test]
fn case_d7_an_attempt_whose_answer_was_lost_is_had_again_with_the_same_key() {
    let server = Server::start("[limits]\nattempts = 1\n", &[]);
    let listing = server.register();
    Stun::new("127.0.0.1:0", server.udp).present(&listing);
    let (mut connection, token) = (server.connect(), server.guest());
    let headers = [("Authorization", &*bearer(&token)), ("Idempotency-Key", "slot")];
    let mut lost = server.connect();
    lost.send(request("POST", &listing.path("/attempts"), &headers, "{}").as_bytes());
    until("the attempt", || (server.live("attempts") == 1).then_some(()));
    drop(lost);
    let other = guest(&mut connection);
    let refused = join(&mut connection, &other, &listing.id, "slot", "{}");
    assert_eq!((refused.status, refused.json["resource"].as_str()), (503, Some("attempts")), "the last slot is taken");
    let again = join(&mut connection, &token, &listing.id, "slot", "{}");
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")), "{again:?}");
    let twice = join(&mut connection, &token, &listing.id, "slot", "{}");
    assert_eq!(again.body, twice.body);
    let attempt = Attempt {
        id: text(&again.json["attempt_id"]),
        token: token.clone(),
        username: text(&again.json["bind"]["username"]),
        password: text(&again.json["bind"]["password"]),
    };
    Stun::new("127.0.0.1:0", server.udp).bind(&Credential::joiner(&attempt));
    assert_eq!(connection.ask("DELETE", &attempt.path(), &[("Authorization", &bearer(&token))], "").status, 204);
    assert_eq!(join(&mut connection, &other, &listing.id, "slot", "{}").status, 201, "and it is free again");
}

#[test]
fn rule_k1_clients_that_hang_up_leave_nothing_half_done() {
    const CLIENTS: usize = 200;
    let server = Server::dev();
    let authorization = bearer(&server.guest());
    let bytes = |client: usize| {
        let key = format!("client-{client}");
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", &key)];
        request("POST", "/v1/tenants/demo/listings", &headers, &registration(""))
    };
    thread::scope(|scope| {
        for worker in 0..8 {
            let (server, bytes) = (&server, &bytes);
            scope.spawn(move || {
                for client in (worker..CLIENTS).step_by(8) {
                    let whole = bytes(client);
                    // Some hang up in the middle of the request, the others as soon as it is sent.
                    let sent = if client.is_multiple_of(4) { whole.len() / 2 } else { whole.len() };
                    let mut connection = server.connect();
                    connection.send(&whole.as_bytes()[..sent]);
                }
            });
        }
    });
    let settled = until("a quiet server", || {
        let before = server.status();
        let open = gauge(&server, "rendezvous_http_connections");
        let after = server.status();
        (open <= 2 && before["commit"] == after["commit"]).then_some(after)
    });
    let left = settled["counts"]["listings"]["live"].as_u64().expect("a count");
    for count in ["unproven_listings", "idempotency"] {
        assert_eq!(settled["counts"][count]["live"], left, "{count}: {settled}");
    }
    assert!(left <= (CLIENTS - CLIENTS.div_ceil(4)) as u64, "a half request was carried out: {settled}");
    // Whoever repeats gets the listing that is there, or the first one: never a second.
    let (mut connection, mut replayed, mut ids) = (server.connect(), 0, HashSet::new());
    for client in 0..CLIENTS {
        connection.send(bytes(client).as_bytes());
        let answer = connection.response().expect("an answer");
        replayed += u64::from(answer.status == 200);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        ids.insert(text(&answer.json["listing_id"]));
    }
    println!("{left} of {CLIENTS} were carried out before their client had hung up");
    assert_eq!((replayed, ids.len()), (left, CLIENTS));
    assert_eq!(server.live("listings"), CLIENTS as u64);
}

/// The value of a metric without labels.
fn gauge(server: &Server, name: &str) -> u64 {
    let text = Connection::open(server.http).ask("GET", "/metrics", &[], "").body;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{text}"))
}
