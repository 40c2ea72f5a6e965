//! The command plane, as back ends and players ask for it.

use super::session_types::{
    CommandRequest, CommandView, GateView, SessionCreate, SessionCreated, SessionId, SessionView,
};
use super::transport::{Body, encode_body};
use super::{Call, Carried, Directory, IDEMPOTENCY_KEY, digest};
use crate::client::error::{Code, Error};
use bytes::Bytes;
use std::time::Duration;

/// Longest content that goes inline, as the server has it.
const INLINE_MAX: usize = 32 << 10;
/// Longest text as JSON that goes as it is: a request has 48 KiB.
const TEXT_MAX: usize = 40 << 10;

impl Directory {
    /// Asks for a session; the answer is durable. Repeat it with the same key until one comes: it is the same session.
    ///
    /// A content that is too long for the request is stored first, under the same key.
    pub async fn create_session(&self, create: &SessionCreate, key: &str) -> Result<SessionCreated, Error> {
        let (inline, content) = apart(&create.payload);
        let create = SessionCreate { payload: inline, ..create.clone() };
        match self.post_session(&create, key).await {
            // The first step is done: the session's id is taken, and waits for its content.
            Err(Error::Refused(problem)) if problem.code == Code::NotReady => {
                let (Some(content), Some(session)) = (content, problem.session) else {
                    return Err(Error::Refused(problem));
                };
                self.put_content(session, &content, Some(key)).await?;
                self.post_session(&create, key).await
            }
            answer => answer,
        }
    }

    async fn post_session(&self, create: &SessionCreate, key: &str) -> Result<SessionCreated, Error> {
        let body = encode_body("POST sessions", create)?;
        let call = Call::post("/sessions".into(), body).header(IDEMPOTENCY_KEY, key);
        self.send(call).await?.json("POST sessions")
    }

    /// Sends a session a command; the answer is durable. Repeat it with the same key until one comes. A content that is too
    /// long for the request is stored first.
    pub async fn send_command(
        &self,
        session: SessionId,
        command: &CommandRequest,
        key: &str,
    ) -> Result<CommandView, Error> {
        let (payload, content) = apart(&command.payload);
        if let Some(content) = content {
            self.put_content(session, &content, None).await?;
        }
        let body = encode_body("POST commands", &CommandRequest { payload, ..command.clone() })?;
        let call = Call::post(format!("/sessions/{session}/commands"), body).header(IDEMPOTENCY_KEY, key);
        self.send(call).await?.json("POST commands")
    }

    /// A command, as a long poll for its end: after `wait` (30 s at most) the answer is the state as it is.
    pub async fn command(&self, session: SessionId, command: u64, wait: Duration) -> Result<CommandView, Error> {
        let path = format!("/sessions/{session}/commands/{command}?wait_ms={}", wait.as_millis());
        self.send(Call::get(path).waiting(wait)).await?.json("GET command")
    }

    /// A session, and who runs it.
    pub async fn session(&self, session: SessionId) -> Result<SessionView, Error> {
        self.send(Call::get(format!("/sessions/{session}"))).await?.json("GET session")
    }

    /// Stores a content, up to 8 MiB, that commands of the session refer to as [`Carried::Stored`] by the digest that is
    /// given back.
    pub async fn put_payload(&self, session: SessionId, content: Bytes) -> Result<String, Error> {
        self.put_content(session, &content, None).await
    }

    async fn put_content(&self, session: SessionId, content: &Bytes, key: Option<&str>) -> Result<String, Error> {
        let sha256 = digest(content);
        let path = format!("/sessions/{session}/payloads/{sha256}");
        let mut call = Call::put(path, Body::Octets(content.clone()));
        call.headers.extend(key.map(|key| (IDEMPOTENCY_KEY, key)));
        self.send(call).await?;
        Ok(sha256)
    }

    /// Who waits at the session's gate, as a long poll: answers when there is somebody newer than `after`.
    /// `after` is the last answer's `commit`, which belongs to the server's instance while the session outlives it: after a
    /// restart begin with 0 again. A number that the new instance has not reached is refused with reason `future_commit`.
    pub async fn gate(&self, session: SessionId, after: u64, wait: Duration) -> Result<GateView, Error> {
        let path = format!("/sessions/{session}/gate?after={after}&wait_ms={}", wait.as_millis());
        self.send(Call::get(path).waiting(wait)).await?.json("GET gate")
    }
}

/// What goes into the request, and what has to be stored beside it.
fn apart(carried: &Carried) -> (Carried, Option<Bytes>) {
    let content = match carried {
        Carried::Bytes(bytes) => bytes.clone(),
        Carried::Json(value) if value.to_string().len() <= INLINE_MAX => return (carried.clone(), None),
        Carried::Json(value) => Bytes::from(value.to_string()),
        // Escapes may make a text several times as long.
        Carried::Text(text)
            if text.len() <= INLINE_MAX && serde_json::to_string(text).is_ok_and(|json| json.len() <= TEXT_MAX) =>
        {
            return (carried.clone(), None);
        }
        Carried::Text(text) => Bytes::from(text.clone()),
        Carried::Nothing | Carried::Stored(_) => return (carried.clone(), None),
    };
    if content.len() > INLINE_MAX {
        (Carried::Stored(digest(&content)), Some(content))
    } else {
        (Carried::Bytes(content), None)
    }
}
