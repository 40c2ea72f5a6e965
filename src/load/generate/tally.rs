//! What became of the requests: counts by kind and outcome, and latencies from the instant at which each was meant to begin.

use super::mix::Kind;
use crate::client::Code;
use crate::domain::MonoTime;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Shortest latency that is told apart, and the longest: nothing waits longer than its own time-out and its lateness.
const LATENCY_NS: (u64, u64) = (1_000, 600_000_000_000);
/// Three digits: 1.23 ms and 1.24 ms are told apart.
const DIGITS: u8 = 3;

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it was for.
    Done,
    /// A page had not changed: 304.
    NotModified,
    /// The server said no, by code: over UDP `udp-` with the STUN error and the reason.
    Refused(String),
    /// No answer within the time-out. Whether it happened is unknown.
    TimedOut,
    /// The connection could not be made or broke. Whether it happened is unknown.
    Broken,
    /// An answer that no contract allows, or nothing left to ask for.
    Unexpected,
}

impl Outcome {
    /// A refusal by its code. Codes that this program doesn't know are one, so that no server fills the table.
    pub(crate) fn refused(code: &Code) -> Self {
        let is_known = !matches!(code, Code::Unrecognised(_));
        Self::Refused(if is_known { code.as_str() } else { "unrecognised" }.to_owned())
    }

    fn is_good(&self) -> bool {
        matches!(self, Self::Done | Self::NotModified)
    }
}

/// Counts of one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct KindTally {
    pub(crate) done: u64,
    pub(crate) not_modified: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) timed_out: u64,
    pub(crate) broken: u64,
    pub(crate) unexpected: u64,
    pub(crate) unsent: u64,
    /// Of good answers, from the intended begin.
    pub(crate) latency: Histogram<u64>,
    /// Of refusals, from the intended begin: a refusal has to be quick.
    pub(crate) refusal_latency: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    let (low, high) = LATENCY_NS;
    Histogram::new_with_bounds(low, high, DIGITS).unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

impl KindTally {
    fn new() -> Self {
        Self {
            done: 0,
            not_modified: 0,
            refused: BTreeMap::new(),
            timed_out: 0,
            broken: 0,
            unexpected: 0,
            unsent: 0,
            latency: histogram(),
            refusal_latency: histogram(),
        }
    }

    /// Good answers.
    pub(crate) fn good(&self) -> u64 {
        self.done + self.not_modified
    }

    /// All refusals.
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Without an answer that counts.
    pub(crate) fn failed(&self) -> u64 {
        self.timed_out + self.broken + self.unexpected
    }

    /// Everything, unsent included.
    pub(crate) fn all(&self) -> u64 {
        self.good() + self.refusals() + self.failed() + self.unsent
    }

    fn note(&mut self, outcome: Outcome, latency_ns: u64) {
        match outcome {
            Outcome::Done => self.done += 1,
            Outcome::NotModified => self.not_modified += 1,
            Outcome::Refused(code) => {
                *self.refused.entry(code).or_default() += 1;
                self.refusal_latency.saturating_record(latency_ns);
                return;
            }
            Outcome::TimedOut => self.timed_out += 1,
            Outcome::Broken => self.broken += 1,
            Outcome::Unexpected => self.unexpected += 1,
        }
        self.latency.saturating_record(latency_ns);
    }
}

/// One second of everything, for the progress line.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) good: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) unsent: u64,
    pub(crate) latency: Histogram<u64>,
}

impl Interval {
    fn new() -> Self {
        Self { good: 0, refused: 0, failed: 0, unsent: 0, latency: histogram() }
    }
}

/// When one request was meant to begin, began and ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) intended: MonoTime,
    pub(crate) begun: MonoTime,
    pub(crate) ended: MonoTime,
}

/// All counts. What was meant to begin before the warm-up's end shows in the progress only.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    measured_from: MonoTime,
    pub(crate) kinds: BTreeMap<Kind, KindTally>,
    /// From the intended begin to the true one: what the generator itself added, or a backlog.
    pub(crate) lateness: Histogram<u64>,
    /// Meant to begin during the warm-up.
    pub(crate) warm_up: u64,
    /// When the last answer that counts came.
    pub(crate) ended: MonoTime,
    interval: Interval,
}

impl Tally {
    pub(crate) fn new(measured_from: MonoTime) -> Self {
        Self {
            measured_from,
            kinds: BTreeMap::new(),
            lateness: histogram(),
            warm_up: 0,
            ended: measured_from,
            interval: Interval::new(),
        }
    }

    /// Counts an answer.
    pub(crate) fn answered(&mut self, kind: Kind, outcome: Outcome, times: Times) {
        let latency_ns = times.ended.0.saturating_sub(times.intended.0);
        let is_good = outcome.is_good();
        let refused = matches!(outcome, Outcome::Refused(_));
        self.interval.good += u64::from(is_good);
        self.interval.refused += u64::from(refused);
        self.interval.failed += u64::from(!is_good && !refused);
        self.interval.latency.saturating_record(latency_ns);
        if times.intended < self.measured_from {
            self.warm_up += 1;
            return;
        }
        self.ended = self.ended.max(times.ended);
        self.lateness.saturating_record(times.begun.0.saturating_sub(times.intended.0));
        self.kind(kind).note(outcome, latency_ns);
    }

    /// Counts a request that could not begin in time.
    pub(crate) fn unsent(&mut self, kind: Kind, intended: MonoTime) {
        self.interval.unsent += 1;
        if intended < self.measured_from {
            self.warm_up += 1;
        } else {
            self.kind(kind).unsent += 1;
        }
    }

    /// What happened since the last call.
    pub(crate) fn take_interval(&mut self) -> Interval {
        std::mem::replace(&mut self.interval, Interval::new())
    }

    fn kind(&mut self, kind: Kind) -> &mut KindTally {
        self.kinds.entry(kind).or_insert_with(KindTally::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(intended_ms: u64, begun_ms: u64, ended_ms: u64) -> Times {
        let at = |ms: u64| MonoTime(ms * 1_000_000);
        Times { intended: at(intended_ms), begun: at(begun_ms), ended: at(ended_ms) }
    }

    #[test]
    fn latency_counts_from_the_intended_begin() {
        let mut tally = Tally::new(MonoTime(0));
        tally.answered(Kind::Browse, Outcome::Done, times(10, 110, 115));
        let browse = &tally.kinds[&Kind::Browse];
        assert_eq!(browse.latency.max() / 1_000_000, 105);
        assert_eq!(tally.lateness.max() / 1_000_000, 100);
    }

    #[test]
    fn every_outcome_has_its_count_and_the_sum_is_all() {
        let mut tally = Tally::new(MonoTime(0));
        let outcomes = [
            Outcome::Done,
            Outcome::NotModified,
            Outcome::refused(&Code::RateLimited),
            Outcome::refused(&Code::Unrecognised("made up".into())),
            Outcome::TimedOut,
            Outcome::Broken,
            Outcome::Unexpected,
        ];
        for outcome in outcomes {
            tally.answered(Kind::Renew, outcome, times(1, 1, 2));
        }
        tally.unsent(Kind::Renew, MonoTime(5));
        let renew = &tally.kinds[&Kind::Renew];
        assert_eq!((renew.good(), renew.refusals(), renew.failed(), renew.unsent), (2, 2, 3, 1));
        assert_eq!(renew.all(), 8);
        assert_eq!(renew.refused.keys().collect::<Vec<_>>(), ["rate_limited", "unrecognised"]);
        assert_eq!((renew.latency.len(), renew.refusal_latency.len()), (5, 2));
        let interval = tally.take_interval();
        assert_eq!((interval.good, interval.refused, interval.failed, interval.unsent), (2, 2, 3, 1));
        assert_eq!(tally.take_interval().good, 0);
    }

    #[test]
    fn the_warm_up_is_not_measured() {
        let mut tally = Tally::new(MonoTime(5_000_000));
        tally.answered(Kind::Browse, Outcome::Done, times(4, 4, 9));
        tally.unsent(Kind::Browse, MonoTime(4_999_999));
        tally.answered(Kind::Browse, Outcome::Done, times(5, 5, 9));
        assert_eq!((tally.warm_up, tally.kinds[&Kind::Browse].all()), (2, 1));
    }
}
