//! The seams as a configuration fills them.

use super::model::{
    AgentId, CommandKind, Error, ErrorCode, HostTargetKey, Principal, SessionBindingTemplate, SessionId, Target, Tenant,
};
use super::traits::{Authorizer, HostAuthorizer, ObjectStoreResolver, Pending, TargetResolver};
use std::collections::BTreeMap;
use std::future::ready;

fn decide<'a>(allowed: bool) -> Pending<'a, Result<(), Error>> {
    Box::pin(ready(if allowed { Ok(()) } else { Err(Error::new(ErrorCode::Forbidden)) }))
}

/// The three authorities, kept apart (rule P1): tenants control their own sessions, hosts serve what their credential
/// names, and only the deployment sweeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct KindAuthorizer;

impl Authorizer for KindAuthorizer {
    fn authorize_control<'a>(
        &'a self,
        principal: &'a Principal,
        _: SessionId,
        _: CommandKind,
    ) -> Pending<'a, Result<(), Error>> {
        decide(matches!(principal, Principal::Tenant(_)))
    }

    fn authorize_service_sweep<'a>(&'a self, principal: &'a Principal) -> Pending<'a, Result<(), Error>> {
        decide(matches!(principal, Principal::Service(_)))
    }
}

impl HostAuthorizer for KindAuthorizer {
    fn authorize_host<'a>(
        &'a self,
        principal: &'a Principal,
        key: &'a HostTargetKey,
    ) -> Pending<'a, Result<(), Error>> {
        decide(matches!(principal, Principal::Host(host) if host.keys.contains(key)))
    }

    fn authorize_residency<'a>(
        &'a self,
        principal: &'a Principal,
        tenant: &'a Tenant,
    ) -> Pending<'a, Result<(), Error>> {
        decide(matches!(principal, Principal::Host(host) if host.tenants.contains(tenant)))
    }
}

/// The configured profiles.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredTargets {
    targets: BTreeMap<AgentId, Target>,
}

impl FromIterator<(AgentId, Target)> for ConfiguredTargets {
    fn from_iter<I: IntoIterator<Item = (AgentId, Target)>>(targets: I) -> Self {
        Self { targets: targets.into_iter().collect() }
    }
}

impl TargetResolver for ConfiguredTargets {
    fn resolve_agent<'a>(&'a self, agent: &'a AgentId) -> Pending<'a, Result<Option<Target>, Error>> {
        Box::pin(ready(Ok(self.targets.get(agent).cloned())))
    }

    fn is_known<'a>(&'a self, key: &'a HostTargetKey) -> Pending<'a, Result<bool, Error>> {
        Box::pin(ready(Ok(self.targets.values().any(|target| target.key == *key))))
    }
}

/// The storage bindings that this deployment can resolve.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredBindings(pub Vec<SessionBindingTemplate>);

impl ObjectStoreResolver for ConfiguredBindings {
    fn knows(&self, template: &SessionBindingTemplate) -> bool {
        self.0.contains(template)
    }
}
