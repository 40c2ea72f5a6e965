//! Guests: players of games without accounts.

use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::auth::guest::GUEST_PREFIX;
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::problem::Problem;
use crate::wire::response::GuestAnswer;
use crate::wire::timestamp;
use hyper::StatusCode;

/// A new guest; or the one whose token was sent, with a new token.
pub(super) async fn create(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, renewed) = edge.guest(call)?;
    call.query()?;
    let () = call.json(edge).await?;
    let known = renewed.as_deref().and_then(|name| u128::from_str_radix(name.strip_prefix(GUEST_PREFIX)?, 16).ok());
    let (status, id) = match known {
        Some(id) => (StatusCode::OK, id),
        None => (StatusCode::CREATED, new_id()?),
    };
    let tokens = edge.auth.guests();
    let body = GuestAnswer {
        principal: format!("{GUEST_PREFIX}{id:032x}"),
        token: tokens.issue(tenant, id, call.now.mono),
        expires_at: timestamp(call.now.wall.plus_ms(tokens.ttl_ms())),
    };
    Ok(Answer::json(status, &body).cache(Cache::PrivateNoStore))
}

fn new_id() -> Result<u128, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Problem::unavailable("the server has no entropy now"))?;
    Ok(u128::from_be_bytes(bytes))
}
