//! What a process does that has run out of something the system gives it: file descriptors, and a disk that takes writes.

use crate::child::{rendezvous_after, until};
use crate::http::Connection;
use crate::server::{Server, bearer};
use rusqlite::Connection as Sqlite;
use std::net::IpAddr;
use std::process::Command;
use std::time::Instant;

/// Descriptors of the small process.
const FEW: usize = 256;
/// More idle connections than that, over three sources.
const IDLE: usize = 320;

fn events(server: &Server, name: &str) -> Vec<String> {
    let log = server.process.stderr.text();
    log.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
}

#[test]
fn idle_connections_that_hold_every_descriptor_keep_nobody_out() {
    let command = rendezvous_after(&format!("ulimit -n {FEW}"));
    let server =
        Server::launch(command, "", &["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let sources: Vec<IpAddr> = [2, 3, 4].map(|last| IpAddr::from([127, 0, 0, last])).to_vec();
    let (begun, mut idle) = (Instant::now(), Vec::new());
    for source in sources.into_iter().cycle().take(IDLE) {
        let mut connection = Connection::from(source, server.http);
        assert_eq!(connection.ask("GET", "/livez", &[], "").status, 200, "after {} connections", idle.len());
        idle.push(connection);
    }
    assert_eq!(server.get("/livez").status, 200);
    // Scrapers find a place as well, without anybody new at the other door.
    let mut scraper = Connection::open(server.metrics.expect("asked for"));
    let metrics = scraper.ask("GET", "/metrics", &[], "").body;
    assert!(metrics.contains("rendezvous_http_connections_refused_total{reason=\"evicted\"}"), "{metrics}");
    let told = events(&server, "accept_failed");
    let minutes = begun.elapsed().as_secs() as usize / 60 + 1;
    assert!((1..=2 * minutes).contains(&told.len()), "once a minute and listener: {told:#?}");
}

/// The soft and the hard limit of a process's descriptors.
#[cfg(target_os = "linux")]
fn limits(process: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("a running process");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let mut numbers = line.split_whitespace().skip(3).map(str::to_owned);
    (numbers.next().expect("soft"), numbers.next().expect("hard"))
}

#[cfg(target_os = "linux")]
#[test]
fn the_soft_limit_of_descriptors_is_raised_and_one_that_is_too_low_is_told() {
    let command = rendezvous_after("ulimit -S -n 300 && ulimit -H -n 1500");
    let dev = Server::launch(command, "", &["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"]);
    assert_eq!(limits(dev.process.id()), ("1500".to_owned(), "1500".to_owned()));
    assert!(events(&dev, "few_descriptors").is_empty(), "development is not sized");
    for (connections, told) in [(1_000, false), (2_000, true)] {
        let config = format!("[limits]\nconnections = {connections}\nlong_polls = 100\n");
        let server = Server::launch_as_configured(rendezvous_after("ulimit -n 1500"), &config);
        until("the start", || (!events(&server, "started").is_empty()).then_some(()));
        assert_eq!(!events(&server, "few_descriptors").is_empty(), told, "{}", server.process.stderr.text());
    }
}

#[test]
fn case_d3_a_store_that_can_not_be_written_turns_readiness_red_and_its_cause_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("commands.sqlite");
    let server = Server::start(&format!("[admission]\nstore = \"sqlite\"\npath = {path:?}\n"), &[]);
    assert_eq!(server.get("/readyz").status, 200);

    let other = Sqlite::open(&path).expect("the same file");
    other.busy_timeout(crate::child::PATIENCE).expect("an option");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let red = until("readiness 503", || Some(server.get("/readyz")).filter(|answer| answer.status == 503));
    assert_eq!(red.json["reason"], "the command plane's store can't be written", "{red:?}");
    assert_eq!(server.get("/livez").status, 200, "a restart would not help");
    until("its cause", || (!events(&server, "admission_store_failed").is_empty()).then_some(()));
    // Another one with the same cause, which its caller is not told.
    let headers = [("Authorization", &*bearer(&server.guest())), ("Idempotency-Key", "k")];
    let failed = server.ask("POST", "/v1/tenants/demo/sessions", &headers, r#"{"profile":"demo"}"#);
    assert_eq!((failed.status, failed.code()), (503, "service_unavailable"), "{failed:?}");
    assert!(!failed.body.contains("locked"), "{failed:?}");
    let told = events(&server, "admission_store_failed");
    assert!(told.len() == 1 && told[0].contains("database is locked"), "{told:#?}");

    other.execute_batch("ROLLBACK").expect("it was begun");
    until("readiness 200", || (server.get("/readyz").status == 200).then_some(()));
    until("its end", || (!events(&server, "admission_store_recovered").is_empty()).then_some(()));
}

/// A disk that is full, by a limit on the size of files: reads go on.
#[test]
fn case_d3_a_full_disk_turns_readiness_red() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("commands.sqlite");
    let config = format!("[admission]\nstore = \"sqlite\"\npath = {path:?}\n");
    // Too large a file is an error of its write then, as on a full disk, and no end of the process.
    let command = rendezvous_after("trap '' XFSZ");
    let server = Server::launch(command, &config, &["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"]);
    assert_eq!(server.get("/readyz").status, 200);
    let limit = |bytes: &str| {
        let status = Command::new("prlimit")
            .arg(format!("--pid={}", server.process.id()))
            .arg(format!("--fsize={bytes}"))
            .status();
        status.map(|status| assert!(status.success()))
    };
    if limit("1:unlimited").is_err() {
        println!("not run: prlimit is not installed");
        assert!(std::env::var_os("RENDEZVOUS_REQUIRE_TOOLS").is_none(), "prlimit is not installed");
        return;
    }
    let red = until("readiness 503", || Some(server.get("/readyz")).filter(|answer| answer.status == 503));
    assert_eq!(red.json["reason"], "the command plane's store can't be written", "{red:?}");
    limit("unlimited:unlimited").expect("it was there before");
    until("readiness 200", || (server.get("/readyz").status == 200).then_some(()));
}
