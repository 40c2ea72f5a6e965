//! What operators do.

use super::convert;
use crate::domain::{Count, ListingId, Status, TenantId};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::idempotency_key;
use crate::edge::http::problem::Problem;
use crate::service::NamedSubject;
use crate::service::view::Availability;
use crate::wire::request::{DrainBody, RevocationBody};
use crate::wire::response::{
    CountAnswer, CountsAnswer, DrainAnswer, LaneAnswer, RemovedAnswer, RevocationAnswer, SnapshotAnswer, StatusAnswer,
};
use crate::wire::{FieldError, timestamp};
use hyper::StatusCode;

/// Longest name of a principal: a JWT's longest subject, or a guest's name.
const NAME_BYTES_MAX: usize = 256;

/// The subject of a revocation, by exactly one of its names.
fn subject(listing: Option<&str>, principal: Option<&str>) -> Result<NamedSubject, FieldError> {
    match (listing, principal) {
        (Some(id), None) => {
            let refused = || FieldError::new("/listing_id", "must be 32 lower-case hex digits");
            ListingId::parse(id).map(NamedSubject::Listing).ok_or_else(refused)
        }
        (None, Some(name)) if (1..=NAME_BYTES_MAX).contains(&name.len()) => {
            Ok(NamedSubject::Principal(name.to_owned()))
        }
        (None, Some(_)) => Err(FieldError::new("/principal", format!("must be 1 to {NAME_BYTES_MAX} bytes"))),
        (Some(_), Some(_)) | (None, None) => {
            Err(FieldError::new("", "must name exactly one of listing_id and principal"))
        }
    }
}

fn tenant(edge: &Edge, name: &str) -> Result<TenantId, Problem> {
    edge.auth.tenant(name).map(|(id, _)| id).ok_or_else(Problem::not_found)
}

pub(super) async fn revoke(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.operator(call)?;
    let key = idempotency_key(call.headers())?;
    call.query()?;
    let body: RevocationBody = call.json(edge).await?;
    let subject = subject(body.listing_id.as_deref(), body.principal.as_deref()).map_err(Problem::invalid_field)?;
    let ttl = convert::ttl(body.ttl_ms, edge.service.limits().revocation_ttl).map_err(Problem::invalid_field)?;
    let tenant = tenant(edge, &body.tenant)?;
    let revoked = edge.service.revoke(tenant, &subject, ttl, &key).await;
    let applied = revoked.map_err(|failure| call.failed(failure))?;
    let body = RevocationAnswer {
        removed: RemovedAnswer { listings: applied.value.listings, attempts: applied.value.attempts },
        expires_at: timestamp(applied.value.expires_at),
    };
    Ok(Answer::json(StatusCode::OK, &body).commit(applied.commit))
}

pub(super) async fn lift(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.operator(call)?;
    let mut query = call.query()?;
    let Some(name) = query.take("tenant") else {
        return Err(Problem::invalid_parameter("tenant", "is required"));
    };
    let (listing, principal) = (query.take("listing_id"), query.take("principal"));
    let subject = subject(listing.as_deref(), principal.as_deref())
        .map_err(|error| Problem::invalid_parameter(parameter(&error.pointer), &error.detail))?;
    let () = call.json(edge).await?;
    let lifted = edge.service.lift_revocation(tenant(edge, &name)?, &subject).await;
    let applied = lifted.map_err(|failure| call.failed(failure))?;
    Ok(Answer::empty(StatusCode::NO_CONTENT).commit(applied.commit))
}

/// A field of the body by the name of its query parameter.
fn parameter(pointer: &str) -> &str {
    pointer.strip_prefix('/').unwrap_or("listing_id")
}

pub(super) async fn drain(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.operator(call)?;
    call.query()?;
    let body: DrainBody = call.json(edge).await?;
    let max = edge.service.limits().drain_window_max_ms;
    if body.window_ms.is_some_and(|ms| ms > max) {
        return Err(Problem::invalid_field(FieldError::new("/window_ms", format!("must be from 0 to {max}"))));
    }
    let applied = edge.service.drain(body.window_ms).await.map_err(|failure| call.failed(failure))?;
    let (_, wall) = applied.value;
    let body = DrainAnswer { drain_deadline: timestamp(wall) };
    Ok(Answer::json(StatusCode::ACCEPTED, &body).commit(applied.commit))
}

/// Answers as long as the process lives: what can't be counted any more is null.
pub(super) async fn status(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.operator(call)?;
    call.query()?;
    let service = &edge.service;
    let counts = service.status().await.ok().map(|applied| counts(&applied.value));
    let (availability, drain_deadline) = match service.availability() {
        Availability::Available => ("available", None),
        Availability::Draining { wall, .. } => ("draining", Some(timestamp(wall))),
        Availability::Unavailable => ("unavailable", None),
    };
    let (snapshot_commit, age_ms) = service.published();
    let (queued_creations, queued_keep_alives) = service.queued();
    let commit = service.last_commit();
    let body = StatusAnswer {
        instance: service.instance().to_string(),
        availability: availability.to_owned(),
        drain_deadline,
        commit,
        snapshot: SnapshotAnswer { commit: snapshot_commit, age_ms },
        lane: LaneAnswer { queued_creations, queued_keep_alives },
        counts,
    };
    Ok(Answer::json(StatusCode::OK, &body).commit(commit).cache(Cache::PrivateNoStore))
}

fn counts(status: &Status) -> CountsAnswer {
    let count = |count: Count| CountAnswer { live: count.live, ceiling: count.ceiling };
    CountsAnswer {
        listings: count(status.listings),
        unproven_listings: count(status.unproven_listings),
        presence: count(status.presence),
        attempts: count(status.attempts),
        idempotency: count(status.idempotency),
        replay: count(status.replay),
        revocations: count(status.revocations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_names_exactly_one_subject() {
        let id = "0123456789abcdef0123456789abcdef";
        assert!(subject(Some(id), None).is_ok());
        assert_eq!(subject(None, Some("guest:1")), Ok(NamedSubject::Principal("guest:1".into())));
        let pointer = |listing, principal| subject(listing, principal).unwrap_err().pointer;
        assert_eq!(pointer(Some(id), Some("a")), "");
        assert_eq!(pointer(None, None), "");
        assert_eq!(pointer(Some("x"), None), "/listing_id");
        assert_eq!(pointer(None, Some("")), "/principal");
    }
}
