//! Which STUN URIs clients are told.

use crate::edge::udp::LocalAddrs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// As configured, or one for each UDP listener, plain ones first. A wildcard is no address that a client could send to: the
/// address from which this machine reaches others stands in. A family in which it reaches nobody is left out, unless that
/// leaves nothing.
pub(super) fn stun_uris(configured: &[String], addresses: &LocalAddrs) -> Vec<String> {
    if !configured.is_empty() {
        return configured.to_vec();
    }
    let listeners = || addresses.plain.iter().chain(&addresses.auth).copied();
    let uris: Vec<String> = listeners().filter_map(|listener| reachable(listener, outbound)).map(uri).collect();
    if uris.is_empty() { listeners().map(on_this_machine).map(uri).collect() } else { uris }
}

fn uri(address: SocketAddr) -> String {
    format!("stun:{address}")
}

fn reachable(listener: SocketAddr, outbound: impl Fn(IpAddr) -> Option<IpAddr>) -> Option<SocketAddr> {
    if !listener.ip().is_unspecified() {
        return Some(listener);
    }
    let advertised = outbound(listener.ip()).map(|ip| SocketAddr::new(ip, listener.port()));
    tracing::warn!(
        event = "wildcard_listener",
        listener = %listener,
        advertised = advertised.map(|address| address.to_string()).as_deref().unwrap_or("nothing"),
        "set server.stun to the addresses that clients can reach"
    );
    advertised
}

/// Where a wildcard listener is found by clients that run beside it.
fn on_this_machine(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listener.port())
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

    #[test]
    fn a_family_that_reaches_nobody_is_not_told() {
        let v4_only = |ip: IpAddr| ip.is_ipv4().then(|| Ipv4Addr::new(203, 0, 113, 5).into());
        let told = |listener: &str| reachable(listener.parse().unwrap(), v4_only);
        assert_eq!(told("[::]:3478"), None);
        assert_eq!(told("0.0.0.0:3478"), Some("203.0.113.5:3478".parse().unwrap()));
        assert_eq!(told("[2001:db8::5]:3478"), Some("[2001:db8::5]:3478".parse().unwrap()), "it was named");
        assert_eq!(on_this_machine("[::]:3478".parse().unwrap()), "[::1]:3478".parse().unwrap());
    }
}
