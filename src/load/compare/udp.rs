//! The closed loop over UDP: as many sources as there are sockets, each with a few datagrams on the way.
//!
//! Sources are sockets of their own, so that neither kernel nor server can join what the field would never join. Sends
//! and receives of one source go in batches, so that the server is the limit.

use super::error::{CompareError, system};
use super::{Ran, Run};
use crate::client::http::Registered;
use crate::clock::{Clock, SystemClock};
use crate::credentials::{REALM, long_term_key};
use crate::load::presence::{Datagram, first_request};
use crate::stun::{AttributeType, Class, HEADER_BYTES, Message, TransactionId};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

/// Sockets of the generator.
pub(super) const SOURCES: usize = 64;
/// Datagrams of one source on the way: all of them fit every receive queue.
pub(super) const DEPTH: usize = 4;
/// Events of one turn.
const EVENTS: usize = SOURCES;
/// A receive buffer: [`DEPTH`] answers that the kernel coalesced.
const BUFFER_BYTES: usize = 8 * 1_024;
/// Silence after which what is on the way counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// Rounds of silence in a row that end a run: five seconds.
const SILENT_ROUNDS: u32 = 50;
/// For an answer while nothing is measured.
const PREPARE_PATIENCE: Duration = Duration::from_secs(2);
/// A success response to a Binding request (RFC 8489 section 5).
const SUCCESS: [u8; 2] = [0x01, 0x01];

/// What a source sends.
enum Letters {
    /// Presence of its listings, one after the other, each signed as it goes.
    Presence(Vec<Datagram>),
    /// The same bytes with another transaction, for a server that looks at nothing.
    Constant(Vec<u8>),
}

struct Source {
    socket: UdpSocket,
    state: UdpSocketState,
    letters: Letters,
    next: usize,
    on_the_way: usize,
}

/// Sources of one server.
pub(super) struct UdpLoop {
    name: &'static str,
    poll: Poll,
    events: Events,
    sources: Vec<Source>,
    buffers: Vec<Vec<u8>>,
    transactions: u64,
}

/// Lengths of a presence request and of its answer, as seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) request: usize,
    pub(super) answer: usize,
}

impl UdpLoop {
    /// Sources that keep `listings` present: each source has its own share of them and a nonce of its own. One exchange
    /// per source is verified to the last byte.
    pub(super) fn presence(
        name: &'static str,
        server: SocketAddr,
        listings: &[Registered],
    ) -> Result<(Self, Lengths), CompareError> {
        let mut lengths = Lengths { request: 0, answer: 0 };
        let sources = (0..SOURCES).map(|source| {
            let share: Vec<&Registered> = listings.iter().skip(source).step_by(SOURCES).collect();
            let socket = open(server).map_err(system(format!("a socket to {name}")))?;
            let (datagrams, seen) = introduce(name, &socket, &share)?;
            lengths = seen;
            Ok((socket, Letters::Presence(datagrams)))
        });
        let sources = sources.collect::<Result<_, CompareError>>()?;
        Ok((Self::new(name, sources)?, lengths))
    }

    /// Sources that send `bytes` bytes.
    pub(super) fn constant(name: &'static str, server: SocketAddr, bytes: usize) -> Result<Self, CompareError> {
        let source = |_| Ok((open(server)?, Letters::Constant(vec![0; bytes])));
        let sources = (0..SOURCES).map(source).collect::<io::Result<_>>();
        Self::new(name, sources.map_err(system(format!("a socket to {name}")))?)
    }

    fn new(name: &'static str, sources: Vec<(std::net::UdpSocket, Letters)>) -> Result<Self, CompareError> {
        let register = || {
            let poll = Poll::new()?;
            let sources = sources.into_iter().enumerate().map(|(token, (socket, letters))| {
                socket.set_nonblocking(true)?;
                let mut socket = UdpSocket::from_std(socket);
                let state = UdpSocketState::new((&socket).into())?;
                poll.registry().register(&mut socket, Token(token), Interest::READABLE)?;
                Ok(Source { socket, state, letters, next: 0, on_the_way: 0 })
            });
            let sources = sources.collect::<io::Result<_>>()?;
            let (events, buffers) = (Events::with_capacity(EVENTS), vec![vec![0; BUFFER_BYTES]; DEPTH]);
            Ok(Self { name, poll, events, sources, buffers, transactions: 0 })
        };
        register().map_err(system(format!("sockets to {name}")))
    }

    /// Sends until the run is over, then takes what is still on the way.
    pub(super) fn run(&mut self, run: Run<'_>) -> Result<Ran, CompareError> {
        let Self { name, poll, events, sources, buffers, transactions } = self;
        let name = *name;
        let failed = |error| system(format!("a socket to {name}"))(error);
        let mut ran = Ran { answers: 0, lost: 0, ended: run.clock.mono() };
        let mut silent = 0;
        for source in sources.iter_mut() {
            source.send(DEPTH, transactions).map_err(failed)?;
        }
        loop {
            match poll.poll(events, Some(LOST_AFTER)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled.map_err(failed)?,
            }
            let now = run.clock.mono();
            let more = !run.is_over(now);
            silent = if events.is_empty() { silent + 1 } else { 0 };
            if silent >= SILENT_ROUNDS {
                return Err(CompareError::Answer { name, detail: "no answer for five seconds".to_owned() });
            }
            if events.is_empty() {
                for source in sources.iter_mut() {
                    ran.lost += source.on_the_way as u64;
                    source.on_the_way = 0;
                    if more {
                        source.send(DEPTH, transactions).map_err(failed)?;
                    }
                }
            }
            for event in events.iter() {
                let source = &mut sources[event.token().0];
                let answers = source.receive(buffers).map_err(|error| error.named(name))?;
                ran.answers += answers as u64;
                ran.ended = now;
                if more {
                    source.send(answers, transactions).map_err(failed)?;
                }
            }
            if !more && sources.iter().all(|source| source.on_the_way == 0) {
                return if run.is_stopped() { Err(CompareError::Stopped) } else { Ok(ran) };
            }
        }
    }
}

/// Why answers could not be taken.
enum ReceiveError {
    Socket(io::Error),
    Answer(String),
}

impl ReceiveError {
    fn named(self, name: &'static str) -> CompareError {
        match self {
            Self::Socket(error) => system(format!("a socket to {name}"))(error),
            Self::Answer(detail) => CompareError::Answer { name, detail },
        }
    }
}

impl Source {
    /// Sends the next datagrams by one call.
    fn send(&mut self, count: usize, transactions: &mut u64) -> io::Result<()> {
        let mut bytes: [Vec<u8>; DEPTH] = Default::default();
        let count = count.min(DEPTH);
        for slot in &mut bytes[..count] {
            *transactions += 1;
            slot.extend_from_slice(self.letters.next(&mut self.next, *transactions));
        }
        let slices: Vec<[IoSlice<'_>; 1]> = bytes[..count].iter().map(|slot| [IoSlice::new(slot)]).collect();
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; DEPTH] = Default::default();
        let headers = slices.iter().zip(&mut controls).map(|(slice, control)| MMsgHdr::new(slice, control));
        let mut headers: Vec<MMsgHdr<'_>> = headers.collect();
        if headers.is_empty() {
            return Ok(());
        }
        // What doesn't fit the queue is sent when the silence shows that it is missing.
        self.on_the_way += count;
        match sendmmsg(&self.socket, &mut headers, SendFlags::empty()) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what there is; how many answers.
    fn receive(&mut self, buffers: &mut [Vec<u8>]) -> Result<usize, ReceiveError> {
        let mut metas = [RecvMeta::default(); DEPTH];
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let received = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(ReceiveError::Socket(error)),
        };
        let mut answers = 0;
        for (buffer, meta) in buffers.iter().zip(&metas).take(received) {
            for answer in buffer[..meta.len].chunks(meta.stride.max(1)) {
                if !answer.starts_with(&SUCCESS) {
                    return Err(ReceiveError::Answer(format!("expected a success, came {}", refusal(answer))));
                }
                answers += 1;
            }
        }
        // An answer that was counted as lost may come after all.
        let answers = answers.min(self.on_the_way);
        self.on_the_way -= answers;
        Ok(answers)
    }
}

impl Letters {
    fn next(&mut self, at: &mut usize, number: u64) -> &[u8] {
        let mut transaction = [0; 12];
        transaction[4..].copy_from_slice(&number.to_be_bytes());
        match self {
            Self::Presence(datagrams) => {
                *at = (*at + 1) % datagrams.len();
                datagrams[*at].next(TransactionId(transaction))
            }
            Self::Constant(bytes) => {
                bytes[8..HEADER_BYTES].copy_from_slice(&transaction);
                bytes
            }
        }
    }
}

fn refusal(answer: &[u8]) -> String {
    let code = Message::parse(answer).ok().and_then(|message| message.error_code().ok().flatten());
    code.map_or_else(|| "something else".to_owned(), |code| format!("error {code}"))
}

fn open(server: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PREPARE_PATIENCE))?;
    Ok(socket)
}

/// Makes listings visible: one datagram for each, which counts for the server's presence TTL.
pub(super) fn prove(name: &'static str, server: SocketAddr, listings: &[Registered]) -> Result<(), CompareError> {
    let failed = |error| system(format!("a datagram to {name}"))(error);
    let socket = open(server).map_err(failed)?;
    let share: Vec<&Registered> = listings.iter().collect();
    let (datagrams, _) = introduce(name, &socket, &share)?;
    let mut answer = [0; BUFFER_BYTES];
    // The first has been sent already.
    for (number, mut datagram) in datagrams.into_iter().enumerate().skip(1) {
        let mut transaction = [0; 12];
        transaction[4..].copy_from_slice(&(number as u64).to_be_bytes());
        let request = datagram.next(TransactionId(transaction));
        socket.send(request).map_err(failed)?;
        let length = socket.recv(&mut answer).map_err(failed)?;
        if !answer[..length].starts_with(&SUCCESS) {
            let detail = format!("expected a success, came {}", refusal(&answer[..length]));
            return Err(CompareError::Answer { name, detail });
        }
    }
    Ok(())
}

/// Gets a nonce for this source, makes the templates, and checks one whole exchange.
fn introduce(
    name: &'static str,
    socket: &std::net::UdpSocket,
    listings: &[&Registered],
) -> Result<(Vec<Datagram>, Lengths), CompareError> {
    let refused = |detail: &str| CompareError::Answer { name, detail: detail.to_owned() };
    let ask = |request: &[u8]| {
        let mut buffer = vec![0; BUFFER_BYTES];
        socket.send(request)?;
        let length = socket.recv(&mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    };
    let failed = |error| system(format!("a first datagram to {name}"))(error);
    let first = listings.first().ok_or_else(|| refused("fewer listings than sources"))?;
    let hello =
        first_request(&first.presence.username, TransactionId([1; 12])).ok_or_else(|| refused("a long name"))?;
    let challenge = ask(&hello).map_err(failed)?;
    let nonce = Message::parse(&challenge).ok().and_then(|message| message.attribute(AttributeType::NONCE));
    let nonce = nonce.ok_or_else(|| refused("expected a challenge with a nonce"))?;
    // Milliseconds grow from one call to the next, as they have to.
    let sequence = SystemClock::new().steady_wall_ms();
    let template =
        |listing: &&Registered| Datagram::new(&listing.presence.username, &listing.presence.password, nonce, sequence);
    let mut datagrams: Vec<Datagram> =
        listings.iter().map(template).collect::<Option<_>>().ok_or_else(|| refused("a long name or nonce"))?;
    let request = datagrams[0].next(TransactionId([2; 12])).to_vec();
    let answer = ask(&request).map_err(failed)?;
    let key = long_term_key(&first.presence.username, REALM, &first.presence.password);
    match Message::parse(&answer) {
        Ok(message) if message.class() == Class::Success && message.verify_integrity(&key) => {}
        _ => return Err(refused(&format!("expected a signed success, came {}", refusal(&answer)))),
    }
    Ok((datagrams, Lengths { request: request.len(), answer: answer.len() }))
}
