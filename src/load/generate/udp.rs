//! Authenticated exchanges over one socket, one at a time: challenge, nonce, signed request, signed answer.

use super::tally::Outcome;
use crate::client::core::Entropy;
use crate::clock::{Clock, SharedClock};
use crate::domain::MonoTime;
use crate::load::presence::{first_request, request};
use crate::stun::{AttributeType, Class, MESSAGE_BYTES_MAX, Message};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// A nonce is fresh for 120 s at the server; it is used for 100 s.
const NONCE_REUSE_MS: u64 = 100_000;
/// Repetition of an unanswered request, as in the client library.
const REPEAT: Duration = Duration::from_millis(500);
/// Nonces tried for one request: one that may be too old, and a new one.
const TRIES: u32 = 2;

/// Who signs.
pub(super) struct Signer<'a> {
    pub(super) username: &'a str,
    pub(super) key: &'a [u8],
}

/// What a signed answer said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Success {
    /// It carried RV-INTRODUCTION.
    pub(super) introduced: bool,
}

/// One socket, connected to the server.
pub(super) struct Port {
    socket: UdpSocket,
    clock: SharedClock,
    timeout: Duration,
    nonce: Option<(Vec<u8>, MonoTime)>,
}

impl Port {
    pub(super) async fn open(server: SocketAddr, clock: SharedClock, timeout: Duration) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        Ok(Self { socket, clock, timeout, nonce: None })
    }

    /// One exchange, repeated every 500 ms until its time-out.
    ///
    /// # Errors
    /// What became of it otherwise.
    pub(super) async fn exchange(
        &mut self,
        signer: &Signer<'_>,
        sequence: Option<u64>,
        entropy: &mut Entropy,
    ) -> Result<Success, Outcome> {
        match timeout(self.timeout, self.try_exchange(signer, sequence, entropy)).await {
            Ok(result) => result.map(|(_, success)| success),
            Err(_) => Err(Outcome::TimedOut),
        }
    }

    /// An exchange without a sequence, and the bytes that were accepted: for a role's endpoint they count again.
    ///
    /// # Errors
    /// What became of it otherwise.
    pub(super) async fn bind(&mut self, signer: &Signer<'_>, entropy: &mut Entropy) -> Result<Vec<u8>, Outcome> {
        match timeout(self.timeout, self.try_exchange(signer, None, entropy)).await {
            Ok(result) => result.map(|(bytes, _)| bytes),
            Err(_) => Err(Outcome::TimedOut),
        }
    }

    /// The same bytes again, which get the answer as of now.
    ///
    /// # Errors
    /// What became of it otherwise.
    pub(super) async fn repeat(&mut self, bytes: &[u8], signer: &Signer<'_>) -> Result<Success, Outcome> {
        match timeout(self.timeout, self.ask(bytes, signer)).await {
            Ok(result) => result?.ok_or(Outcome::Unexpected),
            Err(_) => Err(Outcome::TimedOut),
        }
    }

    async fn try_exchange(
        &mut self,
        signer: &Signer<'_>,
        sequence: Option<u64>,
        entropy: &mut Entropy,
    ) -> Result<(Vec<u8>, Success), Outcome> {
        for _ in 0..TRIES {
            let nonce = self.nonce(signer, entropy).await?;
            let transaction = entropy.transaction();
            let bytes =
                request(signer.username, signer.key, &nonce, transaction, sequence).ok_or(Outcome::Unexpected)?;
            if let Some(success) = self.ask(&bytes, signer).await? {
                return Ok((bytes, success));
            }
            // The challenge's nonce is the next one; there is no other reason for one.
        }
        Err(Outcome::Unexpected)
    }

    /// The nonce of this socket's address, asked for when there is none that is fresh.
    async fn nonce(&mut self, signer: &Signer<'_>, entropy: &mut Entropy) -> Result<Vec<u8>, Outcome> {
        let now = self.clock.mono();
        if let Some((nonce, since)) = &self.nonce
            && now.ms_since(*since) < NONCE_REUSE_MS
        {
            return Ok(nonce.clone());
        }
        let hello = first_request(signer.username, entropy.transaction()).ok_or(Outcome::Unexpected)?;
        self.ask(&hello, signer).await?;
        self.nonce.as_ref().map(|(nonce, _)| nonce.clone()).ok_or(Outcome::Unexpected)
    }

    /// Sends until an answer to this request comes. `None` is a challenge, whose nonce has been noted.
    async fn ask(&mut self, bytes: &[u8], signer: &Signer<'_>) -> Result<Option<Success>, Outcome> {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        loop {
            self.socket.send(bytes).await.map_err(|_| Outcome::Broken)?;
            let heard = timeout(REPEAT, async {
                loop {
                    let length = self.socket.recv(&mut buffer).await.map_err(|_| Outcome::Broken)?;
                    if let Some(heard) = judge(&buffer[..length], bytes, signer) {
                        return heard;
                    }
                }
            });
            match heard.await {
                Err(_) => {}
                Ok(Ok(Heard::Success(success))) => return Ok(Some(success)),
                Ok(Ok(Heard::Challenge(nonce))) => {
                    self.nonce = Some((nonce, self.clock.mono()));
                    return Ok(None);
                }
                Ok(Err(outcome)) => return Err(outcome),
            }
        }
    }
}

enum Heard {
    Success(Success),
    Challenge(Vec<u8>),
}

/// Judges a datagram; `None` for what is no answer to `request`: offers, introductions, and answers that came late.
fn judge(datagram: &[u8], request: &[u8], signer: &Signer<'_>) -> Option<Result<Heard, Outcome>> {
    let message = Message::parse(datagram).ok()?;
    if request.get(8..20) != Some(&message.transaction().0[..]) {
        return None;
    }
    let signed = message.verify_integrity(signer.key);
    match message.class() {
        Class::Request | Class::Indication => None,
        Class::Success if signed => {
            let introduced = message.attribute(AttributeType::RV_INTRODUCTION).is_some();
            Some(Ok(Heard::Success(Success { introduced })))
        }
        Class::Success => None,
        Class::Error => {
            let code = message.error_code().ok().flatten()?;
            if matches!(code, 401 | 438) {
                return message.attribute(AttributeType::NONCE).map(|nonce| Ok(Heard::Challenge(nonce.to_vec())));
            }
            let reason = message.u16(AttributeType::RV_REASON).ok().flatten().unwrap_or(0);
            signed.then(|| Err(Outcome::Refused(format!("udp-{code}-{reason}"))))
        }
    }
}
