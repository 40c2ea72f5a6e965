//! What the machine says and does: cores, CPU time of processes, congestion control.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::time::Duration;

/// Where servers and the generator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// One core each.
    Apart {
        /// All servers, one of which works at a time.
        server: usize,
        /// This process.
        generator: usize,
    },
    /// This process may use one core only: nothing is pinned, and figures say little.
    Shared,
}

impl Cores {
    /// The first two cores that this process may use.
    pub(super) fn choose() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Ok(match (cores.next(), cores.next()) {
            (Some(server), Some(generator)) => Self::Apart { server, generator },
            _ => Self::Shared,
        })
    }

    /// Keeps the calling thread, and children that it starts from here on, where servers belong.
    pub(super) fn go_to_server(self) -> io::Result<()> {
        match self {
            Self::Apart { server, .. } => pin(server),
            Self::Shared => Ok(()),
        }
    }

    /// Keeps the calling thread where the generator belongs.
    pub(super) fn go_to_generator(self) -> io::Result<()> {
        match self {
            Self::Apart { generator, .. } => pin(generator),
            Self::Shared => Ok(()),
        }
    }
}

fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// User and system time of a process so far, its threads included, its children not.
///
/// # Errors
/// The process is gone, or `/proc` isn't there.
pub(crate) fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Fields 14 and 15 of `proc_pid_stat(5)`; the name in field 2 may hold anything, parentheses too.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The processes whose parent is `pid`.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|candidate| parent(*candidate) == Some(pid)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The congestion control of new TCP connections in this network namespace.
pub(super) fn congestion_control() -> String {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_process_name_shifts_no_field() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 9 9 20 0 1 0 100 0 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (a"), None);
    }

    #[test]
    fn this_process_has_used_time_and_has_a_parent() {
        assert!(cpu_time(std::process::id()).is_ok());
        let parent = parent(std::process::id()).unwrap();
        assert!(children(parent).contains(&std::process::id()));
    }
}
