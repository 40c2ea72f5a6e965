//! The service over each store, with a clock that stands still and ids that are counted.

use super::*;
use crate::credentials::fingerprint;
use crate::domain::details::DetailsInput;
use crate::domain::{
    At, AttemptId, AttemptState, Candidates, Details, EndReason, Endpoint, Family, ListingEnd, MonoTime, Path,
    Presence, Replay, Resource, Scope, SessionRef, Ttl, Visibility, WallTime,
};
use crate::store::lane::{Lane, LaneSettings};
use crate::store::single_lock::SingleLock;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

const TENANT: TenantId = TenantId(0);
const LONG_MS: u64 = 30_000;

struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn mono(&self) -> MonoTime {
        MonoTime(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000)
    }

    fn at(&self) -> At {
        At { mono: self.mono(), wall: self.wall() }
    }
}

#[derive(Default)]
struct CountedIds(AtomicU64);

impl IdSource for CountedIds {
    fn created_ms(&self) -> u64 {
        1_700_000_000_000
    }

    fn random(&self) -> Result<u128, EntropyError> {
        Ok(u128::from(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

fn service(lane: bool, long_polls: u32) -> Service {
    service_on(Arc::new(StillClock(AtomicU64::new(1_000_000_000))), lane, long_polls)
}

fn service_on(clock: SharedClock, lane: bool, long_polls: u32) -> Service {
    let limits = Limits::default();
    let (waits, waiting_attempts) = (Waits::new(long_polls), Arc::new(WaitingAttempts::default()));
    let observer = Fanout::new(vec![waits.clone(), waiting_attempts.clone()]);
    let store = if lane {
        AnyStore::Lane(Lane::new(limits.clone(), LaneSettings::default(), clock.clone(), observer).unwrap())
    } else {
        AnyStore::SingleLock(SingleLock::new(limits.clone(), clock.clone(), observer).unwrap())
    };
    let mut policy = crate::config::Config::default().policy();
    policy.turn = Some(TurnPolicy {
        uris: vec!["turn:192.0.2.1".to_owned()].into(),
        secret: Secret::new("north"),
        ttl_ms: 60_000,
    });
    let instance = InstanceId(1);
    let keys = InstanceKeys::derive(&[1; 32], instance);
    let ids = Box::new(CountedIds::default());
    Service::new(ServiceParts { store, clock, instance, keys, limits, policy, ids, waits, waiting_attempts })
}

/// Runs a test on both stores.
async fn on_both<F: Future<Output = ()>>(test: impl Fn(Arc<Service>) -> F) {
    for lane in [true, false] {
        test(Arc::new(service(lane, 1_024))).await;
    }
}

fn caller(service: &Service, name: &str) -> Caller {
    Caller { principal: service.principal(TENANT, name), guest_source: None }
}

fn registration(name: &str, gate: bool) -> RegisterRequest {
    let input = DetailsInput { name: name.into(), max_players: 8, ..DetailsInput::default() };
    RegisterRequest {
        scope: Scope::new(TENANT, "arena/3").unwrap(),
        visibility: Visibility::Public,
        details: Details::new(input).unwrap(),
        ttl: Ttl::checked(60_000, Limits::default().lease_ttl).unwrap(),
        gate,
        session: None,
        candidates: Candidates::default(),
    }
}

fn joining(listing: ListingId) -> AttemptRequest {
    AttemptRequest { listing, protocol: None, candidates: Candidates::default(), payload: None }
}

fn endpoint(text: &str) -> Endpoint {
    Endpoint::new(text.parse().unwrap()).unwrap()
}

async fn hosted(service: &Service, gate: bool) -> ListingGrant {
    let host = caller(service, "host");
    let grant = service.register(&host, "k", registration("game", gate)).await.unwrap().value;
    let presence = Presence {
        listing: grant.listing,
        endpoint: endpoint("192.0.2.1:5000"),
        datagram: fingerprint(b"presence"),
        sequence: Some(1),
        nonce_issued: service.clock().mono(),
    };
    service.ask(Ask::Presence(presence)).await.unwrap();
    grant
}

async fn bind(service: &Service, attempt: AttemptId, host: Option<ListingId>) -> bool {
    let address = if host.is_some() { "192.0.2.1:5000" } else { "192.0.2.2:6000" };
    let (datagram, nonce_issued) = (fingerprint(address.as_bytes()), service.clock().mono());
    let bind = BindRequest { attempt, listing: host, endpoint: endpoint(address), datagram, nonce_issued };
    let Told::Bound(bound) = service.ask(Ask::Bind(bind)).await.unwrap().value else { panic!("another's answer") };
    bound.introduction.is_some()
}

/// Polls a future once and expects it to wait.
async fn expect_waiting<F: Future + Unpin>(future: &mut F) {
    let pending = std::future::poll_fn(|_| {
        let mut context = Context::from_waker(Waker::noop());
        Poll::Ready(std::pin::Pin::new(&mut *future).poll(&mut context).is_pending())
    });
    assert!(pending.await, "expected to wait");
}

fn rejected<T: std::fmt::Debug>(result: Result<T, Failure>) -> Rejection {
    match result {
        Err(Failure::Rejected(rejection)) => rejection,
        other => panic!("expected a rejection, seen {other:?}"),
    }
}

#[tokio::test]
async fn rule_f2_a_duplicate_gives_the_same_grant_again() {
    on_both(|service| async move {
        let host = caller(&service, "host");
        let first = service.register(&host, "k", registration("game", false)).await.unwrap();
        let again = service.register(&host, "k", registration("game", false)).await.unwrap();
        assert_eq!((first.replayed, again.replayed, first.commit), (false, true, again.commit));
        let shown = |grant: &ListingGrant| {
            let presence = (grant.presence.username.clone(), grant.presence.password.expose().to_owned());
            (
                grant.listing,
                grant.lease_token.expose().to_owned(),
                presence,
                grant.expires_at,
                grant.presence_interval_ms,
            )
        };
        assert_eq!(shown(&first.value), shown(&again.value));
        let other = service.register(&host, "k", registration("other", false)).await;
        assert_eq!(rejected(other), Rejection::IdempotencyMismatch);
        let stranger = service.register(&caller(&service, "stranger"), "k", registration("game", false)).await.unwrap();
        assert!(!stranger.replayed);
    })
    .await;
}

#[tokio::test]
async fn rule_f2_an_attempt_is_repeatable_with_its_turn_credential() {
    on_both(|service| async move {
        let listing = hosted(&service, false).await.listing;
        let joiner = caller(&service, "joiner");
        let first = service.create_attempt(&joiner, "k", joining(listing)).await.unwrap();
        let again = service.create_attempt(&joiner, "k", joining(listing)).await.unwrap();
        let shown = |grant: &AttemptGrant| {
            let secrets = [&grant.bind.password, &grant.peer_key, &grant.turn[0].credential];
            (grant.attempt, grant.expires_at, grant.turn[0].username.clone(), secrets.map(|it| it.expose().to_owned()))
        };
        assert_eq!((shown(&first.value), true), (shown(&again.value), again.replayed));
        let status = service.attempt(&joiner, first.value.attempt, None, 0).await.unwrap();
        assert_eq!(status.turn[0].username, first.value.turn[0].username);
        assert_eq!(
            rejected(service.create_attempt(&joiner, "k", joining(ListingId(9))).await),
            Rejection::IdempotencyMismatch
        );
    })
    .await;
}

#[tokio::test]
async fn rule_e5_the_lease_token_and_the_owner_are_both_needed() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let stranger = caller(&service, "stranger");
        assert_eq!(rejected(service.lease(&host, grant.listing, "wrong").await), Rejection::NotFound);
        assert_eq!(rejected(service.lease(&stranger, grant.listing, token).await), Rejection::NotFound);
        assert_eq!(service.lease(&host, grant.listing, token).await.unwrap().value.version, 1);
        let renewal = RenewRequest { version: 1, ttl: None, details: None, visibility: None };
        let renewed = service.renew(&host, grant.listing, token, renewal.clone()).await.unwrap();
        assert_eq!((renewed.value.version, renewed.value.ttl_ms), (2, 60_000));
        let stale = service.renew(&host, grant.listing, token, renewal).await;
        assert_eq!(rejected(stale), Rejection::VersionConflict { current: 2 });
        service.delete(&host, grant.listing, token).await.unwrap();
        assert_eq!(rejected(service.lease(&host, grant.listing, token).await), Rejection::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_hosts_poll_hears_of_the_attempt_that_comes() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose().to_owned());
        let mut poll = Box::pin(service.host_offers(&host, grant.listing, &token, 0, LONG_MS));
        expect_waiting(&mut poll).await;
        let joiner = caller(&service, "joiner");
        let attempt = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap().value;
        let offers = poll.await.unwrap();
        let offer = &offers.attempts[0];
        assert_eq!((offer.pending.id, offers.ended), (attempt.attempt, None));
        assert_eq!(offer.peer_key, attempt.peer_key);
        let derived = crate::credentials::host_password(&grant.presence.password, attempt.attempt);
        assert_eq!(offer.bind.password, derived);
        let mut next = Box::pin(service.host_offers(&host, grant.listing, &token, offers.commit, LONG_MS));
        expect_waiting(&mut next).await;
        service.delete(&host, grant.listing, &token).await.unwrap();
        let ended = next.await.unwrap();
        assert_eq!((ended.attempts.len(), ended.ended), (0, Some(ListingEnd::Deleted)));
        let gone = service.host_offers(&host, grant.listing, &token, 0, LONG_MS).await;
        assert_eq!(rejected(gone), Rejection::NotFound);
    })
    .await;
}

#[tokio::test]
async fn both_sides_polls_hear_of_the_introduction() {
    on_both(|service| async move {
        let listing = hosted(&service, false).await.listing;
        let (host, joiner) = (caller(&service, "host"), caller(&service, "joiner"));
        let created = service.create_attempt(&joiner, "k", joining(listing)).await.unwrap();
        let attempt = created.value.attempt;
        assert!(!service.is_quiet().await);
        let mut by_joiner = Box::pin(service.attempt(&joiner, attempt, Some(created.commit), LONG_MS));
        let mut by_host = Box::pin(service.attempt(&host, attempt, Some(created.commit), LONG_MS));
        expect_waiting(&mut by_joiner).await;
        expect_waiting(&mut by_host).await;
        assert!(!bind(&service, attempt, None).await);
        let own = by_joiner.await.unwrap();
        let AttemptState::Waiting { own: endpoints, .. } = &own.state else { panic!("{own:?}") };
        assert_eq!(endpoints, &[endpoint("192.0.2.2:6000")]);
        assert!(bind(&service, attempt, Some(listing)).await);
        let introduced = service.attempt(&joiner, attempt, Some(own.commit), LONG_MS).await.unwrap();
        assert!(matches!(introduced.state, AttemptState::Introduced { .. }), "{introduced:?}");
        assert!(by_host.await.is_ok());
        assert!(service.is_quiet().await);
        assert_eq!(service.report_path(&joiner, attempt, Path::Direct).await.unwrap().value, Some(Family::V4));
        service.close_attempt(&joiner, attempt).await.unwrap();
        let over = service.attempt(&joiner, attempt, Some(service.last_commit()), LONG_MS).await.unwrap();
        assert_eq!((over.state, over.turn.len()), (AttemptState::Ended(EndReason::Closed), 0));
    })
    .await;
}

#[tokio::test]
async fn rule_h6_opening_the_gate_introduces_both_sides_at_once() {
    on_both(|service| async move {
        let grant = hosted(&service, true).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let joiner = caller(&service, "joiner");
        let attempt = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap().value.attempt;
        assert!(!bind(&service, attempt, None).await);
        assert!(!bind(&service, attempt, Some(grant.listing)).await);
        assert_eq!(rejected(service.answer_gate(&host, attempt, "wrong", true).await), Rejection::NotFound);
        service.answer_gate(&host, attempt, token, true).await.unwrap();
        let status = service.attempt(&joiner, attempt, None, 0).await.unwrap();
        assert!(matches!(status.state, AttemptState::Introduced { .. }), "{status:?}");
        let second = service.create_attempt(&joiner, "k2", joining(grant.listing)).await.unwrap().value.attempt;
        service.answer_gate(&host, second, token, false).await.unwrap();
        let refused = service.attempt(&joiner, second, None, 0).await.unwrap();
        assert_eq!(refused.state, AttemptState::Ended(EndReason::Refused));
    })
    .await;
}

#[tokio::test]
async fn a_poll_has_a_place_under_the_ceiling_that_a_hang_up_frees() {
    for lane in [true, false] {
        let service = service(lane, 1);
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let joiner = caller(&service, "joiner");
        let created = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap();
        let mut poll = Box::pin(service.host_offers(&host, grant.listing, token, created.commit, LONG_MS));
        expect_waiting(&mut poll).await;
        let full = service.attempt(&joiner, created.value.attempt, Some(created.commit), LONG_MS).await;
        assert_eq!(rejected(full), Rejection::CapacityExceeded(Resource::LongPolls));
        assert!(service.attempt(&joiner, created.value.attempt, Some(created.commit), 0).await.is_ok());
        drop(poll);
        assert_eq!(service.waiting_polls(), 0);
    }
}

/// What a poll's caller holds while the poll has its place.
struct Probe<'s> {
    service: &'s Service,
    placed: &'s AtomicU64,
}

/// Remembers how many polls still had a place when it was let go.
struct Held<'s>(&'s Service, &'s AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.1.store(100 + u64::from(self.0.waiting_polls()), Ordering::Relaxed);
    }
}

impl<'s> crate::domain::Wait for Probe<'s> {
    type Held = Held<'s>;

    fn limit(&self) -> Duration {
        WAIT_MAX
    }

    fn placed(self) -> Held<'s> {
        self.placed.fetch_add(1, Ordering::Relaxed);
        Held(self.service, self.placed)
    }
}

#[tokio::test]
async fn who_polls_holds_something_from_having_a_place_until_before_it_is_free() {
    for lane in [true, false] {
        let (service, placed) = (service(lane, 1), AtomicU64::new(0));
        let probe = || Probe { service: &service, placed: &placed };
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let joiner = caller(&service, "joiner");
        let created = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap();
        let (attempt, commit) = (created.value.attempt, created.commit);
        let stranger = caller(&service, "stranger");
        assert!(service.host_offers(&stranger, grant.listing, token, 0, probe()).await.is_err());
        assert!(service.host_offers(&host, grant.listing, token, 0, probe()).await.is_ok(), "news at once");
        let mut poll = Box::pin(service.host_offers(&host, grant.listing, token, commit, LONG_MS));
        expect_waiting(&mut poll).await;
        let full = Rejection::CapacityExceeded(Resource::LongPolls);
        assert_eq!(rejected(service.attempt(&joiner, attempt, Some(commit), probe()).await), full);
        assert_eq!(placed.load(Ordering::Relaxed), 0, "none of them waits");
        drop(poll);
        let mut by_host = Box::pin(service.host_offers(&host, grant.listing, token, commit, probe()));
        expect_waiting(&mut by_host).await;
        assert_eq!(placed.load(Ordering::Relaxed), 1);
        drop(by_host);
        assert_eq!((placed.load(Ordering::Relaxed), service.waiting_polls()), (101, 0), "the place is free after it");
        let mut by_joiner = Box::pin(service.attempt(&joiner, attempt, Some(commit), probe()));
        expect_waiting(&mut by_joiner).await;
        service.close_attempt(&joiner, attempt).await.unwrap();
        by_joiner.await.unwrap();
        assert_eq!(placed.load(Ordering::Relaxed), 101);
        placed.store(0, Ordering::Relaxed);
        let mut at_gate = Box::pin(service.session_gate(TENANT, SessionRef(1), 0, probe()));
        expect_waiting(&mut at_gate).await;
        assert_eq!(placed.load(Ordering::Relaxed), 1);
        drop(at_gate);
        assert_eq!(placed.load(Ordering::Relaxed), 101);
    }
}

#[tokio::test]
async fn a_stranger_never_takes_the_owners_place() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let mut poll = Box::pin(service.host_offers(&host, grant.listing, token, 0, LONG_MS));
        expect_waiting(&mut poll).await;
        let forged = service.host_offers(&caller(&service, "stranger"), grant.listing, token, 0, LONG_MS).await;
        assert_eq!(rejected(forged), Rejection::NotFound);
        expect_waiting(&mut poll).await;
    })
    .await;
}

#[tokio::test]
async fn rule_j2_drain_lets_waiting_polls_go_and_is_repeatable() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let mut poll = Box::pin(service.host_offers(&host, grant.listing, token, 0, LONG_MS));
        expect_waiting(&mut poll).await;
        let first = service.drain(None).await.unwrap().value;
        assert_eq!(first.0, service.clock().mono().plus_ms(10_000));
        assert_eq!(poll.await.unwrap().ended, None);
        assert_eq!(service.drain(Some(0)).await.unwrap().value, first);
        assert_eq!(service.availability(), Availability::Draining { deadline: first.0, wall: first.1 });
        let refused = rejected(service.register(&host, "k2", registration("late", false)).await);
        assert_eq!(refused, Rejection::Draining { deadline: first.0, wall: first.1 });
    })
    .await;
}

#[tokio::test]
async fn rule_j2_a_poll_that_outlives_the_drain_is_told_so() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let (host, token) = (caller(&service, "host"), grant.lease_token.expose());
        let joiner = caller(&service, "joiner");
        let created = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap();
        let (attempt, commit) = (created.value.attempt, created.commit);
        let mut by_joiner = Box::pin(service.attempt(&joiner, attempt, Some(commit), LONG_MS));
        let mut by_host = Box::pin(service.host_offers(&host, grant.listing, token, commit, LONG_MS));
        expect_waiting(&mut by_joiner).await;
        expect_waiting(&mut by_host).await;
        let (deadline, wall) = service.drain(Some(0)).await.unwrap().value;
        service.tick();
        let draining = Rejection::Draining { deadline, wall };
        assert_eq!(rejected(by_joiner.await), draining, "not what was true before");
        assert_eq!(rejected(by_host.await), draining);
    })
    .await;
}

/// A poll that hears of an end and of the drain at once may look at either first.
#[tokio::test]
async fn rule_c3_drain_lets_no_poll_go_with_what_has_died_meanwhile() {
    for round in 0..32 {
        let clock = Arc::new(StillClock(AtomicU64::new(1_000_000_000)));
        let service = service_on(clock.clone(), round % 2 == 0, 1_024);
        let grant = hosted(&service, false).await;
        let joiner = caller(&service, "joiner");
        let created = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap();
        let mut poll = Box::pin(service.attempt(&joiner, created.value.attempt, Some(created.commit), LONG_MS));
        expect_waiting(&mut poll).await;
        clock.0.fetch_add(u64::from(service.limits().bind_window_ms) * 1_000_000, Ordering::Relaxed);
        service.drain(None).await.unwrap();
        assert_eq!(poll.await.unwrap().state, AttemptState::Ended(EndReason::NotBound), "round {round}");
    }
}

#[tokio::test]
async fn rule_h7_i2_a_revocation_uses_its_key_up_and_can_be_lifted() {
    on_both(|service| async move {
        let grant = hosted(&service, false).await;
        let subject = NamedSubject::Principal("host".to_owned());
        let ttl = Ttl::checked(60_000, service.limits().revocation_ttl).unwrap();
        let revoked = service.revoke(TENANT, &subject, ttl, "once").await.unwrap().value;
        assert_eq!((revoked.listings, revoked.attempts), (1, 0));
        let again = service.revoke(TENANT, &NamedSubject::Listing(grant.listing), ttl, "once").await;
        assert_eq!(rejected(again), Rejection::ReplayRejected(Replay::KeyUsed));
        let host = caller(&service, "host");
        assert_eq!(rejected(service.register(&host, "k2", registration("again", false)).await), Rejection::Revoked);
        service.lift_revocation(TENANT, &subject).await.unwrap();
        assert_eq!(rejected(service.lift_revocation(TENANT, &subject).await), Rejection::NotFound);
        assert!(service.register(&host, "k2", registration("again", false)).await.is_ok());
        assert_eq!(service.status().await.unwrap().value.listings.live, 1);
    })
    .await;
}

#[tokio::test]
async fn rule_s5_waiting_for_a_commit_is_bounded_by_what_exists() {
    on_both(|service| async move {
        hosted(&service, false).await;
        let last = service.last_commit();
        let future = service.await_commit(last + 1).await;
        assert_eq!(rejected(future), Rejection::Invalid(Invalid::FutureCommit));
        service.tick();
        service.await_commit(last).await.unwrap();
        assert!(service.published().0 >= last);
    })
    .await;
}

#[tokio::test]
async fn rule_s5_a_poll_after_a_commit_of_another_instance_is_refused() {
    on_both(|service| async move {
        let grant = hosted(&service, true).await;
        let host = caller(&service, "host");
        let joiner = caller(&service, "joiner");
        let token = grant.lease_token.expose();
        let attempt = service.create_attempt(&joiner, "k", joining(grant.listing)).await.unwrap().value.attempt;
        let session = SessionRef(5);
        let future = |commit| (commit > service.last_commit()).then_some(Rejection::Invalid(Invalid::FutureCommit));
        for after in [service.last_commit(), service.last_commit() + 1] {
            for wait_ms in [0, 1] {
                let offers = service.host_offers(&host, grant.listing, token, after, wait_ms).await;
                assert_eq!(offers.err().map(|failure| rejected(Err::<(), _>(failure))), future(after));
                let status = service.attempt(&joiner, attempt, Some(after), wait_ms).await;
                assert_eq!(status.err().map(|failure| rejected(Err::<(), _>(failure))), future(after));
                let gate = service.session_gate(TENANT, session, after, wait_ms).await;
                assert_eq!(gate.err().map(|failure| rejected(Err::<(), _>(failure))), future(after));
            }
        }
        let stranger = caller(&service, "stranger");
        let unseen = service.host_offers(&stranger, grant.listing, token, u64::MAX, 0).await;
        assert_eq!(rejected(unseen), Rejection::NotFound, "E5: not even that");
    })
    .await;
}

#[test]
fn the_presence_interval_lies_between_a_quarter_and_a_third_and_spreads() {
    let interval = |random| hosts::presence_interval_ms(ListingId::compose(0, random, 7), 65_000);
    assert_eq!((interval(0), interval(0xFFFF)), (15_600, 19_499));
    assert_ne!(interval(1_000), interval(2_000));
}
