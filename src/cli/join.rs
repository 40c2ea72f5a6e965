//! `rendezvous join`: one attempt, from the listing's id to a packet of the host.

use super::output::{EXIT_HELP, Output, ServerArgs, block_on, duration, exit, stdin_lines, stop_signal};
use crate::client::core::Path;
use crate::client::http::{JoinRequest, PathKind};
use crate::client::link::{Heard, Link, Talk};
use crate::client::{Error, Join, JoinFailure, JoinNews, Port, Step};
use crate::clock::{Clock, SystemClock};
use crate::domain::{ListingId, Role};
use serde_json::json;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// What is said when nothing else is given.
const GREETING: &str = "hello";
/// How long the host may take for its first packet.
const FIRST_PACKET: Duration = Duration::from_secs(5);
/// How long a reply is waited for after the host has acknowledged the message: an echo comes at once.
const REPLY: Duration = Duration::from_secs(1);
/// How often unacknowledged texts are looked at.
const TICK: Duration = Duration::from_millis(50);
/// For the report of the outcome, which nobody waits for.
const REPORT: Duration = Duration::from_secs(1);

/// Join a game by its id
///
/// Makes an attempt, shows this machine's UDP address to the server, waits to be introduced to the host, punches through
/// the NATs of both sides, and says something. Where no punch works and the server names a relay, it goes by that. Prints the
/// way taken and the round trip time. On a terminal and without --message it goes on as a chat until Ctrl-D.
#[derive(clap::Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The id of the game, from `rendezvous browse` or from the host
    #[arg(value_name = "LISTING_ID", value_parser = listing_id)]
    listing: ListingId,
    /// Say this, wait for the reply, and end
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    format!(
        "Example:
  rendezvous join --server http://127.0.0.1:8080 --tenant demo 0190b5d2a3c47e8f9a0b1c2d3e4f5a6b --message hello

Events with --json: attempt, bound, family_ended, introduced, relaying, connected, acknowledged, message, done; failed

{EXIT_HELP}"
    )
}

fn listing_id(text: &str) -> Result<ListingId, String> {
    ListingId::parse(text).ok_or_else(|| "expected 32 lower-case hex digits, as `rendezvous browse` shows them".into())
}

/// Runs one join.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    block_on(async move {
        tokio::select! {
            code = join(&args, output) => code,
            () = stop_signal() => ExitCode::from(exit::INTERRUPTED),
        }
    })
}

async fn join(args: &Args, output: Output) -> ExitCode {
    let mut join = match start(args).await {
        Ok(join) => join,
        Err(error) => return output.error("attempt", &error),
    };
    let attempt = join.attempt().to_string();
    output.event("attempt", json!({ "attempt_id": attempt }), &attempt);
    match connect(&mut join, output).await {
        Ok(path) => {
            let code = talk(args, &mut join, path, output).await;
            report(&join, join.path_kind()).await;
            code
        }
        Err(failure) => {
            let (step, code) = match failure.step() {
                Step::Bind => ("bind", exit::NOT_BOUND),
                Step::Introduction => ("introduction", exit::NOT_INTRODUCED),
                Step::Punch => ("punch", exit::NOT_CONNECTED),
            };
            output.failure(step, None, &failure.to_string(), failure.advice());
            report(&join, PathKind::Failed).await;
            ExitCode::from(code)
        }
    }
}

async fn start(args: &Args) -> Result<Join, Error> {
    let directory = args.server.directory()?.or_guest().await?;
    let port = Port::open().await?;
    let candidates = port.private_addresses(directory.authority()).await;
    let request = JoinRequest { candidates, ..JoinRequest::default() };
    Join::start(directory, port, args.listing, &request).await
}

async fn report(join: &Join, path: PathKind) {
    if let Ok(Err(error)) = tokio::time::timeout(REPORT, join.report(path)).await {
        tracing::debug!(%error, "outcome not reported");
    }
}

async fn connect(join: &mut Join, output: Output) -> Result<Path, JoinFailure> {
    loop {
        match join.next().await {
            JoinNews::Bound { mapped } => {
                let text = format!("the server sees this side at {mapped}");
                output.event("bound", json!({ "address": mapped.to_string() }), &text);
            }
            JoinNews::FamilyEnded { server, refusal } => {
                let reason = refusal.to_string();
                let fields = json!({ "server": server.to_string(), "reason": reason });
                output.event("family_ended", fields, &format!("{server}: {reason}"));
            }
            JoinNews::Introduced { peers } => {
                let peers: Vec<String> = peers.iter().map(SocketAddr::to_string).collect();
                output.event("introduced", json!({ "peers": peers }), &format!("trying {}", peers.join(", ")));
            }
            JoinNews::Relaying { relay } => {
                let text = format!("no direct way so far; asking {relay} beside it");
                output.event("relaying", json!({ "relay": relay.to_string() }), &text);
            }
            JoinNews::Connected(path) => {
                let kind = join.path_kind();
                let way = if kind == PathKind::Relayed { "by relay" } else { "direct" };
                let fields =
                    json!({ "peer": path.peer.to_string(), "path": kind, "round_trip_us": path.round_trip_us });
                let text = format!("{way} to {}, round trip {}", path.peer, duration(path.round_trip_us));
                output.event("connected", fields, &text);
                return Ok(path);
            }
            JoinNews::Failed(failure) => return Err(failure),
            JoinNews::Datagram { .. } => {}
        }
    }
}

/// Says something and listens; a chat on a terminal.
async fn talk(args: &Args, join: &mut Join, path: Path, output: Output) -> ExitCode {
    let clock = SystemClock::new();
    let mut talk = Talk::new(Link::new(Role::Joiner, join.peer_key().clone()));
    let chat = args.message.is_none() && std::io::stdin().is_terminal();
    let mut lines = if chat { Some(stdin_lines()) } else { None };
    talk.say(args.message.as_deref().unwrap_or(GREETING), clock.mono());
    let mut tick = tokio::time::interval(TICK);
    let (mut heard_any, mut until) = (false, Some(tokio::time::Instant::now() + FIRST_PACKET));
    loop {
        while let Some(bytes) = talk.poll_transmit() {
            join.send(path.peer, &bytes).await;
        }
        tokio::select! {
            news = join.next() => {
                let JoinNews::Datagram { bytes, .. } = news else { continue };
                let Some(heard) = talk.handle_input(&bytes, clock.mono()) else { continue };
                heard_any = true;
                until = if chat { None } else { Some(tokio::time::Instant::now() + REPLY) };
                let is_reply = matches!(heard, Heard::Text(_));
                tell(heard, output);
                if is_reply && !chat {
                    until = Some(tokio::time::Instant::now());
                }
            }
            line = next_line(&mut lines) => match line {
                Some(line) => { talk.say(&line, clock.mono()); }
                None => break,
            },
            _ = tick.tick() => talk.handle_timeout(clock.mono()),
            () = sleep_until(until) => break,
        }
    }
    // The last acknowledgement, so that the host doesn't repeat itself into the void.
    while let Some(bytes) = talk.poll_transmit() {
        join.send(path.peer, &bytes).await;
    }
    if heard_any {
        output.event("done", json!({}), "packets went both ways");
        return ExitCode::from(exit::OK);
    }
    let message = format!("connected to {}, but no packet of the game came within 5 s", path.peer);
    output.failure("exchange", None, &message, "check that the host still runs and speaks the same protocol");
    ExitCode::from(exit::SILENT)
}

fn tell(heard: Heard, output: Output) {
    match heard {
        Heard::Text(text) => output.event("message", json!({ "text": text }), &text),
        Heard::Ack { round_trip_us } => {
            let text =
                round_trip_us.map_or_else(|| "by the host".to_owned(), |us| format!("by the host, {}", duration(us)));
            output.event("acknowledged", json!({ "round_trip_us": round_trip_us }), &text);
        }
    }
}

async fn sleep_until(until: Option<tokio::time::Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn next_line(lines: &mut Option<tokio::sync::mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}
