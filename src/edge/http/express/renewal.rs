//! A renewal, from its request's bytes to the answer's.

use super::head::{finish, write_whole};
use super::request::RenewalRequest;
use super::{Answered, Express};
use crate::domain::{Failure, ListingId, MonoTime, Renewed, TenantId};
use crate::edge::http::answer::INSTANCE;
use crate::edge::http::auth::proven::Proven;
use crate::edge::http::auth::{Identity, bearer_token};
use crate::edge::http::connection::Connection;
use crate::edge::http::edge::Edge;
use crate::edge::http::handlers::{renew_answer, renew_request};
use crate::edge::http::headers::{is_lease_token, quoted_version};
use crate::edge::http::limiter::PrincipalBudget;
use crate::edge::http::problem::Problem;
use crate::edge::http::routes::RENEW_INDEX;
use crate::service::{Applied, Caller, RenewRequest};
use crate::wire::FromJson;
use crate::wire::request::RenewBody;
use hyper::{Method, StatusCode};
use std::sync::Arc;

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
    ) -> Option<Answered> {
        let edge = Arc::clone(&self.edge);
        let renewal = self.checked(&edge, request)?;
        let (listing, principal) = (renewal.listing, renewal.caller.principal.key);
        if let Some(limiter) = &edge.limiter {
            limiter.take_principal(PrincipalBudget::KeepAlives, principal, now).ok()?;
        }
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
        connection.end_request();
        Some(Answered { index: RENEW_INDEX, method: Method::POST, status })
    }

    /// Everything that the long way looks at before it asks the store.
    fn checked<'r>(&mut self, edge: &Edge, request: &RenewalRequest<'r>) -> Option<Renewal<'r>> {
        let (tenant, _) = edge.auth.tenant(request.tenant)?;
        let listing = ListingId::parse(request.listing)?;
        let lease_token = Some(request.lease_token).filter(|text| is_lease_token(text))?;
        let version = quoted_version(request.if_match)?;
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
                let answer = Problem::from_failure(failure, now).into_answer();
                let answer = answer.header(INSTANCE, edge.instance().clone()).commit(edge.service.last_commit());
                write_whole(&mut self.head, &answer, date);
                answer.status()
            }
        }
    }
}
