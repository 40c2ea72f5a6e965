//! Submitting a command: at once where the lane is idle, by ticket where it is busy.

use super::gate::Patience;
use super::ticket::{Answer, Ticket};
use super::writer::SLICES_PER_CALLER;
use super::{Lane, Store};
use crate::clock::Clock;
use crate::domain::{Certainty, Command, Failure, Reply};
use crate::sync::Arc;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A submitted command. Dropping it before the transition starts cancels the command (K1).
pub struct Submit<'a, C: Clock> {
    lane: &'a Lane<C>,
    state: State,
}

// The command lies in the future itself: boxing it would allocate once per command.
#[allow(clippy::large_enum_variant)]
enum State {
    /// Not polled yet.
    New(Command),
    Queued(Arc<Ticket>),
    Over,
}

impl<'a, C: Clock> Submit<'a, C> {
    pub(super) fn new(lane: &'a Lane<C>, command: Command) -> Self {
        Self { lane, state: State::New(command) }
    }

    /// Queues a command for which the lane was too busy.
    fn queue(&mut self, command: Command, context: &Context<'_>) -> Poll<Answer> {
        let lane = self.lane;
        let class = command.class();
        let ticket = lane.tickets.take(command, context.waker());
        if lane.queue(class).push(ticket.clone()).is_err() {
            return Poll::Ready(Err(Failure::Overloaded));
        }
        if lane.gate.poke() {
            lane.serve(None, SLICES_PER_CALLER);
        }
        self.look_at(ticket, context)
    }

    /// The ticket's answer, or the ticket kept.
    fn look_at(&mut self, ticket: Arc<Ticket>, context: &Context<'_>) -> Poll<Answer> {
        let answer = ticket.poll(context);
        match answer {
            Poll::Ready(_) => self.lane.tickets.give_back(ticket),
            Poll::Pending => self.state = State::Queued(ticket),
        }
        answer
    }
}

impl<C: Clock> Future for Submit<'_, C> {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(command) => match self.lane.at_once(command, Patience::TASK) {
                Ok(answer) => Poll::Ready(answer),
                Err(command) => self.queue(command, context),
            },
            State::Queued(ticket) => {
                let answer = self.look_at(ticket, context);
                // Woken without an answer: a holder may have left the lane to whoever waits.
                if answer.is_ready() || !self.lane.gate.take_over() {
                    return answer;
                }
                self.lane.serve(None, SLICES_PER_CALLER);
                match std::mem::replace(&mut self.state, State::Over) {
                    State::Queued(ticket) => self.look_at(ticket, context),
                    State::New(_) | State::Over => answer,
                }
            }
            State::Over => Poll::Ready(Err(Failure::Cancelled)),
        }
    }
}

impl<C: Clock> Drop for Submit<'_, C> {
    fn drop(&mut self) {
        if let State::Queued(ticket) = &self.state {
            ticket.cancel();
            // Perhaps it was this caller that was woken to take the lane over.
            if self.lane.gate.take_over() {
                self.lane.serve(None, SLICES_PER_CALLER);
            }
        }
    }
}

impl<C: Clock> Lane<C> {
    /// Submits from a thread that may block.
    pub fn submit_blocking(&self, command: Command) -> Result<Reply, Failure> {
        match self.at_once(command, Patience::THREAD) {
            Ok(answer) => answer,
            Err(command) => crate::sync::block_on(self.submit(command)),
        }
    }

    /// Does the commands on this thread, as one batch, where the lane is free now or very soon.
    pub(super) fn together_at_once(&self, commands: &mut Vec<Command>, answers: &mut Vec<Answer>) -> bool {
        if self.is_dead() {
            answers.extend(commands.drain(..).map(|_not_begun| Err(Failure::Unavailable(Certainty::NotApplied))));
            return true;
        }
        let is_free = self.gate.enter_within(Patience::TASK);
        if is_free {
            self.serve_together(commands, answers);
        }
        is_free
    }

    /// Does the command on this thread, where the lane is free now or very soon; gives it back where it is not.
    // What comes back is queued: by value it is moved once, boxed it would be allocated.
    #[allow(clippy::result_large_err)]
    pub(super) fn at_once(&self, command: Command, patience: Patience) -> Result<Answer, Command> {
        if self.is_dead() {
            return Ok(Err(Failure::Unavailable(Certainty::NotApplied)));
        }
        if !self.gate.enter_within(patience) {
            return Err(command);
        }
        Ok(self.serve(Some(command), SLICES_PER_CALLER).unwrap_or(Err(Failure::Cancelled)))
    }
}
