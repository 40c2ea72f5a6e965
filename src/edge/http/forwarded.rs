//! Who the client is when a proxy stands between (case X9).

use crate::domain::endpoint::fold;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A range of addresses, for example `10.0.0.0/8`, `fd00::/8` or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// A range that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CidrError(String);

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address range: expected an IP address, or one with /prefix", self.0)
    }
}

impl std::error::Error for CidrError {}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let refused = || CidrError(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let network: IpAddr = address.parse().map_err(|_| refused())?;
        let max = if network.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(max), |prefix| prefix.parse::<u8>().map_err(|_| refused()))?;
        match network {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Self::mapped(v6, prefix).ok_or_else(refused),
            IpAddr::V4(_) | IpAddr::V6(_) if prefix > max => Err(refused()),
            IpAddr::V4(_) | IpAddr::V6(_) => Ok(Self { network, prefix }),
        }
    }
}

/// Bits before the IPv4 address in a mapped one (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u8 = 96;

impl Cidr {
    /// A range of mapped addresses is one of IPv4 addresses; one that is wider than all of them is a mistake.
    fn mapped(network: Ipv6Addr, prefix: u8) -> Option<Self> {
        let prefix = prefix.checked_sub(MAPPED_BITS).filter(|prefix| *prefix <= 32)?;
        Some(Self { network: network.to_canonical(), prefix })
    }

    /// Whether the address lies in the range. IPv4-mapped addresses are IPv4 addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, folded(address)) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn folded(address: IpAddr) -> IpAddr {
    fold(SocketAddr::new(address, 0)).ip()
}

/// The client's address: the peer's own, unless the peer is a trusted proxy. Then the right-most hop of
/// `X-Forwarded-For` that is not itself a trusted proxy; what stands left of it anybody may have written.
/// Reading stops at a hop that is not an address, and the hop right of it counts.
pub(super) fn client_address<'h>(
    peer: IpAddr,
    forwarded_for: impl DoubleEndedIterator<Item = &'h str>,
    trusted: &[Cidr],
) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let mut client = folded(peer);
    let mut hops = forwarded_for.rev().flat_map(|line| line.rsplit(','));
    while is_trusted(client) {
        let Some(hop) = hops.next().and_then(|hop| parse_hop(hop.trim())) else { break };
        client = hop;
    }
    client
}

/// An address, as proxies write it: alone, with a port, or IPv6 in brackets.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(|| with_port().ok()).or_else(bracketed).map(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str], trusted: &[&str]) -> String {
        let trusted: Vec<Cidr> = trusted.iter().map(|range| range.parse().unwrap()).collect();
        client_address(peer.parse().unwrap(), lines.iter().copied(), &trusted).to_string()
    }

    #[test]
    fn case_x9_forwarded_for_counts_only_from_trusted_proxies() {
        assert_eq!(client("192.0.2.1", &["198.51.100.9"], &[]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["198.51.100.9"], &["10.0.0.0/8"]), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.9"], &["10.0.0.0/8"]), "198.51.100.9");
        assert_eq!(
            client("10.0.0.1", &["203.0.113.66, 198.51.100.9"], &["10.0.0.0/8"]),
            "198.51.100.9",
            "spoofed, real"
        );
        assert_eq!(client("10.0.0.1", &["203.0.113.66", "198.51.100.9"], &["10.0.0.0/8"]), "198.51.100.9");
        assert_eq!(client("10.0.0.1", &["198.51.100.9, 10.0.0.2"], &["10.0.0.0/8"]), "198.51.100.9");
        assert_eq!(client("::ffff:10.0.0.1", &["198.51.100.9:4711"], &["10.0.0.0/8"]), "198.51.100.9");
        assert_eq!(client("10.0.0.1", &["[2001:db8::7]:80"], &["10.0.0.0/8"]), "2001:db8::7");
    }

    #[test]
    fn case_x9_nonsense_falls_back_to_the_nearest_known_hop() {
        assert_eq!(client("10.0.0.1", &[], &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.9, unknown"], &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.9,, 10.0.0.2"], &["10.0.0.0/8"]), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &["10.0.0.3"], &["10.0.0.0/8"]), "10.0.0.3");
    }

    #[test]
    fn case_p7_a_range_of_mapped_addresses_is_one_of_ipv4() {
        for (mapped, plain) in
            [("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::ffff:10.0.0.1", "10.0.0.1"), ("::ffff:0:0/96", "0.0.0.0/0")]
        {
            assert_eq!(mapped.parse::<Cidr>(), plain.parse(), "{mapped}");
        }
        assert_eq!(client("10.0.0.1", &["198.51.100.9"], &["::ffff:10.0.0.0/104"]), "198.51.100.9");
    }

    #[test]
    fn ranges_are_read_strictly() {
        let malformed = ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/x", "host"];
        for bad in malformed.into_iter().chain(["::ffff:10.0.0.0/8", "::ffff:10.0.0.0/95", "::ffff:10.0.0.0/129"]) {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        let all: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("203.0.113.1".parse().unwrap()) && !all.contains("2001:db8::1".parse().unwrap()));
        let one: Cidr = "2001:db8::1".parse().unwrap();
        assert!(one.contains("2001:db8::1".parse().unwrap()) && !one.contains("2001:db8::2".parse().unwrap()));
    }
}
