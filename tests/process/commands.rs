//! The command plane: back end, host and server as processes, and the demo that shows it.

use crate::child::{Process, rendezvous, until};
use crate::postgres;
use crate::server::{Server, text};
use serde_json::Value;
use std::process::Command;

/// `rendezvous worker --json`, registered.
fn worker(server: &Server, more: &[&str]) -> Process {
    let mut command = rendezvous();
    let mut worker = Process::start(command.args(["worker", "--server", &server.url(), "--json"]).args(more));
    worker.event("registered");
    worker
}

/// `rendezvous session ... --json`, ended with this code; what it said of the command, if it did.
#[track_caller]
fn session(server: &Server, arguments: &[&str], code: i32) -> Value {
    let mut command = rendezvous();
    let (what, rest) = arguments.split_first().expect("a word");
    let arguments = ["session", what, "--server", &server.url(), "--json"];
    let mut process = Process::start(command.args(arguments).args(rest));
    process.assert_exit(code);
    let lines: Vec<Value> =
        process.stdout.text().lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    lines.last().cloned().unwrap_or_default()
}

#[track_caller]
fn create(server: &Server, more: &[&str], code: i32) -> Value {
    session(server, &[&["create", "--profile", "demo", "--payload", "Friday night"], more].concat(), code)
}

#[test]
fn a_session_is_asked_for_listed_steered_and_closed() {
    let server = Server::dev();
    let mut worker = worker(&server, &[]);
    let created = create(&server, &["--wait"], 0);
    let id = text(&created["session_id"]);
    assert_eq!((&created["state"], &created["command"]), (&Value::from("applied"), &Value::from(1)));
    assert_eq!(worker.event("acquired")["session_id"], *id);
    let listing = text(&worker.event("listed")["listing_id"]);
    until("the listing", || (!server.browse().is_empty()).then_some(()));
    assert_eq!(server.browse(), [listing]);
    let input = session(&server, &["send", &id, "input", "--payload", "map dust", "--wait"], 0);
    assert_eq!((&input["command"], &input["outcome"]["code"]), (&Value::from(2), &Value::from("applied")));
    assert_eq!(worker.event("completed")["kind"], "create");
    assert_eq!(worker.event("applying")["text"], "map dust");
    let status = session(&server, &["status", &id], 0);
    assert_eq!((&status["state"], &status["owner"]["host"]), (&Value::from("open"), &Value::from("worker-1")));
    session(&server, &["send", &id, "interrupt", "--payload", "close", "--wait"], 0);
    worker.event("closed");
    assert_eq!(session(&server, &["status", &id], 0)["state"], "closed");
    assert_eq!(server.live("listings"), 0, "the game went with its session");
    session(&server, &["send", &id, "input"], 4);
    worker.terminate();
    worker.assert_exit(0);
}

#[test]
fn the_same_key_is_the_same_command_and_another_request_is_refused() {
    let server = Server::dev();
    let token = server.guest();
    let with = |payload| ["create", "--profile", "demo", "--key", "k", "--token", token.as_str(), "--payload", payload];
    let first = session(&server, &with("a"), 0);
    assert_eq!(session(&server, &with("a"), 0)["session_id"], first["session_id"]);
    let refused = session(&server, &with("b"), 4);
    assert_eq!((&refused["event"], &refused["code"]), (&Value::from("failed"), &Value::from("conflict")));
}

#[test]
fn what_no_host_applies_expires_and_says_whether_it_may_have_run() {
    let server = Server::dev();
    let expired = create(&server, &["--apply-within-ms", "100", "--wait"], 9);
    assert_eq!((&expired["state"], &expired["outcome"]["code"]), (&"expired".into(), &"never_claimed".into()));
}

#[test]
fn unknown_sessions_and_wrong_words_have_their_own_exit_codes() {
    let server = Server::dev();
    let nobody = "00000000000000000000000000000001";
    assert_eq!(session(&server, &["status", nobody], 4)["code"], "not_found");
    session(&server, &["status", "x"], 2);
    session(&server, &["send", nobody, "gate_response"], 2);
    session(&server, &["create", "--profile", "nothing"], 4);
    session(&server, &["create", "--profile", "demo", "--payload-file", "/nowhere"], 1);
}

#[test]
fn a_large_payload_travels_beside_its_command() {
    let server = Server::dev();
    let mut worker = worker(&server, &[]);
    let content = "x".repeat(100_000);
    let file = crate::server::file(&content);
    let created = create(&server, &["--wait"], 0);
    let (id, path) = (text(&created["session_id"]), file.path().to_str().expect("a path").to_owned());
    session(&server, &["send", &id, "restore", "--payload-file", &path, "--wait"], 0);
    let applying = worker.next(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "applying" && event["kind"] == "restore").then_some(event)
    });
    assert_eq!(applying["text"], content);
}

#[test]
fn what_a_killed_host_had_begun_is_applied_by_another() {
    let server = Server::dev();
    let mut first = worker(&server, &["--work-ms", "60000", "--ttl-ms", "1000"]);
    let id = text(&create(&server, &["--apply-within-ms", "60000"], 0)["session_id"]);
    first.event("applying");
    first.kill();
    let mut second = worker(&server, &["--host", "worker-2"]);
    let status = session(&server, &["status", &id, "1", "--wait"], 0);
    assert_eq!((&status["state"], &status["deliveries"]), (&Value::from("applied"), &Value::from(2)));
    assert!(second.event("acquired")["epoch"].as_u64() > Some(1));
}

#[test]
fn a_player_waits_at_the_gate_until_the_back_end_answers() {
    let server = Server::dev();
    let mut worker = worker(&server, &["--gate"]);
    let id = text(&create(&server, &["--wait"], 0)["session_id"]);
    let listing = text(&worker.event("listed")["listing_id"]);
    for (more, code) in [(&["--refuse"][..], 6), (&[][..], 0)] {
        let mut command = rendezvous();
        let arguments = ["join", "--server", &server.url(), &listing, "--message", "hello", "--json"];
        let mut join = Process::start(command.args(arguments));
        let knock = session(&server, &["gate", &id, "--wait"], 0);
        let attempt = text(&knock["attempt_id"]);
        let answer = [&["send", &id, "gate_response", "--attempt", &attempt, "--wait"], more].concat();
        assert_eq!(session(&server, &answer, 0)["state"], "applied");
        join.assert_exit(code);
    }
}

/// The steps that the demo told, as `who: text`.
fn steps(process: &Process) -> Vec<String> {
    let told = process.stdout.text();
    let events = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let steps = events.filter(|event| event["event"] == "step");
    steps.map(|event| format!("{}: {}", text(&event["who"]), text(&event["text"]))).collect()
}

#[track_caller]
fn assert_in_order(steps: &[String], wanted: &[&str]) {
    let mut rest = steps.iter();
    for word in wanted {
        assert!(
            rest.any(|step| step.contains(word)),
            "{word:?} is missing, or not in its place:\n{}",
            steps.join("\n")
        );
    }
}

const STORY: [&str; 8] = [
    "asked for a session",
    "placed here",
    "claimed: create 1",
    "applying: create 1",
    "sees \"Friday night\"",
    "2 input: applied",
    "3 interrupt: applied",
    "never_claimed",
];
const END: [&str; 3] = ["at the gate", "reaches the host", "no game any more"];

#[test]
fn the_demo_of_the_command_plane_tells_the_whole_story() {
    let mut command = rendezvous();
    let mut demo = Process::start(command.args(["demo", "--plane", "commands", "--json"]));
    demo.assert_exit(0);
    assert_in_order(&steps(&demo), &[&STORY[..], &END].concat());
}

#[test]
fn the_demo_over_postgresql_goes_on_when_a_server_is_killed() {
    let Some(server) = postgres::shared() else { return };
    let (url, schema) = server.fresh_url();
    postgres::execute(&url, &schema);
    let mut command = rendezvous();
    let mut demo = Process::start(command.args(["demo", "--plane", "commands", "--json", "--postgres", &url]));
    demo.assert_exit(0);
    let steps = steps(&demo);
    let middle = ["3 interrupt: applied", "4 input: applying", "server 1: killed", "4 input: applied", "never_claimed"];
    assert_in_order(&steps, &[&middle[..], &END].concat());
    assert_in_order(&steps, &["server 1: killed", "host: moved"]);
    assert!(!demo.stdout.text().contains(&url), "the URL may have a password in it");
}

#[test]
fn a_load_of_commands_counts_every_request_and_closes_its_sessions() {
    let server = Server::dev();
    let mut command: Command = rendezvous();
    let short = ["--rate", "50", "--duration", "1", "--warm-up", "0", "--connections", "4", "--listings", "8"];
    let arguments = ["load", "admission", "--server", &server.url(), "--json", "--late-after", "60"];
    let mut load = Process::start(command.args(arguments).args(short));
    load.assert_exit(0);
    let result: Value = serde_json::from_str(&load.stdout.text()).expect("JSON");
    assert_eq!((&result["requests"], &result["kinds"]["admission"]["good"]), (&50.into(), &50.into()), "{result:#}");
    assert_eq!((&result["clean_up"]["deleted"], &result["clean_up"]["left"]), (&8.into(), &0.into()), "{result:#}");
}
