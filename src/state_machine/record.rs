//! What the machine keeps of listings, presences, attempts and remembered requests.

use super::due::{DueHeap, NOWHERE};
use crate::domain::{
    AttemptId, Candidates, EndReason, Endpoint, Family, Fingerprint, IdempotencyKey, ListingEnd, ListingId, MonoTime,
    Pair, Principal, Role, Scope, Source, Ttl, Visibility, WallTime,
};
use std::sync::Arc;

/// A live listing. `O` is the immutable object that the store shows to browsers.
#[derive(Debug)]
pub(crate) struct Listing<O> {
    pub(crate) id: ListingId,
    pub(crate) owner: Principal,
    pub(crate) source: Option<Source>,
    pub(crate) scope: Scope,
    pub(crate) visibility: Visibility,
    pub(crate) gate: bool,
    /// Whether any family has used RV-SEQUENCE; then it is required for both.
    pub(crate) sequenced: bool,
    pub(crate) version: u64,
    pub(crate) ttl: Ttl,
    pub(crate) lease_deadline: MonoTime,
    /// While the listing never had presence: when it is removed for that (D5).
    pub(crate) unproven_until: Option<MonoTime>,
    pub(crate) expires_at: WallTime,
    pub(crate) lease: Fingerprint,
    pub(crate) object: O,
    /// By [`Family::index`].
    pub(crate) presence: [Option<Box<FamilyPresence>>; 2],
    pub(crate) refreshed_last: Family,
    pub(crate) unverified: Option<Endpoint>,
    pub(crate) candidates: Candidates,
    /// The active attempts on this listing, by their own deadline.
    pub(crate) attempts: DueHeap,
    /// Slot of the idempotency record that remembers the registration.
    pub(crate) remembered: u32,
    pub(crate) due: u32,
    pub(crate) in_owner: u32,
    pub(crate) in_source: u32,
}

impl<O> Listing<O> {
    /// Rule C2 with D5: when the listing is dead.
    pub(crate) fn dead_at(&self) -> MonoTime {
        self.unproven_until.map_or(self.lease_deadline, |unproven| unproven.min(self.lease_deadline))
    }

    /// Why it is dead at its deadline.
    pub(crate) fn end_by_time(&self) -> ListingEnd {
        match self.unproven_until {
            Some(unproven) if unproven < self.lease_deadline => ListingEnd::NeverPresent,
            Some(_) | None => ListingEnd::Expired,
        }
    }

    /// Rule G2: until when it is fresh, as far as is known now; in the past when it is not.
    pub(crate) fn fresh_until(&self) -> MonoTime {
        let presence = self.presence.iter().flatten().map(|family| family.deadline).max().unwrap_or_default();
        presence.min(self.dead_at())
    }

    /// The live presence of a family.
    pub(crate) fn present(&self, family: Family, now: MonoTime) -> Option<&FamilyPresence> {
        self.presence[family.index()].as_deref().filter(|presence| !presence.deadline.is_past(now))
    }

    /// Where an offer goes: the family refreshed last, or the other one if only that is live.
    pub(crate) fn offer_endpoint(&self, now: MonoTime) -> Option<Endpoint> {
        let order = match self.refreshed_last {
            Family::V4 => [Family::V4, Family::V6],
            Family::V6 => [Family::V6, Family::V4],
        };
        order.into_iter().find_map(|family| self.present(family, now)).map(|presence| presence.endpoint)
    }
}

/// One family's verified endpoint; lives as long as the lease, beyond its own deadline (G1).
#[derive(Debug)]
pub(crate) struct FamilyPresence {
    pub(crate) endpoint: Endpoint,
    pub(crate) deadline: MonoTime,
    pub(crate) sequence: Option<u64>,
    pub(crate) nonce_issued: MonoTime,
    pub(crate) datagram: Fingerprint,
    /// Sequence and time of the last exchange with a fresh nonce: one-way refreshes are measured from here.
    pub(crate) anchor: (u64, MonoTime),
    /// Position among the live presences, or nowhere.
    pub(crate) due: u32,
}

/// A live attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    /// Slot of its listing, which outlives it.
    pub(crate) listing: u32,
    pub(crate) joiner: Principal,
    pub(crate) source: Option<Source>,
    pub(crate) deadline: MonoTime,
    pub(crate) expires_at: WallTime,
    /// Cleared by the joiner's first bind.
    pub(crate) bind_until: Option<MonoTime>,
    /// Set while both roles are bound without a common family.
    pub(crate) common_until: Option<MonoTime>,
    pub(crate) gate: Gate,
    pub(crate) capabilities: [Fingerprint; 2],
    /// By [`Role::index`] and [`Family::index`].
    pub(crate) bound: [[Option<Slot>; 2]; 2],
    /// The family that each role bound last.
    pub(crate) bound_last: [Family; 2],
    pub(crate) introduced_at: Option<MonoTime>,
    pub(crate) candidates: Candidates,
    pub(crate) payload: Option<Arc<str>>,
    pub(crate) reported: [bool; 2],
    /// How often it was offered over UDP.
    pub(crate) offered: u32,
    pub(crate) created: u64,
    pub(crate) changed: u64,
    pub(crate) remembered: u32,
    pub(crate) due: u32,
    pub(crate) in_listing: u32,
    pub(crate) in_tenant: u32,
    pub(crate) in_joiner: u32,
    pub(crate) in_source: u32,
}

/// A bound slot: first come, first kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) endpoint: Endpoint,
    pub(crate) datagram: Fingerprint,
}

/// Whether an attempt waits for its host's answer (H6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The listing has none.
    Open,
    /// Not answered.
    Waiting,
    /// Answered with yes.
    Admitted,
}

impl Attempt {
    /// When it is dead by its own deadlines.
    pub(crate) fn dead_at(&self) -> MonoTime {
        let never = MonoTime::NEVER;
        self.deadline.min(self.bind_until.unwrap_or(never)).min(self.common_until.unwrap_or(never))
    }

    /// Why it is dead at [`Attempt::dead_at`].
    pub(crate) fn end_by_time(&self) -> EndReason {
        let dead_at = self.dead_at();
        if self.introduced_at.is_some() {
            EndReason::Done
        } else if self.bind_until == Some(dead_at) {
            EndReason::NotBound
        } else if self.common_until == Some(dead_at) {
            EndReason::NoCommonFamily
        } else {
            EndReason::Expired
        }
    }

    pub(crate) fn slot(&self, role: Role, family: Family) -> Option<Slot> {
        self.bound[role.index()][family.index()]
    }

    /// The endpoints that both roles have bound in `family`.
    pub(crate) fn pair(&self, family: Family) -> Option<Pair> {
        let host = self.slot(Role::Host, family)?.endpoint;
        let joiner = self.slot(Role::Joiner, family)?.endpoint;
        Some(Pair { host, joiner })
    }

    pub(crate) fn has_bound(&self, role: Role) -> bool {
        self.bound[role.index()].iter().any(Option::is_some)
    }

    pub(crate) fn own(&self, role: Role) -> Vec<Endpoint> {
        Family::BOTH.iter().filter_map(|family| self.slot(role, *family)).map(|slot| slot.endpoint).collect()
    }
}

/// A remembered creation: while its resource lives, and for the retention after (F3).
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) expires_at: WallTime,
    pub(crate) resource: Resource,
    /// Set when the resource has ended.
    pub(crate) until: MonoTime,
    pub(crate) due: u32,
}

/// What a remembered creation created.
#[derive(Debug)]
pub(crate) enum Resource {
    Listing { id: ListingId, ttl_ms: u32, state: ListingMemory },
    Attempt { id: AttemptId, listing: ListingId, state: AttemptMemory },
}

#[derive(Debug)]
pub(crate) enum ListingMemory {
    Live { slot: u32 },
    Ended { end: ListingEnd, owner: Principal, lease: Fingerprint },
}

#[derive(Debug)]
pub(crate) enum AttemptMemory {
    Live { slot: u32 },
    Ended(Box<Tombstone>),
}

/// An attempt after its end: no endpoints (H5).
#[derive(Debug)]
pub(crate) struct Tombstone {
    pub(crate) reason: EndReason,
    pub(crate) commit: u64,
    pub(crate) joiner: Principal,
    pub(crate) host: Principal,
    pub(crate) capabilities: [Fingerprint; 2],
    pub(crate) reported: [bool; 2],
    pub(crate) family: Option<Family>,
}

/// Where an id leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// A slot of live records.
    Live(u32),
    /// A slot of remembered requests.
    Remembered(u32),
}

/// A record with a key of its own, an end, and nothing else: a revocation or a single-use key.
#[derive(Debug)]
pub(crate) struct Timed<K> {
    pub(crate) key: K,
    pub(crate) until: MonoTime,
    pub(crate) due: u32,
}

impl<K> Timed<K> {
    pub(crate) fn new(key: K, until: MonoTime) -> Self {
        Self { key, until, due: NOWHERE }
    }
}
