//! The PROXY protocol, version 2 (haproxy's `doc/proxy-protocol.txt`, section 2.2): whom a proxy speaks for, said in a few
//! bytes before everything else.
//!
//! Only version 2, and only where a listener is declared for it: version 1 is text, so it can be mistaken for a request and
//! a request for it.

use crate::domain::endpoint::fold;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What every header begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length of the rest.
const FIXED_BYTES: usize = 16;
/// Most bytes of the rest: addresses take 36, and what proxies add (names, certificates' subjects, checksums) some hundred.
const REST_BYTES_MAX: usize = 2 * 1024;

/// Whom the connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// For the proxy itself, for example its health check; or for somebody whom it can't name by an IP address.
    Proxy,
    /// For this client.
    At(IpAddr),
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The signature, the version or the command is another one.
    NotVersion2,
    /// It says a length that is longer than allowed, or too short for its addresses.
    Length,
    /// A transport that is no stream, or an unassigned family.
    Family,
}

/// The fixed part of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fixed {
    local: bool,
    family: Family,
    rest: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Unspecified,
    V4,
    V6,
    Unix,
}

impl Family {
    /// Bytes of both addresses and ports.
    fn address_bytes(self) -> usize {
        match self {
            Self::Unspecified => 0,
            Self::V4 => 12,
            Self::V6 => 36,
            Self::Unix => 216,
        }
    }
}

fn fixed(bytes: &[u8; FIXED_BYTES]) -> Result<Fixed, HeaderError> {
    let [.., command, family, high, low] = *bytes;
    if !bytes.starts_with(&SIGNATURE) || command >> 4 != 2 || command & 0x0F > 1 {
        return Err(HeaderError::NotVersion2);
    }
    let local = command & 0x0F == 0;
    let family = match family {
        // A proxy's own connection carries no addresses, whatever it says.
        _ if local => Family::Unspecified,
        0x00 => Family::Unspecified,
        0x11 => Family::V4,
        0x21 => Family::V6,
        0x31 => Family::Unix,
        _ => return Err(HeaderError::Family),
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    if rest > REST_BYTES_MAX || rest < family.address_bytes() {
        return Err(HeaderError::Length);
    }
    Ok(Fixed { local, family, rest })
}

/// The source's address; what follows the addresses (further fields) decides nothing here.
fn client(fixed: Fixed, rest: &[u8]) -> Result<Client, HeaderError> {
    let address: IpAddr = match fixed.family {
        Family::Unspecified | Family::Unix => return Ok(Client::Proxy),
        Family::V4 => rest.first_chunk::<4>().map(|source| Ipv4Addr::from(*source).into()),
        Family::V6 => rest.first_chunk::<16>().map(|source| Ipv6Addr::from(*source).into()),
    }
    .ok_or(HeaderError::Length)?;
    Ok(Client::At(fold(SocketAddr::new(address, 0)).ip()))
}

/// Reads one header, and not a byte of what follows it. Whoever calls has the deadline.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Client, HeaderError>> {
    let mut start = [0; FIXED_BYTES];
    stream.read_exact(&mut start).await?;
    let fixed = match fixed(&start) {
        Ok(fixed) => fixed,
        Err(error) => return Ok(Err(error)),
    };
    let mut rest = vec![0; fixed.rest];
    stream.read_exact(&mut rest).await?;
    Ok(client(fixed, &rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The outcome over these bytes, and how many of them were read; `None` when they end too early.
    fn outcome(bytes: &[u8]) -> (Option<Result<Client, HeaderError>>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut stream = bytes;
        let read = runtime.block_on(read(&mut stream));
        (read.ok(), bytes.len() - stream.len())
    }

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    fn told(address: &str) -> Option<Result<Client, HeaderError>> {
        Some(Ok(Client::At(address.parse().unwrap())))
    }

    #[test]
    fn addresses_are_the_sources_and_folded() {
        let v4 = [198, 51, 100, 7, 203, 0, 113, 1, 0x12, 0x34, 0, 80];
        assert_eq!(outcome(&header(0x21, 0x11, &v4)), (told("198.51.100.7"), 28));
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(outcome(&header(0x21, 0x21, &v6)).0, told("2001:db8::7"));
        v6[..16].copy_from_slice(&"::ffff:198.51.100.7".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(outcome(&header(0x21, 0x21, &v6)).0, told("198.51.100.7"));
        for (command, family, rest) in
            [(0x20, 0x11, &v4[..]), (0x20, 0xFF, &[]), (0x21, 0, &[1]), (0x21, 0x31, &[0; 216])]
        {
            assert_eq!(outcome(&header(command, family, rest)).0, Some(Ok(Client::Proxy)), "{command:x} {family:x}");
        }
    }

    #[test]
    fn lengths_are_bounded_on_both_sides() {
        for (family, least) in [(0x11, 12), (0x21, 36), (0x31, 216)] {
            assert_eq!(outcome(&header(0x21, family, &vec![0; least - 1])).0, Some(Err(HeaderError::Length)));
            assert!(outcome(&header(0x21, family, &vec![0; least])).0.unwrap().is_ok());
        }
        assert!(outcome(&header(0x21, 0x11, &[0; REST_BYTES_MAX])).0.unwrap().is_ok());
        let (long, read) = outcome(&header(0x21, 0x11, &[0; REST_BYTES_MAX + 1]));
        assert_eq!((long, read), (Some(Err(HeaderError::Length)), FIXED_BYTES), "not a byte of it is read");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn any_bytes_give_an_outcome_and_no_more_is_read_than_a_header(bytes in vec(any::<u8>(), 0..64)) {
            let (outcome, read) = outcome(&bytes);
            prop_assert!(read <= FIXED_BYTES + REST_BYTES_MAX);
            if bytes.len() >= FIXED_BYTES && !bytes.starts_with(&SIGNATURE) {
                prop_assert_eq!(outcome, Some(Err(HeaderError::NotVersion2)));
            }
        }

        #[test]
        fn what_is_after_a_header_is_left_alone(
            source in any::<[u8; 16]>(),
            is_v4 in any::<bool>(),
            fields in vec(any::<u8>(), 0..300),
            after in vec(any::<u8>(), 0..32),
        ) {
            let (family, address_bytes) = if is_v4 { (0x11, 12) } else { (0x21, 36) };
            let mut rest = vec![0; address_bytes];
            let source_bytes = if is_v4 { 4 } else { 16 };
            rest[..source_bytes].copy_from_slice(&source[..source_bytes]);
            rest.extend_from_slice(&fields);
            let header = header(0x21, family, &rest);
            let (outcome, read) = outcome(&[&header[..], &after].concat());
            prop_assert_eq!(read, header.len());
            let source: IpAddr = if is_v4 {
                Ipv4Addr::new(source[0], source[1], source[2], source[3]).into()
            } else {
                Ipv6Addr::from(source).into()
            };
            prop_assert_eq!(outcome, Some(Ok(Client::At(fold(SocketAddr::new(source, 0)).ip()))));
            for end in 0..header.len() {
                prop_assert_eq!(self::outcome(&header[..end]).0, None, "half a header");
            }
        }

        #[test]
        fn a_damaged_header_is_refused_or_says_the_same_length(at in 0..FIXED_BYTES, to in any::<u8>()) {
            let mut header = header(0x21, 0x11, &[7; 12]);
            header[at] = to;
            header.extend_from_slice(&[9; 40]);
            let (outcome, read) = outcome(&header);
            match outcome {
                Some(Ok(_)) => prop_assert_eq!(read, FIXED_BYTES + usize::from(header[15])),
                Some(Err(_)) => prop_assert_eq!(read, FIXED_BYTES),
                None => prop_assert!(at >= 14, "only a length can ask for more than there is"),
            }
        }
    }
}
