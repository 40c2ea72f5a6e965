//! Payloads: raw bytes, found by their SHA-256.

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
use hyper::StatusCode;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An upload must have arrived after this time: 8 MiB at 2 Mbit/s.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(35);
/// Seconds after which a place for an upload is likely free.
const RETRY_UPLOAD_S: u64 = 2;

/// One principal has this part of all places at most, rounded up: whoever lets uploads hang leaves room for others.
const PART_OF: usize = 4;

/// Who uploads.
type Uploader = (TenantId, PrincipalName);

/// Uploads under way, each with a place: with the longest payload that bounds the memory that bodies take.
pub(super) struct Uploads {
    max: usize,
    max_each: usize,
    /// At most as many as places.
    taken: Mutex<HashMap<Uploader, usize>>,
}

/// One of the places; given back when dropped.
struct Place<'u> {
    uploads: &'u Uploads,
    uploader: Uploader,
}

impl Uploads {
    pub(super) fn new(max: usize) -> Self {
        Self { max, max_each: max.div_ceil(PART_OF), taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Uploader, usize>> {
        // Guards single counts.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, uploader: Uploader) -> Option<Place<'_>> {
        let mut taken = self.taken();
        let own = taken.get(&uploader).copied().unwrap_or(0);
        // A walk over as many as there are places.
        if own >= self.max_each || taken.values().sum::<usize>() >= self.max {
            return None;
        }
        taken.insert(uploader.clone(), own + 1);
        Some(Place { uploads: self, uploader })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.uploads.taken();
        if let Some(own) = taken.get_mut(&self.uploader) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.uploader);
            }
        }
    }
}

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
    let Some(_place) = commands.uploads.place((tenant, by.name().clone())) else { return Err(full()) };
    let limits = BodyLimits { bytes: commands.payload_bytes, time: UPLOAD_TIMEOUT };
    let link = (&*call.link.connection, call.number);
    let Some(body) = call.body.take() else { return Err(Problem::malformed_body()) };
    let bytes = read_raw(&call.parts.headers, body, limits, link).await?;
    let stored = commands.plane.put_payload(&by, session, create, sha256, bytes).await.map_err(problem::of)?;
    let body = StoredPayloadAnswer { sha256: stored.sha256.to_string(), len: stored.len };
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

fn full() -> Problem {
    let detail = "as many payloads are on their way as there is room for";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "capacity_exceeded", "Capacity exceeded", detail);
    problem.retry_after(RETRY_UPLOAD_S).resource("uploads").reason("overloaded").and_close()
}

pub(super) async fn get(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, credential) = edge.host_in_tenant(commands, call)?;
    let mut query = call.query()?;
    let host = query.take("host").ok_or_else(|| Problem::invalid_parameter("host", "is required"))?;
    let host = convert::host(&host).map_err(|error| Problem::invalid_parameter("host", &error.detail))?;
    let epoch = query.take_integer("epoch")?.ok_or_else(|| Problem::invalid_parameter("epoch", "is required"))?;
    let (session, sha256) = (session_in(call)?, payload_in(call)?);
    let lease = LeaseRef::new(tenant, session, host, Epoch(epoch));
    let bytes = commands.plane.hosts().payload(credential.principal(), lease, sha256).await.map_err(problem::of)?;
    let answer = Answer::rendered(StatusCode::OK, bytes).content_type("application/octet-stream");
    Ok(answer.cache(Cache::PrivateNoStore))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_leaves_places_to_others_and_all_are_given_back() {
        let uploads = Uploads::new(6);
        let who = |tenant, name: &str| (TenantId(tenant), PrincipalName::new(name).unwrap());
        let place = |tenant, name| uploads.place(who(tenant, name));
        let own = (place(0, "a"), place(0, "a"));
        assert!(own.0.is_some() && own.1.is_some() && place(0, "a").is_none(), "a quarter, rounded up");
        let others = [place(1, "a"), place(1, "a"), place(0, "b"), place(0, "c")];
        assert!(others.iter().all(Option::is_some), "the same name elsewhere is another principal");
        assert!(place(0, "d").is_none(), "all places are taken");
        drop(own);
        assert!(place(0, "d").is_some());
        drop(others);
        assert!(uploads.taken().is_empty());
        assert!(Uploads::new(1).place(who(0, "a")).is_some());
    }
}
