//! Listings and attempts from their first request to their last.

use crate::harness::{Server, jwt, request, tenant};
use rendezvous::service::NamedSubject;

const LISTINGS: &str = "/v1/tenants/demo/listings";
const BODY: &str = r#"{"protocol":"arena/3","details":{"name":"Friday","max_players":8}}"#;

async fn on_both(test: impl AsyncFn(Server)) {
    for lane in [true, false] {
        test(Server::start(lane, |_| {}).await).await;
    }
}

#[tokio::test]
async fn a_listing_from_registration_to_deletion() {
    on_both(async |server| {
        let host = server.guest().await;
        let headers = [("authorization", host.as_str()), ("idempotency-key", "\"k1\"")];
        let first = server.ask("POST", LISTINGS, &headers, BODY).await;
        assert_eq!((first.status, first.json["version"].as_u64()), (201, Some(1)), "{first:?}");
        assert_eq!(first.header("cache-control"), Some("private, no-store"));
        assert!(first.header("rendezvous-commit").is_some() && first.header("rendezvous-instance").is_some());
        let id = first.json["listing_id"].as_str().unwrap();

        let bare = [("authorization", host.as_str()), ("idempotency-key", "k1")];
        let reordered = r#" {"details":{"max_players":8,"name":"\u0046riday","players":0},"protocol":"arena/3"}"#;
        let again = server.ask("POST", LISTINGS, &bare, reordered).await;
        assert_eq!((again.status, &again.body), (200, &first.body), "rule F2: the original result");
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        let other = server.ask("POST", LISTINGS, &bare, &BODY.replace("Friday", "Monday")).await;
        assert_eq!((other.status, other.json["reason"].as_str()), (422, Some("idempotency_mismatch")));

        server.present(id, "p").await;
        let token = first.json["lease_token"].as_str().unwrap();
        let renew = format!("{LISTINGS}/{id}/renew");
        let renewing =
            |version: &'static str| [("authorization", host.as_str()), ("lease-token", token), ("if-match", version)];
        let renewed = server.ask("POST", &renew, &renewing("\"1\""), r#"{"visibility":"unlisted"}"#).await;
        assert_eq!((renewed.status, renewed.header("etag")), (200, Some("\"2\"")), "{renewed:?}");
        assert_eq!(renewed.json["visibility"], "unlisted");
        let stale = server.ask("POST", &renew, &renewing("\"1\""), "").await;
        assert_eq!((stale.status, stale.code(), stale.header("etag")), (412, "conflict", Some("\"2\"")));
        assert_eq!(stale.json["current_version"], 2);

        let lease = server.ask("GET", &format!("{LISTINGS}/{id}/lease"), &renewing("\"1\""), "").await;
        assert_eq!((lease.json["presence"].as_str(), lease.json["version"].as_u64()), (Some("verified"), Some(2)));
        assert_eq!(lease.json["endpoints"][0]["address"], "192.0.2.1:5000");

        for _ in 0..2 {
            let deleted = server.ask("DELETE", &format!("{LISTINGS}/{id}"), &renewing("\"1\""), "").await;
            assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
        }
        assert_eq!(server.ask("POST", LISTINGS, &bare, BODY).await.status, 410, "rule F2: remembered, and gone");
    })
    .await;
}

#[tokio::test]
async fn an_attempt_from_both_sides() {
    on_both(async |server| {
        let (host, joiner) = (server.guest().await, server.guest().await);
        let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
        let id = listing["listing_id"].as_str().unwrap();
        let token = listing["lease_token"].as_str().unwrap();
        let attempts = format!("{LISTINGS}/{id}/attempts");
        let mut waiting = server.client().await;
        let owner = [("authorization", host.as_str()), ("lease-token", token)];
        waiting.send(request("GET", &format!("{attempts}?wait_ms=30000"), &owner, "").as_bytes()).await;
        server.until(|server| server.service.waiting_polls() == 1).await;

        let joining = [("authorization", joiner.as_str()), ("idempotency-key", "k")];
        let created = server.ask("POST", &attempts, &joining, r#"{"payload":"hello"}"#).await;
        assert_eq!(created.status, 201, "{created:?}");
        let attempt = created.json["attempt_id"].as_str().unwrap().to_owned();
        let offers = waiting.response(false).await.unwrap();
        assert_eq!(offers.json["attempts"][0]["attempt_id"].as_str(), Some(attempt.as_str()));
        assert_eq!(offers.json["attempts"][0]["joiner_payload"], "hello");
        assert_eq!(offers.json["attempts"][0]["peer_key"], created.json["peer_key"]);
        assert_ne!(offers.json["attempts"][0]["bind"]["password"], created.json["bind"]["password"]);

        let path = format!("/v1/tenants/demo/attempts/{attempt}");
        let mine = [("authorization", joiner.as_str())];
        let view = server.ask("GET", &path, &mine, "").await;
        assert_eq!((view.json["state"].as_str(), view.json.get("peer")), (Some("waiting"), None), "{view:?}");
        let stranger = server.guest().await;
        assert_eq!(server.ask("GET", &path, &[("authorization", stranger.as_str())], "").await.status, 404);

        let after = view.json["commit"].as_u64().unwrap();
        let mut following = server.client().await;
        let prefer = [("authorization", joiner.as_str()), ("prefer", "wait=30")];
        following.send(request("GET", &format!("{path}?after={after}"), &prefer, "").as_bytes()).await;
        server.until(|server| server.service.waiting_polls() == 1).await;
        let refused = server.ask("DELETE", &path, &[("authorization", host.as_str())], "").await;
        assert_eq!(refused.status, 204);
        let ended = following.response(false).await.unwrap();
        assert_eq!(
            (ended.json["state"].as_str(), ended.header("preference-applied")),
            (Some("refused"), Some("wait=30"))
        );
        assert_eq!(server.ask("POST", &format!("{path}/outcome"), &mine, r#"{"path":"failed"}"#).await.status, 204);
        let twice = server.ask("POST", &format!("{path}/outcome"), &mine, r#"{"path":"failed"}"#).await;
        assert_eq!((twice.status, twice.code()), (409, "replay_rejected"));
    })
    .await;
}

#[tokio::test]
async fn a_poll_on_a_listing_that_ends_says_so_and_a_later_one_finds_nothing() {
    on_both(async |server| {
        let host = server.guest().await;
        let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
        let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
        let owner = [("authorization", host.as_str()), ("lease-token", token)];
        let path = format!("{LISTINGS}/{id}/attempts?wait_ms=30000");
        let mut waiting = server.client().await;
        waiting.send(request("GET", &path, &owner, "").as_bytes()).await;
        server.until(|server| server.service.waiting_polls() == 1).await;
        assert_eq!(server.ask("DELETE", &format!("{LISTINGS}/{id}"), &owner, "").await.status, 204);
        let ended = waiting.response(false).await.unwrap();
        assert_eq!((ended.status, &ended.json["ended"], &ended.json["reason"]), (200, &true.into(), &"deleted".into()));
        assert_eq!(server.ask("GET", &path, &owner, "").await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn rule_e5_wrong_tokens_owners_and_absent_listings_look_alike() {
    on_both(async |server| {
        let (host, other) = (server.guest().await, server.guest().await);
        let listing = server.host(&host, "k", r#"{"name":"A","max_players":2}"#).await;
        let (id, token) = (listing["listing_id"].as_str().unwrap(), listing["lease_token"].as_str().unwrap());
        let wrong = token.chars().rev().collect::<String>();
        let absent = "f".repeat(32);
        let cases = [
            (id, host.as_str(), wrong.as_str()),
            (id, other.as_str(), token),
            (&absent, &host, token),
            ("not-an-id", &host, token),
        ];
        let mut bodies = Vec::new();
        for (id, caller, token) in cases {
            let headers = [("authorization", caller), ("lease-token", token), ("if-match", "\"1\"")];
            let answer = server.ask("POST", &format!("{LISTINGS}/{id}/renew"), &headers, "{}").await;
            assert_eq!((answer.status, answer.code()), (404, "not_found"));
            bodies.push(answer.body);
        }
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
    })
    .await;
}

#[tokio::test]
async fn case_i1_parallel_duplicates_make_one_listing() {
    on_both(async |server| {
        let host = server.guest().await;
        let text = request("POST", LISTINGS, &[("authorization", &host), ("idempotency-key", "k")], BODY);
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(server.client().await);
        }
        for client in &mut clients {
            client.send(text.as_bytes()).await;
        }
        let mut statuses = Vec::new();
        let mut bodies = Vec::new();
        for client in &mut clients {
            let answer = client.response(false).await.unwrap();
            statuses.push(answer.status);
            bodies.push(answer.body);
        }
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 201)));
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
    })
    .await;
}

#[tokio::test]
async fn operators_revoke_and_lift() {
    on_both(async |server| {
        let key = format!("Bearer {}", crate::harness::OPERATOR);
        let alice = jwt("demo", "alice");
        let listing = server.host(&alice, "k", r#"{"name":"A","max_players":2}"#).await;
        let body = r#"{"tenant":"demo","principal":"alice","ttl_ms":60000}"#;
        let once = [("authorization", key.as_str()), ("idempotency-key", "r1")];
        let revoked = server.ask("POST", "/v1/operator/revocations", &once, body).await;
        assert_eq!((revoked.status, &revoked.json["removed"]["listings"]), (200, &1.into()), "{revoked:?}");
        let again = server.ask("POST", "/v1/operator/revocations", &once, body).await;
        assert_eq!((again.status, again.code()), (409, "replay_rejected"));
        let id = listing["listing_id"].as_str().unwrap();
        assert_eq!(server.ask("GET", &format!("{LISTINGS}/{id}"), &[], "").await.status, 404, "rule S1");
        let registering = [("authorization", alice.as_str()), ("idempotency-key", "k2")];
        let refused = server.ask("POST", LISTINGS, &registering, BODY).await;
        assert_eq!((refused.status, refused.code()), (403, "revoked"));
        let lift = "/v1/operator/revocations?tenant=demo&principal=alice";
        assert_eq!(server.ask("DELETE", lift, &once, "").await.status, 204);
        assert_eq!(server.ask("DELETE", lift, &once, "").await.status, 404);
        assert_eq!(server.ask("POST", LISTINGS, &registering, BODY).await.status, 201);
        let unknown = body.replace("demo", "nobody");
        let fresh = [("authorization", key.as_str()), ("idempotency-key", "r2")];
        assert_eq!(server.ask("POST", "/v1/operator/revocations", &fresh, &unknown).await.status, 404);
        let status = server.ask("GET", "/v1/operator/status", &once, "").await;
        assert_eq!(
            (&status.json["availability"], &status.json["counts"]["listings"]["live"]),
            (&"available".into(), &1.into())
        );
        let subject = NamedSubject::Principal("bob".into());
        assert!(server.service.lift_revocation(tenant(), &subject).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn guests_keep_their_name_with_a_new_token() {
    let server = Server::start(false, |_| {}).await;
    let first = server.ask("POST", "/v1/tenants/demo/guests", &[], "").await;
    let token = format!("Bearer {}", first.json["token"].as_str().unwrap());
    let second = server.ask("POST", "/v1/tenants/demo/guests", &[("authorization", &token)], "{}").await;
    assert_eq!((second.status, &second.json["principal"]), (200, &first.json["principal"]));
    let other = Server::start(false, |_| {}).await;
    let stale = other.ask("POST", "/v1/tenants/demo/guests", &[("authorization", &token)], "").await;
    assert_eq!((stale.status, stale.json["reason"].as_str()), (401, Some("stale_instance")), "rule J4");
}
