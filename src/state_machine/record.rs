//! What the machine keeps of listings, presences, attempts and remembered requests.
//!
//! Records are laid out for a million of them: what most listings do not have stands in a box of its own, no key is
//! kept twice, and what only an index needs (positions, groups) stands in the index. While a listing or attempt lives
//! it carries the memory of the request that made it; at its end that memory moves to a [`Remembered`].

use super::due::DueHeap;
use crate::domain::{
    AttemptId, Candidates, EndReason, Endpoint, Family, Fingerprint, Idempotency, IdempotencyKey, ListingEnd,
    ListingId, MonoTime, Pair, Principal, PrincipalKey, Role, SessionRef, Source, TenantId, Ttl, Visibility, WallTime,
};
use std::sync::Arc;

/// The memory of the request that created a live record (F2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
}

impl From<Idempotency> for Request {
    fn from(idempotency: Idempotency) -> Self {
        Self { key: idempotency.key, fingerprint: idempotency.fingerprint }
    }
}

/// A live listing. `O` is the immutable object that the store shows to browsers.
///
/// In three cache lines: what finds and authorises a listing, what renewals and presence change, and what they leave.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Listing<O> {
    pub(crate) id: ListingId,
    pub(crate) owner: PrincipalKey,
    pub(crate) lease: Fingerprint,
    /// By [`Family::index`].
    pub(crate) presence: [Option<Box<FamilyPresence>>; 2],

    pub(crate) version: u64,
    pub(crate) lease_deadline: MonoTime,
    /// When it is removed for that (D5), while it is unproven.
    pub(crate) unproven_until: MonoTime,
    pub(crate) expires_at: WallTime,
    pub(crate) rare: Option<Box<Rare>>,
    pub(crate) ttl: Ttl,
    /// Tenant and protocol, see [`super::scopes::Scopes`].
    pub(crate) scope: u32,
    pub(crate) owner_tenant: TenantId,
    pub(crate) visibility: Visibility,
    pub(crate) refreshed_last: Family,
    pub(crate) gate: bool,
    /// Whether any family has used RV-SEQUENCE; then it is required for both.
    pub(crate) sequenced: bool,
    /// Whether the listing never had presence.
    pub(crate) is_unproven: bool,
    pub(crate) source: CompactSource,

    pub(crate) request: Request,
    /// What was first granted, for exact duplicates of the request.
    pub(crate) first_expires_at: WallTime,
    pub(crate) first_ttl: Ttl,
    pub(crate) object: O,
}

/// What few listings have at a time.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) unverified: Option<Endpoint>,
    pub(crate) candidates: Candidates,
    /// The session of the command plane that the listing is for.
    pub(crate) session: Option<SessionRef>,
    /// The active attempts on the listing, by their own deadline.
    pub(crate) attempts: DueHeap,
}

impl<O> Listing<O> {
    pub(crate) fn owner(&self) -> Principal {
        Principal { tenant: self.owner_tenant, key: self.owner }
    }

    /// Rule C2 with D5: when the listing is dead.
    pub(crate) fn dead_at(&self) -> MonoTime {
        if self.is_unproven { self.unproven_until.min(self.lease_deadline) } else { self.lease_deadline }
    }

    /// Why it is dead at its deadline.
    pub(crate) fn end_by_time(&self) -> ListingEnd {
        let never_present = self.is_unproven && self.unproven_until < self.lease_deadline;
        if never_present { ListingEnd::NeverPresent } else { ListingEnd::Expired }
    }

    /// When it is next due for cleanup: its own end, or the end of a presence that is counted as live.
    pub(crate) fn due_at(&self) -> MonoTime {
        let counted = self.presence.iter().flatten().filter(|presence| presence.is_counted);
        counted.map(|presence| presence.deadline).fold(self.dead_at(), MonoTime::min)
    }

    /// Rule G2: until when it is fresh, as far as is known now; in the past when it is not.
    pub(crate) fn fresh_until(&self) -> MonoTime {
        let presence = self.presence.iter().flatten().map(|family| family.deadline).max().unwrap_or_default();
        presence.min(self.dead_at())
    }

    /// Whether the projection holds it: some family's presence has not been let go yet.
    pub(crate) fn is_shown(&self) -> bool {
        self.presence.iter().flatten().any(|presence| presence.is_counted)
    }

    pub(crate) fn known(&self, family: Family) -> Option<&FamilyPresence> {
        self.presence[family.index()].as_deref()
    }

    /// The live presence of a family.
    pub(crate) fn present(&self, family: Family, now: MonoTime) -> Option<&FamilyPresence> {
        self.known(family).filter(|presence| !presence.deadline.is_past(now))
    }

    /// Where an offer goes: the family refreshed last, or the other one if only that is live.
    pub(crate) fn offer_endpoint(&self, now: MonoTime) -> Option<Endpoint> {
        let order = match self.refreshed_last {
            Family::V4 => [Family::V4, Family::V6],
            Family::V6 => [Family::V6, Family::V4],
        };
        order.into_iter().find_map(|family| self.present(family, now)).map(|presence| presence.endpoint)
    }

    pub(crate) fn attempts(&self) -> &DueHeap {
        const NONE: &DueHeap = &DueHeap::EMPTY;
        self.rare.as_deref().map_or(NONE, |rare| &rare.attempts)
    }

    pub(crate) fn candidates(&self) -> &[std::net::SocketAddr] {
        self.rare.as_deref().map_or(&[], |rare| rare.candidates.as_slice())
    }

    pub(crate) fn session(&self) -> Option<SessionRef> {
        self.rare.as_deref().and_then(|rare| rare.session)
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// A guest's source in ten bytes instead of the sixteen of an `Option<Source>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CompactSource {
    None,
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<Option<Source>> for CompactSource {
    fn from(source: Option<Source>) -> Self {
        match source {
            None => Self::None,
            Some(Source::V4(address)) => Self::V4(address.to_be_bytes()),
            Some(Source::V6(prefix)) => Self::V6(prefix.to_be_bytes()),
        }
    }
}

/// One family's verified endpoint; lives as long as the lease, beyond its own deadline (G1).
#[derive(Debug)]
pub(crate) struct FamilyPresence {
    pub(crate) deadline: MonoTime,
    /// The highest accepted sequence; of a host that sends none, the issue time of its nonce.
    order: u64,
    /// A fingerprint as two words: as one of 128 bits it would align the record to 16 bytes, at the price of 16.
    datagram: [u64; 2],
    /// See [`FamilyPresence::anchor`]; set by one-way refreshes only.
    anchor: Option<Box<Anchor>>,
    pub(crate) endpoint: Endpoint,
    has_sequence: bool,
    /// Whether it is counted as live: until cleanup lets it lapse.
    pub(crate) is_counted: bool,
}

/// Sequence and time of the last exchange with a fresh nonce: one-way refreshes are measured from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) sequence: u64,
    pub(crate) at: MonoTime,
}

impl FamilyPresence {
    /// A presence that counts as live; `anchor` as a one-way refresh leaves it, none after an exchange.
    pub(crate) fn new(command: &crate::domain::Presence, deadline: MonoTime, anchor: Option<Anchor>) -> Self {
        let Fingerprint(datagram) = command.datagram;
        Self {
            deadline,
            order: command.sequence.unwrap_or(command.nonce_issued.0),
            datagram: [(datagram >> 64) as u64, datagram as u64],
            anchor: anchor.map(Box::new),
            endpoint: command.endpoint,
            has_sequence: command.sequence.is_some(),
            is_counted: true,
        }
    }

    pub(crate) fn sequence(&self) -> Option<u64> {
        self.has_sequence.then_some(self.order)
    }

    /// Issue time of the last nonce of a host that sends no sequences.
    pub(crate) fn nonce_issued(&self) -> MonoTime {
        if self.has_sequence { MonoTime::default() } else { MonoTime(self.order) }
    }

    pub(crate) fn datagram(&self) -> Fingerprint {
        let [high, low] = self.datagram;
        Fingerprint(u128::from(high) << 64 | u128::from(low))
    }

    /// Where one-way refreshes with sequences are measured from. After an exchange it is the exchange itself, whose
    /// deadline lies one lifetime after it.
    pub(crate) fn anchor(&self, presence_ttl_ms: u32) -> Anchor {
        let exchanged_at = MonoTime(self.deadline.0.saturating_sub(u64::from(presence_ttl_ms) * 1_000_000));
        self.anchor.as_deref().copied().unwrap_or(Anchor { sequence: self.order, at: exchanged_at })
    }
}

/// A live attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    /// Slot of its listing, which outlives it.
    pub(crate) listing: u32,
    pub(crate) joiner: Principal,
    pub(crate) source: CompactSource,
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
    pub(crate) request: Request,
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

/// A creation whose resource has ended, remembered for the retention (F3): the tombstone of what it made.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) request: Request,
    pub(crate) until: MonoTime,
    pub(crate) ended: Ended,
}

/// What a remembered creation had created.
#[derive(Debug)]
pub(crate) enum Ended {
    Listing { id: ListingId, end: ListingEnd, owner: PrincipalKey, owner_tenant: TenantId, lease: Fingerprint },
    Attempt(Box<Tombstone>),
}

/// An attempt after its end: no endpoints (H5).
#[derive(Debug)]
pub(crate) struct Tombstone {
    pub(crate) id: AttemptId,
    pub(crate) listing: ListingId,
    pub(crate) reason: EndReason,
    pub(crate) commit: u64,
    pub(crate) joiner: Principal,
    pub(crate) host: Principal,
    pub(crate) capabilities: [Fingerprint; 2],
    pub(crate) reported: [bool; 2],
    pub(crate) family: Option<Family>,
}

/// Where an id or a request's key leads to; packed into the 32 bits of a table's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A slot of live listings.
    Listing(u32),
    /// A slot of live attempts.
    Attempt(u32),
    /// A slot of remembered requests.
    Memory(u32),
}

impl Place {
    /// Pools have at most 16 million records, see [`crate::domain::Limits::check`].
    const SLOT_BITS: u32 = 30;
    const SLOT_MASK: u32 = (1 << Self::SLOT_BITS) - 1;

    pub(crate) fn pack(self) -> u32 {
        match self {
            Self::Memory(slot) => slot,
            Self::Listing(slot) => 1 << Self::SLOT_BITS | slot,
            Self::Attempt(slot) => 2 << Self::SLOT_BITS | slot,
        }
    }

    pub(crate) fn unpack(entry: u32) -> Self {
        let slot = entry & Self::SLOT_MASK;
        match entry >> Self::SLOT_BITS {
            0 => Self::Memory(slot),
            1 => Self::Listing(slot),
            _ => Self::Attempt(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that bar P9 is built on; `benches/memory.rs` measures the whole.
    #[test]
    fn bar_p9_records_keep_their_size() {
        type Row = Option<Box<[u8]>>;
        let sizes = [
            ("listing, with its row's place", size_of::<Listing<Row>>(), 192),
            ("presence of a family", size_of::<FamilyPresence>(), 64),
            ("attempt", size_of::<Attempt>(), 448),
            ("remembered request", size_of::<Remembered>(), 112),
            ("entry of a heap", size_of::<super::super::due::Due>(), 16),
        ];
        for (what, bytes, at_most) in sizes {
            println!("{what}: {bytes} bytes");
            assert!(bytes <= at_most, "{what}: {bytes} bytes, not {at_most}");
        }
    }

    #[test]
    fn places_round_trip() {
        for slot in [0, 1, 15_999_999, Place::SLOT_MASK] {
            for place in [Place::Listing(slot), Place::Attempt(slot), Place::Memory(slot)] {
                assert_eq!(Place::unpack(place.pack()), place);
            }
        }
    }
}
