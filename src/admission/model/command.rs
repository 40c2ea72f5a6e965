//! Commands: what they ask, how far they have come, how they ended.

use super::ids::{
    CommandSeq, Epoch, HostId, OutcomeCode, PrincipalName, RequestKey, Revision, SessionId, Sha256, Tenant,
};
use super::time::Timestamp;
use bytes::Bytes;
use std::ops::Deref;

/// What a command asks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// Start the session. Always the first command.
    Create,
    /// Take something in.
    Input,
    /// Stop what is under way.
    Interrupt,
    /// Let a waiting player in, or not (rule H6 of the directory).
    GateResponse,
    /// Go back to a saved state.
    Restore,
}

impl CommandKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Create, Self::Input, Self::Interrupt, Self::GateResponse, Self::Restore];

    /// As stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Input => "input",
            Self::Interrupt => "interrupt",
            Self::GateResponse => "gate_response",
            Self::Restore => "restore",
        }
    }

    /// Reads what [`Self::as_str`] gives.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandState {
    /// Admitted; nobody works on it.
    Pending,
    /// A host said that it would begin.
    Claimed,
    /// A host has begun.
    Applying,
    /// The host did it. Terminal.
    Applied,
    /// It will not be done. Terminal.
    Rejected,
    /// A state of a newer build: nothing may be done about it, least of all guessed (rule P6).
    Unrecognized(String),
}

impl CommandState {
    /// As stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Applying => "applying",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
            Self::Unrecognized(text) => text,
        }
    }

    /// Reads a stored state; one that this build does not know is kept as it is.
    pub fn read(text: &str) -> Self {
        let known = [Self::Pending, Self::Claimed, Self::Applying, Self::Applied, Self::Rejected];
        known.into_iter().find(|state| state.as_str() == text).unwrap_or_else(|| Self::Unrecognized(text.to_owned()))
    }

    /// Whether it is immutable.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Applied | Self::Rejected)
    }
}

/// What a command carries.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// Up to the inline limit.
    Inline(Bytes),
    /// Stored before, by its content.
    Stored(PayloadRef),
}

impl std::fmt::Debug for Payload {
    /// A payload may be anything, so it is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Stored(reference) => reference.fmt(f),
        }
    }
}

/// A stored payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRef {
    /// Its content's digest, by which it is found.
    pub sha256: Sha256,
    /// Its length in bytes; in a request it does not matter.
    pub len: u64,
}

/// What a [`CommandKind::GateResponse`] carries: the answer to a join attempt (rule H6 of the directory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateDecision {
    /// The attempt.
    pub attempt_id: u128,
    /// Whether it may come in.
    pub admit: bool,
}

impl GateDecision {
    /// As a payload: `{"attempt_id":"<32 hex digits>","admit":true}`.
    pub fn to_text(self) -> String {
        format!("{{\"attempt_id\":\"{:032x}\",\"admit\":{}}}", self.attempt_id, self.admit)
    }

    /// Reads what [`Self::to_text`] gives; anything else is `None`.
    pub fn read(payload: &Payload) -> Option<Self> {
        let Payload::Inline(bytes) = payload else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let digits = text.strip_prefix("{\"attempt_id\":\"")?.get(..32)?;
        let attempt_id = crate::domain::id::parse_hex32(digits)?;
        [true, false].map(|admit| Self { attempt_id, admit }).into_iter().find(|decision| decision.to_text() == text)
    }
}

/// A host's claim on a command: it works on it. Lapses at `until`, never later than the command's deadline (rule P5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandClaim {
    /// Who claimed.
    pub host: HostId,
    /// Under which lease.
    pub epoch: Epoch,
    /// When it lapses.
    pub until: Timestamp,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// In a word.
    pub code: OutcomeCode,
    /// Who settled it: a host, or the sweep.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Finished after the deadline by an epoch that had begun in time (rule P5).
    pub late: bool,
}

/// A command, of either family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEntry {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The place in the session's inbox.
    pub seq: CommandSeq,
    /// What it asks.
    pub kind: CommandKind,
    /// How far it has come.
    pub state: CommandState,
    /// Grows with every write of the row.
    pub revision: Revision,
    /// Who asked.
    pub admitted_by: PrincipalName,
    /// Under which key.
    pub key: RequestKey,
    /// What it carries.
    pub payload: Payload,
    /// When it was admitted.
    pub admitted_at: Timestamp,
    /// When it may no longer be claimed or begun.
    pub deadline: Timestamp,
    /// How often it was claimed by an epoch; more than one is a redelivery.
    pub deliveries: u32,
    /// The last claim.
    pub claim: Option<CommandClaim>,
    /// The epoch at which it is, or was last, applied.
    pub applying: Option<Epoch>,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

impl CommandEntry {
    /// What the caller is told at `now`, by the store's clock.
    pub fn caller_state(&self, now: Timestamp) -> CallerState {
        match &self.state {
            CommandState::Pending | CommandState::Unrecognized(_) => CallerState::Admitted,
            CommandState::Claimed if self.claim.as_ref().is_some_and(|claim| !claim.until.has_passed(now)) => {
                CallerState::Claimed
            }
            CommandState::Claimed => CallerState::Admitted,
            CommandState::Applying => CallerState::Applying,
            CommandState::Applied => CallerState::Applied,
            CommandState::Rejected if self.outcome.as_ref().is_some_and(|outcome| outcome.code.is_expiry()) => {
                CallerState::Expired
            }
            CommandState::Rejected => CallerState::Rejected,
        }
    }
}

/// The states as callers see them. The last three are terminal and immutable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerState {
    /// Durable, and nobody works on it.
    Admitted,
    /// A host says that it works on it.
    Claimed,
    /// A host has begun.
    Applying,
    /// Done.
    Applied,
    /// The host refused.
    Rejected,
    /// Its time was over; the outcome's code says whether it may have run.
    Expired,
}

impl CallerState {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Claimed => "claimed",
            Self::Applying => "applying",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }

    /// Whether nothing will change any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Applied | Self::Rejected | Self::Expired)
    }
}

macro_rules! family {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub CommandEntry);

        impl Deref for $name {
            type Target = CommandEntry;

            fn deref(&self) -> &CommandEntry {
                &self.0
            }
        }
    };
}

family!(
    /// A command of the disposition family: all that this build admits.
    DispositionInboxEntry
);
family!(
    /// A command of the legacy family: what an older deployment left.
    InboxEntry
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_p6_a_state_of_a_newer_build_is_kept_as_it_is() {
        for state in ["pending", "claimed", "applying", "applied", "rejected"] {
            let read = CommandState::read(state);
            assert!(!matches!(read, CommandState::Unrecognized(_)));
            assert_eq!(read.as_str(), state);
        }
        let newer = CommandState::read("suspended");
        assert_eq!(newer, CommandState::Unrecognized("suspended".into()));
        assert!(!newer.is_terminal());
    }

    #[test]
    fn a_gate_decision_reads_back_and_nothing_else_does() {
        for admit in [true, false] {
            let decision = GateDecision { attempt_id: 0xab << 64, admit };
            let payload = |text: String| Payload::Inline(Bytes::from(text));
            assert_eq!(GateDecision::read(&payload(decision.to_text())), Some(decision));
            assert_eq!(GateDecision::read(&payload(decision.to_text().to_uppercase())), None);
            assert_eq!(GateDecision::read(&payload(decision.to_text() + " ")), None);
        }
        assert_eq!(GateDecision::read(&Payload::Inline(Bytes::new())), None);
    }

    #[test]
    fn payloads_are_never_printed() {
        let shown = format!("{:?}", Payload::Inline(Bytes::from_static(b"hunter2")));
        assert_eq!(shown, "Inline(7 bytes)");
    }
}
