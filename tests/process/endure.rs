//! `rendezvous load soak` and `rendezvous load overload`, short: that they find what they look for, and end with a verdict. How well the
//! server does under them is what they say of an optimised build; here only what must hold of any is asked.

use crate::child::{Process, rendezvous, until};
use serde_json::Value;

/// Everything that a soak counts: seven kinds of records, two queues, polls, requests, connections, files, threads, memory.
const SOAK_CLAIMS_MIN: usize = 15;

fn verdict(arguments: &[&str]) -> (Value, Option<i32>) {
    let mut command = rendezvous();
    let mut load = Process::start(command.arg("load").args(arguments).arg("--json"));
    let code = load.exit_code();
    let text = load.stdout.text();
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}\n{}", load.stderr.text())), code)
}

fn seen<'v>(verdict: &'v Value, claim: &str) -> &'v Value {
    let claims = verdict["claims"].as_array().expect("claims");
    claims.iter().find(|row| row["claim"] == claim).unwrap_or_else(|| panic!("no {claim} in {verdict:#}"))
}

#[test]
fn a_soak_leaves_nothing_of_anything() {
    let (verdict, code) = verdict(&["soak", "--seconds", "6", "--rate", "150"]);
    assert!(verdict["claims"].as_array().is_some_and(|claims| claims.len() >= SOAK_CLAIMS_MIN), "{verdict:#}");
    assert_eq!((&verdict["holds"], code), (&Value::Bool(true), Some(0)), "{verdict:#}");
    // Not because nothing was there: the load was seen.
    let listings = seen(&verdict, "store_records{resource=\"listings\"}")["seen"].as_str().expect("text");
    assert!(!listings.contains(" 0 under load"), "{listings}");
}

#[test]
fn an_overload_refuses_by_name_and_ends_with_a_verdict() {
    let (verdict, code) = verdict(&["overload", "--seconds", "2"]);
    for claim in ["refusals are typed", "refusals say when to come back"] {
        assert_eq!(seen(&verdict, claim)["holds"], true, "{verdict:#}");
    }
    // How much it does, and whether this machine leaves hosts the time to be heard, is for a run of its own.
    seen(&verdict, "live listings stay live");
    assert_eq!(code == Some(0), verdict["holds"] == true, "{verdict:#}");
}

#[test]
fn a_signal_ends_a_soak_and_takes_its_server_along() {
    let mut command = rendezvous();
    let mut soak = Process::start(command.args(["load", "soak", "--seconds", "600"]));
    until("the load", || soak.stderr.text().contains("good").then_some(()));
    soak.terminate();
    soak.assert_exit(130);
}
