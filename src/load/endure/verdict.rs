//! What a run has shown: rows of a claim, what was seen, and whether it holds.

use crate::load::table;
use serde_json::{Value, json};

/// One claim.
#[derive(Clone, Debug)]
struct Row {
    claim: String,
    seen: String,
    holds: bool,
}

/// All claims of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    rows: Vec<Row>,
    /// Said below the table, and judged by nobody.
    notes: Vec<String>,
}

impl Verdict {
    pub(super) fn claim(&mut self, claim: impl Into<String>, seen: impl Into<String>, holds: bool) {
        self.rows.push(Row { claim: claim.into(), seen: seen.into(), holds });
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether every claim holds.
    pub(crate) fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.holds)
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut rows = vec![["claim", "seen", ""].map(str::to_owned).to_vec()];
        for row in &self.rows {
            let word = if row.holds { "holds" } else { "BROKEN" };
            rows.push(vec![row.claim.clone(), row.seen.clone(), word.to_owned()]);
        }
        let mut lines = table::lines(&rows);
        if !self.notes.is_empty() {
            lines.push(String::new());
            lines.extend(self.notes.iter().cloned());
        }
        lines.join("\n")
    }

    /// For scripts.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<_> =
            self.rows.iter().map(|row| json!({ "claim": row.claim, "seen": row.seen, "holds": row.holds })).collect();
        json!({ "holds": self.holds(), "claims": rows, "notes": self.notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broken_claim_breaks_the_verdict() {
        let mut verdict = Verdict::default();
        verdict.claim("counts", "0", true);
        assert!(verdict.holds());
        verdict.claim("memory", "+9 MiB", false);
        verdict.note("on this machine");
        assert!(!verdict.holds() && verdict.text().contains("BROKEN") && verdict.text().ends_with("on this machine"));
        assert_eq!(verdict.json()["claims"][1]["holds"], false);
    }
}
