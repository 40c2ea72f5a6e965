//! Submitting a command: at once where the lane is idle, by ticket where it is busy.

use super::ticket::Ticket;
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

enum State {
    /// Not polled yet.
    New(Box<Command>),
    Queued(Arc<Ticket>),
    Over,
}

impl<'a, C: Clock> Submit<'a, C> {
    pub(super) fn new(lane: &'a Lane<C>, command: Command) -> Self {
        Self { lane, state: State::New(Box::new(command)) }
    }

    fn begin(&mut self, command: Command, context: &Context<'_>) -> Poll<Result<Reply, Failure>> {
        let lane = self.lane;
        if lane.is_dead() {
            return Poll::Ready(Err(Failure::Unavailable(Certainty::NotApplied)));
        }
        if lane.gate.enter() {
            let answer = lane.serve(Some(command));
            return Poll::Ready(answer.unwrap_or(Err(Failure::Cancelled)));
        }
        let class = command.class();
        let ticket = Arc::new(Ticket::new(command, context.waker().clone()));
        if lane.queue(class).push(ticket.clone()).is_err() {
            return Poll::Ready(Err(Failure::Overloaded));
        }
        if lane.gate.poke() {
            lane.serve(None);
        }
        let answer = ticket.poll(context);
        if answer.is_pending() {
            self.state = State::Queued(ticket);
        }
        answer
    }
}

impl<C: Clock> Future for Submit<'_, C> {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(command) => self.begin(*command, context),
            State::Queued(ticket) => {
                let mut answer = ticket.poll(context);
                // Woken without an answer: a holder may have left the lane to whoever waits.
                if answer.is_pending() && self.lane.gate.take_over() {
                    self.lane.serve(None);
                    answer = ticket.poll(context);
                }
                if answer.is_pending() {
                    self.state = State::Queued(ticket);
                }
                answer
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
                self.lane.serve(None);
            }
        }
    }
}

impl<C: Clock> Lane<C> {
    /// Submits from a thread that may block.
    pub fn submit_blocking(&self, command: Command) -> Result<Reply, Failure> {
        crate::sync::block_on(self.submit(command))
    }
}
