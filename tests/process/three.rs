//! Server, host and player, each a process of its own.

use crate::child::{Process, rendezvous, until};
use crate::server::Server;
use std::time::{Duration, Instant};

/// `rendezvous host --json`, listed and seen over UDP; the id of its listing.
fn host(server: &Server, more: &[&str]) -> (Process, String) {
    let mut command = rendezvous();
    command.args(["host", "--server", &server.url(), "--tenant", "demo", "--protocol", "arena/3"]);
    let mut host = Process::start(command.args(["--name", "Friday night", "--json"]).args(more));
    let listing = listed(&mut host);
    (host, listing)
}

fn listed(host: &mut Process) -> String {
    let id = crate::server::text(&host.event("listed")["listing_id"]);
    host.event("verified");
    id
}

fn client(server: &Server, name: &str) -> std::process::Command {
    let mut command = rendezvous();
    command.args([name, "--server", &server.url(), "--tenant", "demo"]);
    command
}

/// `rendezvous join --json`: exits 0, and a packet of the host was an echo of ours.
#[track_caller]
fn join(server: &Server, listing: &str, message: &str) {
    let mut join = Process::start(client(server, "join").args([listing, "--message", message, "--json"]));
    join.assert_exit(0);
    let echo = join.event("message");
    assert_eq!(echo["text"], format!("echo: {message}"));
}

fn three_processes(arguments: &[&str]) {
    let server = Server::start("", arguments);
    let (mut host, listing) = host(&server, &[]);
    join(&server, &listing, "hello");
    host.event("connected");
    assert_eq!(host.event("message")["text"], "hello");
    host.terminate();
    host.assert_exit(0);
    assert_eq!(server.live("listings"), 0, "a host that ends takes its listing down");
}

#[test]
fn three_processes_exchange_packets() {
    three_processes(&[]);
}

#[test]
fn three_processes_exchange_packets_on_the_single_lock_store() {
    three_processes(&["--store", "single-lock"]);
}

#[test]
fn rule_j4_after_a_killed_server_the_host_lists_again_by_itself() {
    let mut server = Server::dev();
    let (mut host, first) = host(&server, &[]);
    join(&server, &first, "before");
    let (http, udp, instance) = (server.http.to_string(), server.udp.to_string(), server.instance.clone());
    server.process.kill();
    let server = Server::with_listeners("", &["--http", &http, "--udp", &udp]);
    assert_ne!(server.instance, instance);
    let listed_again = host.event("listed");
    assert_eq!(listed_again["again"], true);
    let second = crate::server::text(&listed_again["listing_id"]);
    host.event("verified");
    assert_ne!(first, second);
    // An addition is visible within a publish interval (rule S5).
    until("the new listing", || (!server.browse().is_empty()).then_some(()));
    assert_eq!(server.browse(), std::slice::from_ref(&second), "listed once, and only the new one");
    join(&server, &second, "after");
    let mut gone = Process::start(client(&server, "join").args([&first, "--json"]));
    gone.assert_exit(4);
}

#[test]
fn browse_shows_what_can_be_joined_and_nothing_unlisted() {
    let server = Server::dev();
    let (_public, shown) = host(&server, &["--region", "eu-west"]);
    let (_hidden, unlisted) = host(&server, &["--unlisted"]);
    // An addition is visible within a publish interval (rule S5).
    until("the listing", || server.browse().contains(&shown).then_some(()));
    let mut table = Process::start(client(&server, "browse").args(["--protocol", "arena/3"]));
    table.assert_exit(0);
    let text = table.stdout.text();
    let row = text.lines().find(|line| line.contains(&shown)).unwrap_or_else(|| panic!("no row in {text}"));
    assert!(row.contains("Friday night") && row.contains("0/8") && row.contains("eu-west"), "{row}");
    assert!(!text.contains(&unlisted), "{text}");
    let mut lines = Process::start(client(&server, "browse").args(["--protocol", "arena/3", "--json"]));
    lines.assert_exit(0);
    assert_eq!(lines.event("listing")["listing_id"], shown);
    for (filter, rows) in [(r#"region == "eu-west" and players < max_players"#, 1), ("players > 0", 0)] {
        let mut some = Process::start(client(&server, "browse").args(["--protocol", "arena/3", "--filter", filter]));
        some.assert_exit(0);
        assert_eq!(some.stdout.text().matches(&shown).count(), rows, "{filter}");
    }
    let mut refused =
        Process::start(client(&server, "browse").args(["--protocol", "arena/3", "--filter", "players <"]));
    refused.assert_exit(4);
    let text = refused.stderr.text();
    assert!(text.contains("must have a field or a value at character 10"), "{text}");
    join(&server, &unlisted, "by invitation");
}

#[test]
fn browse_watch_tells_what_comes_and_goes() {
    let server = Server::dev();
    let mut watch = Process::start(client(&server, "browse").args(["--protocol", "arena/3", "--watch", "--json"]));
    let (host, shown) = host(&server, &[]);
    assert_eq!(watch.event("added")["listing_id"], shown);
    host.terminate();
    assert_eq!(watch.event("removed")["listing_id"], shown);
    watch.terminate();
    watch.assert_exit(0);
}

#[test]
fn the_demo_succeeds() {
    let mut demo = Process::start(rendezvous().arg("demo"));
    demo.assert_exit(0);
    let text = demo.stdout.text();
    assert!(text.contains("packets go both ways"), "{text}");
}

#[test]
fn case_l10_a_game_whose_host_was_killed_vanishes_by_itself() {
    let server = Server::start("[presence]\nttl_ms = 1500\n", &[]);
    let (mut host, listing) = host(&server, &[]);
    until("the listing", || (!server.browse().is_empty()).then_some(()));
    // A host that lives stays, over several lifetimes of its presence.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(server.browse(), std::slice::from_ref(&listing));
    }
    host.kill();
    until("its end", || server.browse().is_empty().then_some(()));
    let mut late = Process::start(client(&server, "join").args([&listing, "--json"]));
    late.assert_exit(4);
    assert_eq!(late.event("failed")["code"], "not_found");
}

#[test]
fn a_host_without_its_tenant_ends_and_says_so() {
    let server = Server::dev();
    let mut command = rendezvous();
    command.args(["host", "--server", &server.url(), "--tenant", "nobody", "--protocol", "arena/3", "--name", "x"]);
    let mut host = Process::start(command.arg("--json"));
    host.assert_exit(4);
    assert_eq!(host.event("failed")["code"], "not_found");
}

#[test]
fn rule_h6_a_gated_host_without_a_terminal_admits_everybody() {
    let server = Server::dev();
    let (mut host, listing) = host(&server, &["--gate"]);
    join(&server, &listing, "let me in");
    host.event("offered");
    assert_eq!(host.event("message")["text"], "let me in");
}

#[test]
fn a_host_that_drain_asks_to_come_back_does_so_when_there_is_a_server_again() {
    let mut server = Server::start("[drain]\nwindow_ms = 500\n", &[]);
    let (mut host, first) = host(&server, &[]);
    let (http, udp) = (server.http.to_string(), server.udp.to_string());
    server.terminate();
    server.process.assert_exit(0);
    let server = Server::with_listeners("", &["--http", &http, "--udp", &udp]);
    let second = crate::server::text(&host.event("listed")["listing_id"]);
    host.event("verified");
    assert_ne!(first, second);
    join(&server, &second, "after the restart");
}

#[test]
fn what_keeps_a_server_from_starting_has_a_code_and_words() {
    let server = Server::dev();
    let taken = server.http.to_string();
    let mut second = Process::start(rendezvous().args(["serve", "--dev", "--http", &taken, "--udp", "127.0.0.1:0"]));
    second.assert_exit(1);
    assert!(second.stderr.text().contains("server.http"), "{}", second.stderr.text());
    let mut open = Process::start(rendezvous().args(["serve", "--dev", "--http", "0.0.0.0:0", "--udp", "127.0.0.1:0"]));
    open.assert_exit(2);
    assert!(open.stderr.text().contains("loopback"), "{}", open.stderr.text());
    let mut nobody = Process::start(rendezvous().args(["browse", "--server", "http://127.0.0.1:1", "--protocol", "a"]));
    nobody.assert_exit(3);
}
