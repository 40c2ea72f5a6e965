//! What a run has met: scripts that never reach an outcome prove nothing about it.

use rendezvous::domain::{Answer, AttemptState, Failure, Outcome, Rejection, Reply};
use std::collections::BTreeMap;

/// Everything that scripts have to reach, as [`Coverage::note`] spells it. A drain window above the bound is left to the
/// contract suite: with a drain running its answer is not fixed by a rule.
const ALL: [&str; 55] = [
    "Registered",
    "Registered again",
    "Renewed",
    "Deleted",
    "Present",
    "Noted",
    "AttemptCreated",
    "AttemptCreated again",
    "Bound",
    "Bound again",
    "Bound introduced",
    "Introduced",
    "Admitted",
    "Closed",
    "PathReported",
    "Revoked",
    "Lifted",
    "Draining",
    "Swept",
    "Answer",
    "is Waiting",
    "is Introduced",
    "is Done",
    "is Closed",
    "is Refused",
    "is Expired",
    "is NotBound",
    "is Revoked",
    "is ListingGone",
    "is NoCommonFamily",
    "!NotFound",
    "!Expired",
    "!Ended",
    "!VersionConflict",
    "!IdempotencyMismatch",
    "!Draining",
    "!Revoked",
    "!NotReady",
    "!StaleNonce",
    "!OwnListing",
    "!SameEndpoint",
    "!OtherEndpoint",
    "!OtherDatagram",
    "!OldSequence",
    "!Consumed",
    "!KeyUsed",
    "!Reported",
    "!Listings",
    "!UnprovenListings",
    "!Presence",
    "!Attempts",
    "!Idempotency",
    "!Revocations",
    "!Replay",
    "!quota",
];

/// How often each thing was met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    pub(crate) fn note(&mut self, result: &Result<Reply, Failure>) {
        let words = match result {
            Ok(reply) => Self::accepted(&reply.outcome),
            Err(Failure::Rejected(rejection)) => vec![format!("!{}", Self::refused(rejection))],
            Err(failure) => vec![format!("!{failure:?}")],
        };
        words.into_iter().for_each(|word| *self.0.entry(word).or_default() += 1);
    }

    fn accepted(outcome: &Outcome) -> Vec<String> {
        let mut words = vec![first_word(outcome)];
        match outcome {
            Outcome::Registered(registered) if registered.replayed => words.push("Registered again".into()),
            Outcome::AttemptCreated(created) if created.replayed => words.push("AttemptCreated again".into()),
            Outcome::Bound(bound) => {
                words.extend(bound.repeated.then(|| "Bound again".into()));
                words.extend(bound.introduction.is_some().then(|| "Bound introduced".into()));
            }
            Outcome::Answer(Answer::Attempt(view)) => words.push(match &view.state {
                AttemptState::Ended(reason) => format!("is {reason:?}"),
                live => format!("is {}", first_word(live)),
            }),
            _ => {}
        }
        words
    }

    fn refused(rejection: &Rejection) -> String {
        match rejection {
            Rejection::CapacityExceeded(resource) if resource.is_quota() => "quota".into(),
            Rejection::CapacityExceeded(resource) => first_word(resource),
            Rejection::ReplayRejected(replay) => first_word(replay),
            Rejection::Invalid(invalid) => first_word(invalid),
            other => first_word(other),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(word, times)| *self.0.entry(word).or_default() += times);
    }

    /// Everything in [`ALL`] was met, and nothing failed in a way that the model does not know.
    pub(crate) fn check(&self) {
        let missing: Vec<_> = ALL.iter().filter(|word| !self.0.contains_key(**word)).collect();
        assert!(missing.is_empty(), "the scripts never met {missing:?}: {:?}", self.0);
        let strange: Vec<_> = self.0.keys().filter(|word| !ALL.contains(&word.as_str())).collect();
        assert!(strange.is_empty(), "unknown to the model: {strange:?}");
    }
}

fn first_word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
