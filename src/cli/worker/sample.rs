//! A sample host: what a game's own host does, with a chat for a game.

use super::game::{Game, GameNews, GameOptions};
use crate::client::http::{CommandHost, CommandKind, Completion, Held, SessionId};
use crate::client::{Assignment, Error, Worker, WorkerNews, WorkerOptions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a new game may take until players can join it.
const JOINABLE_WITHIN: Duration = Duration::from_secs(5);
/// News of games that nobody has read yet; a game with more waits.
const NEWS_MAX: usize = 64;
/// What an `interrupt` carries that ends the session.
const CLOSE: &str = "close";

/// Something to tell: for scripts, and for people.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) fields: Value,
    pub(crate) text: String,
}

/// A worker and the games that it runs.
pub(crate) struct Sample {
    worker: Worker,
    options: GameOptions,
    /// How long applying a command takes.
    works_for: Duration,
    /// One for each session of which the create was applied here: at most the worker's capacity.
    games: BTreeMap<SessionId, (Game, String)>,
    tell: mpsc::Sender<(SessionId, GameNews)>,
    told: mpsc::Receiver<(SessionId, GameNews)>,
    /// Begun and told, and not applied.
    begun: Option<Assignment>,
    /// At most a handful from one step; drained before the next.
    out: VecDeque<Told>,
}

impl Sample {
    pub(crate) fn new(
        servers: Vec<CommandHost>,
        worker: WorkerOptions,
        options: GameOptions,
        works_for: Duration,
    ) -> Result<Self, Error> {
        let (tell, told) = mpsc::channel(NEWS_MAX);
        let worker = Worker::new(servers, worker)?;
        let (games, begun, out) = (BTreeMap::new(), None, VecDeque::new());
        Ok(Self { worker, options, works_for, games, tell, told, begun, out })
    }

    /// The next thing to tell. One that is cancelled leaves the command that it was applying to the next lease.
    pub(crate) async fn next(&mut self) -> Result<Told, Error> {
        loop {
            if let Some(told) = self.out.pop_front() {
                return Ok(told);
            }
            if let Some(assignment) = self.begun.take() {
                self.apply(assignment).await;
                continue;
            }
            tokio::select! {
                news = self.worker.next() => self.hear(news?).await,
                Some((session, news)) = self.told.recv() => self.hear_game(session, news),
            }
        }
    }

    /// Takes all listings down and lets all sessions go.
    pub(crate) async fn close(mut self) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.games.keys().copied().collect();
        for session in sessions {
            self.stop(session).await;
        }
        self.worker.close().await
    }

    async fn hear(&mut self, news: WorkerNews) {
        match news {
            WorkerNews::Registered { server } => {
                self.tell("registered", json!({ "server": server }), format!("at {server}"));
            }
            WorkerNews::Acquired { held, session } => {
                let fields = json!({
                    "session_id": held.session, "epoch": held.epoch, "tenant": held.tenant, "workload": session.workload,
                });
                let text = format!("session {}, placed here: its lease, epoch {}", held.session, held.epoch);
                self.tell("acquired", fields, text);
            }
            WorkerNews::Claimed { command } => self.tell_command("claimed", &command, ""),
            WorkerNews::Apply(assignment) => {
                let text = String::from_utf8_lossy(&assignment.content).into_owned();
                self.tell_command("applying", &assignment.command, &text);
                self.begun = Some(*assignment);
            }
            WorkerNews::Settled { command } => {
                self.tell_command("settled", &command, "what an earlier lease left");
            }
            WorkerNews::Passed { command, error } => {
                self.tell_command("passed", &command, &error.to_string());
            }
            WorkerNews::Lost { held } => self.gone("lost", &held).await,
            WorkerNews::Released { held } => self.gone("released", &held).await,
            WorkerNews::Moved { server } => {
                self.tell("moved", json!({ "server": server }), format!("to {server}"));
                self.list_again().await;
            }
            WorkerNews::Retrying { error } => {
                self.tell("retrying", json!({ "message": error.to_string() }), error.to_string());
            }
        }
    }

    async fn apply(&mut self, assignment: Assignment) {
        let Assignment { held, command, content } = &assignment;
        let text = String::from_utf8_lossy(content).into_owned();
        tokio::time::sleep(self.works_for).await;
        let closes = command.kind == CommandKind::Interrupt && text == CLOSE;
        let completion = match &command.kind {
            CommandKind::Create => self.open(held, text).await,
            // What they mean is the game's business; a gate's answer is carried out by the server.
            CommandKind::Input | CommandKind::Interrupt | CommandKind::Restore | CommandKind::GateResponse => {
                Completion::Applied
            }
            CommandKind::Unrecognised(_) => Completion::Rejected("unknown_kind".into()),
        };
        match self.worker.complete(&assignment, &completion).await {
            Ok(command) => self.tell_command("completed", &command, ""),
            Err(error) => self.tell_command("passed", &assignment.command, &error.to_string()),
        }
        if closes {
            self.stop(assignment.held.session).await;
            match self.worker.release(assignment.held.session, true).await {
                Ok(()) => {
                    let id = assignment.held.session;
                    self.tell("closed", json!({ "session_id": id }), format!("session {id}"));
                }
                Err(error) => self.tell("retrying", json!({ "message": error.to_string() }), error.to_string()),
            }
        }
    }

    /// Starts the session's game; done once players can join it.
    async fn open(&mut self, held: &Held, name: String) -> Completion {
        let name = if name.is_empty() { format!("session {:.8}", held.session.to_string()) } else { name };
        self.stop(held.session).await;
        if let Err(error) = self.start(held, name).await {
            self.tell("retrying", json!({ "message": error.to_string() }), error.to_string());
            return Completion::Rejected("not_listed".into());
        }
        let joinable = async {
            while let Some((session, news)) = self.told.recv().await {
                let is_over = session == held.session && matches!(news, GameNews::Stopped { .. });
                let is_joinable = session == held.session && matches!(news, GameNews::Joinable { .. });
                self.hear_game(session, news);
                if is_over || is_joinable {
                    return is_joinable;
                }
            }
            false
        };
        match tokio::time::timeout(JOINABLE_WITHIN, joinable).await {
            Ok(true) => Completion::Applied,
            Ok(false) | Err(_) => {
                self.stop(held.session).await;
                Completion::Rejected("not_listed".into())
            }
        }
    }

    async fn start(&mut self, held: &Held, name: String) -> Result<(), Error> {
        let directory = self.worker.directory(&held.tenant);
        let game = Game::start(directory, held.session, name.clone(), &self.options, self.tell.clone()).await?;
        self.games.insert(held.session, (game, name));
        Ok(())
    }

    /// Takes a session's listing down, if it has one.
    async fn stop(&mut self, session: SessionId) {
        let Some((game, _)) = self.games.remove(&session) else { return };
        if let Err(error) = game.stop().await {
            tracing::info!(%session, %error, "the listing ends with its lease");
        }
    }

    async fn gone(&mut self, name: &'static str, held: &Held) {
        let fields = json!({ "session_id": held.session, "epoch": held.epoch });
        self.tell(name, fields, format!("session {}, epoch {}", held.session, held.epoch));
        self.stop(held.session).await;
    }

    /// The directory of a server is that server's own: what was listed at another one is listed here.
    async fn list_again(&mut self) {
        let held: Vec<Held> = self.worker.sessions().cloned().collect();
        for held in held {
            let Some((game, name)) = self.games.remove(&held.session) else { continue };
            drop(game);
            if let Err(error) = self.start(&held, name).await {
                self.tell("retrying", json!({ "message": error.to_string() }), error.to_string());
            }
        }
    }

    fn hear_game(&mut self, session: SessionId, news: GameNews) {
        let (name, fields, text) = match news {
            GameNews::Joinable { listing } => {
                ("listed", json!({ "listing_id": listing.to_string() }), format!("as {listing}, and can be joined"))
            }
            GameNews::Knocks { attempt } => {
                ("knock", json!({ "attempt_id": attempt.to_string() }), format!("a player wants to join: {attempt}"))
            }
            GameNews::Met { attempt, peer } => (
                "connected",
                json!({ "attempt_id": attempt.to_string(), "peer": peer.to_string() }),
                format!("reaches the player at {peer}"),
            ),
            GameNews::Says { attempt, text } => {
                ("message", json!({ "attempt_id": attempt.to_string(), "text": text }), text)
            }
            GameNews::Stopped { error } => {
                self.games.remove(&session);
                ("unlisted", json!({ "message": error.to_string() }), error.to_string())
            }
        };
        let mut fields = fields;
        fields["session_id"] = json!(session);
        self.tell(name, fields, text);
    }

    fn tell_command(&mut self, name: &'static str, command: &crate::client::http::CommandView, text: &str) {
        let code = command.outcome.as_ref().map(|outcome| outcome.code.clone());
        let fields = json!({
            "session_id": command.session_id,
            "command": command.command,
            "kind": command.kind,
            "state": command.state,
            "code": &code,
            "text": text,
        });
        let colon = if text.is_empty() { "" } else { ": " };
        // What the event's name says is not said again.
        let state = command.state.as_str();
        let mut said = vec![state, code.as_deref().unwrap_or(state)];
        said.dedup();
        let said: String = said.iter().filter(|word| **word != name).map(|word| format!(", {word}")).collect();
        let line = format!("{} {}{said}{colon}{text}", command.kind, command.command);
        self.tell(name, fields, line);
    }

    fn tell(&mut self, name: &'static str, fields: Value, text: String) {
        self.out.push_back(Told { name, fields, text });
    }
}
