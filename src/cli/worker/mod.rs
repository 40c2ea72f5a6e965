//! `rendezvous worker`: a sample host of the command plane.

mod game;
mod sample;

pub(super) use game::GameOptions;
pub(super) use sample::Sample;

use super::output::{Output, block_on, exit, secret, stop_signal};
use crate::client::http::CommandHost;
use crate::client::{Error, WorkerOptions};
use crate::credentials::Secret;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Run sessions that back ends ask for
///
/// A sample host of the command plane. It says what it can run and how much of it, is given sessions, and applies their
/// commands in order: `create` lists a game that players can find and join (a chat), `input` and `restore` are told,
/// `interrupt` is told and ends the session when it says `close`, `gate_response` lets a waiting player in or not. Until
/// Ctrl-C, which takes the listings down and lets the sessions go to other hosts. With several servers over one
/// PostgreSQL, give each with --server: when one fails the next is asked.
#[derive(clap::Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// The server's HTTP address; may be repeated
    #[arg(long, value_name = "URL", env = "RENDEZVOUS_SERVER", default_value = "http://127.0.0.1:8080")]
    server: Vec<String>,
    /// The host's key, one of the server's [[admission.host]]; without one, that of `serve --dev`
    #[arg(long, value_name = "KEY", env = "RENDEZVOUS_HOST_KEY", hide_env_values = true, value_parser = secret)]
    key: Option<Secret>,
    /// This host's name; no two that run at the same time may have the same
    #[arg(long, value_name = "NAME", default_value = "worker-1")]
    host: String,
    /// What it can run: the target key of a profile; `serve --dev` has `demo`
    #[arg(long, value_name = "KEY", default_value = "demo")]
    target_key: String,
    /// Most sessions at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    capacity: u32,
    /// Your game and its version, such as `arena/3`
    #[arg(long, value_name = "PROTOCOL", default_value = "arena/3")]
    protocol: String,
    /// Let each player wait until the back end answers with a gate_response
    #[arg(long)]
    gate: bool,
    /// Lifetime of leases and claims in milliseconds; the server's default otherwise
    #[arg(long, value_name = "MS")]
    ttl_ms: Option<u64>,
    /// Take so long to apply a command, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    work_ms: u64,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

const HELP: &str = "Example:
  rendezvous serve --dev
  rendezvous worker --server http://127.0.0.1:8080
  rendezvous session create --server http://127.0.0.1:8080 --profile demo --payload \"Friday night\" --wait

Events with --json: registered, acquired, claimed, applying, completed, settled, passed, listed, unlisted, knock, connected, message, \
closed, lost, released, moved, retrying, ended, failed

Exit codes:
  0  ended by Ctrl-C, and the sessions were let go
  1  this machine: no socket
  2  wrong command line
  3  ended by Ctrl-C while no server could be reached: the sessions go to other hosts when their leases lapse
  4  the server refused this host";

/// Runs until a signal.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    block_on(async move {
        match work(&args, output).await {
            Ok(code) => code,
            Err(error) => output.error("worker", &error),
        }
    })
}

async fn work(args: &Args, output: Output) -> Result<ExitCode, Error> {
    let key = args.key.clone().unwrap_or_else(|| Secret::new(crate::config::DEV_HOST_KEY));
    let servers = args.server.iter().map(|server| CommandHost::new(server, &args.host, key.clone()));
    let options = WorkerOptions {
        target_key: args.target_key.clone(),
        capacity: args.capacity,
        ttl: args.ttl_ms.map(Duration::from_millis),
    };
    let games = GameOptions { protocol: args.protocol.clone(), gate: args.gate };
    let servers = servers.collect::<Result<_, _>>()?;
    let mut sample = Sample::new(servers, options, games, Duration::from_millis(args.work_ms))?;
    let mut stop = std::pin::pin!(stop_signal());
    loop {
        let told = tokio::select! {
            () = &mut stop => break,
            told = sample.next() => told?,
        };
        output.event(told.name, told.fields, &told.text);
    }
    sample.close().await?;
    output.event("ended", json!({}), "the listings are taken down, the sessions let go");
    Ok(ExitCode::from(exit::OK))
}
