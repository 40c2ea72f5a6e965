//! Reads that are decided in the lane.

use super::command::{LeaseProof, Principal};
use super::endpoint::{Endpoint, Family};
use super::id::{AttemptId, SessionRef, TenantId};
use super::outcome::{EndReason, Introduction};
use super::time::{MonoTime, WallTime};
use std::sync::Arc;

/// Most attempts in one answer about a gate: four listings full of them. Who asks on after the last one gets the rest.
pub const GATE_ITEMS_MAX: usize = 256;

/// A read in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The owner's view of its lease.
    Lease(LeaseProof),
    /// A listing's pending attempts that are newer than a commit.
    PendingAttempts {
        /// Proof of ownership.
        proof: LeaseProof,
        /// Only attempts created after this commit.
        after: u64,
    },
    /// The attempts that wait at the gate of a session's listings, newer than a commit; at most [`GATE_ITEMS_MAX`], the
    /// oldest. Nobody has to prove anything: the command plane asks, and has authorised who asks it.
    SessionGate {
        /// The session's tenant.
        tenant: TenantId,
        /// The session.
        session: SessionRef,
        /// Only attempts created after this commit.
        after: u64,
    },
    /// One attempt, as one of its sides may see it.
    Attempt {
        /// The attempt.
        attempt: AttemptId,
        /// Its joiner or its host.
        caller: Principal,
    },
    /// Counts against ceilings.
    Status,
}

/// A query's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For [`Query::Lease`].
    Lease(LeaseView),
    /// For [`Query::PendingAttempts`] and [`Query::SessionGate`].
    Pending(Vec<PendingAttempt>),
    /// For [`Query::Attempt`].
    Attempt(AttemptView),
    /// For [`Query::Status`].
    Status(Box<Status>),
}

/// How sure the server is of one family's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PresenceState {
    /// Nothing was received.
    None,
    /// Only authentic refreshes from a source that has not proven itself.
    Unverified,
    /// Verified once, its deadline passed.
    Stale,
    /// Verified and before its deadline.
    Verified,
}

impl PresenceState {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unverified => "unverified",
            Self::Stale => "stale",
            Self::Verified => "verified",
        }
    }
}

/// One known endpoint of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointView {
    /// Its family.
    pub family: Family,
    /// The address.
    pub endpoint: Endpoint,
    /// How sure the server is.
    pub state: PresenceState,
}

/// The owner's view of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The current version.
    pub version: u64,
    /// When the lease ends, for people.
    pub expires_at: WallTime,
    /// The best state of all families.
    pub presence: PresenceState,
    /// What is known of each family.
    pub endpoints: Vec<EndpointView>,
}

/// A pending attempt as its host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingAttempt {
    /// The attempt.
    pub id: AttemptId,
    /// When it ends, for people.
    pub expires_at: WallTime,
    /// The joiner's opaque payload.
    pub payload: Option<Arc<str>>,
    /// Its creation.
    pub commit: u64,
    /// Whether the host still has to answer its gate.
    pub gated: bool,
}

/// What an attempt looks like to one of its sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Live or ended.
    pub state: AttemptState,
    /// The commit of its last change.
    pub commit: u64,
}

/// The state of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// Not introduced yet.
    Waiting {
        /// The caller's own endpoints as observed.
        own: Vec<Endpoint>,
        /// When it ends, for people.
        expires_at: WallTime,
    },
    /// Introduced.
    Introduced {
        /// The caller's own endpoints as observed.
        own: Vec<Endpoint>,
        /// The other side's endpoints.
        peers: Vec<Endpoint>,
        /// When it ends, for people.
        expires_at: WallTime,
        /// The whole introduction, for edges that hand out more than addresses.
        introduction: Box<Introduction>,
    },
    /// Over.
    Ended(EndReason),
}

/// One pool's count against its ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Live records.
    pub live: u32,
    /// The ceiling.
    pub ceiling: u32,
}

/// Counts against ceilings, and the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Live listings.
    pub listings: Count,
    /// Live listings that never had presence.
    pub unproven_listings: Count,
    /// Live presences.
    pub presence: Count,
    /// Live attempts.
    pub attempts: Count,
    /// Idempotency records.
    pub idempotency: Count,
    /// Single-use keys.
    pub replay: Count,
    /// Revocations in force.
    pub revocations: Count,
    /// The drain deadline, once drain has begun.
    pub drain: Option<(MonoTime, WallTime)>,
}
