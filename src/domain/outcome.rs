//! What comes back: accepted outcomes, rejections, and the failures that are not the domain's (section B).

use super::command::Visibility;
use super::endpoint::{Endpoint, Family, Role};
use super::id::{AttemptId, ListingId};
use super::query::Answer;
use super::time::{MonoTime, WallTime};
use std::net::SocketAddr;

/// An accepted transition's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new listing, or the original result of an exact duplicate.
    Registered(Registered),
    /// A renewed lease.
    Renewed(Renewed),
    /// The listing is gone, by this deletion or an earlier one.
    Deleted,
    /// Presence was refreshed, or the identical datagram came again.
    Present(Present),
    /// The endpoint was noted for the owner's view.
    Noted,
    /// A new attempt, or the original result of an exact duplicate.
    AttemptCreated(AttemptCreated),
    /// The slot is bound, by this datagram or the identical one before.
    Bound(Bound),
    /// The two sides, handed out once.
    Introduced(Box<Introduction>),
    /// The gate is open.
    Admitted,
    /// The attempt has ended.
    Closed,
    /// The report was counted; with the family of the introduction, if there was one.
    PathReported(Option<Family>),
    /// The revocation stands.
    Revoked(Revoked),
    /// The revocation is lifted; false when there was none.
    Lifted(bool),
    /// Drain has begun, now or earlier.
    Draining {
        /// The published deadline.
        deadline: MonoTime,
        /// The deadline, for people.
        wall: WallTime,
    },
    /// Cleanup was done.
    Swept,
    /// A query's answer.
    Answer(Answer),
}

/// Result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The listing's id.
    pub id: ListingId,
    /// As first returned.
    pub expires_at: WallTime,
    /// As first granted.
    pub ttl_ms: u32,
    /// True for an exact duplicate.
    pub replayed: bool,
}

/// Result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The new version.
    pub version: u64,
    /// When the lease ends, for people.
    pub expires_at: WallTime,
    /// The lifetime in force.
    pub ttl_ms: u32,
    /// The visibility in force.
    pub visibility: Visibility,
}

/// Most offers in one presence answer.
pub const OFFERS_MAX: usize = 4;

/// A pending attempt as a host hears of it over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The attempt.
    pub attempt: AttemptId,
    /// When it ends.
    pub deadline: MonoTime,
}

/// At most [`OFFERS_MAX`] offers. Most presence answers have none, and are small for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers(Option<Box<[Option<Offer>; OFFERS_MAX]>>);

impl Offers {
    /// The offers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.0.iter().flat_map(|offers| offers.iter().flatten())
    }
}

impl FromIterator<Offer> for Offers {
    /// Keeps the first [`OFFERS_MAX`].
    fn from_iter<I: IntoIterator<Item = Offer>>(offers: I) -> Self {
        let mut kept = Self(None);
        for (place, offer) in offers.into_iter().take(OFFERS_MAX).enumerate() {
            kept.0.get_or_insert_default()[place] = Some(offer);
        }
        kept
    }
}

/// Result of a presence datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// When this family's presence ends.
    pub deadline: MonoTime,
    /// Pending attempts, least delivered first.
    pub offers: Offers,
    /// The drain deadline while the drain window runs.
    pub draining: Option<MonoTime>,
}

/// Result of creating an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptCreated {
    /// The attempt's id.
    pub id: AttemptId,
    /// The listing it wants to reach.
    pub listing: ListingId,
    /// As first returned.
    pub expires_at: WallTime,
    /// True for an exact duplicate.
    pub replayed: bool,
}

/// One bound family of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The host's endpoint.
    pub host: Endpoint,
    /// The joiner's endpoint, of the same family.
    pub joiner: Endpoint,
}

impl Pair {
    /// The endpoint of `role`.
    pub fn of(self, role: Role) -> Endpoint {
        match role {
            Role::Host => self.host,
            Role::Joiner => self.joiner,
        }
    }
}

/// Everything that the introduction of one attempt hands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The attempt.
    pub attempt: AttemptId,
    /// The listing.
    pub listing: ListingId,
    /// The common families, IPv6 first.
    pub pairs: [Option<Pair>; 2],
    /// Declared private addresses of each role, by [`Role::index`]; empty unless both observed addresses of a family are equal.
    pub candidates: [Vec<SocketAddr>; 2],
    /// The endpoint that each role bound last, by [`Role::index`]: where it is told at once.
    pub last_bound: [Endpoint; 2],
    /// When the introduction was consumed.
    pub at: MonoTime,
    /// When the attempt ends.
    pub deadline: MonoTime,
}

impl Introduction {
    /// The other side's endpoints as `role` may see them, IPv6 first.
    pub fn peers_of(&self, role: Role) -> impl Iterator<Item = Endpoint> + '_ {
        self.pairs.iter().flatten().map(move |pair| pair.of(role.other()))
    }

    /// The other side's candidates as `role` may see them.
    pub fn candidates_for(&self, role: Role) -> &[SocketAddr] {
        &self.candidates[role.other().index()]
    }
}

/// Result of a bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// When the attempt ends.
    pub deadline: MonoTime,
    /// True when the identical datagram had been accepted before.
    pub repeated: bool,
    /// The introduction, once it has been consumed.
    pub introduction: Option<Box<Introduction>>,
}

/// Result of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Listings removed.
    pub listings: u32,
    /// Attempts removed.
    pub attempts: u32,
    /// When the revocation ends, for people.
    pub expires_at: WallTime,
}

/// Why an attempt ended (rule H5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Introduced, and its time is over.
    Done,
    /// Its joiner closed it.
    Closed,
    /// Its host refused it.
    Refused,
    /// Its deadline passed before an introduction.
    Expired,
    /// Its joiner did not bind in time (D5).
    NotBound,
    /// A revocation removed it.
    Revoked,
    /// Its listing ended.
    ListingGone,
    /// Drain removed it.
    Drained,
    /// Both sides bound, but no common family.
    NoCommonFamily,
}

impl EndReason {
    /// The terminal state's name.
    pub fn state(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Expired | Self::NotBound => "expired",
            Self::Revoked => "revoked",
            Self::ListingGone => "listing_gone",
            Self::Drained => "drained",
            Self::NoCommonFamily => "no_common_family",
        }
    }

    /// The reason, finer than the state.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Done => "introduced",
            Self::Closed => "closed_by_joiner",
            Self::Refused => "refused_by_host",
            Self::Expired => "deadline",
            Self::NotBound => "joiner_never_bound",
            Self::Revoked => "revoked",
            Self::ListingGone => "listing_gone",
            Self::Drained => "drained",
            Self::NoCommonFamily => "no_common_family",
        }
    }
}

/// Why a listing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListingEnd {
    /// Its owner deleted it.
    Deleted,
    /// Its lease ran out.
    Expired,
    /// It never had presence (D5).
    NeverPresent,
    /// A revocation removed it.
    Revoked,
    /// Drain removed it.
    Drained,
}

impl ListingEnd {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::NeverPresent => "never_present",
            Self::Revoked => "revoked",
            Self::Drained => "drained",
        }
    }
}

/// The bounded thing that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Listings.
    Listings,
    /// Listings that never had presence.
    UnprovenListings,
    /// Presences.
    Presence,
    /// Attempts.
    Attempts,
    /// Idempotency records.
    Idempotency,
    /// Single-use keys.
    Replay,
    /// Revocations.
    Revocations,
    /// One owner's listings.
    ListingsPerOwner,
    /// The listings of one session of the command plane.
    ListingsPerSession,
    /// One guest source's listings.
    ListingsPerSource,
    /// One tenant's attempts.
    AttemptsPerTenant,
    /// One listing's attempts.
    AttemptsPerListing,
    /// One principal's attempts.
    AttemptsPerPrincipal,
    /// One guest source's attempts.
    AttemptsPerSource,
    /// The lane's queue of one class.
    Lane,
    /// Waiting long polls.
    LongPolls,
}

impl Resource {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listings => "listings",
            Self::UnprovenListings => "unproven_listings",
            Self::Presence => "presence",
            Self::Attempts => "attempts",
            Self::Idempotency => "idempotency",
            Self::Replay => "replay",
            Self::Revocations => "revocations",
            Self::ListingsPerOwner => "listings_per_owner",
            Self::ListingsPerSession => "listings_per_session",
            Self::ListingsPerSource => "listings_per_source",
            Self::AttemptsPerTenant => "attempts_per_tenant",
            Self::AttemptsPerListing => "attempts_per_listing",
            Self::AttemptsPerPrincipal => "attempts_per_principal",
            Self::AttemptsPerSource => "attempts_per_source",
            Self::Lane => "lane",
            Self::LongPolls => "long_polls",
        }
    }

    /// True for a quota of one caller, false for a ceiling of all.
    pub fn is_quota(self) -> bool {
        match self {
            Self::ListingsPerOwner
            | Self::ListingsPerSession
            | Self::ListingsPerSource
            | Self::AttemptsPerTenant
            | Self::AttemptsPerListing
            | Self::AttemptsPerPrincipal
            | Self::AttemptsPerSource => true,
            Self::Listings
            | Self::UnprovenListings
            | Self::Presence
            | Self::Attempts
            | Self::Idempotency
            | Self::Replay
            | Self::Revocations
            | Self::Lane
            | Self::LongPolls => false,
        }
    }
}

/// Why a single-use or first-wins thing was refused the second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replay {
    /// The slot is bound to another endpoint.
    OtherEndpoint,
    /// The slot is bound by another datagram from the same endpoint.
    OtherDatagram,
    /// The sequence or nonce is not newer than the highest accepted.
    OldSequence {
        /// The highest accepted sequence.
        highest: u64,
    },
    /// The introduction was consumed before.
    Consumed,
    /// The operator's key was used before.
    KeyUsed,
    /// The path was reported before by this role.
    Reported,
}

/// A well-formed request that can never be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// A principal can't join its own listing.
    OwnListing,
    /// Both roles from one address and port.
    SameEndpoint,
    /// A commit above the last one.
    FutureCommit,
    /// A drain window above the maximum.
    DrainWindow,
}

/// The domain's no. Deterministic, and the same on every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Absent, or to be seen as absent.
    NotFound,
    /// The resource of a remembered request is gone.
    Expired,
    /// The attempt has ended; told only to who holds its capability.
    Ended(EndReason),
    /// A stale version.
    VersionConflict {
        /// The current one.
        current: u64,
    },
    /// The idempotency key was used for another request.
    IdempotencyMismatch,
    /// A ceiling or quota.
    CapacityExceeded(Resource),
    /// Drain has begun.
    Draining {
        /// Its deadline.
        deadline: MonoTime,
        /// Its deadline, for people.
        wall: WallTime,
    },
    /// Used before.
    ReplayRejected(Replay),
    /// The caller is revoked.
    Revoked,
    /// The introduction can't be consumed yet.
    NotReady,
    /// The datagram's nonce is too old for anything but an identical repetition.
    StaleNonce,
    /// Can never be right.
    Invalid(Invalid),
}

/// Whether a transition may have happened although nobody could say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// It did not happen.
    NotApplied,
    /// It may have happened.
    Unknown,
}

/// Why a submitted command has no outcome: the domain, the lane, or the infrastructure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The domain said no.
    Rejected(Rejection),
    /// The lane's queue of the command's class is full.
    Overloaded,
    /// The store can't guarantee anything any more.
    Unavailable(Certainty),
    /// The caller went away before the transition started.
    Cancelled,
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl Failure {
    /// The stable code (rule B1).
    pub fn code(self) -> &'static str {
        match self {
            Self::Rejected(rejection) => rejection.code(),
            Self::Overloaded => "capacity_exceeded",
            Self::Unavailable(_) => "service_unavailable",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Rejection {
    /// The stable code (rule B1).
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Expired | Self::Ended(_) => "expired",
            Self::VersionConflict { .. } | Self::IdempotencyMismatch => "conflict",
            Self::CapacityExceeded(_) => "capacity_exceeded",
            Self::Draining { .. } => "draining",
            Self::ReplayRejected(_) => "replay_rejected",
            Self::Revoked => "revoked",
            Self::NotReady => "not_ready",
            Self::StaleNonce | Self::Invalid(_) => "invalid",
        }
    }
}

/// What an accepted command returned, and the commit it saw or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The result.
    pub outcome: Outcome,
    /// The store's commit after the transition.
    pub commit: u64,
}
