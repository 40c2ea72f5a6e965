//! `rendezvous load <mix>`: the open-loop generator.

use crate::cli::exit;
use crate::cli::output::{Output, ServerArgs, complain, exit as client_exit, secret, stop_signal};
use crate::config::{DEV_HOST_KEY, DEV_PROFILE};
use crate::credentials::Secret;
use crate::load::generate::{Commands, Kind, Mix, Options, Permission, PrepareError, Report, run as generate};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What every mix takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    server: ServerArgs,
    /// Requests a second that are meant to begin
    #[arg(long, value_name = "N", default_value_t = 1_000.0, value_parser = rate)]
    rate: f64,
    /// Measured time
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    duration: f64,
    /// Time before it, which is not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    warm_up: f64,
    /// HTTP connections; as many requests may be outstanding
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// Listings that are registered before and deleted after
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    listings: u32,
    /// Longest wait for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    timeout: f64,
    /// A request that could not begin for so long counts as unsent
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    late_after: f64,
    /// Count the CPU time of this process as the server's
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// The result as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Allow a server that isn't on this machine; needs --i-operate too
    #[arg(long, requires = "i_operate")]
    target_not_loopback: bool,
    /// Its host once more, for you operate it or its operator asked you
    #[arg(long, value_name = "HOST", requires = "target_not_loopback")]
    i_operate: Option<String>,
}

/// Longest run and wait: a day.
const SECONDS_MAX: f64 = 86_400.0;
/// Beyond it no machine goes.
const RATE_MAX: f64 = 10_000_000.0;

fn seconds(text: &str) -> Result<f64, String> {
    number(text, "a number of seconds", SECONDS_MAX)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = number(text, "a number of requests a second", RATE_MAX)?;
    if rate > 0.0 { Ok(rate) } else { Err("expected a rate above zero".to_owned()) }
}

fn number(text: &str, expected: &str, max: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected {expected}, was given {text:?}"))?;
    if (0.0..=max).contains(&number) { Ok(number) } else { Err(format!("expected {expected}, 0 to {max}")) }
}

impl Common {
    fn options(&self, mix: Mix) -> Options {
        Options {
            server: self.server.url().to_owned(),
            tenant: self.server.tenant().to_owned(),
            token: self.server.token().cloned(),
            permission: Permission { not_loopback: self.target_not_loopback, operated: self.i_operate.clone() },
            mix,
            per_second: self.rate,
            duration: Duration::from_secs_f64(self.duration),
            warm_up: Duration::from_secs_f64(self.warm_up),
            connections: self.connections.into(),
            listings: self.listings as usize,
            commands: None,
            timeout: Duration::from_secs_f64(self.timeout),
            late_after: Duration::from_secs_f64(self.late_after),
            server_pid: self.server_pid,
        }
    }
}

/// What a load of commands takes besides.
#[derive(clap::Args, Debug)]
pub(crate) struct Admission {
    /// A profile of the server, of which as many sessions are asked for as --listings says
    #[arg(long, value_name = "NAME", default_value = DEV_PROFILE)]
    profile: String,
    /// The profile's target key
    #[arg(long, value_name = "KEY", default_value = DEV_PROFILE)]
    target_key: String,
    /// A host's key for it, with which the sessions are closed at the end; without one, that of `serve --dev`
    #[arg(long, value_name = "KEY", env = "RENDEZVOUS_HOST_KEY", hide_env_values = true, value_parser = secret)]
    host_key: Option<Secret>,
    #[command(flatten)]
    common: Common,
}

/// Runs one mix.
pub(crate) fn run(mix: Mix, common: &Common) -> ExitCode {
    generate_and_tell(common.options(mix), common)
}

/// Runs a load of commands.
pub(crate) fn run_admission(args: &Admission) -> ExitCode {
    let commands = Commands {
        profile: args.profile.clone(),
        target_key: args.target_key.clone(),
        host_key: args.host_key.clone().unwrap_or_else(|| Secret::new(DEV_HOST_KEY)),
    };
    let options = args.common.options(Mix::only(Kind::Admission));
    generate_and_tell(Options { commands: Some(commands), ..options }, &args.common)
}

fn generate_and_tell(options: Options, common: &Common) -> ExitCode {
    let output = Output::new(common.json);
    if common.listings < u32::from(common.connections) && options.mix != Mix::only(Kind::Browse) {
        let message = format!("expected at least {} listings, one for each connection", common.connections);
        output.failure("load", None, &message, "raise --listings or lower --connections");
        return ExitCode::from(exit::USAGE);
    }
    // One thread: the load is as much as one core gives, and the server keeps the others.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.failure("load", None, &format!("no runtime: {error}"), "check the limit of open files");
            return ExitCode::from(exit::FAILED);
        }
    };
    let result = runtime.block_on(async {
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut progress = complain;
        let load = generate(&options, async move { drop(told.await) }, &mut progress);
        let signals = async {
            stop_signal().await;
            complain("stopping and cleaning up; once more to end at once");
            // A load that has ended by itself needs no word.
            let _told = tell.send(());
            stop_signal().await;
        };
        tokio::select! {
            result = load => Some(result),
            () = signals => None,
        }
    });
    match result {
        Some(Ok(report)) => finish(&report, common, output),
        Some(Err(error)) => fail(&error, output),
        None => ExitCode::from(client_exit::INTERRUPTED),
    }
}

fn finish(report: &Report, common: &Common, output: Output) -> ExitCode {
    let json = format!("{:#}", report.json());
    output.line(if output.is_json() { json.clone() } else { report.text() }.as_str());
    if let Some(file) = &common.json_file
        && let Err(error) = std::fs::write(file, json + "\n")
    {
        let message = format!("{}: {error}", file.display());
        output.failure("the JSON file", None, &message, "check the folder and its permissions");
        return ExitCode::from(exit::FAILED);
    }
    ExitCode::from(if report.interrupted { client_exit::INTERRUPTED } else { exit::OK })
}

fn fail(error: &PrepareError, output: Output) -> ExitCode {
    let (code, advice) = match error {
        PrepareError::Call(error) => return output.error("preparing", error),
        PrepareError::Target(_) => {
            (exit::USAGE, "put load on a server of this machine, such as `rendezvous serve --dev`")
        }
        PrepareError::Step { .. } => {
            (client_exit::REFUSED, "raise the server's limits, or use `rendezvous serve --dev`")
        }
        PrepareError::NoUdp => (client_exit::NOT_BOUND, "start the server with --udp"),
        PrepareError::Local(_) => (exit::FAILED, "check the limits of threads and open files"),
        PrepareError::Stopped => (client_exit::INTERRUPTED, "let it run"),
    };
    output.failure("preparing", None, &error.to_string(), advice);
    ExitCode::from(code)
}
