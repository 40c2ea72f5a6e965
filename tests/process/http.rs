//! A blocking HTTP/1.1 client that sends what it is told.

use crate::child::PATIENCE;
pub(crate) use crate::http_message::{Response, request};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(to: SocketAddr) -> Self {
        Self::try_open(to).expect("a listener")
    }

    pub(crate) fn try_open(to: SocketAddr) -> std::io::Result<Self> {
        Self::prepare(TcpStream::connect_timeout(&to, PATIENCE)?)
    }

    /// From another address of this machine.
    pub(crate) fn from(source: IpAddr, to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::new(source, 0).into()).expect("an address of this machine");
        socket.connect(&to.into()).expect("a listener");
        Self::prepare(socket.into()).expect("options")
    }

    fn prepare(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("an open connection");
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.send(request(method, path, headers, body).as_bytes());
        self.response().expect("an answer")
    }

    /// The next response; `None` when the connection ends before one.
    pub(crate) fn response(&mut self) -> Option<Response> {
        loop {
            if let Some(response) = Response::take(&mut self.buffer, false) {
                return Some(response);
            }
            self.fill()?;
        }
    }

    /// True when the other side closes without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.fill().is_none()
    }

    fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 16_384];
        match self.stream.read(&mut bytes) {
            Ok(0) => None,
            Ok(read) => {
                self.buffer.extend_from_slice(&bytes[..read]);
                Some(())
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("neither an answer nor an end")
            }
            Err(_) => None,
        }
    }
}
