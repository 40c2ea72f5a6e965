//! The command plane, as a host asks for it: one method per route.

use super::host_types::{Completion, Held, HostView, HostWork, SessionLease};
use super::session_types::{CommandView, SessionId};
use super::transport::{Body, encode_body};
use super::{Call, Directory, Transport, encode};
use crate::client::error::Error;
use crate::credentials::Secret;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Longest stored content, with room for a server that allows more than its default of 8 MiB.
const CONTENT_BYTES_MAX: usize = 16 << 20;
/// A server's answer has 1 MiB of payloads, each byte of which may take six in JSON, and up to 2,048 commands around them.
const WORK_BYTES_MAX: usize = 16 << 20;

/// One host of the command plane on one server. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct CommandHost {
    transport: Transport,
    host: String,
}

#[derive(Deserialize)]
struct Work {
    work: Vec<HostWork>,
}

impl CommandHost {
    /// Host `host` at `server`, with a host's credential.
    ///
    /// # Errors
    /// [`Error::ServerUrl`] for anything that isn't plain HTTP with a host.
    pub fn new(server: &str, host: &str, credential: Secret) -> Result<Self, Error> {
        let mut transport = Transport::new(server)?;
        transport.token = Some(credential);
        Ok(Self { transport, host: host.to_owned() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.host
    }

    /// The server's `host:port`.
    pub fn authority(&self) -> &str {
        &self.transport.authority
    }

    /// The directory of a tenant that the credential serves: there the host lists the sessions that it runs.
    pub fn directory(&self, tenant: &str) -> Directory {
        Directory { transport: self.transport.clone(), tenant: encode(tenant) }
    }

    /// Registers, or says that it is still there.
    pub async fn register(&self, target_key: &str, capacity: u32) -> Result<HostView, Error> {
        let body = encode_body("PUT host", &json!({ "target_key": target_key, "capacity": capacity }))?;
        let call = Call::put(format!("/{}", encode(&self.host)), Body::Json(body));
        self.transport.send("/v1/hosts", call).await?.json("PUT host")
    }

    /// What there is to do, as a long poll of at most `wait` (30 s).
    pub async fn work(&self, wait: Duration) -> Result<Vec<HostWork>, Error> {
        let path = format!("/{}/work?wait_ms={}", encode(&self.host), wait.as_millis());
        let mut call = Call::get(path).waiting(wait);
        call.answer_max = WORK_BYTES_MAX;
        let answer = self.transport.send("/v1/hosts", call).await?;
        answer.json("GET work").map(|work: Work| work.work)
    }

    /// Acquires a session's lease under a new number, which fences all before it.
    pub async fn acquire(
        &self,
        tenant: &str,
        session: SessionId,
        ttl: Option<Duration>,
    ) -> Result<SessionLease, Error> {
        let mut body = json!({ "action": "acquire", "host": self.host });
        set_ttl(&mut body, ttl);
        self.lease(tenant, session, &body).await?.json("POST lease")
    }

    /// Extends a lease, from now on.
    pub async fn renew(&self, held: &Held, ttl: Option<Duration>) -> Result<SessionLease, Error> {
        let mut body = json!({ "action": "renew", "host": self.host, "epoch": held.epoch });
        set_ttl(&mut body, ttl);
        self.lease(&held.tenant, held.session, &body).await?.json("POST lease")
    }

    /// Lets a session go; with `close` it is over.
    pub async fn release(&self, held: &Held, close: bool) -> Result<(), Error> {
        let body = json!({ "action": "release", "host": self.host, "epoch": held.epoch, "close": close });
        self.lease(&held.tenant, held.session, &body).await.map(|_| ())
    }

    async fn lease(&self, tenant: &str, session: SessionId, body: &serde_json::Value) -> Result<super::Answer, Error> {
        let body = encode_body("POST lease", body)?;
        let path = format!("/{}/sessions/{session}/lease", encode(tenant));
        self.transport.send("/v1/tenants", Call::post(path, body)).await
    }

    /// Claims a command, or extends the claim. One that has ended was finished by an older lease: there is nothing to do.
    pub async fn claim(&self, held: &Held, command: u64, ttl: Option<Duration>) -> Result<CommandView, Error> {
        let mut body = json!({});
        set_ttl(&mut body, ttl);
        self.step(held, command, "claim", body).await
    }

    /// Begins: only who gets an answer may apply the command. May be repeated.
    pub async fn begin(&self, held: &Held, command: u64) -> Result<CommandView, Error> {
        self.step(held, command, "begin", json!({})).await
    }

    /// Reports how it went. May be repeated.
    pub async fn complete(&self, held: &Held, command: u64, completion: &Completion) -> Result<CommandView, Error> {
        let body = match completion {
            Completion::Applied => json!({ "result": "applied" }),
            Completion::Rejected(code) => json!({ "result": "rejected", "code": code }),
        };
        self.step(held, command, "complete", body).await
    }

    /// Settles what an older lease left, as its journal has it. May be repeated.
    pub async fn settle(&self, held: &Held, command: u64) -> Result<CommandView, Error> {
        self.step(held, command, "settle", json!({})).await
    }

    async fn step(
        &self,
        held: &Held,
        command: u64,
        step: &str,
        mut body: serde_json::Value,
    ) -> Result<CommandView, Error> {
        body["host"] = json!(self.host);
        body["epoch"] = json!(held.epoch);
        let name = format!("POST {step}");
        let body = encode_body(&name, &body)?;
        let path = format!("/{}/sessions/{}/commands/{command}/{step}", encode(&held.tenant), held.session);
        self.transport.send("/v1/tenants", Call::post(path, body)).await?.json(&name)
    }

    /// A content that a command of the session refers to.
    pub async fn payload(&self, held: &Held, sha256: &str) -> Result<Bytes, Error> {
        let (tenant, session) = (encode(&held.tenant), held.session);
        let query = format!("host={}&epoch={}", encode(&self.host), held.epoch);
        let path = format!("/{tenant}/sessions/{session}/payloads/{}?{query}", encode(sha256));
        let mut call = Call::get(path);
        call.answer_max = CONTENT_BYTES_MAX;
        Ok(self.transport.send("/v1/tenants", call).await?.body)
    }
}

fn set_ttl(body: &mut serde_json::Value, ttl: Option<Duration>) {
    if let Some(ttl) = ttl {
        body["ttl_ms"] = json!(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    }
}
