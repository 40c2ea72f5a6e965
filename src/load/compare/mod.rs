//! `rendezvous load compare`: the bars P5 to P8, each side by side with its peer in one run.
//!
//! Servers share one core and work one at a time; the generator has the other. Every side is driven by the same closed
//! loop over as many connections. What decides is answers per second of the server's CPU time: where the generator is the
//! limit, answers a second would only show the generator.

mod bars;
mod child;
mod error;
mod http;
mod machine;
mod measure;
pub(crate) mod network;
mod peers;
mod prepare;
mod redis;
mod report;
mod tcp;
mod udp;

pub(crate) use bars::Bar;
pub(crate) use error::CompareError;
pub(crate) use report::Comparison;

use crate::clock::{Clock, SystemClock};
use crate::domain::MonoTime;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What to compare, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Bars to measure.
    pub(crate) bars: Vec<Bar>,
    /// Rounds, each with every contender once.
    pub(crate) pairs: usize,
    /// One contender's share of a round.
    pub(crate) length: Duration,
    /// Before each share.
    pub(crate) warm_up: Duration,
    /// Connections over TCP, the same for all.
    pub(crate) connections: usize,
    /// Listings that are renewed and kept present.
    pub(crate) listings: usize,
}

impl Options {
    /// Least listings: every connection, and every datagram on the way, has one of its own.
    pub(crate) fn listings_min(&self) -> usize {
        self.connections.max(udp::SOURCES * udp::DEPTH)
    }
}

/// Measures. Tells each step through `progress`; ends early when `stop` is set.
///
/// # Errors
/// A server that is there could not be started or answered what can't be counted. A peer that isn't installed is no error.
pub(crate) fn run(
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Comparison, CompareError> {
    let clock = SystemClock::new();
    let cores = machine::Cores::choose().map_err(error::system("the cores of this process"))?;
    let timing =
        Timing { clock: &clock, cores, pairs: options.pairs, length: options.length, warm_up: options.warm_up, stop };
    bars::measure(options, &timing, progress)
}

/// The clock, the cores and the lengths of all runs.
struct Timing<'a> {
    clock: &'a SystemClock,
    cores: machine::Cores,
    pairs: usize,
    length: Duration,
    warm_up: Duration,
    stop: &'a AtomicBool,
}

impl Timing<'_> {
    fn run(&self, length: Duration) -> Run<'_> {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let end = MonoTime(self.clock.mono().0.saturating_add(length_ns));
        Run { clock: self.clock, end, stop: self.stop }
    }
}

/// One run of a closed loop.
#[derive(Clone, Copy)]
struct Run<'a> {
    clock: &'a SystemClock,
    end: MonoTime,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    fn is_over(&self, now: MonoTime) -> bool {
        self.end.is_past(now) || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        // A flag and nothing else is told through it.
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
struct Ran {
    answers: u64,
    lost: u64,
    /// When the last answer came.
    ended: MonoTime,
}

/// Appends a number in decimal, without an allocation.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 4_096, u64::MAX] {
            let mut out = b"v=".to_vec();
            push_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("v={number}"));
        }
    }
}
