//! `application/problem+json` to [`Problem`].

use super::{Answer, SessionId};
use crate::client::error::{Code, Error, Problem};
use hyper::header;
use serde::Deserialize;
use std::time::Duration;

/// Longest wait that `Retry-After` can ask for; a longer one is a mistake or a wish to be rid of us.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
struct Body {
    code: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    current_version: Option<u64>,
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    errors: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    #[serde(default)]
    pointer: String,
    #[serde(default)]
    detail: String,
}

/// Any answer that isn't a success, as an error. What isn't a problem document didn't come from a rendezvous server.
pub(super) fn read(request: &str, answer: &Answer) -> Error {
    let Ok(body) = serde_json::from_slice::<Body>(&answer.body) else {
        return Error::Malformed {
            request: request.to_owned(),
            detail: format!("expected a problem document, came status {}", answer.status.as_u16()),
        };
    };
    Error::Refused(Box::new(Problem {
        status: answer.status.as_u16(),
        code: Code::parse(&body.code),
        detail: body.detail.unwrap_or_default(),
        reason: body.reason,
        current_version: body.current_version,
        resource: body.resource,
        session: body.session_id.as_deref().and_then(SessionId::parse),
        retry_after: retry_after(answer),
        fields: body.errors.into_iter().map(|field| (field.pointer, field.detail)).collect(),
    }))
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds: u64 = answer.header(&header::RETRY_AFTER)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
