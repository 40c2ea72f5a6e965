//! What `host`, `browse` and `join` share: whom to ask, how to speak, how to end.

use crate::client::http::Directory;
use crate::client::{Code, Error};
use crate::credentials::Secret;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Exit codes of `host`, `browse`, `join`, `doctor`, `session` and `worker`; 2 is clap's for a wrong command line.
pub(crate) mod exit {
    /// It worked.
    pub(crate) const OK: u8 = 0;
    /// Something on this machine: no socket, no randomness.
    pub(crate) const LOCAL: u8 = 1;
    /// The server can't be reached, or isn't a rendezvous server.
    pub(crate) const UNREACHABLE: u8 = 3;
    /// The server refused.
    pub(crate) const REFUSED: u8 = 4;
    /// The server doesn't see this side's UDP.
    pub(crate) const NOT_BOUND: u8 = 5;
    /// The host didn't come.
    pub(crate) const NOT_INTRODUCED: u8 = 6;
    /// The host can't be reached from here.
    pub(crate) const NOT_CONNECTED: u8 = 7;
    /// Connected, but no packet of the peer came.
    pub(crate) const SILENT: u8 = 8;
    /// `session --wait`: the command was rejected, or expired.
    pub(crate) const NOT_APPLIED: u8 = 9;
    /// Ended by a signal before it was done; 128 and the number of SIGINT, as shells count.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// The table of exit codes, for `--help`.
pub(crate) const EXIT_HELP: &str = "Exit codes:
  0    it worked (join: a packet from the host arrived)
  1    this machine: no socket
  2    wrong command line
  3    the server can't be reached, or isn't a rendezvous server
  4    the server refused (not found, quota, token)
  5    the server doesn't see this side's UDP
  6    the host didn't answer or refused
  7    the host can't be reached: NAT or firewall
  8    connected, but no packet from the host arrived
  130  ended by Ctrl-C";

/// Which server, which tenant, and as whom.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// The server's HTTP address
    #[arg(long, value_name = "URL", env = "RENDEZVOUS_SERVER", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// The game or studio; `serve --dev` has the tenant `demo`
    #[arg(long, value_name = "NAME", env = "RENDEZVOUS_TENANT", default_value = "demo")]
    tenant: String,
    /// A token of the tenant; without one, a guest's is asked for
    #[arg(long, value_name = "TOKEN", env = "RENDEZVOUS_TOKEN", hide_env_values = true, value_parser = secret)]
    token: Option<Secret>,
}

impl ServerArgs {
    /// As given.
    pub(crate) fn url(&self) -> &str {
        &self.server
    }

    /// As given.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// If one was given.
    pub(crate) fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// The directory, with the token if one was given.
    pub(crate) fn directory(&self) -> Result<Directory, Error> {
        let directory = Directory::new(&self.server, &self.tenant)?;
        Ok(match &self.token {
            Some(token) => directory.with_token(token.clone()),
            None => directory,
        })
    }
}

/// A token as clap keeps it: it is not printed with the other arguments.
pub(super) fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.trim()))
}

/// One line on standard output. A reader that has gone away is no reason to fail.
pub(crate) fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _gone = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// The same on standard error.
pub(crate) fn complain(text: &str) {
    let _gone = writeln!(std::io::stderr().lock(), "{text}");
}

/// Speaks to people, or to scripts with `--json`: then every line is one object with a member `event`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
}

impl Output {
    /// Colours only on a terminal, and not where `NO_COLOR` is set.
    pub(crate) fn new(json: bool) -> Self {
        let colour = !json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { json, colour }
    }

    /// Whether lines are objects.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether the terminal can be drawn on.
    pub(crate) fn is_live(self) -> bool {
        self.colour
    }

    /// One event: `text` for people, `name` and `fields` for scripts.
    pub(crate) fn event(self, name: &str, fields: Value, text: &str) {
        if self.json {
            let mut object = json!({ "event": name });
            if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
                object.extend(fields);
            }
            self.line(&object.to_string());
        } else {
            let label = self.bold(&format!("{:<11}", name.replace('_', " ")));
            self.line(&format!("{label} {}", printable(text)));
        }
    }

    /// One line as it is.
    pub(crate) fn line(self, text: &str) {
        say(text);
    }

    /// Bold on a terminal.
    pub(crate) fn bold(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// What failed, and what to try; to standard error for people, an event `failed` for scripts.
    pub(crate) fn failure(self, step: &str, code: Option<&Code>, message: &str, advice: &str) {
        if self.json {
            let code = code.map(Code::as_str);
            self.event("failed", json!({ "step": step, "code": code, "message": message, "advice": advice }), "");
        } else {
            complain(&format!("error: {step}: {}\n  try: {advice}", printable(message)));
        }
    }

    /// A failed call, and the exit code that belongs to it.
    pub(crate) fn error(self, step: &str, error: &Error) -> ExitCode {
        self.failure(step, error.code(), &error.to_string(), error.advice());
        ExitCode::from(match error {
            Error::ServerUrl { .. } => 2,
            Error::Unreachable { .. } | Error::Timeout { .. } | Error::Malformed { .. } => exit::UNREACHABLE,
            Error::Refused(_) => exit::REFUSED,
            Error::NoUdp { .. } => exit::NOT_BOUND,
            Error::Socket(_) => exit::LOCAL,
        })
    }
}

/// Text of somebody else, safe for a terminal: control, bidirectional and line-breaking characters become `?`.
pub(crate) fn printable(text: &str) -> String {
    let hostile = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    text.chars().map(|c| if hostile(c) { '?' } else { c }).collect()
}

/// Microseconds as people read them.
pub(crate) fn duration(us: u64) -> String {
    if us < 10_000 { format!("{}.{:01} ms", us / 1_000, us % 1_000 / 100) } else { format!("{} ms", us / 1_000) }
}

/// Runs a client command: one thread is enough for it.
pub(crate) fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            // The system may still look for a name that nobody waits for any more.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            complain(&format!("error: no runtime: {error}"));
            ExitCode::from(exit::LOCAL)
        }
    }
}

/// Lines of standard input; the channel's bound makes a fast pipe wait.
pub(crate) fn stdin_lines() -> tokio::sync::mpsc::Receiver<String> {
    /// Lines read ahead.
    const AHEAD: usize = 16;
    let (sender, receiver) = tokio::sync::mpsc::channel(AHEAD);
    // A thread of its own: a runtime would wait at its end for a read that nobody can interrupt.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Completes at SIGINT or SIGTERM.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_n1_nothing_of_a_stranger_reaches_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\n\u{9b}\u{202e}c"), "a?[2Jb????c");
        assert_eq!(printable("caf\u{e9} \u{65e5}\u{672c}"), "caf\u{e9} \u{65e5}\u{672c}");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(
            (duration(340), duration(9_870), duration(52_300)),
            ("0.3 ms".into(), "9.8 ms".into(), "52 ms".into())
        );
    }
}
