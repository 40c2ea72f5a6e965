//! The command plane as a back end uses it: sessions that are asked for before the load, inputs that are the load.

use super::Player;
use super::host::{IDEMPOTENCY_KEY, bearer};
use crate::client::http::{SessionCreated, SessionId};
use crate::load::generate::http::Ask;
use crate::load::generate::tally::Outcome;
use bytes::Bytes;
use hyper::{Method, StatusCode, header};

/// Nobody applies the load: so soon it expires, and makes room in its session's inbox. The server's shortest.
const APPLY_WITHIN_MS: u64 = 100;
/// A session lives for as long as its create may still be applied: longer than any load.
const SESSION_WITHIN_MS: u64 = 86_400_000;
/// What an input carries: as much as a map change with its settings.
const INPUT_BYTES: usize = 200;

/// The body of every input.
pub(super) fn input() -> Bytes {
    let payload = "x".repeat(INPUT_BYTES);
    Bytes::from(format!(r#"{{"kind":"input","payload":"{payload}","apply_within_ms":{APPLY_WITHIN_MS}}}"#))
}

impl Player {
    /// Asks for a session, under a new key.
    pub(in super::super) async fn create_session(&mut self, profile: &str) -> Result<Outcome, Outcome> {
        let body = serde_json::json!({ "profile": profile, "apply_within_ms": SESSION_WITHIN_MS }).to_string();
        let path = format!("{}/sessions", self.base);
        let answer = self.admit(&path, body.into()).await?;
        let created: SessionCreated = serde_json::from_slice(&answer).map_err(|_| Outcome::Unexpected)?;
        self.sessions.push(created.session_id);
        Ok(Outcome::Done)
    }

    /// Sends an input to the session whose turn it is. The answer says that it is durable.
    pub(super) async fn command_next(&mut self) -> Result<Outcome, Outcome> {
        self.turn = (self.turn + 1) % self.sessions.len().max(1);
        let session: SessionId = *self.sessions.get(self.turn).ok_or(Outcome::Unexpected)?;
        let path = format!("{}/sessions/{session}/commands", self.base);
        let body = self.input.clone();
        self.admit(&path, body).await.map(|_| Outcome::Done)
    }

    async fn admit(&mut self, path: &str, body: Bytes) -> Result<Bytes, Outcome> {
        let (bearer, key) = (bearer(self.identity.host.expose()), self.entropy.key());
        let headers = [(header::AUTHORIZATION, bearer.as_str()), (IDEMPOTENCY_KEY, key.as_str())];
        let answer = self.connection.ask(Ask { method: Method::POST, path, headers: &headers, body }).await?;
        if answer.status == StatusCode::ACCEPTED { Ok(answer.body) } else { Err(Outcome::Unexpected) }
    }
}
