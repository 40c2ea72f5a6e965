//! `rendezvous demo`: the whole thing in one process, over real sockets on loopback; with PostgreSQL, two server processes.

mod commands;
mod directory;
mod postgres;

use super::output::{Output, secret};
use crate::client::http::{BrowseQuery, Browsed, Directory, Listing};
use crate::client::link::{Heard, Link, Talk};
use crate::client::{Error, Join, JoinFailure};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::credentials::Secret;
use crate::domain::{MonoTime, Role};
use crate::server::{Server, StartError};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

const PROTOCOL: &str = "demo/1";
const NAME: &str = "Friday night";
/// The longest story takes a few seconds; if one hangs, it is said so.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks of the browser.
const LOOK: Duration = Duration::from_millis(5);

/// See the whole thing work, in this process, in under two seconds
///
/// Starts a server on free loopback ports, lists a game, finds it by browsing, joins it, is introduced, punches through
/// and exchanges a message, all over real sockets and through the same code as the other commands. Nothing is left behind.
///
/// With --plane commands it is a back end that asks for the game: the session is placed at a host, the host applies its
/// commands and lists it, one command expires, and a player waits at the session's gate until the back end lets them in.
/// With --postgres that is done by two server processes over one database, of which one is killed in the middle.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous demo
  rendezvous demo --plane commands

Then, in three terminals:
  rendezvous serve --dev
  rendezvous host --protocol arena/3 --name \"Friday night\"
  rendezvous browse --protocol arena/3

Exit codes: 0 it worked, 1 a step failed, 2 wrong command line")]
pub(crate) struct Args {
    /// Which half of the server to show
    #[arg(long, value_enum, default_value_t = Plane::Directory)]
    plane: Plane,
    /// For --plane commands: a PostgreSQL database whose tables may be made, as `postgres://USER@HOST/NAME` or `host=... user=...`
    #[arg(long, value_name = "URL", env = "RENDEZVOUS_DEMO_POSTGRES", hide_env_values = true, value_parser = secret)]
    postgres: Option<Secret>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Plane {
    /// Players find games and connect
    Directory,
    /// Back ends ask for sessions and steer them
    Commands,
}

/// Why the story ended early.
#[derive(Debug)]
enum Failure {
    Start(StartError),
    Process(std::io::Error),
    Unexpected(String),
    Call(Error),
    Join(JoinFailure),
    HostStopped,
    Vanished,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the server did not start: {error}"),
            Self::Process(error) => write!(f, "a server process: {error}"),
            Self::Unexpected(what) => f.write_str(what),
            Self::Call(error) => error.fmt(f),
            Self::Join(failure) => failure.fmt(f),
            Self::HostStopped => f.write_str("the host stopped"),
            Self::Vanished => f.write_str("the other side was silent"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Process(error)
    }
}

/// Tells each step with its time.
#[derive(Clone, Copy, Debug)]
struct Narrator {
    output: Output,
    clock: SystemClock,
    start: MonoTime,
}

impl Narrator {
    fn new(output: Output) -> Self {
        let clock = SystemClock::new();
        Self { output, clock, start: clock.mono() }
    }

    fn elapsed_ms(self) -> u64 {
        self.clock.mono().ms_since(self.start)
    }

    fn say(self, who: &str, text: &str) {
        let at_ms = self.elapsed_ms();
        if self.output.is_json() {
            self.output.event("step", json!({ "who": who, "at_ms": at_ms, "text": text }), text);
        } else {
            self.output.line(&format!("{at_ms:>5} ms  {} {text}", self.output.bold(&format!("{who:<8}"))));
        }
    }
}

/// Runs the story.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    if args.postgres.is_some() && args.plane != Plane::Commands {
        output.failure("demo", None, "--postgres is the command plane's store", "add --plane commands");
        return ExitCode::from(super::exit::USAGE);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.failure("demo", None, &format!("no runtime: {error}"), "check the limits of threads and open files");
            return ExitCode::FAILURE;
        }
    };
    let narrator = Narrator::new(output);
    let told = runtime.block_on(async { tokio::time::timeout(PATIENCE, story(&args, narrator)).await });
    let ms = narrator.elapsed_ms();
    let failure = match told {
        Ok(Ok(())) => {
            output.event("done", json!({ "elapsed_ms": ms }), &format!("in {ms} ms; now try `rendezvous serve --dev`"));
            return ExitCode::SUCCESS;
        }
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("not done after {} s", PATIENCE.as_secs()),
    };
    output.failure("demo", None, &failure, "look whether something on this machine blocks loopback UDP or TCP");
    ExitCode::FAILURE
}

async fn story(args: &Args, narrator: Narrator) -> Result<(), Failure> {
    match (args.plane, &args.postgres) {
        (Plane::Directory, _) => directory::story(narrator).await,
        (Plane::Commands, None) => commands::story(narrator).await,
        (Plane::Commands, Some(url)) => postgres::story(url, narrator).await,
    }
}

/// A server of this process.
async fn start_server(mut config: Config) -> Result<Server, Failure> {
    let any_port = ([127, 0, 0, 1], 0).into();
    config.server.http = any_port;
    config.server.udp = vec![any_port];
    config.server.udp_auth = Vec::new();
    config.server.metrics = None;
    Server::start(config).await.map_err(Failure::Start)
}

/// Looks until there is a game.
async fn see_one(browser: &Directory, narrator: Narrator) -> Result<Listing, Failure> {
    loop {
        if let Some(listing) = look(browser).await?.into_iter().next() {
            let details = &listing.details;
            let text = format!("sees {:?}, {}/{} players", details.name, details.players, details.max_players);
            narrator.say("browser", &text);
            return Ok(listing);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Looks until there is none any more.
async fn see_none(browser: &Directory, narrator: Narrator) -> Result<(), Failure> {
    for looks in 1.. {
        if look(browser).await?.is_empty() {
            narrator.say("browser", &format!("sees no game any more, at look {looks}"));
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn look(browser: &Directory) -> Result<Vec<Listing>, Error> {
    let query = BrowseQuery { protocol: PROTOCOL.into(), ..BrowseQuery::default() };
    Ok(match browser.browse(&query, None).await? {
        Browsed::Page(page) => page.listings,
        Browsed::NotModified => Vec::new(),
    })
}

async fn exchange(join: &mut Join, peer: std::net::SocketAddr, narrator: Narrator) -> Result<String, Failure> {
    let mut talk = Talk::new(Link::new(Role::Joiner, join.peer_key().clone()));
    talk.say("hello", narrator.clock.mono());
    loop {
        while let Some(bytes) = talk.poll_transmit() {
            join.send(peer, &bytes).await;
        }
        // A text that is given up leaves nothing to wait for.
        let due = talk.poll_timeout();
        let left = due.map(|due| Duration::from_nanos(due.0.saturating_sub(narrator.clock.mono().0)));
        tokio::select! {
            news = join.next() => {
                if let crate::client::JoinNews::Datagram { bytes, .. } = news
                    && let Some(Heard::Text(text)) = talk.handle_input(&bytes, narrator.clock.mono())
                {
                    return Ok(text);
                }
            }
            () = tokio::time::sleep(left.unwrap_or(PATIENCE)) => {
                talk.handle_timeout(narrator.clock.mono());
                if due.is_none() {
                    return Err(Failure::Vanished);
                }
            }
        }
    }
}
