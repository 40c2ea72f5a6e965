//! The HTTP edge: bytes in, service calls, bytes out (`docs/http-protocol.md`).
//!
//! [`HttpServer::bind`] takes the port, [`HttpServer::run`] serves until [`HttpHandle::shutdown`]. A request goes through
//! `edge` (routing, what every answer carries), `call` (who may) and `handlers` (one function for each endpoint).
//! A connection comes in through `entry` (whom a proxy speaks for, TLS) and is hyper's from then on: `http1` under the
//! deadlines of `io` and the second look of `framing`, `http2` under a watch of its own, both under the ceilings of `registry`.

mod answer;
mod auth;
mod body;
mod call;
mod commands;
mod compress;
mod connection;
mod cors;
mod cursor;
mod edge;
mod entry;
mod express;
mod forwarded;
mod framing;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod headers;
mod http1;
mod http2;
mod io;
mod limiter;
mod listener;
mod metrics;
mod metrics_server;
mod openapi;
mod page;
mod problem;
mod proxy_protocol;
mod query;
mod raw;
mod registry;
mod routes;
mod settings;
mod tls;
mod tracked;
mod workers;

pub use auth::guest::GUEST_PREFIX;
pub use auth::host::{HOST_PREFIX, HostCredential};
pub use auth::jwt::{JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier};
pub use cors::is_origin;
pub use forwarded::{Cidr, CidrError};
pub use listener::{HttpHandle, HttpServer};
pub use metrics_server::MetricsServer;
pub use openapi::openapi_json;
pub use settings::{
    BrowsePolicy, CommandSettings, Cors, HttpLimits, HttpSettings, KeyFingerprint, MetricsText, Rate, Rates,
    TenantSettings,
};
pub use tls::{Certificate, CertificateError, Certificates, TlsSettings};
