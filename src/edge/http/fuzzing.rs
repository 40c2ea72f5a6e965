//! The edge without sockets, for the targets in `tests/fuzz`: the shipped connection over any stream, the header of a proxy,
//! and the cursor's codec.

use super::call::Link;
use super::connection::Connection;
use super::cursor::CursorQuery;
use super::edge::Edge;
use super::express::Express;
use super::http1::serve_with;
use super::proxy_protocol::{self, Client};
use super::registry::Registry;
use super::settings::HttpSettings;
use crate::domain::{ListingId, Source};
use crate::service::Service;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// An edge whose connections come from its caller.
pub struct Wire {
    edge: Arc<Edge>,
    registry: Arc<Registry>,
}

impl Wire {
    /// `settings.listen` and `settings.workers` are not looked at.
    ///
    /// # Errors
    /// Where TLS can't be set up.
    pub fn new(settings: HttpSettings, service: Arc<Service>) -> std::io::Result<Self> {
        let registry = Registry::new(settings.limits.connections, settings.limits.connections_per_source);
        Ok(Self { edge: Arc::new(Edge::new(settings, service)?), registry })
    }

    /// Serves one connection from `peer` until either side ends it. `is_short` opens the short way for plain browses and renewals.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: IpAddr, is_short: bool) {
        let connection = Arc::new(Connection::new(Instant::now()));
        let Ok(admission) = self.registry.admit(Arc::clone(&connection), Some(Source::of(peer))) else { return };
        let link = Link { connection, admission: Arc::new(admission), peer, confidential: true };
        let express = if is_short { Express::new(Arc::clone(&self.edge), peer, &link.connection) } else { None };
        serve_with(express, stream, Arc::clone(&self.edge), link, Arc::default()).await;
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.registry.open()
    }
}

/// Whom the PROXY header at the start of `bytes` speaks for (nobody but the proxy where there is no address), and how many
/// bytes it took; `None` for a header that is refused or cut off.
pub async fn proxy_header(bytes: &[u8]) -> Option<(Option<IpAddr>, usize)> {
    let mut rest = bytes;
    let client = match proxy_protocol::read(&mut rest).await.ok()?.ok()? {
        Client::Proxy => None,
        Client::At(address) => Some(address),
    };
    Some((client, bytes.len() - rest.len()))
}

/// The cursor of the page after `position`.
pub fn encode_cursor(tenant: &str, protocol: &str, position: ListingId) -> String {
    CursorQuery { tenant, protocol, filter: None }.encode(position)
}

/// The position in a cursor of this query; `None` for any other text.
pub fn decode_cursor(tenant: &str, protocol: &str, text: &str) -> Option<ListingId> {
    CursorQuery { tenant, protocol, filter: None }.decode(text)
}
