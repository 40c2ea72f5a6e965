//! The UDP edge without its sockets: datagrams of several sources, honest, changed and replayed, and time in between.
//!
//! What a datagram may effect is judged by an independent codec (`stun-types`) and by what was handed out: nothing is asked of the lane without the
//! credential's integrity and a nonce of this very source, nobody is shown without having been heard, nobody learns an
//! address that its owner has not bound, and nobody unproven is sent more than the budget.
#![no_main]

#[path = "../world/oracle.rs"]
mod oracle;
#[path = "../world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use oracle::integrity_holds;
use rendezvous::credentials::{REALM, Secret, host_username, joiner_username, long_term_key, presence_username};
use rendezvous::domain::{AttemptId, Candidates, Endpoint, ListingId, MonoTime, Source};
use rendezvous::edge::udp::{Arrival, Budgets, Decision, Entropy, Listener, Local, Protocol, Responder, Transmit};
use rendezvous::service::{Ask, AttemptRequest, BindRequest, Caller, Service, Together};
use rendezvous::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, MESSAGE_BYTES_MAX, Message, MessageBuilder,
    PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use stun_types::message as other;
use world::input::Input;
use world::{INSTANCE, ManualClock, TENANT, at_once};

/// Steps of one input.
const STEPS_MAX: usize = 64;
const SOURCES: [&str; 6] = [
    "192.0.2.1:4000",
    "192.0.2.1:4001",
    "198.51.100.7:5000",
    "[2001:db8::1]:4242",
    "[::ffff:198.51.100.7]:5000",
    "[2001:db8::2]:4242",
];
/// Milliseconds to each deadline of the protocol.
const SPANS_MS: [u64; 8] = [1, 100, 499, 2_000, 10_000, 65_000, 120_000, 300_000];

/// Somebody's name and password.
struct Credential {
    username: String,
    password: Secret,
}

impl Credential {
    fn key(&self) -> [u8; 32] {
        long_term_key(&self.username, REALM, &self.password)
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        let credentials =
            other::LongTermKeyCredentials::new(self.username.clone(), self.password.expose().into(), REALM.into());
        let ours = || Message::parse(bytes).is_ok_and(|message| message.verify_integrity(&self.key()));
        integrity_holds(bytes, &credentials.into()).unwrap_or_else(ours)
    }
}

struct Play {
    clock: ManualClock,
    service: Arc<Service>,
    responder: Responder,
    listings: Vec<ListingId>,
    attempts: Vec<(AttemptId, ListingId)>,
    credentials: Vec<Credential>,
    /// Every nonce that was sent, and to whom.
    nonces: Vec<(String, SocketAddr)>,
    /// Datagrams that were received, and from whom.
    received: Vec<(Vec<u8>, SocketAddr)>,
    /// When each listing was last heard with everything right.
    heard: BTreeMap<ListingId, MonoTime>,
    bound: BTreeSet<(AttemptId, usize, SocketAddr)>,
    /// Answers longer than their unproven requests, by source.
    spent: BTreeMap<Source, u64>,
    began: MonoTime,
    transactions: u8,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let mut play = Play::new(input.byte() % 2 == 1);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
        play.nobody_is_shown_unheard();
    }
});

impl Play {
    fn new(classic: bool) -> Self {
        let clock = ManualClock::new();
        let service = world::service(&clock);
        let protocol = Protocol {
            credentials: service.key().clone(),
            entropy: Entropy::new([9; 32]),
            instance: INSTANCE,
            nonce_fresh_ms: service.limits().nonce_fresh_ms,
        };
        let own = vec!["127.0.0.1:3478".parse().expect("an address")];
        let responder = Responder::new(&protocol, &Budgets::default(), own, classic);
        let mut play = Self {
            began: clock.now(),
            clock,
            service,
            responder,
            listings: Vec::new(),
            attempts: Vec::new(),
            credentials: Vec::new(),
            nonces: Vec::new(),
            received: Vec::new(),
            heard: BTreeMap::new(),
            bound: BTreeSet::new(),
            spent: BTreeMap::new(),
            transactions: 0,
        };
        play.register();
        play
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 12 {
            0 => self.clock.advance_ms(SPANS_MS[usize::from(input.byte()) % SPANS_MS.len()]),
            1 => self.clock.advance_ms(input.number().into()),
            2 => self.service.tick(),
            3 => self.register(),
            4 => self.join(input),
            5 => {
                let length = usize::from(input.number()) % 256;
                let bytes = input.bytes(length).to_vec();
                self.receive(bytes, input);
            }
            6 => self.first(input),
            7 | 8 => self.authenticated(input),
            9 => self.exchange(input),
            10 => self.replay(input),
            _ => self.attributes(input),
        }
    }

    // ---- what people do ----------------------------------------------------------------------------------------

    fn caller(&self, name: &str) -> Caller {
        Caller { principal: self.service.principal(TENANT, name), guest_source: None }
    }

    fn register(&mut self) {
        let number = self.listings.len();
        let request = world::registration(&self.service, number, false);
        let caller = self.caller(&format!("host {number}"));
        let Ok(granted) = at_once(self.service.register(&caller, &number.to_string(), request)) else { return };
        let listing = granted.value.listing;
        self.listings.push(listing);
        let presence = granted.value.presence;
        assert_eq!(presence.username, presence_username(listing));
        self.credentials.push(Credential { username: presence.username, password: presence.password });
    }

    fn join(&mut self, input: &mut Input<'_>) {
        let Some(listing) = pick(&self.listings, input.byte()).copied() else { return };
        let caller = self.caller(&format!("joiner {}", self.attempts.len()));
        let request = AttemptRequest { listing, protocol: None, candidates: Candidates::default(), payload: None };
        let key = self.attempts.len().to_string();
        let Ok(granted) = at_once(self.service.create_attempt(&caller, &key, request)) else { return };
        let attempt = granted.value.attempt;
        self.attempts.push((attempt, listing));
        let bind = granted.value.bind;
        assert_eq!(bind.username, joiner_username(attempt));
        self.credentials.push(Credential { username: bind.username, password: bind.password });
        let password = self.service.key().host_password(listing, attempt);
        self.credentials.push(Credential { username: host_username(listing, attempt), password });
    }

    // ---- what they send ----------------------------------------------------------------------------------------

    fn begun(&mut self) -> MessageBuilder {
        self.transactions = self.transactions.wrapping_add(1);
        MessageBuilder::binding_request(TransactionId([self.transactions; 12]))
    }

    fn first(&mut self, input: &mut Input<'_>) {
        let Some(credential) = pick(&self.credentials, input.byte()) else { return };
        let username = credential.username.clone();
        let total = if input.byte() % 4 == 0 { 0 } else { 160 };
        let message = self.begun().text(AttributeType::USERNAME, &username);
        let message = message.pad_to(total, FINGERPRINT_ATTRIBUTE_BYTES).fingerprint().finish().expect("short");
        self.receive(message, input);
    }

    /// A signed request with a nonce that somebody was given, perhaps somebody else, perhaps long ago.
    fn authenticated(&mut self, input: &mut Input<'_>) {
        let message = self.signed(input);
        if let Some(mut message) = message {
            change(&mut message, input);
            self.receive(message, input);
        }
    }

    fn signed(&mut self, input: &mut Input<'_>) -> Option<Vec<u8>> {
        let begun = self.begun();
        let credential = pick(&self.credentials, input.byte())?;
        let (nonce, _) = pick(&self.nonces, input.byte())?;
        Some(sign(begun, credential, nonce, sequence(input)))
    }

    /// The whole exchange, as an honest client does it.
    fn exchange(&mut self, input: &mut Input<'_>) {
        let source = source(input);
        let chosen = input.byte();
        let Some(credential) = pick(&self.credentials, chosen) else { return };
        let username = credential.username.clone();
        let first = self.begun().text(AttributeType::USERNAME, &username);
        let first = first.pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES).fingerprint().finish().expect("short");
        self.receive_from(first, source);
        let begun = self.begun();
        let Some((nonce, _)) = self.nonces.iter().rev().find(|(_, to)| *to == source) else { return };
        let Some(credential) = pick(&self.credentials, chosen) else { return };
        let message = sign(begun, credential, nonce, sequence(input));
        self.receive_from(message, source);
    }

    fn replay(&mut self, input: &mut Input<'_>) {
        let Some((bytes, _)) = pick(&self.received, input.byte()) else { return };
        let mut bytes = bytes.clone();
        change(&mut bytes, input);
        self.receive(bytes, input);
    }

    /// Attributes of the input's choice, signed by somebody who may.
    fn attributes(&mut self, input: &mut Input<'_>) {
        let mut message = self.begun();
        let signer = input.byte();
        for _ in 0..input.byte() % 8 {
            message = match input.byte() % 6 {
                0 => match pick(&self.nonces, input.byte()) {
                    Some((nonce, _)) => message.text(AttributeType::NONCE, nonce),
                    None => message,
                },
                1 => message.text(AttributeType::REALM, REALM),
                2 => message.attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256),
                3 => message.attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256),
                4 => match pick(&self.credentials, input.byte()) {
                    Some(credential) => message.text(AttributeType::USERNAME, &credential.username),
                    None => message,
                },
                _ => {
                    let (kind, length) = (AttributeType(input.number()), usize::from(input.byte() % 64));
                    message.attribute(kind, input.bytes(length))
                }
            };
        }
        if let Some(credential) = pick(&self.credentials, signer) {
            message = message.integrity(&credential.key());
        }
        if input.byte() % 2 == 0 {
            message = message.fingerprint();
        }
        let Ok(bytes) = message.finish() else { return };
        self.receive(bytes, input);
    }

    // ---- what comes of it --------------------------------------------------------------------------------------

    fn receive(&mut self, bytes: Vec<u8>, input: &mut Input<'_>) {
        self.receive_from(bytes, source(input));
    }

    fn receive_from(&mut self, bytes: Vec<u8>, source: SocketAddr) {
        let listener = if source.port() % 2 == 0 { Listener::Plain } else { Listener::Challenging };
        let local = Local { socket: usize::from(source.is_ipv6()), ip: None };
        let now = self.clock.now();
        match self.responder.receive(&bytes, Arrival { source, local, listener }, now) {
            Decision::Silence(_) => {}
            Decision::Transmit(transmit) => self.direct(&bytes, source, &transmit),
            Decision::Note(note, answer) => {
                let sender = self.sender(&bytes).expect("a note is taken of authentic datagrams only");
                assert_eq!(presence_username(note.listing), sender.username);
                let _ = at_once(self.service.note_unverified(note));
                if let Some(transmit) = answer {
                    self.direct(&bytes, source, &transmit);
                }
            }
            Decision::Ask(question) => {
                assert!(self.was_given(&bytes, source), "asked with a nonce that this source was not given");
                let sender = self.sender(&bytes).expect("asked without the credential's integrity");
                let (username, key) = (sender.username.clone(), sender.key());
                let (ask, mut told) = (question.ask, None);
                // Two ways to the lane, which must make no difference.
                if bytes.len() % 8 == 0 {
                    self.service.ask_together([ask].into_iter(), &mut Together::default(), |it| told = Some(it));
                } else {
                    told = Some(at_once(self.service.ask(ask)));
                }
                let result = told.expect("an idle lane answers at once");
                let is_done = result.is_ok();
                let transmit = self.responder.answerer().answer(&question.reply, result, self.clock.now());
                match ask {
                    Ask::Presence(presence) => {
                        assert_eq!(presence_username(presence.listing), username);
                        assert_eq!(Some(presence.endpoint), Endpoint::new(source));
                        if is_done {
                            self.heard.insert(presence.listing, now);
                        }
                    }
                    Ask::Bind(bind) => self.bound(&username, source, bind, is_done, &transmit),
                }
                assert!(Message::parse(&transmit.bytes).expect("ours").verify_integrity(&key), "an unsigned answer");
                self.answer(source, &transmit);
            }
        }
        self.received.push((bytes, source));
    }

    fn bound(&mut self, username: &str, source: SocketAddr, bind: BindRequest, is_done: bool, answer: &Transmit) {
        let (attempt, role) = (bind.attempt, bind.role());
        let of_role = match bind.listing {
            Some(listing) => host_username(listing, attempt),
            None => joiner_username(attempt),
        };
        assert_eq!(of_role, username);
        assert_eq!(Some(bind.endpoint), Endpoint::new(source));
        if is_done {
            self.bound.insert((attempt, role.index(), bind.endpoint.address()));
        }
        let message = Message::parse(&answer.bytes).expect("ours");
        for peer in message.xor_addresses(AttributeType::RV_PEER_ADDRESS) {
            let known = (attempt, role.other().index(), peer.expect("ours"));
            assert!(self.bound.contains(&known), "told an address that its owner has not bound");
        }
    }

    /// An answer without the lane: unproven sources are sent no more than their budget.
    fn direct(&mut self, request: &[u8], source: SocketAddr, transmit: &Transmit) {
        self.answer(source, transmit);
        let is_signed = Message::parse(&transmit.bytes).is_ok_and(|message| message.has_integrity());
        if transmit.bytes.len() > request.len() && !is_signed && !self.was_given(request, source) {
            let of = Source::of(Endpoint::new(source).expect("answered").address().ip());
            let spent = self.spent.entry(of).or_default();
            *spent += 1;
            let per_second = u64::from(Budgets::default().unproven_per_source_per_s);
            let elapsed_ms = self.clock.now().ms_since(self.began);
            assert!(*spent <= per_second + elapsed_ms * per_second / 1_000 + 1, "an amplifier: {spent} to {of:?}");
        }
    }

    fn answer(&mut self, source: SocketAddr, transmit: &Transmit) {
        assert_eq!(transmit.to, source);
        assert!(transmit.bytes.len() <= MESSAGE_BYTES_MAX);
        // The answer to a classic request has no cookie.
        let Ok(message) = Message::parse(&transmit.bytes) else {
            assert_eq!(transmit.bytes[..2], [1, 1]);
            return;
        };
        assert!(matches!(message.class(), Class::Success | Class::Error));
        if let Ok(Some(nonce)) = message.text(AttributeType::NONCE) {
            self.nonces.push((nonce.to_owned(), source));
        }
    }

    /// Whose request these bytes are, as the independent codec sees it.
    fn sender(&self, bytes: &[u8]) -> Option<&Credential> {
        self.credentials.iter().find(|credential| credential.holds(bytes))
    }

    /// Whether the request's nonce was sent to this source, in either form of its address.
    fn was_given(&self, bytes: &[u8], source: SocketAddr) -> bool {
        let Ok(message) = Message::parse(bytes) else { return false };
        let Ok(Some(nonce)) = message.text(AttributeType::NONCE) else { return false };
        let same = |to: &SocketAddr| Endpoint::new(*to) == Endpoint::new(source);
        self.nonces.iter().any(|(given, to)| given == nonce && same(to))
    }

    fn nobody_is_shown_unheard(&self) {
        let now = self.clock.now();
        let lives_ms = u64::from(self.service.limits().presence_ttl_ms);
        for listing in &self.listings {
            if self.service.listing(TENANT, *listing, |_, _| ()).is_ok() {
                let heard = self.heard.get(listing).expect("shown without ever having been heard");
                assert!(now.ms_since(*heard) < lives_ms, "shown {} ms after it was heard", now.ms_since(*heard));
            }
        }
    }
}

/// One of the latest.
fn pick<T>(all: &[T], number: u8) -> Option<&T> {
    all.iter().rev().nth(usize::from(number) % all.len().clamp(1, 8))
}

fn source(input: &mut Input<'_>) -> SocketAddr {
    SOURCES[usize::from(input.byte()) % SOURCES.len()].parse().expect("an address")
}

fn sequence(input: &mut Input<'_>) -> Option<u64> {
    match input.byte() % 4 {
        0 => None,
        1 => Some(input.byte().into()),
        2 => Some(input.number().into()),
        _ => Some(u64::from(input.number()) << 47),
    }
}

fn sign(begun: MessageBuilder, credential: &Credential, nonce: &str, sequence: Option<u64>) -> Vec<u8> {
    let message = begun
        .text(AttributeType::USERNAME, &credential.username)
        .text(AttributeType::REALM, REALM)
        .text(AttributeType::NONCE, nonce)
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
        .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
    let message = match sequence {
        Some(sequence) => message.u64(AttributeType::RV_SEQUENCE, sequence),
        None => message,
    };
    message.integrity(&credential.key()).fingerprint().finish().expect("short")
}

/// Changes one byte, sometimes.
fn change(bytes: &mut [u8], input: &mut Input<'_>) {
    let how = input.byte();
    if how % 2 == 1 && !bytes.is_empty() {
        let place = usize::from(input.number()) % bytes.len();
        bytes[place] ^= input.byte();
    }
}
