//! Builders: every command with sensible defaults, to be varied by struct update.

use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::time::TtlBounds;
use rendezvous::domain::*;
use std::net::{IpAddr, SocketAddr};

/// The protocol of every listing that does not ask for another.
pub(crate) const PROTOCOL: &str = "arena/3";
/// The tenant of everybody who does not ask for another.
pub(crate) const TENANT: TenantId = TenantId(0);

/// A lifetime of any length, as an edge would have checked it.
pub(crate) fn ttl(ms: u32) -> Ttl {
    let any = TtlBounds { min_ms: 0, max_ms: u32::MAX, default_ms: 0 };
    Ttl::checked(ms.into(), any).expect("inside the widest bounds")
}

/// Principal number `n` of a tenant; like the real digest, the key covers the tenant.
pub(crate) fn principal_of(tenant: TenantId, n: u64) -> Principal {
    Principal { tenant, key: PrincipalKey(u128::from(tenant.0) << 64 | u128::from(n)) }
}

/// Principal number `n` of the usual tenant.
pub(crate) fn principal(n: u64) -> Principal {
    principal_of(TENANT, n)
}

/// A scope of the usual tenant.
pub(crate) fn scope(protocol: &str) -> Scope {
    Scope::new(TENANT, protocol).expect("a legal protocol")
}

/// `192.0.2.host:port`.
pub(crate) fn v4(host: u8, port: u16) -> Endpoint {
    Endpoint::new(SocketAddr::from(([192, 0, 2, host], port))).expect("a unicast endpoint")
}

/// `[2001:db8::host]:port`.
pub(crate) fn v6(host: u16, port: u16) -> Endpoint {
    Endpoint::new(SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], port))).expect("a unicast endpoint")
}

/// The guest source `198.51.100.n`.
pub(crate) fn source(n: u8) -> Source {
    Source::of(IpAddr::from([198, 51, 100, n]))
}

/// Details with a name and nothing else.
pub(crate) fn details(name: &str) -> Details {
    let input = DetailsInput { name: name.into(), max_players: 16, ..DetailsInput::default() };
    Details::new(input).expect("valid details")
}

/// A registration with the id, tokens and keys that follow from its number. Distinct numbers never share anything
/// but scope and owner.
pub(crate) fn register_in(scope: Scope, owner: Principal, n: u64) -> Register {
    Register {
        id: ListingId::compose(1_700_000_000_000 + n, n, Scope::tag(scope.tenant, &scope.protocol)),
        owner,
        source: None,
        idempotency: Idempotency {
            key: IdempotencyKey(0x1000_0000 + u128::from(n)),
            fingerprint: Fingerprint(0x2000_0000 + u128::from(n)),
        },
        scope,
        visibility: Visibility::Public,
        details: details(&format!("game {n}")),
        ttl: ttl(60_000),
        gate: false,
        session: None,
        candidates: Candidates::default(),
        lease: Fingerprint(0x3000_0000 + u128::from(n)),
        quota_per_owner: u32::MAX,
        quota_per_source: u32::MAX,
    }
}

/// What a host holds after registration.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) id: ListingId,
    pub(crate) owner: Principal,
    pub(crate) lease: Fingerprint,
    pub(crate) scope: Scope,
}

impl Host {
    pub(crate) fn of(register: &Register) -> Self {
        Self { id: register.id, owner: register.owner, lease: register.lease, scope: register.scope.clone() }
    }

    pub(crate) fn proof(&self) -> LeaseProof {
        LeaseProof { listing: self.id, caller: self.owner, lease: self.lease }
    }

    /// Proofs that are each wrong in one way.
    pub(crate) fn wrong_proofs(&self) -> [LeaseProof; 4] {
        let proof = self.proof();
        [
            LeaseProof { lease: Fingerprint(!proof.lease.0), ..proof },
            LeaseProof { caller: Principal { key: PrincipalKey(!proof.caller.key.0), ..proof.caller }, ..proof },
            LeaseProof { caller: Principal { tenant: TenantId(proof.caller.tenant.0 + 1), ..proof.caller }, ..proof },
            LeaseProof { listing: ListingId(!proof.listing.0), ..proof },
        ]
    }

    pub(crate) fn renew(&self, version: u64) -> Renew {
        Renew { proof: self.proof(), version, ttl: None, details: None, visibility: None }
    }

    pub(crate) fn delete(&self) -> Command {
        Command::Delete(Delete { proof: self.proof() })
    }

    pub(crate) fn lease_query(&self) -> Command {
        Command::Query(Query::Lease(self.proof()))
    }

    pub(crate) fn authority(&self) -> GateAuthority {
        GateAuthority::Owner { caller: self.owner, lease: self.lease }
    }
}

/// What the two sides hold after an attempt was created.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    pub(crate) id: AttemptId,
    pub(crate) listing: ListingId,
    pub(crate) host: Principal,
    pub(crate) joiner: Principal,
    pub(crate) capabilities: [Fingerprint; 2],
}

/// An attempt on `host` with everything that follows from its number.
pub(crate) fn attempt_on(host: &Host, joiner: Principal, n: u64) -> CreateAttempt {
    CreateAttempt {
        id: AttemptId::compose(1_700_000_000_000 + n, n.into()),
        listing: host.id,
        joiner,
        source: None,
        idempotency: Idempotency {
            key: IdempotencyKey(0x4000_0000 + u128::from(n)),
            fingerprint: Fingerprint(0x5000_0000 + u128::from(n)),
        },
        protocol: None,
        candidates: Candidates::default(),
        payload: None,
        capabilities: [Fingerprint(0x6000_0000 + u128::from(n)), Fingerprint(0x7000_0000 + u128::from(n))],
        quota: AttemptQuota {
            per_tenant: u32::MAX,
            per_listing: u32::MAX,
            per_principal: u32::MAX,
            per_source: u32::MAX,
        },
    }
}

impl Try {
    pub(crate) fn of(create: &CreateAttempt, host: &Host) -> Self {
        Self {
            id: create.id,
            listing: create.listing,
            host: host.owner,
            joiner: create.joiner,
            capabilities: create.capabilities,
        }
    }

    /// A bind by `role` whose datagram is its own for every endpoint; the nonce was issued at `issued`.
    pub(crate) fn bind(&self, role: Role, endpoint: Endpoint, issued: MonoTime) -> Bind {
        let port = u128::from(endpoint.address().port());
        let family = endpoint.family().index() as u128;
        Bind {
            attempt: self.id,
            role,
            listing: (role == Role::Host).then_some(self.listing),
            capability: self.capabilities[role.index()],
            endpoint,
            datagram: Fingerprint(self.id.0 ^ (port << 8 | family << 4 | role.index() as u128) << 64),
            nonce_issued: issued,
        }
    }

    pub(crate) fn consume(&self) -> Command {
        Command::Consume(Consume { attempt: self.id })
    }

    pub(crate) fn close(&self, caller: Principal) -> Command {
        Command::Close(CloseAttempt { attempt: self.id, caller })
    }

    pub(crate) fn report(&self, caller: Principal, path: Path) -> Command {
        Command::ReportPath(ReportPath { attempt: self.id, caller, path })
    }

    pub(crate) fn query(&self, caller: Principal) -> Command {
        Command::Query(Query::Attempt { attempt: self.id, caller })
    }

    pub(crate) fn admit(&self, by: GateAuthority) -> Command {
        Command::Admit(GateAnswer { attempt: self.id, by })
    }

    pub(crate) fn refuse(&self, by: GateAuthority) -> Command {
        Command::Refuse(GateAnswer { attempt: self.id, by })
    }
}

/// A presence datagram with a growing sequence; the number makes it unique.
pub(crate) fn presence(host: &Host, endpoint: Endpoint, n: u64, issued: MonoTime) -> Presence {
    Presence {
        listing: host.id,
        endpoint,
        datagram: Fingerprint(0x8000_0000 + u128::from(n)),
        sequence: Some(1_000 + n),
        nonce_issued: issued,
    }
}

/// A revocation with the operator's key number `n`.
pub(crate) fn revoke(subject: Subject, ttl_ms: u32, n: u64) -> Command {
    Command::Revoke(Revoke { subject, ttl: ttl(ttl_ms), once: ReplayKey(0x9000_0000 + u128::from(n)) })
}
