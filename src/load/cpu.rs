//! CPU time of a process, from Linux's `/proc`.

use std::io;
use std::time::Duration;

/// User and system time of a process so far, its threads included, its children not.
///
/// # Errors
/// The process is gone, or `/proc` isn't there.
pub(crate) fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second() as f64))
}

/// Fields 14 and 15 of `proc_pid_stat(5)`; the name in field 2 may hold anything, parentheses too.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(target_os = "linux")]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Without `/proc` there are no ticks to count.
#[cfg(not(target_os = "linux"))]
fn ticks_per_second() -> u64 {
    100
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
    fn a_process_that_is_gone_has_no_time() {
        assert!(cpu_time(std::process::id()).is_ok());
        assert!(cpu_time(u32::MAX).is_err());
    }
}
