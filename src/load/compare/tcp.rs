//! The closed loop over TCP: each connection has one request on the way, and one thread serves them all.
//!
//! As thin as it can be, so that the server is the limit: no allocation, one read and one write a request, and bodies are
//! counted, not looked at.

use super::error::{CompareError, system};
use super::{Ran, Run};
use crate::clock::Clock;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Events of one turn: more connections than that take two.
const EVENTS: usize = 256;
/// Read by one call: a page of 64 KiB with its head takes one or two.
const SCRATCH_BYTES: usize = 128 * 1_024;
/// Silence of all connections that ends a run.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of an answer there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Too little to know.
    Unknown,
    /// It will have so many bytes.
    Bytes(usize),
}

/// What is asked and what is expected.
pub(super) trait Exchange {
    /// Appends the connection's next request.
    fn request(&mut self, connection: usize, out: &mut Vec<u8>);
    /// Judges an answer by its first bytes; the words of an error say what was expected and what came.
    fn answer(&mut self, connection: usize, bytes: &[u8]) -> Result<Extent, String>;
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// First bytes of an answer whose extent isn't known.
    begun: Vec<u8>,
    missing: usize,
}

/// Connections to one server.
#[derive(Debug)]
pub(super) struct ClosedLoop {
    name: &'static str,
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    scratch: Vec<u8>,
    out: Vec<u8>,
}

impl ClosedLoop {
    pub(super) fn connect(name: &'static str, address: SocketAddr, connections: usize) -> Result<Self, CompareError> {
        let open = || {
            let poll = Poll::new()?;
            let connections = (0..connections)
                .map(|token| {
                    let stream = std::net::TcpStream::connect(address)?;
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    let mut stream = TcpStream::from_std(stream);
                    poll.registry().register(&mut stream, Token(token), Interest::READABLE)?;
                    Ok(Connection { stream, begun: Vec::new(), missing: 0 })
                })
                .collect::<io::Result<_>>()?;
            let (events, scratch) = (Events::with_capacity(EVENTS), vec![0; SCRATCH_BYTES]);
            Ok(Self { name, poll, events, connections, scratch, out: Vec::new() })
        };
        open().map_err(system(format!("connecting to {name}")))
    }

    /// Asks until the run is over, then takes what is still on the way.
    pub(super) fn run(&mut self, exchange: &mut dyn Exchange, run: Run<'_>) -> Result<Ran, CompareError> {
        let Self { name, poll, events, connections, scratch, out } = self;
        let name = *name;
        let failed = |error| system(format!("a connection to {name}"))(error);
        let mut on_the_way = connections.len();
        for (number, connection) in connections.iter_mut().enumerate() {
            connection.ask(number, exchange, out).map_err(failed)?;
        }
        let mut ran = Ran { answers: 0, lost: 0, ended: run.clock.mono() };
        while on_the_way > 0 {
            poll_events(poll, events).map_err(failed)?;
            if events.is_empty() {
                let detail = format!("no answer on {on_the_way} connections for {} s", PATIENCE.as_secs());
                return Err(CompareError::Answer { name, detail });
            }
            let now = run.clock.mono();
            let more = !run.is_over(now);
            for event in events.iter() {
                let number = event.token().0;
                let whole = connections[number].take(number, exchange, scratch).map_err(|error| error.named(name))?;
                if whole {
                    ran.answers += 1;
                    ran.ended = now;
                    if more {
                        connections[number].ask(number, exchange, out).map_err(failed)?;
                    } else {
                        on_the_way -= 1;
                    }
                }
            }
        }
        if run.is_stopped() { Err(CompareError::Stopped) } else { Ok(ran) }
    }
}

fn poll_events(poll: &mut Poll, events: &mut Events) -> io::Result<()> {
    match poll.poll(events, Some(PATIENCE)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => poll.poll(events, Some(PATIENCE)),
        other => other,
    }
}

/// Why an answer could not be taken.
enum TakeError {
    Stream(io::Error),
    Answer(String),
}

impl TakeError {
    fn named(self, name: &'static str) -> CompareError {
        match self {
            Self::Stream(error) => system(format!("a connection to {name}"))(error),
            Self::Answer(detail) => CompareError::Answer { name, detail },
        }
    }
}

impl Connection {
    /// A request is far smaller than an empty send queue, so it goes at once or not at all.
    fn ask(&mut self, number: usize, exchange: &mut dyn Exchange, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        exchange.request(number, out);
        self.stream.write_all(out)
    }

    /// Reads what there is; true when the answer is whole.
    ///
    /// A read that doesn't fill the buffer has emptied the queue, and whatever comes later is another event.
    fn take(&mut self, number: usize, exchange: &mut dyn Exchange, scratch: &mut [u8]) -> Result<bool, TakeError> {
        loop {
            let read = match self.stream.read(scratch) {
                Ok(0) => return Err(TakeError::Answer("the connection was closed".to_owned())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(TakeError::Stream(error)),
            };
            if self.note(number, exchange, &scratch[..read]).map_err(TakeError::Answer)? {
                return Ok(true);
            }
            if read < scratch.len() {
                return Ok(false);
            }
        }
    }

    fn note(&mut self, number: usize, exchange: &mut dyn Exchange, bytes: &[u8]) -> Result<bool, String> {
        if self.missing > 0 {
            self.missing = self.missing.checked_sub(bytes.len()).ok_or("more bytes than announced")?;
            return Ok(self.missing == 0);
        }
        let joined = !self.begun.is_empty();
        if joined {
            self.begun.extend_from_slice(bytes);
        }
        let so_far = if joined { &self.begun } else { bytes };
        match exchange.answer(number, so_far)? {
            Extent::Unknown if !joined => self.begun.extend_from_slice(bytes),
            Extent::Unknown => {}
            Extent::Bytes(whole) => {
                self.missing = whole.checked_sub(so_far.len()).ok_or("more bytes than announced")?;
                self.begun.clear();
                return Ok(self.missing == 0);
            }
        }
        Ok(false)
    }
}
