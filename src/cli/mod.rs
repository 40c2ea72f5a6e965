//! The command line.

mod browse;
mod completions;
mod config;
mod demo;
mod doctor;
mod host;
mod join;
mod load;
mod output;
mod peers;
mod serve;
mod session;
mod worker;

use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit codes that all commands share; each command's help lists its own.
pub(crate) mod exit {
    /// It worked.
    pub(crate) const OK: u8 = 0;
    /// Something on this machine, or a second signal.
    pub(crate) const FAILED: u8 = 1;
    /// Wrong command line or configuration.
    pub(crate) const USAGE: u8 = 2;
    /// `serve`: the store or an edge is lost.
    pub(crate) const LOST: u8 = 3;
}

/// A self-hosted session directory and NAT rendezvous for multiplayer games
#[derive(Parser)]
#[command(name = "rendezvous", version, after_help = "Start with:\n  rendezvous serve --dev")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Serve(serve::Args),
    Host(host::Args),
    Browse(browse::Args),
    Join(join::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Session(session::Args),
    Worker(worker::Args),
    Load(load::Args),
    Config(config::Args),
    Completions(completions::Args),
}

/// Runs the program.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Host(args) => host::run(args),
        Command::Browse(args) => browse::run(args),
        Command::Join(args) => join::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Session(args) => session::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Load(args) => load::run(args),
        Command::Config(args) => config::run(args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
    }
}

/// The environment. A name that is not Unicode is none of our keys, or an unknown one.
fn environment() -> Vec<(String, OsString)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value)).collect()
}
