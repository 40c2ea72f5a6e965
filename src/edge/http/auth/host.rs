//! Credentials of hosts: bearer tokens from the configuration, each with what it may serve.

use crate::admission::{HostPrincipal, Principal, PrincipalName};
use crate::credentials::Secret;
use crate::domain::TenantId;
use crate::edge::http::settings::KeyFingerprint;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// What the names of hosts' credentials begin with, as principals of either plane.
pub const HOST_PREFIX: &str = "host:";

/// A host credential.
#[derive(Clone, Debug)]
pub struct HostCredential {
    key: KeyFingerprint,
    tenants: Vec<TenantId>,
    principal: Principal,
    name: PrincipalName,
}

impl HostCredential {
    /// Of the key only its fingerprint is kept. `tenants` are those that `principal` names.
    pub fn new(key: &Secret, tenants: Vec<TenantId>, principal: HostPrincipal) -> Self {
        let name = principal.name.clone();
        Self { key: KeyFingerprint::of(key), tenants, principal: Principal::Host(principal), name }
    }

    /// As the command plane knows it.
    pub(in crate::edge::http) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Its name as a principal of the directory.
    pub(in crate::edge::http) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Whether it may serve the tenant.
    pub(in crate::edge::http) fn serves(&self, tenant: TenantId) -> bool {
        self.tenants.contains(&tenant)
    }
}

/// The position of the credential that a token with this fingerprint is for. Every key is compared, whichever matches.
pub(super) fn find(credentials: &[HostCredential], fingerprint: &[u8; 32]) -> Option<usize> {
    let (mut found, mut position) = (Choice::from(0), 0_u32);
    for (place, credential) in (0_u32..).zip(credentials) {
        let is_it = credential.key.0.ct_eq(fingerprint);
        position.conditional_assign(&place, is_it);
        found |= is_it;
    }
    bool::from(found).then_some(position as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(name: &str, key: &str) -> HostCredential {
        let name = PrincipalName::new(format!("{HOST_PREFIX}{name}")).unwrap();
        let principal = HostPrincipal { name, tenants: [].into(), keys: [].into() };
        HostCredential::new(&Secret::new(key), vec![TenantId(1)], principal)
    }

    #[test]
    fn each_key_finds_its_own_credential() {
        let all = [credential("a", "first"), credential("b", "second"), credential("c", "third")];
        let found = |among: &[HostCredential], key| find(among, &KeyFingerprint::of(&Secret::new(key)).0);
        assert_eq!(
            ["first", "second", "third", "fourth"].map(|key| found(&all, key)),
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(found(&[], "first"), None);
        assert!(all[0].serves(TenantId(1)) && !all[0].serves(TenantId(0)));
        assert!(!format!("{all:?}").contains("first"));
    }
}
