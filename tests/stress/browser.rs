//! Browsers: they page through everything and hold each page against what was true before and after it.

use crate::Stress;
use crate::support::*;
use crate::truth::{Moment, SCOPES, SLOTS, Truth};
use rendezvous::domain::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// One reader thread and what it has seen.
pub(crate) struct Browser<'a, B> {
    stress: &'a Stress<B>,
    random: u64,
    /// The newest commit seen (S6).
    commit: u64,
    /// The newest name seen of each listing.
    names: HashMap<ListingId, u64>,
    pub(crate) pages: u64,
}

/// Whether the store still answers.
#[derive(PartialEq, Eq)]
pub(crate) enum Went {
    On,
    Drained,
}

impl<'a, B: Backend> Browser<'a, B> {
    pub(crate) fn new(stress: &'a Stress<B>, seed: u64) -> Self {
        Self { stress, random: seed, commit: 0, names: HashMap::new(), pages: 0 }
    }

    /// Pages through one scope to its end, and looks at one listing by its id after each page.
    pub(crate) fn walk(&mut self) -> Went {
        let scope = self.below(SCOPES as u64) as usize;
        let limit = 1 + self.below(100) as usize;
        let (mut after, mut last_id) = (None, None);
        let mut before = self.stress.moment(scope);
        loop {
            let Some(page) = self.page(scope, after, limit, &mut before) else { return Went::Drained };
            for row in &page.rows {
                assert!(last_id.replace(row.id) < Some(row.id), "ids go up, also from page to page");
            }
            if self.look_up() == Went::Drained {
                return Went::Drained;
            }
            match page.next {
                Some(next) => assert!(after.replace(next) < Some(next), "a cursor moves on"),
                None => break,
            }
        }
        // What was forgotten cannot come back: generations only grow.
        if self.names.len() > 4 * SLOTS {
            self.names.clear();
        }
        Went::On
    }

    /// The place of one listing, for an owner that wants to see its own write of `commit`.
    pub(crate) fn look_for(&mut self, slot: usize, id: ListingId, commit: u64) {
        let mut before = self.stress.moment(slot % SCOPES);
        let after = Some(ListingId(id.0 - 1));
        let page = self.page(slot % SCOPES, after, 1, &mut before).expect("no drain before the writers end");
        assert!(page.commit >= commit, "S5: a view of {} after the wait for {commit}", page.commit);
    }

    /// One page, checked. `before` becomes the moment after it.
    fn page(&mut self, scope: usize, after: Option<ListingId>, limit: usize, before: &mut Moment) -> Option<Page> {
        let Stress { world, scopes, board, .. } = self.stress;
        let result = world.page(&scopes[scope], after, limit);
        let moment = self.stress.moment(scope);
        board.steps.fetch_add(1, Ordering::Relaxed);
        let page = unless_drained(result, before, &moment)?;
        self.see_commit(page.commit);
        assert!(page.rows.len() <= limit);
        let range = (after, page.next);
        let mut shown = HashMap::new();
        for row in &page.rows {
            assert!(is_inside(row.id, range), "a row outside of its page");
            let (slot, generation, number) = parse_name(row.name());
            assert_eq!(shown.insert(slot, generation), None, "one listing at a time in slot {slot}");
            check_shown(page.commit, row.id, (generation, number), before, before.of(slot), moment.of(slot));
            let seen = self.names.insert(row.id, number);
            assert!(seen <= Some(number), "S6: name {number} of slot {slot} after {seen:?}");
        }
        for (slot, truth) in before.slots() {
            if truth.id.is_some_and(|id| is_inside(id, range)) && shown.get(&slot) != Some(&truth.generation) {
                check_absent(page.commit, truth, moment.of(slot), moment.now);
            }
        }
        *before = moment;
        self.pages += 1;
        Some(page)
    }

    /// One listing by its id, public or not.
    fn look_up(&mut self) -> Went {
        let Stress { world, .. } = self.stress;
        let slot = self.below(SLOTS as u64) as usize;
        let before = self.stress.moment(slot % SCOPES);
        let known = *before.of(slot);
        let Some(id) = known.id else { return Went::On };
        self.see_commit(world.store.published_commit());
        let result = world.store.listing(TENANT, id, |row, commit| (row.to_vec(), commit));
        let moment = self.stress.moment(slot % SCOPES);
        let after = moment.of(slot);
        match result {
            Ok((row, commit)) => {
                self.see_commit(commit);
                let row: serde_json::Value = serde_json::from_slice(&row).expect("a row is valid JSON");
                let (of, generation, number) = parse_name(row["name"].as_str().expect("a name"));
                assert_eq!((of, generation), (slot, known.generation), "the row of another listing");
                check_alive(before.now, &known, after);
                if after.generation == generation {
                    check_name(commit, number, &known, after);
                }
            }
            Err(Failure::Rejected(Rejection::NotFound)) => {
                let was_there = known.fresh_since.is_some_and(|since| since <= self.commit);
                let is_untouched = (known.ends, known.generation) == (after.ends, after.generation);
                let end = known.earliest_end().min(after.earliest_end());
                assert!(!(was_there && is_untouched && end > moment.now), "S4: not found: {known:?} {after:?}");
            }
            other => return unless_drained(other, &before, &moment).map_or(Went::Drained, |_| Went::On),
        }
        Went::On
    }

    fn see_commit(&mut self, commit: u64) {
        assert!(commit >= self.commit, "S6: a view of {commit} after one of {}", self.commit);
        self.commit = commit;
    }

    fn below(&mut self, bound: u64) -> u64 {
        crate::below(&mut self.random, bound)
    }
}

/// S2 and J2: an answer before the drain deadline, `draining` at and after it.
#[track_caller]
fn unless_drained<T>(result: Result<T, Failure>, before: &Moment, after: &Moment) -> Option<T> {
    match result {
        Ok(value) => {
            assert!(before.drain.is_none_or(|deadline| deadline > before.now), "an answer after the drain deadline");
            Some(value)
        }
        Err(Failure::Rejected(Rejection::Draining { deadline, .. })) => {
            assert!(deadline <= after.now, "draining before its deadline");
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn is_inside(id: ListingId, (after, last): (Option<ListingId>, Option<ListingId>)) -> bool {
    after.is_none_or(|after| id > after) && last.is_none_or(|last| id <= last)
}

/// A row in a page of `commit`, between two moments.
#[track_caller]
fn check_shown(
    commit: u64,
    id: ListingId,
    (generation, number): (u64, u64),
    at: &Moment,
    before: &Truth,
    after: &Truth,
) {
    assert!(generation >= before.generation, "S1: shown after its owner knew that it was gone: {before:?}");
    assert!(generation <= after.generation, "a row from the future: {after:?}");
    if generation != before.generation || generation != after.generation {
        return;
    }
    assert_eq!(Some(id), before.id, "a row with another listing's id");
    check_alive(at.now, before, after);
    check_name(commit, number, before, after);
    let is_untouched = before.begun == after.begun && !before.is_under_way;
    assert!(!is_untouched || before.public_since.is_some(), "S1: shown though hidden: {before:?}");
    let was_hidden_once = after.hides == before.hides + 1 && after.public_since.is_none() && !after.is_under_way;
    if was_hidden_once && let Some(hidden_by) = after.hidden_by {
        assert!(commit < hidden_by, "S3: shown in {commit}, hidden by {hidden_by}");
    }
}

/// Not known to be gone or dead before the read began.
#[track_caller]
fn check_alive(now: MonoTime, before: &Truth, after: &Truth) {
    assert!(!before.is_over, "S1: shown after its end was acknowledged: {before:?}");
    if before.is_under_way {
        return;
    }
    assert!(before.lease.at_most > now, "S2: shown at {now:?} after its lease: {before:?}");
    if before.begun == after.begun {
        assert!(before.presence.at_most > now, "S2: shown at {now:?} after its presence: {before:?}");
    }
}

/// S3: the name is the one of the view's commit.
#[track_caller]
fn check_name(commit: u64, number: u64, before: &Truth, after: &Truth) {
    assert!(number <= after.newest_name, "a name that nobody wrote yet: {number}, {after:?}");
    for (named, by) in [before.named, after.named] {
        assert_eq!(number < named, commit < by, "S3: name {number} in {commit}, {named} since {by}");
    }
}

/// A listing that a page of `commit` lacks although its id is in the page's range, between two moments.
#[track_caller]
fn check_absent(commit: u64, before: &Truth, after: &Truth, now: MonoTime) {
    let Some(since) = before.public_since else { return };
    let end = before.earliest_end().min(after.earliest_end());
    if before.generation != after.generation || since > commit || end <= now {
        return;
    }
    assert_ne!(before.hides, after.hides, "S4: a live listing is missing in {commit} at {now:?}: {before:?} {after:?}");
    let was_hidden_once = after.hides == before.hides + 1 && !after.is_under_way;
    if was_hidden_once && let Some(hidden_by) = after.hidden_by {
        assert!(commit >= hidden_by, "S3: missing in {commit}, hidden by {hidden_by}");
    }
}
