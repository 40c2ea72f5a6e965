//! The story of the directory: a host, a browser and a joiner.

use super::{Failure, NAME, Narrator, PROTOCOL, exchange, see_none, see_one, start_server};
use crate::cli::output::duration;
use crate::client::http::{Directory, JoinRequest, ListingDetails, PathKind, Registration};
use crate::client::link::{Heard, Link, Talk};
use crate::client::{Error, Host, HostNews, HostOptions, Join, PlayerNews, Port};
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::{ListingId, Role};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Tells it.
pub(super) async fn story(narrator: Narrator) -> Result<(), Failure> {
    let server = start_server(Config::dev()).await?;
    let url = format!("http://{}", server.http_addr());
    let udp = server.udp_addr().map_or_else(|| "none".to_owned(), |udp| udp.to_string());
    narrator.say("server", &format!("ready: http {}, udp {udp}", server.http_addr()));

    let (host, listing) = HostTask::start(&url, narrator).await?;
    let browser = Directory::new(&url, crate::config::DEV_TENANT)?;
    let seen = see_one(&browser, narrator).await?;
    if seen.listing_id != listing {
        return Err(Failure::Unexpected(format!("expected {listing}, {} is listed", seen.listing_id)));
    }
    join(&url, listing, narrator).await?;
    host.stop().await?;
    see_none(&browser, narrator).await?;
    server.shutdown().await;
    narrator.say("server", "drained and stopped");
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;
    use crate::server::Server;
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
