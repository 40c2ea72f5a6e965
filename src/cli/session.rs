//! `rendezvous session`: what a back end does, by hand.

use super::output::{Output, ServerArgs, block_on, exit, printable};
use crate::client::http::{
    Carried, CommandKind, CommandRequest, CommandState, CommandView, Directory, SessionCreate, SessionId, SessionView,
};
use crate::client::{Error, idempotency_key};
use crate::domain::AttemptId;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// One long poll; the server's bound is 30 s.
const POLL_WAIT: Duration = Duration::from_secs(25);

/// Ask for sessions on hosts, send them commands, see what became of them
///
/// The command plane: a session is created, given to a host with room (`rendezvous worker` is a sample), and steered by
/// commands that are durable once they are answered. What no host applies in time expires.
#[derive(clap::Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "Example, with `rendezvous serve --dev` and `rendezvous worker` running:
  rendezvous session create --profile demo --payload \"Friday night\" --wait
  rendezvous session send SESSION_ID input --payload \"map dust\" --wait
  rendezvous session status SESSION_ID

Events with --json: session, command, knock, failed

Exit codes:
  0  admitted; with --wait: applied
  1  a file can't be read
  2  wrong command line
  3  the server can't be reached, or isn't a rendezvous server
  4  the server refused
  9  with --wait: the command was rejected or expired";

#[derive(clap::Subcommand, Debug)]
enum Command {
    Create(CreateArgs),
    Send(SendArgs),
    Status(StatusArgs),
    Gate(GateArgs),
}

/// What every request has.
#[derive(clap::Args, Debug)]
struct Common {
    #[command(flatten)]
    server: ServerArgs,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// What every command has.
#[derive(clap::Args, Debug)]
struct Sent {
    /// What it carries, as text
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// What it carries: the content of a file, at most 8 MiB
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// How long a host has to begin; the server's default otherwise
    #[arg(long, value_name = "MS")]
    apply_within_ms: Option<u64>,
    /// The same key again is the same command; a new one otherwise
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait for its end
    #[arg(long)]
    wait: bool,
}

/// Ask for a session
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous session create --server http://127.0.0.1:8080 --tenant demo --profile demo --payload \"Friday night\" --wait")]
struct CreateArgs {
    /// What to launch: a profile of the server's configuration; `serve --dev` has `demo`
    #[arg(long, value_name = "NAME")]
    profile: String,
    #[command(flatten)]
    sent: Sent,
    #[command(flatten)]
    common: Common,
}

/// Send a session a command
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous session send SESSION_ID input --payload \"map dust\" --wait
  rendezvous session send SESSION_ID gate_response --attempt ATTEMPT_ID
  rendezvous session send SESSION_ID interrupt --payload close")]
struct SendArgs {
    /// The session's id
    #[arg(value_name = "SESSION_ID", value_parser = session_id)]
    session: SessionId,
    /// What it asks for
    #[arg(value_enum)]
    kind: Kind,
    /// For gate_response: the join attempt that waits
    #[arg(long, value_name = "ATTEMPT_ID", value_parser = attempt_id, required_if_eq("kind", "gate_response"))]
    attempt: Option<AttemptId>,
    /// For gate_response: don't let the player in
    #[arg(long, requires = "attempt")]
    refuse: bool,
    #[command(flatten)]
    sent: Sent,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
#[value(rename_all = "snake_case")]
enum Kind {
    /// Something to take in
    Input,
    /// Stop what is under way
    Interrupt,
    /// Let a waiting player in, or not
    GateResponse,
    /// Go back to a saved state
    Restore,
}

/// Show a session, or one of its commands
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous session status SESSION_ID
  rendezvous session status SESSION_ID 1 --wait")]
struct StatusArgs {
    /// The session's id
    #[arg(value_name = "SESSION_ID", value_parser = session_id)]
    session: SessionId,
    /// The command's number; its session otherwise
    command: Option<u64>,
    /// Wait for the command's end
    #[arg(long, requires = "command")]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

/// Show who waits at a session's gate
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous session gate SESSION_ID --wait")]
struct GateArgs {
    /// The session's id
    #[arg(value_name = "SESSION_ID", value_parser = session_id)]
    session: SessionId,
    /// Wait until there is somebody
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

fn session_id(text: &str) -> Result<SessionId, &'static str> {
    SessionId::parse(text).ok_or("a session's id has 32 lower-case hex digits")
}

fn attempt_id(text: &str) -> Result<AttemptId, &'static str> {
    AttemptId::parse(text).ok_or("an attempt's id has 32 lower-case hex digits")
}

/// Does one request.
pub(crate) fn run(args: Args) -> ExitCode {
    let (Common { server, json }, name) = match &args.command {
        Command::Create(args) => (&args.common, "session create"),
        Command::Send(args) => (&args.common, "session send"),
        Command::Status(args) => (&args.common, "session status"),
        Command::Gate(args) => (&args.common, "session gate"),
    };
    let output = Output::new(*json);
    let content = match &args.command {
        Command::Create(CreateArgs { sent, .. }) | Command::Send(SendArgs { sent, .. }) => sent.content(),
        Command::Status(_) | Command::Gate(_) => Ok(Carried::Nothing),
    };
    let content = match content {
        Ok(content) => content,
        Err((path, error)) => {
            output.failure(name, None, &format!("{}: {error}", path.display()), "check the path of --payload-file");
            return ExitCode::from(exit::LOCAL);
        }
    };
    block_on(async {
        let done = async {
            let directory = identified(server.directory()?).await?;
            match &args.command {
                Command::Create(args) => create(&directory, args, content, output).await,
                Command::Send(args) => send(&directory, args, content, output).await,
                Command::Status(args) => status(&directory, args, output).await,
                Command::Gate(args) => gate(&directory, args, output).await,
            }
        };
        done.await.unwrap_or_else(|error: Error| output.error(name, &error))
    })
}

impl Sent {
    fn content(&self) -> Result<Carried, (PathBuf, std::io::Error)> {
        match (&self.payload, &self.payload_file) {
            (Some(text), _) => Ok(Carried::Text(text.clone())),
            (None, Some(path)) => match std::fs::read(path) {
                Ok(bytes) => Ok(Carried::Bytes(bytes.into())),
                Err(error) => Err((path.clone(), error)),
            },
            (None, None) => Ok(Carried::Nothing),
        }
    }

    fn key(&self) -> Result<String, Error> {
        self.key.clone().map_or_else(idempotency_key, Ok)
    }
}

/// With the token that was given, or as a guest, which only a development server lets do this.
async fn identified(directory: Directory) -> Result<Directory, Error> {
    if directory.has_token() {
        return Ok(directory);
    }
    let token = directory.guest().await?.token;
    Ok(directory.with_token(token))
}

async fn create(directory: &Directory, args: &CreateArgs, payload: Carried, output: Output) -> Result<ExitCode, Error> {
    let apply_within_ms = args.sent.apply_within_ms;
    let request = SessionCreate { profile: args.profile.clone(), payload, apply_within_ms };
    let created = directory.create_session(&request, &args.sent.key()?).await?;
    let id = created.session_id;
    output.event("session", json!({ "session_id": id }), &id.to_string());
    end(directory, created.command, args.sent.wait, output).await
}

async fn send(directory: &Directory, args: &SendArgs, payload: Carried, output: Output) -> Result<ExitCode, Error> {
    let request = match (args.kind, args.attempt) {
        (Kind::GateResponse, Some(attempt)) => CommandRequest::gate_response(attempt, !args.refuse),
        (Kind::GateResponse, None) => CommandRequest::new(CommandKind::GateResponse, payload),
        (Kind::Input, _) => CommandRequest::new(CommandKind::Input, payload),
        (Kind::Interrupt, _) => CommandRequest::new(CommandKind::Interrupt, payload),
        (Kind::Restore, _) => CommandRequest::new(CommandKind::Restore, payload),
    };
    let request = CommandRequest { apply_within_ms: args.sent.apply_within_ms, ..request };
    let command = directory.send_command(args.session, &request, &args.sent.key()?).await?;
    end(directory, command, args.sent.wait, output).await
}

async fn status(directory: &Directory, args: &StatusArgs, output: Output) -> Result<ExitCode, Error> {
    match args.command {
        Some(number) => {
            let command = directory.command(args.session, number, Duration::ZERO).await?;
            end(directory, command, args.wait, output).await
        }
        None => {
            tell_session(&directory.session(args.session).await?, output);
            Ok(ExitCode::from(exit::OK))
        }
    }
}

async fn gate(directory: &Directory, args: &GateArgs, output: Output) -> Result<ExitCode, Error> {
    loop {
        let wait = if args.wait { POLL_WAIT } else { Duration::ZERO };
        let gate = directory.gate(args.session, 0, wait).await?;
        for item in &gate.attempts {
            let said = item.joiner_payload.as_deref().map(|text| format!(", says {text:?}")).unwrap_or_default();
            let fields = serde_json::to_value(item).unwrap_or_default();
            output.event("knock", fields, &format!("{}, waits until {}{said}", item.attempt_id, item.expires_at));
        }
        if !args.wait || !gate.attempts.is_empty() {
            return Ok(ExitCode::from(exit::OK));
        }
    }
}

/// Tells how far a command has come; with `wait`, once it has ended.
async fn end(directory: &Directory, mut command: CommandView, wait: bool, output: Output) -> Result<ExitCode, Error> {
    while wait && !command.state.is_over() {
        command = directory.command(command.session_id, command.command, POLL_WAIT).await?;
    }
    let fields = serde_json::to_value(&command).unwrap_or_default();
    output.event("command", fields, &told(&command));
    let failed = wait && command.state != CommandState::Applied;
    Ok(ExitCode::from(if failed { exit::NOT_APPLIED } else { exit::OK }))
}

/// A command in one line.
pub(super) fn told(command: &CommandView) -> String {
    let CommandView { command: number, kind, state, deadline, outcome, claim, .. } = command;
    let more = match (outcome, claim) {
        (Some(outcome), _) => {
            let code = if outcome.code == state.as_str() { String::new() } else { format!(" ({})", outcome.code) };
            let late = if outcome.late { ", after its deadline" } else { "" };
            format!("{code} by {}{late}", outcome.by)
        }
        (None, Some(claim)) => format!(" by {}, begins before {deadline}", claim.host),
        (None, None) => format!(", expires {deadline}"),
    };
    printable(&format!("{number} {kind}: {state}{more}"))
}

fn tell_session(session: &SessionView, output: Output) {
    let SessionView { session_id, profile, state, commands, open_commands, owner, placed, .. } = session;
    let place = match (owner, placed) {
        (Some(owner), _) => format!("run by {}, epoch {}", owner.host, owner.epoch),
        (None, Some(host)) => format!("proposed to {host}"),
        (None, None) if state == "open" => "waits for a host".to_owned(),
        (None, None) => "has no host".to_owned(),
    };
    let text = format!("{session_id} {profile}, {state}, {place}; {commands} commands, {open_commands} of them open");
    output.event("session", serde_json::to_value(session).unwrap_or_default(), &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(more: &str) -> CommandView {
        let text = format!(
            r#"{{"session_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","command":2,"kind":"input","revision":3,
            "admitted_at":"a","admitted_by":"user:alice","deadline":"noon","deliveries":1,{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_command_is_told_in_one_line() {
        let line = |more: &str| told(&command(more));
        assert_eq!(line(r#""state":"admitted""#), "2 input: admitted, expires noon");
        let claim = r#""state":"claimed","claim":{"host":"eu-1","epoch":4,"until":"u"}"#;
        assert_eq!(line(claim), "2 input: claimed by eu-1, begins before noon");
        let applied = r#""state":"applied","outcome":{"code":"applied","by":"eu-1","at":"t","late":true}"#;
        assert_eq!(line(applied), "2 input: applied by eu-1, after its deadline");
        let expired = r#""state":"expired","outcome":{"code":"never_claimed","by":"service:sweep","at":"t"}"#;
        assert_eq!(line(expired), "2 input: expired (never_claimed) by service:sweep");
        let newer = r#""state":"suspended\u001b[2J","of":"a newer server""#;
        assert_eq!(line(newer), "2 input: suspended?[2J, expires noon");
    }
}
