//! What a worker does, call by call.

use super::news::inline;
use super::{Assignment, PAUSE_MIN_MS, POLL_WAIT, Residency, Worker, WorkerNews, ask, is_trouble, third};
use crate::client::error::{Code, Error};
use crate::client::http::{CommandView, Held, HostTask, HostWork, SessionId, SessionView};
use crate::clock::Clock;
use crate::domain::MonoTime;
use bytes::Bytes;
use std::time::Duration;

/// Least time between two polls of which the first brought nothing that could be done: it may come from a server that is
/// about to end, or name what another host is quicker to take.
const POLL_EARLY: Duration = Duration::from_millis(100);

/// One thing to do about a session.
#[derive(Clone, Debug)]
pub(super) struct Step {
    tenant: String,
    session: SessionView,
    todo: Todo,
}

#[derive(Clone, Debug)]
enum Todo {
    /// A task of the work list.
    Task(HostTask),
    /// A command that was claimed; `is_doubtful` once an answer to its beginning was lost.
    Begin { held: Held, command: Box<CommandView>, is_doubtful: bool },
}

impl Worker {
    pub(super) async fn heartbeat(&mut self) -> Result<(), Error> {
        let (key, capacity) = (self.options.target_key.clone(), self.options.capacity);
        match ask!(self, host => host.register(&key, capacity)) {
            Ok(view) => {
                self.heartbeat_at = third(self.clock.mono(), view.heartbeat_ttl_ms);
                if !std::mem::replace(&mut self.registered, true) {
                    let server = self.server().authority().to_owned();
                    self.news.push_back(WorkerNews::Registered { server });
                }
                Ok(())
            }
            Err(error) if is_trouble(&error) => {
                self.pause(error).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn renewal_due(&self, now: MonoTime) -> Option<SessionId> {
        let due = self.residencies.iter().filter(|(_, residency)| residency.renew_at.is_past(now));
        due.min_by_key(|(_, residency)| residency.renew_at).map(|(session, _)| *session)
    }

    pub(super) async fn renew(&mut self, session: SessionId) {
        let Some(Residency { held, ends_at, .. }) = self.residencies.get(&session).cloned() else { return };
        let (asked_at, ttl) = (self.clock.mono(), self.options.ttl);
        match ask!(self, host => host.renew(&held, ttl)) {
            Ok(lease) => {
                self.reside(held, lease.ttl_ms, asked_at);
            }
            Err(error) if is_trouble(&error) && !ends_at.is_past(self.clock.mono()) => self.pause(error).await,
            Err(error) => {
                tracing::info!(%session, %error, "the lease is over");
                self.residencies.remove(&session);
                self.news.push_back(WorkerNews::Lost { held });
            }
        }
    }

    fn reside(&mut self, held: Held, ttl_ms: u64, asked_at: MonoTime) {
        let (renew_at, ends_at) = (third(asked_at, ttl_ms), asked_at.plus_ms(ttl_ms));
        self.residencies.insert(held.session, Residency { held, renew_at, ends_at });
    }

    /// One poll for work, no longer than until the next renewal.
    pub(super) async fn poll(&mut self) {
        if std::mem::take(&mut self.fruitless) {
            tokio::time::sleep(POLL_EARLY).await;
        }
        let begun = self.clock.mono();
        let due = self.residencies.values().map(|residency| residency.renew_at).chain([self.heartbeat_at]).min();
        let left = due.map_or(POLL_WAIT, |due| Duration::from_nanos(due.0.saturating_sub(begun.0)));
        let wait = left.min(POLL_WAIT);
        match ask!(self, host => host.work(wait)) {
            Ok(work) if work.is_empty() => {
                let took = Duration::from_nanos(self.clock.mono().0.saturating_sub(begun.0));
                if took < wait.min(POLL_EARLY) {
                    tokio::time::sleep(wait.min(POLL_EARLY) - took).await;
                }
            }
            Ok(work) => {
                self.fruitless = true;
                self.steps.extend(work.into_iter().flat_map(steps));
            }
            Err(error) if is_trouble(&error) => self.pause(error).await,
            // The server forgot the host: it says who it is at once.
            Err(error) => {
                tracing::info!(%error, "no work: registering again");
                self.heartbeat_at = MonoTime(0);
                self.pause(error).await;
            }
        }
    }

    /// Does one step. It leaves the queue when it is done, so that a cancelled one is done again.
    pub(super) async fn take(&mut self, step: Step) {
        let Step { tenant, session, todo } = step;
        let next = match todo {
            Todo::Task(HostTask::Deliver { command }) => self.claim(&tenant, &session, *command).await,
            Todo::Begin { held, command, is_doubtful } => self.begin(held, *command, is_doubtful).await,
            Todo::Task(task) => {
                self.do_task(&tenant, &session, task).await;
                None
            }
        };
        self.steps.pop_front();
        if let Some(todo) = next {
            self.steps.push_front(Step { tenant, session, todo });
        }
    }

    async fn do_task(&mut self, tenant: &str, session: &SessionView, task: HostTask) {
        match task {
            HostTask::Acquire => self.acquire(tenant, session).await,
            HostTask::Settle { command } => self.settle(tenant, session, *command).await,
            HostTask::Release => {
                if let Some(Residency { held, .. }) = self.residencies.get(&session.session_id).cloned() {
                    if let Err(error) = self.release(held.session, false).await {
                        tracing::info!(session = %held.session, %error, "the lease lapses by itself");
                    }
                    self.done(WorkerNews::Released { held });
                }
            }
            HostTask::Deliver { .. } | HostTask::Unrecognised => {
                tracing::info!(session = %session.session_id, "a task of a newer server");
            }
        }
    }

    fn done(&mut self, news: WorkerNews) {
        self.fruitless = false;
        self.news.push_back(news);
    }

    async fn acquire(&mut self, tenant: &str, session: &SessionView) {
        let (id, asked_at, ttl) = (session.session_id, self.clock.mono(), self.options.ttl);
        match ask!(self, host => host.acquire(tenant, id, ttl)) {
            Ok(lease) => {
                let held = Held { tenant: tenant.to_owned(), session: id, epoch: lease.epoch };
                self.reside(held.clone(), lease.ttl_ms, asked_at);
                self.done(WorkerNews::Acquired { held, session: Box::new(session.clone()) });
            }
            Err(error) if is_trouble(&error) => self.pause(error).await,
            Err(error) => tracing::info!(session = %id, %error, "another host has the session, or it is over"),
        }
    }

    /// The lease under which this process runs the session. A process that was started again under the same name has none
    /// yet, whatever the server thinks: it fences the one before it.
    async fn held(&mut self, tenant: &str, session: &SessionView) -> Option<Held> {
        if !self.residencies.contains_key(&session.session_id) {
            self.acquire(tenant, session).await;
        }
        self.residencies.get(&session.session_id).map(|residency| residency.held.clone())
    }

    async fn claim(&mut self, tenant: &str, session: &SessionView, command: CommandView) -> Option<Todo> {
        let held = self.held(tenant, session).await?;
        let (number, ttl) = (command.command, self.options.ttl);
        match ask!(self, host => host.claim(&held, number, ttl)) {
            // An older lease had finished it.
            Ok(command) if command.state.is_over() => {
                self.done(WorkerNews::Settled { command: Box::new(command) });
                None
            }
            Ok(command) => {
                self.done(WorkerNews::Claimed { command: Box::new(command.clone()) });
                Some(Todo::Begin { held, command: Box::new(command), is_doubtful: false })
            }
            Err(error) => {
                self.pass(&held, command, error).await;
                None
            }
        }
    }

    /// Begins, or says what is left to do: a beginning whose answer was lost may have happened, and nobody is told of what
    /// this lease has begun. So it is asked again for as long as the lease is held, and when that fails the lease is let go:
    /// the next one settles it from the journal.
    async fn begin(&mut self, held: Held, command: CommandView, is_doubtful: bool) -> Option<Todo> {
        match self.fetch_and_begin(&held, &command).await {
            Ok((command, content)) => {
                self.done(WorkerNews::Apply(Box::new(Assignment { held, command, content })));
                None
            }
            Err(error) if is_trouble(&error) && self.residencies.contains_key(&held.session) => {
                self.pause(error).await;
                Some(Todo::Begin { held, command: Box::new(command), is_doubtful: true })
            }
            Err(error) => {
                let session = held.session;
                self.pass(&held, command, error).await;
                if is_doubtful {
                    self.let_lapse(session);
                }
                None
            }
        }
    }

    /// What the command carries is there before it is begun: what can't be fetched had no effect.
    async fn fetch_and_begin(&mut self, held: &Held, command: &CommandView) -> Result<(CommandView, Bytes), Error> {
        let carried = command.carried().ok_or_else(|| Error::Malformed {
            request: "POST claim".into(),
            detail: "payload_base64 is no base64".into(),
        })?;
        let content = match inline(carried) {
            Ok(content) => content,
            Err(sha256) => ask!(self, host => host.payload(held, &sha256))?,
        };
        let number = command.command;
        let command = ask!(self, host => host.begin(held, number))?;
        Ok((command, content))
    }

    async fn settle(&mut self, tenant: &str, session: &SessionView, command: CommandView) {
        let Some(held) = self.held(tenant, session).await else { return };
        let number = command.command;
        match ask!(self, host => host.settle(&held, number)) {
            Ok(command) => self.done(WorkerNews::Settled { command: Box::new(command) }),
            Err(error) => self.pass(&held, command, error).await,
        }
    }

    /// Leaves a command that could not be begun or settled: the work list offers it again if there is something to do.
    async fn pass(&mut self, held: &Held, command: CommandView, error: Error) {
        if is_trouble(&error) {
            return self.pause(error).await;
        }
        self.lose_if_lost(held.session, &error);
        self.news.push_back(WorkerNews::Passed { command: Box::new(command), error });
    }

    /// A refusal may say that the session is another host's.
    pub(super) fn lose_if_lost(&mut self, session: SessionId, error: &Error) {
        if error.code() == Some(&Code::LeaseLost) {
            self.let_lapse(session);
        }
    }

    /// Renews the lease no more: what it had begun is the next one's to settle.
    pub(super) fn let_lapse(&mut self, session: SessionId) {
        if let Some(Residency { held, .. }) = self.residencies.remove(&session) {
            self.news.push_back(WorkerNews::Lost { held });
        }
    }
}

fn steps(work: HostWork) -> impl Iterator<Item = Step> {
    let HostWork { tenant, session, tasks } = work;
    let step = move |task| Step { tenant: tenant.clone(), session: session.clone(), todo: Todo::Task(task) };
    tasks.into_iter().map(step)
}
