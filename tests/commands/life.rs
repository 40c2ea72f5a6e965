//! Start, restart and loss of the plane's store.

use crate::harness::{SESSIONS, World, config};
use rendezvous::server::{Exit, Server};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn adm_p3_what_was_admitted_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let admission = format!("store = \"sqlite\"\npath = \"{}\"", folder.path().join("commands.sqlite").display());
    let world = World::with(&admission).await;
    let body = json!({"profile": "arena", "payload": "start"});
    let first = world.post(SESSIONS, "k", body.clone()).await;
    assert_eq!(first.status, 202, "{first:?}");
    assert_eq!(world.into_server().shutdown().await, Exit::Drained);
    let world = World::with(&admission).await;
    let again = world.post(SESSIONS, "k", body).await;
    assert_eq!((again.status, &again.json), (202, &first.json));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(world.operate("GET", "/v1/operator/admission").await.json["store"], "sqlite");
}

/// The URL has a password in it, which no message shows.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn case_o2_a_database_that_is_not_there_refuses_the_start_without_its_password() {
    let admission = "store = \"postgres\"\npostgres_url = \"postgres://rendezvous:s3cret@127.0.0.1:1/x\"";
    let error = Server::start(config(admission)).await.err().unwrap().to_string();
    assert!(error.starts_with("admission: ") && !error.contains("s3cret"), "{error}");
    assert!(!format!("{:?}", config(admission)).contains("s3cret"));
}

/// A store that can't be opened is a reason not to start, told with the cause.
#[tokio::test]
async fn a_foreign_file_refuses_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "this is no database, and nothing of it may be lost".repeat(100)).unwrap();
    let admission = format!("store = \"sqlite\"\npath = \"{}\"", file.path().display());
    let error = Server::start(config(&admission)).await.err().unwrap().to_string();
    assert!(error.starts_with("admission: "), "{error}");
    assert!(std::fs::read_to_string(file.path()).unwrap().starts_with("this is no database"));
}
