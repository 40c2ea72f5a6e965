//! `rendezvous load`: the load generator's command line.

#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod reference;

use std::process::ExitCode;

/// Put load on a server, or compare it with its peers
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous load compare --only p5,p6")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    #[cfg(target_os = "linux")]
    Compare(compare::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Reference(reference::Args),
}

/// Runs one of them.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.command {
        #[cfg(target_os = "linux")]
        Command::Compare(args) => compare::run(args),
        #[cfg(target_os = "linux")]
        Command::Reference(args) => reference::run(args),
    }
}
