//! Servers as child processes: started on their core, asked for their CPU time, ended with their handle.

use super::error::{CompareError, system};
use super::machine::{self, Cores};
use crate::load::cpu::cpu_time;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A server that isn't ready after it never will be.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(10);
/// Looks at a child that was asked to end, before it is killed: two seconds.
const LOOKS_AT_END: u32 = 200;
/// Bytes of a child's log that are shown when it fails.
const SAID_BYTES: usize = 400;

/// A running server. Dropping it ends it and its workers.
#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    child: Child,
    workers: Vec<u32>,
    log: PathBuf,
}

impl Server {
    /// Starts `command` on the servers' core, its messages in a file of `folder`.
    pub(super) fn start(
        name: &'static str,
        command: &mut Command,
        cores: Cores,
        folder: &Path,
    ) -> Result<Self, CompareError> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(system(format!("the log of {name}")))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        cores.go_to_server().map_err(system("pinning a server"))?;
        let child = command.spawn().map_err(system(format!("starting {name}")));
        cores.go_to_generator().map_err(system("pinning the generator"))?;
        Ok(Self { name, child: child?, workers: Vec::new(), log })
    }

    /// Waits for a line of its standard output that begins with `prefix`.
    pub(super) fn ready_line(&mut self, prefix: &'static str) -> Result<String, CompareError> {
        let stdout = self.child.stdout.take();
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()).map_while(Result::ok) {
                if line.starts_with(prefix) && sender.send(line).is_err() {
                    return;
                }
            }
        });
        receiver.recv_timeout(START_PATIENCE).map_err(|_| self.failure())
    }

    /// Waits until something listens there.
    pub(super) fn listening(&mut self, address: SocketAddr) -> Result<(), CompareError> {
        let looks = START_PATIENCE.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if self.child.try_wait().map_err(system(self.name))?.is_some() {
                break;
            }
            thread::sleep(LOOK);
        }
        Err(self.failure())
    }

    /// Finds the workers whose CPU time counts too. To be called when one of them has answered: a parent listens before it
    /// has any.
    pub(super) fn find_workers(&mut self) -> Result<(), CompareError> {
        self.workers = machine::children(self.pid());
        if self.workers.is_empty() { Err(self.failure()) } else { Ok(()) }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// CPU time so far of the process and its workers.
    pub(super) fn cpu_time(&self) -> Result<Duration, CompareError> {
        let pids = std::iter::once(self.pid()).chain(self.workers.iter().copied());
        pids.map(cpu_time).sum::<Result<Duration, _>>().map_err(|_| self.failure())
    }

    fn failure(&self) -> CompareError {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let start = said.char_indices().rev().nth(SAID_BYTES).map_or(0, |(at, _)| at);
        CompareError::Server { name: self.name, said: said[start..].trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.pid(), Signal::TERM);
        let ended = (0..LOOKS_AT_END).any(|_| {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
            if !ended {
                thread::sleep(LOOK);
            }
            ended
        });
        if !ended {
            // Workers first: they would outlive a parent that can't tell them.
            self.workers.iter().for_each(|worker| signal(*worker, Signal::KILL));
            let _gone = self.child.kill();
            let _reaped = self.child.wait();
        }
    }
}

/// A process that is gone needs no signal.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, signal);
    }
}

/// A loopback port that was free a moment ago, for servers that can't say which one they took.
pub(super) fn free_port() -> Result<SocketAddr, CompareError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(system("a free port"))?;
    listener.local_addr().map_err(system("a free port"))
}

/// Whether a program is on the PATH.
pub(super) fn is_installed(program: &str) -> Option<PathBuf> {
    // Debian keeps servers where a user's PATH doesn't lead.
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(program)).find(|file| file.is_file())
}
