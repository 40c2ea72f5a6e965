//! One UDP socket per family, shared with the game.

use crate::client::core::Transmit;
use crate::client::error::Error;
use crate::domain::endpoint::fold;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::UdpSocket;

/// The longest UDP payload: a game's datagrams are never cut.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The game's sockets. The observed address belongs to the socket, so the game must use these very sockets for its own
/// datagrams: [`Port::socket_for`] gives them, and what arrives and isn't STUN comes out of `next` as a datagram.
#[derive(Debug)]
pub struct Port {
    v4: Option<Arc<UdpSocket>>,
    v6: Option<Arc<UdpSocket>>,
    buffer_v4: Box<[u8]>,
    buffer_v6: Box<[u8]>,
}

/// Which families a port has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Families {
    pub(super) v4: bool,
    pub(super) v6: bool,
}

impl Families {
    pub(super) fn reach(self, address: SocketAddr) -> bool {
        if fold(address).is_ipv4() { self.v4 } else { self.v6 }
    }
}

impl Port {
    /// Opens a socket in each family that this machine has, on ports of the system's choice.
    ///
    /// # Errors
    /// [`Error::Socket`] when neither family has one.
    pub async fn open() -> Result<Self, Error> {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await;
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await;
        match (v4, v6) {
            (Err(error), Err(_)) => Err(Error::Socket(error)),
            (v4, v6) => Ok(Self::from_sockets(v4.ok().map(Arc::new), v6.ok().map(Arc::new))),
        }
    }

    /// Uses a game's own sockets, at most one per family. A socket that serves both families is given as the IPv6 one and
    /// then serves IPv6 only.
    pub fn from_sockets(v4: Option<Arc<UdpSocket>>, v6: Option<Arc<UdpSocket>>) -> Self {
        let buffer = || vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice();
        Self { v4, v6, buffer_v4: buffer(), buffer_v6: buffer() }
    }

    /// The socket that reaches `address`.
    pub fn socket_for(&self, address: SocketAddr) -> Option<&Arc<UdpSocket>> {
        if fold(address).is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// Sends a datagram of the game. Like every datagram it may be lost; an error of the system counts as lost.
    pub async fn send(&self, to: SocketAddr, bytes: &[u8]) {
        if let Some(socket) = self.socket_for(to)
            && let Err(error) = socket.send_to(bytes, fold(to)).await
        {
            tracing::debug!(%to, %error, "datagram not sent");
        }
    }

    pub(super) fn families(&self) -> Families {
        Families { v4: self.v4.is_some(), v6: self.v6.is_some() }
    }

    pub(super) async fn transmit(&self, transmit: &Transmit) {
        self.send(transmit.to, &transmit.bytes).await;
    }

    /// The next datagram. Cancel safe.
    pub(super) async fn receive(&mut self) -> (&[u8], SocketAddr) {
        let (v4, v6) = (self.v4.clone(), self.v6.clone());
        let (is_v4, length, from) = tokio::select! {
            (length, from) = receive_on(v4.as_deref(), &mut self.buffer_v4) => (true, length, from),
            (length, from) = receive_on(v6.as_deref(), &mut self.buffer_v6) => (false, length, from),
        };
        let buffer = if is_v4 { &self.buffer_v4 } else { &self.buffer_v6 };
        (&buffer[..length], fold(from))
    }
}

/// Waits for a datagram on one socket. An error is what the network said about an earlier datagram (ICMP unreachable of
/// a peer that went away), never the end of the socket: it is passed over.
async fn receive_on(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> (usize, SocketAddr) {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        match socket.recv_from(buffer).await {
            Ok(received) => return received,
            Err(error) if is_report(&error) => tracing::debug!(%error, "report about an earlier datagram"),
            Err(error) => {
                tracing::warn!(%error, "receive failed");
                // An error that stays would spin; what is lost meanwhile is repeated.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

fn is_report(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}
