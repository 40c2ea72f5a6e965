//! The loop on real loopback sockets, with a lane that answers, or that is stalled for as long as a test wants.

use super::answers::{applied, introduction};
use super::*;
use crate::clock::{Clock, SharedClock, SystemClock};
use crate::domain::{Bound, Endpoint, Event, Failure, NoteUnverified, Offers, Present};
use crate::edge::udp::lane::Lane;
use crate::service::{Applied, Ask, Observer, Together, Told};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

/// Longer than any answer takes; a test that waits for it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// Succeeds at once, or as soon as it gets a permit.
struct FakeLane {
    clock: SharedClock,
    gate: Semaphore,
    /// Batches that were asked in one pass.
    passes: AtomicUsize,
}

impl FakeLane {
    fn told(&self, ask: Ask) -> Told {
        let now = self.clock.mono();
        match ask {
            Ask::Presence(_) => {
                Told::Present(Present { deadline: now.plus_ms(65_000), offers: Offers::default(), draining: None })
            }
            Ask::Bind(_) => Told::Bound(Bound { deadline: now.plus_ms(30_000), repeated: false, introduction: None }),
        }
    }

    async fn answer<T>(&self, value: T) -> Result<Applied<T>, Failure> {
        let _permit = self.gate.acquire().await.map_err(|_| Failure::Cancelled)?;
        Ok(applied(value))
    }
}

impl Lane for FakeLane {
    async fn ask(&self, ask: Ask) -> Result<Applied<Told>, Failure> {
        self.answer(self.told(ask)).await
    }

    fn ask_together(
        &self,
        asks: impl Iterator<Item = Ask>,
        _memory: &mut Together,
        mut tell: impl FnMut(Result<Applied<Told>, Failure>),
    ) -> bool {
        let Ok(_permit) = self.gate.try_acquire() else { return false };
        self.passes.fetch_add(1, Ordering::Relaxed);
        asks.for_each(|ask| tell(Ok(applied(self.told(ask)))));
        true
    }

    async fn note(&self, _note: NoteUnverified) -> Result<Applied<()>, Failure> {
        self.answer(()).await
    }
}

/// A running edge.
struct Running {
    addrs: LocalAddrs,
    notices: Arc<UdpNotices>,
    lane: Arc<FakeLane>,
    metrics: Arc<super::metrics::UdpMetrics>,
    clock: SharedClock,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// A bound edge that nobody serves yet.
fn bound(plain: &[&str], auth: &[&str], questions_max: usize) -> (UdpEdge, LocalAddrs) {
    bound_with(plain, auth, questions_max, Arc::default())
}

fn bound_with(plain: &[&str], auth: &[&str], questions_max: usize, notices: Arc<UdpNotices>) -> (UdpEdge, LocalAddrs) {
    let settings = UdpSettings {
        plain: plain.iter().map(|text| address(text)).collect(),
        auth: auth.iter().map(|text| address(text)).collect(),
        budgets: Budgets { questions_max, ..Budgets::default() },
        classic: false,
        notices,
        entropy: Entropy::new([9; 32]),
    };
    let edge = UdpEdge::bind(settings).unwrap();
    let addrs = edge.local_addrs();
    (edge, addrs)
}

fn serve(edge: UdpEdge, addrs: LocalAddrs, notices: Arc<UdpNotices>, permits: usize) -> Running {
    let metrics = edge.metrics();
    let clock: SharedClock = Arc::new(SystemClock::new());
    let lane =
        Arc::new(FakeLane { clock: Arc::clone(&clock), gate: Semaphore::new(permits), passes: AtomicUsize::new(0) });
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let task = {
        let (lane, clock) = (Arc::clone(&lane), Arc::clone(&clock));
        tokio::spawn(async move {
            let stopped = async move { drop(stopped.await) };
            edge.serve(lane, &protocol(), clock, stopped).await;
        })
    };
    Running { addrs, notices, lane, metrics, clock, stop, task }
}

fn start(plain: &[&str], auth: &[&str], questions_max: usize, permits: usize) -> Running {
    let notices = Arc::new(UdpNotices::new());
    let (edge, addrs) = bound_with(plain, auth, questions_max, Arc::clone(&notices));
    serve(edge, addrs, notices, permits)
}

async fn client(server: SocketAddr) -> UdpSocket {
    let local = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(local).await.unwrap();
    socket.connect(server).await.unwrap();
    socket
}

async fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 2_000];
    let length = tokio::time::timeout(PATIENCE, socket.recv(&mut buffer)).await.expect("no answer").unwrap();
    buffer.truncate(length);
    buffer
}

async fn exchange(socket: &UdpSocket, request: &[u8]) -> Vec<u8> {
    socket.send(request).await.unwrap();
    receive(socket).await
}

/// Challenge and authenticated request; the socket's nonce is returned for more.
async fn log_in(socket: &UdpSocket, speaker: &Speaker) -> (String, Vec<u8>) {
    let challenge = exchange(socket, &speaker.first()).await;
    let nonce = Message::parse(&challenge).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned();
    let answer = exchange(socket, &speaker.sequenced(&nonce, 1)).await;
    (nonce, answer)
}

#[tokio::test]
async fn presence_over_both_families_and_both_kinds_of_listeners() {
    let edge = start(&["127.0.0.1:0", "[::1]:0"], &["127.0.0.1:0"], 16, 16);
    assert_eq!((edge.addrs.plain.len(), edge.addrs.auth.len()), (2, 1));
    let speaker = Speaker::host_presence();
    for server in [edge.addrs.plain[0], edge.addrs.plain[1], edge.addrs.auth[0]] {
        let socket = client(server).await;
        let (_, answer) = log_in(&socket, &speaker).await;
        let message = Message::parse(&answer).unwrap();
        assert!(message.verify_integrity(&speaker.key));
        let mapped = message.xor_address(AttributeType::XOR_MAPPED_ADDRESS).unwrap();
        assert_eq!((message.class(), mapped), (Class::Success, Some(socket.local_addr().unwrap())));
        let plain = exchange(&socket, &begun().finish().unwrap()).await;
        let expected = if server == edge.addrs.auth[0] { Class::Error } else { Class::Success };
        assert_eq!(Message::parse(&plain).unwrap().class(), expected);
    }
}

#[tokio::test]
async fn case_q10_the_loop_never_waits_for_the_lane() {
    let edge = start(&["127.0.0.1:0"], &[], 2, 0);
    let (waiting, other) = (client(edge.addrs.plain[0]).await, client(edge.addrs.plain[0]).await);
    let speaker = Speaker::host_presence();
    let challenge = exchange(&waiting, &speaker.first()).await;
    let nonce = Message::parse(&challenge).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned();
    for sequence in 0..2 {
        waiting.send(&speaker.sequenced(&nonce, sequence)).await.unwrap();
    }
    // Two questions wait in the stalled lane: the third is refused at once, signed, and others are served.
    let (_, refused) = log_in(&other, &Speaker::joiner()).await;
    let message = Message::parse(&refused).unwrap();
    assert_eq!(message.error_code(), Ok(Some(500)));
    assert!(message.verify_integrity(&Speaker::joiner().key));
    assert_eq!(message.u16(AttributeType::RV_REASON), Ok(Some(Reason::Overloaded.number())));
    let mapped = exchange(&other, &begun().finish().unwrap()).await;
    assert_eq!(Message::parse(&mapped).unwrap().class(), Class::Success);
    // Once the lane moves, the waiting answers arrive.
    edge.lane.gate.add_permits(1);
    for _ in 0..2 {
        assert_eq!(Message::parse(&receive(&waiting).await).unwrap().class(), Class::Success);
    }
}

#[tokio::test]
async fn what_one_call_reads_is_asked_in_one_pass() {
    const DATAGRAMS: u64 = 10;
    let edge = start(&["127.0.0.1:0"], &[], 16, 1);
    let speaker = Speaker::host_presence();
    let socket = client(edge.addrs.plain[0]).await;
    let (nonce, _) = log_in(&socket, &speaker).await;
    let before = edge.lane.passes.load(Ordering::Relaxed);
    let sender = socket.into_std().unwrap();
    for sequence in 0..DATAGRAMS {
        // Nothing yields here: the loop sees them together.
        sender.send(&speaker.sequenced(&nonce, 2 + sequence)).unwrap();
    }
    let socket = UdpSocket::from_std(sender).unwrap();
    for _ in 0..DATAGRAMS {
        assert_eq!(Message::parse(&receive(&socket).await).unwrap().class(), Class::Success);
    }
    assert_eq!(edge.lane.passes.load(Ordering::Relaxed) - before, 1);
}

#[tokio::test]
async fn case_u1_u2_oversized_and_empty_datagrams_leave_the_loop_alive() {
    let edge = start(&["127.0.0.1:0"], &[], 16, 16);
    let socket = client(edge.addrs.plain[0]).await;
    let valid_head = Speaker::joiner().first();
    for length in [1_201, 1_600, 2_048, 65_507] {
        let mut oversized = valid_head.clone();
        oversized.resize(length, 0);
        socket.send(&oversized).await.unwrap();
    }
    for _ in 0..200 {
        socket.send(b"").await.unwrap();
    }
    assert_eq!(exchange(&socket, &valid_head).await.len(), 124);
    assert_eq!(edge.metrics.received_count(), 4 + 200 + 1);
    assert_eq!(edge.metrics.answers_of(super::metrics::AnswerKind::Direct), 1, "no prefix was taken for a request");
}

#[tokio::test]
async fn case_u3_peers_that_vanish_do_not_disturb_the_others() {
    let edge = start(&["127.0.0.1:0"], &[], 16, 16);
    let request = Speaker::joiner().first();
    let stayer = client(edge.addrs.plain[0]).await;
    for _ in 0..300 {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&request, edge.addrs.plain[0]).unwrap();
        drop(socket);
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(exchange(&stayer, &request).await.len(), 124);
    }
}

#[tokio::test]
async fn a_wildcard_listener_answers_from_the_address_that_was_asked() {
    let edge = start(&["0.0.0.0:0"], &[], 16, 16);
    let port = edge.addrs.plain[0].port();
    for asked in ["127.0.0.1", "127.0.0.2", "127.8.9.10"] {
        // A connected socket hears only from the address it asked.
        let socket = client(SocketAddr::new(asked.parse().unwrap(), port)).await;
        let (_, answer) = log_in(&socket, &Speaker::joiner()).await;
        assert_eq!(Message::parse(&answer).unwrap().class(), Class::Success, "{asked}");
    }
}

#[tokio::test]
async fn offers_reach_a_host_the_way_it_spoke_until_it_binds() {
    let edge = start(&["127.0.0.1:0"], &["127.0.0.1:0"], 16, 16);
    let speaker = Speaker::host_presence();
    // Its NAT lets in only what comes from the challenging listener, as a connected socket does.
    let host = client(edge.addrs.auth[0]).await;
    log_in(&host, &speaker).await;
    let endpoint = Endpoint::new(host.local_addr().unwrap()).unwrap();
    let deadline = edge.clock.mono().plus_ms(30_000);
    edge.notices.observe(&Event::AttemptCreated {
        attempt: ATTEMPT,
        listing: LISTING,
        host: endpoint,
        deadline,
        until: deadline,
    });
    let (first, second) = (receive(&host).await, receive(&host).await);
    let (first, second) = (Message::parse(&first).unwrap(), Message::parse(&second).unwrap());
    assert!(first.verify_integrity(&speaker.key));
    assert_eq!(first.offers().next().unwrap().unwrap().attempt, ATTEMPT.0);
    assert_eq!(first.transaction(), second.transaction());

    edge.notices.observe(&Event::AttemptChanged { attempt: ATTEMPT, host_bound: true });
    let other = AttemptId(1);
    edge.notices.observe(&Event::AttemptCreated {
        attempt: other,
        listing: LISTING,
        host: endpoint,
        deadline,
        until: deadline,
    });
    for _ in 0..3 {
        let next = receive(&host).await;
        let next = Message::parse(&next).unwrap();
        assert_eq!(next.offers().next().unwrap().unwrap().attempt, other.0, "the bound attempt is silent");
    }
}

#[tokio::test]
async fn both_sides_of_an_introduction_are_told_at_once() {
    let edge = start(&["127.0.0.1:0"], &["127.0.0.1:0"], 16, 16);
    let (host, joiner) = (client(edge.addrs.plain[0]).await, client(edge.addrs.auth[0]).await);
    log_in(&host, &Speaker::host()).await;
    log_in(&joiner, &Speaker::joiner()).await;
    let of = |socket: &UdpSocket| Endpoint::new(socket.local_addr().unwrap()).unwrap();
    let now = edge.clock.mono();
    let told = crate::domain::Introduction {
        last_bound: [of(&host), of(&joiner)],
        at: now,
        deadline: now.plus_ms(30_000),
        ..introduction()
    };
    edge.notices.observe(&Event::Introduced(Box::new(told)));
    for (socket, speaker) in [(host, Speaker::host()), (joiner, Speaker::joiner())] {
        let bytes = receive(&socket).await;
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(message.class(), Class::Indication);
        assert!(message.verify_integrity(&speaker.key));
        assert_eq!(message.id(AttributeType::RV_INTRODUCTION), Ok(Some(ATTEMPT.0)));
    }
}

#[tokio::test]
async fn a_burst_of_notices_is_worked_off_without_another_wake() {
    const BURST: u128 = 1_000;
    let edge = start(&["127.0.0.1:0"], &[], 16, 16);
    let now = edge.clock.mono();
    for attempt in 0..BURST {
        let attempt = AttemptId(attempt);
        let told = crate::domain::Introduction { attempt, at: now, deadline: now.plus_ms(30_000), ..introduction() };
        // Nobody reads there; what counts is that each was taken and sent.
        let nobody = Endpoint::new(address("127.0.0.1:9")).unwrap();
        let told = crate::domain::Introduction { last_bound: [nobody, nobody], ..told };
        edge.notices.observe(&Event::Introduced(Box::new(told)));
    }
    let all_told = async {
        while edge.metrics.notices_of(super::metrics::NoticeKind::Introduction) < 2 * BURST as u64 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, all_told).await.expect("some notices wait for ever");
}

#[tokio::test]
async fn case_x6_a_flooded_socket_keeps_no_other_waiting() {
    const FLOOD: usize = 100;
    let (edge, addrs) = bound(&["127.0.0.1:0", "127.0.0.1:0"], &[], 16);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let request = Speaker::joiner().first();
    for _ in 0..FLOOD {
        socket.send_to(&request, addrs.plain[0]).await.unwrap();
    }
    socket.send_to(&request, addrs.plain[1]).await.unwrap();
    let edge = serve(edge, addrs, Arc::default(), 16);
    let mut buffer = [0; 200];
    let mut before = 0;
    loop {
        let next = tokio::time::timeout(PATIENCE, socket.recv_from(&mut buffer)).await.expect("no answer");
        if next.unwrap().1 == edge.addrs.plain[1] {
            break;
        }
        before += 1;
    }
    assert!(before < FLOOD / 2, "{before} answers of the flooded socket came first");
}

#[tokio::test]
async fn case_p7_an_ipv6_wildcard_serves_ipv4_on_the_same_port() {
    let edge = start(&["[::]:0"], &["[::]:0"], 16, 16);
    let port = edge.addrs.plain[0].port();
    assert_eq!(edge.addrs.plain, [address(&format!("[::]:{port}")), address(&format!("0.0.0.0:{port}"))]);
    for server in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let socket = client(address(&server)).await;
        let answer = exchange(&socket, &begun().finish().unwrap()).await;
        let mapped = Message::parse(&answer).unwrap().xor_address(AttributeType::XOR_MAPPED_ADDRESS).unwrap();
        assert_eq!(mapped, Some(socket.local_addr().unwrap()), "the family of {server}");
    }
    let challenging = edge.addrs.auth[1];
    assert!(challenging.is_ipv4() && challenging.port() == edge.addrs.auth[0].port(), "{challenging}");
    let socket = client(SocketAddr::new("127.0.0.1".parse().unwrap(), challenging.port())).await;
    let (_, answer) = log_in(&socket, &Speaker::host_presence()).await;
    assert_eq!(Message::parse(&answer).unwrap().class(), Class::Success);
}

#[tokio::test]
async fn case_p7_an_ipv4_listener_of_the_same_port_stands_for_itself() {
    let (edge, addrs) = bound(&["[::]:0", "127.0.0.1:0"], &[], 16);
    assert_eq!(addrs.plain.len(), 2, "{addrs:?}");
    let (other, addrs) = bound(&["[::ffff:127.0.0.1]:0"], &["[::1]:0"], 16);
    assert!(addrs.plain[0].is_ipv4() && addrs.auth.len() == 1, "{addrs:?}");
    drop((edge, other));
    let has_twin = |plain: &[&str], auth: &[&str]| {
        let list = |texts: &[&str]| texts.iter().map(|text| address(text)).collect::<Vec<_>>();
        let (plain, auth) = (list(plain), list(auth));
        super::socket::has_twin(plain[0], &plain, &plain, &auth)
    };
    assert!(has_twin(&["[::]:3478"], &["0.0.0.0:3479"]));
    for (plain, auth) in [(&["[::]:3478", "0.0.0.0:3478"][..], &[][..]), (&["[::]:3478"], &["192.0.2.1:3478"])] {
        assert!(!has_twin(plain, auth), "{plain:?} {auth:?}");
    }
    assert!(has_twin(&["[::]:0"], &["0.0.0.0:0"]), "two choices of the system are two ports");
    assert!(!has_twin(&["0.0.0.0:3478"], &[]) && !has_twin(&["[2001:db8::1]:3478"], &[]));
}

#[tokio::test]
async fn shutdown_ends_the_loop_and_frees_the_port() {
    let edge = start(&["127.0.0.1:0"], &[], 16, 0);
    let server = edge.addrs.plain[0];
    let socket = client(server).await;
    let challenge = exchange(&socket, &Speaker::joiner().first()).await;
    let nonce = Message::parse(&challenge).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned();
    socket.send(&Speaker::joiner().plain(&nonce)).await.unwrap();
    exchange(&socket, &begun().finish().unwrap()).await;
    edge.stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, edge.task).await.expect("the loop goes on").unwrap();
    assert_eq!(Arc::strong_count(&edge.lane), 1, "K1: the waiting question was dropped");
    UdpSocket::bind(server).await.unwrap();
}

#[tokio::test]
async fn a_taken_address_is_named_in_the_error() {
    let edge = start(&["127.0.0.1:0"], &[], 16, 16);
    let settings = UdpSettings {
        plain: edge.addrs.plain.clone(),
        auth: Vec::new(),
        budgets: Budgets::default(),
        classic: false,
        notices: Arc::new(UdpNotices::new()),
        entropy: Entropy::new([9; 32]),
    };
    let error = UdpEdge::bind(settings).unwrap_err();
    assert!(error.to_string().contains(&edge.addrs.plain[0].to_string()), "{error}");
}
