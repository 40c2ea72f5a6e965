//! `rendezvous load compare`: the bars P5 to P8.

use crate::cli::exit;
use crate::cli::output::{complain, say, stop_signal};
use crate::load::compare::{Bar, CompareError, Comparison, Options, network, run as compare};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Compare the edges with nginx, Redis and bare loops, side by side
///
/// Starts private servers on loopback, one core for them and one for the generator, and ends with one table. A peer that
/// isn't installed is a row that says so. Where `unshare` is permitted it all happens in a network of its own, with a fixed
/// congestion control.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  rendezvous load compare
  rendezvous load compare --only p5,p6 --pairs 9 --json compare.json

Exit codes: 0 it ran, whatever the figures; 1 a server or a socket failed; 2 wrong command line; 130 ended by Ctrl-C")]
pub(crate) struct Args {
    /// Measure only these bars
    #[arg(long, value_name = "BARS", value_enum, value_delimiter = ',')]
    only: Vec<Bar>,
    /// Pairs of runs per row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pairs: u16,
    /// Length of one run
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Connections over TCP
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Listings that are renewed and kept present
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(256..=200_000))]
    listings: u32,
    /// Also write every sample to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Stay in this network, with the kernel's congestion control
    #[arg(long)]
    same_network: bool,
}

/// Before each run: connections, caches and branch predictors are warm after a fifth of it.
const WARM_UP_SHARE: f64 = 0.2;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("expected a number of seconds, was given {text:?}"))?;
    if (0.05..=60.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0.05 to 60 seconds".to_owned()) }
}

impl Args {
    fn options(&self) -> Options {
        let all = || vec![Bar::P5, Bar::P6, Bar::P7, Bar::P8];
        Options {
            bars: if self.only.is_empty() { all() } else { self.only.clone() },
            pairs: self.pairs.into(),
            length: Duration::from_secs_f64(self.seconds),
            warm_up: Duration::from_secs_f64(self.seconds * WARM_UP_SHARE),
            connections: self.connections.into(),
            listings: self.listings as usize,
        }
    }
}

/// Runs once.
pub(crate) fn run(args: Args) -> ExitCode {
    let options = args.options();
    if options.listings < options.listings_min() {
        complain(&format!("error: expected at least {} listings for these connections", options.listings_min()));
        return ExitCode::from(exit::USAGE);
    }
    if !args.same_network {
        let reason = network::enter(std::env::args_os().skip(1).chain(["--same-network".into()]));
        complain(&format!("no network of its own ({reason}): staying in this one"));
    }
    let result = match in_background(options) {
        Ok(result) => result,
        Err(error) => Err(CompareError::System { what: "a thread or a runtime".to_owned(), error }),
    };
    match result.map(|comparison| show(&comparison, args.json.as_deref())) {
        Ok(Ok(())) => ExitCode::from(exit::OK),
        Ok(Err(error)) => {
            complain(&format!("error: the JSON file: {error}"));
            ExitCode::from(exit::FAILED)
        }
        Err(CompareError::Stopped) => ExitCode::from(crate::cli::output::exit::INTERRUPTED),
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Compares on a thread of its own, which is pinned, while this one listens for signals.
fn in_background(options: Options) -> std::io::Result<Result<Comparison, CompareError>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (done, finished) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("compare".to_owned()).spawn({
        let stop = Arc::clone(&stop);
        move || {
            let result = compare(&options, &stop, &mut complain);
            // The other side waits for nothing else.
            let _told = done.send(());
            result
        }
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            () = stop_signal() => stop.store(true, Ordering::Relaxed),
            _ = finished => {}
        }
    });
    // Servers end with the comparison, so it is waited for in any case.
    thread.join().map_err(|_| std::io::Error::other("the comparison panicked"))
}

fn show(comparison: &Comparison, json: Option<&std::path::Path>) -> std::io::Result<()> {
    say(&comparison.text());
    match json {
        Some(file) => std::fs::write(file, format!("{:#}\n", comparison.json())),
        None => Ok(()),
    }
}
