//! Private addresses of this machine, for peers behind the same NAT (rule H4): many NATs don't turn packets around.

use super::Port;
use crate::domain::{Candidates, Family};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;

impl Port {
    /// The private or unique-local addresses under which this port is reached from its own network, at most one per
    /// family: the one that the system uses towards `authority`, the server's `host:port`. Sends nothing.
    pub async fn private_addresses(&self, authority: &str) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        let Ok(servers) = tokio::net::lookup_host(authority).await else { return found };
        let servers: Vec<SocketAddr> = servers.collect();
        for family in Family::BOTH {
            let server = servers.iter().find(|server| server.is_ipv4() == (family == Family::V4));
            if let Some(address) = self.towards(family, server).await
                && Candidates::new([address]).is_ok()
            {
                found.push(address);
            }
        }
        found
    }

    async fn towards(&self, family: Family, server: Option<&SocketAddr>) -> Option<SocketAddr> {
        let unspecified: SocketAddr = match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let port = self.socket_for(unspecified)?.local_addr().ok()?.port();
        // Connecting a UDP socket only asks the routing table.
        let probe = UdpSocket::bind(unspecified).await.ok()?;
        probe.connect(server?).await.ok()?;
        Some(SocketAddr::new(probe.local_addr().ok()?.ip(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rule_h4_only_private_addresses_are_declared() {
        let port = Port::open().await.unwrap();
        assert_eq!(port.private_addresses("127.0.0.1:9").await, [], "loopback is nobody's network");
        assert_eq!(port.private_addresses("no such host").await, []);
    }
}
