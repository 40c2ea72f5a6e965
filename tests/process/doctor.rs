//! `rendezvous doctor` against real servers: what it finds, what it says, and that it leaves nothing behind.

use crate::child::{Process, rendezvous};
use crate::server::{Server, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

/// Everything is bounded by some ten seconds, and no test here meets all of its bounds.
const LONGEST: Duration = Duration::from_secs(11);

/// What a run found: checks by name and family, and what they come to.
struct Found {
    checks: BTreeMap<(String, String), Value>,
    outlook: String,
}

impl Found {
    #[track_caller]
    fn check(&self, name: &str, family: &str) -> &Value {
        let found = self.checks.get(&(name.to_owned(), family.to_owned()));
        found.unwrap_or_else(|| panic!("no {name} of {family:?} in {:?}", self.checks.keys()))
    }

    #[track_caller]
    fn finding(&self, name: &str, family: &str) -> &str {
        self.check(name, family)["finding"].as_str().expect("a word")
    }
}

/// Runs it with `--json` and more arguments.
#[track_caller]
fn doctor(url: &str, arguments: &[&str], code: i32) -> Found {
    let begun = Instant::now();
    let mut process = Process::start(rendezvous().args(["doctor", "--server", url, "--json"]).args(arguments));
    process.assert_exit(code);
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    assert_eq!(process.stderr.text(), "", "progress is for terminals");
    let (mut checks, mut outlook) = (BTreeMap::new(), None);
    for line in process.stdout.text().lines() {
        let event: Value = serde_json::from_str(line).expect("an object per line");
        if event["event"] == "diagnosis" {
            outlook = Some(text(&event["outlook"]));
            continue;
        }
        assert_eq!(event["event"], "check", "{event}");
        assert!(event["expected"].is_string() && event["seen"].is_string(), "{event}");
        let family = event["family"].as_str().unwrap_or_default().to_owned();
        let twice = checks.insert((text(&event["check"]), family), event);
        assert_eq!(twice, None);
    }
    Found { checks, outlook: outlook.expect("a diagnosis at the end") }
}

#[test]
fn a_good_network_is_good_and_nothing_stays_behind() {
    let server = Server::start("", &["--udp-auth", "127.0.0.1:0"]);
    let found = doctor(&server.url(), &[], 0);
    assert_eq!(found.outlook, "direct");
    assert_eq!(found.finding("server", ""), "ready");
    assert!(text(&found.check("server", "")["seen"]).contains(&server.instance));
    assert_eq!((found.finding("clock", ""), found.finding("addresses", "")), ("right", "named"));
    let udp = found.check("udp", "ipv4");
    assert_eq!(udp["finding"], "open");
    assert!(text(&udp["seen"]).starts_with("2 of 2 answer"), "{udp}");
    // The challenging one only under a credential.
    let mapping = found.check("mapping", "ipv4");
    assert!(text(&mapping["seen"]).ends_with("2 addresses and ports told"), "{mapping}");
    let names = ["nat", "mapping", "filtering", "hairpin"];
    assert_eq!(names.map(|name| found.finding(name, "ipv4")), ["none", "no_nat", "unknown", "not_needed"]);
    assert_eq!(found.finding("udp", "ipv6"), "not_offered");
    assert_eq!((server.live("listings"), server.live("presence")), (0, 0), "the listing was taken down");
}

#[test]
fn people_get_a_table_and_a_verdict() {
    let server = Server::dev();
    let mut process = Process::start(rendezvous().args(["doctor", "--server", &server.url()]));
    process.assert_exit(0);
    let said = process.stdout.text();
    assert!(said.starts_with("CHECK "), "{said}");
    for row in ["server ", "clock ", "addresses ", "udp IPv4 ", "mapping IPv4 ", "filtering IPv4 ", "hairpin IPv4 "] {
        assert!(said.lines().any(|line| line.starts_with(row)), "{row}: {said}");
    }
    let last = said.lines().last().expect("a last line");
    assert_eq!(last, "Direct joins should work over IPv4, as far as one server can tell.");
    assert!(!said.contains('\x1b'), "colours are for terminals");
    assert_eq!(process.stderr.text(), "", "and so is progress");
}

#[test]
fn both_families_are_looked_at() {
    let listeners = ["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--udp", "[::1]:0", "--udp-auth", "[::1]:0"];
    if UdpSocket::bind("[::1]:0").is_err() {
        crate::say::not_run("this machine has no IPv6");
        return;
    }
    let server = Server::with_listeners("", &listeners);
    let found = doctor(&server.url(), &[], 0);
    for family in ["ipv4", "ipv6"] {
        assert_eq!((found.finding("udp", family), found.finding("mapping", family)), ("open", "no_nat"));
    }
}

#[test]
fn a_closed_port_and_a_silent_one_are_blocked() {
    let server = Server::dev();
    // Nobody listens there: the system says so to who asks.
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let found = doctor(&server.url(), &["--stun", &format!("stun:{closed}")], 5);
    assert_eq!((found.outlook.as_str(), found.finding("addresses", "")), ("no_udp", "given"));
    let udp = found.check("udp", "ipv4");
    assert_eq!(udp["finding"], "blocked");
    assert!(text(&udp["seen"]).contains("closed there") && text(&udp["advice"]).contains("nobody listens"), "{udp}");
    // Somebody is there and says nothing, as behind a firewall that drops.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let uri = format!("stun:{}", silent.local_addr().expect("an address"));
    let found = doctor(&server.url(), &["--stun", &uri], 5);
    let udp = found.check("udp", "ipv4");
    assert_eq!(udp["finding"], "blocked");
    assert!(text(&udp["advice"]).contains("firewalls"), "{udp}");
    assert_eq!(server.live("listings"), 0);
}

#[test]
fn one_address_of_two_is_partly_open() {
    let server = Server::dev();
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let uris = [server.udp, silent.local_addr().expect("an address")].map(|address| format!("stun:{address}"));
    let found = doctor(&server.url(), &["--stun", &uris[0], "--stun", &uris[1]], 0);
    let udp = found.check("udp", "ipv4");
    assert_eq!((&udp["finding"], &udp["result"]), (&"partly_open".into(), &"note".into()));
    assert!(text(&udp["seen"]).ends_with(&uris[1][5..]), "{udp}");
}

#[test]
fn a_draining_server_is_refused_with_its_deadline() {
    let server = Server::start("[drain]\nwindow_ms = 30000\n", &[]);
    let answer = server.operate("POST", "/v1/operator/drain", "{\"window_ms\": 30000}");
    assert_eq!(answer.status, 202, "{answer:?}");
    let found = doctor(&server.url(), &[], 4);
    assert_eq!((found.outlook.as_str(), found.finding("server", "")), ("refused", "draining"));
    assert!(text(&found.check("server", "")["seen"]).contains(&text(&answer.json["drain_deadline"])));
    assert_eq!((found.finding("addresses", ""), found.finding("udp", "ipv4")), ("unknown", "unknown"));
    let uri = format!("stun:{}", server.udp);
    let found = doctor(&server.url(), &["--stun", &uri], 4);
    assert_eq!((found.finding("udp", "ipv4"), found.finding("mapping", "ipv4")), ("open", "no_nat"));
}

#[test]
fn a_tenant_that_takes_no_guests_is_a_refusal() {
    let server = Server::dev();
    let found = doctor(&server.url(), &["--tenant", "nobody"], 4);
    let addresses = found.check("addresses", "");
    assert_eq!(addresses["finding"], "refused");
    assert!(text(&addresses["seen"]).contains("not_found") && text(&addresses["advice"]).contains("--stun"));
}

#[test]
fn nobody_and_somebody_else_are_no_server() {
    let found = doctor("http://127.0.0.1:9", &[], 3);
    assert_eq!((found.outlook.as_str(), found.finding("server", "")), ("unreachable", "no_answer"));
    // It takes connections and never answers: the wait is bounded.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    assert_eq!(doctor(&url, &[], 3).finding("server", ""), "no_answer");
    Process::start(rendezvous().args(["doctor", "--server", "https://127.0.0.1"])).assert_exit(2);
    Process::start(rendezvous().args(["doctor", "--stun", "127.0.0.1:3478"])).assert_exit(2);
}

#[test]
fn after_a_silence_the_server_still_gets_through() {
    let server = Server::dev();
    let found = doctor(&server.url(), &["--keepalive", "1"], 0);
    assert_eq!(found.finding("silence", "ipv4"), "let_in");
    assert_eq!((server.live("listings"), server.live("attempts")), (0, 0));
    let short = Server::start("[presence]\nttl_ms = 2000\n", &[]);
    let found = doctor(&short.url(), &["--keepalive", "3"], 0);
    assert_eq!(found.finding("silence", "ipv4"), "unknown", "by then the server has forgotten us");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_and_takes_its_listing_down() {
    let server = Server::dev();
    let mut command = rendezvous();
    let mut process = Process::start(command.args(["doctor", "--server", &server.url(), "--keepalive", "40"]));
    // It has shown itself, and is silent.
    crate::child::until("its presence", || (server.live("presence") > 0).then_some(()));
    process.signal("INT");
    process.assert_exit(130);
    assert_eq!((server.live("listings"), process.stdout.text().as_str()), (0, ""));
}
