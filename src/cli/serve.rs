//! `rendezvous serve`: the whole server.

use super::exit;
use super::output::{complain, say};
use crate::config::{Config, DEV_PROFILE, DEV_TENANT, Flags, Layers};
use crate::credentials::Secret;
use crate::server::{Exit, Server, Signals, raise_descriptor_limit};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Run the server
///
/// Values come from the built-in defaults, the file, the environment (RENDEZVOUS_SECTION__KEY) and the flags, each stronger
/// than the one before. When everything is bound, one line goes to standard output:
/// `ready http=<addr> [udp=<addr>] [udp_auth=<addr>] [metrics=<addr>] instance=<id>`. The log goes to standard error.
///
/// SIGTERM or Ctrl-C begins drain: nothing new is accepted, what lives may finish, and the process ends when nobody waits
/// any more. A second signal ends it at once.
#[derive(clap::Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// A TOML file; `rendezvous config default` prints one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// HTTP listener; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// UDP listener that also answers plain STUN requests; may be repeated. With --udp or --udp-auth only what the flags name is opened
    #[arg(long, value_name = "ADDR")]
    udp: Vec<String>,
    /// UDP listener that challenges every request, for stock STUN clients; may be repeated
    #[arg(long, value_name = "ADDR")]
    udp_auth: Vec<String>,
    /// Listener of GET /metrics
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// lane or single-lock: the product, or the baseline to compare it with
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Try it out: tenant `demo` with guests, an operator key, no limiters, loopback only
    #[arg(long)]
    dev: bool,
    /// text or json
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
    /// error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

const HELP: &str = "Examples:
  rendezvous serve --dev
  rendezvous serve --config rendezvous.toml --metrics 127.0.0.1:9464 --log json

Exit codes:
  0  drained after a signal
  1  a second signal, or an address could not be bound
  2  wrong command line or configuration
  3  a store or an edge panicked (a bug): let the supervisor start it again";

impl Args {
    fn flags(&self) -> Flags {
        let one = |flag, key, value: &Option<String>| value.clone().map(|value| (flag, key, value));
        let all = |flag, key, values: &[String]| (!values.is_empty()).then(|| (flag, key, values.join(",")));
        [
            one("--http", "server.http", &self.http),
            all("--udp", "server.udp", &self.udp),
            all("--udp-auth", "server.udp_auth", &self.udp_auth),
            one("--metrics", "server.metrics", &self.metrics),
            one("--store", "server.store", &self.store),
            one("--log", "log.format", &self.log),
            one("--log-level", "log.level", &self.log_level),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Runs until a signal.
pub(crate) fn run(args: Args) -> ExitCode {
    let begun = Instant::now();
    let layers =
        Layers { dev: args.dev, file: args.config.clone(), environment: super::environment(), flags: args.flags() };
    let mut config = match layers.load() {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return ExitCode::from(exit::USAGE);
        }
    };
    let generated = match config.ensure_dev_operator_key() {
        Ok(generated) => generated,
        Err(error) => return fail(&error),
    };
    let log = match crate::telemetry::init(&config.log) {
        Ok(log) => log,
        Err(error) => return fail(&error),
    };
    // From here on through the log: nobody may be reading, and the signals have to be heard.
    let fail = |error: &dyn std::error::Error| {
        log.say(&format!("error: {error}"));
        ExitCode::from(exit::FAILED)
    };
    raise_descriptor_limit(&config);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = runtime.block_on(async {
        let signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return fail(&error),
        };
        let server = match Server::start(config.clone()).await {
            Ok(server) => server,
            Err(error) => return fail(&error),
        };
        say(&server.ready_line());
        if config.dev {
            log.say(&dev_text(&server, &config, generated.as_ref(), begun));
        }
        ExitCode::from(match server.run_until_signal(signals).await {
            Exit::Drained => exit::OK,
            Exit::Forced => exit::FAILED,
            Exit::Lost => exit::LOST,
        })
    });
    // Whatever still runs has had its grace.
    runtime.shutdown_background();
    code
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    complain(&format!("error: {error}"));
    ExitCode::from(exit::FAILED)
}

/// What to try next, ready to paste.
fn dev_text(server: &Server, config: &Config, generated: Option<&Secret>, begun: Instant) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "rendezvous".to_owned());
    let scheme = if config.tls.files().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", server.http_addr());
    let common = format!("--server {url} --tenant {DEV_TENANT}");
    let key = generated.map_or("$RENDEZVOUS_OPERATOR_KEY", Secret::expose);
    let shown = match generated {
        Some(key) => format!("{}, made for this run", key.expose()),
        None => "the one from RENDEZVOUS_OPERATOR_KEY or the configuration".to_owned(),
    };
    format!(
        "ready after {ms} ms; {url}/ shows what is there, {url}/openapi.json describes the API\n\
         Development mode: anybody on this machine may be a guest of tenant `{DEV_TENANT}`, and nothing is rate limited.\n\
         It is not for the internet, and refuses addresses that are not loopback.\n\
         Operator key: {shown}.\n\n\
         Try next, each in a terminal of its own:\n  \
         {program} host {common} --protocol arena/3 --name \"Friday night\"\n  \
         {program} browse {common} --protocol arena/3\n  \
         {program} join {common} LISTING_ID\n  \
         {program} worker --server {url}\n  \
         {program} session create {common} --profile {DEV_PROFILE} --wait\n  \
         curl -H \"Authorization: Bearer {key}\" {url}/v1/operator/status\n",
        ms = begun.elapsed().as_millis(),
    )
}
