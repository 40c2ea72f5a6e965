//! `rendezvous load overload` and `rendezvous load soak`.

use crate::cli::exit;
use crate::cli::output::{complain, exit as client_exit, say, stop_signal};
use crate::load::endure::{
    EndureError, OverloadOptions, SoakOptions, Verdict, overload as drive_overload, soak as drive_soak,
};
use std::process::ExitCode;
use std::time::Duration;

/// Drive a server of its own at ten times what it can do
///
/// Looks for the peak, then means to begin ten times as many requests, then asks one source's limits for ten times what they
/// give. Ends with a table of claims.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Exit codes: 0 every claim holds; 1 one does not, or nothing was found out; 130 ended by Ctrl-C"
)]
pub(crate) struct OverloadArgs {
    /// Length of each load
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    seconds: f64,
    /// The result as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Churn everything that a server of its own holds, and see it empty afterwards
///
/// Lifetimes are two seconds, so everything ends many times over: by deletion, by deadline, by revocation, and because its
/// client went away. Ends with a table of claims.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Exit codes: 0 every claim holds; 1 one does not, or nothing was found out; 130 ended by Ctrl-C"
)]
pub(crate) struct SoakArgs {
    /// Length of the load; a minute more passes while things end
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    seconds: f64,
    /// Requests a second
    #[arg(long, value_name = "N", default_value_t = 1_000.0, value_parser = rate)]
    rate: f64,
    /// The result as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// A day.
const SECONDS_MAX: f64 = 86_400.0;
/// More than one generator begins.
const RATE_MAX: f64 = 1_000_000.0;

fn seconds(text: &str) -> Result<f64, String> {
    number(text, "a number of seconds", SECONDS_MAX)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, "a number of requests a second", RATE_MAX)
}

fn number(text: &str, expected: &str, max: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected {expected}, was given {text:?}"))?;
    if (1.0..=max).contains(&number) { Ok(number) } else { Err(format!("expected {expected}, 1 to {max}")) }
}

/// Runs the overload.
pub(crate) fn overload(args: &OverloadArgs) -> ExitCode {
    let options = OverloadOptions { length: Duration::from_secs_f64(args.seconds) };
    in_runtime(args.json, async { drive_overload(&options, stop_signal(), &mut complain).await })
}

/// Runs the soak.
pub(crate) fn soak(args: &SoakArgs) -> ExitCode {
    let options = SoakOptions { length: Duration::from_secs_f64(args.seconds), per_second: args.rate };
    in_runtime(args.json, async { drive_soak(&options, stop_signal(), &mut complain).await })
}

fn in_runtime(json: bool, run: impl Future<Output = Result<Verdict, EndureError>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime: {error}")),
    };
    match runtime.block_on(run) {
        Ok(verdict) => {
            say(&if json { format!("{:#}", verdict.json()) } else { verdict.text() });
            ExitCode::from(if verdict.holds() { exit::OK } else { exit::FAILED })
        }
        Err(EndureError::Stopped) => ExitCode::from(client_exit::INTERRUPTED),
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(message: &str) -> ExitCode {
    complain(&format!("error: {message}"));
    ExitCode::from(exit::FAILED)
}
