//! Digests of what callers name and ask for (section F): keyed for what is looked up, plain SHA-256 for what is compared.

use super::keys::KeyBytes;
use super::{AttemptRequest, RegisterRequest};
use crate::domain::{
    Candidates, Fingerprint, IdempotencyKey, ListingId, Principal, PrincipalKey, ReplayKey, TenantId, Visibility,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The operation that an idempotency key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Registers a listing.
    Register,
    /// Creates an attempt.
    CreateAttempt,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::CreateAttempt => "create_attempt",
        }
    }
}

/// 128-bit digests under this instance's key: nobody outside can tell which names meet in one bucket of a hash table.
#[derive(Clone, Debug)]
pub(super) struct Digests {
    key: KeyBytes,
}

impl Digests {
    pub(super) fn new(key: KeyBytes) -> Self {
        Self { key }
    }

    /// `name` is the full name; a guest's begins with `guest:`, so the name covers the kind.
    pub(super) fn principal(&self, tenant: TenantId, name: &str) -> PrincipalKey {
        PrincipalKey(self.digest(&[b"principal", &tenant.0.to_be_bytes(), name.as_bytes()]))
    }

    /// Rule F1: the scope is (tenant, principal, operation).
    pub(super) fn idempotency(&self, caller: Principal, operation: Operation, key: &str) -> IdempotencyKey {
        let tenant = caller.tenant.0.to_be_bytes();
        let principal = caller.key.0.to_be_bytes();
        let fields: [&[u8]; 5] = [b"idempotency", &tenant, &principal, operation.name().as_bytes(), key.as_bytes()];
        IdempotencyKey(self.digest(&fields))
    }

    /// Rule H7: one key is good once, whatever it was used for.
    pub(super) fn replay(&self, key: &str) -> ReplayKey {
        ReplayKey(self.digest(&[b"replay", key.as_bytes()]))
    }

    /// HMAC-SHA256 over fields that are each preceded by their length, so that no two lists of fields look alike.
    fn digest(&self, fields: &[&[u8]]) -> u128 {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose())
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        for field in fields {
            mac.update(&(field.len() as u64).to_be_bytes());
            mac.update(field);
        }
        first_128_bits(&mac.finalize().into_bytes())
    }
}

/// The canonical encoding of a command: each field is its kind, its length and its bytes, in a fixed order.
struct Canonical(Sha256);

impl Canonical {
    fn of(operation: Operation) -> Self {
        let mut canonical = Self(Sha256::new());
        canonical.text(operation.name());
        canonical
    }

    fn field(&mut self, kind: u8, bytes: &[u8]) {
        self.0.update([kind]);
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.field(b's', text.as_bytes());
    }

    fn number(&mut self, number: u128) {
        self.field(b'n', &number.to_be_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.field(b'b', &[u8::from(flag)]);
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.field(b'-', &[]),
        }
    }

    fn candidates(&mut self, candidates: &Candidates) {
        self.number(candidates.as_slice().len() as u128);
        candidates.as_slice().iter().for_each(|address| self.text(&address.to_string()));
    }

    fn finish(self) -> Fingerprint {
        Fingerprint(first_128_bits(&self.0.finalize()))
    }
}

/// Rule F1: of the parsed, defaulted and normalised registration; the scope is its target.
pub(super) fn register_fingerprint(request: &RegisterRequest) -> Fingerprint {
    let mut canonical = Canonical::of(Operation::Register);
    canonical.number(request.scope.tenant.0.into());
    canonical.text(&request.scope.protocol);
    canonical.flag(matches!(request.visibility, Visibility::Public));
    canonical.text(&request.details.json());
    canonical.number(request.ttl.ms().into());
    canonical.flag(request.gate);
    canonical.optional(request.session.map(|session| session.to_string()).as_deref());
    canonical.candidates(&request.candidates);
    canonical.finish()
}

/// Rule F1: of the parsed join attempt; the listing is its target.
pub(super) fn attempt_fingerprint(tenant: TenantId, request: &AttemptRequest) -> Fingerprint {
    let AttemptRequest { listing: ListingId(listing), protocol, candidates, payload } = request;
    let mut canonical = Canonical::of(Operation::CreateAttempt);
    canonical.number(tenant.0.into());
    canonical.number(*listing);
    canonical.optional(protocol.as_deref());
    canonical.candidates(candidates);
    canonical.optional(payload.as_deref());
    canonical.finish()
}

fn first_128_bits(digest: &[u8]) -> u128 {
    digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::keys::InstanceKeys;
    use super::*;
    use crate::domain::details::{AttributeValue, DetailsInput};
    use crate::domain::{Details, InstanceId, Limits, Scope, SessionRef};

    fn digests(root: u8) -> Digests {
        Digests::new(InstanceKeys::derive(&[root; 32], InstanceId(1)).digests)
    }

    fn register(attributes: Vec<(&str, AttributeValue)>) -> RegisterRequest {
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let input = DetailsInput { name: "x".into(), max_players: 8, attributes, ..DetailsInput::default() };
        RegisterRequest {
            scope: Scope::new(TenantId(0), "arena/3").unwrap(),
            visibility: Visibility::Public,
            details: Details::new(input).unwrap(),
            ttl: Limits::default().lease_ttl.default_ttl(),
            gate: false,
            session: None,
            candidates: Candidates::default(),
        }
    }

    #[test]
    fn rule_f1_scope_is_tenant_principal_and_operation() {
        let digests = digests(1);
        let caller = |tenant: u16, name: &str| Principal {
            tenant: TenantId(tenant),
            key: digests.principal(TenantId(tenant), name),
        };
        let keys = [
            digests.idempotency(caller(0, "ann"), Operation::Register, "k"),
            digests.idempotency(caller(1, "ann"), Operation::Register, "k"),
            digests.idempotency(caller(0, "bob"), Operation::Register, "k"),
            digests.idempotency(caller(0, "ann"), Operation::CreateAttempt, "k"),
            digests.idempotency(caller(0, "ann"), Operation::Register, "k2"),
        ];
        for (position, key) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(key), "{position}");
        }
        assert_eq!(keys[0], digests.idempotency(caller(0, "ann"), Operation::Register, "k"));
    }

    #[test]
    fn names_are_digested_under_the_instances_key() {
        let key = |root| digests(root).principal(TenantId(0), "ann");
        assert_ne!(key(1), key(2));
        assert_eq!(key(1), key(1));
    }

    #[test]
    fn rule_f1_every_field_of_a_registration_counts() {
        let base = register(vec![]);
        let mut variants = vec![base.clone()];
        variants.push(RegisterRequest { scope: Scope::new(TenantId(1), "arena/3").unwrap(), ..base.clone() });
        variants.push(RegisterRequest { scope: Scope::new(TenantId(0), "arena/4").unwrap(), ..base.clone() });
        variants.push(RegisterRequest { visibility: Visibility::Unlisted, ..base.clone() });
        variants.push(RegisterRequest { gate: true, ..base.clone() });
        variants.push(RegisterRequest { session: Some(SessionRef(1)), ..base.clone() });
        let bounds = Limits::default().lease_ttl;
        variants.push(RegisterRequest { ttl: crate::domain::Ttl::checked(60_001, bounds).unwrap(), ..base.clone() });
        let candidates = Candidates::new(["10.0.0.1:5000".parse().unwrap()]).unwrap();
        variants.push(RegisterRequest { candidates, ..base.clone() });
        variants.push(register(vec![("level", AttributeValue::Integer(1))]));
        variants.push(register(vec![("level", AttributeValue::Text("1".into()))]));
        variants.push(register(vec![("level", AttributeValue::Boolean(true))]));
        let prints: Vec<_> = variants.iter().map(|variant| register_fingerprint(variant).0).collect();
        for (position, print) in prints.iter().enumerate() {
            assert!(!prints[..position].contains(print), "{position}");
        }
        assert_eq!(prints[0], register_fingerprint(&base.clone()).0);
    }

    #[test]
    fn rule_f1_the_order_of_attributes_does_not_count() {
        let (a, b) = (("a", AttributeValue::Integer(1)), ("b", AttributeValue::Integer(2)));
        let one = register_fingerprint(&register(vec![a.clone(), b.clone()]));
        assert_eq!(one, register_fingerprint(&register(vec![b, a])));
    }

    #[test]
    fn rule_f1_an_attempt_is_bound_to_its_listing_and_absent_is_not_empty() {
        let request = |listing, protocol: Option<&str>, payload: Option<&str>| AttemptRequest {
            listing: ListingId(listing),
            protocol: protocol.map(Into::into),
            candidates: Candidates::default(),
            payload: payload.map(Into::into),
        };
        let print = |request: &AttemptRequest| attempt_fingerprint(TenantId(0), request).0;
        let prints = [
            print(&request(1, None, None)),
            print(&request(2, None, None)),
            print(&request(1, Some("a"), None)),
            print(&request(1, None, Some("a"))),
            print(&request(1, None, Some(""))),
        ];
        for (position, one) in prints.iter().enumerate() {
            assert!(!prints[..position].contains(one), "{position}");
        }
    }
}
