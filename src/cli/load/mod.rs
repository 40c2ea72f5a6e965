//! `rendezvous load`: the load generator's command line.

#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod endure;
mod mixes;
#[cfg(target_os = "linux")]
mod reference;

use crate::load::generate::{Kind, Mix};
use std::process::ExitCode;

/// Put load on a server, or compare it with its peers
///
/// An open loop: each request has an instant at which it is meant to begin, and its latency counts from then, so a server
/// that stops is charged with all that waited. Everything that is registered is deleted at the end. Progress goes to
/// standard error, the result to standard output.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples, beside `rendezvous serve --dev`:
  rendezvous load mixed
  rendezvous load browse --rate 20000 --duration 30
  rendezvous load renew --rate 2000 --json
  rendezvous load admission --rate 2000
Those that start servers of their own:
  rendezvous load overload
  rendezvous load soak --seconds 60
  rendezvous load compare

Exit codes of the mixes:
  0    it ran, whatever the figures
  1    this machine: sockets, threads, the JSON file
  2    wrong command line, or a target that is not this machine
  3    the server can't be reached, or isn't a rendezvous server
  4    the server refused while listings were registered
  5    the mix needs UDP and the server has none
  130  ended by Ctrl-C, after cleaning up")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Fetch pages of listings, conditionally now and then
    Browse(mixes::Common),
    /// Register and delete listings in turn
    Register(mixes::Common),
    /// Renew leases by compare-and-swap
    Renew(mixes::Common),
    /// Keep presence over UDP, authenticated
    Presence(mixes::Common),
    /// Join: the attempt, both binds, the introduction
    Join(mixes::Common),
    /// Send sessions of the command plane inputs that nobody applies and that expire
    Admission(mixes::Admission),
    /// All but commands by weight
    Mixed {
        /// Weights of browse, register, renew, presence and join
        #[arg(long, value_name = "WEIGHTS", default_value_t = Mix::default())]
        weights: Mix,
        #[command(flatten)]
        common: mixes::Common,
    },
    #[cfg(target_os = "linux")]
    Overload(endure::OverloadArgs),
    #[cfg(target_os = "linux")]
    Soak(endure::SoakArgs),
    #[cfg(target_os = "linux")]
    Compare(compare::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Reference(reference::Args),
}

/// Runs one of them.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Browse(common) => mixes::run(Mix::only(Kind::Browse), &common),
        Command::Register(common) => mixes::run(Mix::only(Kind::Register), &common),
        Command::Renew(common) => mixes::run(Mix::only(Kind::Renew), &common),
        Command::Presence(common) => mixes::run(Mix::only(Kind::Presence), &common),
        Command::Join(common) => mixes::run(Mix::only(Kind::Join), &common),
        Command::Admission(args) => mixes::run_admission(&args),
        Command::Mixed { weights, common } => mixes::run(weights, &common),
        #[cfg(target_os = "linux")]
        Command::Overload(args) => endure::overload(&args),
        #[cfg(target_os = "linux")]
        Command::Soak(args) => endure::soak(&args),
        #[cfg(target_os = "linux")]
        Command::Compare(args) => compare::run(args),
        #[cfg(target_os = "linux")]
        Command::Reference(args) => reference::run(args),
    }
}
