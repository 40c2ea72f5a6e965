//! Everything that can be asked of the store. Times, ids, entropy and policy are arguments.

use super::details::Details;
use super::endpoint::{Candidates, Endpoint, Role, Source};
use super::id::{AttemptId, Fingerprint, IdempotencyKey, ListingId, PrincipalKey, ReplayKey, SessionRef, TenantId};
use super::time::{MonoTime, Ttl};
use std::sync::Arc;

/// A caller's identity inside its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The tenant.
    pub tenant: TenantId,
    /// The digest that also covers the tenant.
    pub key: PrincipalKey,
}

/// A game's protocol within a tenant; browsing is per scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// For example `arena/3`: 1 to 64 of `a-z 0-9 . _ - /`.
    pub protocol: Arc<str>,
}

impl Scope {
    /// Checks the protocol's length and alphabet.
    pub fn new(tenant: TenantId, protocol: &str) -> Option<Self> {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_/".contains(&b);
        let ok = (1..=64).contains(&protocol.len()) && protocol.bytes().all(legal);
        ok.then(|| Self { tenant, protocol: protocol.into() })
    }

    /// The 32-bit tag that ends every listing id of this scope: tenant and protocol, folded eight bytes at a time.
    #[inline]
    pub fn tag(tenant: TenantId, protocol: &str) -> u32 {
        let bytes = protocol.as_bytes();
        let mut hash = fold(u64::from(tenant.0), bytes.len() as u64);
        match bytes.len().checked_sub(8) {
            // The last word may overlap the one before it, so that no length needs a loop over single bytes.
            Some(last) => {
                (0..last).step_by(8).for_each(|at| hash = fold(hash, word(bytes, at)));
                hash = fold(hash, word(bytes, last));
            }
            None => hash = fold(hash, bytes.iter().fold(0, |short, byte| short << 8 | u64::from(*byte))),
        }
        (hash ^ hash >> 32) as u32
    }

    /// Whether this is the scope of that tenant and protocol.
    #[inline]
    pub fn is(&self, tenant: TenantId, protocol: &str) -> bool {
        let (known, asked) = (self.protocol.as_bytes(), protocol.as_bytes());
        if self.tenant != tenant || known.len() != asked.len() {
            return false;
        }
        // Names are short: a word or two inline beat a call.
        match asked.len().checked_sub(8) {
            Some(last) => {
                let differs = |at| word(known, at) ^ word(asked, at);
                (0..last).step_by(8).fold(differs(last), |any, at| any | differs(at)) == 0
            }
            None => known == asked,
        }
    }
}

/// Eight bytes from `at` on, which are there.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// One step of [`Scope::tag`]: both halves of a full product.
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xA076_1D64_78BD_642F_u128;
    product as u64 ^ (product >> 64) as u64
}

/// Whether browsing shows a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Shown to browsers.
    Public,
    /// Reachable by its id only.
    Unlisted,
}

/// What makes a creation repeatable (section F).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Digest of tenant, principal, operation and the caller's key.
    pub key: IdempotencyKey,
    /// Digest of the canonical command with its target.
    pub fingerprint: Fingerprint,
}

/// A transition. Creations and keep-alives enter the lane by different doors, see [`Command::class`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Registers a listing (E1).
    Register(Box<Register>),
    /// Renews a lease by compare-and-swap (E2).
    Renew(Renew),
    /// Deletes a listing (E4).
    Delete(Delete),
    /// Refreshes presence by an authenticated datagram (G1).
    Presence(Presence),
    /// Notes the endpoint of an authentic refresh that came from another source (`unverified` in the owner's view).
    NoteUnverified(NoteUnverified),
    /// Creates a join attempt (H1).
    CreateAttempt(Box<CreateAttempt>),
    /// Binds one role's endpoint (H2).
    Bind(Bind),
    /// Introduces the two sides, exactly once (H3).
    Consume(Consume),
    /// Binds, and introduces in the same transition when that completed a common family (H3).
    BindAndConsume(Bind),
    /// Opens the gate of an attempt (H6).
    Admit(GateAnswer),
    /// Ends a gated or waiting attempt on the host's word (H6).
    Refuse(GateAnswer),
    /// Ends an attempt early on the word of either side (H5).
    Close(CloseAttempt),
    /// Notes the path that one side reports, once per role.
    ReportPath(ReportPath),
    /// Revokes a listing or a principal (I1).
    Revoke(Revoke),
    /// Lifts a revocation (I2).
    LiftRevocation(Subject),
    /// Begins drain (J2).
    Drain {
        /// How long live state remains.
        window_ms: u32,
    },
    /// Only the cleanup that every transition begins with.
    Sweep,
    /// A read that is decided in the lane.
    Query(super::query::Query),
}

/// The two classes of admission (D4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Work that creates state; shed first.
    Creation,
    /// Work that keeps live state alive or lets go of it; served first.
    KeepAlive,
}

impl Command {
    /// The door through which the command enters the lane.
    pub fn class(&self) -> Class {
        match self {
            Self::Register(_) | Self::CreateAttempt(_) => Class::Creation,
            Self::Renew(_)
            | Self::Delete(_)
            | Self::Presence(_)
            | Self::NoteUnverified(_)
            | Self::Bind(_)
            | Self::Consume(_)
            | Self::BindAndConsume(_)
            | Self::Admit(_)
            | Self::Refuse(_)
            | Self::Close(_)
            | Self::ReportPath(_)
            | Self::Revoke(_)
            | Self::LiftRevocation(_)
            | Self::Drain { .. }
            | Self::Sweep
            | Self::Query(_) => Class::KeepAlive,
        }
    }
}

/// Registers a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The id to use if the registration is accepted; its lower 32 bits are the scope's tag.
    pub id: ListingId,
    /// Who registers.
    pub owner: Principal,
    /// Present for guests, whose identity is free (D3).
    pub source: Option<Source>,
    /// Key and fingerprint.
    pub idempotency: Idempotency,
    /// Tenant and protocol.
    pub scope: Scope,
    /// Whether browsing shows it.
    pub visibility: Visibility,
    /// What browsers see.
    pub details: Details,
    /// Lifetime of the lease.
    pub ttl: Ttl,
    /// Whether joins wait for the owner's answer (H6).
    pub gate: bool,
    /// The session of the command plane that the listing is for, which may answer its gate (H6).
    pub session: Option<SessionRef>,
    /// Private addresses for peers behind the same NAT.
    pub candidates: Candidates,
    /// Fingerprint of the lease token.
    pub lease: Fingerprint,
    /// Most listings of one owner; where the listing is for a session, of that session instead, for its host has as many
    /// for each of the sessions that it runs.
    pub quota_per_owner: u32,
    /// Most listings of one guest source.
    pub quota_per_source: u32,
}

/// Proof of ownership: the caller and the lease token's fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseProof {
    /// The listing.
    pub listing: ListingId,
    /// The caller.
    pub caller: Principal,
    /// Fingerprint of the lease token.
    pub lease: Fingerprint,
}

/// Renews a lease by compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// Proof of ownership.
    pub proof: LeaseProof,
    /// The version that the caller saw last.
    pub version: u64,
    /// Keeps the last lifetime when absent.
    pub ttl: Option<Ttl>,
    /// Replaces the details as a whole.
    pub details: Option<Box<Details>>,
    /// Replaces the visibility.
    pub visibility: Option<Visibility>,
}

/// Deletes a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Proof of ownership.
    pub proof: LeaseProof,
}

/// One authenticated presence datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The listing named by the credential.
    pub listing: ListingId,
    /// The observed source.
    pub endpoint: Endpoint,
    /// Fingerprint of the whole datagram.
    pub datagram: Fingerprint,
    /// RV-SEQUENCE, when sent.
    pub sequence: Option<u64>,
    /// Issue time of the nonce that the datagram carried.
    pub nonce_issued: MonoTime,
}

/// An authentic refresh with a nonce that was not issued for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteUnverified {
    /// The listing named by the credential.
    pub listing: ListingId,
    /// The observed source.
    pub endpoint: Endpoint,
    /// RV-SEQUENCE.
    pub sequence: u64,
}

/// Creates a join attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAttempt {
    /// The id to use if the attempt is accepted.
    pub id: AttemptId,
    /// The listing to join.
    pub listing: ListingId,
    /// Who joins.
    pub joiner: Principal,
    /// Present for guests.
    pub source: Option<Source>,
    /// Key and fingerprint.
    pub idempotency: Idempotency,
    /// When given it must equal the listing's.
    pub protocol: Option<Arc<str>>,
    /// Private addresses for a host behind the same NAT.
    pub candidates: Candidates,
    /// Opaque, shown to the host; at most 1 KiB.
    pub payload: Option<Arc<str>>,
    /// Fingerprints of the two roles' capabilities, by [`Role::index`].
    pub capabilities: [Fingerprint; 2],
    /// Quotas.
    pub quota: AttemptQuota,
}

/// Quotas of active attempts (D3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptQuota {
    /// Per tenant.
    pub per_tenant: u32,
    /// Per listing.
    pub per_listing: u32,
    /// Per joining principal.
    pub per_principal: u32,
    /// Per guest source.
    pub per_source: u32,
}

/// One authenticated bind datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The attempt named by the credential.
    pub attempt: AttemptId,
    /// The role named by the credential.
    pub role: Role,
    /// As host, the listing named by the credential; an attempt of another listing is `not_found`.
    pub listing: Option<ListingId>,
    /// Fingerprint of the role's capability.
    pub capability: Fingerprint,
    /// The observed source.
    pub endpoint: Endpoint,
    /// Fingerprint of the whole datagram.
    pub datagram: Fingerprint,
    /// Issue time of the nonce that the datagram carried; an old one is good only for the identical datagram of a bound slot.
    pub nonce_issued: MonoTime,
}

/// Introduces the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consume {
    /// The attempt.
    pub attempt: AttemptId,
}

/// The owner's answer to a gated attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    /// The attempt.
    pub attempt: AttemptId,
    /// Who answers.
    pub by: GateAuthority,
}

/// Who may answer a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAuthority {
    /// The owner of the listing, with the lease token's fingerprint.
    Owner {
        /// The caller.
        caller: Principal,
        /// Fingerprint of the lease token.
        lease: Fingerprint,
    },
    /// The command plane, for the session that the listing is for.
    CommandPlane {
        /// The tenant of the session.
        tenant: TenantId,
        /// The session.
        session: SessionRef,
    },
}

/// Ends an attempt early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseAttempt {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its joiner (closes) or its host (refuses).
    pub caller: Principal,
}

/// The path over which two peers finally spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Peer to peer.
    Direct,
    /// Over a relay.
    Relayed,
    /// Not at all.
    Failed,
}

/// A side's report of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportPath {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its joiner or its host.
    pub caller: Principal,
    /// What it saw.
    pub path: Path,
}

/// What a revocation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// One listing.
    Listing(ListingId),
    /// One principal: what it hosts and what it is joining.
    Principal(PrincipalKey),
}

/// Revokes a subject, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// The subject.
    pub subject: Subject,
    /// How long the revocation stands.
    pub ttl: Ttl,
    /// The operator's single-use key.
    pub once: ReplayKey,
}
