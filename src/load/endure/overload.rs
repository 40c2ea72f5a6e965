//! Ten times more than a server can do: it goes on doing what it can, forgets nobody, and says no cheaply.
//!
//! What it can do is measured first, in the same run and by the same generator: rates that grow until not all of it is answered.
//! Then ten times the most that was is meant to begin, over so many connections that hundreds of requests wait for the server
//! at any time; a request that could not begin in time is a player who gave up, and is counted as unsent.

use super::plain::{self, Answer};
use super::server::{EndureError, Figures, PRESENCE, Served, system};
use super::soak::mib;
use super::verdict::Verdict;
use crate::clock::{Clock, SystemClock};
use crate::load::generate::{Kind, Mix, Options as LoadOptions, Permission, Report, run as generate};
use crate::load::table;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much more than the peak is meant to begin.
const TIMES: f64 = 10.0;
/// Least share of the peak that is still done.
const GOODPUT_MIN: f64 = 0.9;
/// Connections of the peak and of the overload: what is compared is how much is asked for, not how many sockets a generator
/// of one thread can serve.
const OVERLOAD_CONNECTIONS: usize = 768;
/// One for each connection of the overload.
const LISTINGS: usize = OVERLOAD_CONNECTIONS;
/// Rates of the search for the peak: the first of which less than [`GOODPUT_MIN`] is answered ends it.
const SEARCH: [f64; 5] = [4_000.0, 12_000.0, 36_000.0, 108_000.0, 324_000.0];
/// Between two looks at what is live.
const LOOK: Duration = Duration::from_millis(250);
/// After this the gauges of a load that took its listings down must show it.
const FORGOTTEN_MAX: Duration = Duration::from_secs(5);
/// The gauges are made once a second and looked at a little later: so much later than the load the looks may begin, and so much
/// sooner than its length they end, for afterwards the generator takes its listings down.
const LOOKS_LAG: Duration = Duration::from_millis(1_500);
/// What the second half of the overload may add: its joins are remembered for minutes (rule F3), a kilobyte each or less, and the
/// allocator rounds.
const RESIDENT_SLACK: u64 = 8 << 20;
/// Share of the overload after which memory has the size that it needs.
const GROWN_AFTER: f64 = 0.5;
/// Between two requests of the one who waits to be refused.
const PROBE: Duration = Duration::from_millis(20);
/// What the default limits let one source browse a second, and the most of it that is asked for.
const BROWSING_PER_S: f64 = 2_000.0;
/// Guests from one source at once, by the default limits, are a hundred: two for each connection.
const LIMITED_CONNECTIONS: usize = 32;
/// A no costs the server at most so much of what a yes costs.
const REFUSAL_COST_MAX: f64 = 1.5;

/// No limiter of rates, and lifetimes of ten seconds: whoever is not heard is gone within the run.
const CONFIG: &str = "
[operator]
keys = [\"an-operator-who-never-calls\"]

[lease]
ttl_ms = 10000
ttl_min_ms = 1000
ttl_max_ms = 10000
unproven_window_ms = 10000

[presence]
ttl_ms = 10000

[rates]
guests_per_s = 1000000
guests_burst = 1000000
creations_per_s = 1000000
creations_burst = 1000000
browsing_per_s = 1000000
browsing_burst = 1000000
principal_creations_per_s = 1000000
principal_creations_burst = 1000000
principal_keep_alives_per_s = 1000000
principal_keep_alives_burst = 1000000

[udp]
unproven_per_source_per_s = 1000000
unproven_global_per_s = 1000000
per_credential_per_s = 1000000

[limits]
connections_per_source = 8192
listings_per_owner = 100000
attempts_per_tenant = 100000
attempts_per_listing = 100000
attempts_per_principal = 100000
guest_listings_per_source = 100000
guest_attempts_per_source = 100000
";

/// As it is out of the box, but for one operator.
const LIMITED_CONFIG: &str = "[operator]\nkeys = [\"an-operator-who-never-calls\"]\n";

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Length of each of the three loads.
    pub(crate) length: Duration,
}

/// Runs. Ends early when `stop` completes.
///
/// # Errors
/// [`EndureError`]: nothing was found out.
pub(crate) async fn run(
    options: &Options,
    stop: impl Future<Output = ()>,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Verdict, EndureError> {
    let mut stop = std::pin::pin!(stop);
    let mut verdict = Verdict::default();
    let served = Served::start(CONFIG)?;
    let all = Mix::of([(Kind::Browse, 80), (Kind::Renew, 8), (Kind::Presence, 10), (Kind::Join, 2)]);
    let load = Load { served: &served, mix: all, length: options.length };
    let peak = load.peak(stop.as_mut(), progress).await?;
    progress("ten times the peak");
    // The gauges must no longer tell of the listings of the load before.
    let is_forgotten = |figures: &Figures| figures.gauges.get(PRESENCE).is_none_or(|present| *present == 0);
    let before = served.figures_once(is_forgotten, LOOK, FORGOTTEN_MAX).await?;
    let watch = Watch::start(&served, options.length)?;
    let over = load.put(peak.goodput() * TIMES, OVERLOAD_CONNECTIONS, LISTINGS, stop.as_mut(), progress).await;
    let seen = watch.end();
    let over = over?;
    judge_overload(&mut verdict, &peak, &over);
    judge_seen(&mut verdict, &before, &seen, over.clean_up.left);
    drop(served);
    progress("beyond the limits of one source");
    let limited = Served::start(LIMITED_CONFIG)?;
    let load = Load { served: &limited, mix: Mix::only(Kind::Browse), length: options.length };
    let probe = Probe::start(&limited)?;
    let over = BROWSING_PER_S * TIMES;
    let refused = load.put(over, LIMITED_CONNECTIONS, LIMITED_CONNECTIONS, stop.as_mut(), progress).await;
    let refusal = probe.end();
    judge_refusals(&mut verdict, &peak, &refused?, refusal);
    Ok(verdict)
}

struct Load<'a> {
    served: &'a Served,
    mix: Mix,
    length: Duration,
}

impl Load<'_> {
    /// The run that did most.
    async fn peak(
        &self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Report, EndureError> {
        let mut best: Option<Report> = None;
        for per_second in SEARCH {
            progress(&format!("looking for the peak: {}", table::rate(per_second)));
            let report = self.put(per_second, OVERLOAD_CONNECTIONS, LISTINGS, stop.as_mut(), progress).await?;
            let is_beyond = report.goodput() < per_second * GOODPUT_MIN;
            if best.as_ref().is_none_or(|best| best.goodput() < report.goodput()) {
                best = Some(report);
            }
            if is_beyond {
                break;
            }
        }
        best.ok_or_else(|| EndureError::Server("no rate was tried".to_owned()))
    }

    async fn put(
        &self,
        per_second: f64,
        connections: usize,
        listings: usize,
        stop: Pin<&mut impl Future<Output = ()>>,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Report, EndureError> {
        let options = LoadOptions {
            server: format!("http://{}", self.served.http),
            tenant: super::TENANT.to_owned(),
            token: None,
            permission: Permission::default(),
            mix: self.mix.clone(),
            per_second,
            duration: self.length,
            // What begins late would count for the time in which it was meant to begin, and the peak is all lateness.
            warm_up: Duration::ZERO,
            connections,
            listings,
            timeout: Duration::from_secs(5),
            late_after: Duration::from_secs(1),
            server_pid: Some(self.served.pid()),
            commands: None,
        };
        let report = generate(&options, stop, progress).await.map_err(EndureError::Prepare)?;
        if report.interrupted { Err(EndureError::Stopped) } else { Ok(report) }
    }
}

/// What was seen while the overload lasted.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Looks since everybody was there.
    looks: u64,
    /// Fewest presences in them.
    present: u64,
    /// Resident bytes once memory has its size, and at the end.
    grown: u64,
    last: u64,
}

/// Looks at the server while the load runs.
struct Watch {
    enough: Arc<AtomicBool>,
    looking: std::thread::JoinHandle<Seen>,
}

impl Watch {
    /// Counts from the moment when every listing is there, for as long as the load is meant to last: what comes later is the
    /// generator's own cleaning up.
    fn start(served: &Served, length: Duration) -> Result<Self, EndureError> {
        let enough = Arc::new(AtomicBool::new(false));
        let (looker, flag, clock) = (served.looker(), Arc::clone(&enough), SystemClock::new());
        let look = move || {
            let (mut seen, mut began) = (Seen { present: u64::MAX, ..Seen::default() }, None);
            // A flag and nothing else is told through it.
            while !flag.load(Ordering::Relaxed) {
                let now = clock.mono();
                if let Ok(figures) = looker.figures() {
                    let present = figures.gauges.get(PRESENCE).copied().unwrap_or(0);
                    if began.is_none() && present >= LISTINGS as u64 {
                        began = Some(now);
                    }
                    let elapsed = began.map(|began| Duration::from_millis(now.ms_since(began)));
                    if let Some(elapsed) = elapsed.filter(|elapsed| *elapsed + LOOKS_LAG < length) {
                        seen.looks += 1;
                        seen.present = seen.present.min(present);
                        seen.last = figures.resident_bytes;
                        if elapsed < length.mul_f64(GROWN_AFTER) {
                            seen.grown = figures.resident_bytes;
                        }
                    }
                }
                std::thread::sleep(LOOK);
            }
            seen
        };
        let looking = std::thread::Builder::new().name("watch".to_owned()).spawn(look).map_err(system("a thread"))?;
        Ok(Self { enough, looking })
    }

    fn end(self) -> Seen {
        self.enough.store(true, Ordering::Relaxed);
        // A watch that panicked has seen nothing, which is no claim that holds.
        self.looking.join().unwrap_or_default()
    }
}

fn judge_overload(verdict: &mut Verdict, peak: &Report, over: &Report) {
    let share = over.goodput() / peak.goodput().max(1.0);
    let seen = format!(
        "{} of {}, {:.0} %; {} were meant to begin",
        table::rate(over.goodput()),
        table::rate(peak.goodput()),
        share * 100.0,
        table::rate(peak.goodput() * TIMES)
    );
    let claim = format!("goodput at ten times the peak, at least {:.0} % of it", GOODPUT_MIN * 100.0);
    verdict.claim(claim, seen, share >= GOODPUT_MIN);
    let failed = format!("{} at the peak, {} over it", peak.failed(), over.failed());
    verdict.claim("no answer lost, broken or malformed", failed, peak.failed() + over.failed() == 0);
    for (what, report) in [("peak", peak), ("overload", over)] {
        verdict.note(format!("{what}:\n{}\n", report.text()));
    }
}

fn judge_seen(verdict: &mut Verdict, before: &Figures, seen: &Seen, left: u64) {
    let is_live = seen.looks > 0 && seen.present >= LISTINGS as u64 && left == 0;
    let least = if seen.looks == 0 { 0 } else { seen.present };
    let live = format!("at least {least} of {LISTINGS} present in {} looks, {left} lost", seen.looks);
    verdict.claim("live listings stay live", live, is_live);
    let resident = format!(
        "{} before, {} in the middle, {} at the end",
        mib(before.resident_bytes),
        mib(seen.grown),
        mib(seen.last)
    );
    verdict.claim("resident memory does not grow", resident, seen.last <= seen.grown + RESIDENT_SLACK);
}

fn judge_refusals(verdict: &mut Verdict, peak: &Report, refused: &Report, refusal: Option<Answer>) {
    let seen = format!("{} of {}", table::rate(refused.goodput()), table::rate(BROWSING_PER_S));
    verdict.claim("one source gets what it may", seen, refused.goodput() >= BROWSING_PER_S * GOODPUT_MIN);
    let codes = refused.codes();
    let is_typed = codes == ["rate_limited"] && refused.failed() == 0;
    verdict.claim("refusals are typed", format!("{} {codes:?}", refused.refusals()), is_typed);
    let retry = refusal.as_ref().and_then(|answer| answer.header("retry-after")).unwrap_or("none");
    let is_told = retry.parse::<u64>().is_ok_and(|seconds| seconds >= 1);
    verdict.claim("refusals say when to come back", format!("Retry-After: {retry}"), is_told);
    if let (Some(yes), Some(no)) = (peak.cpu_per_answer(), refused.cpu_per_answer()) {
        let seen = format!("{:.1} us of CPU, an answer of the peak's mix {:.1} us", no * 1e6, yes * 1e6);
        verdict.claim("refusals are cheap", seen, no <= yes * REFUSAL_COST_MAX);
    }
    verdict.note(format!("one source:\n{}", refused.text()));
}

/// Asks like everybody else, beside the load, until it is refused.
struct Probe {
    enough: Arc<AtomicBool>,
    asking: std::thread::JoinHandle<Option<Answer>>,
}

impl Probe {
    fn start(served: &Served) -> Result<Self, EndureError> {
        let enough = Arc::new(AtomicBool::new(false));
        let (server, flag) = (served.http, Arc::clone(&enough));
        let path = format!("/v1/tenants/{}/listings?protocol=load%2F0", super::TENANT);
        let ask = move || {
            // A flag and nothing else is told through it.
            while !flag.load(Ordering::Relaxed) {
                let answer = plain::ask(server, "GET", &path, &[], "").ok();
                if let Some(refusal) = answer.filter(|answer| answer.status == 429) {
                    return Some(refusal);
                }
                std::thread::sleep(PROBE);
            }
            None
        };
        let asking = std::thread::Builder::new().name("probe".to_owned()).spawn(ask).map_err(system("a thread"))?;
        Ok(Self { enough, asking })
    }

    fn end(self) -> Option<Answer> {
        self.enough.store(true, Ordering::Relaxed);
        self.asking.join().ok().flatten()
    }
}
