//! `rendezvous load <mix>`: an open-loop generator over the real edges.
//!
//! Each request has an instant at which it is meant to begin ([`schedule`]). As many workers as connections do them
//! ([`drive`]), each a host, a browser and a joiner of its own ([`player`]). What was registered is deleted at the end,
//! whatever the end was.

mod drive;
mod http;
mod mix;
mod player;
mod prepare;
mod report;
mod schedule;
mod tally;
mod target;
mod udp;

pub(crate) use mix::{Kind, Mix};
pub(crate) use player::protocol;
pub(crate) use prepare::PrepareError;
pub(crate) use report::Report;
pub(crate) use target::Permission;

use crate::client::http::{CommandHost, Directory, Held, SessionId};
use crate::clock::{Clock, SharedClock, SystemClock};
use crate::credentials::Secret;
use crate::domain::MonoTime;
use crate::load::cpu;
use crate::load::table;
use drive::Course;
use player::Player;
use report::{CleanUp, Intent};
use schedule::Schedule;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use tokio::task::JoinSet;

/// From the last preparation to the first request.
const BREATH_MS: u64 = 50;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// For all deletions at the end: what is left then ends with its lease.
const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(30);

/// Whose sessions a load of commands has, and who closes them.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    /// A profile of the server.
    pub(crate) profile: String,
    /// Its target key.
    pub(crate) target_key: String,
    /// A host's credential for it.
    pub(crate) host_key: Secret,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) server: String,
    pub(crate) tenant: String,
    /// A principal's token; guests are made without one.
    pub(crate) token: Option<Secret>,
    pub(crate) permission: Permission,
    pub(crate) mix: Mix,
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    /// HTTP connections, and at the same time the bound of what is outstanding.
    pub(crate) connections: usize,
    pub(crate) listings: usize,
    /// For a mix of commands: then sessions are asked for instead of listings, as many.
    pub(crate) commands: Option<Commands>,
    pub(crate) timeout: Duration,
    /// A request that could not begin for so long is not sent any more.
    pub(crate) late_after: Duration,
    /// Whose CPU time is counted.
    pub(crate) server_pid: Option<u32>,
}

/// Prepares, puts load on, cleans up. Ends early, and cleans up, when `stop` completes. `progress` gets a line each second.
///
/// # Errors
/// [`PrepareError`]: nothing was measured. What had been registered by then is deleted.
pub(crate) async fn run(
    options: &Options,
    stop: impl Future<Output = ()>,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Report, PrepareError> {
    let mut stop = std::pin::pin!(stop);
    let directory = Directory::new(&options.server, &options.tenant).map_err(PrepareError::Call)?;
    let target = Target::permitted(directory.authority(), options.permission.clone()).await?;
    let clock: SharedClock = Arc::new(SystemClock::new());
    let what = if options.commands.is_some() { "asking for sessions" } else { "registering listings" };
    progress(&format!("{what}: {} over {} connections", options.listings, options.connections));
    let players = prepare::players(options, &directory, &target, &clock, stop.as_mut()).await?;
    let measured_from = clock.mono().plus_ms(BREATH_MS + millis(options.warm_up));
    let course = Arc::new(course(options, clock.clone(), measured_from));
    let pacer = std::thread::Builder::new().name("pacer".to_owned()).spawn({
        let (course, workers) = (Arc::clone(&course), players.len());
        move || course.pace(workers)
    });
    let pacer = match pacer {
        Ok(pacer) => pacer,
        Err(error) => {
            clean_up(options, players).await;
            return Err(PrepareError::Local(error));
        }
    };
    let mut watch = Watch { course: &course, clock: &clock, options, cpu_begun: None, measured_from };
    let players = watch.until_all_are_done(players, stop, progress).await;
    // It has released everything, or the workers would still wait.
    let _panicked = pacer.join();
    let server_cpu = watch.server_cpu();
    let clean_up = clean_up(options, players).await;
    let tally = course.tally().clone();
    let measured = Duration::from_nanos(tally.ended.0.saturating_sub(measured_from.0));
    let intent = Intent {
        mix: options.mix.to_string(),
        per_second: options.per_second,
        connections: options.connections,
        listings: options.listings,
    };
    Ok(Report { intent, measured, tally, server_cpu, clean_up, interrupted: course.is_stopped() })
}

fn course(options: &Options, clock: SharedClock, measured_from: MonoTime) -> Course {
    let start = MonoTime(measured_from.0.saturating_sub(millis(options.warm_up) * 1_000_000));
    let seconds = (options.warm_up + options.duration).as_secs_f64();
    let schedule = Schedule::new(start, options.per_second, seconds, millis(options.late_after) * 1_000_000);
    Course::new(schedule, options.mix.clone(), clock, measured_from)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Looks on while the workers work.
struct Watch<'a> {
    course: &'a Arc<Course>,
    clock: &'a SharedClock,
    options: &'a Options,
    measured_from: MonoTime,
    cpu_begun: Option<Duration>,
}

impl Watch<'_> {
    async fn until_all_are_done(
        &mut self,
        players: Vec<Player>,
        mut stop: std::pin::Pin<&mut impl Future<Output = ()>>,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Vec<Player> {
        let mut workers = JoinSet::new();
        for mut player in players {
            let course = Arc::clone(self.course);
            workers.spawn(async move {
                course.work(&mut player).await;
                player
            });
        }
        let warm = Duration::from_nanos(self.measured_from.0.saturating_sub(self.clock.mono().0));
        let mut warm = std::pin::pin!(tokio::time::sleep(warm));
        let mut ticks = tokio::time::interval(PROGRESS);
        ticks.tick().await;
        let mut done = Vec::new();
        let (mut second, mut is_warm) = (0, false);
        loop {
            tokio::select! {
                joined = workers.join_next() => match joined {
                    // A worker that panicked has lost its listings; they end with their lease.
                    Some(joined) => done.extend(joined),
                    None => return done,
                },
                () = &mut warm, if !is_warm => {
                    is_warm = true;
                    self.cpu_begun = self.read_cpu();
                }
                () = &mut stop, if !self.course.is_stopped() => self.course.stop(),
                _ = ticks.tick() => {
                    second += 1;
                    progress(&self.line(second));
                }
            }
        }
    }

    fn line(&self, second: u64) -> String {
        let interval = self.course.tally().take_interval();
        let warm_up = if second <= self.options.warm_up.as_secs() { ", warm-up" } else { "" };
        format!(
            "{second:>4} s  good {}  p99 {}  refused {}  failed {}  unsent {}  outstanding {}{warm_up}",
            interval.good,
            table::time(interval.latency.value_at_quantile(0.99)),
            interval.refused,
            interval.failed,
            interval.unsent,
            self.course.outstanding(),
        )
    }

    fn read_cpu(&self) -> Option<Duration> {
        self.options.server_pid.and_then(|pid| cpu::cpu_time(pid).ok())
    }

    /// CPU time of the server since the end of the warm-up.
    fn server_cpu(&self) -> Option<Duration> {
        Some(self.read_cpu()?.saturating_sub(self.cpu_begun?))
    }
}

/// Deletes everything that the players own.
async fn clean_up(options: &Options, mut players: Vec<Player>) -> CleanUp {
    let sessions: Vec<Vec<SessionId>> = players.iter_mut().map(|player| std::mem::take(&mut player.sessions)).collect();
    let owned: usize = players.iter().map(|player| player.leases.len()).chain(sessions.iter().map(Vec::len)).sum();
    let mut tasks = JoinSet::new();
    if let Some(commands) = &options.commands {
        close(options, commands, sessions, &mut tasks).await;
    }
    for mut player in players {
        tasks.spawn(async move {
            let mut deleted = 0;
            // A failure leaves the listing in its place, and the others are no better off.
            while !player.leases.is_empty() && player.delete_oldest().await.is_ok() {
                deleted += 1;
            }
            deleted
        });
    }
    let mut deleted = 0;
    let all = async {
        while let Some(joined) = tasks.join_next().await {
            deleted += joined.unwrap_or(0);
        }
    };
    // What is not counted as deleted by then is counted as left.
    let _in_time = tokio::time::timeout(CLEAN_UP_PATIENCE, all).await;
    CleanUp { deleted, left: (owned as u64).saturating_sub(deleted) }
}

/// Closes sessions, as a host that takes no others.
async fn close(options: &Options, commands: &Commands, sessions: Vec<Vec<SessionId>>, tasks: &mut JoinSet<u64>) {
    let Ok(host) = CommandHost::new(&options.server, "load", commands.host_key.clone()) else { return };
    if host.register(&commands.target_key, 0).await.is_err() {
        return;
    }
    for sessions in sessions {
        let (host, tenant) = (host.clone(), options.tenant.clone());
        tasks.spawn(async move {
            let mut closed = 0;
            for session in sessions {
                let Ok(lease) = host.acquire(&tenant, session, None).await else { continue };
                let held = Held { tenant: tenant.clone(), session, epoch: lease.epoch };
                closed += u64::from(host.release(&held, true).await.is_ok());
            }
            closed
        });
    }
}
