//! Payloads: raw bytes, found by their SHA-256.

use super::places::Place;
use super::tenants::request_key;
use super::{Commands, convert, problem, session_in};
use crate::admission::{Epoch, LeaseRef, PrincipalName, Sha256};
use crate::domain::TenantId;
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::body::{BodyLimits, read_raw};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::optional_idempotency_key;
use crate::edge::http::problem::Problem;
use crate::wire::commands::StoredPayloadAnswer;
use bytes::Bytes;
use hyper::StatusCode;
use std::time::Duration;

/// An upload must have arrived after this time: 8 MiB at 2 Mbit/s.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(35);
/// Seconds after which a place for an upload is likely free.
const RETRY_UPLOAD_S: u64 = 2;
/// The same for a download: its client has `http.write_timeout` to take it.
const RETRY_DOWNLOAD_S: u64 = 1;

/// Who uploads.
pub(super) type Uploader = (TenantId, PrincipalName);

/// The payload in the path. A digest of the wrong shape is simply not found.
fn payload_in(call: &Call<'_>) -> Result<Sha256, Problem> {
    call.routed.part.and_then(Sha256::parse).ok_or_else(Problem::not_found)
}

pub(super) async fn put(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, by) = edge.commander(commands, call)?;
    let key = optional_idempotency_key(call.headers())?;
    let create = key.map(|key| request_key(&key)).transpose()?;
    call.query()?;
    let (session, sha256) = (session_in(call)?, payload_in(call)?);
    // Not waited for: who waits has a connection and a body on its way already.
    let Some(_place) = commands.uploads.place((tenant, by.name().clone())) else {
        return Err(full("uploads", RETRY_UPLOAD_S).and_close());
    };
    let limits = BodyLimits { bytes: commands.payload_bytes, time: UPLOAD_TIMEOUT };
    let link = (&*call.link.connection, call.number);
    let Some(body) = call.body.take() else { return Err(Problem::malformed_body()) };
    let bytes = read_raw(&call.parts.headers, body, limits, link).await?;
    let stored = commands.plane.put_payload(&by, session, create, sha256, bytes).await.map_err(problem::of)?;
    let body = StoredPayloadAnswer { sha256: stored.sha256.to_string(), len: stored.len };
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

fn full(resource: &str, retry_s: u64) -> Problem {
    let detail = "as many payloads are on their way as there is room for";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "capacity_exceeded", "Capacity exceeded", detail);
    problem.retry_after(retry_s).resource(resource).reason("overloaded")
}

/// A payload on its way out. It is in memory until the last of it was handed to the socket or the connection has ended, and
/// has its place as long.
struct Outgoing {
    bytes: Bytes,
    _place: Place<PrincipalName>,
}

impl AsRef<[u8]> for Outgoing {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) async fn get(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, credential) = edge.host_in_tenant(commands, call)?;
    let mut query = call.query()?;
    let host = query.take("host").ok_or_else(|| Problem::invalid_parameter("host", "is required"))?;
    let host = convert::host(&host).map_err(|error| Problem::invalid_parameter("host", &error.detail))?;
    let epoch = query.take_integer("epoch")?.ok_or_else(|| Problem::invalid_parameter("epoch", "is required"))?;
    let (session, sha256) = (session_in(call)?, payload_in(call)?);
    let lease = LeaseRef::new(tenant, session, host, Epoch(epoch));
    // Before it is read, and not waited for: who waits has a connection, and a lease that runs.
    let by = credential.principal();
    let place = commands.downloads.place(by.name().clone()).ok_or_else(|| full("downloads", RETRY_DOWNLOAD_S))?;
    let bytes = commands.plane.hosts().payload(by, lease, sha256).await.map_err(problem::of)?;
    let bytes = Bytes::from_owner(Outgoing { bytes, _place: place });
    let answer = Answer::rendered(StatusCode::OK, bytes).content_type("application/octet-stream");
    Ok(answer.cache(Cache::PrivateNoStore))
}
