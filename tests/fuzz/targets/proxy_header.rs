//! The header of the PROXY protocol, version 2: whom it speaks for and where it ends is what a reading of haproxy's document,
//! written for this target alone, says of the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rendezvous::edge::http::fuzzing::proxy_header;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The server's own bound of what follows the first sixteen bytes.
const REST_MAX: usize = 2_048;

fuzz_target!(|data: &[u8]| {
    let read = pin!(proxy_header(data)).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(read) = read else { panic!("everything is there") };
    assert_eq!(read, expected(data));
});

/// Section 2.2 of the document, byte by byte.
fn expected(data: &[u8]) -> Option<(Option<IpAddr>, usize)> {
    let rest = data.strip_prefix(b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A")?;
    let (&[command, family, high, low], rest) = rest.split_first_chunk::<4>()?;
    let length = usize::from(high) << 8 | usize::from(low);
    let rest = rest.get(..length).filter(|_| length <= REST_MAX)?;
    let client = match (command, family) {
        // For itself, for whatever else it says.
        (0x20, _) => None,
        (0x21, 0x00) => None,
        // Source, destination and both ports.
        (0x21, 0x11) if length >= 12 => Some(IpAddr::from(*rest.first_chunk::<4>()?)),
        (0x21, 0x21) if length >= 36 => Some(Ipv6Addr::from(*rest.first_chunk::<16>()?).to_canonical()),
        // Two paths of 108 bytes.
        (0x21, 0x31) if length >= 216 => None,
        _ => return None,
    };
    Some((client, 16 + length))
}
