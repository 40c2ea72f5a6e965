//! What the machine says and does: cores, processes, congestion control.

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

impl Cores {
    /// How long the servers' core has been busy with anything so far; zero where nothing is pinned.
    pub(super) fn server_core_time(self) -> Duration {
        let Self::Apart { server, .. } = self else { return Duration::ZERO };
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = busy_ticks(&stat, server).unwrap_or(0);
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

/// Ticks of a core but for idle and waiting for disks (`proc_stat(5)`).
fn busy_ticks(stat: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user.
    let fields: Vec<u64> = line.split(' ').skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    Some(fields.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum())
}

fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
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
    fn idle_and_waiting_are_not_busy() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\ncpu10 1 2 3 1000 1000 4 5 6 7 8\n";
        assert_eq!(busy_ticks(stat, 10), Some(21));
        assert_eq!(busy_ticks(stat, 1), None);
    }

    #[test]
    fn this_process_has_a_parent() {
        let parent = parent(std::process::id()).unwrap();
        assert!(children(parent).contains(&std::process::id()));
    }
}
