//! One listing at a time of one host, one attempt on it at a time, and a revocation: small enough for a search that knows
//! nothing of commits.

use crate::history::{Asked, Call, Heard, History};
use rendezvous::domain::*;
use todc_utils::{Action, History as Order, Specification, WGLChecker};

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    listing: Option<Listing>,
    /// Listings that were deleted by their owner: a deletion may be repeated.
    deleted: Vec<ListingId>,
    is_revoked: bool,
    /// Attempts that have ended, with their listings.
    ended: Vec<(AttemptId, ListingId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Listing {
    id: ListingId,
    version: u64,
    name: String,
    sequence: Option<u64>,
    attempt: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    id: AttemptId,
    /// By [`Role::index`].
    bound: [Option<(Endpoint, u128)>; 2],
    is_introduced: bool,
}

impl State {
    fn attempt(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.listing.as_mut()?.attempt.as_mut().filter(|attempt| attempt.id == id)
    }

    fn end_attempt(&mut self) {
        if let Some(listing) = &mut self.listing
            && let Some(attempt) = listing.attempt.take()
        {
            self.ended.push((attempt.id, listing.id));
        }
    }

    fn has_ended(&self, id: AttemptId) -> bool {
        self.ended.iter().any(|(ended, _)| *ended == id)
    }

    fn end_listing(&mut self) -> Option<Listing> {
        self.end_attempt();
        self.listing.take()
    }

    fn owned(&mut self, proof: &LeaseProof) -> Result<&mut Listing, Rejection> {
        self.listing.as_mut().filter(|listing| listing.id == proof.listing).ok_or(Rejection::NotFound)
    }
}

/// What an operation does and must answer; what the check leaves out is left out here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Done,
    Version(u64),
    Removed(u32, u32),
    Lifted(bool),
    /// Whether the two were introduced, and whether the same bytes had bound before.
    Bound(bool, bool),
    /// Own endpoint and whether introduced, or `None` after its end.
    Seen(Option<(bool, bool)>),
    Refused(Rejection),
}

pub(crate) struct Cell;

/// An operation is a whole call: what was asked, and what was heard.
impl Specification for Cell {
    type State = State;
    type Operation = Call;

    fn init() -> State {
        State::default()
    }

    fn apply(call: &Call, state: &State) -> (bool, State) {
        let mut next = state.clone();
        let is_right = match (&call.asked, &call.heard) {
            (Asked::Command(command), Heard::Answer(answer)) => {
                let said = decide(&mut next, command).unwrap_or_else(Said::Refused);
                heard(answer).is_some_and(|heard| heard == said)
            }
            (Asked::Browse, Heard::Page(page)) => {
                let fresh = state.listing.iter().filter(|listing| listing.sequence.is_some());
                let rows = page.rows.iter().map(|row| (row.id, row.name().to_owned()));
                fresh.map(|listing| (listing.id, listing.name.clone())).eq(rows)
            }
            _ => false,
        };
        (is_right, next)
    }
}

fn heard(answer: &Result<Reply, Failure>) -> Option<Said> {
    Some(match answer {
        Ok(reply) => match &reply.outcome {
            Outcome::Renewed(renewed) => Said::Version(renewed.version),
            Outcome::Revoked(revoked) => Said::Removed(revoked.listings, revoked.attempts),
            Outcome::Lifted(stood) => Said::Lifted(*stood),
            Outcome::Bound(bound) => Said::Bound(bound.introduction.is_some(), bound.repeated),
            Outcome::Answer(Answer::Lease(view)) => Said::Version(view.version),
            Outcome::Answer(Answer::Attempt(view)) => Said::Seen(match &view.state {
                AttemptState::Waiting { own, .. } => Some((!own.is_empty(), false)),
                AttemptState::Introduced { own, .. } => Some((!own.is_empty(), true)),
                AttemptState::Ended(_) => None,
            }),
            _ => Said::Done,
        },
        Err(Failure::Rejected(Rejection::Ended(_))) => Said::Refused(Rejection::Expired),
        Err(Failure::Rejected(rejection)) => Said::Refused(*rejection),
        Err(_) => return None,
    })
}

fn decide(state: &mut State, command: &Command) -> Result<Said, Rejection> {
    match command {
        Command::Register(register) => {
            if state.is_revoked {
                return Err(Rejection::Revoked);
            }
            if state.listing.is_some() {
                return Err(Rejection::CapacityExceeded(Resource::ListingsPerOwner));
            }
            let name = register.details.fields().name.clone();
            state.listing = Some(Listing { id: register.id, version: 1, name, sequence: None, attempt: None });
            Ok(Said::Done)
        }
        Command::Renew(renew) => {
            let listing = state.owned(&renew.proof)?;
            if listing.version != renew.version {
                return Err(Rejection::VersionConflict { current: listing.version });
            }
            listing.version += 1;
            if let Some(details) = &renew.details {
                listing.name = details.fields().name.clone();
            }
            Ok(Said::Version(listing.version))
        }
        Command::Delete(delete) => {
            if state.deleted.contains(&delete.proof.listing) {
                return Ok(Said::Done);
            }
            state.owned(&delete.proof)?;
            state.end_listing();
            state.deleted.push(delete.proof.listing);
            Ok(Said::Done)
        }
        Command::Presence(presence) => {
            let listing = state.listing.as_mut().filter(|it| it.id == presence.listing).ok_or(Rejection::NotFound)?;
            if listing.sequence >= presence.sequence {
                let highest = listing.sequence.unwrap_or(0);
                return Err(Rejection::ReplayRejected(Replay::OldSequence { highest }));
            }
            listing.sequence = presence.sequence;
            Ok(Said::Done)
        }
        Command::Revoke(_) => {
            state.is_revoked = true;
            let attempts = state.listing.as_ref().map_or(0, |listing| u32::from(listing.attempt.is_some()));
            let listings = u32::from(state.end_listing().is_some());
            Ok(Said::Removed(listings, attempts))
        }
        Command::LiftRevocation(_) => Ok(Said::Lifted(std::mem::take(&mut state.is_revoked))),
        Command::Query(Query::Lease(proof)) => Ok(Said::Version(state.owned(proof)?.version)),
        other => decide_attempt(state, other),
    }
}

fn decide_attempt(state: &mut State, command: &Command) -> Result<Said, Rejection> {
    match command {
        Command::CreateAttempt(create) => {
            let listing = state.listing.as_mut().filter(|it| it.id == create.listing && it.sequence.is_some());
            let listing = listing.ok_or(Rejection::NotFound)?;
            if listing.attempt.is_some() {
                return Err(Rejection::CapacityExceeded(Resource::AttemptsPerListing));
            }
            listing.attempt = Some(Attempt { id: create.id, bound: [None; 2], is_introduced: false });
            Ok(Said::Done)
        }
        Command::Bind(bind) => bind_to(state, bind, false),
        Command::BindAndConsume(bind) => bind_to(state, bind, true),
        Command::Consume(consume) => {
            let attempt = state.attempt(consume.attempt).ok_or(Rejection::NotFound)?;
            if attempt.is_introduced {
                return Err(Rejection::ReplayRejected(Replay::Consumed));
            }
            if attempt.bound.contains(&None) {
                return Err(Rejection::NotReady);
            }
            attempt.is_introduced = true;
            Ok(Said::Done)
        }
        Command::Close(close) => {
            if state.attempt(close.attempt).is_some() {
                state.end_attempt();
                return Ok(Said::Done);
            }
            if state.has_ended(close.attempt) { Ok(Said::Done) } else { Err(Rejection::NotFound) }
        }
        Command::Query(Query::Attempt { attempt, .. }) => {
            if let Some(attempt) = state.attempt(*attempt) {
                let own = attempt.bound[Role::Joiner.index()].is_some();
                return Ok(Said::Seen(Some((own, attempt.is_introduced))));
            }
            if state.has_ended(*attempt) { Ok(Said::Seen(None)) } else { Err(Rejection::NotFound) }
        }
        other => panic!("{other:?} is not part of the workload"),
    }
}

fn bind_to(state: &mut State, bind: &Bind, consumes: bool) -> Result<Said, Rejection> {
    // A host's credential names the listing; with another one the attempt looks absent, also after its end.
    let names = |listing: ListingId| bind.listing.is_none_or(|named| named == listing);
    let is_over = state.ended.iter().any(|(ended, of)| *ended == bind.attempt && names(*of));
    let absent = if is_over { Rejection::Expired } else { Rejection::NotFound };
    let is_here = state.listing.as_ref().is_some_and(|listing| names(listing.id));
    let attempt = state.attempt(bind.attempt).filter(|_| is_here).ok_or(absent)?;
    let slot = &mut attempt.bound[bind.role.index()];
    let repeated = match slot {
        Some(bound) if *bound == (bind.endpoint, bind.datagram.0) => true,
        Some((endpoint, _)) if *endpoint == bind.endpoint => {
            return Err(Rejection::ReplayRejected(Replay::OtherDatagram));
        }
        Some(_) => return Err(Rejection::ReplayRejected(Replay::OtherEndpoint)),
        None => {
            *slot = Some((bind.endpoint, bind.datagram.0));
            false
        }
    };
    if consumes && attempt.bound.iter().all(Option::is_some) {
        attempt.is_introduced = true;
    }
    Ok(Said::Bound(attempt.is_introduced, repeated))
}

/// Whether some order explains the history.
pub(crate) fn is_linearizable(history: &History) -> bool {
    let mut actions: Vec<(u64, usize, Action<Call>)> = Vec::new();
    for call in &history.calls {
        actions.push((call.begun, call.thread, Action::Call(call.clone())));
        actions.push((call.ended, call.thread, Action::Response(call.clone())));
    }
    actions.sort_by_key(|(at, ..)| *at);
    let actions = actions.into_iter().map(|(_, thread, action)| (thread, action)).collect();
    WGLChecker::<Cell>::is_linearizable(Order::from_actions(actions))
}
