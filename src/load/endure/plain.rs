//! One HTTP request on a connection of its own, by blocking calls: for what is asked rarely and beside the load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer of a server that lives takes longer, long polls aside.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer that is read here; the metrics are the longest.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// A text member of the body.
    pub(super) fn text(&self, member: &str) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        body.pointer(member)?.as_str().map(str::to_owned)
    }
}

/// Sends one request.
pub(super) fn send(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{text}\r\n{body}").as_bytes())?;
    Ok(stream)
}

/// Sends one request and reads its answer to the end of the connection.
pub(super) fn ask(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let mut text = String::new();
    send(server, method, path, headers, body)?.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_whatever_their_case() {
        let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\nX: y".to_owned();
        let answer = Answer { status: 429, head, body: r#"{"a":{"b":"c"}}"#.to_owned() };
        assert_eq!((answer.header("Retry-After"), answer.header("z")), (Some("3"), None));
        assert_eq!((answer.text("/a/b"), answer.text("/a/x")), (Some("c".to_owned()), None));
    }
}
