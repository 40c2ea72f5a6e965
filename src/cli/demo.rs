//! `rendezvous demo`: a server, a host, a browser and a joiner in one process, over real sockets on loopback.

use super::output::{Output, duration};
use crate::client::http::{BrowseQuery, Browsed, Directory, JoinRequest, ListingDetails, PathKind, Registration};
use crate::client::link::{Heard, Link, Talk};
use crate::client::{Error, Host, HostNews, HostOptions, Join, JoinFailure, PlayerNews, Port};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::domain::{ListingId, MonoTime, Role};
use crate::server::{Server, StartError};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

const PROTOCOL: &str = "demo/1";
const NAME: &str = "Friday night";
/// The whole story takes a fraction of a second; if it hangs, it is said so.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks of the browser.
const LOOK: Duration = Duration::from_millis(5);

/// See the whole thing work, in this process, in under two seconds
///
/// Starts a server on free loopback ports, lists a game, finds it by browsing, joins it, is introduced, punches through
/// and exchanges a message, all over real sockets and through the same code as the other commands. Nothing is left behind.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous demo

Then, in three terminals:
  rendezvous serve --dev
  rendezvous host --protocol arena/3 --name \"Friday night\"
  rendezvous browse --protocol arena/3

Exit codes: 0 it worked, 1 a step failed, 2 wrong command line")]
pub(crate) struct Args {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// Why the story ended early.
#[derive(Debug)]
enum Failure {
    Start(StartError),
    Call(Error),
    Join(JoinFailure),
    HostStopped,
    Vanished,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the server did not start: {error}"),
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
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.failure("demo", None, &format!("no runtime: {error}"), "check the limits of threads and open files");
            return ExitCode::FAILURE;
        }
    };
    let narrator = Narrator::new(output);
    let told = runtime.block_on(async { tokio::time::timeout(PATIENCE, story(narrator)).await });
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

async fn story(narrator: Narrator) -> Result<(), Failure> {
    let server = start_server().await?;
    let url = format!("http://{}", server.http_addr());
    let udp = server.udp_addr().map_or_else(|| "none".to_owned(), |udp| udp.to_string());
    narrator.say("server", &format!("ready: http {}, udp {udp}", server.http_addr()));

    let (host, listing) = HostTask::start(&url, narrator).await?;
    let browser = Directory::new(&url, crate::config::DEV_TENANT)?;
    see(&browser, Some(listing), narrator).await?;
    join(&url, listing, narrator).await?;
    host.stop().await?;
    see(&browser, None, narrator).await?;
    server.shutdown().await;
    narrator.say("server", "drained and stopped");
    Ok(())
}

async fn start_server() -> Result<Server, Failure> {
    let mut config = Config::dev();
    let any_port = ([127, 0, 0, 1], 0).into();
    config.server.http = any_port;
    config.server.udp = vec![any_port];
    config.server.udp_auth = Vec::new();
    config.server.metrics = None;
    Server::start(config).await.map_err(Failure::Start)
}

/// The host, as a task of its own.
struct HostTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl HostTask {
    /// Completes when players can join.
    async fn start(url: &str, narrator: Narrator) -> Result<(Self, ListingId), Failure> {
        let directory = Directory::new(url, crate::config::DEV_TENANT)?;
        let registration = Registration {
            protocol: PROTOCOL.into(),
            details: ListingDetails { name: NAME.into(), max_players: 8, ..ListingDetails::default() },
            ..Registration::default()
        };
        let host = Host::new(directory, Port::open().await?, HostOptions { registration })?;
        let (stop, stopped) = oneshot::channel();
        let (joinable, mut listed) = mpsc::channel(1);
        let task = tokio::spawn(run_host(host, joinable, stopped, narrator));
        let listing = listed.recv().await.ok_or(Failure::HostStopped)?;
        Ok((Self { stop, task }, listing))
    }

    async fn stop(self) -> Result<(), Failure> {
        // A host that has stopped by itself says why in its result.
        let _asked = self.stop.send(());
        self.task.await.map_err(|_| Failure::HostStopped)?.map_err(Failure::Call)
    }
}

async fn run_host(
    mut host: Host,
    joinable: mpsc::Sender<ListingId>,
    mut stopped: oneshot::Receiver<()>,
    narrator: Narrator,
) -> Result<(), Error> {
    let mut talk: Option<Talk> = None;
    loop {
        let news = tokio::select! {
            _ = &mut stopped => break,
            news = host.next() => news,
        };
        match news {
            HostNews::Listed { listing, .. } => narrator.say("host", &format!("listed as {listing}")),
            HostNews::Verified { mapped } => {
                narrator.say("host", &format!("the server sees it at {mapped}: it can be joined"));
                if let Some(listing) = host.listing() {
                    // Only the first family is waited for; the second finds the channel full or closed.
                    let _first_only = joinable.try_send(listing);
                }
            }
            HostNews::Player { news: PlayerNews::Offered, .. } => {
                narrator.say("host", "heard over UDP that a player waits")
            }
            HostNews::Player { news: PlayerNews::Connected { path, peer_key }, .. } => {
                narrator.say("host", &format!("reaches the player at {}", path.peer));
                talk = Some(Talk::new(Link::new(Role::Host, peer_key)));
            }
            HostNews::Datagram { from, bytes } => {
                let Some(talk) = &mut talk else { continue };
                let now = narrator.clock.mono();
                if let Some(Heard::Text(text)) = talk.handle_input(&bytes, now) {
                    narrator.say("host", &format!("hears {text:?} and echoes it"));
                    talk.say(&text, now);
                }
                while let Some(bytes) = talk.poll_transmit() {
                    host.send(from, &bytes).await;
                }
            }
            HostNews::Stopped(error) => return Err(error),
            HostNews::LoggedIn { .. }
            | HostNews::Unanswered { .. }
            | HostNews::Renewed { .. }
            | HostNews::Lost
            | HostNews::Draining { .. }
            | HostNews::Retrying { .. }
            | HostNews::Player { .. } => {}
        }
    }
    host.close().await?;
    narrator.say("host", "took the listing down");
    Ok(())
}

/// Looks until the game is there, or until it is gone.
async fn see(browser: &Directory, wanted: Option<ListingId>, narrator: Narrator) -> Result<(), Failure> {
    let query = BrowseQuery { protocol: PROTOCOL.into(), ..BrowseQuery::default() };
    let (mut etag, mut looks) = (None, 0);
    loop {
        looks += 1;
        if let Browsed::Page(page) = browser.browse(&query, etag.as_deref()).await? {
            etag = page.etag.clone();
            let found = page.listings.iter().find(|listing| Some(listing.listing_id) == wanted);
            match (wanted, found) {
                (Some(_), Some(listing)) => {
                    let details = &listing.details;
                    let text = format!("sees {:?}, {}/{} players", details.name, details.players, details.max_players);
                    narrator.say("browser", &text);
                    return Ok(());
                }
                (None, _) if page.listings.is_empty() => {
                    narrator.say("browser", &format!("sees no game any more, at look {looks}"));
                    return Ok(());
                }
                (Some(_), None) | (None, _) => {}
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn join(url: &str, listing: ListingId, narrator: Narrator) -> Result<(), Failure> {
    let directory = Directory::new(url, crate::config::DEV_TENANT)?;
    let token = directory.guest().await?.token;
    let mut join =
        Join::start(directory.with_token(token), Port::open().await?, listing, &JoinRequest::default()).await?;
    narrator.say("joiner", &format!("wants to join: attempt {}", join.attempt()));
    let path = join.connect().await.map_err(Failure::Join)?;
    narrator.say("joiner", &format!("reaches the host at {}, {}", path.peer, duration(path.round_trip_us)));
    let reply = exchange(&mut join, path.peer, narrator).await?;
    narrator.say("joiner", &format!("hears {reply:?}: packets go both ways, past the server"));
    join.report(PathKind::Direct).await?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A server on these addresses, whose presence lasts a second, so that a host notices a restart in a fraction of one.
    async fn restartable(http: SocketAddr, udp: SocketAddr) -> Server {
        let mut config = Config::dev();
        config.server.http = http;
        config.server.udp = vec![udp];
        config.server.udp_auth = Vec::new();
        config.server.metrics = None;
        config.presence.ttl_ms = 1_000;
        config.drain.window_ms = 0;
        Server::start(config).await.expect("the addresses are free")
    }

    fn hosted(url: &str, port: Port) -> Host {
        let directory = Directory::new(url, crate::config::DEV_TENANT).unwrap();
        let details = ListingDetails { name: NAME.into(), max_players: 8, ..ListingDetails::default() };
        let registration = Registration { protocol: PROTOCOL.into(), details, ..Registration::default() };
        Host::new(directory, port, HostOptions { registration }).unwrap()
    }

    /// The listing, once players can join it.
    async fn joinable(host: &mut Host) -> ListingId {
        loop {
            match host.next().await {
                HostNews::Verified { .. } => return host.listing().expect("verified, so listed"),
                HostNews::Stopped(error) => panic!("{error}"),
                HostNews::LoggedIn { .. }
                | HostNews::Listed { .. }
                | HostNews::Unanswered { .. }
                | HostNews::Renewed { .. }
                | HostNews::Lost
                | HostNews::Draining { .. }
                | HostNews::Retrying { .. }
                | HostNews::Player { .. }
                | HostNews::Datagram { .. } => {}
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_demo_succeeds_within_two_seconds() {
        let narrator = Narrator::new(Output::new(true));
        story(narrator).await.unwrap();
        assert!(narrator.elapsed_ms() < 2_000, "{} ms", narrator.elapsed_ms());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn case_l10_after_a_restart_the_host_lists_again_by_itself_and_can_be_joined() {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = restartable(any, any).await;
        let (http, udp) = (server.http_addr(), server.udp_addr().unwrap());
        let url = format!("http://{http}");
        let mut host = hosted(&url, Port::open().await.unwrap());
        let first = joinable(&mut host).await;

        // The host goes on working while the server goes and comes.
        let (server, second) = tokio::join!(
            async {
                server.shutdown().await;
                restartable(http, udp).await
            },
            joinable_again(&mut host, first),
        );
        assert_ne!(first, second);
        let directory = Directory::new(&url, crate::config::DEV_TENANT).unwrap();
        let directory = directory.clone().with_token(directory.guest().await.unwrap().token);
        let request = JoinRequest { payload: Some("a word".into()), ..JoinRequest::default() };
        let mut join = Join::start(directory, Port::open().await.unwrap(), second, &request).await.unwrap();
        let path = tokio::select! {
            path = join.connect() => path.unwrap(),
            () = keep_going(&mut host) => unreachable!("a host goes on for ever"),
        };
        assert!(path.peer.ip().is_loopback());
        host.close().await.unwrap();
        server.shutdown().await;
    }

    async fn joinable_again(host: &mut Host, first: ListingId) -> ListingId {
        loop {
            let listing = joinable(host).await;
            if listing != first {
                return listing;
            }
        }
    }

    async fn keep_going(host: &mut Host) {
        loop {
            if let HostNews::Stopped(error) = host.next().await {
                panic!("{error}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_join_says_at_which_step_it_failed_and_what_to_try() {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = restartable(any, any).await;
        let url = format!("http://{}", server.http_addr());
        let mut host = hosted(&url, Port::open().await.unwrap());
        let listing = joinable(&mut host).await;
        let directory = Directory::new(&url, crate::config::DEV_TENANT).unwrap();
        let directory = directory.clone().with_token(directory.guest().await.unwrap().token);
        let request = JoinRequest::default();
        let mut join = Join::start(directory.clone(), Port::open().await.unwrap(), listing, &request).await.unwrap();
        let failure = tokio::select! {
            path = join.connect() => path.expect_err("the listing is gone"),
            closed = host.close() => {
                closed.unwrap();
                join.connect().await.expect_err("the listing is gone")
            }
        };
        assert_eq!(failure.step(), crate::client::Step::Introduction, "{failure}");
        assert!(!failure.advice().is_empty());
        let error = Join::start(directory, Port::open().await.unwrap(), listing, &request).await.unwrap_err();
        assert_eq!(error.code(), Some(&crate::client::Code::NotFound));
        server.shutdown().await;
    }
}
