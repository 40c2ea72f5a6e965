//! `rendezvous config`: what could be configured, and whether a file is right.

use super::exit;
use super::output::{complain, say};
use crate::config::{Layers, default_text};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print every key of the configuration, or check a file before a restart
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Print every key with its built-in value, its unit and its reason, as a file to start from
    #[command(after_help = "Example:\n  rendezvous config default > rendezvous.toml")]
    Default,
    /// Check a file, with what the environment adds: every mistake is named with its key, what was expected and what was seen
    #[command(after_help = "Example:\n  rendezvous config check rendezvous.toml\n\nExit codes: 0 right, 2 wrong")]
    Check {
        /// The TOML file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Check it as `serve --dev` would read it
        #[arg(long)]
        dev: bool,
    },
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.what {
        What::Default => {
            // A reader that has gone away is no reason to fail.
            let _gone = std::io::stdout().lock().write_all(default_text().as_bytes());
            ExitCode::from(exit::OK)
        }
        What::Check { file, dev } => {
            let layers = Layers { dev, file: Some(file.clone()), environment: super::environment(), flags: Vec::new() };
            match layers.load() {
                Ok(config) => {
                    say(&format!("{}: right, {} tenant(s)", file.display(), config.tenants.len()));
                    ExitCode::from(exit::OK)
                }
                Err(errors) => {
                    complain(&errors.to_string());
                    ExitCode::from(exit::USAGE)
                }
            }
        }
    }
}
