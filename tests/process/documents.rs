//! Every command of the documents is run as it stands there, by a shell, so that none goes stale. Only addresses, ids, the
//! place of the binary, and the length of load runs are replaced.

use crate::child::{Process, rendezvous};
use crate::say::not_run;
use crate::server::{OPERATOR_KEY, Server, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// How a command of ours begins in a document, after a prompt.
const BEGINNINGS: [&str; 4] = ["rendezvous ", "./target/release/rendezvous ", "cargo run --release -- ", "curl "];

/// Commands that are not run here, each with the reason.
const NOT_RUN: [(&str, &str); 1] = [(
    "rendezvous demo --plane commands --postgres postgres://rendezvous@127.0.0.1/rendezvous",
    "tests/process/commands.rs runs it over a private PostgreSQL",
)];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The commands of one document: lines of its code blocks, and code in the running text that begins with `curl`.
fn commands(document: &Path) -> Vec<String> {
    let content = fs::read_to_string(document).expect("a document");
    let (mut found, mut in_block) = (Vec::new(), false);
    for line in content.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let line = line.trim_start();
            let line = line.strip_prefix("$ ").unwrap_or(line);
            if BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
                found.push(line.to_owned());
            }
        } else {
            let code = line.split('`').skip(1).step_by(2);
            found.extend(code.filter(|code| code.starts_with("curl ")).map(str::to_owned));
        }
    }
    found
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let docs = fs::read_dir(root().join("docs")).expect("the documents");
    found.extend(
        docs.map(|entry| entry.expect("readable").path()).filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    found.sort();
    found
}

/// What the commands of a document meet: a server, a game to join, a session, and a folder with `rendezvous` in its PATH.
struct Stage {
    server: Server,
    listing: String,
    _host: Process,
    session: String,
    _worker: Process,
    folder: TempDir,
}

impl Stage {
    fn set() -> Self {
        let server = Server::dev();
        let mut command = rendezvous();
        command.args(["host", "--server", &server.url(), "--protocol", "arena/3", "--name", "Stage", "--json"]);
        let mut host = Process::start(&mut command);
        let listing = text(&host.event("listed")["listing_id"]);
        host.event("verified");
        let mut command = rendezvous();
        let mut worker =
            Process::start(command.args(["worker", "--server", &server.url(), "--host", "stage", "--json"]));
        worker.event("registered");
        let mut command = rendezvous();
        let arguments = ["session", "create", "--server", &server.url(), "--profile", "demo", "--wait", "--json"];
        let session = text(&Process::start(command.args(arguments)).event("session")["session_id"]);
        worker.event("listed");
        let folder = TempDir::new().expect("a temporary folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_rendezvous"), folder.path().join("rendezvous")).expect("a link");
        Self { server, listing, _host: host, session, _worker: worker, folder }
    }

    /// The command with this stage's places in it, or why it can't be run.
    fn translate(&self, command: &str) -> Result<String, String> {
        let beginning =
            BEGINNINGS.iter().find(|beginning| command.starts_with(**beginning)).expect("it was found by it");
        let rest = &command[beginning.len()..];
        let mut line = if *beginning == "curl " {
            if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
                return Err("curl isn't installed".to_owned());
            }
            format!("exec curl --silent --show-error --fail-with-body {rest}")
        } else {
            format!("exec rendezvous {rest}")
        };
        line = line.replace("http://127.0.0.1:8080", &self.server.url()).replace("127.0.0.1:9464", "127.0.0.1:0");
        line = line.replace("LISTING_ID", &self.listing).replace("SESSION_ID", &self.session);
        if line.contains("rendezvous serve ") || line.ends_with("rendezvous serve") {
            line = line.replacen("serve", "serve --http 127.0.0.1:0 --udp 127.0.0.1:0", 1);
        }
        if line.contains("rendezvous load ") {
            line = shortened(&line);
        }
        let own = |word: &str| if is_id(word) && word != self.session { self.listing.clone() } else { word.to_owned() };
        Ok(line.split(' ').map(own).collect::<Vec<_>>().join(" "))
    }

    fn start(&self, line: &str) -> Process {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RENDEZVOUS_")) {
            command.env_remove(name);
        }
        command.env("PATH", path).env("RENDEZVOUS_SERVER", self.server.url());
        command.env("RENDEZVOUS_OPERATOR_KEY", OPERATOR_KEY);
        Process::start(command.args(["-c", line]).current_dir(self.folder.path()))
    }

    #[track_caller]
    fn run(&self, line: &str) {
        let mut process = self.start(line);
        let lasting = line.strip_prefix("exec rendezvous ").and_then(|rest| rest.split(' ').next());
        match lasting {
            Some("serve") => process.next(|line| line.starts_with("ready http=").then_some(())),
            Some("host") => process.next(|line| line.starts_with("verified").then_some(())),
            Some("worker") => process.next(|line| line.starts_with("registered").then_some(())),
            Some("browse") if line.contains("--watch") => process.next(|_| Some(())),
            _ => {
                process.assert_exit(0);
                return;
            }
        }
        process.terminate();
        process.assert_exit(0);
    }
}

/// A load run of half a second, whatever the document says; the rest of its options stay.
fn shortened(line: &str) -> String {
    let lengths: &[(&str, &str)] = if line.contains("rendezvous load compare") {
        &[("--pairs", "1"), ("--seconds", "0.05"), ("--listings", "256")]
    } else {
        &[("--duration", "0.5"), ("--warm-up", "0"), ("--listings", "64")]
    };
    let mut words: Vec<&str> = line.split(' ').collect();
    for (option, _) in lengths {
        if let Some(at) = words.iter().position(|word| word == option) {
            words.drain(at..(at + 2).min(words.len()));
        }
    }
    let short = lengths.iter().map(|(option, value)| format!(" {option} {value}")).collect::<String>();
    words.join(" ") + &short
}

fn is_id(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn every_command_of_the_documents_runs() {
    let stage = Stage::set();
    let (mut run, mut passed_over) = (0, Vec::new());
    for document in documents() {
        for command in commands(&document) {
            if let Some((known, _)) = NOT_RUN.iter().find(|(known, _)| *known == command) {
                passed_over.push(*known);
                continue;
            }
            match stage.translate(&command) {
                Ok(line) => {
                    println!("{}: {line}", document.display());
                    stage.run(&line);
                    run += 1;
                }
                Err(reason) => not_run(format_args!("{reason}: {command}")),
            }
        }
    }
    assert!(run >= 8, "only {run} commands were found");
    for (known, _) in NOT_RUN {
        assert!(passed_over.contains(&known), "{known:?} is in no document any more");
    }
}

#[test]
fn the_commands_that_dev_mode_prints_run() {
    let stage = Stage::set();
    let printed = stage.server.process.stderr.text();
    let lines: Vec<&str> = printed
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(" --server ") || line.starts_with("curl "))
        .collect();
    assert_eq!(lines.len(), 6, "{printed}");
    for line in lines {
        if line.starts_with("curl ") {
            match stage.translate(line) {
                Ok(line) => stage.run(&line),
                Err(reason) => not_run(format_args!("{reason}: {line}")),
            }
            continue;
        }
        let program = line.split(' ').next().expect("a program");
        let line = line.replacen(program, "exec rendezvous", 1).replace("LISTING_ID", &stage.listing);
        stage.run(&line);
    }
}
