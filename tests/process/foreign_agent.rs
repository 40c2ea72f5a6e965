//! stun-proto's codec and login against the UDP edge: a client that shares no line with ours.

use crate::server::Server;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use stun_proto::auth::{LongTermClientAuth, LongTermClientValidation};
use stun_proto::types::attribute::{ErrorCode, XorMappedAddress};
use stun_proto::types::message::{
    BINDING, IntegrityAlgorithm, LongTermCredentials, Message, MessageClass, MessageWrite, MessageWriteExt,
    MessageWriteVec,
};

/// Repetition of a request whose answer may have been lost.
const REPEAT: Duration = Duration::from_millis(500);
const TRIES: u32 = 20;

/// What an agent was told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// A success, verified where there is a credential, with the own address.
    Mapped(SocketAddr),
    Error(u16),
}

struct Agent {
    socket: UdpSocket,
    auth: LongTermClientAuth,
}

impl Agent {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(REPEAT)).expect("a time-out");
        let mut auth = LongTermClientAuth::new();
        auth.set_supported_integrity(IntegrityAlgorithm::Sha256);
        Self { socket, auth }
    }

    fn with(server: SocketAddr, username: &str, password: &str) -> Self {
        let mut agent = Self::new(server);
        agent.auth.set_credentials(LongTermCredentials::new(username.into(), password.into()));
        agent
    }

    fn own(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    /// One request, and another one when the answer was a challenge that this agent accepts.
    fn ask(&mut self) -> Told {
        for _ in 0..2 {
            let bytes = self.exchange();
            let answer = Message::from_bytes(&bytes).expect("a message");
            let verdict = self.auth.validate_incoming_message(&answer);
            if matches!(verdict, Ok(LongTermClientValidation::ResendRequest(_))) {
                continue;
            }
            if answer.has_class(MessageClass::Error) {
                return Told::Error(answer.attribute::<ErrorCode>().expect("a code").code());
            }
            let signed = matches!(verdict, Ok(LongTermClientValidation::Validated(IntegrityAlgorithm::Sha256)));
            assert!(signed || self.auth.credentials().is_none(), "{verdict:?}");
            let mapped = answer.attribute::<XorMappedAddress>().expect("an address");
            return Told::Mapped(mapped.addr(answer.transaction_id()));
        }
        Told::Error(ErrorCode::UNAUTHORIZED)
    }

    fn exchange(&mut self) -> Vec<u8> {
        let request = Message::builder_request(BINDING, MessageWriteVec::new());
        let mut request = self.auth.sign_outgoing_message(request).expect("room");
        request.add_fingerprint().expect("room");
        let (request, mut buffer) = (request.finish(), [0; 1_500]);
        for _ in 0..TRIES {
            self.socket.send(&request).expect("sent");
            if let Ok(length) = self.socket.recv(&mut buffer) {
                return buffer[..length].to_vec();
            }
        }
        panic!("no answer from {:?}", self.socket.peer_addr());
    }
}

fn server() -> Server {
    Server::with_listeners("", &["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--udp-auth", "127.0.0.1:0"])
}

#[test]
fn foreign_agent_learns_its_address() {
    let server = server();
    let mut agent = Agent::new(server.udp);
    assert_eq!(agent.ask(), Told::Mapped(agent.own()));
}

#[test]
fn foreign_agent_logs_in_and_keeps_a_game_on_the_list() {
    let server = server();
    let listing = server.register();
    let challenging = listing.stun[1];
    assert_eq!(server.browse(), [""; 0], "no presence yet");
    let mut agent = Agent::with(challenging, &listing.username, &listing.password);
    for round in 0..3 {
        assert_eq!(agent.ask(), Told::Mapped(agent.own()), "round {round}");
    }
    crate::child::until("the listing is shown", || (server.browse() == [listing.id.as_str()]).then_some(()));
}

#[test]
fn foreign_agent_with_a_wrong_password_is_told_401_and_nothing_is_listed() {
    let server = server();
    let listing = server.register();
    let mut agent = Agent::with(listing.stun[1], &listing.username, "a guess");
    assert_eq!(agent.ask(), Told::Error(401));
    let mut nobody = Agent::with(listing.stun[1], "p1.00000000000000000000000000000000", "a guess");
    assert_eq!(nobody.ask(), Told::Error(401), "as if it existed");
    assert_eq!(server.browse(), [""; 0]);
}
