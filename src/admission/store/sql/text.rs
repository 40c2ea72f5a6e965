//! Statements, made from the tables.

use crate::admission::store::records::{Scan, Table};

/// How a dialect writes the n-th parameter (from 1).
pub(crate) type Parameter = fn(usize) -> String;

fn names(table: &Table) -> String {
    table.columns.iter().map(|col| col.name).collect::<Vec<_>>().join(", ")
}

fn key_names(table: &Table) -> Vec<&'static str> {
    table.columns[..table.key_len].iter().map(|col| col.name).collect()
}

fn equal(columns: &[&str], first: usize, parameter: Parameter) -> String {
    let terms = columns.iter().enumerate().map(|(n, column)| format!("{column} = {}", parameter(first + n)));
    terms.collect::<Vec<_>>().join(" AND ")
}

/// One row by its key.
pub(crate) fn load(table: &Table, parameter: Parameter) -> String {
    format!("SELECT {} FROM {} WHERE {}", names(table), table.name, equal(&key_names(table), 1, parameter))
}

/// Writes one row, whether it was there or not.
pub(crate) fn upsert(table: &Table, parameter: Parameter) -> String {
    let values = (1..=table.columns.len()).map(parameter).collect::<Vec<_>>().join(", ");
    format!("INSERT INTO {} ({}) VALUES ({values}) {}", table.name, names(table), on_conflict(table))
}

/// What an insert does about a row that is there.
pub(crate) fn on_conflict(table: &Table) -> String {
    let set = table.columns[table.key_len..].iter().map(|col| format!("{0} = excluded.{0}", col.name));
    format!("ON CONFLICT ({}) DO UPDATE SET {}", key_names(table).join(", "), set.collect::<Vec<_>>().join(", "))
}

/// Removes one row.
pub(crate) fn delete(table: &Table, parameter: Parameter) -> String {
    format!("DELETE FROM {} WHERE {}", table.name, equal(&key_names(table), 1, parameter))
}

/// A range of an index, in its order. Parameters: the prefix, then the bound, then the last position, then the limit.
pub(crate) fn scan(scan: &Scan, parameter: Parameter) -> String {
    let index = scan.index;
    let (given, sorted) = index.columns.split_at(index.sorted);
    let mut terms = Vec::new();
    if !given.is_empty() {
        terms.push(equal(given, 1, parameter));
    }
    let mut next = given.len() + 1;
    let first = sorted[0];
    if index.table.columns[index.table.position(first)].nullable {
        terms.push(format!("{first} IS NOT NULL"));
    }
    for column in given.iter().filter(|column| index.table.columns[index.table.position(column)].nullable) {
        terms.push(format!("{column} IS NOT NULL"));
    }
    if scan.upto.is_some() {
        terms.push(format!("{first} <= {}", parameter(next)));
        next += 1;
    }
    if scan.after.is_some() {
        let places = (next..next + sorted.len()).map(parameter).collect::<Vec<_>>().join(", ");
        terms.push(format!("({}) > ({places})", sorted.join(", ")));
        next += sorted.len();
    }
    format!(
        "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {}",
        scan.selected().join(", "),
        index.table.name,
        terms.join(" AND "),
        sorted.join(", "),
        parameter(next)
    )
}

/// The values that [`scan`] asks for, but for the limit.
pub(crate) fn scan_values(scan: &Scan) -> Vec<crate::admission::store::records::Value> {
    let mut values = scan.prefix.clone();
    values.extend(scan.upto.clone());
    values.extend(scan.after.iter().flatten().cloned());
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::store::records::{DUE, DUE_COLUMNS, HOST, PLACEMENT, Value};

    fn question(n: usize) -> String {
        format!("?{n}")
    }

    #[test]
    fn statements_are_what_one_would_write() {
        assert_eq!(
            load(&HOST, question),
            "SELECT host, credential, target_key, capacity, placed, seen_until FROM host WHERE host = ?1"
        );
        let due = Scan {
            upto: Some(Value::Int(9)),
            after: Some(vec![Value::Null; 4]),
            columns: Some(&DUE_COLUMNS),
            ..Scan::of(&DUE, vec![Value::Null, Value::Null], 5)
        };
        assert_eq!(
            scan(&due, question),
            "SELECT tenant, session, seq, due_at, state, revision, claim_until FROM command WHERE family = ?1 AND \
             shard = ?2 AND due_at IS NOT NULL AND due_at <= ?3 AND (due_at, tenant, session, seq) > (?4, ?5, ?6, ?7) \
             ORDER BY due_at, tenant, session, seq LIMIT ?8"
        );
        let placement = Scan { columns: Some(&["tenant"]), ..Scan::of(&PLACEMENT, Vec::new(), 5) };
        assert_eq!(
            scan(&placement, question),
            "SELECT tenant FROM session WHERE placement_due IS NOT NULL ORDER BY placement_due, tenant, session LIMIT ?1"
        );
    }
}
