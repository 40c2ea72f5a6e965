//! The HTTP half: typed calls over one kept-alive connection pool.
//!
//! [`Directory`] is what players, hosts of games and back ends ask, [`CommandHost`] what a host of the command plane does.
//! Plain HTTP only; put the server behind a TLS proxy on the same host, or use a client with TLS, where the way is not trusted.

mod calls;
mod host_types;
mod hosts;
mod problem;
mod session_types;
mod sessions;
mod transport;
mod types;

#[cfg(test)]
mod tests;

pub use calls::{BrowseQuery, Browsed};
pub use host_types::*;
pub use hosts::CommandHost;
pub use session_types::*;
pub use types::*;

use super::error::Error;
use crate::credentials::Secret;
use hyper::header::HeaderName;
use transport::{Answer, Call, Transport, encode};

const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// One tenant's directory on one server. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Directory {
    transport: Transport,
    tenant: String,
}

impl Directory {
    /// A client of `server`, for example `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// [`Error::ServerUrl`] for anything that isn't plain HTTP with a host, or for a tenant that can't be part of a path.
    pub fn new(server: &str, tenant: &str) -> Result<Self, Error> {
        let transport = Transport::new(server)?;
        if tenant.is_empty() {
            return Err(Error::ServerUrl { given: tenant.to_owned(), expected: "a tenant's name" });
        }
        Ok(Self { transport, tenant: encode(tenant) })
    }

    /// The same directory with a bearer token: a guest's, or a JWT of the tenant.
    pub fn with_token(mut self, token: Secret) -> Self {
        self.transport.token = Some(token);
        self
    }

    /// The same directory without a token.
    pub fn without_token(mut self) -> Self {
        self.transport.token = None;
        self
    }

    /// Whether calls carry a token.
    pub fn has_token(&self) -> bool {
        self.transport.token.is_some()
    }

    /// The server's `host:port`.
    pub fn authority(&self) -> &str {
        &self.transport.authority
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer, Error> {
        self.transport.send(&format!("/v1/tenants/{}", self.tenant), call).await
    }
}
