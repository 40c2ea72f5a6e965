//! One request on its way through the edge's checks, in the order of the contract: route, method, tenant, token, kind;
//! headers and body are the handlers', and the store decides the rest.

use super::auth::host::HostCredential;
use super::auth::{AuthError, Identity, Now};
use super::body::{BodyLimits, read_json};
use super::connection::Connection;
use super::edge::Edge;
use super::limiter::{HostBudget, PrincipalBudget, Wait};
use super::problem::Problem;
use super::query::Query;
use super::registry::Admission;
use super::routes::{CallerKind, Endpoint, Routed};
use super::settings::{BrowsePolicy, TenantSettings};
use crate::domain::{AttemptId, Failure, ListingId, Principal, Source, TenantId};
use crate::service::Caller;
use crate::service::view::Availability;
use crate::wire::FromJson;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use std::net::IpAddr;
use std::sync::Arc;

/// The connection that a request came on.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: Arc<Connection>,
    pub(super) admission: Arc<Admission>,
    /// The other end of the socket, or whom a trusted proxy said it speaks for: a client, or a proxy.
    pub(super) peer: IpAddr,
    /// Nobody on the way can read along: TLS, this machine, or a trusted proxy, whose operator has seen to it.
    pub(super) confidential: bool,
}

/// A routed request.
pub(super) struct Call<'r> {
    pub(super) parts: &'r Parts,
    pub(super) routed: Routed<'r>,
    pub(super) link: &'r Link,
    /// The request's number on its connection.
    pub(super) number: u64,
    /// The client's address, as far as the proxies in between are trusted.
    pub(super) client: IpAddr,
    pub(super) now: Now,
    pub(super) body: Option<Incoming>,
}

/// A request to one tenant by one of its principals.
#[derive(Clone, Debug)]
pub(super) struct PrincipalCall {
    pub(super) tenant: TenantId,
    pub(super) caller: Caller,
    /// The position of the host credential, when it is one.
    pub(super) host: Option<usize>,
}

impl<'r> Call<'r> {
    pub(super) fn headers(&self) -> &'r HeaderMap {
        &self.parts.headers
    }

    /// The query parameters; unknown ones are refused.
    pub(super) fn query(&self) -> Result<Query<'r>, Problem> {
        Query::parse(self.parts.uri.query(), self.routed.route.query)
    }

    /// The body as `T`; routes say whether it may be missing.
    pub(super) async fn json<T: FromJson>(&mut self, edge: &Edge) -> Result<T, Problem> {
        // Mutations take no query parameters but where their row says so.
        let required = self.routed.route.body.is_some_and(|(_, required)| required);
        let bytes = self.routed.route.body_bytes.unwrap_or(edge.limits.body_bytes);
        let limits = BodyLimits { bytes, time: edge.limits.body_timeout };
        let Some(body) = self.body.take() else { return T::from_body(&mut []).map_err(Problem::invalid_field) };
        read_json(&self.parts.headers, body, limits, required, (&self.link.connection, self.number)).await
    }

    /// The listing in the path. An id of the wrong shape is simply not found.
    pub(super) fn listing(&self) -> Result<ListingId, Problem> {
        self.routed.id.and_then(ListingId::parse).ok_or_else(Problem::not_found)
    }

    /// The attempt in the path.
    pub(super) fn attempt(&self) -> Result<AttemptId, Problem> {
        self.routed.id.and_then(AttemptId::parse).ok_or_else(Problem::not_found)
    }

    pub(super) fn failed(&self, failure: Failure) -> Problem {
        Problem::from_failure(failure, self.now.mono)
    }
}

impl Edge {
    /// After the drain deadline everything but health, metrics and the operator's status is `draining`.
    pub(super) fn refuse_after_drain(&self, call: &Call<'_>) -> Result<(), Problem> {
        let exempt = matches!(
            call.routed.route.endpoint,
            Endpoint::Live | Endpoint::Ready | Endpoint::Metrics | Endpoint::Status
        );
        match self.service.availability() {
            Availability::Draining { deadline, wall } if !exempt && deadline.is_past(call.now.mono) => {
                Err(Problem::draining(deadline, wall, call.now.mono))
            }
            Availability::Draining { .. } | Availability::Available | Availability::Unavailable => Ok(()),
        }
    }

    /// The tenant in the path, after the source's budget for this route has been charged.
    pub(super) fn tenant(&self, call: &Call<'_>) -> Result<(TenantId, &TenantSettings), Problem> {
        let found = call.routed.tenant.and_then(|name| self.auth.tenant(name)).ok_or_else(Problem::not_found)?;
        if let (Some(limiter), Some(budget)) = (&self.limiter, call.routed.route.source_budget) {
            let charged = limiter.take_source(budget, Source::of(call.client), call.now.mono);
            charged.map_err(|wait| self.rate_limited(call, wait))?;
        }
        Ok(found)
    }

    fn rate_limited(&self, call: &Call<'_>, wait: Wait) -> Problem {
        self.metrics.rate_limited(call.routed.index);
        Problem::rate_limited(wait)
    }

    /// The identity behind the token, for a route of a tenant. A good token of another tenant sees no tenant here.
    pub(super) fn identity_in(&self, call: &Call<'_>, tenant: TenantId) -> Result<Identity, Problem> {
        let identity = self.auth.identify(call.headers(), Some(tenant), call.now)?;
        match &identity {
            // Tokens end by themselves; keys don't.
            Identity::Host(_) | Identity::Operator => self.refuse_plain_key(call)?,
            Identity::Principal { .. } => {}
        }
        match &identity {
            Identity::Principal { tenant: of, .. } if *of != tenant => Err(Problem::not_found()),
            Identity::Host(position) if !self.auth.host(*position).is_some_and(|host| host.serves(tenant)) => {
                Err(Problem::not_found())
            }
            Identity::Principal { .. } | Identity::Host(_) | Identity::Operator => Ok(identity),
        }
    }

    /// A principal of the tenant in the path, its own budget charged.
    pub(super) fn principal(&self, call: &Call<'_>) -> Result<PrincipalCall, Problem> {
        let (tenant, _) = self.tenant(call)?;
        let identity = self.identity_in(call, tenant)?;
        let (name, guest, host) = match &identity {
            Identity::Principal { name, guest, .. } => (name.as_str(), *guest, None),
            // A host registers the listings of its sessions like any other principal.
            Identity::Host(position) => {
                (self.auth.host(*position).map_or("", HostCredential::name), false, Some(*position))
            }
            Identity::Operator => {
                return Err(Problem::forbidden("this route is for principals of the tenant, not for operators"));
            }
        };
        let principal = self.service.principal(tenant, name);
        match (host, call.routed.route.principal_budget) {
            // A credential speaks for as many sessions as its hosts run.
            (Some(position), Some(PrincipalBudget::KeepAlives)) => {
                self.charge_host(call, position, HostBudget::KeepAlives)?;
            }
            (Some(position), Some(PrincipalBudget::Reads)) => self.charge_host(call, position, HostBudget::Calls)?,
            _ => self.charge(call, principal)?,
        }
        let guest_source = guest.then(|| Source::of(call.client));
        Ok(PrincipalCall { tenant, caller: Caller { principal, guest_source }, host })
    }

    /// Charges the principal's budget for this route.
    pub(super) fn charge(&self, call: &Call<'_>, principal: Principal) -> Result<(), Problem> {
        let (Some(limiter), Some(budget)) = (&self.limiter, call.routed.route.principal_budget) else { return Ok(()) };
        let charged = limiter.take_principal(budget, principal.key, call.now.mono);
        charged.map_err(|wait| self.rate_limited(call, wait))
    }

    /// Charges the host credential at this position.
    pub(super) fn charge_host(&self, call: &Call<'_>, position: usize, budget: HostBudget) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let charged = limiter.take_host(budget, position, call.now.mono);
        charged.map_err(|wait| self.rate_limited(call, wait))
    }

    /// A key is a secret that lasts, so it is not taken where somebody on the way can read it, unless the configuration says
    /// so.
    pub(super) fn refuse_plain_key(&self, call: &Call<'_>) -> Result<(), Problem> {
        if call.link.confidential || self.plain_keys {
            return Ok(());
        }
        let detail = "keys of operators and hosts are taken over TLS, from this machine or from a trusted proxy only";
        Err(Problem::forbidden(detail).reason("plain_http"))
    }

    /// The tenant in the path, for someone who may browse it.
    pub(super) fn browsable(&self, call: &Call<'_>) -> Result<(TenantId, &TenantSettings), Problem> {
        let (tenant, settings) = self.tenant(call)?;
        match settings.browse {
            BrowsePolicy::Public => {}
            BrowsePolicy::Principal => match self.identity_in(call, tenant)? {
                Identity::Principal { .. } | Identity::Host(_) => {}
                Identity::Operator => {
                    return Err(Problem::forbidden("this tenant is browsed by its principals only"));
                }
            },
        }
        Ok((tenant, settings))
    }

    /// The tenant in the path where guests are allowed, and the guest who wants a new token, if one does.
    pub(super) fn guest(&self, call: &Call<'_>) -> Result<(TenantId, Option<String>), Problem> {
        let (tenant, settings) = self.tenant(call)?;
        let renewed = if call.headers().contains_key(AUTHORIZATION) {
            match self.identity_in(call, tenant)? {
                Identity::Principal { name, guest: true, .. } => Some(name),
                Identity::Principal { .. } | Identity::Host(_) | Identity::Operator => {
                    return Err(Problem::forbidden("only a guest's token can be renewed here"));
                }
            }
        } else {
            None
        };
        if !settings.guests {
            return Err(Problem::forbidden("this tenant takes no guests"));
        }
        Ok((tenant, renewed))
    }

    /// The same for a route where only keys are of use: before the key is looked at, so that nothing is learnt about one that
    /// must not be sent this way.
    pub(super) fn refuse_unseen_plain_key(&self, call: &Call<'_>) -> Result<(), Problem> {
        if call.headers().contains_key(AUTHORIZATION) { self.refuse_plain_key(call) } else { Ok(()) }
    }

    /// Refuses everyone but operators.
    pub(super) fn operator(&self, call: &Call<'_>) -> Result<(), Problem> {
        debug_assert_eq!(call.routed.route.caller, CallerKind::Operator);
        self.refuse_unseen_plain_key(call)?;
        match self.auth.identify(call.headers(), None, call.now) {
            Ok(Identity::Operator) => Ok(()),
            Ok(Identity::Principal { .. } | Identity::Host(_)) => {
                Err(Problem::forbidden("this route is for operators"))
            }
            Err(error @ (AuthError::Missing | AuthError::Invalid | AuthError::StaleInstance)) => Err(error.into()),
        }
    }
}
