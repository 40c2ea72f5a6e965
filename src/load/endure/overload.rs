//! Ten times more than a server can do: it goes on doing what it can, forgets nobody, and says no cheaply.
//!
//! What it can do is measured first, in the same run and by the same generator: everything that one core asks for, over few
//! connections. Then ten times that rate is meant to begin, over so many connections that hundreds of requests wait for the
//! server at any time; a request that could not begin in time is a player who gave up, and is counted as unsent.

use super::plain;
use super::server::{EndureError, Figures, Served, system};
use super::soak::mib;
use super::verdict::Verdict;
use crate::load::generate::{Kind, Mix, Options as LoadOptions, Permission, Report, run as generate};
use crate::load::table;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How much more than the peak is meant to begin.
const TIMES: f64 = 10.0;
/// Least share of the peak that is still done.
const GOODPUT_MIN: f64 = 0.9;
/// Connections of the peak: enough to keep a core busy.
const PEAK_CONNECTIONS: usize = 64;
/// Connections of the overload.
const OVERLOAD_CONNECTIONS: usize = 768;
/// One for each connection of the overload.
const LISTINGS: usize = OVERLOAD_CONNECTIONS;
/// More requests a second than one generator begins.
const SATURATING: f64 = 1_000_000.0;
/// Between two looks at what is live.
const LOOK: Duration = Duration::from_millis(250);
/// Buffers of connections that are gone, in the allocator's hands.
const RESIDENT_SLACK: u64 = 8 << 20;
/// What the default limits let one source browse a second, and the most of it that is asked for.
const BROWSING_PER_S: f64 = 2_000.0;
/// Guests from one source at once, by the default limits, are a hundred: two for each connection.
const LIMITED_CONNECTIONS: usize = 32;
/// A no costs the server at most so much of what a yes costs.
const REFUSAL_COST_MAX: f64 = 1.5;

/// No limiter of rates, and lifetimes that end within the run unless hosts are heard.
const CONFIG: &str = "
[operator]
keys = [\"an-operator-who-never-calls\"]

[lease]
ttl_ms = 4000
ttl_min_ms = 1000
ttl_max_ms = 4000
unproven_window_ms = 4000

[presence]
ttl_ms = 4000

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
    progress("the peak");
    let all = Mix::of([(Kind::Browse, 80), (Kind::Renew, 8), (Kind::Presence, 10), (Kind::Join, 2)]);
    let load = Load { served: &served, mix: all, length: options.length };
    let peak = load.put(SATURATING, PEAK_CONNECTIONS, LISTINGS, stop.as_mut(), progress).await?;
    let after_peak = served.figures()?;
    progress("ten times the peak");
    let watch = Watch::start(&served)?;
    let over = load.put(peak.goodput() * TIMES, OVERLOAD_CONNECTIONS, LISTINGS, stop.as_mut(), progress).await;
    let least = watch.end();
    let over = over?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = served.figures()?;
    judge_overload(&mut verdict, &peak, &over, least);
    judge_after(&mut verdict, &after_peak, &after);
    drop(served);
    progress("beyond the limits of one source");
    let limited = Served::start(LIMITED_CONFIG)?;
    let load = Load { served: &limited, mix: Mix::only(Kind::Browse), length: options.length };
    let refused =
        load.put(BROWSING_PER_S * TIMES, LIMITED_CONNECTIONS, LIMITED_CONNECTIONS, stop.as_mut(), progress).await?;
    judge_refusals(&mut verdict, &limited, &peak, &refused)?;
    Ok(verdict)
}

struct Load<'a> {
    served: &'a Served,
    mix: Mix,
    length: Duration,
}

impl Load<'_> {
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
            warm_up: Duration::from_secs(1),
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

/// Looks at what is live while the load runs.
struct Watch {
    enough: Arc<AtomicBool>,
    looking: std::thread::JoinHandle<u64>,
}

impl Watch {
    fn start(served: &Served) -> Result<Self, EndureError> {
        let enough = Arc::new(AtomicBool::new(false));
        let most = AtomicU64::new(0);
        let (metrics, flag) = (served.metrics, Arc::clone(&enough));
        let look = move || {
            let mut least = u64::MAX;
            // Flags and counts of their own; nothing else is told through them.
            while !flag.load(Ordering::Relaxed) {
                if let Ok(answer) = plain::ask(metrics, "GET", "/metrics", &[], "") {
                    let live = present(&answer.body);
                    // While they are registered there are fewer; from then on nobody may be missing.
                    if most.fetch_max(live, Ordering::Relaxed) >= LISTINGS as u64 {
                        least = least.min(live);
                    }
                }
                std::thread::sleep(LOOK);
            }
            least
        };
        let looking = std::thread::Builder::new().name("watch".to_owned()).spawn(look).map_err(system("a thread"))?;
        Ok(Self { enough, looking })
    }

    /// Fewest presences that were seen since all were there; `None` when that was never.
    fn end(self) -> Option<u64> {
        self.enough.store(true, Ordering::Relaxed);
        self.looking.join().ok().filter(|least| *least < u64::MAX)
    }
}

fn present(metrics: &str) -> u64 {
    const ROW: &str = "rendezvous_store_records{resource=\"presence\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(ROW)?.parse().ok()).unwrap_or(0)
}

fn judge_overload(verdict: &mut Verdict, peak: &Report, over: &Report, least: Option<u64>) {
    let share = over.goodput() / peak.goodput().max(1.0);
    let seen = format!(
        "{} of {}, {:.0} %; {} a second were meant to begin",
        table::rate(over.goodput()),
        table::rate(peak.goodput()),
        share * 100.0,
        table::rate(peak.goodput() * TIMES)
    );
    verdict.claim(
        format!("goodput at ten times the peak, at least {:.0} % of it", GOODPUT_MIN * 100.0),
        seen,
        share >= GOODPUT_MIN,
    );
    let seen = least.map_or("never all of them were".to_owned(), |least| format!("at least {least} of {LISTINGS}"));
    // The end of the run, when they are deleted, may be looked at too; then the loss would show in what is left.
    verdict.claim("live listings stay live", seen, over.clean_up.left == 0 && least.is_some());
    let failed = format!("{} at the peak, {} over it", peak.failed(), over.failed());
    verdict.claim("no answer lost, broken or malformed", failed, peak.failed() + over.failed() == 0);
    for (what, report) in [("peak", peak), ("overload", over)] {
        verdict.note(format!("{what}:\n{}\n", report.text()));
    }
}

fn judge_after(verdict: &mut Verdict, after_peak: &Figures, after: &Figures) {
    let seen =
        format!("{} after the peak, {} after the overload", mib(after_peak.resident_bytes), mib(after.resident_bytes));
    verdict.claim("resident memory", seen, after.resident_bytes <= after_peak.resident_bytes + RESIDENT_SLACK);
    let seen = format!("{} after the peak, {} after the overload", after_peak.files, after.files);
    verdict.claim("open files", seen, after.files <= after_peak.files);
}

fn judge_refusals(verdict: &mut Verdict, limited: &Served, peak: &Report, refused: &Report) -> Result<(), EndureError> {
    let seen = format!("{} of {}", table::rate(refused.goodput()), table::rate(BROWSING_PER_S));
    verdict.claim("one source gets what it may", seen, refused.goodput() >= BROWSING_PER_S * GOODPUT_MIN);
    let codes = refused.codes();
    let is_typed = codes == ["rate_limited"] && refused.failed() == 0;
    verdict.claim("refusals are typed", format!("{} {codes:?}", refused.refusals()), is_typed);
    let path = format!("/v1/tenants/{}/listings?protocol=load%2F0", super::TENANT);
    // The bucket is empty: four in a row at the latest say so.
    let ask = || plain::ask(limited.http, "GET", &path, &[], "").map_err(system("one more request"));
    let mut no = ask()?;
    for _ in 0..BROWSING_PER_S as u64 * 4 {
        if no.status == 429 {
            break;
        }
        no = ask()?;
    }
    let retry = no.header("retry-after").unwrap_or("none");
    let is_told = no.status == 429 && retry.parse::<u64>().is_ok_and(|seconds| seconds >= 1);
    verdict.claim("refusals say when to come back", format!("{}, Retry-After: {retry}", no.status), is_told);
    let (yes, no) = (peak.cpu_per_answer(), refused.cpu_per_answer());
    if let (Some(yes), Some(no)) = (yes, no) {
        let seen = format!("{:.1} us of CPU, an answer of the peak's mix {:.1} us", no * 1e6, yes * 1e6);
        verdict.claim("refusals are cheap", seen, no <= yes * REFUSAL_COST_MAX);
    }
    verdict.note(format!("one source:\n{}", refused.text()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_is_read_from_its_row() {
        let text =
            "rendezvous_store_records{resource=\"listings\"} 9\nrendezvous_store_records{resource=\"presence\"} 7\n";
        assert_eq!((present(text), present("")), (7, 0));
    }
}
