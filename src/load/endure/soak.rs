//! Churn on every collection at once, and nothing left of it.
//!
//! Lifetimes are short, so that everything ends many times over. The first cycle is a short one: after it the process
//! has what it needs (threads, buffers, pools at the size of the load). After the long one every count has to be what it was at the
//! start, and files, threads and resident memory what they were after the short one.

use super::server::{EndureError, Figures, Served, system};
use super::strays::{Strayed, stray};
use super::verdict::Verdict;
use crate::load::generate::{Kind, Mix, Options as LoadOptions, Permission, Report, run as generate};
use crate::service::random_token;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Share of the run that comes first and is not judged.
const FIRST_SHARE: f64 = 0.25;
/// After the load: the longest lifetime is the two seconds of [`CONFIG`], twice over where a record outlives its resource.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Between two looks at the gauges.
const LOOK: Duration = Duration::from_millis(250);
/// The edge looks through its tables for what is over every five seconds.
const UPKEEP: Duration = Duration::from_secs(6);
/// The allocator gives pages back in its own time; what grows with the run is more than this.
const RESIDENT_SLACK: u64 = 4 << 20;
/// Beside it, what the UDP edge remembers of each pair of source and credential that was proven, in a table of fixed size
/// where the next one takes the place of one before: nobody's growth, but not filled by the first cycle.
const PAIR_BYTES: u64 = 512;
const PAIRS_MAX: u64 = 65_536;
const CONNECTIONS: usize = 32;
const LISTINGS: usize = 256;

/// Lifetimes of two seconds and less, a limiter whose tables are used and not felt, and ceilings above the load.
const CONFIG: &str = "
[lease]
ttl_ms = 2000
ttl_min_ms = 500
ttl_max_ms = 2000
unproven_window_ms = 1000

[presence]
ttl_ms = 2000

[attempt]
ttl_ms = 2000
bind_window_ms = 500

[idempotency]
retention_ms = 2000

[http]
header_timeout_ms = 1000
body_timeout_ms = 1000
idle_timeout_ms = 5000

[rates]
guests_per_s = 100000
guests_burst = 100000
creations_per_s = 100000
creations_burst = 100000
browsing_per_s = 1000000
browsing_burst = 1000000
principal_creations_per_s = 100000
principal_creations_burst = 100000
principal_keep_alives_per_s = 100000
principal_keep_alives_burst = 100000

[udp]
unproven_per_source_per_s = 100000
unproven_global_per_s = 100000
per_credential_per_s = 100000

[limits]
listings_per_owner = 1000000
attempts_per_tenant = 1000000
attempts_per_listing = 1000000
attempts_per_principal = 1000000
guest_listings_per_source = 1000000
guest_attempts_per_source = 1000000
";

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Load in all; the pauses for things to end come on top.
    pub(crate) length: Duration,
    /// Requests a second.
    pub(crate) per_second: f64,
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
    let key = random_token().map_err(|error| EndureError::Server(error.to_string()))?;
    let served = Served::start(&format!("[operator]\nkeys = [\"{key}\"]\n{CONFIG}"))?;
    let soak = Soak { served: &served, key: &key, per_second: options.per_second };
    let mut stop = std::pin::pin!(stop);
    let start = served.figures()?;
    progress("a first cycle, so that everything has the size of the load");
    soak.cycle(options.length.mul_f64(FIRST_SHARE), stop.as_mut(), progress).await?;
    let first = soak.settled(progress).await?;
    progress("the cycle that counts");
    let (report, strayed) = soak.cycle(options.length.mul_f64(1.0 - FIRST_SHARE), stop, progress).await?;
    let busy = served.figures()?;
    let last = soak.settled(progress).await?;
    Ok(judge(&start, &first, &busy, &last, &report, strayed))
}

struct Soak<'a> {
    served: &'a Served,
    key: &'a str,
    per_second: f64,
}

impl Soak<'_> {
    /// Load and strays together.
    async fn cycle(
        &self,
        length: Duration,
        mut stop: std::pin::Pin<&mut impl Future<Output = ()>>,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(Report, Strayed), EndureError> {
        let enough = Arc::new(AtomicBool::new(false));
        let strays = std::thread::Builder::new().name("strays".to_owned()).spawn({
            let (enough, server, key) = (Arc::clone(&enough), self.served.http, self.key.to_owned());
            move || stray(server, &key, &enough)
        });
        let strays = strays.map_err(system("a thread"))?;
        let report = generate(&self.options(length), stop.as_mut(), progress).await;
        enough.store(true, Ordering::Relaxed);
        let strayed = strays.join().map_err(|_| EndureError::Server("the strays panicked".to_owned()))?;
        let report = report.map_err(EndureError::Prepare)?;
        if report.interrupted {
            return Err(EndureError::Stopped);
        }
        Ok((report, strayed.map_err(system("a stray's request"))?))
    }

    fn options(&self, length: Duration) -> LoadOptions {
        let weights =
            [(Kind::Browse, 20), (Kind::Register, 30), (Kind::Renew, 15), (Kind::Presence, 20), (Kind::Join, 15)];
        LoadOptions {
            server: format!("http://{}", self.served.http),
            tenant: super::TENANT.to_owned(),
            token: None,
            permission: Permission::default(),
            mix: Mix::of(weights),
            per_second: self.per_second,
            duration: length,
            warm_up: Duration::ZERO,
            connections: CONNECTIONS,
            listings: LISTINGS,
            timeout: Duration::from_secs(5),
            late_after: Duration::from_secs(1),
            server_pid: Some(self.served.pid()),
            commands: None,
        }
    }

    /// What is held once nothing is held any more, or after [`SETTLE_MAX`].
    async fn settled(&self, progress: &mut (dyn FnMut(&str) + Send)) -> Result<Figures, EndureError> {
        progress("waiting for everything to end");
        self.served.figures_once(Figures::is_empty, LOOK, SETTLE_MAX).await?;
        tokio::time::sleep(UPKEEP).await;
        self.served.figures()
    }
}

fn judge(
    start: &Figures,
    first: &Figures,
    busy: &Figures,
    last: &Figures,
    report: &Report,
    strayed: Strayed,
) -> Verdict {
    let mut verdict = Verdict::default();
    for (name, count) in &last.gauges {
        let (before, during) = (start.gauges.get(name).copied().unwrap_or(0), busy.gauges.get(name).copied());
        let seen = format!("{before} at the start, {} under load, {count} after it", during.unwrap_or(0));
        verdict.claim(name.trim_start_matches("rendezvous_"), seen, *count == before);
    }
    let both = |first: u64, last: u64| format!("{first} after the first cycle, {last} after the last");
    verdict.claim("open files", both(first.files, last.files), last.files <= first.files);
    verdict.claim("threads", both(first.threads, last.threads), last.threads <= first.threads);
    let resident = format!(
        "{} at the start, {} under load, {}",
        mib(start.resident_bytes),
        mib(busy.resident_bytes),
        format_args!(
            "{} after the first cycle, {} after the last",
            mib(first.resident_bytes),
            mib(last.resident_bytes)
        )
    );
    // A listing proves its presence; a join has two sides that bind.
    let pairs = report.good(Kind::Register) + 2 * report.good(Kind::Join);
    let allowed = RESIDENT_SLACK + PAIR_BYTES * pairs.min(PAIRS_MAX);
    let resident = format!("{resident}; {} are allowed", mib(allowed));
    verdict.claim("resident memory", resident, last.resident_bytes <= first.resident_bytes + allowed);
    let failed = report.failed();
    verdict.claim("answers that no contract allows", failed.to_string(), failed == 0);
    verdict.claim("every collection was used", format!("{strayed:?}"), strayed.is_complete());
    verdict.note(report.text());
    verdict
}

/// Bytes as people read them.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
