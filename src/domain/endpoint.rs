//! Endpoints as the server observed them, and the candidates that players may declare.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4, mapped IPv6 addresses included.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families, in the order in which peers try them: IPv6 first.
    pub const BOTH: [Self; 2] = [Self::V6, Self::V4];

    /// Position in a two-element table.
    pub fn index(self) -> usize {
        match self {
            Self::V4 => 0,
            Self::V6 => 1,
        }
    }

    /// `ipv4` or `ipv6`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

/// One side of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side that owns the listing.
    Host,
    /// The side that asked to join.
    Joiner,
}

impl Role {
    /// The other side.
    pub fn other(self) -> Self {
        match self {
            Self::Host => Self::Joiner,
            Self::Joiner => Self::Host,
        }
    }

    /// Position in a two-element table.
    pub fn index(self) -> usize {
        match self {
            Self::Host => 0,
            Self::Joiner => 1,
        }
    }
}

/// Folds an IPv4-mapped IPv6 address to IPv4 and drops zone and flow label.
pub fn fold(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => SocketAddr::new(IpAddr::V6(*v6.ip()), v6.port()),
        },
    }
}

/// A unicast transport address, folded, with a port: something that can be bound and introduced. No IPv6 link-local one: it
/// means something together with a zone only, which is the name of an interface of one machine (RFC 4007 section 11.2), so
/// nobody else can be told of it.
///
/// Kept in 18 bytes instead of the 32 of a [`SocketAddr`]: IPv4 addresses as mapped ones, without zone and flow label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    ip: [u8; 16],
    port: NonZeroU16,
}

impl Endpoint {
    /// Folds `address` and refuses what no peer can have: port 0, unspecified, multicast, broadcast and IPv6
    /// link-local addresses.
    pub fn new(address: SocketAddr) -> Option<Self> {
        let (refused, ip) = match fold(address).ip() {
            IpAddr::V4(ip) => {
                (ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast(), ip.to_ipv6_mapped().octets())
            }
            IpAddr::V6(ip) => (ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local(), ip.octets()),
        };
        let port = NonZeroU16::new(address.port())?;
        (!refused).then_some(Self { ip, port })
    }

    /// The folded address.
    pub fn address(self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::from(self.ip).to_canonical(), self.port.get())
    }

    /// The family of the folded address.
    pub fn family(self) -> Family {
        if Ipv6Addr::from(self.ip).to_ipv4_mapped().is_some() { Family::V4 } else { Family::V6 }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.address())
    }
}

/// The most candidates that either side may declare (rule H4).
pub const CANDIDATES_MAX: usize = 4;

/// At most four private or unique-local transport addresses that one side declared for peers behind the same NAT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates(Vec<SocketAddr>);

/// Why a list of candidates was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateError {
    /// More than [`CANDIDATES_MAX`].
    TooMany,
    /// The one at this position is not private or unique-local.
    NotPrivate(usize),
    /// The one at this position has a port below 1024.
    Port(usize),
}

impl Candidates {
    /// Checks number, range and port of the declared addresses, after folding.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, CandidateError> {
        let mut kept = Vec::new();
        for (position, address) in addresses.into_iter().enumerate() {
            if position >= CANDIDATES_MAX {
                return Err(CandidateError::TooMany);
            }
            let address = fold(address);
            let private = match address.ip() {
                IpAddr::V4(ip) => ip.is_private(),
                IpAddr::V6(ip) => is_unique_local(ip),
            };
            if !private {
                return Err(CandidateError::NotPrivate(position));
            }
            if address.port() < 1024 {
                return Err(CandidateError::Port(position));
            }
            if !kept.contains(&address) {
                kept.push(address);
            }
        }
        Ok(Self(kept))
    }

    /// The declared addresses.
    pub fn as_slice(&self) -> &[SocketAddr] {
        &self.0
    }
}

fn is_unique_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xFE00 == 0xFC00
}

/// Where unproven or guest work comes from: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// One IPv4 address.
    V4(u32),
    /// The upper 64 bits of an IPv6 address.
    V6(u64),
}

impl Source {
    /// The source prefix of an address, after folding.
    pub fn of(ip: IpAddr) -> Self {
        match fold(SocketAddr::new(ip, 1)).ip() {
            IpAddr::V4(ip) => Self::V4(ip.to_bits()),
            IpAddr::V6(ip) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_p7_mapped_addresses_fold() {
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:4000".parse().unwrap();
        let endpoint = Endpoint::new(mapped).unwrap();
        assert_eq!((endpoint.family(), endpoint.address().to_string()), (Family::V4, "192.0.2.7:4000".into()));
        assert_eq!(Source::of(mapped.ip()), Source::of("192.0.2.7".parse().unwrap()));
    }

    #[test]
    fn endpoints_are_kept_whole() {
        assert_eq!(size_of::<Option<Endpoint>>(), 18);
        for text in ["192.0.2.7:4000", "[2001:db8::1]:65535", "[::1]:1", "[fec0::1]:9", "127.0.0.1:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let endpoint = Endpoint::new(address).unwrap();
            assert_eq!((endpoint.address(), endpoint.family() == Family::V4), (address, address.is_ipv4()));
        }
    }

    #[test]
    fn only_unicast_endpoints_with_a_port() {
        for bad in ["0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1", "[::]:1", "[ff02::1]:1", "192.0.2.1:0"] {
            assert_eq!(Endpoint::new(bad.parse().unwrap()), None, "{bad}");
        }
        for link_local in ["[fe80::1]:9", "[fe80::1%3]:9", "[febf:ffff::1]:9"] {
            assert_eq!(Endpoint::new(link_local.parse().unwrap()), None, "{link_local}: whose link?");
        }
    }

    #[test]
    fn rule_h4_candidates_are_private_and_few() {
        let parse = |list: &[&str]| Candidates::new(list.iter().map(|a| a.parse().unwrap()));
        assert!(parse(&["192.168.1.7:5000", "10.0.0.1:1024", "172.16.0.1:2000", "[fd00::1]:5000"]).is_ok());
        assert_eq!(parse(&["203.0.113.1:5000"]), Err(CandidateError::NotPrivate(0)));
        assert_eq!(parse(&["10.0.0.1:5000", "127.0.0.1:5000"]), Err(CandidateError::NotPrivate(1)));
        assert_eq!(parse(&["10.0.0.1:1023"]), Err(CandidateError::Port(0)));
        assert_eq!(parse(&["10.0.0.1:5000"; 5]), Err(CandidateError::TooMany));
        assert_eq!(parse(&["[::ffff:8.8.8.8]:5000"]), Err(CandidateError::NotPrivate(0)));
    }
}
