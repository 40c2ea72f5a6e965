//! What the benches of the edges share: a table with a ratio and its bar, for people and as JSON.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod udp;

use std::io::Write;

/// One line: a figure, and where it is compared the ratio and what it should be at least.
pub struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    ratio: Option<f64>,
    bar: Option<f64>,
}

impl Row {
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str, ratio: Option<f64>, bar: Option<f64>) -> Self {
        Self { what: what.into(), value, unit, ratio, bar }
    }
}

/// Printed at the end of a bench, and written to `target/bench-results/<name>.json`.
pub struct Table {
    name: &'static str,
    title: String,
    rows: Vec<Row>,
}

impl Table {
    pub fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self { name, title: title.into(), rows: Vec::new() }
    }

    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub fn finish(self) {
        let shown = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
        println!("\n{}\n| {:<58} | {:>10} | unit | ratio | bar  | holds |", self.title, "what", "value");
        println!("|{:-<60}|{:->12}|------|-------|------|-------|", "", "");
        for row in &self.rows {
            let holds = match (row.ratio, row.bar) {
                (Some(ratio), Some(bar)) => {
                    if ratio >= bar {
                        "yes"
                    } else {
                        "no"
                    }
                }
                _ => "-",
            };
            let (ratio, bar) = (shown(row.ratio), shown(row.bar));
            println!(
                "| {:<58} | {:>10.1} | {:<4} | {ratio:>5} | {bar:>4} | {holds:<5} |",
                row.what, row.value, row.unit
            );
        }
        let rows: Vec<_> = self.rows.iter().map(|row| {
            serde_json::json!({"what": row.what, "value": row.value, "unit": row.unit, "ratio": row.ratio, "bar": row.bar})
        }).collect();
        let report = serde_json::json!({"bench": self.name, "title": self.title, "rows": rows});
        if let Err(error) = write(self.name, &report.to_string()) {
            eprintln!("the results could not be written: {error}");
        }
    }
}

fn write(name: &str, text: &str) -> std::io::Result<()> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let folder = std::path::Path::new(&target).join("bench-results");
    std::fs::create_dir_all(&folder)?;
    std::fs::File::create(folder.join(format!("{name}.json")))?.write_all(text.as_bytes())
}

pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
