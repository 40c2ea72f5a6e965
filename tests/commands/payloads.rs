//! Payloads by reference: sizes, digests, who may read them.

use crate::harness::{Client, EU_KEY, Response, SESSIONS, World, backend, request};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn put(client: &mut Client, path: &str, key: Option<&str>, bytes: &[u8]) -> Response {
    let token = backend();
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let length = bytes.len();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: test\r\nAuthorization: {token}\r\n{key}\
         Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send(head.as_bytes()).await;
    client.send(bytes).await;
    client.response().await
}

#[tokio::test]
async fn a_large_create_is_prepared_filled_and_admitted_under_one_key() {
    let world = World::start().await;
    let content = vec![7_u8; 100_000];
    let sha256 = digest(&content);
    let body = json!({"profile": "arena", "payload_ref": sha256});
    let missing = world.post(SESSIONS, "large", body.clone()).await;
    assert_eq!((missing.status, missing.code()), (409, "not_ready"), "{missing:?}");
    assert_eq!(missing.json["reason"], "unknown_payload");
    let session = missing.json["session_id"].as_str().unwrap().to_owned();
    assert_eq!(world.get(&format!("{SESSIONS}/{session}")).await.status, 404, "nothing that anybody could see");
    let path = format!("{SESSIONS}/{session}/payloads/{sha256}");
    let mut client = world.client().await;
    assert_eq!(put(&mut client, &path, None, &content).await.status, 404, "without the key it belongs to nothing");
    assert_eq!(put(&mut client, &path, Some("else"), &content).await.status, 404);
    let stored = put(&mut client, &path, Some("large"), &content).await;
    assert_eq!((stored.status, &stored.json["len"]), (200, &json!(100_000)), "{stored:?}");
    assert_eq!(put(&mut client, &path, Some("large"), &content).await.status, 200, "again is the same");
    let created = world.post(SESSIONS, "large", body).await;
    assert_eq!((created.status, created.json["session_id"].as_str()), (202, Some(session.as_str())), "{created:?}");
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let command = world.work(EU_KEY, "eu-1", "deliver").await;
    assert_eq!(command["payload_ref"], json!({"sha256": sha256, "len": 100_000}));
    let get = world.host(EU_KEY, "GET", &format!("{path}?host=eu-1&epoch={epoch}"), Value::Null).await;
    assert_eq!((get.status, get.body.as_bytes()), (200, content.as_slice()));
    assert_eq!(get.header("content-type"), Some("application/octet-stream"));
    let stale = world.host(EU_KEY, "GET", &format!("{path}?host=eu-1&epoch={}", epoch + 1), Value::Null).await;
    assert_eq!(stale.code(), "lease_lost");
    assert_eq!(world.host(EU_KEY, "GET", &path, Value::Null).await.status, 400, "which lease?");
}

#[tokio::test]
async fn case_h2_a_payload_is_what_its_digest_says_and_no_longer_than_allowed() {
    let world = World::with("store = \"memory\"\npayload_bytes = 40000\npayload_mib_per_tenant = 1").await;
    let session = world.session("k").await;
    let path = |sha256: &str| format!("{SESSIONS}/{session}/payloads/{sha256}");
    let content = vec![b'x'; 40_000];
    let mut client = world.client().await;
    let wrong = put(&mut client, &path(&digest(b"else")), None, &content).await;
    assert_eq!((wrong.status, &wrong.json["reason"]), (400, &json!("bad_payload")), "{wrong:?}");
    assert_eq!(put(&mut world.client().await, &path("abc"), None, b"").await.status, 404);
    assert_eq!(put(&mut client, &path(&digest(&content)), None, &content).await.status, 200);
    let input = json!({"kind": "input", "payload_ref": digest(&content)});
    let sent = world.post(&format!("{SESSIONS}/{session}/commands"), "i", input).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let long = vec![b'x'; 40_001];
    // Refused before the first byte: the length was declared.
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nContent-Length: 40001\r\n\r\n",
        path(&digest(&long)),
        backend()
    );
    client.send(head.as_bytes()).await;
    let refused = client.response().await;
    assert_eq!((refused.status, refused.code()), (413, "payload_too_large"));
    let chunked = format!(
        "PUT {} HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        path(&digest(&long)),
        backend(),
        long.len(),
        "x".repeat(long.len()),
    );
    let mut client = world.client().await;
    client.send(chunked.as_bytes()).await;
    assert_eq!(client.response().await.status, 413, "without a declared length the bound holds as well");
}

/// Memory for bodies is bounded: one more upload than there are places is told to come back.
#[tokio::test]
async fn an_upload_too_many_is_refused_and_a_hang_up_frees_its_place() {
    let world = World::with("store = \"memory\"\nuploads = 1").await;
    let session = world.session("k").await;
    let path = format!("{SESSIONS}/{session}/payloads/{}", digest(b"whole"));
    let mut slow = world.client().await;
    let head =
        format!("PUT {path} HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nContent-Length: 5\r\n\r\nwh", backend());
    slow.send(head.as_bytes()).await;
    // The place is taken once the slow one's head has arrived.
    let refused = loop {
        let answer = put(&mut world.client().await, &path, None, b"whole").await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((refused.status, &refused.json["resource"]), (503, &json!("uploads")), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    drop(slow);
    while put(&mut world.client().await, &path, None, b"whole").await.status != 200 {
        tokio::task::yield_now().await;
    }
}

/// Memory for what hosts fetch is bounded by places as well: one is taken until the last byte is out.
#[tokio::test]
async fn a_download_too_many_is_refused_and_a_hang_up_frees_its_place() {
    let world = World::with("store = \"memory\"\ndownloads = 1").await;
    let session = world.session("k").await;
    // More than the kernel takes for a client that reads nothing.
    let content = vec![b'x'; 8 << 20];
    let path = format!("{SESSIONS}/{session}/payloads/{}", digest(&content));
    assert_eq!(put(&mut world.client().await, &path, None, &content).await.status, 200);
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let path = format!("{path}?host=eu-1&epoch={epoch}");
    let mut slow = world.client().await;
    slow.send(request("GET", &path, &[("authorization", &format!("Bearer {EU_KEY}"))], "").as_bytes()).await;
    slow.stream.readable().await.unwrap();
    let refused = world.host(EU_KEY, "GET", &path, Value::Null).await;
    assert_eq!((refused.status, refused.code()), (503, "capacity_exceeded"), "{refused:?}");
    assert_eq!((&refused.json["resource"], refused.header("retry-after")), (&json!("downloads"), Some("1")));
    assert_eq!(slow.response().await.body.len(), content.len(), "who was slow gets the rest");
    let again = loop {
        let answer = world.host(EU_KEY, "GET", &path, Value::Null).await;
        if answer.status == 200 {
            break answer;
        }
    };
    assert_eq!(again.body.as_bytes(), content.as_slice());
    let mut gone = world.client().await;
    gone.send(request("GET", &path, &[("authorization", &format!("Bearer {EU_KEY}"))], "").as_bytes()).await;
    gone.stream.readable().await.unwrap();
    assert_eq!(world.host(EU_KEY, "GET", &path, Value::Null).await.status, 503);
    drop(gone);
    while world.host(EU_KEY, "GET", &path, Value::Null).await.status != 200 {
        tokio::task::yield_now().await;
    }
}
