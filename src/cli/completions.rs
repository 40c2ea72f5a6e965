//! `rendezvous completions`: what a shell needs to complete a command line.

use super::exit;
use clap_complete::Shell;
use std::io::Write;
use std::process::ExitCode;

/// Print a script by which a shell completes this program's command line
///
/// The script names what this very version knows: print it again after an update.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
bash, with the package bash-completion, in the next shell:
  mkdir -p ~/.local/share/bash-completion/completions
  rendezvous completions bash > ~/.local/share/bash-completion/completions/rendezvous
bash, in this shell only:
  source <(rendezvous completions bash)
zsh, in the next shell, with `fpath=(~/.zfunc $fpath)` before `autoload -U compinit && compinit` in ~/.zshrc:
  mkdir -p ~/.zfunc
  rendezvous completions zsh > ~/.zfunc/_rendezvous
fish, at once:
  rendezvous completions fish > ~/.config/fish/completions/rendezvous.fish

Exit codes: 0 it worked, 2 wrong command line")]
pub(crate) struct Args {
    /// Whose script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script of a shell for `command`.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    // Into memory first: written straight to a pipe whose reader has gone away, it would panic.
    clap_complete::generate(args.shell, &mut command, "rendezvous", &mut script);
    let _gone = std::io::stdout().lock().write_all(&script);
    ExitCode::from(exit::OK)
}
