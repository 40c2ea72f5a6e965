//! Opening a store: versions, commitments, and what survives.

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;

contract!(everything_is_there_again, settings_that_make_no_sense_are_refused);

async fn everything_is_there_again(world: World) {
    let session = world.session("k").await;
    let entry = world.input(session, "i").await;
    let again = world.reopened(small());
    let request = GetDispositionCommandRequest { tenant: arena(), session, seq: entry.seq };
    assert_eq!(again.get_disposition_command(request).await.expect("there").0, entry);
}

async fn settings_that_make_no_sense_are_refused(world: World) {
    let clock = || Arc::new(world.clock.clone());
    let dir = tempfile::tempdir().expect("a directory");
    let open = |settings| Store::open_sqlite(&dir.path().join("x.db"), settings, clock());
    for (field, settings) in [
        ("control_shards", Settings { control_shards: 0, ..small() }),
        ("control_shards", Settings { control_shards: 5_000, ..small() }),
        ("batch_max", Settings { batch_max: 0, ..small() }),
        ("inbox_max", Settings { inbox_max: 0, ..small() }),
    ] {
        let error = open(settings).err().expect("refused");
        assert!(matches!(error, OpenError::Setting { field: named, .. } if named == field), "{error}");
    }
}

/// Another application's file is not touched.
#[test]
fn a_foreign_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notes.db");
    let other = rusqlite::Connection::open(&path).expect("a new file");
    other.execute_batch("CREATE TABLE note (text TEXT); PRAGMA user_version = 1").expect("a table");
    let error = Store::open_sqlite(&path, small(), Arc::new(ManualClock::new())).err().expect("refused");
    assert!(matches!(error, OpenError::Foreign(_)), "{error}");
    let tables: i64 = other.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("a count");
    assert_eq!(tables, 1);
}

/// The store's time never steps back, not even when the machine's did while nobody ran it.
#[test]
fn adm_p5_time_never_steps_back_over_a_restart() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let world = World::sqlite(small()).expect("a file");
    runtime.block_on(async {
        let session = world.session("k").await;
        let host = world.host("eu-1").await;
        world.clock.advance(TTL);
        world.lease(&host, session).await;
        let before = world.store.now().await.expect("a time");
        world.clock.set(Timestamp(before.0 - 3_600_000));
        let again = world.reopened(small());
        assert_eq!(again.now().await, Ok(before));
    });
}
