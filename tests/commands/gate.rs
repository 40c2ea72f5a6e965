//! Rule H6 of the directory, answered by the command plane.

use crate::harness::{EU_KEY, RIVAL_KEY, Response, SESSIONS, World, backend, request};
use rendezvous::admission::{
    CommandSeq, CompleteCommandRequest, Completion, Epoch, HostId, HostStore, LeaseRef, OutcomeCode, RuntimeClock,
    SessionId, Settings, Store, Tenant,
};
use rendezvous::clock::SystemClock;
use rendezvous::credentials::fingerprint;
use rendezvous::domain::{Endpoint, ListingId, Presence};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const LISTINGS: &str = "/v1/tenants/demo/listings";

async fn register(world: &World, token: &str, session: &str, key: &str) -> Response {
    let body = json!({"protocol": "arena/3", "gate": true, "session_id": session,
        "details": {"name": "x", "max_players": 8}});
    let headers = [("authorization", token), ("idempotency-key", key)];
    world.ask("POST", LISTINGS, &headers, &body.to_string()).await
}

/// A gated listing with presence for a session that `eu-1` runs: session, epoch, listing.
async fn gated(world: &World) -> (String, u64, Value) {
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let listing = register(world, &format!("Bearer {EU_KEY}"), &session, "k").await;
    assert_eq!(listing.status, 201, "{listing:?}");
    let presence = Presence {
        listing: ListingId::parse(listing.json["listing_id"].as_str().unwrap()).unwrap(),
        endpoint: Endpoint::new("192.0.2.1:5000".parse().unwrap()).unwrap(),
        datagram: fingerprint(b"presence"),
        sequence: Some(1),
        nonce_issued: world.service().clock().mono(),
    };
    world.service().ask(rendezvous::service::Ask::Presence(presence)).await.unwrap();
    (session, epoch, listing.json)
}

/// A new guest's attempt: its token and id.
async fn joins(world: &World, listing: &Value) -> (String, String) {
    let guest = world.ask("POST", "/v1/tenants/demo/guests", &[], "").await.json;
    let token = format!("Bearer {}", guest["token"].as_str().unwrap());
    let path = format!("{LISTINGS}/{}/attempts", listing["listing_id"].as_str().unwrap());
    let headers = [("authorization", token.as_str()), ("idempotency-key", "k")];
    let answer = world.ask("POST", &path, &headers, r#"{"payload":"let me in"}"#).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    (token, answer.json["attempt_id"].as_str().unwrap().to_owned())
}

async fn decide(world: &World, session: &str, attempt: &str, admit: bool) -> u64 {
    let body = json!({"kind": "gate_response", "payload": {"attempt_id": attempt, "admit": admit}});
    let sent = world.post(&format!("{SESSIONS}/{session}/commands"), attempt, body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sent.json["command"].as_u64().unwrap()
}

async fn apply(world: &World, session: &str, command: u64, epoch: u64) -> Value {
    world.begins(session, command, "eu-1", epoch).await;
    let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    let done = world.step(session, command, "complete", done).await;
    assert_eq!(done.status, 200, "{done:?}");
    done.json
}

async fn state(world: &World, token: &str, attempt: &str) -> Value {
    let path = format!("/v1/tenants/demo/attempts/{attempt}");
    world.ask("GET", &path, &[("authorization", token)], "").await.json["state"].clone()
}

#[tokio::test]
async fn rule_h6_a_join_attempt_waits_at_the_gate_of_its_session_until_the_answer_is_applied() {
    let world = World::start().await;
    let (session, epoch, listing) = gated(&world).await;
    let mut poll = world.client().await;
    let path = format!("{SESSIONS}/{session}/gate?wait_ms=20000");
    poll.send(request("GET", &path, &[("authorization", &backend())], "").as_bytes()).await;
    world.until(|world| world.service().waiting_polls() == 1).await;
    let (token, attempt) = joins(&world, &listing).await;
    let knocked = poll.response().await;
    assert_eq!(knocked.json["attempts"][0]["attempt_id"], attempt.as_str(), "{knocked:?}");
    assert_eq!(knocked.json["attempts"][0]["joiner_payload"], "let me in");
    let (_, second) = joins(&world, &listing).await;
    let newer = world.get(&format!("{SESSIONS}/{session}/gate?after={}", knocked.json["commit"])).await;
    let ids = |answer: &Response| {
        let all = answer.json["attempts"].as_array().unwrap().iter();
        all.map(|item| item["attempt_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&newer), [second.as_str()]);
    let admitted = decide(&world, &session, &attempt, true).await;
    let offers = format!("{LISTINGS}/{}/attempts", listing["listing_id"].as_str().unwrap());
    let eu = format!("Bearer {EU_KEY}");
    let lease_token = listing["lease_token"].as_str().unwrap();
    let gated = async || {
        let headers = [("authorization", eu.as_str()), ("lease-token", lease_token)];
        let offers = world.ask("GET", &offers, &headers, "").await.json;
        let all = offers["attempts"].as_array().unwrap().iter();
        all.map(|offer| offer["gated"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(gated().await, [true, true], "an admitted command is not applied yet");
    let command = world.work(EU_KEY, "eu-1", "deliver").await;
    let carried: Value = serde_json::from_str(command["payload"].as_str().unwrap_or("null")).unwrap_or_default();
    assert!(command["kind"] == "create" || carried == json!({"attempt_id": attempt, "admit": true}), "{command}");
    assert_eq!(apply(&world, &session, admitted, epoch).await["state"], "applied");
    assert_eq!(gated().await, [false, true]);
    let refused = decide(&world, &session, &second, false).await;
    assert_eq!(apply(&world, &session, refused, epoch).await["state"], "applied");
    assert_eq!(ids(&world.get(&format!("{SESSIONS}/{session}/gate")).await), Vec::<String>::new());
    assert_eq!(state(&world, &token, &attempt).await, "waiting", "admitted, and nobody has bound yet");
}

/// Sessions outlive an instance, commits don't: who goes on with another instance's hears of it instead of missing players.
#[tokio::test]
async fn rule_s5_a_gate_poll_after_a_commit_of_another_instance_is_refused() {
    let world = World::start().await;
    let (session, _, listing) = gated(&world).await;
    let (_, attempt) = joins(&world, &listing).await;
    let last = world.service().last_commit();
    let future = world.get(&format!("{SESSIONS}/{session}/gate?wait_ms=20000&after={}", last + 1)).await;
    assert_eq!((future.status, &future.json["code"]), (400, &json!("invalid")), "{future:?}");
    assert_eq!(future.json["reason"], "future_commit");
    let anew = world.get(&format!("{SESSIONS}/{session}/gate?after=0")).await;
    assert_eq!(anew.json["attempts"][0]["attempt_id"], attempt.as_str(), "{anew:?}");
}

/// An answer that comes too late, or to the wrong gate, admits nobody, and its sender is told.
#[tokio::test]
async fn an_answer_to_no_such_attempt_ends_as_attempt_gone() {
    let world = World::start().await;
    let (session, epoch, listing) = gated(&world).await;
    let (token, attempt) = joins(&world, &listing).await;
    let closed =
        world.ask("DELETE", &format!("/v1/tenants/demo/attempts/{attempt}"), &[("authorization", &token)], "").await;
    assert_eq!(closed.status, 204);
    let late = decide(&world, &session, &attempt, true).await;
    let first = apply(&world, &session, late, epoch).await;
    assert_eq!((&first["state"], &first["disposition"]), (&json!("rejected"), &json!("attempt_gone")));
    let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    let again = world.step(&session, late, "complete", done).await;
    assert_eq!((again.status, &again.json), (200, &first), "a repeated completion is the same");
    let (other_token, other) = joins(&world, &listing).await;
    let elsewhere = world.session("elsewhere").await;
    let other_epoch = world.runs(EU_KEY, "eu-1", &elsewhere).await;
    let wrong = decide(&world, &elsewhere, &other, true).await;
    let wrong = apply(&world, &elsewhere, wrong, other_epoch).await;
    assert_eq!((&wrong["state"], &wrong["disposition"]), (&json!("rejected"), &json!("attempt_gone")));
    assert_eq!(state(&world, &other_token, &other).await, "waiting");
}

/// The gate is answered before the command's end is written. When that fails, the host completes again, and finds an
/// attempt that is over because of its first try.
#[tokio::test]
async fn a_completion_that_was_cut_off_after_it_had_refused_the_attempt_is_applied_the_next_time() {
    let world = World::start().await;
    let (session, epoch, listing) = gated(&world).await;
    let (token, attempt) = joins(&world, &listing).await;
    let command = decide(&world, &session, &attempt, false).await;
    let eu = format!("Bearer {EU_KEY}");
    let headers = [("authorization", eu.as_str()), ("lease-token", listing["lease_token"].as_str().unwrap())];
    let path = format!("/v1/tenants/demo/attempts/{attempt}/admission");
    let refused = world.ask("POST", &path, &headers, r#"{"admit":false}"#).await;
    assert!(refused.status < 300, "the first try came so far: {refused:?}");
    assert_eq!(state(&world, &token, &attempt).await, "refused");
    assert_eq!(apply(&world, &session, command, epoch).await["state"], "applied");
}

/// Journals how a command ended, as a completion does before it writes the command's row.
async fn journal(path: &Path, session: &str, command: u64, epoch: u64, completion: Completion) {
    let clock = RuntimeClock::new(SystemClock::new(), tokio::runtime::Handle::current());
    let store = Store::open_sqlite(path, Settings::default(), Arc::new(clock)).unwrap();
    let (tenant, session) = (Tenant::new("demo").unwrap(), SessionId::parse(session).unwrap());
    let lease = LeaseRef::new(tenant, session, HostId::new("eu-1").unwrap(), Epoch(epoch));
    let request = CompleteCommandRequest { lease, seq: CommandSeq(command), completion };
    store.journal_finish(request).await.unwrap();
}

/// The process may die between the journal's last word and the command's row. The journal is how it ended, whatever has
/// become of the attempt by the time at which the host completes again: over, or forgotten with the process.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_has_as_applied_is_applied_though_the_attempt_is_over() {
    for is_restarted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("commands.sqlite");
        let admission = format!("store = \"sqlite\"\npath = {path:?}");
        let mut world = World::with(&admission).await;
        let (session, epoch, listing) = gated(&world).await;
        let (token, attempt) = joins(&world, &listing).await;
        let command = decide(&world, &session, &attempt, true).await;
        world.begins(&session, command, "eu-1", epoch).await;
        journal(&path, &session, command, epoch, Completion::Applied).await;
        if is_restarted {
            world.into_server().shutdown().await;
            world = World::with(&admission).await;
        } else {
            let own = format!("/v1/tenants/demo/attempts/{attempt}");
            assert_eq!(world.ask("DELETE", &own, &[("authorization", &token)], "").await.status, 204);
            assert_eq!(state(&world, &token, &attempt).await, "closed");
        }
        let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
        let first = world.step(&session, command, "complete", done.clone()).await;
        assert_eq!((first.status, &first.json["state"]), (200, &json!("applied")), "{is_restarted} {first:?}");
        let again = world.step(&session, command, "complete", done).await;
        assert_eq!((again.status, &again.json), (200, &first.json), "{is_restarted}");
    }
}

/// An instance that does not have the listing found nobody to admit, and died after it had journaled that. The host
/// completes again where the player waits: who is told that the attempt was gone must not have let it in.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_has_as_gone_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands.sqlite");
    let world = World::with(&format!("store = \"sqlite\"\npath = {path:?}")).await;
    let (session, epoch, listing) = gated(&world).await;
    let (token, attempt) = joins(&world, &listing).await;
    let command = decide(&world, &session, &attempt, false).await;
    world.begins(&session, command, "eu-1", epoch).await;
    let gone = Completion::Rejected(OutcomeCode::new("attempt_gone").unwrap());
    journal(&path, &session, command, epoch, gone).await;
    let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    let done = world.step(&session, command, "complete", done).await;
    assert_eq!((done.status, &done.json["disposition"]), (200, &json!("attempt_gone")), "{done:?}");
    assert_eq!(state(&world, &token, &attempt).await, "waiting", "nothing was decided");
}

/// Only what the lease holder has begun reaches the directory.
#[tokio::test]
async fn a_completion_without_the_lease_answers_no_gate() {
    let world = World::start().await;
    let (session, epoch, listing) = gated(&world).await;
    let (token, attempt) = joins(&world, &listing).await;
    let command = decide(&world, &session, &attempt, false).await;
    let done = |host: &str| json!({"host": host, "epoch": epoch, "result": "applied"});
    let path = format!("{SESSIONS}/{session}/commands/{command}/complete");
    let unbegun = world.host(EU_KEY, "POST", &path, done("eu-1")).await;
    assert_eq!(unbegun.status, 409, "{unbegun:?}");
    world.begins(&session, command, "eu-1", epoch).await;
    let body = json!({"target_key": "arena/eu", "capacity": 8});
    assert_eq!(world.host(RIVAL_KEY, "PUT", "/v1/hosts/rival-1", body).await.status, 200);
    for (host, status) in [("rival-1", 409), ("eu-1", 404)] {
        let stolen = world.host(RIVAL_KEY, "POST", &path, done(host)).await;
        assert_eq!(stolen.status, status, "{stolen:?}");
        assert_eq!(state(&world, &token, &attempt).await, "waiting", "{host}");
    }
    let own = world.host(EU_KEY, "POST", &path, done("eu-1")).await;
    assert_eq!((own.status, &own.json["state"]), (200, &json!("applied")), "{own:?}");
    assert_eq!(state(&world, &token, &attempt).await, "refused");
}

/// A listing may name a session only where its host runs it.
#[tokio::test]
async fn a_listing_names_the_session_that_its_own_host_runs() {
    let world = World::start().await;
    let session = world.session("k").await;
    let eu = format!("Bearer {EU_KEY}");
    let none = register(&world, &eu, &session, "a").await;
    assert_eq!((none.status, none.code()), (409, "lease_lost"), "nobody runs it: {none:?}");
    world.runs(EU_KEY, "eu-1", &session).await;
    let rival = register(&world, &format!("Bearer {RIVAL_KEY}"), &session, "a").await;
    assert_eq!((rival.status, rival.code()), (409, "lease_lost"), "{rival:?}");
    let player = register(&world, &backend(), &session, "a").await;
    assert_eq!((player.status, player.code()), (403, "forbidden"));
    assert_eq!(register(&world, &eu, "x", "a").await.json["errors"][0]["pointer"], "/session_id");
}

/// Rule D3: one session fills no directory, and takes no place from the host's other sessions.
#[tokio::test]
async fn rule_d3_a_session_has_as_many_listings_as_an_owner() {
    let world = World::start().await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    world.runs(EU_KEY, "eu-1", &one).await;
    world.runs(EU_KEY, "eu-1", &other).await;
    let eu = format!("Bearer {EU_KEY}");
    for session in [&one, &other] {
        for n in 0..4 {
            let answer = register(&world, &eu, session, &format!("{session}-{n}")).await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        let full = register(&world, &eu, session, &format!("{session}-4")).await;
        assert_eq!((full.status, full.code()), (429, "capacity_exceeded"), "{full:?}");
        assert_eq!(full.json["resource"], "listings_per_session");
        assert!(full.header("retry-after").is_some());
    }
}
