//! The embedded store: one file of SQLite.
//!
//! WAL with `synchronous = FULL`: a commit returns after the log was synced, so what is acknowledged survives power loss.

use super::migrations;
use super::text;
use super::threads::Threads;
use crate::admission::model::{Timestamp, Unavailable};
use crate::admission::store::Notice;
use crate::admission::store::batch::{Backend, CONTROL_SHARDS, LATEST, Shared};
use crate::admission::store::clock::StoreClock;
use crate::admission::store::records::{Key, Scan, TABLES, Table, Value};
use crate::admission::store::settings::{OpenError, Settings};
use crate::admission::store::unit::{Change, Rows};
use crate::admission::traits::Clock;
use crate::admission::waits::Waits;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Marks our files: "RVcp".
const APPLICATION_ID: i32 = 0x5256_6370;
/// How long a writer waits for another process that writes to the same file.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Page cache per connection, in KiB (SQLite counts negative numbers so).
const CACHE_KIB: i64 = -32_768;
/// Pages in the log before they are copied into the file (32 MiB): a page that is written often is copied once, and a
/// crash costs the reading of as much.
const CHECKPOINT_PAGES: i64 = 8_192;
/// When the last write was.
const LATEST_WRITE: &str = "SELECT value FROM meta WHERE name = ?1";
/// The log is cut back to this after a checkpoint, so that one burst does not keep the disk for ever.
const LOG_BYTES_KEPT: i64 = 64 << 20;

fn failed(error: rusqlite::Error) -> OpenError {
    OpenError::Database(error.to_string())
}

/// Opens or creates the file.
pub(crate) fn open(
    path: &Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    waits: Arc<Waits>,
) -> Result<(Threads, Arc<Settings>), OpenError> {
    settings.check()?;
    if path.exists() {
        migrations::steps_from(look(path)?)?;
    } else {
        create(path)?;
    }
    let mut writer = connect(path)?;
    let settings = Arc::new(prepare(&mut writer, settings)?);
    let latest = meta(&writer, LATEST)?.unwrap_or(0);
    let clock = StoreClock::new(Some(clock), Timestamp(latest));
    let reader = connect(path)?;
    let shared = Shared { settings: Arc::clone(&settings), clock, waits, unreadable: AtomicU64::new(0) };
    // SQLite has one writer at a time, so more than one thread would only wait for the other.
    let threads = Threads::start(shared, vec![Sqlite::new(writer)], vec![Sqlite::new(reader)])
        .map_err(|error| OpenError::Database(error.to_string()))?;
    Ok((threads, settings))
}

/// Creates the file for its owner alone, whatever the umask: it holds what players send. SQLite gives its log the same mode.
/// The mode of a file that is there is its owner's business.
fn create(path: &Path) -> Result<(), OpenError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        // Another process was quicker.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(OpenError::Database(format!("{}: {error}", path.display()))),
    }
}

/// The version, before anything may be written: a newer file is left as it is. After a power loss the log has to be
/// recovered first, which a read-only connection can't do and which changes nothing that the file says.
fn look(path: &Path) -> Result<u32, OpenError> {
    let look = |flags| version(&Connection::open_with_flags(path, flags).map_err(failed)?);
    match look(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Err(OpenError::Database(_)) => look(OpenFlags::SQLITE_OPEN_READ_WRITE),
        looked => looked,
    }
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(OpenError::Database(format!("the file system allows no write-ahead log, only {mode}")));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    connection.pragma_update(None, "cache_size", CACHE_KIB).map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The schema's version; zero for an empty file, an error for some other application's.
fn version(connection: &Connection) -> Result<u32, OpenError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).map_err(failed);
    let application = number("application_id")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    match (application, tables) {
        (0, 0) => Ok(0),
        (APPLICATION_ID, _) => Ok(u32::try_from(number("user_version")?).unwrap_or(u32::MAX)),
        _ => Err(OpenError::Foreign(format!("its application id is {application}"))),
    }
}

/// Brings the schema up to date, in one transaction, and reads what the file is committed to.
fn prepare(connection: &mut Connection, mut settings: Settings) -> Result<Settings, OpenError> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    // Asked again inside: another process may have been quicker.
    let steps = migrations::steps_from(version(&transaction)?)?;
    for step in steps {
        transaction.execute_batch(step).map_err(failed)?;
    }
    if !steps.is_empty() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        transaction.pragma_update(None, "user_version", migrations::KNOWN).map_err(failed)?;
    }
    transaction
        .execute(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            (CONTROL_SHARDS, settings.control_shards),
        )
        .map_err(failed)?;
    let shards = meta(&transaction, CONTROL_SHARDS)?.and_then(|shards| u32::try_from(shards).ok());
    settings.control_shards = shards.ok_or(OpenError::Foreign("it has no number of control shards".into()))?;
    transaction.commit().map_err(failed)?;
    Ok(settings)
}

fn meta(connection: &Connection, name: &str) -> Result<Option<u64>, OpenError> {
    let mut statement = connection.prepare("SELECT value FROM meta WHERE name = ?1").map_err(failed)?;
    let mut rows = statement.query([name]).map_err(failed)?;
    let row = rows.next().map_err(failed)?;
    row.map(|row| row.get::<_, i64>(0)).transpose().map_err(failed).map(|value| value.and_then(|v| v.try_into().ok()))
}

/// A connection, used by one thread.
pub(crate) struct Sqlite {
    connection: Connection,
    /// By table.
    texts: Vec<Texts>,
}

/// A table's statements, made once.
struct Texts {
    load: String,
    upsert: String,
    delete: String,
}

impl Sqlite {
    fn new(connection: Connection) -> Self {
        let texts = TABLES.iter().map(|table| Texts {
            load: text::load(table, parameter),
            upsert: text::upsert(table, parameter),
            delete: text::delete(table, parameter),
        });
        Self { connection, texts: texts.collect() }
    }
}

fn parameter(n: usize) -> String {
    format!("?{n}")
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A column as it is. What is no UTF-8 becomes a blob, which no text column reads (rule P9).
fn read(row: &rusqlite::Row<'_>, place: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(place)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(_) => Value::Null,
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(text.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

/// An error before the commit: the transaction is taken back, so nothing happened.
fn broken(error: rusqlite::Error) -> Unavailable {
    Unavailable::nothing_happened(error)
}

impl Sqlite {
    fn rows(&self, sql: &str, values: &[Value], width: usize) -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((0..width).map(|place| read(row, place)).collect::<Result<_, _>>()?);
        }
        Ok(found)
    }
}

impl Rows for Sqlite {
    fn load(&mut self, table: &'static Table, keys: &[Key]) -> Result<Vec<Option<Vec<Value>>>, Unavailable> {
        let sql = &self.texts[table.id].load;
        let load = |key: &Key| self.rows(sql, key, table.columns.len()).map(|mut rows| rows.pop());
        keys.iter().map(load).collect::<Result<_, _>>().map_err(broken)
    }

    fn scan(&mut self, scan: &Scan) -> Result<Vec<Vec<Value>>, Unavailable> {
        let mut values = text::scan_values(scan);
        values.push(Value::Int(i64::try_from(scan.limit).unwrap_or(i64::MAX)));
        self.rows(&text::scan(scan, parameter), &values, scan.selected().len()).map_err(broken)
    }

    fn write(&mut self, changes: Vec<Change>) -> Result<(), Unavailable> {
        for change in changes {
            let texts = &self.texts[change.table.id];
            let (sql, values) = match change.row {
                Some(row) => (&texts.upsert, row),
                None => (&texts.delete, change.key),
            };
            let mut statement = self.connection.prepare_cached(sql).map_err(broken)?;
            statement.execute(params_from_iter(&values)).map_err(broken)?;
        }
        Ok(())
    }
}

impl Backend for Sqlite {
    fn begin(&mut self, is_read: bool, _: &[u64]) -> Result<Option<Timestamp>, Unavailable> {
        // An immediate transaction holds the file's only write lock, whatever it is going to touch.
        let begin = if is_read { "BEGIN" } else { "BEGIN IMMEDIATE" };
        self.connection.execute_batch(begin).map_err(broken)?;
        if is_read {
            return Ok(None);
        }
        // Another process may have written since, by a clock of its own: the one before in a rolling restart.
        let mut statement = self.connection.prepare_cached(LATEST_WRITE).map_err(broken)?;
        let mut rows = statement.query([LATEST]).map_err(broken)?;
        let latest = rows.next().map_err(broken)?.map(|row| row.get::<_, i64>(0)).transpose().map_err(broken)?;
        Ok(latest.and_then(|ms| u64::try_from(ms).ok()).map(Timestamp))
    }

    fn commit(&mut self, _: &[Notice]) -> Result<(), Unavailable> {
        // An error of the log's sync leaves open what reached the disk.
        self.connection.execute_batch("COMMIT").map_err(Unavailable::outcome_unknown)
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // It fails only when the transaction is gone already, which is what is wanted.
            drop(self.connection.execute_batch("ROLLBACK"));
        }
    }

    fn keeps_time(&self) -> bool {
        true
    }
}
