//! A blocking HTTP/1.1 client that sends what it is told.

use crate::child::PATIENCE;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case, in the order of the wire.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Null when the body is no JSON.
    pub(crate) json: Value,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}")
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
        let head_end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let head = String::from_utf8(self.buffer.drain(..head_end).collect()).expect("ASCII");
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
        let length = if status == 304 { 0 } else { length };
        while self.buffer.len() < length {
            self.fill()?;
        }
        let body = String::from_utf8(self.buffer.drain(..length).collect()).expect("UTF-8");
        let json = serde_json::from_str(&body).unwrap_or(Value::Null);
        Some(Response { status, headers, body, json })
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
