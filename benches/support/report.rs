//! The table at the end of a bench, and the same as JSON in `target/bench-results/`.

use std::fmt::Write as _;
use std::path::PathBuf;

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// Shown only as colour.
    None,
}

/// Which way of two figures of one unit is better.
#[derive(Clone, Copy, Debug)]
pub enum Better {
    Lower,
    Higher,
}

struct Row {
    id: &'static str,
    what: String,
    baseline: Option<f64>,
    figure: f64,
    unit: &'static str,
    ratio: Option<f64>,
    bar: Bar,
}

pub struct Report {
    name: &'static str,
    title: String,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self { name, title: title.into(), rows: Vec::new() }
    }

    /// A figure against the baseline's; the bar is on how many times better it is.
    pub fn compare(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        (baseline, figure): (f64, f64),
        (unit, better): (&'static str, Better),
        bar: Bar,
    ) {
        let ratio = match better {
            Better::Lower => baseline / figure,
            Better::Higher => figure / baseline,
        };
        let what = what.into();
        self.rows.push(Row { id, what, baseline: Some(baseline), figure, unit, ratio: Some(ratio), bar });
    }

    /// A figure of its own; the bar is on the figure.
    pub fn figure(&mut self, id: &'static str, what: impl Into<String>, figure: f64, unit: &'static str, bar: Bar) {
        self.rows.push(Row { id, what: what.into(), baseline: None, figure, unit, ratio: None, bar });
    }

    /// Prints the table and writes the JSON.
    pub fn finish(self) {
        let (title, rule) = (&self.title, "-");
        println!("\n{title}");
        println!(
            "| bar | {:<62} | {:>12} | {:>12} | unit  | {:>9} | {:>10} | met |",
            "what", "single lock", "lane", "ratio", "bar"
        );
        println!("|-----|{rule:->64}|{rule:->14}|{rule:->14}|-------|{rule:->11}|{rule:->12}|-----|");
        let mut json = format!("{{\"bench\":\"{}\",\"title\":\"{title}\",\"rows\":[", self.name);
        for (place, row) in self.rows.iter().enumerate() {
            let held = row.ratio.unwrap_or(row.figure);
            let (bar, is_met) = match row.bar {
                Bar::AtLeast(bar) => (format!(">= {bar}"), Some(held >= bar)),
                Bar::AtMost(bar) => (format!("<= {bar}"), Some(held <= bar)),
                Bar::None => (String::new(), None),
            };
            let met = is_met.map_or("", |is_met| if is_met { "yes" } else { "NO" });
            let baseline = row.baseline.map_or(String::new(), |baseline| format!("{baseline:.1}"));
            let ratio = row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            println!(
                "| {:<3} | {:<62} | {baseline:>12} | {:>12.2} | {:<5} | {ratio:>9} | {bar:>10} | {met:<3} |",
                row.id, row.what, row.figure, row.unit
            );
            let number = |value: Option<f64>| value.map_or("null".into(), |value| format!("{value:.3}"));
            let _ = write!(
                json,
                "{}{{\"bar_id\":\"{}\",\"what\":\"{}\",\"baseline\":{},\"figure\":{:.3},\"unit\":\"{}\",\"ratio\":{},\"bar\":\"{bar}\",\"met\":{}}}",
                if place == 0 { "" } else { "," },
                row.id,
                row.what,
                number(row.baseline),
                row.figure,
                row.unit,
                number(row.ratio),
                is_met.map_or("null".into(), |is_met| is_met.to_string()),
            );
        }
        json.push_str("]}\n");
        let path = results_dir().join(format!("{}.json", self.name));
        if let Err(error) = std::fs::write(&path, json) {
            eprintln!("{} could not be written: {error}", path.display());
        }
    }
}

/// Where benches leave their results.
pub fn results_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let dir = target.join("bench-results");
    if let Err(error) = std::fs::create_dir_all(&dir) {
        eprintln!("{} could not be made: {error}", dir.display());
    }
    dir
}
