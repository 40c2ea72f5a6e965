//! Rounds: every contender once in each, beginning with another one each time, and the median of their ratios.

use super::child::Server;
use super::error::CompareError;
use super::tcp::{ClosedLoop, Exchange};
use super::udp::UdpLoop;
use super::{Ran, Run, Timing};
use crate::clock::Clock;
use crate::domain::MonoTime;

/// One server and what it is asked.
pub(super) struct Contender<'a> {
    pub(super) server: &'a Server,
    pub(super) load: Load,
}

/// How a server is kept busy.
pub(super) enum Load {
    Tcp(ClosedLoop, Box<dyn Exchange>),
    Udp(UdpLoop),
}

/// What one run of one contender gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Answers a second of wall time.
    pub(crate) per_second: f64,
    /// Answers a second of the server's CPU time, user and system.
    pub(crate) per_cpu_second: f64,
    /// The server's CPU time over wall time: below one, the generator was the limit.
    pub(crate) busy: f64,
    /// What other processes took of the server's core, over wall time.
    pub(crate) others: f64,
    /// Datagrams without an answer.
    pub(crate) lost: u64,
}

impl Load {
    fn run(&mut self, run: Run<'_>) -> Result<Ran, CompareError> {
        match self {
            Self::Tcp(connections, exchange) => connections.run(exchange.as_mut(), run),
            Self::Udp(sources) => sources.run(run),
        }
    }
}

impl Contender<'_> {
    fn sample(&mut self, timing: &Timing<'_>) -> Result<Sample, CompareError> {
        self.load.run(timing.run(timing.warm_up))?;
        let (begun, cpu_begun) = (timing.clock.mono(), self.server.cpu_time()?);
        let core_begun = timing.cores.server_core_time();
        let ran = self.load.run(timing.run(timing.length))?;
        let cpu = self.server.cpu_time()?.saturating_sub(cpu_begun).as_secs_f64();
        let core = timing.cores.server_core_time().saturating_sub(core_begun).as_secs_f64();
        let wall = seconds(begun, ran.ended);
        let answers = ran.answers as f64;
        // The kernel counts in ticks: a run so short that none has passed says nothing about CPU time.
        let per_cpu_second = if cpu > 0.0 { answers / cpu } else { 0.0 };
        Ok(Sample {
            per_second: answers / wall,
            per_cpu_second,
            busy: cpu / wall,
            others: ((core - cpu) / wall).max(0.0),
            lost: ran.lost,
        })
    }
}

fn seconds(from: MonoTime, to: MonoTime) -> f64 {
    to.0.saturating_sub(from.0).max(1) as f64 / 1e9
}

/// Samples of each contender, in rounds. Two rounds never begin with the same contender if there are several.
pub(super) fn rounds(contenders: &mut [Contender<'_>], timing: &Timing<'_>) -> Result<Vec<Vec<Sample>>, CompareError> {
    let count = contenders.len();
    let mut samples = vec![Vec::with_capacity(timing.pairs); count];
    for round in 0..timing.pairs {
        for turn in 0..count {
            let contender = (round + turn) % count;
            samples[contender].push(contenders[contender].sample(timing)?);
        }
    }
    Ok(samples)
}

/// The middle value, or the mean of the two middle ones; zero of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }
}
