//! Sockets: bound once, read in batches, written without waiting. The only file that talks to the network.

use super::metrics::UdpMetrics;
use super::question::{Listener, Local, Transmit};
use super::settings::UdpSettings;
use crate::domain::Family;
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Bytes of one receive buffer: no UDP datagram and no batch that the kernel coalesces is longer, so nothing is ever read
/// truncated (case U1).
const BUFFER_BYTES: usize = 65_536;

/// Datagrams, or coalesced batches, read by one system call.
const BATCH: usize = 16;

/// Asked of the kernel for each socket: a quarter of a second of 100,000 requests of 160 bytes. Less is no error.
const RECEIVE_QUEUE_BYTES: usize = 4 * 1_024 * 1_024;

/// The addresses that were bound, in the order of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddrs {
    /// Plain listeners.
    pub plain: Vec<SocketAddr>,
    /// Challenging listeners.
    pub auth: Vec<SocketAddr>,
}

/// One socket.
#[derive(Debug)]
struct Bound {
    socket: UdpSocket,
    state: UdpSocketState,
    listener: Listener,
    address: SocketAddr,
}

/// All sockets of the edge, by position.
#[derive(Debug)]
pub(super) struct Sockets(Vec<Bound>);

/// Room for one batch, reused.
pub(super) struct Batch {
    buffers: Vec<Vec<u8>>,
    metas: Vec<RecvMeta>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self { buffers: vec![vec![0; BUFFER_BYTES]; BATCH], metas: vec![RecvMeta::default(); BATCH] }
    }

    /// Every datagram of the first `count` buffers with its source and the address it was sent to. What the kernel
    /// coalesced is taken apart; an empty datagram is one too (case U2).
    pub(super) fn datagrams(&self, count: usize) -> impl Iterator<Item = (&[u8], SocketAddr, Option<IpAddr>)> {
        self.buffers.iter().zip(&self.metas).take(count).flat_map(|(buffer, meta)| {
            let (stride, whole) = (meta.stride.max(1), &buffer[..meta.len]);
            let parts = if whole.is_empty() { 1 } else { whole.len().div_ceil(stride) };
            (0..parts).map(move |part| {
                let (from, to) = (part * stride, ((part + 1) * stride).min(whole.len()));
                (&whole[from.min(to)..to], meta.addr, meta.dst_ip)
            })
        })
    }
}

impl Sockets {
    /// Binds every listener. Fails with the address in the message.
    pub(super) fn bind(settings: &UdpSettings) -> io::Result<Self> {
        let plain = settings.plain.iter().map(|address| (*address, Listener::Plain));
        let auth = settings.auth.iter().map(|address| (*address, Listener::Challenging));
        plain.chain(auth).map(|(address, listener)| Bound::new(address, listener)).collect::<io::Result<_>>().map(Self)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bound address of every socket.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|bound| bound.address).collect()
    }

    /// The same, by kind.
    pub(super) fn local_addrs(&self) -> LocalAddrs {
        let of =
            |kind: Listener| self.0.iter().filter(|bound| bound.listener == kind).map(|bound| bound.address).collect();
        LocalAddrs { plain: of(Listener::Plain), auth: of(Listener::Challenging) }
    }

    /// The kind of a socket.
    pub(super) fn listener(&self, socket: usize) -> Listener {
        self.0[socket].listener
    }

    /// Our side of a path that came in at `socket` and was sent to `asked`. A socket that is bound to one address needs no
    /// help in choosing it.
    pub(super) fn local(&self, socket: usize, asked: Option<IpAddr>) -> Local {
        let is_wildcard = self.0[socket].address.ip().is_unspecified();
        Local { socket, ip: asked.filter(|_| is_wildcard) }
    }

    /// How endpoints of a family are reached that nobody has heard by another way: its first socket, plain ones first.
    pub(super) fn default_route(&self, family: Family) -> Option<Local> {
        let matches = |bound: &Bound| bound.address.is_ipv4() == (family == Family::V4);
        self.0.iter().position(matches).map(|socket| Local { socket, ip: None })
    }

    /// Ready once any socket has something to read, beginning the search at `first`; the position of that socket.
    pub(super) fn poll_readable(&self, first: usize, context: &mut Context<'_>) -> Poll<usize> {
        for offset in 0..self.len() {
            let socket = (first + offset) % self.len();
            // An error of readiness is found again, and counted, by the read.
            if self.0[socket].socket.poll_recv_ready(context).is_ready() {
                return Poll::Ready(socket);
            }
        }
        Poll::Pending
    }

    /// Reads one batch without waiting; how many buffers were filled.
    pub(super) fn receive(&self, socket: usize, batch: &mut Batch) -> io::Result<usize> {
        let bound = &self.0[socket];
        let mut slices: Vec<IoSliceMut<'_>> = batch.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let metas = &mut batch.metas;
        bound.socket.try_io(Interest::READABLE, || bound.state.recv((&bound.socket).into(), &mut slices, metas))
    }

    /// Sends each of `transmits`.
    pub(super) fn send_all(&self, transmits: &[Transmit], metrics: &UdpMetrics) {
        transmits.iter().for_each(|transmit| self.send(transmit, metrics));
    }

    /// Sends without waiting. A full send queue is like a full queue on the way: the other side asks again.
    pub(super) fn send(&self, transmit: &Transmit, metrics: &UdpMetrics) {
        let Some(bound) = self.0.get(transmit.local.socket) else { return };
        let datagram = quinn_udp::Transmit {
            destination: transmit.to,
            ecn: None,
            contents: &transmit.bytes,
            segment_size: None,
            src_ip: transmit.local.ip,
        };
        if let Err(error) = bound.state.try_send((&bound.socket).into(), &datagram) {
            metrics.send_error(&error);
        }
    }
}

impl Bound {
    fn new(address: SocketAddr, listener: Listener) -> io::Result<Self> {
        Self::open(address, listener)
            .map_err(|error| io::Error::new(error.kind(), format!("UDP listener {address}: {error}")))
    }

    fn open(address: SocketAddr, listener: Listener) -> io::Result<Self> {
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // IPv4 has sockets of its own; a mapped address would be a second spelling of the same source.
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        // What the kernel grants is up to its configuration.
        let _ = socket.set_recv_buffer_size(RECEIVE_QUEUE_BYTES);
        socket.bind(&address.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let address = socket.local_addr()?;
        Ok(Self { socket, state, listener, address })
    }
}
