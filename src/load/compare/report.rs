//! Rows with their bars, as a table and as JSON.

use super::measure::{Sample, median};
use crate::load::table;
use serde_json::{Value, json};

/// What a comparison gave.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// One row per bar and peer.
    pub(crate) rows: Vec<Row>,
    /// What a reader has to know beside the figures.
    pub(crate) notes: Vec<String>,
}

/// One bar against one peer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The bar's name in the table of promises: P5 to P8.
    pub(crate) id: &'static str,
    /// What is asked.
    pub(crate) what: String,
    /// Compared with whom.
    pub(crate) peer: &'static str,
    /// The least ratio.
    pub(crate) bar: f64,
    /// Figures, or why there are none.
    pub(crate) result: RowResult,
}

/// Figures, or why there are none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowResult {
    /// Both sides ran.
    Measured {
        /// Ours, one sample a round.
        ours: Vec<Sample>,
        /// The peer's, of the same rounds.
        peer: Vec<Sample>,
    },
    /// Ours against a figure that was measured elsewhere.
    Stated {
        /// Ours, one sample a round.
        ours: Vec<Sample>,
        /// Answers a second of the peer on one core.
        peer_per_second: f64,
    },
    /// Something is missing.
    NotRun(String),
}

impl Row {
    /// The ratio that the bar is about: answers per second of server CPU time, which a slow generator can't hide, and
    /// against a stated figure answers a second.
    pub(crate) fn ratio(&self) -> Option<f64> {
        match &self.result {
            RowResult::Measured { ours, peer } => ratio(ours, peer, |sample| sample.per_cpu_second),
            RowResult::Stated { ours, peer_per_second } => {
                Some(median(ours.iter().map(|sample| sample.per_second)) / peer_per_second)
            }
            RowResult::NotRun(_) => None,
        }
    }

    /// Answers a second of wall time over the peer's.
    pub(crate) fn raw_ratio(&self) -> Option<f64> {
        match &self.result {
            RowResult::Measured { ours, peer } => ratio(ours, peer, |sample| sample.per_second),
            RowResult::Stated { .. } | RowResult::NotRun(_) => None,
        }
    }

    /// Whether the bar is met; `None` when it was not measured.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.ratio().map(|ratio| ratio >= self.bar)
    }

    fn cells(&self) -> Vec<String> {
        let number = |ratio: Option<f64>| ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let of = |samples: &[Sample], of: fn(&Sample) -> f64| median(samples.iter().map(of));
        let (ours, peer, raw) = match &self.result {
            RowResult::Measured { ours, peer } => {
                let side = |samples: &[Sample]| {
                    let busy = of(samples, |sample| sample.busy) * 100.0;
                    (table::rate(of(samples, |sample| sample.per_cpu_second)), format!("{busy:.0} %"))
                };
                let raw = |samples: &[Sample]| table::rate(of(samples, |sample| sample.per_second));
                (side(ours), side(peer), [raw(ours), raw(peer)])
            }
            RowResult::Stated { ours, peer_per_second } => {
                let busy = of(ours, |sample| sample.busy) * 100.0;
                let rate = table::rate(of(ours, |sample| sample.per_second));
                ((String::new(), format!("{busy:.0} %")), Default::default(), [rate, table::rate(*peer_per_second)])
            }
            RowResult::NotRun(_) => Default::default(),
        };
        let met = match (&self.result, self.is_met()) {
            (RowResult::NotRun(reason), _) => format!("not run: {reason}"),
            (_, Some(true)) => "yes".to_owned(),
            (_, Some(false)) => "no".to_owned(),
            (_, None) => "not measured: runs too short".to_owned(),
        };
        let [ours_raw, peer_raw] = raw;
        let bar = format!("{:.2}", self.bar);
        let cells = [ours.0, peer.0, number(self.ratio()), bar, met, ours_raw, peer_raw, number(self.raw_ratio())];
        let mut row = vec![self.id.to_owned(), self.what.clone(), self.peer.to_owned()];
        row.extend(cells);
        row.push(format!("{} {}", ours.1, peer.1).trim().to_owned());
        row
    }

    fn json(&self) -> Value {
        let samples = |samples: &[Sample]| -> Value {
            let sample = |sample: &Sample| {
                json!({ "per_second": sample.per_second, "per_server_cpu_second": sample.per_cpu_second,
                    "server_busy": sample.busy, "others_busy": sample.others, "lost": sample.lost })
            };
            samples.iter().map(sample).collect()
        };
        let mut row = json!({ "id": self.id, "what": self.what, "peer": self.peer, "bar": self.bar,
            "ratio": self.ratio(), "raw_ratio": self.raw_ratio(), "met": self.is_met() });
        match &self.result {
            RowResult::Measured { ours, peer } => {
                row["ours"] = samples(ours);
                row["theirs"] = samples(peer);
            }
            RowResult::Stated { ours, peer_per_second } => {
                row["ours"] = samples(ours);
                row["theirs_per_second_as_stated"] = json!(peer_per_second);
            }
            RowResult::NotRun(reason) => row["not_run"] = json!(reason),
        }
        row
    }
}

/// The median of the rounds' ratios: what disturbs a round disturbs both of its sides. `None` when the runs were so short
/// that no round has a figure on both sides.
fn ratio(ours: &[Sample], peer: &[Sample], of: fn(&Sample) -> f64) -> Option<f64> {
    let whole = ours.iter().zip(peer).filter(|(ours, peer)| of(ours) > 0.0 && of(peer) > 0.0);
    let ratios: Vec<f64> = whole.map(|(ours, peer)| of(ours) / of(peer)).collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

impl Comparison {
    /// What others took of the servers' core while it was measured, median of all samples.
    pub(crate) fn others(rows: &[Row]) -> f64 {
        let samples = rows.iter().flat_map(|row| match &row.result {
            RowResult::Measured { ours, peer } => [ours.as_slice(), peer.as_slice()],
            RowResult::Stated { .. } | RowResult::NotRun(_) => [&[][..], &[][..]],
        });
        median(samples.flatten().map(|sample| sample.others))
    }

    /// The table and the notes.
    pub(crate) fn text(&self) -> String {
        let head = [
            "id",
            "what",
            "peer",
            "ours/cpu-s",
            "peer/cpu-s",
            "ratio",
            "bar",
            "met?",
            "ours raw",
            "peer raw",
            "raw ratio",
            "busy",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.rows.iter().map(Row::cells));
        let mut lines = table::lines(&rows);
        lines.push(String::new());
        lines.push(format!("{} of {} bars met", self.met(), self.rows.len()));
        lines.extend(self.notes.iter().cloned());
        lines.join("\n")
    }

    /// Every sample.
    pub(crate) fn json(&self) -> Value {
        json!({ "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(), "notes": self.notes })
    }

    /// Rows whose bar is met.
    fn met(&self) -> usize {
        self.rows.iter().filter(|row| row.is_met() == Some(true)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(per_cpu_second: [f64; 3]) -> Vec<Sample> {
        per_cpu_second
            .iter()
            .map(|rate| Sample { per_second: rate / 2.0, per_cpu_second: *rate, busy: 0.5, others: 0.0, lost: 0 })
            .collect()
    }

    fn row(result: RowResult) -> Row {
        Row { id: "P5", what: "a page".into(), peer: "nginx", bar: 1.2, result }
    }

    #[test]
    fn the_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() {
        let measured =
            row(RowResult::Measured { ours: samples([10.0, 30.0, 26.0]), peer: samples([10.0, 20.0, 20.0]) });
        assert_eq!(measured.ratio(), Some(1.3));
        assert_eq!((measured.is_met(), measured.raw_ratio()), (Some(true), Some(1.3)));
        let below = row(RowResult::Measured { ours: samples([11.0; 3]), peer: samples([10.0; 3]) });
        assert_eq!(below.is_met(), Some(false));
    }

    #[test]
    fn a_run_without_a_tick_of_cpu_time_has_no_ratio() {
        let short = row(RowResult::Measured { ours: samples([10.0; 3]), peer: samples([0.0; 3]) });
        assert_eq!((short.ratio(), short.is_met()), (None, None));
        let text = Comparison { rows: vec![short], notes: Vec::new() }.text();
        assert!(text.contains("not measured: runs too short"), "{text}");
    }

    #[test]
    fn what_was_not_run_is_neither_met_nor_hidden() {
        let rows = vec![
            row(RowResult::NotRun("nginx is not installed".into())),
            row(RowResult::Stated { ours: samples([300.0; 3]), peer_per_second: 125.0 }),
        ];
        let comparison = Comparison { rows, notes: vec!["a note".into()] };
        let text = comparison.text();
        for part in ["not run: nginx is not installed", "a note", "1 of 2 bars met"] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
        let json = comparison.json();
        assert_eq!(json["rows"][0]["met"], Value::Null);
        assert_eq!(json["rows"][0]["not_run"], "nginx is not installed");
        assert_eq!(json["rows"][1]["met"], true);
        assert_eq!(json["rows"][1]["ratio"], 1.2);
    }
}
