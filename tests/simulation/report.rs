//! What happened, summed over seeds: a schedule in which nothing happens proves nothing.

use crate::calls::{Answer, Granted, Request};
use rendezvous::domain::{EndReason, Event, Failure, ListingEnd, Rejection};
use std::collections::BTreeMap;

/// Counts of one run or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    pub(crate) calls: u64,
    pub(crate) datagrams: u64,
    pub(crate) indications: u64,
    pub(crate) rows: u64,
    pub(crate) replayed: u64,
    pub(crate) given_up: u64,
    pub(crate) restarts: u64,
    /// Calls that met another one in the lane, went away there, or found its queue full.
    pub(crate) met: u64,
    pub(crate) cancelled: u64,
    pub(crate) overloaded: u64,
    pub(crate) connected: u64,
    pub(crate) met_in_calm: u64,
    pub(crate) refused: u64,
    /// Outcomes, ends and rejections by name.
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

/// What a long run has to have seen.
const EXPECTED: &[&str] = &[
    "registered",
    "registered again",
    "renewed",
    "tried to join",
    "tried to join again",
    "revoked",
    "drained",
    "introduced",
    "deleted",
    "expired listing",
    "never present",
    "revoked listing",
    "done",
    "closed",
    "refused",
    "not bound",
    "no common family",
    "expired attempt",
    "revoked attempt",
    "listing gone",
    "not_found",
    "expired",
    "conflict",
    "capacity_exceeded",
    "draining",
    "revoked caller",
    "replay_rejected",
    "service_unavailable",
];

impl Report {
    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub(crate) fn count_answer(&mut self, request: &Request, answer: &Answer) {
        match (request, answer) {
            (_, Ok(Granted::Listing(it))) => self.see(if it.replayed { "registered again" } else { "registered" }),
            (_, Ok(Granted::Attempt(it))) => {
                self.see(if it.replayed { "tried to join again" } else { "tried to join" });
            }
            (_, Ok(Granted::Renewed(_))) => self.see("renewed"),
            (_, Ok(Granted::Revoked(_))) => self.see("revoked"),
            (_, Ok(Granted::Draining(_))) => self.see("drained"),
            (_, Ok(_)) => {}
            (_, Err(Failure::Rejected(Rejection::Revoked))) => self.see("revoked caller"),
            (_, Err(failure)) => self.see(failure.code()),
        }
    }

    pub(crate) fn count_events(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Introduced(_) => self.see("introduced"),
                Event::ListingEnded { reason, .. } => self.see(match reason {
                    ListingEnd::Deleted => "deleted",
                    ListingEnd::Expired => "expired listing",
                    ListingEnd::NeverPresent => "never present",
                    ListingEnd::Revoked => "revoked listing",
                    ListingEnd::Drained => "drained listing",
                }),
                Event::AttemptEnded { reason, .. } => self.see(match reason {
                    EndReason::Done => "done",
                    EndReason::Closed => "closed",
                    EndReason::Refused => "refused",
                    EndReason::Expired => "expired attempt",
                    EndReason::NotBound => "not bound",
                    EndReason::Revoked => "revoked attempt",
                    EndReason::ListingGone => "listing gone",
                    EndReason::Drained => "drained attempt",
                    EndReason::NoCommonFamily => "no common family",
                }),
                Event::AttemptCreated { .. }
                | Event::AttemptChanged { .. }
                | Event::GateAsked { .. }
                | Event::DrainBegan { .. }
                | Event::Drained => {}
            }
        }
    }

    /// Everything that a schedule can lead to was reached.
    pub(crate) fn assert_everything_happened(&self) {
        let missing: Vec<_> = EXPECTED.iter().filter(|what| !self.seen.contains_key(**what)).collect();
        assert!(missing.is_empty(), "no seed led to {missing:?}: {self:?}");
        let counts = [
            self.indications,
            self.rows,
            self.replayed,
            self.given_up,
            self.restarts,
            self.met,
            self.cancelled,
            self.overloaded,
            self.met_in_calm,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{self:?}");
    }
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.calls += other.calls;
        self.datagrams += other.datagrams;
        self.indications += other.indications;
        self.rows += other.rows;
        self.replayed += other.replayed;
        self.given_up += other.given_up;
        self.restarts += other.restarts;
        self.met += other.met;
        self.cancelled += other.cancelled;
        self.overloaded += other.overloaded;
        self.connected += other.connected;
        self.met_in_calm += other.met_in_calm;
        self.refused += other.refused;
        other.seen.into_iter().for_each(|(what, count)| *self.seen.entry(what).or_default() += count);
    }
}
