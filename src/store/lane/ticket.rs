//! A ticket: one queued command, its caller's waker, and its answer; and the tickets kept for the next commands.

use crate::domain::{Command, Failure, Reply};
use crate::sync::{Arc, BoundedQueue, Mutex};
use std::task::{Context, Poll, Waker};

pub(crate) type Answer = Result<Reply, Failure>;

// Command and answer lie in the ticket itself, which is used again: nothing is allocated per contended command.
#[allow(clippy::large_enum_variant)]
enum State {
    /// Queued: the command, and whom to wake.
    Waiting(Command, Waker),
    /// The transition has started; it completes whatever happens to the caller (K1).
    Started(Waker),
    Answered(Answer),
    /// The caller has the answer or went away.
    Over,
}

/// See the module's documentation.
pub(crate) struct Ticket(Mutex<State>);

impl Ticket {
    pub(crate) fn new(command: Command, waker: Waker) -> Self {
        Self(Mutex::new(State::Waiting(command, waker)))
    }

    /// The second point at which a cancellation is seen: the command, unless the caller went away.
    pub(crate) fn start(&self) -> Option<Command> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Waiting(command, waker) => {
                *state = State::Started(waker);
                Some(command)
            }
            other @ (State::Started(_) | State::Answered(_) | State::Over) => {
                *state = other;
                None
            }
        }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        let mut state = self.0.lock();
        let waker = match std::mem::replace(&mut *state, State::Over) {
            State::Waiting(_, waker) | State::Started(waker) => {
                *state = State::Answered(answer);
                Some(waker)
            }
            State::Answered(_) | State::Over => None,
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Answer> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Waiting(_, waker) | State::Started(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            State::Answered(answer) => {
                let answer = answer.clone();
                *state = State::Over;
                Poll::Ready(answer)
            }
            State::Over => Poll::Ready(Err(Failure::Cancelled)),
        }
    }

    /// Whom to wake, while it waits.
    pub(crate) fn waker(&self) -> Option<Waker> {
        match &*self.0.lock() {
            State::Waiting(_, waker) => Some(waker.clone()),
            State::Started(_) | State::Answered(_) | State::Over => None,
        }
    }

    /// Cancels a transition that has not started.
    pub(crate) fn cancel(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Waiting(..)) {
            *state = State::Over;
        }
    }
}

/// Tickets kept for the next commands: as many as a batch serves. More callers at once allocate.
const KEPT: usize = 64;

/// Tickets that nobody uses, or soon nobody will.
pub(crate) struct Tickets(BoundedQueue<Arc<Ticket>>);

impl Tickets {
    pub(crate) fn new() -> Self {
        Self(BoundedQueue::new(KEPT))
    }

    /// A ticket for `command`.
    pub(crate) fn take(&self, command: Command, waker: &Waker) -> Arc<Ticket> {
        let fresh = Ticket::new(command, waker.clone());
        let Some(mut kept) = self.0.pop() else { return Arc::new(fresh) };
        // The holder that answered it may still have its hand on it; then it is let go of.
        match Arc::get_mut(&mut kept) {
            Some(ticket) => *ticket = fresh,
            None => kept = Arc::new(fresh),
        }
        kept
    }

    /// Keeps an answered ticket, if there is room.
    pub(crate) fn give_back(&self, ticket: Arc<Ticket>) {
        // Full: then it is freed.
        drop(self.0.push(ticket));
    }
}
