//! What a test says to whoever runs it, whether or not it passes: `println!` of a passing test is never seen.

use std::fmt::Display;
use std::io::Write;

/// Set to `1` where a missing tool is a failure, as in CI.
const REQUIRE: &str = "RENDEZVOUS_REQUIRE_TOOLS";

/// Says a line past the harness, which captures what the printing macros print and nothing else.
pub(crate) fn say(line: impl Display) {
    // One write, so that lines of tests that run beside each other stay whole.
    let line = format!("{line}\n");
    // Where nobody can be told there is nobody to miss it.
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Says that a check did not run, and why; where tools are required that is a failure.
#[track_caller]
pub(crate) fn not_run(reason: impl Display) {
    say(format_args!("not run: {reason}"));
    assert!(std::env::var_os(REQUIRE).is_none_or(|value| value != "1"), "{REQUIRE}=1, and not run: {reason}");
}
