//! Answers without a request: to what hyper can't parse, and to whom nobody listens.
//!
//! hyper answers a malformed head by itself, with a bare 400 or 431 that no handler sees. Clients are promised a problem
//! document and the instance on every answer, so the connection's I/O sends these in place of hyper's.

use super::answer::{Answer, INSTANCE};
use super::problem::Problem;
use super::registry::Ceiling;
use bytes::Bytes;
use hyper::header::HeaderValue;

/// The answers, rendered once.
#[derive(Debug)]
pub(super) struct RawAnswers {
    malformed: Bytes,
    headers_too_large: Bytes,
    needs_tls: Bytes,
    full: Bytes,
    source_full: Bytes,
}

impl RawAnswers {
    pub(super) fn new(instance: &HeaderValue) -> Self {
        let rendered = |problem: Problem| render(problem.and_close().into_answer().header(INSTANCE, instance.clone()));
        Self {
            malformed: rendered(Problem::malformed_request()),
            headers_too_large: rendered(Problem::headers_too_large()),
            needs_tls: rendered(Problem::needs_tls()),
            full: rendered(Problem::connections(Ceiling::All)),
            source_full: rendered(Problem::connections(Ceiling::Source)),
        }
    }

    /// For a client that speaks HTTP where TLS is spoken.
    pub(super) fn needs_tls(&self) -> Bytes {
        self.needs_tls.clone()
    }

    /// For a client whose connection finds no place.
    pub(super) fn full(&self, ceiling: Ceiling) -> Bytes {
        match ceiling {
            Ceiling::All => self.full.clone(),
            Ceiling::Source => self.source_full.clone(),
        }
    }

    /// What to send in place of `head`, the first bytes of an answer, when they are hyper's own.
    pub(super) fn in_place_of(&self, head: &[u8]) -> Option<&Bytes> {
        let ours = match head.get(..12)? {
            b"HTTP/1.1 400" | b"HTTP/1.0 400" => &self.malformed,
            b"HTTP/1.1 431" | b"HTTP/1.0 431" => &self.headers_too_large,
            _ => return None,
        };
        let instance = INSTANCE;
        let name = instance.as_str().as_bytes();
        let has_instance = head.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name));
        (!has_instance).then_some(ours)
    }
}

/// An answer as HTTP/1.1 on the wire.
fn render(answer: Answer) -> Bytes {
    let response = answer.into_response(|body| body);
    let mut bytes = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", response.body().len()).as_bytes());
    bytes.extend_from_slice(response.body());
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hypers_own_refusals_are_replaced() {
        let answers = RawAnswers::new(&HeaderValue::from_static("0123"));
        let own = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let ours = answers.in_place_of(own).unwrap();
        assert!(ours.starts_with(b"HTTP/1.1 400 Bad Request\r\n") && ours.ends_with(b"}"));
        let text = std::str::from_utf8(ours).unwrap();
        for part in [
            "rendezvous-instance: 0123\r\n",
            "connection: close\r\n",
            "application/problem+json",
            "\"code\":\"invalid\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(answers.in_place_of(ours).is_none(), "ours stay as they are");
        assert!(answers.in_place_of(b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n").is_some());
        for other in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP", b""] {
            assert!(answers.in_place_of(other).is_none());
        }
    }
}
