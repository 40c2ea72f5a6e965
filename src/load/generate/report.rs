//! The result of a run, as a table and as JSON.

use super::mix::Kind;
use super::tally::{KindTally, Tally};
use crate::load::table;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) mix: String,
    pub(crate) per_second: f64,
    pub(crate) connections: usize,
    pub(crate) listings: usize,
}

/// Listings at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CleanUp {
    pub(crate) deleted: u64,
    /// Still there; they end with their lease.
    pub(crate) left: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) intent: Intent,
    /// From the end of the warm-up to the last answer.
    pub(crate) measured: Duration,
    pub(crate) tally: Tally,
    /// Of the server process, when it was named.
    pub(crate) server_cpu: Option<Duration>,
    pub(crate) clean_up: CleanUp,
    /// Ended by a signal.
    pub(crate) interrupted: bool,
}

/// Quantiles that are shown.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

impl Report {
    fn sum(&self, of: impl Fn(&KindTally) -> u64) -> u64 {
        self.tally.kinds.values().map(of).sum()
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.measured.as_secs_f64().max(1e-9)
    }

    /// Good answers per second of the server's CPU time.
    fn per_server_cpu_second(&self) -> Option<f64> {
        let seconds = self.server_cpu?.as_secs_f64();
        (seconds > 0.0).then(|| self.sum(KindTally::good) as f64 / seconds)
    }

    /// Good answers to one kind of request.
    pub(crate) fn good(&self, kind: Kind) -> u64 {
        self.tally.kinds.get(&kind).map_or(0, KindTally::good)
    }

    /// Good answers a second.
    pub(crate) fn goodput(&self) -> f64 {
        self.per_second(self.sum(KindTally::good))
    }

    /// Typed refusals.
    pub(crate) fn refusals(&self) -> u64 {
        self.sum(KindTally::refusals)
    }

    /// Their codes, each once.
    pub(crate) fn codes(&self) -> Vec<&str> {
        let all = self.tally.kinds.values().flat_map(|tally| tally.refused.keys().map(String::as_str));
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// Requests without an answer that counts.
    pub(crate) fn failed(&self) -> u64 {
        self.sum(KindTally::failed)
    }

    /// Seconds of the server's CPU time for one answer, whatever it said.
    pub(crate) fn cpu_per_answer(&self) -> Option<f64> {
        let answers = self.sum(|tally| tally.good() + tally.refusals());
        self.server_cpu.filter(|_| answers > 0).map(|cpu| cpu.as_secs_f64() / answers as f64)
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let head = ["kind", "good/s", "good", "refused", "failed", "unsent", "p50", "p90", "p99", "p99.9", "max"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (kind, tally) in &self.tally.kinds {
            let counts = [tally.good(), tally.refusals(), tally.failed(), tally.unsent].map(|count| count.to_string());
            let mut row = vec![kind.name().to_owned(), table::rate(self.per_second(tally.good()))];
            row.extend(counts);
            row.extend(times(&tally.latency));
            rows.push(row);
        }
        let mut lines = table::lines(&rows);
        lines.push(String::new());
        lines.extend(self.sentences());
        lines.join("\n")
    }

    fn sentences(&self) -> Vec<String> {
        let answered = self.sum(|tally| tally.all() - tally.unsent);
        let mut lines = vec![format!(
            "intended {}, achieved {} over {:.1} s; {} of {} could not begin in time (unsent)",
            table::rate(self.intent.per_second),
            table::rate(self.per_second(answered)),
            self.measured.as_secs_f64(),
            self.sum(|tally| tally.unsent),
            self.sum(KindTally::all),
        )];
        let late = |quantile| table::time(self.tally.lateness.value_at_quantile(quantile));
        lines.push(format!(
            "latency counts from the intended begin; requests began {} (p50) and {} (p99) after it",
            late(0.5),
            late(0.99)
        ));
        for (kind, tally) in &self.tally.kinds {
            for (code, count) in &tally.refused {
                let p99 = table::time(tally.refusal_latency.value_at_quantile(0.99));
                lines.push(format!("refused: {} {code} {count} times, all refusals p99 {p99}", kind.name()));
            }
            for (name, count) in [
                ("timed out", tally.timed_out),
                ("connection broken", tally.broken),
                ("unexpected answer", tally.unexpected),
            ] {
                if count > 0 {
                    lines.push(format!("failed: {} {name} {count} times", kind.name()));
                }
            }
        }
        if let (Some(cpu), Some(rate)) = (self.server_cpu, self.per_server_cpu_second()) {
            let rate = table::rate(rate);
            lines.push(format!("server CPU {:.2} s: {rate} good answers per CPU second", cpu.as_secs_f64()));
        }
        let CleanUp { deleted, left } = self.clean_up;
        lines.push(match left {
            0 => format!("cleaned up: {deleted} listings deleted"),
            _ => format!("cleaned up: {deleted} listings deleted, {left} left; they end with their lease"),
        });
        if self.interrupted {
            lines.push("ended early by a signal".to_owned());
        }
        lines
    }

    /// For scripts: times in nanoseconds.
    pub(crate) fn json(&self) -> Value {
        let kinds: serde_json::Map<String, Value> =
            self.tally.kinds.iter().map(|(kind, tally)| (kind.name().to_owned(), self.kind_json(tally))).collect();
        let answered = self.sum(|tally| tally.all() - tally.unsent);
        json!({
            "mix": self.intent.mix,
            "connections": self.intent.connections,
            "listings": self.intent.listings,
            "interrupted": self.interrupted,
            "measured_ms": u64::try_from(self.measured.as_millis()).unwrap_or(u64::MAX),
            "intended_per_second": self.intent.per_second,
            "achieved_per_second": self.per_second(answered),
            "goodput_per_second": self.per_second(self.sum(KindTally::good)),
            "requests": self.sum(KindTally::all),
            "unsent": self.sum(|tally| tally.unsent),
            "warm_up_requests": self.tally.warm_up,
            "begun_late_ns": quantiles(&self.tally.lateness),
            "kinds": kinds,
            "server_cpu_ms": self.server_cpu.map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
            "good_per_server_cpu_second": self.per_server_cpu_second(),
            "clean_up": { "deleted": self.clean_up.deleted, "left": self.clean_up.left },
        })
    }

    fn kind_json(&self, tally: &KindTally) -> Value {
        json!({
            "good": tally.good(),
            "goodput_per_second": self.per_second(tally.good()),
            "not_modified": tally.not_modified,
            "refused": tally.refused,
            "timed_out": tally.timed_out,
            "broken": tally.broken,
            "unexpected": tally.unexpected,
            "unsent": tally.unsent,
            "latency_ns": quantiles(&tally.latency),
            "refusal_latency_ns": quantiles(&tally.refusal_latency),
        })
    }
}

fn times(latency: &Histogram<u64>) -> Vec<String> {
    let shown = |ns| if latency.is_empty() { String::new() } else { table::time(ns) };
    let quantiles = QUANTILES.iter().map(|(_, quantile)| shown(latency.value_at_quantile(*quantile)));
    quantiles.chain([shown(latency.max())]).collect()
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let mut object: serde_json::Map<String, Value> = QUANTILES
        .iter()
        .map(|(name, quantile)| ((*name).to_owned(), json!(histogram.value_at_quantile(*quantile))))
        .collect();
    object.insert("max".to_owned(), json!(histogram.max()));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::super::mix::Kind;
    use super::super::tally::{Outcome, Times};
    use super::*;
    use crate::client::Code;
    use crate::domain::MonoTime;

    fn report() -> Report {
        let mut tally = Tally::new(MonoTime(0));
        let times = |ms: u64| Times { intended: MonoTime(0), begun: MonoTime(0), ended: MonoTime(ms * 1_000_000) };
        (1..=100).for_each(|ms| tally.answered(Kind::Browse, Outcome::Done, times(ms)));
        tally.answered(Kind::Renew, Outcome::refused(&Code::CapacityExceeded), times(2));
        tally.answered(Kind::Renew, Outcome::TimedOut, times(5_000));
        tally.unsent(Kind::Renew, MonoTime(1));
        Report {
            intent: Intent { mix: "browse=1".into(), per_second: 60.0, connections: 4, listings: 9 },
            measured: Duration::from_secs(2),
            tally,
            server_cpu: Some(Duration::from_millis(500)),
            clean_up: CleanUp { deleted: 8, left: 1 },
            interrupted: false,
        }
    }

    #[test]
    fn the_table_tells_every_kind_and_every_refusal() {
        let text = report().text();
        let browse = text.lines().find(|line| line.starts_with("browse")).unwrap();
        assert!(browse.contains("50/s") && browse.contains("100"), "{browse}");
        for part in [
            "intended 60/s",
            "1 of 103 could not begin",
            "renew capacity_exceeded 1 times",
            "renew timed out 1 times",
            "200/s good answers per CPU second",
            "8 listings deleted, 1 left",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
    }

    #[test]
    fn json_has_the_same_figures() {
        let json = report().json();
        assert_eq!(json["goodput_per_second"], 50.0);
        assert_eq!(json["achieved_per_second"], 51.0);
        assert_eq!((&json["requests"], &json["unsent"]), (&json!(103), &json!(1)));
        assert_eq!(json["kinds"]["renew"]["refused"]["capacity_exceeded"], 1);
        assert_eq!(json["kinds"]["renew"]["timed_out"], 1);
        let p99 = json["kinds"]["browse"]["latency_ns"]["p99"].as_u64().unwrap();
        assert!(p99.abs_diff(99_000_000) < 200_000, "{p99}");
        assert_eq!(json["good_per_server_cpu_second"], 200.0);
        assert_eq!(json["clean_up"]["left"], 1);
    }
}
