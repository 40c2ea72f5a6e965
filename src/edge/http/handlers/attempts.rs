//! Join attempts, from both sides.

use super::convert;
use crate::credentials::REALM;
use crate::domain::{AttemptId, AttemptState, Endpoint, Path};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::{idempotency_key, lease_token, wait_ms};
use crate::edge::http::problem::Problem;
use crate::edge::http::query::Query;
use crate::edge::http::registry::MayWait;
use crate::service::{AttemptGrant, AttemptRequest, AttemptStatus, HostOffer};
use crate::wire::request::{AdmissionBody, AttemptBody, OutcomeBody, PathName};
use crate::wire::response::{AttemptAnswer, AttemptStateAnswer, OfferAnswer, OffersAnswer};
use crate::wire::{FieldError, timestamp};
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use std::time::Duration;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

pub(super) async fn create(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let key = idempotency_key(call.headers())?;
    call.query()?;
    let body: AttemptBody = call.json(edge).await?;
    let read = |body: AttemptBody| -> Result<_, FieldError> {
        let protocol = body.protocol.map(|text| convert::scope(by.tenant, &text)).transpose()?;
        Ok((protocol, convert::candidates(&body.candidates)?, convert::payload(body.payload)?))
    };
    let (scope, candidates, payload) = read(body).map_err(Problem::invalid_field)?;
    let protocol = scope.map(|scope| scope.protocol);
    let request = AttemptRequest { listing: call.listing()?, protocol, candidates, payload };
    let created = edge.service.create_attempt(&by.caller, &key, request).await;
    let applied = created.map_err(|failure| call.failed(failure))?;
    let status = if applied.replayed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Answer::json(status, &grant(applied.value))
        .replayed(applied.replayed)
        .commit(applied.commit)
        .cache(Cache::PrivateNoStore))
}

fn grant(grant: AttemptGrant) -> AttemptAnswer {
    AttemptAnswer {
        attempt_id: grant.attempt.to_string(),
        expires_at: timestamp(grant.expires_at),
        bind: convert::credential(grant.bind),
        peer_key: grant.peer_key,
        realm: REALM.to_owned(),
        stun: grant.stun.to_vec(),
        turn: convert::turn(grant.turn),
    }
}

/// How long a poll may wait, and after which commit.
struct Poll {
    after: Option<u64>,
    wait_ms: u64,
    preferred: bool,
}

fn poll(call: &Call<'_>, mut query: Query) -> Result<Poll, Problem> {
    let after = query.take_integer("after")?;
    let (wait_ms, preferred) = wait_ms(call.headers(), query.take_integer("wait_ms")?);
    Ok(Poll { after, wait_ms, preferred })
}

impl Poll {
    fn wait<'c>(&self, call: &Call<'c>) -> MayWait<'c> {
        call.link.admission.may_wait(Duration::from_millis(self.wait_ms))
    }

    fn dress(&self, answer: Answer) -> Answer {
        if !self.preferred {
            return answer;
        }
        answer.header(PREFERENCE_APPLIED, applied_wait(self.wait_ms))
    }
}

fn applied_wait(wait_ms: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("wait={}", wait_ms / 1_000)).unwrap_or(HeaderValue::from_static("wait"))
}

pub(super) async fn offers(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let token = lease_token(call.headers())?;
    let poll = poll(call, call.query()?)?;
    let listing = call.listing()?;
    let may_wait = (poll.wait_ms > 0).then(|| edge.metrics.long_poll());
    let after = poll.after.unwrap_or(0);
    let offers = edge.service.host_offers(&by.caller, listing, token, after, poll.wait(call)).await;
    drop(may_wait);
    let offers = offers.map_err(|failure| call.failed(failure))?;
    let body = OffersAnswer {
        attempts: offers.attempts.into_iter().map(offer).collect(),
        commit: offers.commit,
        ended: offers.ended.is_some(),
        reason: offers.ended.map(|end| end.name().to_owned()),
    };
    Ok(poll.dress(Answer::json(StatusCode::OK, &body).commit(offers.commit).cache(Cache::PrivateNoStore)))
}

fn offer(offer: HostOffer) -> OfferAnswer {
    OfferAnswer {
        attempt_id: offer.pending.id.to_string(),
        expires_at: timestamp(offer.pending.expires_at),
        joiner_payload: offer.pending.payload.map(|payload| payload.to_string()),
        gated: offer.pending.gated,
        bind: convert::credential(offer.bind),
        peer_key: offer.peer_key,
        turn: convert::turn(offer.turn),
    }
}

pub(super) async fn read(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let poll = poll(call, call.query()?)?;
    let attempt = call.attempt()?;
    let waits = poll.wait_ms > 0 && poll.after.is_some();
    let may_wait = waits.then(|| edge.metrics.long_poll());
    let status = edge.service.attempt(&by.caller, attempt, poll.after, poll.wait(call)).await;
    drop(may_wait);
    let status = status.map_err(|failure| call.failed(failure))?;
    let commit = status.commit;
    let body = view(attempt, status);
    Ok(poll.dress(Answer::json(StatusCode::OK, &body).commit(commit).cache(Cache::PrivateNoStore)))
}

fn view(attempt: AttemptId, status: AttemptStatus) -> AttemptStateAnswer {
    let shown = |endpoints: &[Endpoint]| endpoints.iter().map(|endpoint| endpoint.address().to_string()).collect();
    let mut answer = AttemptStateAnswer {
        attempt_id: attempt.to_string(),
        state: String::new(),
        reason: None,
        expires_at: None,
        own: Vec::new(),
        peer: None,
        commit: status.commit,
        turn: convert::turn(status.turn),
    };
    match status.state {
        AttemptState::Waiting { own, expires_at } => {
            "waiting".clone_into(&mut answer.state);
            answer.own = shown(&own);
            answer.expires_at = Some(timestamp(expires_at));
        }
        AttemptState::Introduced { own, peers, expires_at, introduction: _ } => {
            "introduced".clone_into(&mut answer.state);
            answer.own = shown(&own);
            answer.peer = Some(shown(&peers));
            answer.expires_at = Some(timestamp(expires_at));
        }
        AttemptState::Ended(reason) => {
            reason.state().clone_into(&mut answer.state);
            answer.reason = Some(reason.reason().to_owned());
        }
    }
    answer
}

pub(super) async fn close(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    call.query()?;
    let () = call.json(edge).await?;
    let closed = edge.service.close_attempt(&by.caller, call.attempt()?).await;
    let applied = closed.map_err(|failure| call.failed(failure))?;
    Ok(Answer::empty(StatusCode::NO_CONTENT).commit(applied.commit))
}

pub(super) async fn answer_gate(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    let token = lease_token(call.headers())?;
    call.query()?;
    let body: AdmissionBody = call.json(edge).await?;
    let answered = edge.service.answer_gate(&by.caller, call.attempt()?, token, body.admit).await;
    let applied = answered.map_err(|failure| call.failed(failure))?;
    Ok(Answer::empty(StatusCode::NO_CONTENT).commit(applied.commit))
}

pub(super) async fn report_path(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let by = edge.principal(call)?;
    call.query()?;
    let body: OutcomeBody = call.json(edge).await?;
    let path = match body.path {
        PathName::Direct => Path::Direct,
        PathName::Relayed => Path::Relayed,
        PathName::Failed => Path::Failed,
    };
    let reported = edge.service.report_path(&by.caller, call.attempt()?, path).await;
    let applied = reported.map_err(|failure| call.failed(failure))?;
    edge.metrics.reported(path, applied.value);
    Ok(Answer::empty(StatusCode::NO_CONTENT).commit(applied.commit))
}
