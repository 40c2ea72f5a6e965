//! STUN URIs (RFC 7064) to addresses.

use super::port::Families;
use crate::client::error::Error;
use crate::domain::endpoint::fold;
use std::net::{IpAddr, SocketAddr};

/// RFC 8489 section 18.6.
const STUN_PORT: u16 = 3478;
/// URIs looked at: two listeners per family, and then some.
const URIS_MAX: usize = 8;
/// Relays asked in turn: each may take ten seconds to stay silent.
const RELAYS_MAX: usize = 3;

/// The addresses of `uris` that `families` can reach, the first of each family first.
///
/// An unspecified address (a server that listens everywhere and wasn't told its name) means the host that HTTP uses.
pub(super) async fn servers(uris: &[String], authority: &str, families: Families) -> Result<Vec<SocketAddr>, Error> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in all(uris, authority).await.into_iter().filter(|address| families.reach(*address)) {
        if found.iter().all(|known| known.is_ipv4() != address.is_ipv4()) {
            found.push(address);
        }
    }
    if found.is_empty() { Err(Error::NoUdp { offered: uris.to_vec() }) } else { Ok(found) }
}

/// All addresses of `uris`, each once, in the order given.
pub(super) async fn all(uris: &[String], authority: &str) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for (host, udp_port) in uris.iter().take(URIS_MAX).filter_map(|uri| split(uri)) {
        let unspecified = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        let host = if unspecified { http_host(authority) } else { host };
        let Ok(addresses) = tokio::net::lookup_host((host, udp_port)).await else { continue };
        for address in addresses.map(fold) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
    }
    found
}

/// The addresses of `turn:` URIs (RFC 7065) that `families` can reach over UDP, in the order given and at most
/// [`RELAYS_MAX`]. `turns:` and `?transport=tcp` are for clients that speak those.
pub(super) async fn relays(uris: &[String], families: Families) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for (host, port) in uris.iter().take(URIS_MAX).filter_map(|uri| split_turn(uri)) {
        let Ok(addresses) = tokio::net::lookup_host((host, port)).await else { continue };
        for address in addresses.map(fold).filter(|address| families.reach(*address)) {
            if found.len() < RELAYS_MAX && !found.contains(&address) {
                found.push(address);
            }
        }
    }
    found
}

/// `turn:host[:port][?transport=udp]` to its parts.
fn split_turn(uri: &str) -> Option<(&str, u16)> {
    let rest = uri.strip_prefix("turn:")?;
    match rest.split_once('?') {
        None | Some((_, "transport=udp")) => host_and_port(rest.split('?').next()?),
        Some(_) => None,
    }
}

/// `stun:host[:port]` to its parts, brackets of IPv6 removed.
fn split(uri: &str) -> Option<(&str, u16)> {
    host_and_port(uri.strip_prefix("stun:")?)
}

fn host_and_port(rest: &str) -> Option<(&str, u16)> {
    if let Some(rest) = rest.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return Some((host, if rest.is_empty() { STUN_PORT } else { rest.strip_prefix(':')?.parse().ok()? }));
    }
    match rest.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((rest, STUN_PORT)),
    }
}

fn http_host(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_every_shape() {
        assert_eq!(split("stun:203.0.113.1:3479"), Some(("203.0.113.1", 3479)));
        assert_eq!(split("stun:[2001:db8::1]:3478"), Some(("2001:db8::1", 3478)));
        assert_eq!(split("stun:[2001:db8::1]"), Some(("2001:db8::1", 3478)));
        assert_eq!(split("stun:play.example"), Some(("play.example", 3478)));
        for bad in ["turn:203.0.113.1:3478", "stun:203.0.113.1:x", "stun:[::1", "stun:[::1]3478", ""] {
            assert_eq!(split(bad), None, "{bad}");
        }
        assert_eq!(http_host("[::1]:8080"), "::1");
        assert_eq!(http_host("play.example:8080"), "play.example");
        assert_eq!(http_host("play.example"), "play.example");
    }

    #[tokio::test]
    async fn relays_are_those_that_speak_udp_here() {
        let uris = [
            "turns:127.0.0.1:5349",
            "turn:127.0.0.1:3478?transport=tcp",
            "turn:127.0.0.1?transport=udp",
            "turn:127.0.0.2:4000",
            "turn:[::1]:4001",
            "turn:127.0.0.2:4000?transport=udp",
        ]
        .map(str::to_owned);
        let found = relays(&uris, Families { v4: true, v6: true }).await;
        assert_eq!(found, ["127.0.0.1:3478", "127.0.0.2:4000", "[::1]:4001"].map(|text| text.parse().unwrap()));
        let found = relays(&uris, Families { v4: false, v6: true }).await;
        assert_eq!(found, ["[::1]:4001".parse().unwrap()]);
    }

    #[tokio::test]
    async fn an_unspecified_address_means_the_host_of_http() {
        let uris = ["stun:0.0.0.0:4000".to_owned(), "stun:127.0.0.9:4001".to_owned()];
        let found = servers(&uris, "127.0.0.1:8080", Families { v4: true, v6: true }).await.unwrap();
        assert_eq!(found, ["127.0.0.1:4000".parse().unwrap()]);
        let none = servers(&["stun:no-port:x".to_owned()], "127.0.0.1:8080", Families { v4: true, v6: true }).await;
        assert!(matches!(none, Err(Error::NoUdp { .. })), "{none:?}");
    }
}
