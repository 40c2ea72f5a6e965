//! Whom load may be put on: this machine, or a server that its operator has named twice.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tokio::net::lookup_host;

/// RFC 8489 section 18.6.
const STUN_PORT: u16 = 3478;

/// What was said about targets that are not this machine. Both are needed: one is a slip, two are a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permission {
    /// `--target-not-loopback`.
    pub(crate) not_loopback: bool,
    /// `--i-operate HOST`.
    pub(crate) operated: Option<String>,
}

/// Why nothing was sent.
#[derive(Debug)]
pub(crate) enum TargetError {
    /// The name doesn't resolve.
    Unresolved {
        /// As given.
        host: String,
        /// The resolver's word.
        error: std::io::Error,
    },
    /// Not this machine, and not named twice.
    NotPermitted {
        /// As given.
        host: String,
        /// The address that isn't loopback.
        address: IpAddr,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { host, error } => write!(f, "{host} doesn't resolve: {error}"),
            Self::NotPermitted { host, address } => write!(
                f,
                "expected a loopback address, {host} is {address}; load is an attack on a server that is not yours. If you \
                 operate it, say so twice: --target-not-loopback --i-operate {host}"
            ),
        }
    }
}

impl std::error::Error for TargetError {}

impl Permission {
    /// Refuses every address that is not loopback, unless `host` was named twice.
    fn check(&self, host: &str, addresses: &[SocketAddr]) -> Result<(), TargetError> {
        let named = self.not_loopback && self.operated.as_deref() == Some(host);
        let foreign = addresses.iter().map(|address| crate::domain::endpoint::fold(*address).ip());
        match foreign.into_iter().find(|ip| !ip.is_loopback()) {
            Some(address) if !named => Err(TargetError::NotPermitted { host: host.to_owned(), address }),
            Some(_) | None => Ok(()),
        }
    }
}

/// A permitted server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    permission: Permission,
    host: String,
    /// Where HTTP goes.
    pub(crate) http: SocketAddr,
}

impl Target {
    /// Resolves `authority` (`host:port`) and asks for permission.
    ///
    /// # Errors
    /// [`TargetError`]; nothing has been sent then.
    pub(crate) async fn permitted(authority: &str, permission: Permission) -> Result<Self, TargetError> {
        let host = host_of(authority).to_owned();
        let named = if has_port(authority) { authority.to_owned() } else { format!("{authority}:80") };
        let addresses = resolve(&host, &named).await?;
        permission.check(&host, &addresses)?;
        Ok(Self { permission, host, http: addresses[0] })
    }

    /// Where UDP goes: the first of the STUN URIs that the server named, if it is permitted too. An unspecified address means
    /// the host that HTTP uses.
    ///
    /// # Errors
    /// [`TargetError`]: a server may name any address.
    pub(crate) async fn stun(&self, uris: &[String]) -> Result<Option<SocketAddr>, TargetError> {
        let Some(rest) = uris.first().and_then(|uri| uri.strip_prefix("stun:")) else { return Ok(None) };
        let named = if has_port(rest) { rest.to_owned() } else { format!("{rest}:{STUN_PORT}") };
        let mut address = resolve(rest, &named).await?[0];
        if address.ip().is_unspecified() {
            address.set_ip(self.http.ip());
            return Ok(Some(address));
        }
        // The address of the permitted host, under its name or as a number.
        if address.ip() != self.http.ip() && host_of(rest) != self.host {
            self.permission.check(host_of(rest), &[address])?;
        }
        Ok(Some(address))
    }
}

/// Addresses of a name; never none.
async fn resolve(host: &str, named: &str) -> Result<Vec<SocketAddr>, TargetError> {
    let failed = |error| TargetError::Unresolved { host: host.to_owned(), error };
    let addresses: Vec<SocketAddr> = lookup_host(named).await.map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(std::io::Error::other("no address")));
    }
    Ok(addresses)
}

fn has_port(authority: &str) -> bool {
    let behind = authority.rsplit_once(':').map(|(_, port)| port);
    behind.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn host_of(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(host: &str) -> Permission {
        Permission { not_loopback: true, operated: Some(host.to_owned()) }
    }

    async fn is_permitted(authority: &str, permission: Permission) -> bool {
        Target::permitted(authority, permission).await.is_ok()
    }

    #[tokio::test]
    async fn only_this_machine_without_a_word() {
        for own in ["127.0.0.1:8080", "127.9.9.9:1", "[::1]:8080", "[::ffff:127.0.0.1]:1", "127.0.0.1"] {
            assert!(is_permitted(own, Permission::default()).await, "{own}");
        }
        for foreign in ["203.0.113.1:8080", "[2001:db8::1]:8080", "0.0.0.0:8080", "[::ffff:203.0.113.1]:1"] {
            let refused = Target::permitted(foreign, Permission::default()).await;
            assert!(matches!(refused, Err(TargetError::NotPermitted { .. })), "{foreign}");
        }
    }

    #[tokio::test]
    async fn one_word_is_not_enough_and_the_host_is_said_again() {
        let server = "203.0.113.1:8080";
        assert!(!is_permitted(server, Permission { not_loopback: true, operated: None }).await);
        assert!(!is_permitted(server, Permission { not_loopback: false, ..twice("203.0.113.1") }).await);
        assert!(!is_permitted(server, twice("203.0.113.2")).await);
        assert!(is_permitted(server, twice("203.0.113.1")).await);
        assert!(is_permitted("[2001:db8::1]:80", twice("2001:db8::1")).await);
    }

    #[tokio::test]
    async fn a_server_cannot_send_datagrams_elsewhere() {
        let target = Target::permitted("127.0.0.1:8080", Permission::default()).await.unwrap();
        let stun = |uri: &str| {
            let (target, uris) = (target.clone(), vec![uri.to_owned()]);
            async move { target.stun(&uris).await }
        };
        assert_eq!(stun("stun:127.0.0.1:4000").await.unwrap(), Some(([127, 0, 0, 1], 4000).into()));
        assert_eq!(stun("stun:0.0.0.0:4000").await.unwrap(), Some(([127, 0, 0, 1], 4000).into()));
        assert_eq!(stun("turn:127.0.0.1:4000").await.unwrap(), None);
        assert!(matches!(stun("stun:203.0.113.9:3478").await, Err(TargetError::NotPermitted { .. })));
    }
}
