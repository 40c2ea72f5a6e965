//! HTTP/1.1 as the closed loop needs it: requests as bytes, answers by status and length.

use super::error::{CompareError, system};
use super::tcp::{Exchange, Extent};
use crate::client::http::Registered;
use crate::credentials::Secret;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Longest head that is waited for, as the server's own bound.
const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// The same GET again and again.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    request: Vec<u8>,
    status: u16,
}

impl Fetch {
    /// `etag` makes it conditional, and 304 the answer.
    pub(super) fn new(address: SocketAddr, path: &str, etag: Option<&str>) -> Self {
        let condition = etag.map(|etag| format!("If-None-Match: {etag}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{condition}\r\n").into_bytes();
        Self { request, status: if etag.is_some() { 304 } else { 200 } }
    }
}

impl Exchange for Fetch {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn answer(&mut self, _connection: usize, bytes: &[u8]) -> Result<Extent, String> {
        extent(bytes, self.status)
    }
}

/// One listing's renewals.
#[derive(Debug)]
struct Lease {
    /// Up to the version.
    request: Vec<u8>,
    version: u64,
}

/// Renewals by compare-and-swap, each connection going round its own listings.
#[derive(Debug)]
pub(super) struct Renewals {
    leases: Vec<Vec<Lease>>,
    current: Vec<usize>,
}

impl Renewals {
    pub(super) fn new(
        address: SocketAddr,
        tenant: &str,
        token: &Secret,
        listings: &[Registered],
        connections: usize,
    ) -> Self {
        let lease = |listing: &Registered| {
            Lease {
            request: format!(
                "POST /v1/tenants/{tenant}/listings/{id}/renew HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer \
                 {token}\r\nLease-Token: {lease}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nIf-Match: \"",
                id = listing.listing_id,
                token = token.expose(),
                lease = listing.lease_token.expose(),
            )
            .into_bytes(),
            version: listing.version,
        }
        };
        let mut leases: Vec<Vec<Lease>> = (0..connections).map(|_| Vec::new()).collect();
        listings.iter().enumerate().for_each(|(n, listing)| leases[n % connections].push(lease(listing)));
        Self { leases, current: vec![0; connections] }
    }
}

impl Exchange for Renewals {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let current = &mut self.current[connection];
        *current = (*current + 1) % self.leases[connection].len();
        let lease = &self.leases[connection][*current];
        out.extend_from_slice(&lease.request);
        super::push_number(out, lease.version);
        out.extend_from_slice(b"\"\r\n\r\n{}");
    }

    fn answer(&mut self, connection: usize, bytes: &[u8]) -> Result<Extent, String> {
        let extent = extent(bytes, 200)?;
        if extent != Extent::Unknown {
            self.leases[connection][self.current[connection]].version += 1;
        }
        Ok(extent)
    }
}

/// The extent of an answer with this status; any other status is an error.
fn extent(bytes: &[u8], status: u16) -> Result<Extent, String> {
    let Some((head_bytes, length)) = head(bytes) else {
        return if bytes.len() < HEAD_BYTES_MAX { Ok(Extent::Unknown) } else { Err("a head without end".into()) };
    };
    let seen = bytes.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    if seen != Some(status) {
        return Err(format!("expected status {status}, came {:?}", String::from_utf8_lossy(bytes)));
    }
    // A 304 may tell the length of what it doesn't send (RFC 9110 section 15.4.5).
    Ok(Extent::Bytes(head_bytes + if status == 304 { 0 } else { length }))
}

/// Bytes of the head with its empty line, and of the body; `None` while the head isn't whole.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    const CONTENT_LENGTH: &[u8] = b"content-length:";
    let (mut at, mut length) = (0, 0);
    loop {
        let end = at + bytes[at..].iter().position(|byte| *byte == b'\n')?;
        let line = &bytes[at..end];
        at = end + 1;
        match line {
            b"\r" | b"" => return Some((at, length)),
            [b'c' | b'C', ..] if line.len() > CONTENT_LENGTH.len() => {
                let (name, value) = line.split_at(CONTENT_LENGTH.len());
                if name.eq_ignore_ascii_case(CONTENT_LENGTH) {
                    length = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
                }
            }
            _ => {}
        }
    }
}

/// One request on a connection of its own: head and body of the answer.
pub(super) fn fetch_once(
    name: &'static str,
    address: SocketAddr,
    path: &str,
) -> Result<(String, Vec<u8>), CompareError> {
    let read = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer: Vec<u8> = read().map_err(system(format!("GET {path} from {name}")))?;
    let detail = || format!("GET {path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(200)]));
    match (extent(&answer, 200), head(&answer)) {
        (Ok(Extent::Bytes(whole)), Some((head_bytes, _))) if whole == answer.len() => {
            Ok((String::from_utf8_lossy(&answer[..head_bytes]).into_owned(), answer[head_bytes..].to_vec()))
        }
        _ => Err(CompareError::Answer { name, detail: detail() }),
    }
}

/// The value of a header.
pub(super) fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_their_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\nCONTENT-length: 5\r\nX: y\r\n\r\nhello";
        assert_eq!(extent(answer, 200), Ok(Extent::Bytes(answer.len())));
        for cut in 0..answer.len() - 5 {
            assert_eq!(extent(&answer[..cut], 200), Ok(Extent::Unknown), "{cut}");
        }
        assert!(extent(answer, 304).is_err());
        let unchanged = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 700\r\n\r\n";
        assert_eq!(extent(unchanged, 304), Ok(Extent::Bytes(unchanged.len())));
        assert!(extent(&[b'a'; HEAD_BYTES_MAX], 200).is_err());
        assert_eq!(header("HTTP/1.1 200 OK\r\nETag: W/\"a\"\r\n\r\n", "etag"), Some("W/\"a\""));
    }
}
