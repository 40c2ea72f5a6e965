//! `rendezvous load`: what it counts, what it refuses, and that it leaves nothing behind.

use crate::child::{Process, rendezvous, until};
use crate::say::not_run;
use crate::server::Server;
use serde_json::Value;

/// Bars P5 (three pages, two peers), P6, P7 and P8 (a loop, and a stated figure).
const COMPARED_ROWS: usize = 10;

fn load(server: &Server, arguments: &[&str]) -> Process {
    let mut command = rendezvous();
    let (mix, rest) = arguments.split_first().expect("a mix");
    command.args(["load", mix, "--server", &server.url(), "--json"]).args(rest);
    Process::start(&mut command)
}

/// Runs to the end; the result.
fn result(mut load: Process) -> Value {
    load.assert_exit(0);
    serde_json::from_str(&load.stdout.text()).expect("JSON")
}

#[track_caller]
fn assert_all_good(result: &Value) {
    let kinds = result["kinds"].as_object().expect("kinds");
    let good: u64 = kinds.values().map(|kind| kind["good"].as_u64().expect("a count")).sum();
    assert_eq!(Value::from(good), result["requests"], "{result:#}");
    assert_eq!(result["unsent"], 0, "{result:#}");
}

#[test]
fn a_mix_counts_every_request_and_leaves_nothing() {
    let server = Server::dev();
    let arguments = ["--rate", "60", "--duration", "2", "--warm-up", "0", "--connections", "4", "--listings", "24"];
    let pid = server.process.id().to_string();
    let result =
        result(load(&server, &[&["mixed", "--late-after", "60", "--server-pid", &pid], &arguments[..]].concat()));
    assert_eq!(result["requests"], 120);
    assert_all_good(&result);
    assert!(result["kinds"]["browse"]["latency_ns"]["p99"].as_u64() > Some(0), "{result:#}");
    assert!(result["server_cpu_ms"].is_u64(), "{result:#}");
    assert_eq!(result["clean_up"]["left"], 0);
    assert_eq!((server.live("listings"), server.live("attempts")), (0, 0));
}

#[test]
fn each_mix_does_what_it_says() {
    let server = Server::dev();
    for mix in ["browse", "register", "renew", "presence", "join"] {
        let short = ["--rate", "40", "--duration", "0.5", "--warm-up", "0.25", "--connections", "2", "--listings", "4"];
        let result = result(load(&server, &[&[mix, "--late-after", "60"], &short[..]].concat()));
        assert_all_good(&result);
        assert_eq!((&result["requests"], &result["warm_up_requests"]), (&Value::from(20), &Value::from(10)), "{mix}");
        assert!(result["kinds"][mix]["good"].as_u64() > Some(0), "{result:#}");
    }
    assert_eq!(server.live("listings"), 0);
}

#[test]
fn far_over_capacity_everything_is_counted() {
    let server = Server::dev();
    let over = ["--rate", "100000", "--duration", "1", "--warm-up", "0", "--late-after", "0.1"];
    let result = result(load(&server, &[&["browse", "--connections", "2", "--listings", "2"], &over[..]].concat()));
    assert_eq!(result["requests"], 100_000, "{result:#}");
    let unsent = result["unsent"].as_u64().expect("a count");
    assert!(unsent > 0 && unsent < 100_000, "{result:#}");
    assert_eq!(result["intended_per_second"], 100_000.0);
    assert!(result["achieved_per_second"].as_f64() < Some(100_000.0), "{result:#}");
    assert_eq!(server.live("listings"), 0);
}

#[test]
fn refusals_are_counted_by_their_code() {
    // One listing, and one datagram a second from it: the others are told that they are too many.
    let server = Server::start("[udp]\nper_credential_per_s = 1\n", &[]);
    let many = ["--rate", "100", "--duration", "1", "--warm-up", "0", "--connections", "1", "--listings", "1"];
    let result = result(load(&server, &[&["presence", "--late-after", "60"], &many[..]].concat()));
    let refused = result["kinds"]["presence"]["refused"].as_object().expect("refusals");
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["udp-486-8"], "{result:#}");
    let kind = &result["kinds"]["presence"];
    let all = kind["good"].as_u64().unwrap() + refused["udp-486-8"].as_u64().unwrap();
    assert_eq!(all, 100, "{result:#}");
}

#[test]
fn a_signal_ends_it_early_and_it_still_cleans_up() {
    let server = Server::dev();
    let mut load =
        load(&server, &["renew", "--rate", "50", "--duration", "3600", "--connections", "2", "--listings", "8"]);
    until("progress", || load.stderr.text().contains("   1 s ").then_some(()));
    assert_eq!(server.live("listings"), 8);
    load.terminate();
    load.assert_exit(130);
    let result: Value = serde_json::from_str(&load.stdout.text()).expect("JSON");
    assert_eq!((&result["interrupted"], &result["clean_up"]["deleted"]), (&Value::from(true), &Value::from(8)));
    assert_eq!(server.live("listings"), 0);
}

#[test]
fn it_refuses_every_target_that_was_not_named_twice() {
    let refused = |arguments: &[&str]| {
        let mut command = rendezvous();
        let mut process =
            Process::start(command.args(["load", "browse", "--server", "http://203.0.113.1:8080"]).args(arguments));
        process.assert_exit(2);
        process.stderr.text()
    };
    let said = refused(&[]);
    assert!(said.contains("--target-not-loopback --i-operate 203.0.113.1"), "{said}");
    assert!(refused(&["--target-not-loopback"]).contains("--i-operate"));
    assert!(refused(&["--i-operate", "203.0.113.1"]).contains("--target-not-loopback"));
    assert!(refused(&["--target-not-loopback", "--i-operate", "203.0.113.2"]).contains("203.0.113.1"));
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let mut command = rendezvous();
    let mut load = Process::start(command.args(["load", "browse", "--server", "http://127.0.0.1:1"]));
    load.assert_exit(3);
    assert!(load.stderr.text().contains("no connection to 127.0.0.1:1"), "{}", load.stderr.text());
}

#[cfg(target_os = "linux")]
#[test]
fn a_comparison_has_all_its_rows() {
    let file = crate::server::file("");
    let mut command = rendezvous();
    command.args(["load", "compare", "--pairs", "1", "--seconds", "0.1", "--listings", "256", "--json"]);
    let mut compare = Process::start(command.arg(file.path()));
    compare.assert_exit(0);
    let result: Value = serde_json::from_str(&std::fs::read_to_string(file.path()).expect("a file")).expect("JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), COMPARED_ROWS, "{result:#}");
    let mut missing = Vec::new();
    for row in rows {
        match row["not_run"].as_str() {
            Some(reason) => missing.push(reason.to_owned()),
            None => assert!(row["ours"][0]["per_second"].as_f64() > Some(0.0), "{row:#}"),
        }
    }
    println!("{}", compare.stdout.text());
    missing.into_iter().for_each(not_run);
    assert!(compare.stdout.text().contains("bars met"), "{}", compare.stdout.text());
}

#[cfg(target_os = "linux")]
#[test]
fn a_comparison_ends_at_a_signal_and_takes_its_servers_along() {
    let mut command = rendezvous();
    command.args(["load", "compare", "--only", "p7,p8", "--pairs", "1000", "--seconds", "1", "--listings", "256"]);
    let mut compare = Process::start(&mut command);
    until("the first measurement", || compare.stderr.text().contains("P7").then_some(()));
    compare.terminate();
    compare.assert_exit(130);
    // Its children hold no end of the pipes any more, or the output would not have ended.
}
