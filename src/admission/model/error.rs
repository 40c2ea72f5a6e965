//! What goes wrong, in three families that share no enum: the plane says no ([`Refusal`], the same on every store), the
//! store can't say ([`Unavailable`]), a row can't be read ([`Unreadable`]). [`Error`] is what a caller of a service sees.

use super::ids::{Epoch, NameError, Revision, SessionId};
use super::time::Timestamp;
use std::fmt;

/// The plane says no. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such session in this tenant.
    UnknownSession,
    /// No such command in this session.
    UnknownCommand,
    /// No such host.
    UnknownHost,
    /// The command refers to a payload that was never stored for its session.
    UnknownPayload,
    /// The session takes no more commands.
    SessionClosed,
    /// The session is bound to the legacy family, which no host can run (rule P2).
    LegacySessionUnsupported,
    /// The key was used for something else (rule P4).
    IdempotencyMismatch,
    /// Somebody wrote the row since it was read.
    RevisionMoved {
        /// Its revision now.
        current: Revision,
    },
    /// Too many commands of this session are open.
    InboxFull {
        /// The bound.
        limit: u32,
    },
    /// A quota of the tenant is used up.
    QuotaExceeded {
        /// Which.
        quota: Quota,
        /// Its bound.
        limit: u64,
    },
    /// The deadline has passed (rule P5).
    Late {
        /// When.
        deadline: Timestamp,
    },
    /// The deadline has not passed: the sweep may not settle the command.
    Unexpired,
    /// Somebody else holds the session's lease.
    LeaseHeld {
        /// Until when at least.
        until: Timestamp,
    },
    /// The caller's lease is over: it lapsed, was released, or a newer epoch wrote its fence.
    LeaseLost {
        /// The newest epoch.
        current: Epoch,
    },
    /// A live claim holds the command.
    ClaimLive,
    /// The caller has no live claim on the command.
    ClaimLost,
    /// Another holder sweeps this session.
    ReconciliationClaimHeld,
    /// An application is in flight.
    Applying,
    /// The journal has no beginning of this command at this epoch.
    NotBegun,
    /// The journal does not prove that the command had no effect (rule P6).
    Evidence,
    /// Nothing allows to settle the command yet.
    NotSettleable,
    /// As many leases as may have had the command: it is delivered to no other.
    DeliveredTooOften {
        /// The bound.
        limit: u32,
    },
    /// The command has ended, otherwise than the caller says.
    Settled,
    /// The command is in a state of a newer build (rule P6).
    Unrecognized,
    /// The host id belongs to another credential, or still has sessions under another key.
    HostTaken,
    /// As many hosts of this key as one placement looks at are there already.
    TooManyHosts {
        /// The bound.
        limit: usize,
    },
}

/// What a tenant has only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Commands that have not ended.
    OpenCommands,
    /// Sessions that are not closed.
    Sessions,
    /// Creates that were prepared and not admitted.
    PreparedCreates,
    /// Bytes of stored payloads.
    PayloadBytes,
}

impl Quota {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenCommands => "open_commands",
            Self::Sessions => "sessions",
            Self::PreparedCreates => "prepared_creates",
            Self::PayloadBytes => "payload_bytes",
        }
    }
}

/// The store can't say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Whether the write may have happened all the same: ask again with the same key.
    pub outcome_unknown: bool,
    /// Whether the store is merely busy.
    pub overloaded: bool,
    /// For the operator's log; never shown to a caller.
    pub cause: String,
}

impl Unavailable {
    /// Nothing happened.
    pub fn nothing_happened(cause: impl fmt::Display) -> Self {
        Self { outcome_unknown: false, overloaded: false, cause: cause.to_string() }
    }

    /// It may have happened.
    pub fn outcome_unknown(cause: impl fmt::Display) -> Self {
        Self { outcome_unknown: true, overloaded: false, cause: cause.to_string() }
    }

    /// The queue to the store is full; nothing happened.
    pub fn overloaded() -> Self {
        Self { outcome_unknown: false, overloaded: true, cause: "the queue to the store is full".into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let happened = if self.outcome_unknown { "may have happened" } else { "nothing happened" };
        write!(f, "the store is unavailable, {happened}: {}", self.cause)
    }
}

/// A row that can't be read: damaged, or written by a build that keeps other things (rule P9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its table.
    pub table: &'static str,
    /// The first column that made no sense.
    pub column: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of a row of table {} can't be read", self.column, self.table)
    }
}

/// Why a call of a store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The plane says no.
    Refused(Refusal),
    /// The store can't say.
    Unavailable(Unavailable),
    /// A row can't be read.
    Unreadable(Unreadable),
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unavailable> for StoreError {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl From<Unreadable> for StoreError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{}", ErrorCode::of(refusal)),
            Self::Unavailable(unavailable) => unavailable.fmt(f),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// The closed vocabulary of what a caller is told. Each has one stable word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name),+
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word),+
                }
            }
        }
    };
}

codes! {
    /// The authorizer said no, or the caller's kind has no business here.
    Forbidden = "forbidden",
    /// A part of the request is wrong; the cause names the field.
    Invalid = "invalid",
    /// The payload is too large, missing, or not what its digest says.
    BadPayload = "bad_payload",
    /// No such session in the caller's tenant.
    UnknownSession = "unknown_session",
    /// No such command in the session.
    UnknownCommand = "unknown_command",
    /// No such profile.
    UnknownTarget = "unknown_target",
    /// No such host.
    UnknownHost = "unknown_host",
    /// The session takes no more commands.
    SessionClosed = "session_closed",
    /// The session is bound to the legacy family (rule P2).
    LegacySessionUnsupported = "legacy_session_unsupported",
    /// This deployment serves no creates (rule P3).
    CreatesUnsupported = "creates_unsupported",
    /// The idempotency key was used for something else.
    IdempotencyMismatch = "idempotency_mismatch",
    /// The row moved since it was read.
    RevisionConflict = "revision_conflict",
    /// The session's inbox is full.
    InboxFull = "inbox_full",
    /// A quota of the tenant is used up.
    QuotaExceeded = "quota_exceeded",
    /// The deadline has passed.
    Late = "late",
    /// Another host holds the session's lease.
    LeaseHeld = "lease_held",
    /// The caller's lease is over.
    LeaseLost = "lease_lost",
    /// The caller has no live claim on the command, or another has one.
    ClaimLost = "claim_lost",
    /// The command has ended, otherwise than the caller says.
    AlreadySettled = "already_settled",
    /// The command is not in a state that allows this.
    NotReady = "not_ready",
    /// The host id belongs to another credential or key.
    HostTaken = "host_taken",
    /// The process is draining.
    Draining = "draining",
    /// Too many wait already.
    Overloaded = "overloaded",
    /// The store can't say; the cause tells whether it may have happened.
    Unavailable = "unavailable",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ErrorCode {
    /// What a caller is told about a refusal.
    pub fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::UnknownSession => Self::UnknownSession,
            Refusal::UnknownCommand => Self::UnknownCommand,
            Refusal::UnknownHost => Self::UnknownHost,
            Refusal::UnknownPayload => Self::BadPayload,
            Refusal::SessionClosed => Self::SessionClosed,
            Refusal::LegacySessionUnsupported => Self::LegacySessionUnsupported,
            Refusal::IdempotencyMismatch => Self::IdempotencyMismatch,
            Refusal::RevisionMoved { .. } => Self::RevisionConflict,
            Refusal::InboxFull { .. } => Self::InboxFull,
            Refusal::QuotaExceeded { .. } | Refusal::TooManyHosts { .. } => Self::QuotaExceeded,
            Refusal::Late { .. } => Self::Late,
            Refusal::LeaseHeld { .. } => Self::LeaseHeld,
            Refusal::LeaseLost { .. } => Self::LeaseLost,
            Refusal::ClaimLive | Refusal::ClaimLost | Refusal::ReconciliationClaimHeld => Self::ClaimLost,
            Refusal::Unexpired
            | Refusal::Applying
            | Refusal::NotBegun
            | Refusal::Evidence
            | Refusal::NotSettleable
            | Refusal::DeliveredTooOften { .. }
            | Refusal::Unrecognized => Self::NotReady,
            Refusal::Settled => Self::AlreadySettled,
            Refusal::HostTaken => Self::HostTaken,
        }
    }
}

/// Why, beyond the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The plane's refusal with its details.
    Refused(Refusal),
    /// The store's trouble.
    Unavailable(Unavailable),
    /// A row that can't be read.
    Unreadable(Unreadable),
    /// A create refers to a payload that is not stored yet. It is prepared: put the payload, and ask again with the same key.
    MissingPayload {
        /// The session that was prepared.
        session: SessionId,
    },
    /// A field of the request, and what it must be.
    Field {
        /// Its name.
        field: &'static str,
        /// What it must be.
        must: String,
    },
}

/// What a caller of a service sees: a code to act on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What to act on.
    pub code: ErrorCode,
    /// Why, where there is more to say.
    pub cause: Option<Cause>,
}

impl Error {
    /// An error without more to say.
    pub fn new(code: ErrorCode) -> Self {
        Self { code, cause: None }
    }

    /// A wrong field.
    pub fn field(code: ErrorCode, field: &'static str, must: impl Into<String>) -> Self {
        Self { code, cause: Some(Cause::Field { field, must: must.into() }) }
    }

    /// Whether the request may have had its effect all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(&self.cause, Some(Cause::Unavailable(unavailable)) if unavailable.outcome_unknown)
    }

    /// The refusal behind it, if it is one.
    pub fn refusal(&self) -> Option<Refusal> {
        match &self.cause {
            Some(Cause::Refused(refusal)) => Some(*refusal),
            Some(Cause::MissingPayload { .. }) => Some(Refusal::UnknownPayload),
            Some(Cause::Unavailable(_) | Cause::Unreadable(_) | Cause::Field { .. }) | None => None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self { code: ErrorCode::of(&refusal), cause: Some(Cause::Refused(refusal)) }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::Unavailable(unavailable) => {
                let code = if unavailable.overloaded { ErrorCode::Overloaded } else { ErrorCode::Unavailable };
                Self { code, cause: Some(Cause::Unavailable(unavailable)) }
            }
            StoreError::Unreadable(unreadable) => {
                Self { code: ErrorCode::Unavailable, cause: Some(Cause::Unreadable(unreadable)) }
            }
        }
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::field(ErrorCode::Invalid, error.what, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            None => self.code.fmt(f),
            Some(Cause::Refused(refusal)) => write!(f, "{}: {refusal:?}", self.code),
            Some(Cause::Unavailable(unavailable)) => write!(f, "{}: {unavailable}", self.code),
            Some(Cause::Unreadable(unreadable)) => write!(f, "{}: {unreadable}", self.code),
            Some(Cause::MissingPayload { session }) => {
                write!(f, "{}: the payload of session {session} is not stored yet", self.code)
            }
            Some(Cause::Field { field, must }) => write!(f, "{}: {field} {must}", self.code),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_words() {
        let mut words: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())));
    }

    #[test]
    fn an_unknown_outcome_is_never_reported_as_a_failure() {
        let error = Error::from(StoreError::from(Unavailable::outcome_unknown("the connection broke")));
        assert!(error.outcome_unknown());
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(!Error::from(StoreError::from(Unavailable::overloaded())).outcome_unknown());
    }
}
