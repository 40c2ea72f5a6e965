//! Opening a store: versions, commitments, and what survives.

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;
use std::time::Duration;

contract!(
    everything_is_there_again,
    settings_that_make_no_sense_are_refused,
    adm_p5_time_goes_on_whatever_the_clock_did,
);

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

/// The machine's clock was ahead while the store was open; then it is set right, with the store open or between two lives.
/// Time neither steps back nor stands: what is admitted then still expires, a lease still lapses.
async fn goes_on(world: &World, before: Timestamp) {
    assert_eq!(world.store.now().await, Ok(before), "no step back");
    world.clock.advance(SECOND);
    assert_eq!(world.store.now().await, Ok(before.plus(SECOND)), "and no standstill");
    let create = CreateRequest { apply_within: Some(Duration::from_millis(100)), ..create("late") };
    let session = world.service().admit_create(&alice(), create).await.expect("admitted").0.session;
    world.clock.advance(Duration::from_millis(200));
    let upkeep = world.upkeep(Arc::default());
    for _ in 0..DispositionDue::control_shards(&world.store) {
        upkeep.step().await;
    }
    assert_eq!(world.view(session, CommandSeq(1)).await, (CallerState::Expired, Some("never_claimed".into())));
}

async fn adm_p5_time_goes_on_whatever_the_clock_did(world: World) {
    let before = world.store.now().await.expect("a time");
    world.clock.set(Timestamp(before.0 - 3_600_000));
    goes_on(&world, before).await;
    let before = world.store.now().await.expect("a time");
    world.clock.set(Timestamp(world.clock.time().0 - 5));
    goes_on(&world, before).await;
}

/// Two processes over one file, as in a rolling restart, whose clocks differ: the second goes on where the first was.
#[test]
fn adm_p5_time_never_steps_back_from_one_process_to_another() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let world = World::sqlite(small()).expect("a file");
    let Backing::Sqlite(dir) = &world.backing else { unreachable!("it is one") };
    let behind = || Arc::new(Skewed(world.clock.clone(), -3_600_000));
    let open = || Store::open_sqlite(&dir.path().join("admission.db"), small(), behind()).expect("the same file");
    let second = open();
    runtime.block_on(async {
        let session = world.session("k").await;
        let host = world.host("eu-1").await;
        let now = world.clock.time();
        let request = AcquireLeaseRequest { tenant: arena(), session, host, key: key(), ttl: TTL };
        let lease = second.acquire_lease(request).await.expect("a lease");
        assert_eq!(lease.until, now.plus(TTL));
        drop(second);
        assert_eq!(open().now().await, Ok(now), "nor what a third finds");
    });
}

/// What players send is nobody else's on the machine, whatever the umask.
#[cfg(unix)]
#[test]
fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("commands.sqlite");
    let store = Store::open_sqlite(&path, small(), Arc::new(ManualClock::new())).expect("a new store");
    for name in ["commands.sqlite", "commands.sqlite-wal", "commands.sqlite-shm"] {
        let mode = std::fs::metadata(dir.path().join(name)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    drop(store);
    let missing = Store::open_sqlite(&dir.path().join("none/x.sqlite"), small(), Arc::new(ManualClock::new())).err();
    assert!(missing.expect("no such directory").to_string().contains("none/x.sqlite"));
}

/// Not even when the machine's clock was set back while nobody ran.
#[test]
fn adm_p5_time_never_steps_back_over_a_restart() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut world = World::sqlite(small()).expect("a file");
    runtime.block_on(async {
        let session = world.session("k").await;
        let host = world.host("eu-1").await;
        world.clock.advance(TTL);
        world.lease(&host, session).await;
        let before = world.store.now().await.expect("a time");
        world.clock.set(Timestamp(before.0 - 3_600_000));
        world.store = world.reopened(small());
        goes_on(&world, before).await;
        world.clock.advance(TTL);
        assert_eq!(world.store.owner(arena(), session).await, Ok(None), "its lease lapsed");
    });
}
