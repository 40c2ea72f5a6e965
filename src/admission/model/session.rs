//! Sessions: their immutable binding, their catalog entry, and what a create is configured to launch.

use super::ids::{AgentId, Epoch, HostId, HostTargetKey, PrincipalName, RuntimeSessionId, SessionId, Tenant};
use super::time::Timestamp;

/// The family of commands that a session is bound to, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolMode {
    /// Leases with epochs, a journal, settlement by evidence. Everything that is admitted.
    Disposition,
    /// What an older deployment left. No host can take such a session; the legacy sweep settles its commands.
    Legacy,
}

impl ProtocolMode {
    /// As stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disposition => "disposition",
            Self::Legacy => "legacy",
        }
    }

    /// Reads what [`Self::as_str`] gives.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Disposition, Self::Legacy].into_iter().find(|mode| mode.as_str() == text)
    }
}

/// The half of a binding that a deployment configures. The other half is not configuration: the runtime session id is
/// derived per create, and the protocol mode is this module's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionBindingTemplate {
    /// Where the session's objects lie. An [`ObjectStoreResolver`](crate::admission::ObjectStoreResolver) must know it (rule P3).
    pub storage_binding_id: String,
    /// The version of that place's layout.
    pub binding_version: String,
}

/// What a session is bound to when it is created. Immutable, so a wrong one has no repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionBinding {
    /// From the [`SessionBindingTemplate`].
    pub storage_binding_id: String,
    /// From the [`SessionBindingTemplate`].
    pub binding_version: String,
    /// Derived; see [`SessionBinding::derive`].
    pub runtime_session_id: RuntimeSessionId,
    /// Always [`ProtocolMode::Disposition`] but for what an older deployment left.
    pub protocol_mode: ProtocolMode,
}

impl SessionBinding {
    /// Binds a session: the same session and template give the same binding, so a create that is resumed pins what it
    /// had prepared.
    pub fn derive(
        template: &SessionBindingTemplate,
        tenant: &Tenant,
        session: SessionId,
        protocol_mode: ProtocolMode,
    ) -> Self {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        for part in ["runtime-session", &template.storage_binding_id, &template.binding_version, tenant.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(session.0.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut upper = [0; 16];
        upper.copy_from_slice(&digest[..16]);
        Self {
            storage_binding_id: template.storage_binding_id.clone(),
            binding_version: template.binding_version.clone(),
            runtime_session_id: RuntimeSessionId(u128::from_be_bytes(upper)),
            protocol_mode,
        }
    }
}

/// What a host is told to launch; opaque to this plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload(pub String);

/// The configured, immutable launch identity selected for a create: configuration, neither a host's present capacity nor
/// a claim of ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind of host.
    pub key: HostTargetKey,
    /// What it launches.
    pub workload: Workload,
}

/// That a session should run somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredWorkload {
    /// The session's tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its target.
    pub target: Target,
}

/// A session as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// What it is bound to, for ever.
    pub binding: SessionBinding,
    /// The profile it was created from.
    pub agent: AgentId,
    /// What it launches.
    pub target: Target,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// Who asked for it.
    pub created_by: PrincipalName,
    /// When it was closed; no command is admitted afterwards.
    pub closed_at: Option<Timestamp>,
    /// Commands admitted so far.
    pub commands: u64,
    /// Commands that have not ended.
    pub open: u32,
    /// The last lease.
    pub lease: Option<Lease>,
    /// The host the session is placed at. A proposal, never authority.
    pub placed: Option<HostId>,
}

/// Residency of a session at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds or held it.
    pub host: HostId,
    /// Its number.
    pub epoch: Epoch,
    /// When it lapses or lapsed.
    pub until: Timestamp,
}

impl Lease {
    /// Whether it holds at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.until.has_passed(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_p3_a_binding_is_a_function_of_the_create() {
        let template = |id: &str| SessionBindingTemplate { storage_binding_id: id.into(), binding_version: "1".into() };
        let tenant = |name: &str| Tenant::new(name).expect("valid");
        let derive = |id, name, session| {
            SessionBinding::derive(&template(id), &tenant(name), SessionId(session), ProtocolMode::Disposition)
        };
        assert_eq!(derive("a", "t", 1), derive("a", "t", 1));
        for other in [derive("b", "t", 1), derive("a", "u", 1), derive("a", "t", 2)] {
            assert_ne!(derive("a", "t", 1).runtime_session_id, other.runtime_session_id);
        }
    }
}
