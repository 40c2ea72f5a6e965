//! Who may do what (rule P1).

use super::Pending;
use crate::admission::model::{CommandKind, Error, HostTargetKey, Principal, SessionId, Tenant};

/// Decides both the admission of commands and the service sweep.
///
/// Admission repeats the decision of the edge on purpose: it is where things become durable, and whatever transport
/// calls it one day has no way around this.
pub trait Authorizer: Send + Sync {
    /// Whether `principal` may send a command of this kind to this session of its own tenant. Nothing has been looked up
    /// yet: a refusal says nothing about whether the session exists.
    fn authorize_control<'a>(
        &'a self,
        principal: &'a Principal,
        session: SessionId,
        kind: CommandKind,
    ) -> Pending<'a, Result<(), Error>>;

    /// Whether `principal` may sweep the due commands of all tenants. A tenant's principal never may, and what the sweep
    /// reads never becomes an answer to one.
    fn authorize_service_sweep<'a>(&'a self, principal: &'a Principal) -> Pending<'a, Result<(), Error>>;
}

/// Decides which host credential may serve what. Apart from [`Authorizer`], for neither may stand in for the other.
pub trait HostAuthorizer: Send + Sync {
    /// Whether `principal` may register hosts under this key.
    fn authorize_host<'a>(&'a self, principal: &'a Principal, key: &'a HostTargetKey)
    -> Pending<'a, Result<(), Error>>;

    /// Whether `principal` may hold leases of this tenant's sessions.
    fn authorize_residency<'a>(
        &'a self,
        principal: &'a Principal,
        tenant: &'a Tenant,
    ) -> Pending<'a, Result<(), Error>>;
}
