//! The store for more than one process: PostgreSQL.
//!
//! A batch is one transaction with a handful of round trips, whatever the number of commands in it: one takes all locks,
//! one per table reads, one per table writes. Locks are advisory, by session, tenant and key, taken in one order
//! everywhere; whoever has them sees everything that was committed under them before, for each statement of a
//! READ COMMITTED transaction reads the latest.

use super::link::{self, Link};
use super::listener::{self, Listener};
use super::migrations;
use super::text;
use super::threads::Threads;
use crate::admission::model::{Timestamp, Unavailable};
use crate::admission::store::Notice;
use crate::admission::store::batch::{Backend, CONTROL_SHARDS, Engine, Job, Shared};
use crate::admission::store::clock::StoreClock;
use crate::admission::store::records::{Col, Key, Scan, Sql, Table, Value};
use crate::admission::store::settings::{OpenError, Settings};
use crate::admission::store::unit::{Change, Rows};
use crate::admission::traits::Clock;
use crate::admission::waits::Waits;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row};

/// Held while the schema is brought up to date.
const MIGRATION_LOCK: i64 = 0x5256_6370;

/// Threads with connections, and one connection that hears of other processes' news.
pub(crate) struct Postgres {
    threads: Threads,
    _listener: Listener,
}

impl Engine for Postgres {
    fn submit(&self, job: Box<dyn Job>) {
        self.threads.submit(job);
    }

    fn unreadable(&self) -> &AtomicU64 {
        self.threads.unreadable()
    }

    fn is_lost(&self) -> bool {
        self.threads.is_lost()
    }
}

fn failed(error: impl std::fmt::Display) -> OpenError {
    OpenError::Database(error.to_string())
}

/// The database's own words: the driver's Display leaves them out.
fn words(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| format!("{}: {}", error.code().code(), error.message()))
}

/// An error before the commit: the transaction is taken back, so nothing happened.
fn broken(error: tokio_postgres::Error) -> Unavailable {
    Unavailable::nothing_happened(words(&error))
}

/// Nobody answered. What was asked for is taken back with the connection.
fn silent(wait: Duration) -> Unavailable {
    Unavailable::nothing_happened(format!("the database did not answer within {} ms", wait.as_millis()))
}

/// Opens the database and brings its schema up to date. On a thread of its own, for each connection has a runtime that
/// may not be driven from inside of the caller's.
pub(crate) fn open(
    url: &str,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    waits: Arc<Waits>,
) -> Result<(Postgres, Arc<Settings>), OpenError> {
    let open = || open_here(url, settings, clock, waits);
    std::thread::scope(|scope| scope.spawn(open).join()).unwrap_or_else(|_| Err(failed("opening it panicked")))
}

fn open_here(
    url: &str,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    waits: Arc<Waits>,
) -> Result<(Postgres, Arc<Settings>), OpenError> {
    settings.check()?;
    let wait = settings.database_wait;
    let config = link::configure(url, wait).map_err(failed)?;
    let connection = || Connection::new(config.clone(), wait).map_err(failed);
    let mut first = connection()?;
    let settings = Arc::new(first.prepare(settings)?);
    let mut writers = vec![first];
    while writers.len() < settings.writers {
        writers.push(connection()?);
    }
    let reader = connection()?;
    let listener = Listener::start(config.clone(), wait, Arc::clone(&waits)).map_err(failed)?;
    let clock = StoreClock::new(clock, Timestamp(0));
    let shared = Shared { settings: Arc::clone(&settings), clock, waits, unreadable: AtomicU64::new(0) };
    let threads = Threads::start(shared, writers, vec![reader]).map_err(failed)?;
    Ok((Postgres { threads, _listener: listener }, settings))
}

/// A connection, used by one thread; comes up again after it broke.
struct Connection {
    runtime: Runtime,
    config: Config,
    /// How long the server may take to answer.
    wait: Duration,
    link: Option<Link>,
}

fn parameter(n: usize) -> String {
    format!("${n}")
}

/// A column of values as one array parameter.
fn array(sql: Sql, values: impl Iterator<Item = Value>) -> Box<dyn ToSql + Sync> {
    match sql {
        Sql::Int => {
            Box::new(values.map(|value| if let Value::Int(n) = value { Some(n) } else { None }).collect::<Vec<_>>())
        }
        Sql::Text => Box::new(
            values.map(|value| if let Value::Text(text) = value { Some(text) } else { None }).collect::<Vec<_>>(),
        ),
        Sql::Blob => Box::new(
            values.map(|value| if let Value::Blob(bytes) = value { Some(bytes) } else { None }).collect::<Vec<_>>(),
        ),
    }
}

fn arrays(columns: &[Col], rows: &[Vec<Value>]) -> Vec<Box<dyn ToSql + Sync>> {
    let column = |(place, col): (usize, &Col)| array(col.sql, rows.iter().map(move |row| row[place].clone()));
    columns.iter().enumerate().map(column).collect()
}

fn scalar(value: &Value) -> Box<dyn ToSql + Sync> {
    match value {
        Value::Null => Box::new(None::<i64>),
        Value::Int(number) => Box::new(*number),
        Value::Text(text) => Box::new(text.clone()),
        Value::Blob(bytes) => Box::new(bytes.clone()),
    }
}

fn borrowed(values: &[Box<dyn ToSql + Sync>]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &**value).collect()
}

/// `$1::text[], $2::bytea[]` and so on.
fn unnest(columns: &[Col]) -> String {
    let types = columns.iter().enumerate().map(|(place, col)| {
        let name = match col.sql {
            Sql::Int => "bigint",
            Sql::Text => "text",
            Sql::Blob => "bytea",
        };
        format!("${}::{name}[]", place + 1)
    });
    format!("unnest({})", types.collect::<Vec<_>>().join(", "))
}

fn names(columns: &[Col], prefix: &str) -> String {
    columns.iter().map(|col| format!("{prefix}{}", col.name)).collect::<Vec<_>>().join(", ")
}

/// `FROM table AS t, keys AS k WHERE they are equal`, for reading and for deleting.
fn matching(table: &Table) -> (String, String) {
    let key = &table.columns[..table.key_len];
    let keys = format!("{} AS k ({})", unnest(key), names(key, ""));
    let equal = key.iter().map(|col| format!("t.{0} = k.{0}", col.name)).collect::<Vec<_>>().join(" AND ");
    (keys, equal)
}

fn value(row: &Row, place: usize, sql: Sql) -> Result<Value, tokio_postgres::Error> {
    Ok(match sql {
        Sql::Int => row.try_get::<_, Option<i64>>(place)?.map_or(Value::Null, Value::Int),
        Sql::Text => row.try_get::<_, Option<String>>(place)?.map_or(Value::Null, Value::Text),
        Sql::Blob => row.try_get::<_, Option<Vec<u8>>>(place)?.map_or(Value::Null, Value::Blob),
    })
}

impl Connection {
    fn new(config: Config, wait: Duration) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, config, wait, link: None })
    }

    /// Sees to a connection that is up. Only where a transaction begins: one that breaks in the middle must fail, for what
    /// came after on another connection would be no part of it.
    fn connect(&mut self) -> Result<(), Unavailable> {
        if self.link.as_ref().is_none_or(|link| link.client.is_closed()) {
            self.link = None;
            let wait = self.wait.min(link::CONNECT_WAIT);
            let connect = async { tokio::time::timeout(wait, Link::connect(&self.config)).await };
            self.link = Some(self.runtime.block_on(connect).map_err(|_| silent(wait))?.map_err(broken)?);
        }
        Ok(())
    }

    /// Runs `work` on the connection as it is. One that does not answer, or that is no good for what comes after, is given
    /// up: the next transaction begins on another.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Link) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Unavailable> {
        let link = self.link.as_mut().ok_or_else(|| Unavailable::nothing_happened("not connected"))?;
        let wait = self.wait;
        let (is_spoilt, cause) = match self.runtime.block_on(async { tokio::time::timeout(wait, work(link)).await }) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => (link::is_spoilt(&error), broken(error)),
            Err(_) => (true, silent(wait)),
        };
        if is_spoilt {
            self.link = None;
        }
        Err(cause)
    }

    /// Begins a transaction, takes its locks, and asks for the time.
    fn begin_once(&mut self, is_read: bool, locks: &[u64]) -> Result<Option<Timestamp>, Unavailable> {
        let begin = if is_read { "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" } else { "BEGIN" };
        let locks: Vec<i64> = locks.iter().map(|lock| lock.cast_signed()).collect();
        self.connect()?;
        self.with(async |link| {
            let lock = link.statement("SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k").await?;
            let clock = link.statement("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await?;
            let given: [&(dyn ToSql + Sync); 1] = [&locks];
            // Sent one behind the other without waiting in between; the server does them in this order.
            let (begun, locked, clock) = tokio::join!(
                biased;
                link.client.batch_execute(begin),
                link.client.query(&lock, &given),
                link.client.query_one(&clock, &[]),
            );
            begun?;
            locked?;
            clock?.try_get::<_, i64>(0)
        })
        .map(|ms| Some(Timestamp(u64::try_from(ms).unwrap_or(0))))
    }

    /// Brings the schema up to date and reads what the database is committed to.
    fn prepare(&mut self, mut settings: Settings) -> Result<Settings, OpenError> {
        let open = |error: Unavailable| failed(error.cause);
        self.connect().map_err(open)?;
        // Looked at in a transaction that can't write: a newer schema is left as it is.
        let look = self.with(async |link| {
            link.client.batch_execute("BEGIN TRANSACTION READ ONLY").await?;
            let version = version(&link.client).await;
            link.client.batch_execute("COMMIT").await?;
            version
        });
        migrations::steps_from(look.map_err(open)?)?;
        self.with(async |link| {
            link.client.batch_execute("BEGIN").await?;
            link.client.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
            Ok(())
        })
        .map_err(open)?;
        // Asked again inside: another process may have been quicker.
        let version = self.with(async |link| version(&link.client).await).map_err(open)?;
        let mut script = String::new();
        for step in migrations::steps_from(version)? {
            script.push_str(&migrations::for_postgres(step));
        }
        if !script.is_empty() {
            script.push_str("CREATE TABLE IF NOT EXISTS rendezvous_schema (version bigint NOT NULL);");
            script.push_str("DELETE FROM rendezvous_schema;");
            script.push_str(&format!("INSERT INTO rendezvous_schema VALUES ({});", migrations::KNOWN));
        }
        let shards = self.with(async |link| {
            link.client.batch_execute(&script).await?;
            let insert = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
            link.client.execute(insert, &[&CONTROL_SHARDS, &i64::from(settings.control_shards)]).await?;
            let row = link.client.query_one("SELECT value FROM meta WHERE name = $1", &[&CONTROL_SHARDS]).await?;
            link.client.batch_execute("COMMIT").await?;
            row.try_get::<_, i64>(0)
        });
        let shards = u32::try_from(shards.map_err(open)?).ok().filter(|shards| *shards > 0);
        settings.control_shards = shards.ok_or(OpenError::Foreign("it has no number of control shards".into()))?;
        Ok(settings)
    }
}

/// The schema's version; zero for a database without one.
async fn version(client: &Client) -> Result<u32, tokio_postgres::Error> {
    let known = client.query_one("SELECT to_regclass('rendezvous_schema') IS NOT NULL", &[]).await?;
    if !known.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM rendezvous_schema", &[]).await?;
    Ok(u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX))
}

impl Rows for Connection {
    fn load(&mut self, table: &'static Table, keys: &[Key]) -> Result<Vec<Option<Vec<Value>>>, Unavailable> {
        let (from, equal) = matching(table);
        let sql = format!("SELECT {} FROM {} AS t, {from} WHERE {equal}", names(table.columns, "t."), table.name);
        let values = arrays(&table.columns[..table.key_len], keys);
        let rows = self.with(async |link| {
            let rows = link.query(&sql, &borrowed(&values)).await?;
            let read = |row: &Row| -> Result<Vec<Value>, tokio_postgres::Error> {
                table.columns.iter().enumerate().map(|(place, col)| value(row, place, col.sql)).collect()
            };
            rows.iter().map(read).collect::<Result<Vec<_>, _>>()
        });
        let mut found: HashMap<Key, Vec<Value>> =
            rows?.into_iter().map(|row| (row[..table.key_len].to_vec(), row)).collect();
        Ok(keys.iter().map(|key| found.remove(key)).collect())
    }

    fn scan(&mut self, scan: &Scan) -> Result<Vec<Vec<Value>>, Unavailable> {
        let sql = text::scan(scan, parameter);
        let mut values: Vec<_> = text::scan_values(scan).iter().map(scalar).collect();
        values.push(Box::new(i64::try_from(scan.limit).unwrap_or(i64::MAX)));
        let table = scan.index.table;
        let types: Vec<Sql> =
            scan.selected().into_iter().map(|column| table.columns[table.position(column)].sql).collect();
        self.with(async |link| {
            let rows = link.query(&sql, &borrowed(&values)).await?;
            let read = |row: &Row| types.iter().enumerate().map(|(place, sql)| value(row, place, *sql)).collect();
            rows.iter().map(read).collect::<Result<Vec<_>, _>>()
        })
    }

    fn write(&mut self, changes: Vec<Change>) -> Result<(), Unavailable> {
        let mut changes = changes.into_iter().peekable();
        while let Some(first) = changes.next() {
            let (table, is_delete) = (first.table, first.row.is_none());
            let mut rows = vec![first.row.unwrap_or(first.key)];
            while let Some(next) = changes.next_if(|next| next.table.id == table.id && next.row.is_none() == is_delete)
            {
                rows.push(next.row.unwrap_or(next.key));
            }
            let (sql, columns) = if is_delete {
                let (keys, equal) = matching(table);
                (format!("DELETE FROM {} AS t USING {keys} WHERE {equal}", table.name), &table.columns[..table.key_len])
            } else {
                let insert = format!("INSERT INTO {} ({}) SELECT * FROM ", table.name, names(table.columns, ""));
                (format!("{insert}{} {}", unnest(table.columns), text::on_conflict(table)), table.columns)
            };
            let values = arrays(columns, &rows);
            self.with(async |link| link.execute(&sql, &borrowed(&values)).await)?;
        }
        Ok(())
    }
}

impl Backend for Connection {
    fn begin(&mut self, is_read: bool, locks: &[u64]) -> Result<Option<Timestamp>, Unavailable> {
        let is_kept = self.link.is_some();
        match self.begin_once(is_read, locks) {
            // What was kept since the last transaction may have been cut since, by a server that was started again or by a
            // pool in between. Nothing was begun, so nobody has to hear of it.
            Err(_) if is_kept && self.link.is_none() => self.begin_once(is_read, locks),
            begun => begun,
        }
    }

    fn commit(&mut self, notices: &[Notice]) -> Result<(), Unavailable> {
        if !notices.is_empty() {
            let news: Vec<String> = notices.iter().map(listener::write).collect();
            let sql = format!("SELECT pg_notify('{}', n) FROM unnest($1::text[]) AS n", listener::CHANNEL);
            self.with(async |link| link.query(&sql, &[&news]).await)?;
        }
        // A connection that breaks here leaves open whether the server had committed.
        self.with(async |link| link.client.batch_execute("COMMIT").await)
            .map_err(|error| Unavailable::outcome_unknown(error.cause))
    }

    fn rollback(&mut self) {
        // A connection that was given up took its transaction with it.
        if self.link.is_some() && self.with(async |link| link.client.batch_execute("ROLLBACK").await).is_err() {
            self.link = None;
        }
    }

    fn keeps_time(&self) -> bool {
        false
    }
}
