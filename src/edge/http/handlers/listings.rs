//! What hosts do with their listings.

use super::convert;
use crate::credentials::REALM;
use crate::domain::{Endpoint, ListingId, Renewed, SessionRef, Visibility};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::{Call, PrincipalCall};
use crate::edge::http::commands;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::{idempotency_key, if_match_version, lease_token};
use crate::edge::http::problem::Problem;
use crate::service::{ListingGrant, RegisterRequest, RenewRequest};
use crate::wire::request::{RegisterBody, RenewBody, VisibilityName};
use crate::wire::response::{EndpointAnswer, LeaseAnswer, ListingAnswer, PresenceAnswer, RenewAnswer};
use crate::wire::{FieldError, timestamp};
use hyper::StatusCode;

pub(super) async fn register(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let key = idempotency_key(call.headers())?;
    call.query()?;
    let body: RegisterBody = call.json(edge).await?;
    let session = session_of(edge, &by, body.session_id.as_deref()).await?;
    let request = register_request(edge, &by, body, session).map_err(Problem::invalid_field)?;
    let applied = edge.service.register(&by.caller, &key, request).await.map_err(|failure| call.failed(failure))?;
    let status = if applied.replayed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Answer::json(status, &grant(applied.value))
        .replayed(applied.replayed)
        .commit(applied.commit)
        .cache(Cache::PrivateNoStore))
}

/// The session that the listing is for: only whose host runs it may say so.
async fn session_of(edge: &Edge, by: &PrincipalCall, id: Option<&str>) -> Result<Option<SessionRef>, Problem> {
    let Some(id) = id else { return Ok(None) };
    let refused = || FieldError::new("/session_id", "must be 32 lower-case hex digits");
    let session = SessionRef::parse(id).ok_or_else(refused).map_err(Problem::invalid_field)?;
    commands::runs_session(edge, by, session).await?;
    Ok(Some(session))
}

fn register_request(
    edge: &Edge,
    by: &PrincipalCall,
    body: RegisterBody,
    session: Option<SessionRef>,
) -> Result<RegisterRequest, FieldError> {
    let bounds = edge.service.limits().lease_ttl;
    Ok(RegisterRequest {
        scope: convert::scope(by.tenant, &body.protocol)?,
        visibility: convert::visibility(body.visibility.unwrap_or(VisibilityName::Public)),
        details: convert::details(body.details)?,
        ttl: body.ttl_ms.map_or(Ok(bounds.default_ttl()), |ms| convert::ttl(ms, bounds))?,
        gate: body.gate,
        session,
        candidates: convert::candidates(&body.candidates)?,
    })
}

fn grant(grant: ListingGrant) -> ListingAnswer {
    ListingAnswer {
        listing_id: grant.listing.to_string(),
        version: grant.version,
        expires_at: timestamp(grant.expires_at),
        ttl_ms: grant.ttl_ms,
        lease_token: grant.lease_token,
        presence: PresenceAnswer {
            username: grant.presence.username,
            password: grant.presence.password,
            realm: REALM.to_owned(),
            interval_ms: grant.presence_interval_ms,
            ttl_ms: grant.presence_ttl_ms,
            stun: grant.stun.to_vec(),
        },
    }
}

pub(super) async fn renew(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let token = lease_token(call.headers())?;
    let version = if_match_version(call.headers())?;
    call.query()?;
    let body: RenewBody = call.json(edge).await?;
    let request = renew_request(edge, version, body).map_err(Problem::invalid_field)?;
    let listing = call.listing()?;
    let renewed = edge.service.renew(&by.caller, listing, token, request).await;
    let applied = renewed.map_err(|failure| call.failed(failure))?;
    let body = renew_answer(listing, applied.value);
    Ok(Answer::json(StatusCode::OK, &body)
        .etag(&format!("\"{}\"", body.version))
        .commit(applied.commit)
        .cache(Cache::PrivateNoStore))
}

/// What a renewal with this body asks for.
pub(in crate::edge::http) fn renew_request(
    edge: &Edge,
    version: u64,
    body: RenewBody,
) -> Result<RenewRequest, FieldError> {
    let bounds = edge.service.limits().lease_ttl;
    Ok(RenewRequest {
        version,
        ttl: body.ttl_ms.map(|ms| convert::ttl(ms, bounds)).transpose()?,
        details: body.details.map(convert::details).transpose()?,
        visibility: body.visibility.map(convert::visibility),
    })
}

/// The body of the answer to a renewal.
pub(in crate::edge::http) fn renew_answer(listing: ListingId, renewed: Renewed) -> RenewAnswer {
    RenewAnswer {
        listing_id: listing.to_string(),
        version: renewed.version,
        expires_at: timestamp(renewed.expires_at),
        ttl_ms: renewed.ttl_ms,
        visibility: visibility_name(renewed.visibility).to_owned(),
    }
}

fn visibility_name(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "public",
        Visibility::Unlisted => "unlisted",
    }
}

pub(super) async fn delete(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let token = lease_token(call.headers())?;
    call.query()?;
    let () = call.json(edge).await?;
    let deleted = edge.service.delete(&by.caller, call.listing()?, token).await;
    let applied = deleted.map_err(|failure| call.failed(failure))?;
    Ok(Answer::empty(StatusCode::NO_CONTENT).commit(applied.commit))
}

pub(super) async fn lease(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let token = lease_token(call.headers())?;
    call.query()?;
    let lease = edge.service.lease(&by.caller, call.listing()?, token).await;
    let applied = lease.map_err(|failure| call.failed(failure))?;
    let view = applied.value;
    let endpoint = |address: Endpoint| address.address().to_string();
    let endpoints = view.endpoints.iter().map(|known| EndpointAnswer {
        family: convert::family(known.family),
        address: endpoint(known.endpoint),
        presence: known.state.name().to_owned(),
    });
    let body = LeaseAnswer {
        version: view.version,
        expires_at: timestamp(view.expires_at),
        presence: view.presence.name().to_owned(),
        endpoints: endpoints.collect(),
    };
    Ok(Answer::json(StatusCode::OK, &body).commit(applied.commit).cache(Cache::PrivateNoStore))
}
