//! The HTTP edge: bytes in, service calls, bytes out (`docs/http-protocol.md`).
//!
//! [`HttpServer::bind`] takes the port, [`HttpServer::run`] serves until [`HttpHandle::shutdown`]. A request goes through
//! `edge` (routing, what every answer carries), `call` (who may) and `handlers` (one function for each endpoint).
//! Connections are hyper's, under the deadlines of `io`, the ceilings of `connection` and the second look of `framing`.

mod answer;
mod auth;
mod body;
mod call;
mod connection;
mod cors;
mod cursor;
mod edge;
mod express;
mod forwarded;
mod framing;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod headers;
mod io;
mod limiter;
mod listener;
mod metrics;
mod metrics_server;
mod openapi;
mod problem;
mod query;
mod raw;
mod routes;
mod settings;
mod tracked;
mod workers;

pub use auth::guest::GUEST_PREFIX;
pub use auth::jwt::{JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier};
pub use forwarded::{Cidr, CidrError};
pub use listener::{HttpHandle, HttpServer};
pub use metrics_server::MetricsServer;
pub use openapi::openapi_json;
pub use settings::{
    BrowsePolicy, Cors, HttpLimits, HttpSettings, KeyFingerprint, MetricsText, Rate, Rates, TenantSettings,
};
