//! The command plane's endpoints: who may, what they ask, and what they are told. Everything else the plane decides.

mod convert;
mod hosts;
mod operator;
mod payloads;
mod places;
mod problem;
mod tenants;

use super::answer::Answer;
use super::auth::Identity;
use super::auth::host::HostCredential;
use super::call::{Call, PrincipalCall};
use super::edge::Edge;
use super::headers::wait_ms;
use super::problem::Problem;
use super::query::Query;
use super::registry::MayWait;
use super::routes::{CallerKind, Endpoint};
use super::settings::CommandSettings;
use crate::admission::{CommandSeq, Principal, PrincipalName, SessionId, Tenant};
use crate::domain::{SessionRef, TenantId};
use crate::service::commands::CommandPlane;
use crate::service::view::Availability;
use hyper::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use payloads::Uploader;
use places::Places;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The plane, and what the edge was told about it.
pub(super) struct Commands {
    pub(super) plane: Arc<CommandPlane>,
    scope: Option<String>,
    guests: bool,
    payload_bytes: usize,
    uploads: Arc<Places<Uploader>>,
    /// By credential.
    downloads: Arc<Places<PrincipalName>>,
}

impl Commands {
    /// The credentials have gone to the authenticator.
    pub(super) fn new(settings: CommandSettings) -> Self {
        let CommandSettings { plane, hosts: _, scope, guests, payload_bytes, uploads, downloads } = settings;
        Self { plane, scope, guests, payload_bytes, uploads: Places::new(uploads), downloads: Places::new(downloads) }
    }
}

/// Handles a request to the plane; without one there are no such routes.
pub(super) async fn handle(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let Some(commands) = &edge.commands else { return Err(Problem::route_not_found()) };
    match call.routed.route.endpoint {
        Endpoint::CreateSession => tenants::create(edge, commands, call).await,
        Endpoint::ReadSession => tenants::session(edge, commands, call).await,
        Endpoint::SendCommand => tenants::send(edge, commands, call).await,
        Endpoint::ReadCommand => tenants::command(edge, commands, call).await,
        Endpoint::SessionGate => tenants::gate(edge, commands, call).await,
        Endpoint::PutPayload => payloads::put(edge, commands, call).await,
        Endpoint::GetPayload => payloads::get(edge, commands, call).await,
        Endpoint::PutHost => hosts::put(edge, commands, call).await,
        Endpoint::HostWork => hosts::work(edge, commands, call).await,
        Endpoint::SessionLease => hosts::lease(edge, commands, call).await,
        Endpoint::ClaimCommand => hosts::claim(edge, commands, call).await,
        Endpoint::BeginCommand => hosts::begin(edge, commands, call).await,
        Endpoint::CompleteCommand => hosts::complete(edge, commands, call).await,
        Endpoint::SettleCommand => hosts::settle(edge, commands, call).await,
        Endpoint::Admission => operator::view(edge, commands, call).await,
        Endpoint::CreateGuest
        | Endpoint::Register
        | Endpoint::Browse
        | Endpoint::ReadListing
        | Endpoint::Renew
        | Endpoint::DeleteListing
        | Endpoint::CreateAttempt
        | Endpoint::HostOffers
        | Endpoint::ReadAttempt
        | Endpoint::CloseAttempt
        | Endpoint::AnswerGate
        | Endpoint::ReportPath
        | Endpoint::ReadLease
        | Endpoint::Revoke
        | Endpoint::LiftRevocation
        | Endpoint::Drain
        | Endpoint::Status
        | Endpoint::Live
        | Endpoint::Ready
        | Endpoint::Metrics
        | Endpoint::OpenApi
        | Endpoint::Page => Err(Problem::route_not_found()),
    }
}

/// For a listing that names its session: whether the caller is the host that runs it.
pub(super) async fn runs_session(edge: &Edge, by: &PrincipalCall, session: SessionRef) -> Result<(), Problem> {
    let forbidden = || Problem::forbidden("only the host that runs the session registers a listing for it");
    let commands = edge.commands.as_ref().ok_or_else(forbidden)?;
    let credential = by.host.and_then(|position| edge.auth.host(position)).ok_or_else(forbidden)?;
    let tenant = tenant(commands, by.tenant)?;
    let runs = commands.plane.hosts().runs(credential.principal(), tenant, SessionId(session.0)).await;
    runs.map_err(problem::of)
}

fn tenant(commands: &Commands, tenant: TenantId) -> Result<Tenant, Problem> {
    commands.plane.tenant(tenant).cloned().ok_or_else(Problem::not_found)
}

impl Edge {
    /// A principal of the tenant in the path who may create sessions and command them, its budget charged.
    fn commander(&self, commands: &Commands, call: &Call<'_>) -> Result<(TenantId, Principal), Problem> {
        let (tenant, _) = self.tenant(call)?;
        let (name, guest) = match self.identity_in(call, tenant)? {
            Identity::Principal { guest: true, .. } if !commands.guests => {
                return Err(Problem::forbidden("guests create no sessions and send no commands here"));
            }
            Identity::Principal { name, guest, scope, .. } => {
                if let Some(word) = commands.scope.as_deref().filter(|word| !guest && !scope.names(word)) {
                    return Err(insufficient_scope(word));
                }
                (name, guest)
            }
            Identity::Host(_) | Identity::Operator => {
                return Err(Problem::forbidden("this route is for principals of the tenant"));
            }
        };
        self.charge(call, self.service.principal(tenant, &name))?;
        let principal = commands.plane.principal(tenant, &name, guest).ok_or_else(Problem::not_found)?;
        Ok((tenant, principal))
    }

    /// A host, on a route without a tenant, its budget charged.
    fn host(&self, call: &Call<'_>) -> Result<&HostCredential, Problem> {
        self.refuse_unseen_plain_key(call)?;
        self.as_host(call, self.auth.identify(call.headers(), None, call.now)?)
    }

    /// A host that may serve the tenant in the path, its budget charged.
    fn host_in_tenant(&self, commands: &Commands, call: &Call<'_>) -> Result<(Tenant, &HostCredential), Problem> {
        let (id, _) = self.tenant(call)?;
        self.refuse_unseen_plain_key(call)?;
        let credential = self.as_host(call, self.identity_in(call, id)?)?;
        Ok((tenant(commands, id)?, credential))
    }

    fn as_host(&self, call: &Call<'_>, identity: Identity) -> Result<&HostCredential, Problem> {
        debug_assert_eq!(call.routed.route.caller, CallerKind::Host);
        match identity {
            Identity::Host(position) => {
                if let Some(budget) = call.routed.route.host_budget {
                    self.charge_host(call, position, budget)?;
                }
                self.auth.host(position).ok_or_else(Problem::internal)
            }
            Identity::Principal { .. } | Identity::Operator => Err(Problem::forbidden("this route is for hosts")),
        }
    }
}

/// RFC 6750 section 3.1.
fn insufficient_scope(word: &str) -> Problem {
    let detail = format!("the token's scope has to name {word:?}");
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{word}\"");
    let header = HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::forbidden(&detail).reason("insufficient_scope").header(WWW_AUTHENTICATE, header)
}

/// The session in the path. An id of the wrong shape is simply not found.
fn session_in(call: &Call<'_>) -> Result<SessionId, Problem> {
    let unknown = || problem::of_code(crate::admission::ErrorCode::UnknownSession);
    call.routed.id.and_then(SessionId::parse).ok_or_else(unknown)
}

/// The command in the path: its number in the session.
fn command_in(call: &Call<'_>) -> Result<CommandSeq, Problem> {
    let unknown = || problem::of_code(crate::admission::ErrorCode::UnknownCommand);
    let canonical = call.routed.part.filter(|digits| !digits.starts_with('0') && digits.len() <= 19);
    let number = canonical.and_then(super::query::integer).filter(|number| i64::try_from(*number).is_ok());
    number.map(CommandSeq).ok_or_else(unknown)
}

/// How long a poll may wait.
struct Poll {
    wait_ms: u64,
    preferred: bool,
}

impl Poll {
    fn of(call: &Call<'_>, query: &mut Query<'_>) -> Result<Self, Problem> {
        let (wait_ms, preferred) = wait_ms(call.headers(), query.take_integer("wait_ms")?);
        Ok(Self { wait_ms, preferred })
    }

    fn wait<'c>(&self, call: &Call<'c>) -> MayWait<'c> {
        call.link.admission.may_wait(Duration::from_millis(self.wait_ms))
    }

    /// Waits for `asked`, a request that may wait meanwhile.
    async fn counted<T>(&self, edge: &Edge, asked: impl Future<Output = T>) -> T {
        let _may_wait = (self.wait_ms > 0).then(|| edge.metrics.long_poll());
        asked.await
    }

    /// A poll that comes while drain lets go of them all would be answered at once, and come again at once: without news
    /// it is sent elsewhere instead.
    fn refuse_when_draining(&self, edge: &Edge, call: &Call<'_>, released_before: bool) -> Result<(), Problem> {
        match edge.service.availability() {
            Availability::Draining { deadline, wall } if self.wait_ms > 0 && released_before => {
                Err(Problem::draining(deadline, wall, call.now.mono))
            }
            Availability::Draining { .. } | Availability::Available | Availability::Unavailable => Ok(()),
        }
    }

    fn dress(&self, answer: Answer) -> Answer {
        if !self.preferred {
            return answer;
        }
        let applied = HeaderValue::from_str(&format!("wait={}", self.wait_ms / 1_000));
        answer.header(PREFERENCE_APPLIED, applied.unwrap_or(HeaderValue::from_static("wait")))
    }
}
