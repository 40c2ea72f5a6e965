//! A responder in front of a real lane, hosts that speak to it, and a pair of loopback sockets.

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rendezvous::clock::{SharedClock, StampClock, SystemClock};
use rendezvous::config::Config;
use rendezvous::credentials::{REALM, host_username, joiner_username, long_term_key};
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{
    AttemptId, Candidates, Details, Limits, ListingId, MonoTime, Scope, TenantId, Ttl, Visibility,
};
use rendezvous::edge::udp::{Arrival, Budgets, Decision, Entropy, Listener, Local, Protocol, Question, Responder};
use rendezvous::service::{
    Caller, Fanout, InstanceKeys, RegisterRequest, Service, ServiceParts, SystemIds, Together, WaitingAttempts, Waits,
};
use rendezvous::store::AnyStore;
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::stun::{
    AttributeType, FINGERPRINT_ATTRIBUTE_BYTES, Message, MessageBuilder, PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use std::future::Future;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const TENANT: TenantId = TenantId(0);
const LISTINGS: u32 = 10_000;
/// Longest datagram of these benches.
const BYTES_MAX: usize = 512;
const BUFFER_BYTES: usize = 65_536;
/// Whoever is benched alone.
pub const SOURCE: &str = "192.0.2.1:4000";

/// An idle lane answers at the first poll.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nobody else is at the lane"),
    }
}

/// The edge without its loop.
pub struct Served {
    service: Arc<Service>,
    responder: Responder,
    questions: Vec<Question>,
    together: Together,
}

/// A registered host that has a nonce.
pub struct Host {
    pub listing: ListingId,
    pub key: [u8; 32],
    username: String,
    nonce: String,
}

fn service() -> Service {
    let clock: SharedClock = Arc::new(StampClock::new(SystemClock::new()));
    let (waits, waiting_attempts) = (Waits::new(1), Arc::new(WaitingAttempts::default()));
    let observer = Fanout::new(vec![waits.clone(), waiting_attempts.clone()]);
    let limits = Limits {
        listings: LISTINGS,
        unproven_listings: LISTINGS,
        presence: 2 * LISTINGS,
        idempotency: 4 * LISTINGS,
        ..Limits::default()
    };
    let lane = Lane::new(limits.clone(), LaneSettings::default(), clock.clone(), observer).expect("valid limits");
    let (instance, keys) = InstanceKeys::random().expect("entropy");
    let ids = Box::new(SystemIds::new(SystemClock::new()));
    let (store, policy) = (AnyStore::Lane(lane), Config::default().policy());
    Service::new(ServiceParts { store, clock, instance, keys, limits, policy, ids, waits, waiting_attempts })
}

impl Served {
    pub fn new() -> Self {
        let service = Arc::new(service());
        let protocol = Protocol {
            credentials: service.key().clone(),
            entropy: Entropy::new([9; 32]),
            instance: service.instance(),
            nonce_fresh_ms: u32::MAX,
        };
        let unlimited = 1_000_000_000;
        let budgets = Budgets {
            unproven_per_source_per_s: unlimited,
            unproven_global_per_s: unlimited,
            per_credential_per_s: unlimited,
            ..Budgets::default()
        };
        let responder = Responder::new(&protocol, &budgets, Vec::new(), false);
        Self { service, responder, questions: Vec::new(), together: Together::default() }
    }

    pub fn host(&mut self, n: usize) -> Host {
        self.host_at(n, SOURCE.parse().expect("an address"))
    }

    /// Registers a listing and takes a nonce for it.
    pub fn host_at(&mut self, n: usize, source: SocketAddr) -> Host {
        let caller = Caller { principal: self.service.principal(TENANT, &format!("host {n}")), guest_source: None };
        let details = DetailsInput { name: format!("Friday {n}"), max_players: 16, ..DetailsInput::default() };
        let limits = self.service.limits();
        let request = RegisterRequest {
            scope: Scope::new(TENANT, &format!("arena/{}", n % 50)).expect("a legal protocol"),
            visibility: Visibility::Public,
            details: Details::new(details).expect("valid details"),
            ttl: Ttl::checked(limits.lease_ttl.max_ms.into(), limits.lease_ttl).expect("the longest"),
            gate: false,
            session: None,
            candidates: Candidates::default(),
        };
        let granted = at_once(self.service.register(&caller, &format!("{n}"), request)).expect("room").value;
        let presence = granted.presence;
        let key = long_term_key(&presence.username, REALM, &presence.password);
        let first = first_request(&presence.username);
        let challenge = self.answer(&first, source).expect("a challenge");
        let nonce = Message::parse(&challenge)
            .ok()
            .and_then(|message| Some(message.text(AttributeType::NONCE).ok()??.to_owned()));
        let host = Host { listing: granted.listing, key, username: presence.username, nonce: nonce.expect("a nonce") };
        self.answer(&host.refresh(1), source).expect("presence");
        if n.is_multiple_of(64) {
            self.service.tick();
        }
        host
    }

    /// One datagram of each kind that is served.
    pub fn kinds(&self, host: &Host) -> Vec<(&'static str, Vec<u8>)> {
        let attempt = AttemptId(7);
        let joiner = Host {
            key: long_term_key(&joiner_username(attempt), REALM, &self.service.key().joiner_password(attempt)),
            username: joiner_username(attempt),
            nonce: host.nonce.clone(),
            ..*host
        };
        let password = self.service.key().host_password(host.listing, attempt);
        let username = host_username(host.listing, attempt);
        let binder =
            Host { key: long_term_key(&username, REALM, &password), username, nonce: host.nonce.clone(), ..*host };
        vec![
            ("plain binding", MessageBuilder::binding_request(TransactionId([1; 12])).finish().expect("short")),
            ("first request", first_request(&host.username)),
            ("presence", host.refresh(1)),
            ("bind of a joiner", joiner.refresh(1)),
            ("bind of a host", binder.refresh(1)),
        ]
    }

    /// The whole answer, as the edge makes it, without sockets.
    pub fn answer(&mut self, bytes: &[u8], source: SocketAddr) -> Option<Vec<u8>> {
        let mut answers = Vec::new();
        self.answer_batch(&mut std::iter::once(bytes), source, self.now(), &mut answers);
        answers.pop()
    }

    /// The answers to a batch that was read at `now`: judged one by one, asked together, as the edge does it.
    pub fn answer_batch(
        &mut self,
        batch: &mut dyn Iterator<Item = &[u8]>,
        source: SocketAddr,
        now: MonoTime,
        answers: &mut Vec<Vec<u8>>,
    ) {
        let arrival = Arrival { source, local: Local { socket: 0, ip: None }, listener: Listener::Plain };
        for bytes in batch {
            match self.responder.receive(bytes, arrival, now) {
                Decision::Silence(_) | Decision::Note(_, None) => {}
                Decision::Transmit(transmit) | Decision::Note(_, Some(transmit)) => answers.push(transmit.bytes),
                Decision::Ask(question) => self.questions.push(*question),
            }
        }
        let (service, answerer) = (&self.service, self.responder.answerer());
        let mut asked = self.questions.iter();
        let has_begun =
            service.ask_together(self.questions.iter().map(|question| question.ask), &mut self.together, |result| {
                let question = asked.next().expect("an answer each");
                answers.push(answerer.answer(&question.reply, result, service.clock().mono()).bytes);
            });
        assert!(has_begun, "nobody else is at the lane");
        self.questions.clear();
    }

    pub fn clock(&self) -> SharedClock {
        self.service.clock().clone()
    }

    pub fn now(&self) -> MonoTime {
        self.service.clock().mono()
    }
}

/// The answer to one datagram of the host that is benched alone.
pub fn answer_of(served: &mut Served, bytes: &[u8], _host: &Host) -> Option<Vec<u8>> {
    served.answer(bytes, SOURCE.parse().expect("an address"))
}

fn first_request(username: &str) -> Vec<u8> {
    let first = MessageBuilder::binding_request(TransactionId([1; 12])).text(AttributeType::USERNAME, username);
    first.pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES).fingerprint().finish().expect("short")
}

impl Host {
    /// An authenticated request with this sequence.
    pub fn refresh(&self, sequence: u64) -> Vec<u8> {
        MessageBuilder::binding_request(TransactionId([2; 12]))
            .text(AttributeType::USERNAME, &self.username)
            .text(AttributeType::REALM, REALM)
            .text(AttributeType::NONCE, &self.nonce)
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256)
            .u64(AttributeType::RV_SEQUENCE, sequence)
            .integrity(&self.key)
            .fingerprint()
            .finish()
            .expect("short")
    }
}

/// What answers the datagrams of a batch that was read at a certain time.
pub type Answer<'a> = &'a mut dyn FnMut(&mut dyn Iterator<Item = &[u8]>, MonoTime, &mut Vec<Vec<u8>>);

/// How answers leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// By a system call each, as the edge does it.
    Each,
    /// By one system call for a batch.
    #[cfg(target_os = "linux")]
    Together,
}

/// A server's and a client's socket on one thread, so that nothing but the work is measured.
pub struct LoopbackPair {
    server: UdpSocket,
    state: UdpSocketState,
    client: UdpSocket,
    buffers: Vec<Vec<u8>>,
}

impl LoopbackPair {
    pub fn new() -> Self {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client.connect(server.local_addr().expect("bound")).expect("loopback");
        client.set_nonblocking(true).expect("a socket");
        let state = UdpSocketState::new((&server).into()).expect("a socket");
        Self { server, state, client, buffers: Vec::new() }
    }

    pub fn client_address(&self) -> SocketAddr {
        self.client.local_addr().expect("bound")
    }

    pub fn client_sends(&self, requests: &[Vec<u8>]) {
        for request in requests {
            self.client.send(request).expect("room in the queue");
        }
    }

    pub fn client_drains(&self, expected: usize) {
        let mut buffer = [0; BYTES_MAX];
        let answers = std::iter::from_fn(|| self.client.recv(&mut buffer).ok()).count();
        assert_eq!(answers, expected, "every request is answered");
    }

    /// Receives batches by one system call each until `batch` datagrams are answered. As in the edge, the clock is read once
    /// for what one call read.
    pub fn serve(&mut self, batch: usize, now: &dyn Fn() -> MonoTime, sending: Sending, answer: Answer<'_>) {
        self.buffers.resize_with(batch, || vec![0; BUFFER_BYTES]);
        let mut metas = vec![RecvMeta::default(); batch];
        let mut left = batch;
        let mut answers = Vec::with_capacity(batch);
        while left > 0 {
            let mut slices: Vec<_> = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let read = self.state.recv((&self.server).into(), &mut slices, &mut metas).expect("datagrams wait");
            let filled = self.buffers.iter().zip(&metas).take(read);
            let datagrams = filled.flat_map(|(buffer, meta)| buffer[..meta.len].chunks(meta.stride.max(1)));
            answer(&mut datagrams.inspect(|_| left -= 1), now(), &mut answers);
            self.send(&answers, metas[0].addr, sending);
            answers.clear();
        }
    }

    fn send(&self, answers: &[Vec<u8>], destination: SocketAddr, sending: Sending) {
        match sending {
            Sending::Each => answers.iter().for_each(|contents| {
                let transmit = Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None };
                self.state.try_send((&self.server).into(), &transmit).expect("room in the queue");
            }),
            #[cfg(target_os = "linux")]
            Sending::Together => {
                use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
                let to = SocketAddrAny::from(destination);
                let slices: Vec<_> = answers.iter().map(|answer| [std::io::IoSlice::new(answer)]).collect();
                let mut controls: Vec<_> = slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
                let mut messages: Vec<_> = slices
                    .iter()
                    .zip(&mut controls)
                    .map(|(slice, control)| MMsgHdr::new_with_addr(&to, slice, control))
                    .collect();
                assert_eq!(sendmmsg(&self.server, &mut messages, SendFlags::DONTWAIT), Ok(answers.len()));
            }
        }
    }
}
