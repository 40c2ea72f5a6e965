//! The open loop: every request has an instant at which it is meant to begin, whatever became of the ones before it.
//!
//! Latency counts from that instant, not from the sending. A server that stops for a second is then charged with every
//! request that was meant to begin in that second (Tene: coordinated omission). A request that could not begin in time is
//! not sent late without bound but counted as unsent, so that a backlog needs no memory and ends.

use crate::domain::MonoTime;

const SECOND_NS: f64 = 1e9;

/// What to do with one request at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its time has come.
    Send,
    /// It is too late for it.
    Unsent,
}

/// A fixed rate from a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    start: MonoTime,
    per_second: f64,
    total: u64,
    late_after_ns: u64,
}

impl Schedule {
    /// `seconds` of `per_second` requests; one that begins more than `late_after_ns` late is not sent.
    pub(crate) fn new(start: MonoTime, per_second: f64, seconds: f64, late_after_ns: u64) -> Self {
        // At least one, so that a run says something.
        let total = (per_second * seconds).round().max(1.0) as u64;
        Self { start, per_second, total, late_after_ns }
    }

    /// All requests.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// When request `n` is meant to begin.
    pub(crate) fn at(&self, n: u64) -> MonoTime {
        MonoTime(self.start.0.saturating_add((n as f64 * SECOND_NS / self.per_second) as u64))
    }

    /// How many are meant to have begun by now.
    pub(crate) fn due(&self, now: MonoTime) -> u64 {
        let Some(elapsed) = now.0.checked_sub(self.start.0) else { return 0 };
        let mut due = (elapsed as f64 * self.per_second / SECOND_NS) as u64;
        // Rounding in both directions must not disagree with `at`.
        while due < self.total && self.at(due) <= now {
            due += 1;
        }
        due.min(self.total)
    }

    /// How many it is too late for: every request before this one.
    pub(crate) fn late(&self, now: MonoTime) -> u64 {
        let Some(in_time) = now.0.checked_sub(self.late_after_ns) else { return 0 };
        let mut late = self.due(MonoTime(in_time));
        // The last of those that are due at the edge may just be in time.
        while late > 0 && self.turn(late - 1, now) == Turn::Send {
            late -= 1;
        }
        late
    }

    /// Whether request `n`, which is due, is still worth sending.
    pub(crate) fn turn(&self, n: u64, now: MonoTime) -> Turn {
        if now.0.saturating_sub(self.at(n).0) > self.late_after_ns { Turn::Unsent } else { Turn::Send }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_due_and_when_agree() {
        for per_second in [0.5, 3.0, 7.0, 999.0, 123_456.0] {
            let schedule = Schedule::new(MonoTime(17), per_second, 4.0, 0);
            assert_eq!(schedule.due(MonoTime(16)), 0);
            for n in 0..schedule.total() {
                let at = schedule.at(n);
                assert_eq!(schedule.due(at), n + 1, "{per_second}/s, request {n}");
                assert!(schedule.due(MonoTime(at.0 - 1)) <= n + u64::from(at.0 == 17), "{per_second}/s, request {n}");
            }
            assert_eq!(schedule.due(MonoTime::NEVER), schedule.total());
        }
    }

    /// One connection, one stall: the requests that were meant to begin during it carry its length.
    #[test]
    fn a_stall_is_charged_to_every_request_that_it_kept_waiting() {
        let (service, stall) = (MS / 10, 500 * MS);
        let schedule = Schedule::new(MonoTime(0), 1_000.0, 2.0, 1_000 * MS);
        let (mut now, mut latencies, mut naive) = (0, Vec::new(), Vec::new());
        for n in 0..schedule.total() {
            now = now.max(schedule.at(n).0);
            assert_eq!(schedule.turn(n, MonoTime(now)), Turn::Send);
            let begun = now;
            now += if n == 500 { stall } else { service };
            latencies.push(now - schedule.at(n).0);
            naive.push(now - begun);
        }
        let above = |all: &[u64], ms: u64| all.iter().filter(|ns| **ns > ms * MS).count();
        assert_eq!(above(&naive, 100), 1, "measured from the sending, the stall is one slow request");
        // After the stall the backlog shrinks by 9 in 10, so 500 ms are worked off in 555 requests.
        assert!((440..=450).contains(&above(&latencies, 100)), "{}", above(&latencies, 100));
        assert_eq!(latencies.iter().max(), Some(&stall));
    }

    #[test]
    fn what_is_late_and_whose_turn_it_is_agree() {
        for per_second in [0.5, 7.0, 999.0, 123_456.0] {
            let schedule = Schedule::new(MonoTime(17), per_second, 4.0, 200 * MS);
            for now in (0..4_400).map(|ms| MonoTime(ms * MS)) {
                let late = schedule.late(now);
                assert!(late == 0 || schedule.turn(late - 1, now) == Turn::Unsent, "{per_second}/s at {now:?}");
                assert!(
                    late == schedule.total() || schedule.turn(late, now) == Turn::Send,
                    "{per_second}/s at {now:?}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_begin_in_time_is_counted_and_nothing_is_lost() {
        let schedule = Schedule::new(MonoTime(0), 1_000.0, 3.0, 200 * MS);
        let (mut now, mut sent, mut unsent) = (0, 0_u64, 0_u64);
        for n in 0..schedule.total() {
            now = now.max(schedule.at(n).0);
            match schedule.turn(n, MonoTime(now)) {
                Turn::Send => {
                    sent += 1;
                    // Half of the rate is all that this server gives.
                    now += 2 * MS;
                }
                Turn::Unsent => unsent += 1,
            }
        }
        assert_eq!(sent + unsent, schedule.total());
        assert!((1_580..=1_620).contains(&sent), "half of 3 s, and what 200 ms of lateness carry over: {sent}");
    }
}
