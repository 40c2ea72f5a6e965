//! `rendezvous host`: lists a game and meets its players; the game is a chat.

use super::output::{Output, ServerArgs, block_on, complain, duration, exit, stdin_lines, stop_signal};
use super::peers::{Peers, TICK};
use crate::client::http::{ListingDetails, Registration, Visibility};
use crate::client::{Error, Host, HostNews, HostOptions, PlayerNews, Port};
use crate::clock::{Clock, SystemClock};
use crate::domain::AttemptId;
use serde_json::json;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use tokio::sync::mpsc::Receiver;

/// List a game, keep it listed, and let players in
///
/// Registers a listing, proves over UDP that this machine answers, and keeps both alive until Ctrl-C, which takes the
/// listing down. Each player who joins is met through the NATs of both sides. The game itself is a chat: what you type
/// goes to everybody; when standard input isn't a terminal every message is echoed. After a restart of the server the
/// game is listed again by itself.
#[derive(clap::Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Your game and its version, such as `arena/3`; players find only their own
    #[arg(long, value_name = "PROTOCOL")]
    protocol: String,
    /// What players see in the list, 1 to 64 characters
    #[arg(long, value_name = "TEXT")]
    name: String,
    /// Don't show it in the list: only who knows the id can join
    #[arg(long)]
    unlisted: bool,
    /// Room for so many
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_players: u16,
    /// Shown in the list
    #[arg(long, value_name = "TEXT")]
    region: Option<String>,
    /// Shown in the list
    #[arg(long, value_name = "TEXT")]
    map: Option<String>,
    /// Let each player wait until you type `/admit ID` or `/refuse ID`; without a terminal everybody is admitted
    #[arg(long)]
    gate: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

const HELP: &str = "Example:
  rendezvous host --server http://127.0.0.1:8080 --tenant demo --protocol arena/3 --name \"Friday night\"

Events with --json: logged_in, listed, verified, unanswered, renewed, lost, draining, retrying, offered, payload, \
introduced, connected, not_connected, message, closed, failed

While the server is away it goes on trying.

Exit codes:
  0  ended by Ctrl-C, and the listing was taken down
  1  this machine: no socket
  2  wrong command line
  3  ended by Ctrl-C while the server could not be reached: the listing ends with its lease
  4  the server refused (tenant, quota, token, a field)
  5  the server has no UDP address that can be used from here";

/// Runs until a signal.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    block_on(async move {
        match host(&args, output).await {
            Ok(code) => code,
            Err(error) => output.error("host", &error),
        }
    })
}

async fn host(args: &Args, output: Output) -> Result<ExitCode, Error> {
    let directory = args.server.directory()?;
    let port = Port::open().await?;
    let registration = Registration {
        protocol: args.protocol.clone(),
        visibility: if args.unlisted { Visibility::Unlisted } else { Visibility::Public },
        details: ListingDetails {
            name: args.name.clone(),
            map: args.map.clone(),
            region: args.region.clone(),
            max_players: args.max_players,
            ..ListingDetails::default()
        },
        candidates: port.private_addresses(directory.authority()).await,
        gate: args.gate,
        ..Registration::default()
    };
    let host = Host::new(directory, port, HostOptions { registration })?;
    let interactive = std::io::stdin().is_terminal();
    let lines = interactive.then(stdin_lines);
    Session { host, output, interactive, gate: args.gate, peers: Peers::default(), clock: SystemClock::new() }
        .run(lines)
        .await
}

struct Session {
    host: Host,
    output: Output,
    interactive: bool,
    gate: bool,
    peers: Peers,
    clock: SystemClock,
}

impl Session {
    async fn run(mut self, mut lines: Option<Receiver<String>>) -> Result<ExitCode, Error> {
        let mut tick = tokio::time::interval(TICK);
        let mut stop = std::pin::pin!(stop_signal());
        loop {
            tokio::select! {
                () = &mut stop => break,
                news = self.host.next() => {
                    if let HostNews::Stopped(error) = news {
                        return Err(error);
                    }
                    self.tell(news);
                }
                line = next_line(&mut lines) => match line {
                    Some(line) => self.typed(&line),
                    None => lines = None,
                },
                _ = tick.tick() => {
                    self.peers.tick(self.clock.mono());
                }
            }
            self.peers.send(&self.host).await;
        }
        let output = self.output;
        let text = if self.host.listing().is_some() { "the listing is taken down" } else { "nothing was listed" };
        self.host.close().await?;
        output.event("closed", json!({}), text);
        Ok(ExitCode::from(exit::OK))
    }

    fn tell(&mut self, news: HostNews) {
        let output = self.output;
        match news {
            HostNews::LoggedIn { principal } => {
                output.event("logged_in", json!({ "principal": principal }), &format!("as {principal}"));
            }
            HostNews::Listed { listing, again } => {
                let id = listing.to_string();
                output.event("listed", json!({ "listing_id": id, "again": again }), &id);
            }
            HostNews::Verified { mapped } => {
                let text = format!("the server sees this game at {mapped}; players can join");
                output.event("verified", json!({ "address": mapped.to_string() }), &text);
            }
            HostNews::Unanswered { server } => {
                let text = format!("no answer over UDP from {server}; players can't join this way until one comes");
                output.event("unanswered", json!({ "server": server.to_string() }), &text);
            }
            HostNews::Renewed { version } => {
                output.event("renewed", json!({ "version": version }), &format!("the lease, version {version}"));
            }
            HostNews::Lost => output.event("lost", json!({}), "the listing has ended; registering again"),
            HostNews::Draining { retry_after } => {
                let ms = retry_after.as_millis();
                let text = format!("the server is going down; back in {ms} ms");
                output.event("draining", json!({ "retry_after_ms": ms }), &text);
            }
            HostNews::Retrying { error } => {
                let fields = json!({ "message": error.to_string(), "code": error.code().map(|code| code.as_str()) });
                output.event("retrying", fields, &error.to_string());
            }
            HostNews::Stopped(_) => {}
            HostNews::Datagram { from, bytes } => self.heard(from, &bytes),
            HostNews::Player { attempt, news } => self.tell_player(attempt, news),
        }
    }

    fn tell_player(&mut self, attempt: AttemptId, news: PlayerNews) {
        let output = self.output;
        let id = attempt.to_string();
        match news {
            PlayerNews::Offered => {
                output.event("offered", json!({ "attempt_id": id }), &format!("a player wants to join: {id}"));
                if self.gate && !self.interactive {
                    self.host.admit(attempt, true);
                }
            }
            PlayerNews::Payload(payload) => {
                let fields = json!({ "attempt_id": id, "payload": payload });
                output.event("payload", fields, &payload);
            }
            PlayerNews::Introduced { peers } => {
                let peers: Vec<String> = peers.iter().map(SocketAddr::to_string).collect();
                let text = format!("trying {}", peers.join(", "));
                output.event("introduced", json!({ "attempt_id": id, "peers": peers }), &text);
            }
            PlayerNews::Connected { path, peer_key } => {
                let fields = json!({
                    "attempt_id": id,
                    "peer": path.peer.to_string(),
                    "round_trip_us": path.round_trip_us,
                });
                output.event("connected", fields, &format!("{}, {}", path.peer, duration(path.round_trip_us)));
                self.peers.add(attempt, path, peer_key);
            }
            PlayerNews::NotConnected { refusal } => {
                let reason =
                    refusal.map_or_else(|| "the player can't be reached".to_owned(), |refusal| refusal.to_string());
                let fields = json!({ "attempt_id": id, "reason": reason });
                output.event("not_connected", fields, &reason);
            }
        }
    }

    fn heard(&mut self, from: SocketAddr, bytes: &[u8]) {
        let interactive = self.interactive;
        let echo = |text: &str| (!interactive).then(|| format!("echo: {text}"));
        if let Some((attempt, text)) = self.peers.hear(from, bytes, self.clock.mono(), echo) {
            let fields = json!({ "attempt_id": attempt.to_string(), "text": text });
            self.output.event("message", fields, &text);
        }
    }

    fn typed(&mut self, line: &str) {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let admit = match command {
            "/admit" => true,
            "/refuse" => false,
            _ => {
                self.peers.say(line, self.clock.mono());
                return;
            }
        };
        match AttemptId::parse(rest.trim()) {
            Some(attempt) => self.host.admit(attempt, admit),
            None => complain(&format!("expected {command} and the id of an attempt, 32 hex digits")),
        }
    }
}

/// The next line; never, when there are none any more.
async fn next_line(lines: &mut Option<Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}
