//! Who calls, as an edge authenticated it.

use super::ids::{HostTargetKey, PrincipalName, Tenant};
use std::sync::Arc;

/// An authenticated caller. The three kinds hold three authorities that never mix (rule P1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A player or a back end of one tenant.
    Tenant(TenantPrincipal),
    /// A host's credential.
    Host(HostPrincipal),
    /// The deployment itself: its sweep, its placement, its operator.
    Service(ServicePrincipal),
}

/// A principal inside a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPrincipal {
    /// Its tenant: the only one it can name.
    pub tenant: Tenant,
    /// Its name inside the tenant.
    pub name: PrincipalName,
}

/// A host credential with what the configuration lets it serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrincipal {
    /// The credential's name; hosts that registered with it belong to it.
    pub name: PrincipalName,
    /// Tenants whose sessions it may run.
    pub tenants: Arc<[Tenant]>,
    /// Target keys it may register under.
    pub keys: Arc<[HostTargetKey]>,
}

/// A part of the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePrincipal {
    /// For logs and for the `by` of what it settles.
    pub name: PrincipalName,
}

impl Principal {
    /// The name, whatever the kind.
    pub fn name(&self) -> &PrincipalName {
        match self {
            Self::Tenant(principal) => &principal.name,
            Self::Host(principal) => &principal.name,
            Self::Service(principal) => &principal.name,
        }
    }

    /// The tenant principal, if it is one.
    pub fn as_tenant(&self) -> Option<&TenantPrincipal> {
        match self {
            Self::Tenant(principal) => Some(principal),
            Self::Host(_) | Self::Service(_) => None,
        }
    }
}
