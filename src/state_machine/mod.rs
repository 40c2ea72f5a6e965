//! Every transition as one pure function of (state, now, command): no clock, no randomness, no lock, no I/O (rule A1).
//!
//! [`Machine::apply`] stamps nothing and waits for nothing; the stores call it under their own exclusion, then take
//! what it did to the projection ([`Machine::take_changes`]) and what others wait for ([`Machine::take_events`]).
//! Outcomes follow one order of precedence (A4): cleanup, the caller's own revocation, idempotency, drain, existence
//! and freshness, version or capability, quotas, ceilings, commit.

mod attempts;
mod binding;
mod cleanup;
mod due;
mod groups;
#[cfg(any(test, debug_assertions))]
mod invariants;
mod listings;
mod operators;
mod pool;
mod presence;
mod queries;
mod record;
mod scopes;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod work;

use crate::domain::{
    At, Command, Details, Event, Limits, ListingId, MonoTime, Outcome, Rejection, Scope, Visibility, WallTime,
};
use state::State;

/// The immutable object that a store keeps for a listing: what browsing shows of it.
pub trait ListingObject: Send + 'static {
    /// Builds the object of a new or changed listing.
    fn build(id: ListingId, scope: &Scope, details: Details) -> Self;
}

/// A change of the visible projection, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A fresh listing is to be shown as it now is: its object or visibility is new, or it became fresh.
    Show {
        /// Its slot, see [`Machine::listing`].
        slot: u32,
    },
    /// The deadline of a shown listing moved.
    Moved {
        /// Its slot.
        slot: u32,
    },
    /// A listing is no longer to be shown.
    Hide {
        /// Its id.
        id: ListingId,
        /// Its tenant and protocol.
        scope: Scope,
        /// Its slot, when it lives on without being fresh.
        parked: Option<u32>,
    },
}

/// What a store sees of a live listing.
pub struct Listed<'a, O> {
    /// The id.
    pub id: ListingId,
    /// Tenant and protocol.
    pub scope: &'a Scope,
    /// Whether browsing shows it.
    pub visibility: Visibility,
    /// Until when it is fresh (G2).
    pub fresh_until: MonoTime,
    /// The object.
    pub object: &'a O,
}

/// The drain, once begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drain {
    pub(crate) deadline: MonoTime,
    pub(crate) wall: WallTime,
}

impl From<Drain> for Rejection {
    fn from(drain: Drain) -> Self {
        Self::Draining { deadline: drain.deadline, wall: drain.wall }
    }
}

/// One value that owns all state of a store.
pub struct Machine<O> {
    limits: Limits,
    commit: u64,
    drain: Option<Drain>,
    drained: bool,
    state: Box<State<O>>,
    changes: Vec<Change>,
    events: Vec<Event>,
    /// Whether this transition's cleanup has taken its number already.
    cleanup_numbered: bool,
    /// Whether something that was shown has been taken away by more than the passing of time (S1).
    took_away: bool,
    retired: Option<Box<State<O>>>,
}

impl<O: ListingObject> Machine<O> {
    /// An empty machine; `limits` have passed [`Limits::check`].
    pub fn new(limits: Limits) -> Self {
        Self {
            state: Box::new(State::new(&limits)),
            limits,
            commit: 0,
            drain: None,
            drained: false,
            changes: Vec::new(),
            events: Vec::new(),
            cleanup_numbered: false,
            took_away: false,
            retired: None,
        }
    }

    /// The number of the last accepted transition.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// The drain's deadline, once drain has begun.
    pub fn drain_deadline(&self) -> Option<(MonoTime, WallTime)> {
        self.drain.map(|drain| (drain.deadline, drain.wall))
    }

    /// Applies one command at one instant. `at.mono` never goes back from call to call.
    pub fn apply(&mut self, at: At, command: Command) -> Result<Outcome, Rejection> {
        let now = at.mono;
        self.cleanup_numbered = false;
        if let Some(drain) = self.drain.filter(|drain| drain.deadline.is_past(now)) {
            self.let_everything_go();
            if command == Command::Query(crate::domain::Query::Status) {
                return Ok(self.status(now));
            }
            return Err(drain.into());
        }
        #[cfg(any(test, debug_assertions))]
        let before = self.commit;
        self.clean_up(now, command == Command::Sweep);
        let outcome = self.decide(at, command);
        #[cfg(any(test, debug_assertions))]
        self.check_after_transition(before, now);
        outcome
    }

    fn decide(&mut self, at: At, command: Command) -> Result<Outcome, Rejection> {
        match command {
            Command::Register(register) => self.register(at, *register),
            Command::Renew(renew) => self.renew(at, renew),
            Command::Delete(delete) => self.delete(at.mono, delete.proof),
            Command::Presence(presence) => self.refresh_presence(at.mono, presence),
            Command::NoteUnverified(note) => self.note_unverified(at.mono, note),
            Command::CreateAttempt(create) => self.create_attempt(at, *create),
            Command::Bind(bind) => self.bind(at.mono, bind),
            Command::BindAndConsume(bind) => self.bind_and_consume(at.mono, bind),
            Command::Consume(consume) => self.consume(at.mono, consume.attempt),
            Command::Admit(answer) => self.admit(at.mono, answer),
            Command::Refuse(answer) => self.refuse(at.mono, answer),
            Command::Close(close) => self.close_attempt(at.mono, close),
            Command::ReportPath(report) => self.report_path(at.mono, report),
            Command::Revoke(revoke) => self.revoke(at, revoke),
            Command::LiftRevocation(subject) => Ok(self.lift_revocation(at.mono, subject)),
            Command::Drain { window_ms } => self.begin_drain(at, window_ms),
            Command::Sweep => Ok(Outcome::Swept),
            Command::Query(query) => self.answer(at.mono, query),
        }
    }

    /// Numbers an accepted transition.
    fn commit_next(&mut self) -> u64 {
        self.commit += 1;
        self.commit
    }

    /// J2: while a drain runs, its deadline is every record's deadline.
    fn at_the_latest(&self, deadline: MonoTime) -> MonoTime {
        self.drain.map_or(deadline, |drain| deadline.min(drain.deadline))
    }

    fn refuse_if_draining(&self) -> Result<(), Rejection> {
        self.drain.map_or(Ok(()), |drain| Err(drain.into()))
    }

    /// What changed in the projection since the last call, oldest first.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.append(&mut self.changes);
    }

    /// What happened that somebody outside waits for, oldest first.
    pub fn take_events(&mut self, into: &mut Vec<Event>) {
        into.append(&mut self.events);
    }

    /// True once when a transition since the last call took something away that must be published before it is
    /// acknowledged (S1): deleted, revoked, made unlisted, or drain.
    pub fn take_removal(&mut self) -> bool {
        std::mem::take(&mut self.took_away)
    }

    /// State that drain swapped out, to be freed off the lane.
    pub fn take_retired(&mut self) -> Option<impl Send + use<O>> {
        self.retired.take()
    }

    /// A live listing by its slot, as named by a [`Change`].
    pub fn listing(&self, slot: u32) -> Option<Listed<'_, O>> {
        let listing = self.state.listings.get(slot as usize)?;
        Some(Listed {
            id: listing.id,
            scope: self.state.scopes.get(listing.scope),
            visibility: listing.visibility,
            fresh_until: listing.fresh_until(),
            object: &listing.object,
        })
    }

    /// The object of a live listing, for stores that keep shown objects elsewhere.
    pub fn object_mut(&mut self, slot: u32) -> Option<&mut O> {
        self.state.listings.get_mut(slot as usize).map(|listing| &mut listing.object)
    }

    /// The slot of a live listing.
    pub fn slot_of(&self, id: ListingId, now: MonoTime) -> Option<u32> {
        self.live_listing(id, now)
    }

    /// Whether anything is dead but not yet removed.
    pub fn has_dead(&self, now: MonoTime) -> bool {
        !self.drained && (self.oldest(now).is_some() || self.drain.is_some_and(|drain| drain.deadline.is_past(now)))
    }
}
