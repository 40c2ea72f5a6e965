//! RV-REASON, and how failures of the domain, the lane and the store become errors on the wire.

use crate::domain::{EndReason, Failure, Invalid, Rejection, Replay};

/// The numbers of RV-REASON (`docs/udp-protocol.md`, table of reasons).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Reason {
    /// The listing or attempt ended in any way.
    Gone = 1,
    /// The slot is bound to another endpoint.
    OtherEndpoint = 2,
    /// The slot is bound by another datagram of this endpoint.
    OtherDatagram = 3,
    /// The drain deadline has passed.
    Draining = 4,
    /// Both sides bound, without a common family.
    NoCommonFamily = 6,
    /// Too much work at the moment.
    Overloaded = 8,
    /// The sequence or nonce is not newer than the highest accepted.
    OldSequence = 9,
    /// The host refused the attempt.
    Refused = 10,
    /// Both roles from one address and port.
    SameEndpoint = 12,
}

impl Reason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 9] = [
        Self::Gone,
        Self::OtherEndpoint,
        Self::OtherDatagram,
        Self::Draining,
        Self::NoCommonFamily,
        Self::Overloaded,
        Self::OldSequence,
        Self::Refused,
        Self::SameEndpoint,
    ];

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::OtherEndpoint => "other_endpoint",
            Self::OtherDatagram => "other_datagram",
            Self::Draining => "draining",
            Self::NoCommonFamily => "no_common_family",
            Self::Overloaded => "overloaded",
            Self::OldSequence => "old_sequence",
            Self::Refused => "refused",
            Self::SameEndpoint => "same_endpoint",
        }
    }
}

/// A failure as the wire tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 403 with a reason.
    Forbidden(Reason),
    /// 403 `old_sequence` with the highest accepted.
    OldSequence(u64),
    /// 438, signed: the same request with a new nonce may succeed.
    StaleNonce,
    /// 500: later.
    Later,
}

/// Translates; total, so that a new failure does not slip by.
pub(super) fn refusal(failure: Failure) -> Refusal {
    match failure {
        Failure::Rejected(rejection) => refusal_of(rejection),
        // An unknown outcome is no reason to stop: the identical datagram is idempotent.
        Failure::Overloaded | Failure::Unavailable(_) | Failure::Cancelled => Refusal::Later,
    }
}

fn refusal_of(rejection: Rejection) -> Refusal {
    match rejection {
        Rejection::NotFound | Rejection::Expired | Rejection::Revoked => Refusal::Forbidden(Reason::Gone),
        Rejection::Ended(reason) => Refusal::Forbidden(ended(reason)),
        Rejection::Draining { .. } => Refusal::Forbidden(Reason::Draining),
        Rejection::ReplayRejected(Replay::OldSequence { highest }) => Refusal::OldSequence(highest),
        Rejection::ReplayRejected(Replay::OtherEndpoint) => Refusal::Forbidden(Reason::OtherEndpoint),
        Rejection::ReplayRejected(Replay::OtherDatagram) => Refusal::Forbidden(Reason::OtherDatagram),
        Rejection::Invalid(Invalid::SameEndpoint) => Refusal::Forbidden(Reason::SameEndpoint),
        Rejection::StaleNonce => Refusal::StaleNonce,
        Rejection::CapacityExceeded(_) | Rejection::NotReady => Refusal::Later,
        // Not outcomes of presence or bind; `refused` is the word that promises nothing.
        Rejection::VersionConflict { .. }
        | Rejection::IdempotencyMismatch
        | Rejection::ReplayRejected(Replay::Consumed | Replay::KeyUsed | Replay::Reported)
        | Rejection::Invalid(Invalid::OwnListing | Invalid::FutureCommit | Invalid::DrainWindow) => {
            Refusal::Forbidden(Reason::Refused)
        }
    }
}

fn ended(reason: EndReason) -> Reason {
    match reason {
        EndReason::NoCommonFamily => Reason::NoCommonFamily,
        EndReason::Refused => Reason::Refused,
        EndReason::Drained => Reason::Draining,
        EndReason::Done
        | EndReason::Closed
        | EndReason::Expired
        | EndReason::NotBound
        | EndReason::Revoked
        | EndReason::ListingGone => Reason::Gone,
    }
}
