//! A host of the command plane: registered, with the leases of its sessions, and commands that wait to be applied.

mod news;
mod steps;

pub use news::{Assignment, WorkerNews, WorkerOptions};

use super::system_entropy;
use crate::client::core::Entropy;
use crate::client::error::Error;
use crate::client::http::{CommandHost, CommandView, Completion, Directory, Held, SessionId};
use crate::clock::{Clock, SystemClock};
use crate::domain::MonoTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use steps::Step;

/// Longest poll for work; the server's bound is 30 s.
const POLL_WAIT: Duration = Duration::from_secs(20);
/// First pause when no server answers; it doubles with each try, up to the longest, and half of it is random.
const PAUSE_MIN_MS: u64 = 100;
/// Longest pause.
const PAUSE_MAX_MS: u64 = 5_000;
/// Tries of a completion, with pauses between them: half a minute. After that the lease is let go, and who holds the next one
/// finds out from the journal.
const COMPLETION_TRIES: u32 = 10;
/// Leases and heartbeats are renewed after this part of their time, so that two renewals may fail.
const RENEWED_IN: u64 = 3;

/// Asks the server; when it is in trouble, the others in turn, each once.
macro_rules! ask {
    ($worker:expr, $host:ident => $call:expr) => {{
        let mut asked = 1;
        loop {
            let $host = $worker.server().clone();
            match $call.await {
                Err(error) if $worker.goes_on(&error, &mut asked) => {}
                Err(error) => break Err(error),
                Ok(answer) => {
                    $worker.pause_ms = PAUSE_MIN_MS;
                    break Ok(answer);
                }
            }
        }
    }};
}
use ask;

/// The lease of a session that this process runs.
#[derive(Clone, Debug)]
struct Residency {
    held: Held,
    renew_at: MonoTime,
    /// By this process's clock, from before it was asked for: not later than the server's.
    ends_at: MonoTime,
}

/// A host of the command plane. Await [`Worker::next`] in a loop: it does the work. Nothing runs in the background, so
/// leases are renewed while it is awaited; apply commands quickly, or elsewhere.
#[derive(Debug)]
pub struct Worker {
    /// Servers over one store: any will do.
    servers: Vec<CommandHost>,
    at: usize,
    options: WorkerOptions,
    clock: SystemClock,
    entropy: Entropy,
    heartbeat_at: MonoTime,
    registered: bool,
    pause_ms: u64,
    /// At most as many as the capacity that was registered.
    residencies: BTreeMap<SessionId, Residency>,
    /// What one poll brought, which the server bounds; no poll while there is something.
    steps: VecDeque<Step>,
    /// The last poll brought something, and nothing of it could be done.
    fruitless: bool,
    /// At most a handful from one step; drained before the next.
    news: VecDeque<WorkerNews>,
}

impl Worker {
    /// A host at servers over one store; the first is used until it fails.
    ///
    /// # Errors
    /// [`Error::ServerUrl`] when there is no server, [`Error::Socket`] when the system has no randomness.
    pub fn new(servers: Vec<CommandHost>, options: WorkerOptions) -> Result<Self, Error> {
        if servers.is_empty() {
            return Err(Error::ServerUrl { given: String::new(), expected: "at least one server" });
        }
        let clock = SystemClock::new();
        Ok(Self {
            servers,
            at: 0,
            options,
            clock,
            entropy: system_entropy()?,
            heartbeat_at: clock.mono(),
            registered: false,
            pause_ms: PAUSE_MIN_MS,
            residencies: BTreeMap::new(),
            steps: VecDeque::new(),
            fruitless: false,
            news: VecDeque::new(),
        })
    }

    /// The next thing that happened. Cancel safe: what a cancelled call had begun is asked again, which is the same.
    ///
    /// # Errors
    /// What no other try can change: the server refused the host itself.
    pub async fn next(&mut self) -> Result<WorkerNews, Error> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(news);
            }
            let now = self.clock.mono();
            // Renewals first: they end with the lease, heartbeats may fail for ever.
            if let Some(session) = self.renewal_due(now) {
                self.renew(session).await;
            } else if self.heartbeat_at.is_past(now) {
                self.heartbeat().await?;
            } else if let Some(step) = self.steps.front().cloned() {
                self.take(step).await;
            } else {
                self.poll().await;
            }
        }
    }

    /// Reports how a command went. Tries again for half a minute; it is the same when an earlier try had arrived.
    ///
    /// # Errors
    /// The last try's; when the lease is lost, the next news say so.
    pub async fn complete(&mut self, assignment: &Assignment, completion: &Completion) -> Result<CommandView, Error> {
        let Assignment { held, command, .. } = assignment;
        let number = command.command;
        for _ in 1..COMPLETION_TRIES {
            let answer = ask!(self, host => host.complete(held, number, completion));
            match answer {
                Err(error) if is_trouble(&error) => self.pause(error).await,
                Ok(command) => return Ok(command),
                Err(error) => {
                    self.lose_if_lost(held.session, &error);
                    return Err(error);
                }
            }
        }
        let answer = ask!(self, host => host.complete(held, number, completion));
        if answer.is_err() {
            self.let_lapse(held.session);
        }
        answer
    }

    /// Lets a session go: `close` when it is over, else another host may take it.
    ///
    /// # Errors
    /// A lease that could not be released lapses.
    pub async fn release(&mut self, session: SessionId, close: bool) -> Result<(), Error> {
        let Some(Residency { held, .. }) = self.residencies.remove(&session) else { return Ok(()) };
        ask!(self, host => host.release(&held, close))
    }

    /// Takes no more sessions and lets all go, so that other hosts have them at once.
    ///
    /// # Errors
    /// The first that failed; the rest is tried all the same.
    pub async fn close(mut self) -> Result<(), Error> {
        let key = self.options.target_key.clone();
        let mut result = ask!(self, host => host.register(&key, 0)).map(|_| ());
        let sessions: Vec<SessionId> = self.residencies.keys().copied().collect();
        for session in sessions {
            result = result.and(self.release(session, false).await);
        }
        result
    }

    /// The directory of a tenant at the server that is used now, with this host's credential.
    pub fn directory(&self, tenant: &str) -> Directory {
        self.server().directory(tenant)
    }

    /// Sessions that it runs.
    pub fn sessions(&self) -> impl Iterator<Item = &Held> {
        self.residencies.values().map(|residency| &residency.held)
    }

    fn server(&self) -> &CommandHost {
        &self.servers[self.at]
    }

    /// Whether the next server is to be asked: this one is in trouble, and not all have been asked.
    fn goes_on(&mut self, error: &Error, asked: &mut usize) -> bool {
        if !is_trouble(error) || *asked == self.servers.len() {
            return false;
        }
        tracing::info!(server = self.server().authority(), %error, "asking another server");
        *asked += 1;
        self.at = (self.at + 1) % self.servers.len();
        self.news.push_back(WorkerNews::Moved { server: self.server().authority().to_owned() });
        true
    }

    /// Waits a little, says so, and waits longer the next time.
    async fn pause(&mut self, error: Error) {
        let asked_ms = error.problem().and_then(|problem| problem.retry_after).map(|wait| wait.as_millis());
        let ms = self.entropy.between(self.pause_ms / 2, self.pause_ms);
        let ms = ms.max(u64::try_from(asked_ms.unwrap_or(0)).unwrap_or(u64::MAX)).min(PAUSE_MAX_MS);
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MAX_MS);
        self.news.push_back(WorkerNews::Retrying { error });
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Whether another try, or another server, may have another answer.
fn is_trouble(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Timeout { .. } | Error::Malformed { .. } => true,
        Error::Refused(problem) => problem.status >= 500 || problem.status == 429,
        Error::ServerUrl { .. } | Error::NoUdp { .. } | Error::Socket(_) => false,
    }
}

/// A third of `ms` from `now` on.
fn third(now: MonoTime, ms: u64) -> MonoTime {
    now.plus_ms(ms / RENEWED_IN)
}
