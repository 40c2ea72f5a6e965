//! What a database is committed to: its schema, its version, its shards.

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;

database_contract!(
    a_newer_schema_is_refused_and_untouched,
    the_number_of_shards_is_the_stores,
    the_schema_is_the_records
);

fn open_again(world: &World) -> Result<Store, OpenError> {
    let clock = Arc::new(world.clock.clone());
    match &world.backing {
        Backing::Memory => unreachable!("databases only"),
        Backing::Sqlite(dir) => Store::open_sqlite(&dir.path().join("admission.db"), small(), clock),
        Backing::Postgres(url) => Store::open_postgres(url, small(), Some(clock)),
    }
}

async fn a_newer_schema_is_refused_and_untouched(world: World) {
    let session = world.session("k").await;
    world.execute(match world.backing {
        Backing::Postgres(_) => "UPDATE rendezvous_schema SET version = 9",
        Backing::Memory | Backing::Sqlite(_) => "PRAGMA user_version = 9",
    });
    let error = open_again(&world).err().expect("refused");
    assert!(matches!(error, OpenError::NewerSchema { found: 9, known: 1 }), "{error}");
    // Whoever had it open goes on.
    world.input(session, "i").await;
}

async fn the_number_of_shards_is_the_stores(world: World) {
    let other = world.reopened(Settings { control_shards: 99, ..small() });
    assert_eq!(DispositionDue::control_shards(&other), 4);
    assert_eq!(other.settings().control_shards, 4);
}

/// Each table has the columns that its record has: a statement that names another one fails here.
async fn the_schema_is_the_records(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    world.claim(&lease, CommandSeq(1)).await.expect("claimed");
    world.begin(&lease, CommandSeq(1)).await.expect("begun");
    world.complete(&lease, CommandSeq(1)).await.expect("completed");
    let content = Bytes::from_static(b"x");
    world.service().put_payload(&alice(), session, Sha256::of(&content), content).await.expect("stored");
    let claim = AcquireReconciliationClaimRequest { tenant: arena(), session, holder: "a".into(), ttl: SECOND };
    world.store.acquire_reconciliation_claim(claim).await.expect("claimed");
    for table in [
        "session",
        "command",
        "command_key",
        "public_create",
        "journal",
        "reconciliation_claim",
        "payload",
        "payload_bytes",
        "host",
        "tenant_usage",
        "meta",
    ] {
        world.execute(&format!(
            "UPDATE {table} SET {0} = {0}",
            match table {
                "host" => "host",
                "meta" => "name",
                _ => "tenant",
            }
        ));
    }
}
