//! Compares what the stores said with what the model says. Every place where more than one answer is right is here.

use crate::naive::{Listing, Model, Verdict};
use crate::support::{Backend, Row, World};
use rendezvous::domain::*;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome, or the rejection, must be the model's.
#[track_caller]
pub(crate) fn result(model: &Model, command: &Command, verdict: &Verdict, store: &Result<Reply, Failure>) {
    let agree = agrees(model, command, verdict, store);
    assert!(agree, "{command:?}\n  model: {:?}\n  store: {store:?}", verdict.result);
}

/// Whether the store's answer is one that the model could give.
pub(crate) fn agrees(model: &Model, command: &Command, verdict: &Verdict, store: &Result<Reply, Failure>) -> bool {
    match (&verdict.result, store) {
        (Ok(expected), Ok(reply)) => outcome(model, command, verdict, expected, &reply.outcome),
        (Err(Rejection::Ended(_)), Err(Failure::Rejected(Rejection::Ended(reason)))) => {
            verdict.reasons.contains(reason)
        }
        (Err(expected), Err(Failure::Rejected(rejection))) => expected == rejection,
        _ => false,
    }
}

/// A number for each accepted change, at most one more for cleanup, none for anything else.
#[track_caller]
pub(crate) fn commits(command: &Command, verdict: &Verdict, store: &Result<Reply, Failure>, before: u64, after: u64) {
    let least = before + u64::from(verdict.changes);
    let most = least + u64::from(verdict.cleaned);
    assert!((least..=most).contains(&after), "commit {after} is not in {least}..={most} after {command:?}");
    if let Ok(reply) = store {
        assert_eq!(reply.commit, after, "the reply's commit after {command:?}");
    }
}

fn outcome(model: &Model, command: &Command, verdict: &Verdict, expected: &Outcome, store: &Outcome) -> bool {
    match (expected, store) {
        (Outcome::Present(expected), Outcome::Present(present)) => {
            let offers = match command {
                Command::Presence(sent) => offers(model, sent.listing, present),
                _ => false,
            };
            expected.deadline == present.deadline && expected.draining == present.draining && offers
        }
        (Outcome::Answer(expected), Outcome::Answer(answer)) => answers(verdict, expected, answer),
        _ => expected == store,
    }
}

/// Offers are pending attempts of the listing, each once, as many as there are or fit. Those whose host has bound need
/// no offer.
fn offers(model: &Model, listing: ListingId, present: &Present) -> bool {
    let pending: BTreeSet<AttemptId> = model.pending(listing, 0).iter().map(|attempt| attempt.id).collect();
    let unheard = |id: &&AttemptId| {
        let attempt = model.attempts.iter().find(|attempt| attempt.asked.id == **id);
        attempt.is_some_and(|attempt| attempt.slots[Role::Host.index()].iter().all(Option::is_none))
    };
    let least = pending.iter().filter(unheard).count().min(OFFERS_MAX);
    let offered: Vec<Offer> = present.offers.iter().copied().collect();
    let distinct: BTreeSet<AttemptId> = offered.iter().map(|offer| offer.attempt).collect();
    let deadlines = offered.iter().all(|offer| {
        model
            .attempts
            .iter()
            .any(|attempt| attempt.asked.id == offer.attempt && model.at_the_latest(attempt.deadline) == offer.deadline)
    });
    distinct.len() == offered.len() && offered.len() >= least && distinct.is_subset(&pending) && deadlines
}

fn answers(verdict: &Verdict, expected: &Answer, store: &Answer) -> bool {
    match (expected, store) {
        (Answer::Lease(expected), Answer::Lease(view)) => {
            let sorted = |view: &LeaseView| {
                let mut endpoints = view.endpoints.clone();
                endpoints.sort_by_key(|known| (known.family, known.state, known.endpoint));
                LeaseView { endpoints, ..view.clone() }
            };
            sorted(expected) == sorted(view)
        }
        (Answer::Attempt(expected), Answer::Attempt(view)) => match (&expected.state, &view.state) {
            (AttemptState::Ended(_), AttemptState::Ended(reason)) => verdict.reasons.contains(reason),
            (AttemptState::Waiting { own: a, expires_at: at }, AttemptState::Waiting { own: b, expires_at }) => {
                same_set(a, b) && at == expires_at && expected.commit == view.commit
            }
            (
                AttemptState::Introduced { own: a, peers, expires_at: at, introduction },
                AttemptState::Introduced { own: b, peers: shown, expires_at, introduction: whole },
            ) => {
                let same = peers == shown && introduction == whole;
                same && same_set(a, b) && at == expires_at && expected.commit == view.commit
            }
            _ => false,
        },
        _ => expected == store,
    }
}

fn same_set(a: &[Endpoint], b: &[Endpoint]) -> bool {
    a.len() == b.len() && a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}

/// What the model says that one scope shows.
pub(crate) struct Shown<'a> {
    pub(crate) public: Vec<&'a Listing>,
    /// With the unlisted ones.
    pub(crate) fresh: Vec<&'a Listing>,
    pub(crate) drained: bool,
    pub(crate) must_show: &'a BTreeSet<ListingId>,
    /// By commit, with names.
    pub(crate) history: &'a BTreeMap<u64, BTreeMap<ListingId, String>>,
    /// A tick has just published everything.
    pub(crate) complete: bool,
}

/// Browses one scope of both stores; returns the ids that the lane has to go on showing.
#[track_caller]
pub(crate) fn pages<A: Backend, B: Backend>(
    seen: &Shown<'_>,
    scope: &Scope,
    single: &World<A>,
    lane: &World<B>,
) -> BTreeSet<ListingId> {
    if seen.drained {
        for failure in [single.page(scope, None, 3).err(), lane.page(scope, None, 3).err()] {
            assert!(matches!(failure, Some(Failure::Rejected(Rejection::Draining { .. }))), "{failure:?}");
        }
        return BTreeSet::new();
    }
    let baseline = single.walk(scope, 2);
    let names = |rows: &[Row]| rows.iter().map(|row| (row.id, row.name().to_owned())).collect::<Vec<_>>();
    let expected: Vec<_> = seen.public.iter().map(|l| (l.asked.id, l.asked.details.fields().name.clone())).collect();
    assert_eq!(names(&baseline), expected, "the baseline browses what is live, {scope:?}");

    let published = lane.walk(scope, 2);
    let ids: BTreeSet<ListingId> = published.iter().map(|row| row.id).collect();
    let public: BTreeSet<ListingId> = seen.public.iter().map(|listing| listing.asked.id).collect();
    assert_eq!(ids.len(), published.len(), "no row twice");
    assert!(ids.is_subset(&public), "the lane shows what is not visible: {:?}", ids.difference(&public));
    let promised: BTreeSet<ListingId> = public.intersection(seen.must_show).copied().collect();
    assert!(promised.is_subset(&ids), "live listings blinked out: {:?}", promised.difference(&ids));
    let view = lane.page(scope, None, 100).expect("browsing works");
    let then = seen.history.get(&view.commit).unwrap_or_else(|| panic!("no commit has number {}", view.commit));
    for (id, name) in names(&view.rows) {
        assert_eq!(then.get(&id), Some(&name), "the view of commit {} shows what was not so then", view.commit);
    }
    by_id(seen, scope, single, lane);
    if seen.complete {
        assert_eq!(published, baseline, "both stores show the same rows right after a tick");
        let (one, other) = (single.page(scope, None, 100), lane.page(scope, None, 100));
        assert_eq!(one, other, "whole pages at the same commit");
    }
    ids
}

#[track_caller]
fn by_id<A: Backend, B: Backend>(seen: &Shown<'_>, scope: &Scope, single: &World<A>, lane: &World<B>) {
    let fresh: BTreeSet<ListingId> = seen.fresh.iter().map(|listing| listing.asked.id).collect();
    for id in &fresh {
        assert_eq!(single.store.listing(scope.tenant, *id, |_, _| ()), Ok(()), "a fresh listing by its id");
        let published = lane.store.listing(scope.tenant, *id, |_, _| ());
        if seen.complete {
            assert_eq!(published, Ok(()), "a fresh listing by its id");
        }
        let other = TenantId(scope.tenant.0 + 1);
        assert_eq!(lane.store.listing(other, *id, |_, _| ()), Err(Failure::Rejected(Rejection::NotFound)));
    }
}
