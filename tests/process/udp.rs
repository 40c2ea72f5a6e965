//! A STUN client made by hand: it sends exactly what a test says.

use crate::child::PATIENCE;
use crate::server::{Attempt, Listing};
use rendezvous::credentials::{REALM, Secret, derive, long_term_key};
use rendezvous::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, FingerprintCheck, Message, MessageBuilder, Method,
    PASSWORD_ALGORITHM_SHA256, TransactionId,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long silence is listened to.
pub(crate) const SILENCE: Duration = Duration::from_millis(400);
/// Repetition of a request whose answer may have been lost.
const REPEAT: Duration = Duration::from_millis(500);

pub(crate) fn transaction() -> TransactionId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut id = *b"processtests";
    id[4..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    TransactionId(id)
}

/// A USERNAME and its key.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) username: String,
    pub(crate) key: [u8; 32],
}

impl Credential {
    pub(crate) fn new(username: &str, password: &str) -> Self {
        let key = long_term_key(username, REALM, &Secret::new(password));
        Self { username: username.to_owned(), key }
    }

    pub(crate) fn presence(listing: &Listing) -> Self {
        Self::new(&listing.username, &listing.password)
    }

    pub(crate) fn joiner(attempt: &Attempt) -> Self {
        Self::new(&attempt.username, &attempt.password)
    }

    /// As the host derives it from its presence password.
    pub(crate) fn host(listing: &Listing, attempt: &str) -> Self {
        let password = derive(listing.password.as_bytes(), attempt);
        Self::new(&format!("h1.{}.{attempt}", listing.id), password.expose())
    }

    /// The first request: no nonce yet, padded.
    pub(crate) fn first(&self) -> Vec<u8> {
        let message = MessageBuilder::binding_request(transaction())
            .text(AttributeType::USERNAME, &self.username)
            .pad_to(160, FINGERPRINT_ATTRIBUTE_BYTES);
        message.fingerprint().finish().expect("short")
    }

    /// A request under `nonce`, not signed yet.
    pub(crate) fn unsigned(&self, nonce: &[u8], sequence: Option<u64>) -> MessageBuilder {
        let message = MessageBuilder::binding_request(transaction())
            .text(AttributeType::USERNAME, &self.username)
            .text(AttributeType::REALM, REALM)
            .attribute(AttributeType::NONCE, nonce)
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256);
        match sequence {
            Some(sequence) => message.u64(AttributeType::RV_SEQUENCE, sequence),
            None => message,
        }
    }

    pub(crate) fn signed(&self, nonce: &[u8], sequence: Option<u64>) -> Vec<u8> {
        self.unsigned(nonce, sequence).integrity(&self.key).fingerprint().finish().expect("short")
    }
}

/// A datagram that is a STUN message.
#[derive(Clone)]
pub(crate) struct Datagram(pub(crate) Vec<u8>);

impl std::fmt::Debug for Datagram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = self.message();
        write!(f, "{:?} {:?} reason {:?}", message.class(), message.error_code(), self.reason())
    }
}

impl Datagram {
    pub(crate) fn message(&self) -> Message<'_> {
        Message::parse(&self.0).expect("a STUN message")
    }

    pub(crate) fn error(&self) -> Option<u16> {
        self.message().error_code().expect("well formed")
    }

    pub(crate) fn reason(&self) -> Option<u16> {
        self.message().u16(AttributeType::RV_REASON).expect("well formed")
    }

    pub(crate) fn nonce(&self) -> Vec<u8> {
        self.message().attribute(AttributeType::NONCE).expect("a nonce").to_vec()
    }

    pub(crate) fn mapped(&self) -> SocketAddr {
        let mapped = self.message().xor_address(AttributeType::XOR_MAPPED_ADDRESS);
        mapped.expect("well formed").expect("an address")
    }

    pub(crate) fn peers(&self) -> Vec<SocketAddr> {
        self.message().xor_addresses(AttributeType::RV_PEER_ADDRESS).map(|peer| peer.expect("well formed")).collect()
    }

    pub(crate) fn is_success(&self) -> bool {
        self.message().class() == Class::Success
    }

    /// An Introduce indication that is signed by this credential.
    pub(crate) fn is_introduce(&self, credential: &Credential) -> bool {
        let message = self.message();
        message.class() == Class::Indication
            && message.method() == Method::INTRODUCE
            && message.text(AttributeType::USERNAME) == Ok(Some(&credential.username))
            && message.verify_integrity(&credential.key)
            && message.check_fingerprint() == FingerprintCheck::Right
    }
}

/// A socket and the server that it talks to.
pub(crate) struct Stun {
    pub(crate) socket: UdpSocket,
    pub(crate) server: SocketAddr,
    /// What came while an answer was waited for.
    pub(crate) aside: Vec<Datagram>,
}

impl Stun {
    /// From `source` (`ip:0`) to `server`.
    pub(crate) fn new(source: &str, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(source).expect("an address of this machine");
        Self { socket, server, aside: Vec::new() }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.server).expect("loopback");
    }

    /// The next datagram within `wait`.
    pub(crate) fn receive(&self, wait: Duration) -> Option<Datagram> {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1)))).expect("an option");
        let mut bytes = [0; 2_048];
        let (length, from) = self.socket.recv_from(&mut bytes).ok()?;
        assert_eq!(from, self.server, "answers come from the address that was asked");
        Some(Datagram(bytes[..length].to_vec()))
    }

    /// Sends until the answer to this very request comes; other datagrams are put aside.
    #[track_caller]
    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Datagram {
        let wanted = Message::parse(bytes).expect("a request").transaction();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.send(bytes);
            let again = Instant::now() + REPEAT;
            while let Some(left) = again.checked_duration_since(Instant::now()) {
                let Some(datagram) = self.receive(left) else { break };
                let message = datagram.message();
                if message.transaction() == wanted && message.class() != Class::Indication {
                    return datagram;
                }
                self.aside.push(datagram);
            }
        }
        panic!("no answer over UDP");
    }

    /// Waits for an indication signed by this credential that `wanted` accepts.
    #[track_caller]
    pub(crate) fn introduce(&mut self, credential: &Credential, wanted: impl Fn(&Datagram) -> bool) -> Datagram {
        let accepted = |datagram: &Datagram| datagram.is_introduce(credential) && wanted(datagram);
        if let Some(position) = self.aside.iter().position(accepted) {
            return self.aside.remove(position);
        }
        let end = Instant::now() + PATIENCE;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let Some(datagram) = self.receive(left) else { break };
            if accepted(&datagram) {
                return datagram;
            }
        }
        panic!("no Introduce for {}", credential.username);
    }

    /// The nonce of a challenge; good for every credential from this socket.
    #[track_caller]
    pub(crate) fn challenge(&mut self, credential: &Credential) -> Vec<u8> {
        let answer = self.ask(&credential.first());
        assert_eq!(answer.error(), Some(401), "{answer:?}");
        answer.nonce()
    }

    /// Challenge and signed request; the answer's signature is checked.
    #[track_caller]
    pub(crate) fn log_in(&mut self, credential: &Credential, sequence: Option<u64>) -> Datagram {
        let nonce = self.challenge(credential);
        let answer = self.ask(&credential.signed(&nonce, sequence));
        assert!(answer.message().verify_integrity(&credential.key), "unsigned: {answer:?}");
        answer
    }

    /// Makes a listing joinable from this socket.
    #[track_caller]
    pub(crate) fn present(&mut self, listing: &Listing) {
        let answer = self.log_in(&Credential::presence(listing), Some(1));
        assert!(answer.is_success(), "{answer:?}");
        assert_eq!(answer.mapped(), self.local());
    }

    /// Binds, and expects success.
    #[track_caller]
    pub(crate) fn bind(&mut self, credential: &Credential) -> Datagram {
        let answer = self.log_in(credential, None);
        assert!(answer.is_success(), "{answer:?}");
        answer
    }
}
