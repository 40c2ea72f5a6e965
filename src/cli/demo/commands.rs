//! The story of the command plane: a back end, a host, a player.

use super::{Failure, NAME, Narrator, PROTOCOL, exchange, see_none, see_one, start_server};
use crate::cli::output::duration;
use crate::cli::worker::{GameOptions, Sample};
use crate::client::http::{
    Carried, CommandHost, CommandKind, CommandRequest, CommandState, CommandView, Directory, JoinRequest,
    SessionCreate, SessionId,
};
use crate::client::{Error, Join, Port, WorkerOptions, idempotency_key};
use crate::config::{Config, DEV_HOST_KEY, DEV_PROFILE, DEV_TENANT, Profile};
use crate::credentials::Secret;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A profile for which there is no host.
pub(super) const UNSERVED: &str = "unserved";
/// How long a command to nobody may wait.
const UNSERVED_FOR_MS: u64 = 200;
/// Between two steps of the upkeep, so that what expires is seen to.
pub(super) const SWEEP_MS: u64 = 50;
/// One long poll.
const POLL: Duration = Duration::from_secs(20);

/// Tells it, in one process.
pub(super) async fn story(narrator: Narrator) -> Result<(), Failure> {
    let mut config = Config::dev();
    let unserved = Profile { name: UNSERVED.into(), target_key: UNSERVED.into(), workload: "nothing".into() };
    config.admission.profiles.push(unserved);
    config.admission.settings.control_shards = 1;
    config.admission.sweep_interval = Duration::from_millis(SWEEP_MS);
    let server = start_server(config).await?;
    let url = format!("http://{}", server.http_addr());
    narrator.say("server", &format!("ready: {url}, commands in memory"));
    let directory = Directory::new(&url, DEV_TENANT)?;
    let token = directory.guest().await?.token;
    let stage = Stage {
        browser: directory.clone(),
        back_end: BackEnd { servers: vec![directory.with_token(token)] },
        host: HostTask::start(std::slice::from_ref(&url), Secret::new(DEV_HOST_KEY), Duration::ZERO, narrator)?,
        narrator,
    };
    let game = stage.create().await?;
    stage.steer(game).await?;
    stage.expire().await?;
    stage.gate(game).await?;
    stage.close(game).await?;
    stage.host.stop().await?;
    server.shutdown().await;
    narrator.say("server", "drained and stopped");
    Ok(())
}

/// Whoever asks for games. Over several servers it asks the next when one is in trouble, with the same key.
pub(super) struct BackEnd {
    pub(super) servers: Vec<Directory>,
}

impl BackEnd {
    async fn ask<T>(&self, ask: impl AsyncFn(&Directory) -> Result<T, Error>) -> Result<T, Error> {
        let mut answer = ask(&self.servers[0]).await;
        for server in &self.servers[1..] {
            match answer {
                Err(Error::Unreachable { .. } | Error::Timeout { .. }) => answer = ask(server).await,
                Ok(_) | Err(_) => break,
            }
        }
        answer
    }

    pub(super) async fn send(&self, session: SessionId, command: CommandRequest) -> Result<CommandView, Error> {
        let key = idempotency_key()?;
        self.ask(async |server| server.send_command(session, &command, &key).await).await
    }

    /// Polls until the command is as wanted, or over.
    async fn until(&self, command: &CommandView, wanted: &CommandState) -> Result<CommandView, Error> {
        // The poll waits for the end; a state on the way is looked for.
        let wait = if wanted.is_over() { POLL } else { Duration::ZERO };
        loop {
            let (session, number) = (command.session_id, command.command);
            let view = self.ask(async |server| server.command(session, number, wait).await).await?;
            if view.state == *wanted || view.state.is_over() {
                return Ok(view);
            }
            tokio::time::sleep(super::LOOK).await;
        }
    }
}

/// The sample host, as a task of its own.
pub(super) struct HostTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl HostTask {
    /// A host at servers over one store; it takes `works_for` for each command.
    pub(super) fn start(
        urls: &[String],
        key: Secret,
        works_for: Duration,
        narrator: Narrator,
    ) -> Result<Self, Failure> {
        let servers = urls.iter().map(|url| CommandHost::new(url, "worker-1", key.clone()));
        let options = WorkerOptions { target_key: DEV_PROFILE.into(), capacity: 4, ttl: None };
        let games = GameOptions { protocol: PROTOCOL.into(), gate: true };
        let mut sample = Sample::new(servers.collect::<Result<_, _>>()?, options, games, works_for)?;
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            loop {
                let told = tokio::select! {
                    _ = &mut stopped => break,
                    told = sample.next() => told?,
                };
                narrator.say("host", &format!("{}: {}", told.name, told.text));
            }
            sample.close().await
        });
        Ok(Self { stop, task })
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        // A host that has stopped by itself says why in its result.
        let _asked = self.stop.send(());
        self.task.await.map_err(|_| Failure::HostStopped)?.map_err(Failure::Call)
    }
}

/// Who takes part.
pub(super) struct Stage {
    pub(super) back_end: BackEnd,
    /// The directory in which the host lists its games, as anybody sees it.
    pub(super) browser: Directory,
    pub(super) host: HostTask,
    pub(super) narrator: Narrator,
}

impl Stage {
    /// A session is asked for, placed, and listed by its host.
    pub(super) async fn create(&self) -> Result<SessionId, Failure> {
        let payload = Carried::Text(NAME.into());
        let create = SessionCreate { profile: DEV_PROFILE.into(), payload, apply_within_ms: None };
        let key = idempotency_key()?;
        let begun = self.narrator.elapsed_ms();
        let created = self.back_end.ask(async |server| server.create_session(&create, &key).await).await?;
        let took = self.narrator.elapsed_ms() - begun;
        let id = created.session_id;
        self.say(&format!("asked for a session: {id}, admitted after {took} ms"));
        self.applied(&created.command).await?;
        let view = self.back_end.ask(async |server| server.session(id).await).await?;
        let owner = view.owner.ok_or_else(|| Failure::Unexpected("nobody runs the session".into()))?;
        self.say(&format!("sees that {} runs it, epoch {}", owner.host, owner.epoch));
        see_one(&self.browser, self.narrator).await?;
        Ok(id)
    }

    /// Two commands, one after the other.
    pub(super) async fn steer(&self, session: SessionId) -> Result<(), Failure> {
        for (kind, text) in [(CommandKind::Input, "map dust"), (CommandKind::Interrupt, "pause")] {
            let command = CommandRequest::new(kind, Carried::Text(text.into()));
            let command = self.back_end.send(session, command).await?;
            self.say(&format!("sent {} {}: {}, {text:?}", command.kind, command.command, command.state));
            self.applied(&command).await?;
        }
        Ok(())
    }

    /// What no host applies in time.
    pub(super) async fn expire(&self) -> Result<(), Failure> {
        let apply_within_ms = Some(UNSERVED_FOR_MS);
        let create = SessionCreate { profile: UNSERVED.into(), payload: Carried::Nothing, apply_within_ms };
        let key = idempotency_key()?;
        let created = self.back_end.ask(async |server| server.create_session(&create, &key).await).await?;
        self.say(&format!("asked for a session that no host can run, within {UNSERVED_FOR_MS} ms"));
        let ended = self.back_end.until(&created.command, &CommandState::Expired).await?;
        self.expect(&ended, &CommandState::Expired)
    }

    /// A player waits until the back end has answered.
    pub(super) async fn gate(&self, session: SessionId) -> Result<(), Failure> {
        let listing = see_one(&self.browser, self.narrator).await?;
        let token = self.browser.guest().await?.token;
        let guest = self.browser.clone().with_token(token);
        let request = JoinRequest { payload: Some("let me in".into()), ..JoinRequest::default() };
        let mut join = Join::start(guest, Port::open().await?, listing.listing_id, &request).await?;
        self.narrator.say("joiner", &format!("wants to join: attempt {}, and waits at the gate", join.attempt()));
        let answer = async {
            let gate = self.back_end.ask(async |server| server.gate(session, 0, POLL).await).await?;
            let item = gate.attempts.first();
            let item = item.ok_or_else(|| Failure::Unexpected("nobody waits at the gate".into()))?;
            let says = item.joiner_payload.as_deref().unwrap_or_default();
            self.say(&format!("finds attempt {} at the gate, which says {says:?}", item.attempt_id));
            let command = self.back_end.send(session, CommandRequest::gate_response(item.attempt_id, true)).await?;
            self.applied(&command).await
        };
        // The player's own part goes on meanwhile.
        let (answered, path) = tokio::join!(answer, join.connect());
        answered?;
        let path = path.map_err(Failure::Join)?;
        let reached = format!("reaches the host at {}, {}", path.peer, duration(path.round_trip_us));
        self.narrator.say("joiner", &reached);
        let reply = exchange(&mut join, path.peer, self.narrator).await?;
        self.narrator.say("joiner", &format!("hears {reply:?}"));
        Ok(())
    }

    /// The end of the session, and of its listing.
    pub(super) async fn close(&self, session: SessionId) -> Result<(), Failure> {
        let command = CommandRequest::new(CommandKind::Interrupt, Carried::Text("close".into()));
        let command = self.back_end.send(session, command).await?;
        self.applied(&command).await?;
        see_none(&self.browser, self.narrator).await
    }

    /// Sends an input, and gives it once a host is at work on it.
    pub(super) async fn under_way(&self, session: SessionId) -> Result<CommandView, Failure> {
        let command = CommandRequest::new(CommandKind::Input, Carried::Text("map mirage".into()));
        let command = self.back_end.send(session, command).await?;
        let view = self.back_end.until(&command, &CommandState::Applying).await?;
        self.expect(&view, &CommandState::Applying)?;
        Ok(view)
    }

    /// Waits for the command's end, which has to be a good one.
    pub(super) async fn applied(&self, command: &CommandView) -> Result<(), Failure> {
        let view = self.back_end.until(command, &CommandState::Applied).await?;
        self.expect(&view, &CommandState::Applied)
    }

    fn expect(&self, view: &CommandView, wanted: &CommandState) -> Result<(), Failure> {
        let text = crate::cli::session::told(view);
        self.say(&format!("sees {text}"));
        if view.state == *wanted { Ok(()) } else { Err(Failure::Unexpected(format!("expected {wanted}: {text}"))) }
    }

    pub(super) fn say(&self, text: &str) {
        self.narrator.say("back end", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_command_plane_shows_itself_in_one_process() {
        story(Narrator::new(Output::new(true))).await.unwrap();
    }
}
