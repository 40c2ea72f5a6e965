//! Which STUN URIs clients are told.

use crate::edge::udp::LocalAddrs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// As configured, or one for each UDP listener, plain ones first.
pub(super) fn stun_uris(configured: &[String], addresses: &LocalAddrs) -> Vec<String> {
    if !configured.is_empty() {
        return configured.to_vec();
    }
    addresses.plain.iter().chain(&addresses.auth).map(|address| format!("stun:{}", reachable(*address))).collect()
}

/// A wildcard is no address that a client could send to: the address from which this machine reaches others stands in.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let ip = outbound(address.ip()).unwrap_or(match address.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    });
    tracing::warn!(
        event = "wildcard_listener",
        listener = %address,
        advertised = %ip,
        "set server.stun to the addresses that clients can reach"
    );
    SocketAddr::new(ip, address.port())
}

/// The source address that the system would choose; connecting a UDP socket sends nothing.
fn outbound(wildcard: IpAddr) -> Option<IpAddr> {
    // Documentation addresses (RFC 5737, RFC 3849): any address outside of this network does.
    let far: IpAddr = match wildcard {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((wildcard, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_is_told_and_no_wildcard() {
        let plain = vec!["127.0.0.1:3478".parse().unwrap(), "[::1]:3478".parse().unwrap()];
        let addresses = LocalAddrs { plain, auth: vec!["0.0.0.0:3479".parse().unwrap()] };
        let uris = stun_uris(&[], &addresses);
        assert_eq!(uris[..2], ["stun:127.0.0.1:3478", "stun:[::1]:3478"]);
        assert!(uris[2].ends_with(":3479") && !uris[2].contains("0.0.0.0"), "{uris:?}");
        let configured = ["stun:203.0.113.1:3478".to_owned()];
        assert_eq!(stun_uris(&configured, &addresses), configured);
    }
}
