//! Tables for a terminal: columns as wide as their widest cell, numbers to the right.

/// Lines of a table; the first row is the head. Columns whose cells are numbers stand to the right.
pub(crate) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let is_number = |column: usize| {
        let cells = rows.iter().skip(1).filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        cells.clone().count() > 0
            && cells.clone().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    };
    let right: Vec<bool> = (0..columns).map(is_number).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A rate as people read it: `1,234/s` up to ten thousand, `12.3 k/s` above.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 10_000.0 { format!("{per_second:.0}/s") } else { format!("{:.1} k/s", per_second / 1_000.0) }
}

/// A time as people read it, from nanoseconds.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_end_with_text() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = lines(&[row(["what", "count", "note"]), row(["browse", "7", ""]), row(["a", "1234", "late"])]);
        assert_eq!(table, ["what    count  note", "browse      7", "a        1234  late"]);
    }

    #[test]
    fn rates_and_times_read_well() {
        assert_eq!((rate(940.4), rate(12_340.0)), ("940/s".to_owned(), "12.3 k/s".to_owned()));
        assert_eq!([time(52_300), time(12_340_000), time(1_500_000_000)], ["0.052 ms", "12.3 ms", "1.50 s"]);
    }
}
