//! A network of its own: loopback with a congestion control that doesn't depend on the machine's settings.
//!
//! The congestion control of a server's connections is the kernel's default in its network namespace, and some defaults
//! pace what they send (bbr), which says more about timers than about servers. So the comparison runs again as a child of
//! `unshare`, in a namespace where the default is another. No setting of the machine is touched.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Without pacing, and every kernel has it.
const CONGESTION_CONTROL: &str = "reno";

fn unshare(script: &str) -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "sh", "-c"]).arg(format!(
        "ip link set lo up && echo {CONGESTION_CONTROL} > /proc/sys/net/ipv4/tcp_congestion_control && {script}"
    ));
    command
}

/// Runs this program again with `arguments` in a network of its own, in place of this process. Comes back only when that
/// isn't possible here, with the reason.
pub(crate) fn enter(arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    let probe = unshare("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match probe {
        Ok(status) if status.success() => {}
        Ok(_) => return io::Error::other("unshare --net is not permitted here"),
        Err(error) => return error,
    }
    match std::env::current_exe() {
        Ok(program) => unshare("exec \"$0\" \"$@\"").arg(program).args(arguments).exec(),
        Err(error) => error,
    }
}
