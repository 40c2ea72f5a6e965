//! What a server says of itself to anybody: whether it takes something new, which life of it answers, and its clock.

use super::transport::Call;
use super::{Directory, INSTANCE, problem};
use crate::client::error::Error;
use crate::domain::InstanceId;
use hyper::{StatusCode, header};
use serde::Deserialize;
use std::time::UNIX_EPOCH;

/// Answer of `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerHealth {
    /// `ok`, `draining` or `unavailable`.
    pub status: String,
    /// In words.
    pub reason: String,
    /// RFC 3339, once drain has begun.
    #[serde(default)]
    pub drain_deadline: Option<String>,
    /// The instance that answered.
    #[serde(skip)]
    pub instance: Option<InstanceId>,
    /// The `Date` header, in milliseconds since 1970: the second in which the server answered.
    #[serde(skip)]
    pub date_ms: Option<u64>,
}

impl Directory {
    /// Whether the server takes something new. One that does not is an answer, no error.
    ///
    /// # Errors
    /// As every call; [`Error::Malformed`] when something else than a rendezvous server answers.
    pub async fn health(&self) -> Result<ServerHealth, Error> {
        const REQUEST: &str = "GET /readyz";
        let answer = self.transport.send_any("", Call::get("/readyz".into())).await?;
        let Some(instance) = answer.instance() else {
            let detail = format!("expected a {INSTANCE} header, came status {} without", answer.status.as_u16());
            return Err(Error::Malformed { request: REQUEST.to_owned(), detail });
        };
        // 503 is how a server says that it drains; what else it may say is no answer to this question.
        if ![StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status) {
            return Err(problem::read(REQUEST, &answer));
        }
        let mut health: ServerHealth = answer.json(REQUEST)?;
        health.instance = Some(instance);
        health.date_ms = answer.header(&header::DATE).and_then(date_ms);
        Ok(health)
    }
}

/// An HTTP date (RFC 9110 section 5.6.7).
fn date_ms(text: &str) -> Option<u64> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
