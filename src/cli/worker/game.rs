//! The game that a session is: a listing, and a chat with whoever joins. One task for each.

use crate::cli::peers::{Peers, TICK};
use crate::client::http::{Directory, ListingDetails, Registration, SessionId};
use crate::client::{Error, Host, HostNews, HostOptions, PlayerNews, Port};
use crate::clock::{Clock, SystemClock};
use crate::domain::{AttemptId, ListingId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// What all games of a worker have in common.
#[derive(Clone, Debug)]
pub(crate) struct GameOptions {
    /// The game and its version.
    pub(crate) protocol: String,
    /// Whether each player waits for the back end's answer.
    pub(crate) gate: bool,
}

/// What a game tells.
#[derive(Debug)]
pub(crate) enum GameNews {
    Joinable { listing: ListingId },
    Knocks { attempt: AttemptId },
    Met { attempt: AttemptId, peer: std::net::SocketAddr },
    Says { attempt: AttemptId, text: String },
    Stopped { error: Error },
}

/// A running game. Dropping it leaves its listing to its lease.
#[derive(Debug)]
pub(crate) struct Game {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Game {
    /// Lists the session as `name` in `directory`, whose token is the host's credential.
    pub(crate) async fn start(
        directory: Directory,
        session: SessionId,
        name: String,
        options: &GameOptions,
        news: mpsc::Sender<(SessionId, GameNews)>,
    ) -> Result<Self, Error> {
        let registration = Registration {
            protocol: options.protocol.clone(),
            details: ListingDetails { name, max_players: 8, ..ListingDetails::default() },
            gate: options.gate,
            session_id: Some(session),
            ..Registration::default()
        };
        let host = Host::new(directory, Port::open().await?, HostOptions { registration })?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(host, session, news, stopped));
        Ok(Self { stop, task })
    }

    /// Takes the listing down.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        // A game that has stopped by itself says why in its result.
        let _asked = self.stop.send(());
        // A task that was cancelled belongs to a runtime that ends.
        self.task.await.unwrap_or(Ok(()))
    }
}

async fn run(
    mut host: Host,
    session: SessionId,
    news: mpsc::Sender<(SessionId, GameNews)>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let (clock, mut peers) = (SystemClock::new(), Peers::default());
    let mut tick = tokio::time::interval(TICK);
    loop {
        let told = tokio::select! {
            _ = &mut stopped => break,
            _ = tick.tick() => {
                peers.tick(clock.mono());
                None
            }
            happened = host.next() => tell(&host, happened, &mut peers, &clock),
        };
        peers.send(&host).await;
        let is_over = matches!(told, Some(GameNews::Stopped { .. }));
        if let Some(told) = told {
            // Whoever listened is about to end, and ends this task as well.
            let _gone = news.send((session, told)).await;
        }
        if is_over {
            return Ok(());
        }
    }
    host.close().await
}

fn tell(host: &Host, news: HostNews, peers: &mut Peers, clock: &SystemClock) -> Option<GameNews> {
    match news {
        HostNews::Verified { .. } => host.listing().map(|listing| GameNews::Joinable { listing }),
        HostNews::Player { attempt, news: PlayerNews::Offered } => Some(GameNews::Knocks { attempt }),
        HostNews::Player { attempt, news: PlayerNews::Connected { path, peer_key } } => {
            peers.add(attempt, path, peer_key);
            Some(GameNews::Met { attempt, peer: path.peer })
        }
        HostNews::Datagram { from, bytes } => {
            let heard = peers.hear(from, &bytes, clock.mono(), |text| Some(format!("echo: {text}")));
            heard.map(|(attempt, text)| GameNews::Says { attempt, text })
        }
        HostNews::Stopped(error) => Some(GameNews::Stopped { error }),
        HostNews::LoggedIn { .. }
        | HostNews::Listed { .. }
        | HostNews::Unanswered { .. }
        | HostNews::Renewed { .. }
        | HostNews::Lost
        | HostNews::Draining { .. }
        | HostNews::Retrying { .. }
        | HostNews::Player { .. } => None,
    }
}
