//! Instructions of the hot paths, counted by callgrind: the same on a busy machine as on an idle one.
//!
//! The bench runs itself under valgrind, each path with N repetitions and with 2 N, so that what was set up before and
//! what the process costs cancels out. The counts are held against `benches/instructions.json`, and more than
//! [`TOLERANCE`] beyond it fails; `RENDEZVOUS_WRITE_INSTRUCTIONS=1` records them anew. Another compiler makes another
//! program: then the table is shown and nothing fails. Nor does it where valgrind is missing, unless
//! `RENDEZVOUS_REQUIRE_TOOLS=1`.
#![allow(missing_docs)]

mod counting;
mod edges;
#[path = "../tests/support/say.rs"]
mod say;
mod support;

use counting::PATHS;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// How much more than recorded is still the same: tables grow, allocators differ, and ids are random.
const TOLERANCE: f64 = 0.10;
/// The argument that makes the bench do the work instead of counting it.
const WORK: &str = "--work";

/// What is compared from run to run.
#[derive(serde::Serialize, serde::Deserialize)]
struct Recorded {
    /// The compiler that the counts are of.
    compiler: String,
    /// Instructions of one repetition.
    instructions: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, path, repetitions] = &arguments[..]
        && mode == WORK
    {
        let repetitions = repetitions.parse().expect("a number of repetitions");
        let path = PATHS.iter().find(|known| known.name == path).expect("a known path");
        (path.run)(path.repetitions * 2, repetitions);
        // What was prepared and not used is not taken down: that would be counted.
        std::process::exit(0);
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        say::not_run(format_args!("valgrind: {error}"));
        return ExitCode::SUCCESS;
    }
    let counted = Recorded { compiler: compiler(), instructions: PATHS.iter().map(count).collect() };
    let text = serde_json::to_string_pretty(&counted).expect("names and numbers") + "\n";
    std::fs::write(support::report::results_dir().join("instructions.json"), &text)
        .expect("the results can be written");
    if std::env::var_os("RENDEZVOUS_WRITE_INSTRUCTIONS").is_some_and(|value| value == "1") {
        std::fs::write(record(), text).expect("the record can be written");
        println!("recorded {:#?}", counted.instructions);
        return ExitCode::SUCCESS;
    }
    if compare(&counted) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Instructions of one repetition of a path.
fn count(path: &counting::Path) -> (String, u64) {
    let (once, twice) = (collected(path, path.repetitions), collected(path, 2 * path.repetitions));
    (path.name.to_owned(), (twice - once) / path.repetitions as u64)
}

/// All instructions of a process that repeats a path.
fn collected(path: &counting::Path, repetitions: usize) -> u64 {
    let exe = std::env::current_exe().expect("the path of this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(exe)
        .args([WORK, path.name, &repetitions.to_string()])
        .output()
        .expect("valgrind was there a moment ago");
    let log = String::from_utf8_lossy(&output.stderr);
    let line = log.lines().find_map(|line| line.split_once("Collected : ")).filter(|_| output.status.success());
    let number = line.and_then(|(_, number)| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{} under valgrind:\n{log}", path.name))
}

/// Shows both counts of each path. False: one costs more than it did.
fn compare(counted: &Recorded) -> bool {
    let text = std::fs::read_to_string(record()).expect("the record");
    let recorded: Recorded = serde_json::from_str(&text).expect("a record as it is written here");
    let is_comparable = recorded.compiler == counted.compiler;
    println!("\n| {:<38} | instructions | recorded | ratio | holds |", "path");
    println!("|{:-<40}|-------------:|---------:|------:|-------|", "");
    let mut all_hold = true;
    for (name, now) in &counted.instructions {
        let Some(before) = recorded.instructions.get(name) else {
            println!("| {name:<38} | {now:>12} | {:>8} | {:>5} | no    |", "-", "-");
            all_hold = false;
            continue;
        };
        let ratio = *now as f64 / *before as f64;
        let verdict = match () {
            () if ratio > 1.0 + TOLERANCE => "no",
            () if ratio < 1.0 - TOLERANCE => "less",
            () => "yes",
        };
        all_hold &= verdict != "no";
        println!("| {name:<38} | {now:>12} | {before:>8} | {ratio:>5.2} | {verdict:<5} |");
    }
    if !is_comparable {
        println!("not compared: recorded with {}, counted with {}", recorded.compiler, counted.compiler);
    } else if !all_hold {
        println!("more than {:.0} % beyond the record: find the reason, or record anew", TOLERANCE * 100.0);
    }
    all_hold || !is_comparable
}

fn record() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.json")
}

/// The compiler that is in use here; Cargo names it where it is not the usual one.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    format!("{}, {}", String::from_utf8_lossy(&version).trim(), std::env::consts::ARCH)
}
