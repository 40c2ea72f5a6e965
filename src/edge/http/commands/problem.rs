//! What the command plane refuses, as problems: status and `code` are those of the HTTP contract, `reason` is the plane's
//! own word.

use crate::admission::{Cause, Error, ErrorCode, Quota, Refusal, Revision};
use crate::domain::{Failure, MonoTime};
use crate::edge::http::problem::Problem;
use crate::service::commands::CompletionError;
use crate::wire::FieldError;
use hyper::StatusCode;

/// Seconds after which a full inbox or a quota is worth another try: something has to be applied or settled first.
const RETRY_QUOTA_S: u64 = 5;
/// Seconds after which a full queue to the store is worth another try.
const RETRY_BUSY_S: u64 = 1;

/// The problem that tells of an error without more to say.
pub(super) fn of_code(code: ErrorCode) -> Problem {
    of(Error::new(code))
}

/// The problem of a completion.
pub(super) fn of_completion(error: CompletionError, now: MonoTime) -> Problem {
    match error {
        CompletionError::Plane(error) => of(error),
        CompletionError::Directory(failure @ (Failure::Rejected(_) | Failure::Overloaded | Failure::Cancelled)) => {
            Problem::from_failure(failure, now)
        }
        CompletionError::Directory(failure @ Failure::Unavailable(_)) => Problem::from_failure(failure, now),
    }
}

/// The problem that tells of an error.
pub(super) fn of(error: Error) -> Problem {
    let word = error.code.as_str();
    if let Some(Cause::MissingPayload { session }) = &error.cause {
        let detail = "put the payload for this session under the same Idempotency-Key, and ask again";
        return conflict("not_ready", "Not ready", detail).reason("unknown_payload").session(session);
    }
    let problem = match error.code {
        ErrorCode::Forbidden => Problem::forbidden("the command plane does not allow this to the caller"),
        ErrorCode::CreatesUnsupported => Problem::forbidden("this deployment creates no sessions"),
        ErrorCode::Invalid | ErrorCode::UnknownTarget | ErrorCode::BadPayload => return invalid(&error).reason(word),
        ErrorCode::UnknownSession | ErrorCode::UnknownCommand | ErrorCode::UnknownHost => Problem::not_found(),
        ErrorCode::SessionClosed => gone("the session is closed and takes no more commands"),
        ErrorCode::Late => gone("the command's deadline has passed"),
        ErrorCode::LegacySessionUnsupported => {
            conflict(word, "Not supported", "the session is of a family that no host can run")
        }
        ErrorCode::IdempotencyMismatch => {
            let detail = "this Idempotency-Key was used for another request";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "conflict", "Conflict", detail)
        }
        ErrorCode::RevisionConflict => revision(error.refusal()),
        ErrorCode::InboxFull => quota("inbox", "as many commands of this session are open as it may have"),
        ErrorCode::QuotaExceeded => quota(quota_name(error.refusal()), "a quota is used up"),
        ErrorCode::LeaseHeld => conflict(word, "Held", "another host holds the session's lease"),
        ErrorCode::LeaseLost => conflict(word, "Lost", "this lease is over; acquire a new one"),
        ErrorCode::ClaimLost => conflict(word, "Lost", "this host has no live claim on the command"),
        ErrorCode::AlreadySettled => conflict(word, "Settled", "the command has ended otherwise"),
        ErrorCode::HostTaken => conflict(word, "Taken", "the host belongs to another credential, or runs another key"),
        ErrorCode::NotReady => conflict("not_ready", "Not ready", "the command is in a state that does not allow this"),
        ErrorCode::Overloaded => {
            let detail = "as many calls wait as there is room for";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let problem = Problem::new(status, "capacity_exceeded", "Capacity exceeded", detail);
            problem.retry_after(RETRY_BUSY_S).resource("commands")
        }
        ErrorCode::Draining => Problem::unavailable("this instance is going away"),
        ErrorCode::Unavailable if error.outcome_unknown() => {
            Problem::unavailable("the command plane can't say whether this took effect: ask again with the same key")
                .outcome_unknown()
        }
        ErrorCode::Unavailable => Problem::unavailable("the command plane can't answer now; nothing was changed"),
    };
    problem.reason(word)
}

fn conflict(code: &str, title: &str, detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, title, detail)
}

fn gone(detail: &str) -> Problem {
    Problem::new(StatusCode::GONE, "expired", "Expired", detail)
}

fn quota(resource: &str, detail: &str) -> Problem {
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "capacity_exceeded", "Capacity exceeded", detail);
    problem.retry_after(RETRY_QUOTA_S).resource(resource)
}

fn revision(refusal: Option<Refusal>) -> Problem {
    let detail = "the revision in If-Match is not the current one";
    let problem = Problem::new(StatusCode::PRECONDITION_FAILED, "conflict", "Conflict", detail);
    match refusal {
        Some(Refusal::RevisionMoved { current: Revision(current) }) => problem.current_version(current),
        Some(_) | None => problem,
    }
}

fn quota_name(refusal: Option<Refusal>) -> &'static str {
    match refusal {
        Some(Refusal::QuotaExceeded { quota, .. }) => Quota::as_str(quota),
        Some(_) | None => "hosts",
    }
}

fn invalid(error: &Error) -> Problem {
    let at = |field: &str, must: &str| Problem::invalid_field(FieldError::new(format!("/{field}"), must));
    match (&error.cause, error.code) {
        // The digest and the content are no members of a body.
        (Some(Cause::Field { field: "sha256", .. }), _) => {
            Problem::invalid("the body is not what the SHA-256 in the path says")
        }
        (Some(Cause::Field { field, must }), _) => at(field, must),
        (_, ErrorCode::UnknownTarget) => at("profile", "must be a configured profile"),
        (Some(Cause::Refused(Refusal::UnknownPayload)), _) => {
            conflict("not_ready", "Not ready", "the payload is not stored for this session")
        }
        _ => Problem::invalid("the command plane can't take this"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{SessionId, StoreError, Unavailable};

    fn shown(error: Error) -> (u16, String, Option<String>) {
        let problem = of(error);
        (problem.status().as_u16(), problem.body().code.clone(), problem.body().reason.clone())
    }

    #[test]
    fn every_word_of_the_plane_has_its_status_and_is_the_reason() {
        let expected = |code: ErrorCode| match code {
            ErrorCode::Forbidden | ErrorCode::CreatesUnsupported => (403, "forbidden"),
            ErrorCode::Invalid | ErrorCode::BadPayload | ErrorCode::UnknownTarget => (400, "invalid"),
            ErrorCode::UnknownSession | ErrorCode::UnknownCommand | ErrorCode::UnknownHost => (404, "not_found"),
            ErrorCode::SessionClosed | ErrorCode::Late => (410, "expired"),
            ErrorCode::IdempotencyMismatch => (422, "conflict"),
            ErrorCode::RevisionConflict => (412, "conflict"),
            ErrorCode::InboxFull | ErrorCode::QuotaExceeded => (429, "capacity_exceeded"),
            ErrorCode::NotReady => (409, "not_ready"),
            ErrorCode::Overloaded => (503, "capacity_exceeded"),
            ErrorCode::Draining | ErrorCode::Unavailable => (503, "service_unavailable"),
            word @ (ErrorCode::LegacySessionUnsupported
            | ErrorCode::LeaseHeld
            | ErrorCode::LeaseLost
            | ErrorCode::ClaimLost
            | ErrorCode::AlreadySettled
            | ErrorCode::HostTaken) => (409, word.as_str()),
        };
        for code in ErrorCode::ALL {
            let (status, word, reason) = shown(Error::new(*code));
            assert_eq!((status, word.as_str()), expected(*code), "{code}");
            assert_eq!(reason.as_deref(), Some(code.as_str()));
            let answer = of_code(*code).into_answer();
            assert_eq!(answer.headers().contains_key("retry-after"), matches!(status, 429 | 503), "{code}");
        }
    }

    #[test]
    fn refusals_carry_what_the_caller_needs() {
        let moved = of(Refusal::RevisionMoved { current: Revision(7) }.into());
        assert_eq!(moved.body().current_version, Some(7));
        assert_eq!(moved.into_answer().headers()["etag"], "\"7\"");
        let quota = of(Refusal::QuotaExceeded { quota: Quota::Sessions, limit: 1 }.into());
        assert_eq!(quota.body().resource.as_deref(), Some("sessions"));
        let prepared =
            Error { code: ErrorCode::BadPayload, cause: Some(Cause::MissingPayload { session: SessionId(1) }) };
        let prepared = of(prepared);
        assert_eq!(prepared.body().session_id.as_deref(), Some(format!("{:032x}", 1).as_str()));
        assert_eq!((prepared.status().as_u16(), prepared.body().reason.as_deref()), (409, Some("unknown_payload")));
    }

    #[test]
    fn case_o2_what_went_wrong_in_the_store_is_never_shown() {
        for unknown in [true, false] {
            let cause = "password authentication failed for user rendezvous";
            let unavailable =
                if unknown { Unavailable::outcome_unknown(cause) } else { Unavailable::nothing_happened(cause) };
            let problem = of(StoreError::from(unavailable).into());
            assert_eq!(problem.body().outcome.is_some(), unknown);
            assert!(!format!("{:?}", problem.body()).contains("password"));
        }
    }
}
