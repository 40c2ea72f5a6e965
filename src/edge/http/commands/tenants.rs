//! What back ends and players ask for.

use super::{Commands, Poll, command_in, convert, problem, session_in};
use crate::admission::{
    CommandEntry, CreateRequest, GateResponseRequest, InputRequest, InterruptRequest, Principal, RequestKey,
    RestoreRequest, SessionId,
};
use crate::domain::SessionRef;
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::{IDEMPOTENCY_KEY, idempotency_key};
use crate::edge::http::problem::Problem;
use crate::wire::commands::{
    CommandAnswer, CreateSessionBody, CreatedAnswer, GateAnswer, GateItem, KindName, SendCommandBody,
};
use crate::wire::{FieldError, timestamp};
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use std::time::Duration;

/// The caller's key as the plane takes it: what the header allows, the plane does.
pub(super) fn request_key(text: &str) -> Result<RequestKey, Problem> {
    RequestKey::new(text).map_err(|error| Problem::invalid_header(&IDEMPOTENCY_KEY, &error.to_string()))
}

pub(super) async fn create(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (_, by) = edge.commander(commands, call)?;
    let key = request_key(&idempotency_key(call.headers())?)?;
    call.query()?;
    let body: CreateSessionBody = call.json(edge).await?;
    let read = |body: CreateSessionBody| -> Result<_, FieldError> {
        Ok(CreateRequest {
            key,
            agent: convert::profile(&body.profile)?,
            payload: convert::payload(body.payload)?,
            apply_within: convert::duration(body.apply_within_ms),
        })
    };
    let request = read(body).map_err(Problem::invalid_field)?;
    let (entry, created) = commands.plane.create(&by, request).await.map_err(problem::of)?;
    let command = admitted(commands, &by, &entry, created).await?;
    let body = CreatedAnswer { session_id: entry.session.to_string(), command };
    Ok(accepted(call, &entry, created, Answer::json(StatusCode::ACCEPTED, &body)))
}

pub(super) async fn send(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (_, by) = edge.commander(commands, call)?;
    let key = request_key(&idempotency_key(call.headers())?)?;
    call.query()?;
    let body: SendCommandBody = call.json(edge).await?;
    let session = session_in(call)?;
    let (entry, created) = sent(commands, &by, session, key, body).await?;
    let command = admitted(commands, &by, &entry, created).await?;
    Ok(accepted(call, &entry, created, Answer::json(StatusCode::ACCEPTED, &command)))
}

async fn sent(
    commands: &Commands,
    by: &Principal,
    session: SessionId,
    key: RequestKey,
    body: SendCommandBody,
) -> Result<(CommandEntry, bool), Problem> {
    let apply_within = convert::duration(body.apply_within_ms);
    let (plane, content) = (&commands.plane, || convert::payload(body.payload.clone()).map_err(Problem::invalid_field));
    let sent = match body.kind {
        KindName::GateResponse => {
            let answer = convert::gate_response(body.payload).map_err(Problem::invalid_field)?;
            let (attempt_id, admit) = answer;
            plane.gate_response(by, GateResponseRequest { session, key, attempt_id, admit, apply_within }).await
        }
        KindName::Interrupt => {
            plane.interrupt(by, InterruptRequest { session, key, payload: content()?, apply_within }).await
        }
        KindName::Restore => {
            plane.restore(by, RestoreRequest { session, key, payload: content()?, apply_within }).await
        }
        // The reader of the body takes no `create`.
        KindName::Input | KindName::Create => {
            plane.input(by, InputRequest { session, key, payload: content()?, apply_within }).await
        }
    };
    sent.map_err(problem::of)
}

/// The command as it is: what was admitted before may have come further, and claims that lapsed count no more.
async fn admitted(
    commands: &Commands,
    by: &Principal,
    entry: &CommandEntry,
    created: bool,
) -> Result<CommandAnswer, Problem> {
    if created {
        return Ok(convert::command(entry, convert::JUST_WRITTEN));
    }
    let view = commands.plane.command(by, entry.session, entry.seq, Duration::ZERO).await.map_err(problem::of)?;
    Ok(convert::command(&view.entry, view.read_at))
}

fn accepted(call: &Call<'_>, entry: &CommandEntry, created: bool, answer: Answer) -> Answer {
    let tenant = call.routed.tenant.unwrap_or_default();
    let path = format!("/v1/tenants/{tenant}/sessions/{}/commands/{}", entry.session, entry.seq);
    let answer = answer.replayed(!created).cache(Cache::PrivateNoStore);
    match HeaderValue::from_str(&path) {
        Ok(location) => answer.header(LOCATION, location),
        Err(_) => answer,
    }
}

pub(super) async fn command(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (_, by) = edge.commander(commands, call)?;
    let mut query = call.query()?;
    let poll = Poll::of(call, &mut query)?;
    let (session, seq) = (session_in(call)?, command_in(call)?);
    let released = commands.plane.polls_are_released();
    let asked = commands.plane.command(&by, session, seq, poll.wait(call));
    let view = poll.counted(edge, asked).await.map_err(problem::of)?;
    if !view.state.is_terminal() {
        poll.refuse_when_draining(edge, call, released)?;
    }
    Ok(poll.dress(answer(&convert::command(&view.entry, view.read_at))))
}

/// A command's answer with its revision.
pub(super) fn answer(command: &CommandAnswer) -> Answer {
    Answer::json(StatusCode::OK, command).etag(&format!("\"{}\"", command.revision)).cache(Cache::PrivateNoStore)
}

pub(super) async fn session(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (_, by) = edge.commander(commands, call)?;
    call.query()?;
    let view = commands.plane.session(&by, session_in(call)?).await.map_err(problem::of)?;
    let body = convert::session(&view.entry, view.owner.as_ref());
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

/// Who waits at the session's gate on this instance. The plane says whether the caller may know of the session.
pub(super) async fn gate(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, by) = edge.commander(commands, call)?;
    let mut query = call.query()?;
    let after = query.take_integer("after")?.unwrap_or(0);
    let poll = Poll::of(call, &mut query)?;
    let session = session_in(call)?;
    commands.plane.session(&by, session).await.map_err(problem::of)?;
    let asked = edge.service.session_gate(tenant, SessionRef(session.0), after, poll.wait(call));
    let items = poll.counted(edge, asked).await.map_err(|failure| call.failed(failure))?;
    let attempts = items.attempts.into_iter().map(|attempt| GateItem {
        attempt_id: attempt.id.to_string(),
        expires_at: timestamp(attempt.expires_at),
        joiner_payload: attempt.payload.map(|payload| payload.to_string()),
    });
    let body = GateAnswer { attempts: attempts.collect(), commit: items.commit };
    Ok(poll.dress(Answer::json(StatusCode::OK, &body).commit(items.commit).cache(Cache::PrivateNoStore)))
}
