//! What probes and tools ask.

use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::metrics_server::METRICS_CONTENT_TYPE;
use crate::edge::http::problem::Problem;
use crate::service::readiness::StoreFlaw;
use crate::service::view::Availability;
use crate::wire::response::HealthAnswer;
use crate::wire::timestamp;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

/// Seconds after which a probe may ask again.
const RETRY_S: HeaderValue = HeaderValue::from_static("1");

fn health(edge: &Edge, call: &Call<'_>, draining: StatusCode) -> Result<Answer, Problem> {
    call.query()?;
    let plane_is_lost = edge.commands.as_ref().is_some_and(|commands| commands.plane.is_lost());
    let availability = if plane_is_lost { Availability::Unavailable } else { edge.service.availability() };
    let (status, name, reason, deadline) = match availability {
        Availability::Available => (StatusCode::OK, "ok", "everything is possible", None),
        Availability::Draining { wall, .. } => {
            (draining, "draining", "nothing new is taken; the process ends after the drain", Some(timestamp(wall)))
        }
        Availability::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the store is lost; the process has to start again", None)
        }
    };
    let body = HealthAnswer { status: name.to_owned(), reason: reason.to_owned(), drain_deadline: deadline };
    let answer = Answer::json(status, &body);
    Ok(if status == StatusCode::OK { answer } else { answer.header(RETRY_AFTER, RETRY_S) })
}

/// True until the store is lost: a draining process must not be restarted for it.
pub(super) fn live(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    health(edge, call, StatusCode::OK)
}

/// False as soon as drain begins, and while the command plane's store does not answer or takes no writes.
pub(super) async fn ready(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    let answer = health(edge, call, StatusCode::SERVICE_UNAVAILABLE)?;
    let Some(commands) = edge.commands.as_ref().filter(|_| answer.status() == StatusCode::OK) else {
        return Ok(answer);
    };
    let reason = match commands.plane.readiness(call.now.mono).await {
        Ok(()) => return Ok(answer),
        Err(StoreFlaw::Silent) => "the command plane's store does not answer",
        Err(StoreFlaw::Unwritable) => "the command plane's store can't be written",
    };
    let body = HealthAnswer { status: "unavailable".to_owned(), reason: reason.to_owned(), drain_deadline: None };
    Ok(Answer::json(StatusCode::SERVICE_UNAVAILABLE, &body).header(RETRY_AFTER, RETRY_S))
}

/// Prometheus text, where this listener is told to have it; elsewhere there is no such route.
pub(super) fn metrics(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    let text = edge.metrics_text.as_ref().ok_or_else(Problem::route_not_found)?;
    call.query()?;
    Ok(metrics_answer(text()))
}

/// What a scraper gets.
fn metrics_answer(text: String) -> Answer {
    Answer::rendered(StatusCode::OK, text).content_type(METRICS_CONTENT_TYPE)
}

/// Tells its content from pages, among those that are compressed; all of it is compared anyway.
const OPENAPI_TAG: u64 = u64::MAX;
const PAGE_TAG: u64 = u64::MAX - 1;

pub(super) fn openapi(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    call.query()?;
    let answer = Answer::rendered(StatusCode::OK, edge.openapi.clone()).cache(Cache::PublicHour);
    Ok(answer.compressed(&edge.compressor, call.headers(), OPENAPI_TAG, call.now.mono))
}

/// The web page.
pub(super) fn page(edge: &Edge, call: &Call<'_>) -> Result<Answer, Problem> {
    call.query()?;
    Ok(edge.page.answer().compressed(&edge.compressor, call.headers(), PAGE_TAG, call.now.mono))
}
