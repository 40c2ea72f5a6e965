use super::ticker::Ticker;
use super::*;
use crate::clock::{Clock, SharedClock, StampClock, SystemClock};
use crate::config::{Config, StoreKind};
use crate::domain::details::DetailsInput;
use crate::domain::{
    Candidates, Certainty, Details, Event, Failure, Limits, Presence, Scope, TenantId, Ttl, Visibility,
};
use crate::service::{
    AttemptRequest, Caller, Fanout, InstanceKeys, RegisterRequest, ServiceParts, SystemIds, WaitingAttempts, Waits,
};
use crate::store::single_lock::SingleLock;
use crate::store::{AnyStore, Availability, Observer};
use std::time::Duration;

fn config(store: StoreKind) -> Config {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::dev();
    config.server.http = any;
    config.server.udp = vec![any];
    config.server.udp_auth = vec![any];
    config.server.metrics = Some(any);
    config.server.store = store;
    config
}

fn registration() -> RegisterRequest {
    let input = DetailsInput { name: "x".into(), max_players: 8, ..DetailsInput::default() };
    RegisterRequest {
        scope: Scope::new(TenantId(0), "arena/3").unwrap(),
        visibility: Visibility::Public,
        details: Details::new(input).unwrap(),
        ttl: Ttl::checked(60_000, Limits::default().lease_ttl).unwrap(),
        gate: false,
        session: None,
        candidates: Candidates::default(),
    }
}

fn caller(service: &Service, name: &str) -> Caller {
    Caller { principal: service.principal(TenantId(0), name), guest_source: None }
}

/// Hosts a listing with presence and lets somebody wait to join it.
async fn waiting_attempt(service: &Service) {
    let grant = service.register(&caller(service, "host"), "k", registration()).await.unwrap().value;
    let presence = Presence {
        listing: grant.listing,
        endpoint: crate::domain::Endpoint::new("127.0.0.1:5000".parse().unwrap()).unwrap(),
        datagram: crate::credentials::fingerprint(b"presence"),
        sequence: Some(1),
        nonce_issued: service.clock().mono(),
    };
    service.ask(crate::service::Ask::Presence(presence)).await.unwrap();
    let request =
        AttemptRequest { listing: grant.listing, protocol: None, candidates: Candidates::default(), payload: None };
    service.create_attempt(&caller(service, "joiner"), "k", request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_either_store_and_says_where() {
    for store in [StoreKind::Lane, StoreKind::SingleLock] {
        let server = Server::start(config(store)).await.unwrap();
        let addresses = [Some(server.http_addr()), server.udp_addr(), server.udp_auth_addr(), server.metrics_addr()];
        assert!(addresses.iter().all(|address| address.is_some_and(|address| address.port() != 0)), "{addresses:?}");
        let expected = format!(
            "ready http={} udp={} udp_auth={} metrics={} instance={}",
            server.http_addr(),
            server.udp_addr().unwrap(),
            server.udp_auth_addr().unwrap(),
            server.metrics_addr().unwrap(),
            server.instance(),
        );
        assert_eq!(server.ready_line(), expected);
        let grant = server.service().register(&caller(server.service(), "host"), "k", registration()).await.unwrap();
        let stun = [server.udp_addr(), server.udp_auth_addr()].map(|address| format!("stun:{}", address.unwrap()));
        assert_eq!(grant.value.stun.as_ref(), stun);
        // The ticker publishes without being asked.
        server.service().await_commit(grant.commit).await.unwrap();
        assert_eq!(server.shutdown().await, Exit::Drained);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_j3_drain_ends_at_once_when_nobody_waits_and_at_the_deadline_when_somebody_does() {
    let begun = SystemClock::new();
    let idle = Server::start(config(StoreKind::Lane)).await.unwrap();
    assert_eq!(idle.shutdown().await, Exit::Drained);
    let after_idle_ms = begun.mono().ms_since(crate::domain::MonoTime(1_000_000_000));
    assert!(after_idle_ms < 10_000, "the window has 10 s, and it took {after_idle_ms} ms");
    let mut short = config(StoreKind::Lane);
    short.drain.window_ms = 300;
    let busy = Server::start(short).await.unwrap();
    waiting_attempt(busy.service()).await;
    let service = busy.service().clone();
    let before = service.clock().mono();
    assert_eq!(busy.shutdown().await, Exit::Drained);
    assert!(service.clock().mono().ms_since(before) >= 300);
    let refused = service.status().await.map(|status| status.value.attempts.live);
    assert!(!matches!(refused, Ok(1..)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_j3_a_signal_after_an_operators_drain_has_ended_is_no_loss() {
    for store in [StoreKind::Lane, StoreKind::SingleLock] {
        let server = Server::start(config(store)).await.unwrap();
        waiting_attempt(server.service()).await;
        server.service().drain(Some(0)).await.unwrap();
        let refused = server.service().drain(None).await.err();
        assert_eq!(refused.map(|failure| failure.code()), Some("draining"), "the deadline is past");
        assert_eq!(server.shutdown().await, Exit::Drained, "{store:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_address_is_named() {
    let first = Server::start(config(StoreKind::Lane)).await.unwrap();
    let mut second = config(StoreKind::Lane);
    second.server.http = first.http_addr();
    let error = Server::start(second).await.err().unwrap().to_string();
    assert!(error.contains("server.http") && error.contains(&first.http_addr().to_string()), "{error}");
    let mut third = config(StoreKind::Lane);
    third.server.udp = vec![first.udp_addr().unwrap()];
    let error = Server::start(third).await.err().unwrap().to_string();
    assert!(error.contains("server.udp") && error.contains(&first.udp_addr().unwrap().to_string()), "{error}");
}

/// Panics inside the writer at the first attempt.
struct Saboteur;

impl Observer for Saboteur {
    fn observe(&self, event: &Event) {
        assert!(!matches!(event, Event::AttemptCreated { .. }), "sabotage");
    }
}

/// A service whose writer panics at the first attempt.
fn sabotaged() -> Arc<Service> {
    let clock = SystemClock::new();
    let shared: SharedClock = Arc::new(StampClock::new(clock));
    let (instance, keys) = InstanceKeys::random().unwrap();
    let (waits, waiting_attempts) = (Waits::new(8), Arc::new(WaitingAttempts::default()));
    let observer = Fanout::new(vec![waits.clone(), waiting_attempts.clone(), Arc::new(Saboteur)]);
    let limits = Limits::default();
    let store = AnyStore::SingleLock(SingleLock::new(limits.clone(), shared.clone(), observer).unwrap());
    let policy = Config::default().policy();
    let ids = Box::new(SystemIds::new(clock));
    let parts = ServiceParts { store, clock: shared, instance, keys, limits, policy, ids, waits, waiting_attempts };
    Arc::new(Service::new(parts))
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_j1_case_d3_a_panic_in_a_transition_is_heard_and_lets_polls_go() {
    let service = sabotaged();
    let ticker = Ticker::start(service.clone(), Duration::from_millis(5)).unwrap();
    let polling = {
        let service = service.clone();
        let host = caller(&service, "idle host");
        let grant = service.register(&host, "k", registration()).await.unwrap().value;
        tokio::spawn(
            async move { service.host_offers(&host, grant.listing, grant.lease_token.expose(), 0, 30_000).await },
        )
    };
    let sabotaged = {
        let service = service.clone();
        tokio::spawn(async move { waiting_attempt(&service).await })
    };
    assert!(sabotaged.await.is_err(), "the attempt can't have been created");
    ticker.lost().await;
    assert_eq!(service.availability(), Availability::Unavailable);
    let refused = service.status().await.err();
    assert_eq!(refused, Some(Failure::Unavailable(Certainty::NotApplied)));
    let answered = tokio::time::timeout(Duration::from_secs(10), polling).await;
    assert!(answered.is_ok(), "the poll was left hanging");
}

/// The status line of an answer on a connection of its own.
async fn status_of(server: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d3_a_dead_writer_turns_health_red() {
    use crate::edge::http::{HttpServer, HttpSettings};
    let service = sabotaged();
    let guest_key = InstanceKeys::derive(&[7; 32], service.instance()).guest_tokens;
    let settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), Vec::new(), guest_key);
    let http = HttpServer::bind(settings, service.clone()).await.unwrap();
    let address = http.local_addr().unwrap();
    let running = tokio::spawn(http.run());
    for path in ["/livez", "/readyz"] {
        assert_eq!(status_of(address, path).await, "HTTP/1.1 200 OK", "{path}");
    }
    let attempt = {
        let service = service.clone();
        tokio::spawn(async move { waiting_attempt(&service).await })
    };
    assert!(attempt.await.is_err(), "answered, and not with an attempt");
    for path in ["/livez", "/readyz", "/health/live", "/health/ready"] {
        assert_eq!(status_of(address, path).await, "HTTP/1.1 503 Service Unavailable", "{path}");
    }
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d3_a_loop_of_an_edge_that_ends_by_itself_ends_the_process() {
    let ends: [fn(&mut Server); 2] =
        [|server| drop(server.edges.spawn(async { panic!("sabotage") })), |server| drop(server.edges.spawn(async {}))];
    for end in ends {
        let mut server = Server::start(config(StoreKind::Lane)).await.unwrap();
        end(&mut server);
        assert_eq!(server.run_until_signal(Signals::listen().unwrap()).await, Exit::Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d3_a_panic_in_the_upkeep_of_the_command_plane_is_heard_and_turns_health_red() {
    let mut server = Server::start(config(StoreKind::Lane)).await.unwrap();
    let plane = server.commands().expect("a development server has the plane").clone();
    let upkeep = &mut server.commands.as_mut().unwrap().upkeep;
    upkeep.abort();
    *upkeep = tokio::spawn(async { panic!("sabotage") });
    assert_eq!(server.run_until_signal(Signals::listen().unwrap()).await, Exit::Lost);
    assert!(plane.is_lost(), "it was green until its end");
    let server = Server::start(config(StoreKind::Lane)).await.unwrap();
    server.commands().unwrap().lose();
    for path in ["/livez", "/readyz"] {
        assert_eq!(status_of(server.http_addr(), path).await, "HTTP/1.1 503 Service Unavailable", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d3_a_panic_in_what_serves_metrics_is_heard_and_a_watch_that_ends_is_no_loss() {
    let mut server = Server::start(config(StoreKind::Lane)).await.unwrap();
    let begun = tokio::time::Instant::now();
    let (ended, panicked) = tokio::sync::oneshot::channel::<()>();
    server.upkeep.spawn(async move { drop(ended) });
    server.upkeep.spawn(async move {
        // The other one has ended, and been passed over, or the server would be over before this panics.
        let _ended = panicked.await;
        tokio::time::sleep(super::lifecycle::PLANE_CHECK).await;
        panic!("sabotage");
    });
    assert_eq!(server.run_until_signal(Signals::listen().unwrap()).await, Exit::Lost);
    assert!(
        begun.elapsed() >= super::lifecycle::PLANE_CHECK + super::lifecycle::LOST_GRACE,
        "a watch's end is no loss"
    );
}
