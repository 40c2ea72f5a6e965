//! Sockets: bound once, read in batches, written without waiting. The only file that talks to the network.

use super::metrics::UdpMetrics;
use super::question::{Listener, Local, Transmit};
use super::settings::UdpSettings;
use crate::domain::Family;
use crate::domain::endpoint::fold;
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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

/// Ports that the system may choose for one family before one is free in the other too: with half of all ports taken, all of
/// them are taken once in 65,536 starts.
const PORT_CHOICES: u32 = 16;

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
    /// Binds every listener, an IPv6 wildcard together with its IPv4 twin. Fails with the address in the message.
    pub(super) fn bind(settings: &UdpSettings) -> io::Result<Self> {
        let mut bound = Vec::new();
        for (named, listener) in [(&settings.plain, Listener::Plain), (&settings.auth, Listener::Challenging)] {
            for address in named.iter().map(|address| fold(*address)) {
                if has_twin(address, named, &settings.plain, &settings.auth) {
                    bound.extend(Bound::twins(address.port(), listener)?);
                } else {
                    bound.push(Bound::new(address, listener)?);
                }
            }
        }
        Ok(Self(bound))
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

/// Whether `address` is `[::]:port` and stands for IPv4 as well, for nobody has named an IPv4 listener of that port. The
/// system's choices for two ports 0 are two ports, so there only `own` counts, the list that has the address.
pub(super) fn has_twin(address: SocketAddr, own: &[SocketAddr], plain: &[SocketAddr], auth: &[SocketAddr]) -> bool {
    let names_it = |list: &[SocketAddr]| {
        list.iter().map(|other| fold(*other)).any(|other| other.is_ipv4() && other.port() == address.port())
    };
    let is_named = if address.port() == 0 { names_it(own) } else { names_it(plain) || names_it(auth) };
    address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !is_named
}

impl Bound {
    /// `[::]` and `0.0.0.0` on one port. A port that the system chose for one family may be taken in the other: then it
    /// chooses again.
    fn twins(port: u16, listener: Listener) -> io::Result<[Self; 2]> {
        let mut tries = if port == 0 { PORT_CHOICES } else { 1 };
        loop {
            tries -= 1;
            let v6 = Self::new((Ipv6Addr::UNSPECIFIED, port).into(), listener)?;
            match Self::new((Ipv4Addr::UNSPECIFIED, v6.address.port()).into(), listener) {
                Ok(v4) => return Ok([v6, v4]),
                Err(error) if tries > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn new(address: SocketAddr, listener: Listener) -> io::Result<Self> {
        Self::open(address, listener)
            .map_err(|error| io::Error::new(error.kind(), format!("UDP listener {address}: {error}")))
    }

    fn open(address: SocketAddr, listener: Listener) -> io::Result<Self> {
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // IPv4 has sockets of its own (`twins`); a mapped address would be a second spelling of the same source.
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
