//! `rendezvous`: a self-hosted session directory and NAT rendezvous for multiplayer games.
//!
//! Hosts register listings and prove presence by UDP, browsers page through a published snapshot, players are
//! introduced to hosts and punch through their NATs. Layers point down: `domain` and `stun` know nothing,
//! `state_machine` decides, `store` serialises and publishes, `service` is what an edge may call.
#![forbid(unsafe_code)]

pub mod clock;
pub mod domain;
pub mod state_machine;
pub mod store;
pub mod stun;
pub mod sync;

#[cfg(feature = "admission")]
pub mod admission;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(any(feature = "server", feature = "client"))]
pub mod credentials;
#[cfg(feature = "server")]
pub mod edge;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(any(feature = "server", feature = "client"))]
pub mod wire;

#[cfg(any(feature = "server", feature = "admission"))]
mod repeats;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod load;
