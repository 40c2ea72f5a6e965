//! What a sweep did about one due command, or why it did nothing.

use super::model::{CommandState, DueCommand, Refusal, Timestamp};
use std::fmt;

/// A closed vocabulary, with a word for every member also where nobody expects it: a command's fate is operational data,
/// and "" is no fate (rule P6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// The predicate's positive answer; never recorded, for such a row goes on to be settled, deferred or refused.
    Settleable,
    /// This sweep rejected the command.
    Rejected,
    /// The deadline has not passed at the store: a host may still claim and apply.
    Unexpired,
    /// A live claim holds the command: a host works on it.
    ClaimLive,
    /// An application is in flight. Only the next lease holder can settle it, behind a fence above the applying epoch;
    /// a sweep holds no lease and names no epoch.
    Applying,
    /// The command had ended: between the page and the write.
    Terminal,
    /// The session's journal does not prove that the command had no effect. An ordinary outcome.
    Evidence,
    /// The row moved between the page and the write.
    RaceLost,
    /// Another holder sweeps this session.
    Deferred,
    /// The row is in a state that this build does not know, so an older sweep can't reject what a newer store keeps.
    /// Only the disposition sweep has this: the legacy states are all there will ever be.
    Unrecognized,
}

impl Disposition {
    /// Everything that a sweep may record, in the order in which it is shown.
    pub const RECORDED: [Self; 9] = [
        Self::Rejected,
        Self::Unexpired,
        Self::ClaimLive,
        Self::Applying,
        Self::Terminal,
        Self::Evidence,
        Self::RaceLost,
        Self::Deferred,
        Self::Unrecognized,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settleable => "settleable",
            Self::Rejected => "rejected",
            Self::Unexpired => "unexpired",
            Self::ClaimLive => "claim_live",
            Self::Applying => "applying",
            Self::Terminal => "terminal",
            Self::Evidence => "evidence",
            Self::RaceLost => "race_lost",
            Self::Deferred => "deferred",
            Self::Unrecognized => "unrecognized",
        }
    }

    /// The predicate over a row as it was read at `now`, the store's time. The store asks again when it writes.
    pub fn of(command: &DueCommand, now: Timestamp) -> Self {
        if !command.deadline.has_passed(now) {
            return Self::Unexpired;
        }
        match &command.state {
            CommandState::Claimed if command.claimed_until.is_some_and(|until| !until.has_passed(now)) => {
                Self::ClaimLive
            }
            CommandState::Pending | CommandState::Claimed => Self::Settleable,
            CommandState::Applying => Self::Applying,
            CommandState::Applied | CommandState::Rejected => Self::Terminal,
            CommandState::Unrecognized(_) => Self::Unrecognized,
        }
    }

    /// What a refused rejection means; `None` when the refusal is no fate of a row, but trouble.
    pub fn of_refusal(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::Unexpired => Some(Self::Unexpired),
            Refusal::ClaimLive => Some(Self::ClaimLive),
            Refusal::Applying => Some(Self::Applying),
            Refusal::Settled => Some(Self::Terminal),
            Refusal::Evidence => Some(Self::Evidence),
            // A row that is gone was purged since the page, which only ended commands are.
            Refusal::RevisionMoved { .. } | Refusal::UnknownCommand | Refusal::UnknownSession => Some(Self::RaceLost),
            Refusal::Unrecognized => Some(Self::Unrecognized),
            Refusal::UnknownHost
            | Refusal::UnknownPayload
            | Refusal::SessionClosed
            | Refusal::LegacySessionUnsupported
            | Refusal::IdempotencyMismatch
            | Refusal::InboxFull { .. }
            | Refusal::QuotaExceeded { .. }
            | Refusal::Late { .. }
            | Refusal::LeaseHeld { .. }
            | Refusal::LeaseLost { .. }
            | Refusal::ClaimLost
            | Refusal::ReconciliationClaimHeld
            | Refusal::NotBegun
            | Refusal::NotSettleable
            | Refusal::DeliveredTooOften { .. }
            | Refusal::HostTaken
            | Refusal::TooManyHosts { .. } => None,
        }
    }
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::model::{CommandSeq, Revision, SessionId, Tenant};

    fn row(state: CommandState, claimed_until: Option<u64>) -> DueCommand {
        DueCommand {
            tenant: Tenant::new("t").expect("valid"),
            session: SessionId(1),
            seq: CommandSeq(1),
            state,
            revision: Revision(1),
            deadline: Timestamp(100),
            claimed_until: claimed_until.map(Timestamp),
        }
    }

    #[test]
    fn adm_p6_rendering_is_total() {
        let mut words: Vec<_> = Disposition::RECORDED.iter().map(|fate| fate.to_string()).collect();
        words.push(Disposition::Settleable.to_string());
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 10);
        assert!(words.iter().all(|word| !word.is_empty()));
    }

    #[test]
    fn adm_p6_each_case_is_its_own() {
        let of = |state, until, now| Disposition::of(&row(state, until), Timestamp(now));
        assert_eq!(of(CommandState::Pending, None, 99), Disposition::Unexpired);
        assert_eq!(of(CommandState::Pending, None, 100), Disposition::Settleable);
        assert_eq!(of(CommandState::Claimed, Some(101), 100), Disposition::ClaimLive);
        assert_eq!(of(CommandState::Claimed, Some(100), 100), Disposition::Settleable);
        assert_eq!(of(CommandState::Applying, Some(100), 500), Disposition::Applying);
        assert_eq!(of(CommandState::Applied, None, 500), Disposition::Terminal);
        assert_eq!(of(CommandState::Rejected, None, 500), Disposition::Terminal);
        assert_eq!(of(CommandState::read("suspended"), None, 500), Disposition::Unrecognized);
    }
}
