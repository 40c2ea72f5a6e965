//! stun-rs' codec against the challenging listener: a login, a wrong password, and what a plain request gets. Prints a JSON
//! object: for each question what was seen.
//!
//!     stun-rs-client ADDRESS USERNAME PASSWORD

use std::net::UdpSocket;
use std::time::Duration;
use stun_rs::attributes::stun::{
    ErrorCode, Fingerprint, MessageIntegritySha256, Nonce, PasswordAlgorithm, PasswordAlgorithms, Realm, UserName,
    XorMappedAddress,
};
use stun_rs::methods::BINDING;
use stun_rs::{
    Algorithm, AlgorithmId, DecoderContextBuilder, HMACKey, MessageClass, MessageDecoder, MessageDecoderBuilder,
    MessageEncoderBuilder, StunMessage, StunMessageBuilder,
};

const BUFFER_BYTES: usize = 1_500;
/// Repetition of a request whose answer may have been lost.
const REPEAT: Duration = Duration::from_millis(500);
const TRIES: u32 = 20;

struct Client {
    socket: UdpSocket,
    username: UserName,
    password: String,
}

impl Client {
    fn new(server: &str, username: &str, password: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(REPEAT)).expect("a time-out");
        Self { socket, username: UserName::new(username).expect("a name"), password: password.to_owned() }
    }

    /// The answer's bytes.
    fn exchange(&self, request: StunMessageBuilder) -> Vec<u8> {
        let (mut sent, mut answer) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
        let encoder = MessageEncoderBuilder::default().build();
        let length = encoder.encode(&mut sent, &request.build()).expect("room");
        for _ in 0..TRIES {
            self.socket.send(&sent[..length]).expect("sent");
            if let Ok(length) = self.socket.recv(&mut answer) {
                return answer[..length].to_vec();
            }
        }
        panic!("no answer");
    }

    /// Takes the challenge's realm, nonce and algorithms, and asks again with an integrity that they allow.
    fn log_in(&self) -> String {
        let challenge = decoded(&MessageDecoder::default(), &self.exchange(binding()));
        if code(&challenge) != Some(401) {
            return seen(&challenge, &self.socket);
        }
        let realm = challenge.get::<Realm>().and_then(|it| it.as_realm().ok()).expect("a realm");
        let nonce = challenge.get::<Nonce>().and_then(|it| it.as_nonce().ok()).expect("a nonce");
        let offered = challenge.get::<PasswordAlgorithms>().and_then(|it| it.as_password_algorithms().ok());
        let offered = offered.expect("password algorithms");
        let sha256 = Algorithm::from(AlgorithmId::SHA256);
        let key = HMACKey::new_long_term(&self.username, realm, &self.password, sha256.clone()).expect("a key");
        let request = binding()
            .with_attribute(self.username.clone())
            .with_attribute(realm.clone())
            .with_attribute(nonce.clone())
            .with_attribute(offered.clone())
            .with_attribute(PasswordAlgorithm::new(sha256))
            .with_attribute(MessageIntegritySha256::new(key.clone()))
            .with_attribute(Fingerprint::default());
        let answer = self.exchange(request);
        let unverified = decoded(&MessageDecoder::default(), &answer);
        if code(&unverified) == Some(401) {
            return "401".to_owned();
        }
        let verifying = DecoderContextBuilder::default().with_key(key).with_validation().build();
        let verifying = MessageDecoderBuilder::default().with_context(verifying).build();
        if unverified.get::<MessageIntegritySha256>().is_none() {
            return "an unsigned answer".to_owned();
        }
        match verifying.decode(&answer) {
            Ok((answer, _)) => seen(&answer, &self.socket),
            Err(error) => format!("{error:?}"),
        }
    }
}

fn binding() -> StunMessageBuilder {
    StunMessageBuilder::new(BINDING, MessageClass::Request)
}

fn decoded(decoder: &MessageDecoder, bytes: &[u8]) -> StunMessage {
    decoder.decode(bytes).expect("a message").0
}

fn code(message: &StunMessage) -> Option<u16> {
    let code = message.get::<ErrorCode>()?.as_error_code().ok()?;
    Some(code.error_code().error_code())
}

fn seen(message: &StunMessage, socket: &UdpSocket) -> String {
    if let Some(code) = code(message) {
        return code.to_string();
    }
    let mapped = message.get::<XorMappedAddress>().and_then(|it| it.as_xor_mapped_address().ok());
    let mapped = mapped.map(|it| *it.socket_address());
    if mapped == socket.local_addr().ok() { "own address".to_owned() } else { format!("{mapped:?}") }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, username, password] = &arguments[..] else { panic!("ADDRESS USERNAME PASSWORD") };
    let login = Client::new(server, username, password).log_in();
    let wrong = Client::new(server, username, "a guess").log_in();
    println!("{{\"stun-rs login, SHA-256\": \"{login}\", \"stun-rs wrong password\": \"{wrong}\"}}");
}
