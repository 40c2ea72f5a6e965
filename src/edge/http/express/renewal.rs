//! A renewal, from its request's bytes to the answer's.

use super::Express;
use super::head::{finish, write_whole};
use super::request::RenewalRequest;
use crate::domain::{Failure, ListingId, MonoTime, Renewed, TenantId};
use crate::edge::http::auth::proven::Proven;
use crate::edge::http::auth::{Identity, bearer_token};
use crate::edge::http::connection::Connection;
use crate::edge::http::edge::Edge;
use crate::edge::http::handlers::{renew_answer, renew_request};
use crate::edge::http::headers::{is_lease_token, quoted_version};
use crate::edge::http::limiter::{Limiter, PrincipalBudget};
use crate::edge::http::problem::Problem;
use crate::edge::http::routes::RENEW_INDEX;
use crate::service::{Applied, Caller, RenewRequest};
use crate::wire::FromJson;
use crate::wire::request::RenewBody;
use hyper::StatusCode;
use std::sync::Arc;

/// Renewals of a connection that are looked at once, the long way, after one that the edge refused: that one's token was
/// checked both ways, and whoever sends such ones may go on.
const SPARED: u8 = 7;
/// A body's memory up to this stays with the connection: most renewals have less, and most connections are idle.
const KEPT_BYTES_MAX: usize = 512;

/// A renewal that nothing but the store can refuse.
struct Renewal<'r> {
    caller: Caller,
    listing: ListingId,
    lease_token: &'r str,
    request: RenewRequest,
}

impl Express {
    /// Renews, where the lane is free, and prepares the store's answer.
    pub(super) fn renew(
        &mut self,
        request: &RenewalRequest<'_>,
        connection: &Connection,
        now: MonoTime,
    ) -> Option<StatusCode> {
        if self.spared > 0 {
            self.spared -= 1;
            return None;
        }
        let edge = Arc::clone(&self.edge);
        let granted = self.checked(&edge, request).filter(|renewal| {
            let principal = renewal.caller.principal.key;
            let charge =
                |limiter: &Limiter| limiter.take_principal(PrincipalBudget::KeepAlives, principal, now).is_ok();
            edge.limiter.as_ref().is_none_or(charge)
        });
        let Some(renewal) = granted else {
            self.spared = SPARED;
            return None;
        };
        let (listing, principal) = (renewal.listing, renewal.caller.principal.key);
        // Begun before the store is asked: a connection that makes room for another one renews nothing.
        let answer = connection.begin_request().and_then(|_number| {
            let Renewal { caller, lease_token, request, .. } = renewal;
            let answer = edge.service.renew_at_once(&caller, listing, lease_token, request);
            if answer.is_none() {
                connection.take_back_request();
            }
            answer
        });
        let Some(answer) = answer else {
            if let Some(limiter) = &edge.limiter {
                limiter.put_back_principal(PrincipalBudget::KeepAlives, principal);
            }
            return None;
        };
        let status = self.write_answer(&edge, listing, answer, now);
        if self.body.capacity() > KEPT_BYTES_MAX {
            self.body = Vec::new();
        }
        connection.end_request();
        Some(status)
    }

    /// Everything that the long way looks at before it asks the store.
    fn checked<'r>(&mut self, edge: &Edge, request: &RenewalRequest<'r>) -> Option<Renewal<'r>> {
        let (tenant, _) = edge.auth.tenant(request.tenant)?;
        let listing = ListingId::parse(request.listing)?;
        let lease_token = Some(request.lease_token).filter(|text| is_lease_token(text))?;
        let version = quoted_version(request.if_match)?;
        if request.body.len() > edge.limits.body_bytes {
            return None;
        }
        self.body.clear();
        self.body.extend_from_slice(request.body);
        let body = RenewBody::from_body(&mut self.body).ok()?;
        let caller = self.caller(edge, tenant, bearer_token(request.authorization)?)?;
        let request = renew_request(edge, version, body).ok()?;
        Some(Renewal { caller, listing, lease_token, request })
    }

    /// The principal of `tenant` behind this token.
    fn caller(&mut self, edge: &Edge, tenant: TenantId, token: &str) -> Option<Caller> {
        let now = edge.now();
        if let Some(caller) = self.proven.as_ref().and_then(|proven| proven.caller(token, tenant, now)) {
            return Some(caller);
        }
        let identity = edge.auth.identify_by(token, Some(tenant), now).ok()?;
        let Identity::Principal { tenant: of, name, guest, good, .. } = identity else { return None };
        if of != tenant {
            return None;
        }
        let caller =
            Caller { principal: edge.service.principal(tenant, &name), guest_source: guest.then_some(self.client) };
        self.proven = Some(Proven::new(token, tenant, caller, good));
        Some(caller)
    }

    fn write_answer(
        &mut self,
        edge: &Edge,
        listing: ListingId,
        answer: Result<Applied<Renewed>, Failure>,
        now: MonoTime,
    ) -> StatusCode {
        let date = self.date.at(now, || edge.now().wall);
        match answer {
            Ok(applied) => {
                let answer = renew_answer(listing, applied.value);
                self.body.clear();
                // The shape has nothing in it that could fail.
                let _ = serde_json::to_writer(&mut self.body, &answer);
                edge.heads.begin_renewal(&mut self.head, self.body.len());
                let mut version = itoa::Buffer::new();
                let tag = ["\"", version.format(answer.version), "\""];
                finish(&mut self.head, &tag, applied.commit, date);
                self.head.extend_from_slice(&self.body);
                StatusCode::OK
            }
            Err(failure) => {
                let answer = edge.with_instance(Problem::from_failure(failure, now).into_answer(), Some(RENEW_INDEX));
                write_whole(&mut self.head, &answer, date);
                answer.status()
            }
        }
    }
}
