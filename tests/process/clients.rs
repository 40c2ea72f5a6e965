//! Clients that hold connections open without a word, and those that come after them.

use crate::http::Connection;
use crate::server::Server;
use std::time::{Duration, Instant};

#[test]
fn a_good_client_is_served_at_once_while_a_hundred_say_nothing() {
    let server = Server::dev();
    let silent: Vec<Connection> = (0..100)
        .map(|i| {
            let mut connection = server.connect();
            if i % 2 == 1 {
                connection.send(b"POST /v1/tenants/demo/guests HTTP/1.1\r\nHost: ");
            }
            connection
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let begun = Instant::now();
        assert_eq!(server.get("/v1/tenants/demo/listings?protocol=arena/3").status, 200);
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    drop(silent);
}

#[test]
fn at_the_ceiling_of_connections_the_longest_idle_goes_first() {
    let server = Server::start("[limits]\nconnections = 8\n", &[]);
    let mut connections: Vec<Connection> = (0..8)
        .map(|_| {
            let mut connection = server.connect();
            assert_eq!(connection.ask("GET", "/livez", &[], "").status, 200);
            std::thread::sleep(Duration::from_millis(2));
            connection
        })
        .collect();
    // The first has been used last, so the second is the longest idle.
    assert_eq!(connections[0].ask("GET", "/livez", &[], "").status, 200);
    let mut newest = server.connect();
    assert_eq!(newest.ask("GET", "/livez", &[], "").status, 200);
    assert!(connections[1].is_closed());
    for (i, connection) in connections.iter_mut().enumerate().filter(|(i, _)| *i != 1) {
        assert_eq!(connection.ask("GET", "/livez", &[], "").status, 200, "connection {i}");
    }
}

#[test]
fn one_source_makes_room_among_its_own_connections() {
    let server = Server::start("[limits]\nconnections_per_source = 4\n", &[]);
    let mut other = Connection::from("127.0.0.2".parse().unwrap(), server.http);
    assert_eq!(other.ask("GET", "/livez", &[], "").status, 200);
    let mut own: Vec<Connection> = (0..5)
        .map(|_| {
            let mut connection = server.connect();
            assert_eq!(connection.ask("GET", "/livez", &[], "").status, 200);
            std::thread::sleep(Duration::from_millis(2));
            connection
        })
        .collect();
    assert!(own[0].is_closed());
    assert_eq!(own[4].ask("GET", "/livez", &[], "").status, 200);
    assert_eq!(other.ask("GET", "/livez", &[], "").status, 200, "another source pays nothing for it");
}
