//! The rows of the store, once for all backends: each table with its columns, its key and the indexes that are scanned.

mod rows;
mod value;

pub(crate) use rows::*;
pub(crate) use value::{Column, Sql, Value};

use crate::admission::model::Unreadable;

/// The values of a key, or of the sorted part of an index.
pub(crate) type Key = Vec<Value>;

/// A column of a table.
#[derive(Debug)]
pub(crate) struct Col {
    pub(crate) name: &'static str,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite's columns take any type"))]
    pub(crate) sql: Sql,
    pub(crate) nullable: bool,
}

impl Col {
    const fn of<T: Column>(name: &'static str) -> Self {
        Self { name, sql: T::SQL, nullable: T::NULLABLE }
    }
}

/// A table. Its key columns come first.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its place in [`TABLES`].
    pub(crate) id: usize,
    pub(crate) name: &'static str,
    pub(crate) key_len: usize,
    pub(crate) columns: &'static [Col],
}

impl Table {
    /// Where a column stands.
    pub(crate) fn position(&self, column: &str) -> usize {
        // Only names of this folder come here, and a test looks each of them up.
        self.columns.iter().position(|col| col.name == column).unwrap_or(0)
    }
}

/// An index: the columns before `sorted` are given, the rest is in order. A row whose first sorted column is null is not
/// in it, so an index of open commands shrinks as they end.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: usize,
    pub(crate) table: &'static Table,
    pub(crate) columns: &'static [&'static str],
    pub(crate) sorted: usize,
}

/// A range scan of an index.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) index: &'static Index,
    /// Values of the columns before the sorted ones.
    pub(crate) prefix: Vec<Value>,
    /// Greatest value of the first sorted column.
    pub(crate) upto: Option<Value>,
    /// Values of all sorted columns of the last row seen.
    pub(crate) after: Option<Vec<Value>>,
    pub(crate) limit: usize,
    /// What to read; all columns by default.
    pub(crate) columns: Option<&'static [&'static str]>,
}

impl Scan {
    /// All rows of `prefix`, at most `limit`.
    pub(crate) fn of(index: &'static Index, prefix: Vec<Value>, limit: usize) -> Self {
        Self { index, prefix, upto: None, after: None, limit, columns: None }
    }

    /// Where a row of this scan stands, with all columns read: what the next page comes after.
    pub(crate) fn position(&self, row: &[Value]) -> Vec<Value> {
        let table = self.index.table;
        self.index.columns[self.index.sorted..].iter().map(|column| row[table.position(column)].clone()).collect()
    }

    /// The names of what is read.
    pub(crate) fn selected(&self) -> Vec<&'static str> {
        match self.columns {
            Some(columns) => columns.to_vec(),
            None => self.index.table.columns.iter().map(|col| col.name).collect(),
        }
    }
}

/// A row as a type.
pub(crate) trait Record: Sized {
    const TABLE: &'static Table;

    fn to_values(&self) -> Vec<Value>;

    fn of_values(values: &[Value]) -> Result<Self, Unreadable>;
}

/// The next column of a row.
fn take<T: Column>(
    values: &mut std::slice::Iter<'_, Value>,
    table: &'static str,
    column: &'static str,
) -> Result<T, Unreadable> {
    values.next().and_then(T::of_value).ok_or(Unreadable { table, column })
}

/// Declares a record: its type, its table, and the conversions between them.
macro_rules! record {
    ($(#[$doc:meta])* $record:ident, $table:ident = $id:literal $name:literal {
        key { $($key:ident: $key_type:ty),+ $(,)? }
        $($field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $record {
            $(pub(crate) $key: $key_type,)+
            $(pub(crate) $field: $type,)*
        }

        pub(crate) static $table: Table = Table {
            id: $id,
            name: $name,
            key_len: [$(stringify!($key)),+].len(),
            columns: &[
                $(Col::of::<$key_type>(stringify!($key)),)+
                $(Col::of::<$type>(stringify!($field)),)*
            ],
        };

        impl $record {
            /// The key of a row.
            #[allow(dead_code, reason = "what is never asked for by its key has one all the same")]
            pub(crate) fn key($($key: &$key_type),+) -> Key {
                vec![$($key.to_value()),+]
            }
        }

        impl Record for $record {
            const TABLE: &'static Table = &$table;

            fn to_values(&self) -> Vec<Value> {
                vec![$(self.$key.to_value(),)+ $(self.$field.to_value(),)*]
            }

            fn of_values(values: &[Value]) -> Result<Self, Unreadable> {
                let mut values = values.iter();
                Ok(Self {
                    $($key: take(&mut values, $name, stringify!($key))?,)+
                    $($field: take(&mut values, $name, stringify!($field))?,)*
                })
            }
        }
    };
}
use record;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_indexes_are_what_they_say() {
        for (place, table) in TABLES.iter().enumerate() {
            assert_eq!(table.id, place, "{}", table.name);
            assert!(table.columns[..table.key_len].iter().all(|col| !col.nullable), "{}", table.name);
        }
        for (place, index) in INDEXES.iter().enumerate() {
            assert_eq!(index.id, place);
            for column in index.columns.iter().chain(DUE_COLUMNS.iter().filter(|_| index.id == DUE.id)) {
                assert!(index.table.columns.iter().any(|col| col.name == *column), "{column}");
            }
            // A position must be unique, else paging loses rows.
            let sorted = &index.columns[index.sorted..];
            let given = &index.columns[..index.sorted];
            let key = index.table.columns[..index.table.key_len].iter().map(|col| col.name);
            assert!(key.into_iter().all(|name| sorted.contains(&name) || given.contains(&name)), "{index:?}");
        }
    }
}
