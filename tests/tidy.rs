//! House rules that a compiler does not hold: layers point down, files stay readable, documents tell of what exists.
#![allow(missing_docs)]

#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "support/say.rs"]
mod say;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file; one that needs more stands in [`LONG_FILES`] with its reason.
const LINES_MAX: usize = 600;
const LONG_FILES: [(&str, &str); 0] = [];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` with the ending, as paths relative to the root.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a readable folder").path();
            // What a build leaves behind is nobody's reading.
            if path.is_dir() && path.ends_with("target") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                let relative = path.strip_prefix(root()).expect("below the root");
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} files in {folder}");
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Code lines of a file, without comments.
fn code(path: &str) -> Vec<(usize, String)> {
    let text = read(path);
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim().to_owned()));
    lines.filter(|(_, line)| !line.starts_with("//")).collect()
}

/// Where `folders` (files or folders below src) name one of `words`, other than in `except`.
fn uses(folders: &[&str], words: &[&str], except: &[&str]) -> Vec<String> {
    let mut hits = Vec::new();
    for path in files("src", ".rs") {
        let below = path.trim_start_matches("src/");
        let inside = folders.iter().any(|folder| below.starts_with(folder));
        if !inside || except.contains(&below) {
            continue;
        }
        for (number, line) in code(&path) {
            if words.iter().any(|word| line.contains(word)) {
                hits.push(format!("{path}:{number}: {line}"));
            }
        }
    }
    hits
}

#[track_caller]
fn assert_none(hits: &[String], why: &str) {
    assert!(hits.is_empty(), "{why}:\n{}", hits.join("\n"));
}

#[test]
fn only_the_clock_asks_for_time_below_the_edges() {
    let hits = uses(
        &["domain", "state_machine", "store", "stun", "service"],
        &["Instant::now", "SystemTime"],
        &["service/waits.rs"],
    );
    assert_none(&hits, "time is an argument below the edges (rule A1)");
}

#[test]
fn the_command_plane_asks_its_clock() {
    let hits = uses(&["admission"], &["Instant::now", "SystemTime::now"], &[]);
    assert_none(&hits, "the store's clock decides (rule P5 of the command plane)");
}

#[test]
fn the_command_plane_stands_between_stores_and_edges() {
    let words =
        ["hyper", "serde", "crate::edge", "crate::wire", "crate::service", "crate::store", "crate::state_machine"];
    assert_none(&uses(&["admission"], &words, &[]), "layer 3 knows neither edges nor the other plane's stores");
    let above = ["service/commands.rs", "service/observers.rs", "service/readiness.rs"];
    let below = uses(&["domain", "stun", "state_machine", "store", "service", "client"], &["crate::admission"], &above);
    assert_none(&below, "layers point down");
    let words = ["tokio", "getrandom", "std::sync::Mutex", "std::sync::atomic", "Clock", "rusqlite"];
    let hits = uses(&["admission/model", "admission/store/rules", "admission/store/records"], &words, &[]);
    assert_none(&hits, "the rules of the command plane are plain functions of (rows, now, request)");
    let hits = uses(&["edge", "wire", "client"], &["admission::Store", "admission::store"], &[]);
    assert_none(&hits, "edges call the command plane's services");
}

/// Rule P8 of the command plane: a claim on a session's sweeping is never a fence, so no rule but its own reads one.
#[test]
fn nobody_decides_by_a_reconciliation_claim() {
    let words = ["get::<ReconciliationRow", "ReconciliationRow::of_values"];
    let hits = uses(&["admission"], &words, &["admission/store/rules/claims.rs"]);
    assert_none(&hits, "a claim suppresses work and fences nothing");
}

#[test]
fn the_decisions_know_no_randomness_locks_or_formats() {
    let words = ["getrandom", "rand::", "std::sync::Mutex", "std::sync::atomic", "arc_swap", "tokio", "hyper", "serde"];
    assert_none(&uses(&["domain", "state_machine"], &words, &[]), "layers 0 and 1 are pure");
}

#[test]
fn the_lane_takes_its_primitives_from_one_door() {
    let words = ["std::sync::atomic", "std::sync::Mutex", "arc_swap", "tokio", "crossbeam"];
    let hits: Vec<_> = uses(&["store/lane"], &words, &[]).into_iter().filter(|hit| !is_identity_counter(hit)).collect();
    assert_none(&hits, "what loom does not see, no model checks");
}

/// The counter that tells lanes apart in per-thread caches orders nothing.
fn is_identity_counter(hit: &str) -> bool {
    hit.contains("store/lane/mod.rs") && hit.contains("use std::sync::atomic::{AtomicU64, Ordering};")
}

#[test]
fn edges_call_the_service_and_nothing_below() {
    let hits = uses(&["edge", "wire", "client"], &["crate::store", "crate::state_machine"], &[]);
    assert_none(&hits, "an edge that touches a store decides for itself");
    assert_none(&uses(&["edge/http"], &["edge::udp"], &[]), "edges don't know each other");
    assert_none(&uses(&["edge/udp"], &["edge::http"], &[]), "edges don't know each other");
}

#[test]
fn files_stay_readable() {
    let all = ["src", "tests", "benches", "loom-tests"].into_iter().flat_map(|folder| files(folder, ".rs"));
    let long: Vec<_> = all
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, path)| *lines > LINES_MAX && !LONG_FILES.iter().any(|(known, _)| known == path))
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none(&long, "a file that nobody reads in one sitting");
}

#[test]
fn deterministic_tests_do_not_sleep() {
    let mut hits = Vec::new();
    for folder in ["tests/contract", "tests/model", "tests/support", "tests/admission", "tests/admission_simulation"] {
        for path in files(folder, ".rs") {
            let sleeping = code(&path).into_iter().filter(|(_, line)| line.contains("sleep("));
            hits.extend(sleeping.map(|(number, line)| format!("{path}:{number}: {line}")));
        }
    }
    assert_none(&hits, "a test of the store moves a clock");
}

/// Every path that a document names in back quotes or links to, exists.
#[test]
fn documents_tell_of_what_exists() {
    let mut missing = Vec::new();
    let mut documents = files("docs", ".md");
    documents.push("README.md".into());
    for document in documents {
        let folder = Path::new(&document).parent().map(Path::to_path_buf).unwrap_or_default();
        let text = read(&document);
        for named in text.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "tests/", "docs/", "benches/", "loom-tests/", "flamegraphs/"]
                .iter()
                .any(|top| named.starts_with(top));
            if is_path && !named.contains([' ', '*', '{', '<', '…']) && !root().join(named).exists() {
                missing.push(format!("{document}: `{named}`"));
            }
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !root().join(&folder).join(target).exists() {
                missing.push(format!("{document}: link to {link}"));
            }
        }
    }
    assert_none(&missing, "a document that misleads");
}

/// A secret's type derives no equality, and no line compares an exposed secret or a fresh MAC by an operator: what is
/// compared goes through `subtle` or the MAC library, in constant time.
#[test]
fn case_s13_secrets_are_compared_in_constant_time() {
    let secrets = ["Secret", "KeyBytes", "CookieKey", "IntegrityKey", "MessageKey", "GuestTokens", "KeyFingerprint"];
    let mut seen = Vec::new();
    let mut hits = Vec::new();
    for path in files("src", ".rs") {
        let (text, lines) = (read(&path), code(&path));
        let product = text.find("#[cfg(test)]").map_or(usize::MAX, |tests| text[..tests].lines().count());
        let mut derived = String::new();
        for (number, line) in lines.into_iter().filter(|(number, _)| *number <= product) {
            let terms = line.split("&&").flat_map(|term| term.split("||"));
            let compared = terms.filter(|term| term.contains(" == ") || term.contains(" != "));
            let exposed = ["expose()", "hmac_sha256(", "integrity_mac("];
            if compared.into_iter().any(|term| exposed.iter().any(|word| term.contains(word))) {
                hits.push(format!("{path}:{number}: {line}"));
            }
            if line.starts_with("#[derive(") {
                derived = line;
            } else if line.contains("enum ") {
                derived.clear();
            } else if let Some((_, rest)) = line.split_once("struct ") {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
                if let Some(secret) = secrets.iter().find(|secret| **secret == name) {
                    seen.push(*secret);
                    hits.extend(derived.contains("PartialEq").then(|| format!("{path}:{number}: {name}: {derived}")));
                }
                derived.clear();
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), secrets.len(), "a secret was renamed: {seen:?}");
    assert_none(&hits, "a comparison that tells how much of a secret was right");
}

/// Whether a word in back quotes is a test's name, perhaps with the module it stands in: `name_of_a_test`, `module::name_of_it`.
fn is_test(word: &str) -> bool {
    let name = word.rsplit("::").next().unwrap_or(word);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.matches('_').count() > 1 && word.replace("::", "").chars().all(is_plain)
}

/// Every function of the product, the tests and the models, with the name of the file it stands in.
fn functions() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for path in ["src", "tests", "loom-tests"].iter().flat_map(|folder| files(folder, ".rs")) {
        let module = Path::new(&path).file_stem().expect("a file").to_string_lossy().into_owned();
        for rest in read(&path).split("fn ").skip(1) {
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            found.insert((module.clone(), name));
        }
    }
    found
}

/// Every test that these documents name, exists: a promise or a fault without its test is only a hope.
#[test]
fn documents_name_tests_that_exist() {
    let functions = functions();
    let exists = |word: &str| match word.rsplit_once("::") {
        Some((module, name)) => functions.contains(&(module.to_owned(), name.to_owned())),
        None => functions.iter().any(|(_, name)| name == word),
    };
    let mut missing = Vec::new();
    for (document, least) in [("docs/threat-model.md", 50), ("docs/testing.md", 100), ("docs/concurrency.md", 10)] {
        let text = read(document);
        let named: Vec<_> = text.split('`').skip(1).step_by(2).filter(|word| is_test(word)).collect();
        assert!(named.len() > least, "{document}: only {} tests are named", named.len());
        let absent = named.into_iter().filter(|word| !exists(word));
        missing
            .extend(absent.map(|word| format!("{document}: `{word}`: no such function in src, tests or loom-tests")));
    }
    assert_none(&missing, "a document names a test that is not there; was it renamed?");
}

#[test]
fn each_line_of_the_threat_model_has_its_test() {
    let text = read("docs/threat-model.md");
    let promises = text.lines().filter(|line| line.starts_with("| ") && line.split(" | ").count() >= 3);
    let (shown, bare): (Vec<&str>, Vec<&str>) =
        promises.partition(|line| line.contains('`') || line.contains("shown by"));
    assert_none(&bare.into_iter().map(str::to_owned).collect::<Vec<_>>(), "a line without a test");
    let said = figure("promises to each kind of attacker");
    // The first line of each table names its columns.
    let count = shown.iter().filter(|line| !line.contains("shown by")).count();
    say::say(format_args!("{count} promises of the threat model, each with a test that exists"));
    assert_eq!(
        count, said,
        "docs/threat-model.md has {count} promises, docs/reliability.md says {said}: write {count} there"
    );
}

/// Each fault that was put in by hand has somebody who catches it, and docs/reliability.md says how many there are.
#[test]
fn each_fault_put_in_by_hand_is_caught_and_counted() {
    let text = read("docs/testing.md");
    let (mut is_fault, mut count, mut uncaught) = (false, 0, Vec::new());
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') || line.starts_with("|--") {
            is_fault &= line.starts_with('|');
            continue;
        }
        if !is_fault {
            is_fault = cells[0] == "fault";
            continue;
        }
        count += 1;
        let catches = |cell: &&str| !cell.is_empty() && !cell.starts_with("not seen") && !cell.starts_with("not tried");
        if !cells[1..].iter().any(catches) {
            uncaught.push(line.to_owned());
        }
    }
    assert_none(&uncaught, "a fault that nothing catches: say so below its table, not in it");
    let said = figure("faults put in by hand");
    say::say(format_args!("{count} faults, each with who catches it"));
    assert_eq!(count, said, "docs/testing.md has {count} faults, docs/reliability.md says {said}: write {count} there");
}

/// The number with which the figure of a row of docs/reliability.md begins.
fn figure(row: &str) -> usize {
    let text = read("docs/reliability.md");
    let line = text.lines().find(|line| line.starts_with(&format!("| {row}")));
    let cell = line.and_then(|line| line.split(" | ").nth(1)).unwrap_or_else(|| panic!("no row {row:?}"));
    let digits = cell.chars().filter(|c| *c != ',').take_while(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap_or_else(|_| panic!("the figure of {row:?} begins with no number: {cell}"))
}

#[test]
fn nothing_is_left_unfinished() {
    let mut hits = Vec::new();
    for folder in ["src", "tests", "benches", "loom-tests"] {
        for path in files(folder, ".rs").into_iter().filter(|path| path != "tests/tidy.rs") {
            let unfinished = ["todo!(", "unimplemented!(", "FIXME", "XXX", "#[ignore"];
            let lines = read(&path);
            let found = lines.lines().enumerate().filter(|(_, line)| unfinished.iter().any(|word| line.contains(word)));
            hits.extend(found.map(|(number, line)| format!("{path}:{}: {line}", number + 1)));
        }
    }
    assert_none(&hits, "unfinished work");
}
