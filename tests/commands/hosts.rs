//! What hosts do: leases, the steps of an application, and what an old lease can't.

use crate::harness::{EU_KEY, FAR_KEY, RIVAL_KEY, SESSIONS, World};
use serde_json::{Value, json};

#[tokio::test]
async fn a_host_registers_with_what_its_credential_allows() {
    let world = World::start().await;
    let put =
        async |key: &str, host: &str, body: Value| world.host(key, "PUT", &format!("/v1/hosts/{host}"), body).await;
    let good = put(EU_KEY, "eu-1", json!({"target_key": "arena/eu", "capacity": 3})).await;
    assert_eq!((good.status, &good.json["capacity"], &good.json["placed"]), (200, &json!(3), &json!(0)), "{good:?}");
    assert_eq!(good.json["heartbeat_ttl_ms"], 30_000);
    let rows = [
        ("eu-1", RIVAL_KEY, json!({"target_key": "arena/eu", "capacity": 1}), 409, "host_taken"),
        ("x", EU_KEY, json!({"target_key": "arena/mars", "capacity": 1}), 403, "forbidden"),
        ("x", EU_KEY, json!({"target_key": "", "capacity": 1}), 400, ""),
        ("x", EU_KEY, json!({"target_key": "arena/eu", "capacity": 4_097}), 400, "invalid"),
        ("a%20b", EU_KEY, json!({"target_key": "arena/eu", "capacity": 1}), 400, ""),
    ];
    for (host, key, body, status, reason) in rows {
        let answer = put(key, host, body.clone()).await;
        assert_eq!(
            (answer.status, answer.json["reason"].as_str().unwrap_or_default()),
            (status, reason),
            "{host} {body}"
        );
    }
    let foreign = world.host(RIVAL_KEY, "GET", "/v1/hosts/eu-1/work", Value::Null).await;
    let absent = world.host(RIVAL_KEY, "GET", "/v1/hosts/nobody/work", Value::Null).await;
    assert_eq!((foreign.status, &foreign.body), (404, &absent.body), "another's host looks absent");
}

#[tokio::test]
async fn a_command_is_claimed_begun_and_applied() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let command = world.work(EU_KEY, "eu-1", "deliver").await;
    assert_eq!((&command["payload"], &command["state"]), (&json!("start"), &json!("admitted")));
    let stale = format!("\"{}\"", command["revision"].as_u64().unwrap() + 1);
    let path = format!("{SESSIONS}/{session}/commands/1/claim");
    let headers = [("authorization", &*format!("Bearer {EU_KEY}")), ("if-match", &stale)];
    let body = json!({"host": "eu-1", "epoch": epoch, "ttl_ms": 5_000});
    let lost = world.ask("POST", &path, &headers, &body.to_string()).await;
    assert_eq!((lost.status, lost.code(), &lost.json["current_version"]), (412, "conflict", &command["revision"]));
    let early = world.step(&session, 1, "begin", json!({"host": "eu-1", "epoch": epoch})).await;
    assert_eq!((early.status, &early.json["reason"]), (409, &json!("claim_lost")), "{early:?}");
    let claimed = world.step(&session, 1, "claim", body).await;
    assert_eq!((&claimed.json["state"], &claimed.json["deliveries"]), (&json!("claimed"), &json!(1)), "{claimed:?}");
    assert_eq!(claimed.header("etag"), Some(format!("\"{}\"", claimed.json["revision"]).as_str()));
    let begun = world.step(&session, 1, "begin", json!({"host": "eu-1", "epoch": epoch})).await;
    assert_eq!((&begun.json["state"], &begun.json["applying_epoch"]), (&json!("applying"), &json!(epoch)));
    let unsaid = json!({"host": "eu-1", "epoch": epoch, "result": "rejected", "code": "never_claimed"});
    let unsaid = world.step(&session, 1, "complete", unsaid).await;
    assert_eq!((unsaid.status, &unsaid.json["errors"][0]["pointer"]), (400, &json!("/code")), "the plane's own words");
    let applied = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    let done = world.step(&session, 1, "complete", applied.clone()).await;
    assert_eq!((&done.json["state"], &done.json["disposition"]), (&json!("applied"), &json!("applied")), "{done:?}");
    let again = world.step(&session, 1, "complete", applied).await;
    assert_eq!((again.status, &again.json), (200, &done.json), "a lost answer is asked for again");
    let otherwise = json!({"host": "eu-1", "epoch": epoch, "result": "rejected", "code": "full"});
    let otherwise = world.step(&session, 1, "complete", otherwise).await;
    assert_eq!((otherwise.status, otherwise.code()), (409, "already_settled"));
    let seen = world.get(&format!("{SESSIONS}/{session}/commands/1")).await.json;
    assert_eq!((&seen["state"], &seen["outcome"]["by"]), (&json!("applied"), &json!("eu-1")));
}

/// Host A can't act for a session whose lease B holds, and B's name helps it nothing.
#[tokio::test]
async fn a_host_without_the_lease_can_do_nothing() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let body = json!({"target_key": "arena/eu", "capacity": 8});
    assert_eq!(world.host(RIVAL_KEY, "PUT", "/v1/hosts/rival-1", body).await.status, 200);
    let lease = format!("{SESSIONS}/{session}/lease");
    let held = world.host(RIVAL_KEY, "POST", &lease, json!({"action": "acquire", "host": "rival-1"})).await;
    assert_eq!((held.status, held.code()), (409, "lease_held"), "{held:?}");
    for (host, number, status, code, reason) in [
        ("rival-1", epoch, 409, "lease_lost", "lease_lost"),
        ("rival-1", epoch + 1, 409, "lease_lost", "lease_lost"),
        ("eu-1", epoch, 404, "not_found", "unknown_host"),
    ] {
        for (step, more) in [
            ("commands/1/claim", json!({})),
            ("commands/1/begin", json!({})),
            ("commands/1/complete", json!({"result": "applied"})),
            ("commands/1/settle", json!({})),
            ("lease", json!({"action": "renew"})),
        ] {
            let mut body = json!({"host": host, "epoch": number});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = world.host(RIVAL_KEY, "POST", &format!("{SESSIONS}/{session}/{step}"), body).await;
            let seen = (answer.status, answer.code(), answer.json["reason"].as_str().unwrap_or_default());
            assert_eq!(seen, (status, code, reason), "{host} {step} {answer:?}");
        }
    }
    let path = format!("{SESSIONS}/{session}/payloads/{}?host=rival-1&epoch={epoch}", "a".repeat(64));
    assert_eq!(world.host(RIVAL_KEY, "GET", &path, Value::Null).await.code(), "lease_lost");
    let far = world.host(FAR_KEY, "POST", &lease, json!({"action": "acquire", "host": "eu-1"})).await;
    assert_eq!((far.status, far.code()), (404, "not_found"), "a tenant that it does not serve looks absent");
    assert_eq!(
        world.get(&format!("{SESSIONS}/{session}/commands/1")).await.json["state"],
        "admitted",
        "nothing happened"
    );
}

/// Cases Q3 and L1: what an outdated lease reports late changes nothing, and the newer one gets the command again.
#[tokio::test]
async fn case_q3_a_late_report_under_an_outdated_lease_is_refused() {
    let world = World::with("store = \"memory\"\nlease_ttl_min_ms = 100\nplacement_grace_ms = 100").await;
    let session = world.session("k").await;
    let old = world.runs(EU_KEY, "eu-1", &session).await;
    world.begins(&session, 1, "eu-1", old).await;
    let lease = format!("{SESSIONS}/{session}/lease");
    let release = json!({"action": "release", "host": "eu-1", "epoch": old});
    assert_eq!(world.host(EU_KEY, "POST", &lease, release.clone()).await.status, 204);
    assert_eq!(world.host(EU_KEY, "POST", &lease, release).await.status, 204, "again is the same");
    let body = json!({"action": "renew", "host": "eu-1", "epoch": old});
    assert_eq!(world.host(EU_KEY, "POST", &lease, body).await.code(), "lease_lost", "what is let go is not renewed");
    let new = world.runs(EU_KEY, "eu-2", &session).await;
    assert!(new > old);
    let late = json!({"host": "eu-1", "epoch": old, "result": "applied"});
    let late = world.step(&session, 1, "complete", late).await;
    assert_eq!((late.status, late.code()), (409, "lease_lost"), "{late:?}");
    let again = world.work(EU_KEY, "eu-2", "deliver").await;
    assert_eq!(again["command"], 1, "redelivery goes to the next holder");
    world.begins(&session, 1, "eu-2", new).await;
    let done = json!({"host": "eu-2", "epoch": new, "result": "rejected", "code": "no_such_map"});
    let done = world.step(&session, 1, "complete", done).await;
    assert_eq!((&done.json["state"], &done.json["disposition"]), (&json!("rejected"), &json!("no_such_map")));
    assert_eq!(done.json["deliveries"], 2);
}

/// Case L10: a host that crashed is not locked out by its own ghost, and the ghost can do nothing any more.
#[tokio::test]
async fn case_l10_a_host_that_comes_again_takes_over_from_its_own_ghost() {
    let world = World::start().await;
    let session = world.session("k").await;
    let ghost = world.runs(EU_KEY, "eu-1", &session).await;
    world.begins(&session, 1, "eu-1", ghost).await;
    let lease = format!("{SESSIONS}/{session}/lease");
    let again = world.host(EU_KEY, "POST", &lease, json!({"action": "acquire", "host": "eu-1"})).await;
    assert_eq!((again.status, again.json["epoch"].as_u64()), (200, Some(ghost + 1)), "{again:?}");
    let late = json!({"host": "eu-1", "epoch": ghost, "result": "applied"});
    assert_eq!(world.step(&session, 1, "complete", late).await.code(), "lease_lost");
    assert_eq!(world.work(EU_KEY, "eu-1", "deliver").await["command"], 1, "it gets back what it had begun");
}

/// Case L5: of two who saw the same revision one wins, and the other is told the current one.
#[tokio::test]
async fn case_l5_a_claim_compares_the_revision_that_its_caller_saw() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let seen = world.work(EU_KEY, "eu-1", "deliver").await["revision"].as_u64().unwrap();
    let path = format!("{SESSIONS}/{session}/commands/1/claim");
    let (token, tag) = (format!("Bearer {EU_KEY}"), format!("\"{seen}\""));
    let body = json!({"host": "eu-1", "epoch": epoch}).to_string();
    let headers = [("authorization", token.as_str()), ("if-match", tag.as_str())];
    let first = world.ask("POST", &path, &headers, &body).await;
    assert_eq!(first.status, 200, "{first:?}");
    let second = world.ask("POST", &path, &headers, &body).await;
    assert_eq!((second.status, second.code()), (412, "conflict"), "{second:?}");
    assert_eq!(second.json["current_version"], first.json["revision"]);
    assert_eq!(second.header("etag"), first.header("etag"));
    for bad in ["*", "W/\"1\"", "1"] {
        let headers = [("authorization", token.as_str()), ("if-match", bad)];
        assert_eq!(world.ask("POST", &path, &headers, &body).await.status, 400, "{bad}");
    }
}

/// Case Q4: who had begun in time reports late, and it is said; who had not may not begin any more.
#[tokio::test]
async fn case_q4_what_was_begun_in_time_may_end_late_and_nothing_begins_late() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let commands = format!("{SESSIONS}/{session}/commands");
    let soon = json!({"kind": "input", "apply_within_ms": 5_000});
    for (key, number) in [("begun", 2), ("claimed", 3), ("left", 4)] {
        assert_eq!(world.post(&commands, key, soon.clone()).await.json["command"], number);
    }
    world.begins(&session, 2, "eu-1", epoch).await;
    let lease = json!({"host": "eu-1", "epoch": epoch});
    assert_eq!(world.step(&session, 3, "claim", lease.clone()).await.status, 200);
    // The last of the three has the latest deadline: its end is after the deadline of all.
    let left = world.get(&format!("{commands}/4?wait_ms=20000")).await.json;
    assert_eq!((&left["state"], &left["disposition"]), (&json!("expired"), &json!("never_claimed")));
    let begin = world.step(&session, 3, "begin", lease.clone()).await;
    assert!(matches!(begin.json["reason"].as_str(), Some("late" | "already_settled")), "{begin:?}");
    let claimed = world.get(&format!("{commands}/3?wait_ms=20000")).await.json;
    assert_eq!(claimed["disposition"], "claimed_not_applied", "it may have run");
    let claim = world.step(&session, 4, "claim", lease).await;
    assert_eq!((claim.status, claim.code()), (409, "already_settled"), "{claim:?}");
    let done = json!({"host": "eu-1", "epoch": epoch, "result": "applied"});
    let done = world.step(&session, 2, "complete", done).await;
    assert_eq!((&done.json["state"], &done.json["outcome"]["late"]), (&json!("applied"), &json!(true)), "{done:?}");
}

/// Cases L2, L3 and L7: a lease lives as long as the answer says, whatever was asked for and however often it is renewed.
#[tokio::test]
async fn case_l7_what_is_asked_for_is_cut_and_the_answer_says_what_was_granted() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let lease = format!("{SESSIONS}/{session}/lease");
    for (asked, granted) in [(json!(9_007_199_254_740_991_u64), 300_000), (json!(0), 1_000), (json!(5_000), 5_000)] {
        let body = json!({"action": "renew", "host": "eu-1", "epoch": epoch, "ttl_ms": asked});
        let answer = world.host(EU_KEY, "POST", &lease, body).await;
        assert_eq!((answer.status, &answer.json["ttl_ms"]), (200, &json!(granted)), "{answer:?}");
    }
    let body = json!({"action": "renew", "host": "eu-1", "epoch": epoch, "ttl_ms": 9_007_199_254_740_992_u64});
    assert_eq!(world.host(EU_KEY, "POST", &lease, body).await.status, 400);
}

/// A session that is over takes no command, and says so.
#[tokio::test]
async fn a_closed_session_takes_no_commands() {
    let world = World::start().await;
    let session = world.session("k").await;
    let epoch = world.runs(EU_KEY, "eu-1", &session).await;
    let lease = format!("{SESSIONS}/{session}/lease");
    let body = json!({"action": "release", "host": "eu-1", "epoch": epoch, "close": true});
    assert_eq!(world.host(EU_KEY, "POST", &lease, body).await.status, 204);
    let refused = world.post(&format!("{SESSIONS}/{session}/commands"), "i", json!({"kind": "input"})).await;
    let seen = (refused.status, refused.code(), refused.json["reason"].as_str().unwrap());
    assert_eq!(seen, (410, "expired", "session_closed"));
    assert_eq!(world.get(&format!("{SESSIONS}/{session}")).await.json["state"], "closed");
}
