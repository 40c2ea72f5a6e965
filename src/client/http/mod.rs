//! The HTTP half: typed calls over one kept-alive connection pool.
//!
//! [`Directory`] is what players, hosts of games and back ends ask, [`CommandHost`] what a host of the command plane does.
//! Plain HTTP only; put the server behind a TLS proxy on the same host, or use a client with TLS, where the way is not trusted.

mod calls;
mod health;
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
pub use health::ServerHealth;
pub use host_types::*;
pub use hosts::CommandHost;
pub use session_types::*;
pub use types::*;

use super::error::Error;
use crate::credentials::Secret;
use hyper::header::HeaderName;
use std::time::Duration;
use transport::{Answer, Call, INSTANCE, Transport, encode};

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

    /// The same directory with a guest's token, unless it carries one. Asks again when no answer comes: a guest of whom
    /// nobody heard costs nothing.
    ///
    /// # Errors
    /// As [`Directory::guest`].
    pub async fn or_guest(self) -> Result<Self, Error> {
        if self.has_token() {
            return Ok(self);
        }
        let guest = persistently(|| self.guest()).await?;
        Ok(self.with_token(guest.token))
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

/// Tries of a call on which a player waits, when no answer comes: at 30 % loss one connection in twenty fails.
const TRIES_MAX: u32 = 3;
/// Pause between them.
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// Makes a call again when it got no answer. Whether it happened is unknown then, so it has to be one that may be repeated.
pub(in crate::client) async fn persistently<T, F: Future<Output = Result<T, Error>>>(
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(Error::Unreachable { .. } | Error::Timeout { .. }) if tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(TRY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}
