//! Composition of the whole server: clock, keys, store, service, edges, metrics; and its life from start to drain.

mod certificates;
mod commands;
mod compose;
mod descriptors;
mod lifecycle;
mod stun_uris;
#[cfg(test)]
mod tests;
mod ticker;

pub use compose::StartError;
pub use descriptors::raise_descriptor_limit;
pub use lifecycle::{Exit, Signals};

use crate::domain::InstanceId;
use crate::edge::http::{HttpHandle, MetricsText};
use crate::edge::udp::LocalAddrs;
use crate::service::Service;
use crate::service::commands::CommandPlane;
use commands::RunningPlane;
use std::net::SocketAddr;
use std::sync::Arc;
use ticker::Ticker;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A running server. Dropping it stops everything without drain.
pub struct Server {
    service: Arc<Service>,
    addresses: Addresses,
    http: HttpHandle,
    metrics: MetricsText,
    stop_udp: oneshot::Sender<()>,
    /// The loops of the HTTP and UDP edges: they end only when they are told to.
    edges: JoinSet<()>,
    ticker: Ticker,
    /// The command plane, where there is one. Ends after the edges, which ask it.
    commands: Option<RunningPlane>,
    /// Metrics listener, gauges and the watch over certificates.
    upkeep: JoinSet<()>,
}

/// Where the server listens, ports chosen by the system included.
#[derive(Clone, Debug)]
struct Addresses {
    http: SocketAddr,
    udp: LocalAddrs,
    metrics: Option<SocketAddr>,
}

impl Server {
    /// The HTTP listener's address.
    pub fn http_addr(&self) -> SocketAddr {
        self.addresses.http
    }

    /// The first plain UDP listener's address.
    pub fn udp_addr(&self) -> Option<SocketAddr> {
        self.addresses.udp.plain.first().copied()
    }

    /// The first challenging UDP listener's address.
    pub fn udp_auth_addr(&self) -> Option<SocketAddr> {
        self.addresses.udp.auth.first().copied()
    }

    /// The metrics listener's address.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.addresses.metrics
    }

    /// This life of the process.
    pub fn instance(&self) -> InstanceId {
        self.service.instance()
    }

    /// The service, for embedding.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The command plane, for embedding; `None` when it is off.
    pub fn commands(&self) -> Option<&Arc<CommandPlane>> {
        self.commands.as_ref().map(|running| &running.plane)
    }

    /// What `GET /metrics` answers.
    pub fn metrics_text(&self) -> String {
        (self.metrics)()
    }

    /// `ready http=<addr> [udp=<addr>] [udp_auth=<addr>] [metrics=<addr>] instance=<id>`
    pub fn ready_line(&self) -> String {
        let optional = [("udp", self.udp_addr()), ("udp_auth", self.udp_auth_addr()), ("metrics", self.metrics_addr())];
        let optional: String =
            optional.iter().filter_map(|(name, address)| address.map(|address| format!(" {name}={address}"))).collect();
        format!("ready http={}{optional} instance={}", self.http_addr(), self.instance())
    }
}
