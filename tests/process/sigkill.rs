//! The command plane in the real binary: what it acknowledged survives SIGKILL.

use crate::child::until;
use crate::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use tempfile::TempDir;

const SESSIONS: &str = "/v1/tenants/demo/sessions";
const HOST: &str = "Bearer dev-host-key";
/// Callers that create sessions at the same time.
const CALLERS: usize = 4;
/// The process is killed once so many creates are acknowledged.
const ACKNOWLEDGED: usize = 40;

/// A development server on this file.
fn on(folder: &TempDir) -> Server {
    let path = folder.path().join("commands.sqlite");
    Server::start(&format!("[admission]\nstore = \"sqlite\"\npath = \"{}\"\n", path.display()), &[])
}

fn create(server: &Server, token: &str, key: &str) -> Option<Value> {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
    let mut connection = crate::http::Connection::try_open(server.http).ok()?;
    let body = json!({"profile": "demo", "payload": key}).to_string();
    std::io::Write::write_all(
        &mut connection.stream,
        crate::http::request("POST", SESSIONS, &headers, &body).as_bytes(),
    )
    .ok()?;
    let answer = connection.response()?;
    (answer.status == 202).then_some(answer.json)
}

/// Guests are of one life of the process, so this asks as the host does.
fn work(server: &Server) -> Value {
    let body = json!({"target_key": "demo", "capacity": 4_096}).to_string();
    assert_eq!(server.ask("PUT", "/v1/hosts/h", &[("Authorization", HOST)], &body).status, 200);
    let answer = server.ask("GET", "/v1/hosts/h/work?wait_ms=5000", &[("Authorization", HOST)], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json["work"].clone()
}

/// As the host, on the session's path.
fn act(server: &Server, session: &str, path: &str, body: &Value) -> Value {
    let answer =
        server.ask("POST", &format!("{SESSIONS}/{session}/{path}"), &[("Authorization", HOST)], &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json
}

/// Every create that was answered before SIGKILL is there afterwards, whole: with its first command, and placed.
#[test]
fn case_r_what_was_acknowledged_survives_sigkill_in_the_real_binary() {
    let folder = TempDir::new().expect("a temporary folder");
    let mut server = on(&folder);
    let token = server.guest();
    let acknowledged = Mutex::new(BTreeMap::new());
    thread::scope(|threads| {
        for caller in 0..CALLERS {
            let (server, token, acknowledged) = (&server, &token, &acknowledged);
            threads.spawn(move || {
                for number in 0.. {
                    let key = format!("{caller}-{number}");
                    let Some(created) = create(server, token, &key) else { return };
                    let session = created["session_id"].as_str().expect("an id").to_owned();
                    acknowledged.lock().expect("no panic").insert(session, key);
                }
            });
        }
        until("so many creates", || (acknowledged.lock().expect("no panic").len() >= ACKNOWLEDGED).then_some(()));
        server.process.signal("KILL");
    });
    server.process.exit();
    let mut acknowledged = acknowledged.into_inner().expect("no panic");
    let server = on(&folder);
    let mut found = 0;
    until("all of them", || {
        for item in work(&server).as_array().expect("work") {
            let session = item["session"]["session_id"].as_str().expect("an id");
            for task in item["tasks"].as_array().expect("tasks") {
                if task["task"] == "acquire" {
                    act(&server, session, "lease", &json!({"action": "acquire", "host": "h"}));
                    continue;
                }
                assert_eq!((&task["task"], &task["command"]["kind"]), (&json!("deliver"), &json!("create")));
                if let Some(key) = acknowledged.remove(session) {
                    assert_eq!(task["command"]["payload"], key.as_str(), "whole");
                    found += 1;
                }
                // Claimed, it is not handed out again.
                act(&server, session, "commands/1/claim", &json!({"host": "h", "epoch": 1}));
            }
        }
        acknowledged.is_empty().then_some(())
    });
    assert!(found >= ACKNOWLEDGED);
    let operator = server.operate("GET", "/v1/operator/admission", "");
    assert_eq!((operator.status, &operator.json["store"]), (200, &json!("sqlite")));
}

#[cfg(feature = "postgres")]
fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.expect("valid SQL");
        connection.abort();
    });
}

/// Two processes on one PostgreSQL: what one admitted the other hands out and ends, also once the first is killed.
#[cfg(feature = "postgres")]
#[test]
fn case_r_a_second_process_on_postgres_goes_on_where_the_first_was_killed() {
    let Some(postgres) = crate::postgres::shared() else { return };
    let (url, schema) = postgres.fresh_url();
    execute(&url, &schema);
    let config = format!("[admission]\nstore = \"postgres\"\npostgres_url = \"{url}\"\nsweep_interval_ms = 20\n");
    let mut first = Server::start(&config, &[]);
    let second = Server::start(&config, &[]);
    let token = first.guest();
    let created = create(&first, &token, "k").expect("admitted");
    let session = created["session_id"].as_str().expect("an id");
    let task = |wanted: &str| {
        until(wanted, || {
            let work = work(&second);
            let tasks = work.as_array()?.iter().flat_map(|item| item["tasks"].as_array().expect("tasks").clone());
            tasks.into_iter().find(|task| task["task"] == wanted)
        })
    };
    task("acquire");
    let epoch = act(&second, session, "lease", &json!({"action": "acquire", "host": "h"}))["epoch"].clone();
    let lease = json!({"host": "h", "epoch": epoch});
    act(&second, session, "commands/1/claim", &lease);
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "i")];
    let sent = first.ask("POST", &format!("{SESSIONS}/{session}/commands"), &headers, r#"{"kind":"input"}"#);
    assert_eq!(sent.status, 202, "{sent:?}");
    first.process.kill();
    act(&second, session, "commands/1/begin", &lease);
    let done = act(&second, session, "commands/1/complete", &json!({"host": "h", "epoch": epoch, "result": "applied"}));
    assert_eq!(done["state"], "applied");
    assert_eq!(task("deliver")["command"]["kind"], "input", "admitted by the one that was killed");
}
