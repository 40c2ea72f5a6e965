//! A second look at the framing of each request, before and beside hyper's own parser.
//!
//! hyper follows RFC 9112 section 6.3 where a message is ambiguous: Transfer-Encoding beats Content-Length, equal lengths
//! collapse, a bare LF ends a line. A proxy in front may choose otherwise, and then the two disagree where a request ends.
//! So [`Framing`] reads the same bytes as they arrive and notes the first request whose framing has more than one
//! reading; the edge answers that request with 400 and closes. Nothing here changes a byte.

/// Most header lines of one request.
pub(super) const HEADERS_MAX: usize = 64;
/// Most bytes of one request's head; also bounds the buffer of a line that arrives in pieces.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Why a request is refused for its framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// More than one reading of where the request ends.
    Ambiguous,
    /// More header lines or bytes than allowed.
    HeadersTooLarge,
}

/// What the scanner expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    RequestLine,
    HeaderLine,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    /// A flaw was found: the connection ends with this request.
    Nothing,
}

/// Follows the requests of one connection through its bytes.
#[derive(Debug)]
pub(super) struct Framing {
    expect: Expect,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Requests begun.
    requests: u64,
    head_bytes: usize,
    headers: usize,
    length: Option<u64>,
    chunked: bool,
    flaw: Option<(u64, Flaw)>,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self {
            expect: Expect::RequestLine,
            line: Vec::new(),
            requests: 0,
            head_bytes: 0,
            headers: 0,
            length: None,
            chunked: false,
            flaw: None,
        }
    }

    /// Reads the next bytes of the connection.
    pub(super) fn observe(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = match self.expect {
                Expect::Nothing => return,
                Expect::Body(left) => {
                    let (taken, left) = skip(bytes, left);
                    self.expect = if left == 0 { Expect::RequestLine } else { Expect::Body(left) };
                    taken
                }
                Expect::ChunkData(left) => {
                    let (taken, left) = skip(bytes, left);
                    self.expect = if left == 0 { Expect::ChunkEnd } else { Expect::ChunkData(left) };
                    taken
                }
                Expect::RequestLine | Expect::HeaderLine | Expect::ChunkSize | Expect::ChunkEnd | Expect::Trailer => {
                    self.take_line(bytes)
                }
            };
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    /// True while a head has begun to arrive and has not arrived whole.
    pub(super) fn mid_head(&self) -> bool {
        match self.expect {
            Expect::HeaderLine => true,
            Expect::RequestLine => !self.line.is_empty(),
            Expect::Body(_)
            | Expect::ChunkSize
            | Expect::ChunkData(_)
            | Expect::ChunkEnd
            | Expect::Trailer
            | Expect::Nothing => false,
        }
    }

    /// Requests begun so far, if the next byte begins another one.
    pub(super) fn between_requests(&self) -> Option<u64> {
        (self.expect == Expect::RequestLine && self.line.is_empty()).then_some(self.requests)
    }

    /// Counts a request that was read and answered by somebody else.
    pub(super) fn skip_request(&mut self) {
        self.requests += 1;
    }

    /// The first flawed request of the connection, counted from 1.
    pub(super) fn flaw(&self) -> Option<(u64, Flaw)> {
        self.flaw
    }

    fn take_line(&mut self, bytes: &[u8]) -> usize {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            if self.line.len() + bytes.len() > HEAD_BYTES_MAX {
                self.refuse(Flaw::HeadersTooLarge);
            } else {
                self.line.extend_from_slice(bytes);
            }
            return bytes.len();
        };
        let piece = bytes.get(..end).unwrap_or_default();
        if self.line.is_empty() {
            self.end_line(piece);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(piece);
            self.end_line(&line);
        }
        end + 1
    }

    fn end_line(&mut self, line: &[u8]) {
        self.head_bytes += line.len() + 1;
        let Some(line) = line.strip_suffix(b"\r") else { return self.refuse(Flaw::Ambiguous) };
        match self.expect {
            Expect::RequestLine => self.request_line(line),
            Expect::HeaderLine if line.is_empty() => self.end_head(),
            Expect::HeaderLine => self.header_line(line),
            Expect::ChunkSize => self.chunk_size(line),
            Expect::ChunkEnd if line.is_empty() => self.expect = Expect::ChunkSize,
            Expect::ChunkEnd => self.refuse(Flaw::Ambiguous),
            Expect::Trailer if line.is_empty() => self.expect = Expect::RequestLine,
            Expect::Trailer => self.count_header(),
            Expect::Body(_) | Expect::ChunkData(_) | Expect::Nothing => {}
        }
    }

    fn request_line(&mut self, line: &[u8]) {
        self.head_bytes = line.len() + 2;
        // RFC 9112 section 2.2: empty lines before a request line are skipped.
        if !line.is_empty() {
            (self.headers, self.length, self.chunked) = (0, None, false);
            self.requests += 1;
            self.expect = Expect::HeaderLine;
        }
    }

    fn header_line(&mut self, line: &[u8]) {
        self.count_header();
        if self.head_bytes > HEAD_BYTES_MAX {
            return self.refuse(Flaw::HeadersTooLarge);
        }
        let Some(colon) = memchr::memchr(b':', line) else { return self.refuse(Flaw::Ambiguous) };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.first().is_none_or(u8::is_ascii_whitespace) {
            // A folded line (RFC 9112 section 5.2) belongs to the header before it, or is one of its own.
            self.refuse(Flaw::Ambiguous);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            match decimal(value) {
                Some(length) if self.length.is_none() => self.length = Some(length),
                _ => self.refuse(Flaw::Ambiguous),
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return self.refuse(Flaw::Ambiguous);
            }
            self.chunked = true;
        }
    }

    fn count_header(&mut self) {
        self.headers += 1;
        if self.headers > HEADERS_MAX {
            self.refuse(Flaw::HeadersTooLarge);
        }
    }

    fn end_head(&mut self) {
        self.expect = match (self.chunked, self.length) {
            (true, Some(_)) => return self.refuse(Flaw::Ambiguous),
            (true, None) => Expect::ChunkSize,
            (false, None | Some(0)) => Expect::RequestLine,
            (false, Some(length)) => Expect::Body(length),
        };
    }

    fn chunk_size(&mut self, line: &[u8]) {
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        let size = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        self.expect = match size.and_then(|text| u64::from_str_radix(text, 16).ok()) {
            Some(0) => Expect::Trailer,
            Some(size) => Expect::ChunkData(size),
            None => return self.refuse(Flaw::Ambiguous),
        };
    }

    fn refuse(&mut self, flaw: Flaw) {
        // A flaw in a request line belongs to the request that the line would have begun.
        let request = if self.expect == Expect::RequestLine { self.requests + 1 } else { self.requests };
        self.flaw.get_or_insert((request, flaw));
        self.expect = Expect::Nothing;
        self.line = Vec::new();
    }
}

fn skip(bytes: &[u8], left: u64) -> (usize, u64) {
    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (taken, left - taken as u64)
}

/// Digits only: no sign, no list, no white space inside.
fn decimal(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw_of(text: &str) -> Option<(u64, Flaw)> {
        let mut whole = Framing::new();
        whole.observe(text.as_bytes());
        let mut split = Framing::new();
        text.as_bytes().iter().for_each(|byte| split.observe(&[*byte]));
        assert_eq!(whole.flaw(), split.flaw(), "independent of how the bytes arrive");
        whole.flaw()
    }

    #[test]
    fn case_h5_ambiguous_framing_is_flawed() {
        let head = "POST /x HTTP/1.1\r\nHost: a\r\n";
        for (lines, body) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", ""),
            ("Content-Length: 5\r\nContent-Length: 5\r\n\r\n", ""),
            ("Content-Length: 5\r\nContent-Length: 6\r\n\r\n", ""),
            ("Content-Length: +5\r\n\r\n", ""),
            ("Content-Length: 5, 5\r\n\r\n", ""),
            ("Content-Length: \r\n\r\n", ""),
            ("Transfer-Encoding: chunked, chunked\r\n\r\n", ""),
            ("Transfer-Encoding: gzip, chunked\r\n\r\n", ""),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
            ("X: a\r\n b\r\n\r\n", ""),
            ("X: a\n\r\n", ""),
            ("Transfer-Encoding: chunked\r\n\r\n", "5\nhello\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n\r\n", "\r\n"),
        ] {
            let text = format!("{head}{lines}{body}DELETE /smuggled HTTP/1.1\r\n\r\n");
            assert_eq!(flaw_of(&text), Some((1, Flaw::Ambiguous)), "{lines:?} {body:?}");
        }
        assert_eq!(flaw_of("GET / HTTP/1.1\nHost: a\n\n"), Some((1, Flaw::Ambiguous)));
    }

    #[test]
    fn plain_requests_pass_one_after_the_other() {
        let text = "\r\nPOST /a HTTP/1.1\r\nContent-Length: 5\r\nTe: trailers\r\n\r\nhello\
                    POST /b HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n\
                    GET /c HTTP/1.1\r\nX: a:b\r\n\r\n";
        assert_eq!(flaw_of(text), None);
        assert_eq!(flaw_of(&format!("{text}GET / HTTP/1.1\r\nX: a\r\n\tb\r\n\r\n")), Some((4, Flaw::Ambiguous)));
    }

    #[test]
    fn heads_are_bounded_in_lines_and_bytes() {
        let with = |lines: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(lines));
        assert_eq!(flaw_of(&with(HEADERS_MAX)), None);
        assert_eq!(flaw_of(&with(HEADERS_MAX + 1)), Some((1, Flaw::HeadersTooLarge)));
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(flaw_of(&long), Some((1, Flaw::HeadersTooLarge)));
    }

    #[test]
    fn mid_head_is_from_the_first_byte_to_the_empty_line() {
        let mut framing = Framing::new();
        assert!(!framing.mid_head());
        framing.observe(b"P");
        assert!(framing.mid_head());
        framing.observe(b"OST / HTTP/1.1\r\nContent-Length: 2\r\n");
        assert!(framing.mid_head());
        framing.observe(b"\r\n");
        assert!(!framing.mid_head());
        framing.observe(b"ok");
        assert!(!framing.mid_head());
    }
}
