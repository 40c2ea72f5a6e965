//! `rendezvous load reference`: what `load compare` measures against where no peer exists.

use crate::cli::exit;
use crate::cli::output::complain;
use crate::load::reference::{Reference, serve};
use std::path::PathBuf;
use std::process::ExitCode;

/// Serve constants, for `load compare`
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(clap::Subcommand, Debug)]
enum Kind {
    /// Bare hyper
    Http {
        /// A folder whose files are the answers
        #[arg(long, value_name = "FOLDER")]
        pages: PathBuf,
    },
    /// A loop that receives and sends
    Udp {
        /// Bytes of each answer
        #[arg(long, value_name = "BYTES")]
        answer_bytes: usize,
    },
}

/// Serves until it is ended.
pub(crate) fn run(args: Args) -> ExitCode {
    let reference = match args.kind {
        Kind::Http { pages } => Reference::Http(pages),
        Kind::Udp { answer_bytes } => Reference::Udp(answer_bytes),
    };
    match serve(&reference) {
        Ok(()) => ExitCode::from(exit::OK),
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}
