//! What the edges are compared with where no peer exists: the same libraries with nothing behind them. Run as hidden
//! subcommands of the binary, so that they are processes of their own with CPU time of their own.

mod http;
mod udp;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Which server, and what it answers.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// hyper that answers each path below the folder with the file's bytes, read once.
    Http(PathBuf),
    /// A loop that sends the first bytes of each datagram back, so many of them.
    Udp(usize),
}

/// Serves on loopback until the process is ended. Says `ready <addr>` on standard output.
///
/// # Errors
/// The socket, the folder, or the runtime failed.
pub(crate) fn serve(reference: &Reference) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match reference {
            Reference::Http(folder) => http::serve(folder).await,
            Reference::Udp(answer_bytes) => udp::serve(*answer_bytes).await,
        }
    })
}

fn say_ready(address: SocketAddr) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "ready {address}")?;
    stdout.flush()
}
