//! What was acknowledged is there: after SIGKILL at random points under load, and after a power loss, which is a process
//! killed over a disk that forgets what was not synced (`drop_unsynced.c`). Killing alone proves nothing about syncs.
//!
//! ```text
//! cargo test --test admission_durability                                           thirty of each
//! RENDEZVOUS_ADMISSION_KILLS=1000 cargo test --release --test admission_durability     as many as you like
//! ```
#![cfg(feature = "admission")]
#![allow(missing_docs)]

mod check;
mod load;
#[path = "../support/say.rs"]
mod say;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Kills of a run that nobody asked to be longer.
const KILLS: u64 = 30;

fn kills() -> u64 {
    let asked = std::env::var("RENDEZVOUS_ADMISSION_KILLS").ok();
    asked.map_or(KILLS, |text| text.parse().expect("RENDEZVOUS_ADMISSION_KILLS must be a number"))
}

/// What was acknowledged, by its key: the session and the command's number.
pub(crate) type Acknowledged = BTreeMap<String, (String, u64)>;

/// Where a process keeps its store, and what a power loss leaves of it.
struct Disk {
    root: tempfile::TempDir,
    shim: Option<PathBuf>,
}

impl Disk {
    fn new(shim: Option<PathBuf>) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(root.path().join("live")).expect("a directory");
        std::fs::create_dir(root.path().join("synced")).expect("a directory");
        Self { root, shim }
    }

    fn live(&self) -> PathBuf {
        self.root.path().join("live")
    }

    fn synced(&self) -> PathBuf {
        self.root.path().join("synced")
    }

    /// The power came back: only what was synced is there.
    fn lose_power(&self) {
        copy_all(&self.synced(), &self.live());
    }

    /// What is there when a process starts has been there for long: whoever looked at it last closed it in peace.
    fn settle(&self) {
        copy_all(&self.live(), &self.synced());
    }
}

/// Makes `to` what `from` is.
fn copy_all(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).expect("removed");
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// Runs the load in a process of its own and kills it; gives what it had acknowledged.
fn killed(disk: &Disk, round: u64) -> Acknowledged {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["the_process_that_is_killed", "--exact", "--nocapture"]);
    command.env(load::PATH, disk.live().join("admission.db")).env(load::ROUND, round.to_string());
    if let Some(shim) = &disk.shim {
        disk.settle();
        command.env("LD_PRELOAD", shim).env("UNSYNCED_FROM", disk.live()).env("UNSYNCED_TO", disk.synced());
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("a process");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = Acknowledged::new();
        for line in output.lines() {
            // A last line may be cut off by the kill; one without all its words was not said.
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split(' ').collect();
            if let ["ack", key, session, seq, "."] = words[..] {
                acknowledged.insert(key.to_owned(), (session.to_owned(), seq.parse().expect("a number")));
                let _ = tell.send(());
            }
        }
        acknowledged
    });
    // Some time after the first acknowledgement: a different number of them each time.
    told.recv_timeout(Duration::from_secs(60)).expect("an acknowledgement");
    let more = 1 + (round * 37) % 160;
    for _ in 0..more {
        if told.recv_timeout(Duration::from_secs(5)).is_err() {
            break;
        }
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    reader.join().expect("no panic")
}

/// Kills the load again and again over one store that grows, and looks at it after each time.
fn survives(disk: &Disk, what: &str, kills: u64) {
    let mut all = Acknowledged::new();
    for round in 0..kills {
        let acknowledged = killed(disk, round);
        assert!(!acknowledged.is_empty());
        if disk.shim.is_some() {
            disk.lose_power();
        }
        all.extend(acknowledged.clone());
        // What is old was looked at before; the last round looks at everything.
        let expected = if round + 1 == kills { &all } else { &acknowledged };
        check::everything_is_there(&disk.live().join("admission.db"), expected, round);
    }
    say::say(format_args!("{kills} {what}, {} acknowledged admissions, all there", all.len()));
}

#[test]
fn acknowledged_admissions_survive_sigkill() {
    survives(&Disk::new(None), "kills", kills());
}

#[test]
fn acknowledged_admissions_survive_power_loss() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission_durability/drop_unsynced.c");
    let place = tempfile::tempdir().expect("a temporary directory");
    let shim = place.path().join("drop_unsynced.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&shim)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return say::not_run("no C compiler for the storage shim");
    }
    survives(&Disk::new(Some(shim)), "losses of power", kills());
}

/// The other end of [`killed`]; without being asked it has nothing to do.
#[test]
fn the_process_that_is_killed() {
    load::run_if_asked();
}
