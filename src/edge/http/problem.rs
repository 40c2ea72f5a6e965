//! Everything that goes wrong, as RFC 9457 problem documents. Codes are stable; details are for people and echo nothing.

use super::answer::Answer;
use super::limiter::Wait;
use super::registry::Ceiling;
use crate::domain::filter::FilterError;
use crate::domain::{Certainty, Failure, Invalid, MonoTime, Rejection, Replay, Resource, WallTime};
use crate::wire::FieldError;
use crate::wire::response::{FieldErrorAnswer, ProblemAnswer};
use crate::wire::timestamp;
use hyper::StatusCode;
use hyper::header::{ALLOW, ETAG, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

/// Seconds after which a shed creation or a full ceiling is worth another try: the lane empties in less, and leases and
/// attempts end all the time.
const RETRY_CAPACITY_S: u64 = 1;
/// Seconds after which a quota is worth another try: one of the caller's own has to end first.
const RETRY_QUOTA_S: u64 = 5;
/// Seconds after which a supervisor has likely started the next instance.
const RETRY_UNAVAILABLE_S: u64 = 2;
/// What is told to everybody at one instant is spread over so many seconds more: at the end of a drain, or of a store, all
/// hosts and joiners would come back in the same one.
const RETRY_SPREAD_S: u64 = 5;

/// 0 to [`RETRY_SPREAD_S`]. The nanosecond in which a request was looked at is as good as a die, and no two share it.
fn spread_s(now: MonoTime) -> u64 {
    now.0 / 100 % (RETRY_SPREAD_S + 1)
}

/// A refused request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    body: Box<ProblemAnswer>,
    headers: Vec<(HeaderName, HeaderValue)>,
    close: bool,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, title: &str, detail: impl Into<String>) -> Self {
        let body = ProblemAnswer {
            kind: format!("urn:rendezvous:problem:{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            ..ProblemAnswer::default()
        };
        Self { status, body: Box::new(body), headers: Vec::new(), close: false }
    }

    pub(super) fn header(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Self {
        if let Ok(value) = value.try_into() {
            self.headers.push((name, value));
        }
        self
    }

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// The connection can't be used after this.
    pub(super) fn and_close(mut self) -> Self {
        self.close = true;
        self
    }

    pub(super) fn reason(mut self, reason: &str) -> Self {
        self.body.reason = Some(reason.to_owned());
        self
    }

    pub(super) fn resource(mut self, resource: &str) -> Self {
        self.body.resource = Some(resource.to_owned());
        self
    }

    pub(super) fn outcome_unknown(mut self) -> Self {
        self.body.outcome = Some("unknown".to_owned());
        self
    }

    pub(super) fn session(mut self, session: impl std::fmt::Display) -> Self {
        self.body.session_id = Some(session.to_string());
        self
    }

    pub(super) fn current_version(mut self, current: u64) -> Self {
        self.body.current_version = Some(current);
        self.header(ETAG, format!("\"{current}\""))
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    #[cfg(test)]
    pub(super) fn body(&self) -> &ProblemAnswer {
        &self.body
    }

    pub(super) fn into_answer(self) -> Answer {
        let mut answer = Answer::json(self.status, &*self.body).content_type("application/problem+json");
        for (name, value) in self.headers {
            answer = answer.header(name, value);
        }
        if self.close { answer.close() } else { answer }
    }
}

/// What the edge itself refuses.
impl Problem {
    pub(super) fn route_not_found() -> Self {
        let detail = "there is no such path here; GET /openapi.json lists them all";
        Self::new(StatusCode::NOT_FOUND, "route_not_found", "No such route", detail)
    }

    pub(super) fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("this path takes {allow}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed", detail)
            .header(ALLOW, allow.to_owned())
    }

    pub(super) fn not_found() -> Self {
        Self::from_rejection(Rejection::NotFound, MonoTime::NEVER)
    }

    pub(super) fn unauthenticated(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "Not authenticated", detail)
            .header(WWW_AUTHENTICATE, "Bearer")
    }

    pub(super) fn forbidden(detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed for this caller", detail)
    }

    pub(super) fn request_timeout() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "Request took too long", detail).and_close()
    }

    pub(super) fn payload_too_large(max: usize) -> Self {
        let detail = format!("a body may have {max} bytes at most");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "Body too large", detail).and_close()
    }

    pub(super) fn unsupported_media_type(detail: &str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type", detail)
    }

    pub(super) fn precondition_required() -> Self {
        let detail = "If-Match with the version last seen is required on this route";
        Self::new(StatusCode::PRECONDITION_REQUIRED, "precondition_required", "Precondition required", detail)
    }

    pub(super) fn rate_limited(wait: Wait) -> Self {
        let detail = "too many requests from this caller; see Retry-After";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "Too many requests", detail)
            .retry_after(wait.seconds())
    }

    pub(super) fn headers_too_large() -> Self {
        let detail = "a request may have 64 headers and 16 KiB of them at most";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "headers_too_large", "Headers too large", detail).and_close()
    }

    /// HTTP without TLS on a port that wants TLS.
    pub(super) fn needs_tls() -> Self {
        let detail = "this port speaks TLS: use https";
        Self::new(StatusCode::BAD_REQUEST, "invalid", "Invalid request", detail).reason("plain_http")
    }

    /// No place for one more connection.
    pub(super) fn connections(ceiling: Ceiling) -> Self {
        let (status, retry, resource) = match ceiling {
            Ceiling::Source => (StatusCode::TOO_MANY_REQUESTS, RETRY_QUOTA_S, "connections_per_source"),
            Ceiling::All => (StatusCode::SERVICE_UNAVAILABLE, RETRY_CAPACITY_S, "connections"),
        };
        let detail = "there are too many connections, and all of them are busy";
        let mut problem = Self::new(status, "capacity_exceeded", "No room", detail).retry_after(retry);
        problem.body.resource = Some(resource.to_owned());
        problem
    }

    pub(super) fn internal() -> Self {
        let detail = "the server failed on this request; whether it took effect is unknown";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail).outcome_unknown().and_close()
    }

    pub(super) fn unavailable(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", "Service unavailable", detail)
            .retry_after(RETRY_UNAVAILABLE_S)
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", "Invalid request", detail)
    }

    fn invalid_at(error: FieldErrorAnswer, detail: String) -> Self {
        let mut problem = Self::invalid(detail);
        problem.body.errors.push(error);
        problem
    }

    /// A request with more than one reading of where it ends.
    pub(super) fn ambiguous_framing() -> Self {
        Self::invalid("the request's framing (length, transfer coding or line ends) is ambiguous").and_close()
    }

    /// Not even a request.
    pub(super) fn malformed_request() -> Self {
        Self::invalid("this is not a well-formed HTTP/1.1 request")
    }

    pub(super) fn malformed_body() -> Self {
        Self::invalid_field(FieldError::new("", "could not be read to its end")).and_close()
    }

    pub(super) fn invalid_field(error: FieldError) -> Self {
        let place = if error.pointer.is_empty() { "the body" } else { error.pointer.as_str() };
        let detail = format!("{place} {}", error.detail);
        Self::invalid_at(
            FieldErrorAnswer { pointer: error.pointer, detail: error.detail, ..FieldErrorAnswer::default() },
            detail,
        )
    }

    pub(super) fn invalid_parameter(name: &str, expected: &str) -> Self {
        let error = FieldErrorAnswer {
            parameter: Some(name.to_owned()),
            detail: expected.to_owned(),
            ..FieldErrorAnswer::default()
        };
        Self::invalid_at(error, format!("query parameter {name:?} {expected}"))
    }

    pub(super) fn invalid_filter(error: FilterError) -> Self {
        let mut problem = Self::invalid_parameter("filter", &error.to_string());
        problem.body.errors.iter_mut().for_each(|field| field.position = Some(error.position));
        problem
    }

    /// Unknown parameters are not named back: a mistaken one may be a secret (case O2).
    pub(super) fn unknown_parameter(known: &[&str]) -> Self {
        let expected = match known {
            [] => "this route takes no query parameters".to_owned(),
            known => format!("this route knows the query parameters {}", known.join(", ")),
        };
        let error = FieldErrorAnswer { detail: expected.clone(), ..FieldErrorAnswer::default() };
        Self::invalid_at(error, format!("a query parameter is unknown: {expected}"))
    }

    pub(super) fn invalid_header(name: &HeaderName, expected: &str) -> Self {
        let error = FieldErrorAnswer {
            header: Some(name.as_str().to_owned()),
            detail: expected.to_owned(),
            ..FieldErrorAnswer::default()
        };
        Self::invalid_at(error, format!("header {name} {expected}"))
    }
}

/// What the service refuses.
impl Problem {
    /// `now` is the monotonic time, for `Retry-After` where everybody is told at once.
    pub(super) fn from_failure(failure: Failure, now: MonoTime) -> Self {
        match failure {
            Failure::Rejected(rejection) => Self::from_rejection(rejection, now),
            Failure::Overloaded => Self::capacity(Resource::Lane),
            Failure::Unavailable(certainty) => {
                let (detail, outcome) = match certainty {
                    Certainty::NotApplied => ("the server can't answer now; nothing was changed", None),
                    Certainty::Unknown => ("the server can't say whether this took effect", Some("unknown".to_owned())),
                };
                let mut problem = Self::unavailable(detail).retry_after(RETRY_UNAVAILABLE_S + spread_s(now));
                problem.body.outcome = outcome;
                problem
            }
            // 499 has no name in the registry of status codes; its client has gone away.
            Failure::Cancelled => {
                let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
                Self::new(status, "cancelled", "Cancelled", "the client went away")
            }
        }
    }

    fn from_rejection(rejection: Rejection, now: MonoTime) -> Self {
        match rejection {
            Rejection::NotFound => {
                Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", "there is nothing here for this caller")
            }
            Rejection::Expired => {
                let detail = "this request was carried out, and what it made is gone";
                Self::new(StatusCode::GONE, "expired", "Expired", detail)
            }
            Rejection::Ended(reason) => {
                Self::new(StatusCode::GONE, "expired", "Expired", "the attempt has ended").reason(reason.state())
            }
            Rejection::VersionConflict { current } => {
                let detail = "the version in If-Match is not the current one";
                Self::new(StatusCode::PRECONDITION_FAILED, "conflict", "Conflict", detail).current_version(current)
            }
            Rejection::IdempotencyMismatch => {
                let detail = "this Idempotency-Key was used for another request";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "conflict", "Conflict", detail)
                    .reason("idempotency_mismatch")
            }
            Rejection::CapacityExceeded(resource) => Self::capacity(resource),
            Rejection::Draining { deadline, wall } => Self::draining(deadline, wall, now),
            Rejection::ReplayRejected(replay) => {
                Self::new(StatusCode::CONFLICT, "replay_rejected", "Used before", "this was done before, once only")
                    .reason(replay_reason(replay))
            }
            Rejection::Revoked => Self::new(StatusCode::FORBIDDEN, "revoked", "Revoked", "this caller is revoked"),
            Rejection::NotReady => {
                let detail = "both sides have to bind a common address family first";
                Self::new(StatusCode::CONFLICT, "not_ready", "Not ready", detail)
            }
            Rejection::StaleNonce => Self::invalid("the nonce is too old"),
            Rejection::Invalid(invalid) => Self::from_invalid(invalid),
        }
    }

    fn from_invalid(invalid: Invalid) -> Self {
        match invalid {
            Invalid::OwnListing => Self::invalid("a principal can't join its own listing").reason("own_listing"),
            Invalid::SameEndpoint => Self::invalid("both sides have one address and port").reason("same_endpoint"),
            Invalid::FutureCommit => Self::invalid("this commit lies in the future").reason("future_commit"),
            Invalid::DrainWindow => Self::invalid_field(FieldError::new("/window_ms", "is longer than allowed")),
        }
    }

    fn capacity(resource: Resource) -> Self {
        let (status, wait, detail) = if resource.is_quota() {
            (StatusCode::TOO_MANY_REQUESTS, RETRY_QUOTA_S, "a quota of this caller is used up")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, RETRY_CAPACITY_S, "a ceiling of the server is reached")
        };
        Self::new(status, "capacity_exceeded", "Capacity exceeded", detail).retry_after(wait).resource(resource.name())
    }

    /// Retrying makes sense once the next instance runs: after the deadline, and a little.
    pub(super) fn draining(deadline: MonoTime, wall: WallTime, now: MonoTime) -> Self {
        let detail = "this instance is going away; ask again after the deadline";
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "Draining", detail)
            .retry_after(deadline.ms_since(now).div_ceil(1_000) + RETRY_UNAVAILABLE_S + spread_s(now));
        problem.body.drain_deadline = Some(timestamp(wall));
        problem
    }
}

fn replay_reason(replay: Replay) -> &'static str {
    match replay {
        Replay::OtherEndpoint => "other_endpoint",
        Replay::OtherDatagram => "other_datagram",
        Replay::OldSequence { .. } => "old_sequence",
        Replay::Consumed => "consumed",
        Replay::KeyUsed => "key_used",
        Replay::Reported => "reported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::EndReason;

    fn shown(failure: Failure) -> (u16, String, Option<u64>) {
        let problem = Problem::from_failure(failure, MonoTime(0));
        let body = problem.body().clone();
        assert_eq!((body.status, body.code.as_str()), (problem.status().as_u16(), failure.code()));
        let answer = problem.into_answer();
        let retry = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        (body.status, serde_json::to_string(&body).unwrap(), retry)
    }

    #[test]
    fn rule_b1_every_outcome_has_its_status_and_members() {
        let draining = Rejection::Draining { deadline: MonoTime(1_500_000_000), wall: WallTime(0) };
        let rows: [(Failure, u16, &str); 15] = [
            (Rejection::NotFound.into(), 404, "not_found"),
            (Rejection::Expired.into(), 410, "expired"),
            (Rejection::Ended(EndReason::Refused).into(), 410, r#""reason":"refused""#),
            (Rejection::VersionConflict { current: 7 }.into(), 412, r#""current_version":7"#),
            (Rejection::IdempotencyMismatch.into(), 422, r#""reason":"idempotency_mismatch""#),
            (Rejection::CapacityExceeded(Resource::Listings).into(), 503, r#""resource":"listings""#),
            (Rejection::CapacityExceeded(Resource::ListingsPerOwner).into(), 429, r#""resource":"listings_per_owner""#),
            (draining.into(), 503, r#""drain_deadline":"1970-01-01T00:00:00.000Z""#),
            (Rejection::ReplayRejected(Replay::KeyUsed).into(), 409, r#""reason":"key_used""#),
            (Rejection::Revoked.into(), 403, "revoked"),
            (Rejection::NotReady.into(), 409, "not_ready"),
            (Rejection::Invalid(Invalid::DrainWindow).into(), 400, r#""pointer":"/window_ms""#),
            (Failure::Overloaded, 503, r#""resource":"lane""#),
            (Failure::Unavailable(Certainty::Unknown), 503, r#""outcome":"unknown""#),
            (Failure::Cancelled, 499, "cancelled"),
        ];
        for (failure, status, member) in rows {
            let (shown_status, body, retry) = shown(failure);
            assert_eq!(shown_status, status, "{failure:?}");
            assert!(body.contains(member), "{failure:?}: {body}");
            assert_eq!(retry.is_some(), status == 429 || status == 503, "{failure:?}: Retry-After");
        }
        assert_eq!(shown(draining.into()).2, Some(2 + RETRY_UNAVAILABLE_S));
        assert!(!shown(Failure::Unavailable(Certainty::NotApplied)).1.contains("outcome"));
    }

    #[test]
    fn those_who_are_told_at_once_come_back_over_some_seconds() {
        let deadline = MonoTime(10_000_000_000);
        let draining = Failure::Rejected(Rejection::Draining { deadline, wall: WallTime(0) });
        for (failure, wait_s) in [(draining, 10), (Failure::Unavailable(Certainty::NotApplied), 0)] {
            let told = |ns: u64| {
                let answer = Problem::from_failure(failure, MonoTime(ns * 100)).into_answer();
                let mut values = answer.headers().get_all(RETRY_AFTER).iter();
                let seconds = values.next().and_then(|value| value.to_str().ok()?.parse::<u64>().ok()).unwrap();
                assert!(values.next().is_none(), "one value");
                seconds
            };
            let mut all: Vec<_> = (1..600).map(told).collect();
            all.sort_unstable();
            all.dedup();
            let earliest = wait_s + RETRY_UNAVAILABLE_S;
            assert_eq!(all, (earliest..=earliest + RETRY_SPREAD_S).collect::<Vec<_>>(), "{failure:?}");
        }
    }

    #[test]
    fn a_stale_version_comes_with_the_current_etag() {
        let answer = Problem::from_failure(Rejection::VersionConflict { current: 7 }.into(), MonoTime(0)).into_answer();
        assert_eq!(answer.headers()[ETAG], "\"7\"");
    }

    #[test]
    fn case_o2_unknown_parameters_are_not_echoed() {
        let problem = Problem::unknown_parameter(&["limit"]);
        assert_eq!(problem.body().errors[0].parameter, None);
        assert!(problem.body().detail.contains("limit"));
    }
}
