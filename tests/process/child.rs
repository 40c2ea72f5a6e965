//! A child process whose lines are read as they come, and which never outlives its handle.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing in these tests takes this long on a busy machine; reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a condition of another process.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until `condition` gives something; panics with `what` when it never does.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "{what}: never happened");
        thread::sleep(LOOK);
    }
}

/// The lines of one stream so far.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<(Mutex<Read>, Condvar)>);

#[derive(Default)]
struct Read {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    fn read(stream: impl io::Read + Send + 'static) -> Self {
        let lines = Self::default();
        let writer = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n') {
                let Ok(line) = line else { break };
                writer.0.0.lock().unwrap().lines.push(String::from_utf8_lossy(&line).into_owned());
                writer.0.1.notify_all();
            }
            writer.0.0.lock().unwrap().ended = true;
            writer.0.1.notify_all();
        });
        lines
    }

    fn has_ended(&self) -> bool {
        self.0.0.lock().unwrap().ended
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        self.0.0.lock().unwrap().lines.join("\n")
    }

    /// The first of the lines from number `from` on that `wanted` accepts, and the number after it.
    fn find<T>(&self, from: usize, wanted: impl Fn(&str) -> Option<T>) -> Option<(T, usize)> {
        let end = Instant::now() + PATIENCE;
        let mut read = self.0.0.lock().unwrap();
        let mut seen = from;
        loop {
            while let Some(line) = read.lines.get(seen) {
                seen += 1;
                if let Some(value) = wanted(line) {
                    return Some((value, seen));
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || read.ended {
                return None;
            }
            read = self.0.1.wait_timeout(read, left).unwrap().0;
        }
    }
}

/// A running child.
pub(crate) struct Process {
    child: Child,
    pub(crate) stdout: Lines,
    pub(crate) stderr: Lines,
    seen: usize,
}

/// The binary under test, without what the environment might tell it.
pub(crate) fn rendezvous() -> Command {
    alone(Command::new(env!("CARGO_BIN_EXE_rendezvous")))
}

/// The same in a shell's place, after what that has done to itself: limits, signals.
pub(crate) fn rendezvous_after(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_rendezvous")]);
    alone(command)
}

fn alone(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RENDEZVOUS_")) {
        command.env_remove(name);
    }
    command
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    /// With another standard error than one that is read here.
    pub(crate) fn start_with(command: &mut Command, stderr: Stdio) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().expect("a child");
        let stdout = Lines::read(child.stdout.take().expect("piped"));
        let stderr = child.stderr.take().map_or_else(|| Lines::read(io::empty()), Lines::read);
        Self { child, stdout, stderr, seen: 0 }
    }

    /// The next line on standard output that `wanted` accepts; what it skips is not looked at again.
    #[track_caller]
    pub(crate) fn next<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> T {
        let found = self.stdout.find(self.seen, wanted);
        let Some((value, seen)) = found else {
            panic!("the line never came; stdout:\n{}\nstderr:\n{}", self.stdout.text(), self.stderr.text())
        };
        self.seen = seen;
        value
    }

    /// The next event of this name from a `--json` command.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> serde_json::Value {
        self.next(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            (event["event"] == name).then_some(event)
        })
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal. The child has not been waited for, so its id can't be anybody else's.
    pub(crate) fn signal(&self, name: &str) {
        let script = format!("kill -{name} \"$0\"");
        let status = Command::new("sh").args(["-c", &script, &self.child.id().to_string()]).status();
        assert!(status.expect("sh").success());
    }

    /// SIGKILL, and its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("alive until now");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn exit(&mut self) -> ExitStatus {
        until("the end of the process", || self.child.try_wait().expect("a child"))
    }

    /// Waits for the end and shows what was said when the code is another one.
    #[track_caller]
    pub(crate) fn assert_exit(&mut self, code: i32) {
        let ended = self.exit_code();
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        assert_eq!(ended, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
    }

    /// Waits for the end and for everything that was said before it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = self.exit();
        // What was said last may still be on its way through the pipes.
        until("the end of its output", || (self.stdout.has_ended() && self.stderr.has_ended()).then_some(()));
        status.code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
