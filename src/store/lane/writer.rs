//! What the holder of the lane does: stamp, apply, publish, acknowledge.

use super::publisher::{ParkedRow, Publisher};
use super::snapshot::Root;
use super::ticket::{Answer, Ticket};
use super::{Lane, Swap};
use crate::clock::Clock;
use crate::domain::{At, Certainty, Class, Command, Event, Failure, Limits, MonoTime, Reply};
use crate::state_machine::{Change, Machine};
use crate::sync::{Arc, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

/// Commands served before their answers go out: bounds how long the first of a batch waits for the last.
#[cfg(not(loom))]
const BATCH: usize = 64;
#[cfg(loom)]
const BATCH: usize = 1;
/// Batches that one holder serves for others before it hands the lane over to somebody who waits: bounds how long a
/// caller works for the rest, to well under a millisecond of cheap transitions and some of dear ones.
#[cfg(not(loom))]
const BATCHES_PER_HOLDER: usize = 16;
#[cfg(loom)]
const BATCHES_PER_HOLDER: usize = 1;
/// Keep-alives served for each creation while both wait (D4): creations still progress.
const KEEP_ALIVES_PER_CREATION: usize = 8;
/// Slices of cleanup that a tick asks for; other commands are served between two.
pub(super) const SLICES_PER_TICK: usize = 64;
/// Slices that a caller works off for a tick that found the lane busy, before it has its answer: the rest is the next
/// tick's.
pub(super) const SLICES_PER_CALLER: usize = 1;

/// The one value that owns all state, and the publisher that follows it.
pub(crate) struct Writer {
    machine: Machine<ParkedRow>,
    publisher: Publisher,
    last: At,
    changes: Vec<Change>,
    events: Vec<Event>,
    /// The answers of the batch that is being served; kept for its memory.
    answers: Vec<(Arc<Ticket>, Answer)>,
    /// A ticket that has no place in its queue any more and is served next.
    displaced: Option<Arc<Ticket>>,
    /// Whether something in this batch must be published before it is acknowledged.
    must_publish: bool,
}

impl Writer {
    pub(crate) fn new(limits: Limits, now: MonoTime) -> Self {
        Self {
            machine: Machine::new(limits),
            publisher: Publisher::new(now),
            last: At::default(),
            changes: Vec::new(),
            events: Vec::new(),
            answers: Vec::with_capacity(BATCH),
            displaced: None,
            must_publish: false,
        }
    }

    pub(crate) fn cell(&self) -> Swap<Root> {
        self.publisher.cell().share()
    }

    /// Stamps and applies one command, and follows what it changed in the working copy of the view.
    fn apply(&mut self, clock: &impl Clock, command: Command) -> Answer {
        let at = self.stamp(clock);
        let result = self.machine.apply(at, command);
        self.machine.take_changes(&mut self.changes);
        for change in self.changes.drain(..) {
            self.publisher.follow(&mut self.machine, change, at.mono);
        }
        self.machine.take_events(&mut self.events);
        self.must_publish |= self.machine.take_removal();
        match result {
            Ok(outcome) => Ok(Reply { outcome, commit: self.machine.commit() }),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    /// `now` is stamped inside the lane and never goes back (A1).
    fn stamp(&mut self, clock: &impl Clock) -> At {
        let at = clock.at();
        self.last = At { mono: self.last.mono.max(at.mono), wall: at.wall };
        self.last
    }
}

impl<C: Clock> Lane<C> {
    /// Serves `own` and everything queued, then leaves the lane. The caller holds the gate.
    ///
    /// Queued work is looked for only when the gate says that there is some: each ticket is followed by a poke.
    /// A tick that came meanwhile gets so many slices of cleanup.
    pub(super) fn serve(&self, own: Option<Command>, slices: usize) -> Option<Answer> {
        let own_answer = own.map(|command| self.batch(&mut self.writer.lock(), Some(command)));
        if own_answer.is_none() || !self.gate.leave() {
            self.serve_others(slices);
        }
        own_answer
    }

    /// Like [`Self::serve`] for a batch of the caller's own.
    pub(super) fn serve_together(&self, own: &mut Vec<Command>, answers: &mut Vec<Answer>) {
        self.batch_together(&mut self.writer.lock(), own, answers);
        if !self.gate.leave() {
            self.serve_others(SLICES_PER_CALLER);
        }
    }

    /// Serves everything queued, then leaves the lane. The caller holds the gate.
    fn serve_others(&self, slices: usize) {
        let mut batches = 0;
        loop {
            let next = self.serve_the_rest(&mut self.writer.lock(), &mut batches, slices);
            if let Some(next) = next {
                self.gate.hand_over();
                // Looked at after the lane was let go: whoever goes away later than this tries to take it over itself.
                if let Some(waker) = next.waker() {
                    waker.wake();
                    return;
                }
                if !self.gate.take_over() {
                    return;
                }
                continue;
            }
            if self.gate.leave() {
                return;
            }
        }
    }

    /// Serves the queues until they are empty or this holder has done its share, and the tick after each batch: under a
    /// load that never lets the queues run empty, publication still keeps its interval (S5), also while the one that
    /// ticks is the one that serves. Returns who is to be woken to go on.
    fn serve_the_rest(&self, writer: &mut Writer, batches: &mut usize, slices: usize) -> Option<Arc<Ticket>> {
        loop {
            let is_queued = self.creations.len() > 0 || self.keep_alives.len() > 0;
            if is_queued {
                if *batches >= BATCHES_PER_HOLDER
                    && let Some(next) = self.successor(writer)
                {
                    return Some(next);
                }
                let _others = self.batch(writer, None);
                *batches += 1;
            }
            if self.tick_wanted.swap(false, Ordering::Relaxed) || self.is_publication_overdue(writer) {
                self.serve_tick(writer, slices);
            }
            if !is_queued {
                return None;
            }
        }
    }

    /// Somebody who waits in a queue. A ticket taken out to be looked at goes back to the end of its queue: each caller
    /// has one, so no caller's order changes. Where it has lost its place to a newcomer meanwhile, it is served next
    /// and nobody is named.
    fn successor(&self, writer: &mut Writer) -> Option<Arc<Ticket>> {
        for queue in [&self.keep_alives, &self.creations] {
            while let Some(ticket) = queue.pop() {
                if ticket.waker().is_none() {
                    continue;
                }
                match queue.push(ticket.clone()) {
                    Ok(()) => return Some(ticket),
                    Err(ticket) => writer.displaced = Some(ticket),
                }
                return None;
            }
        }
        None
    }

    fn is_publication_overdue(&self, writer: &Writer) -> bool {
        let age_ms = writer.last.mono.ms_since(writer.publisher.published_at());
        age_ms >= self.publish_interval_ms && writer.publisher.is_behind(&writer.machine)
    }

    /// One batch: stamp and apply each command, publish once if need be, then tell and acknowledge.
    fn batch(&self, writer: &mut Writer, own: Option<Command>) -> Answer {
        let mut answers = std::mem::take(&mut writer.answers);
        let mut own_answer = Err(Failure::Cancelled);
        if let Some(command) = own {
            own_answer = self.guarded(writer, command);
        } else {
            self.serve_queues(writer, &mut answers);
        }
        if !self.conclude(writer) {
            answers.iter_mut().for_each(|(_, answer)| *answer = Err(unknown(answer)));
            own_answer = Err(unknown(&own_answer));
        }
        answers.drain(..).for_each(|(ticket, answer)| ticket.answer(answer));
        writer.answers = answers;
        own_answer
    }

    /// The same for commands of one caller, who looks at `answers` once this is over.
    fn batch_together(&self, writer: &mut Writer, own: &mut Vec<Command>, answers: &mut Vec<Answer>) {
        let first = answers.len();
        answers.extend(own.drain(..).map(|command| self.guarded(writer, command)));
        if !self.conclude(writer) {
            answers[first..].iter_mut().for_each(|answer| *answer = Err(unknown(answer)));
        }
    }

    /// Publishes what a batch removed, and tells what it did. False when the store has died: the batch may or may not be
    /// seen by anybody, and nothing more can be guaranteed about it.
    fn conclude(&self, writer: &mut Writer) -> bool {
        // Before the publication: whoever has seen a commit may name it, and none is then above the last one (S5).
        self.commit.store(writer.machine.commit(), Ordering::Relaxed);
        if writer.must_publish {
            self.guard(|| self.publish(writer));
            writer.must_publish = false;
        }
        self.guard(|| self.tell(writer));
        !self.is_dead()
    }

    fn serve_queues(&self, writer: &mut Writer, answers: &mut Vec<(Arc<Ticket>, Answer)>) {
        let mut keep_alives = 0;
        while answers.len() < BATCH {
            let creation_is_due = keep_alives >= KEEP_ALIVES_PER_CREATION;
            let displaced = writer.displaced.take();
            let ticket = displaced.or_else(|| match creation_is_due {
                true => self.creations.pop().or_else(|| self.keep_alives.pop()),
                false => self.keep_alives.pop().or_else(|| self.creations.pop()),
            });
            let Some(ticket) = ticket else { break };
            keep_alives = if creation_is_due { 0 } else { keep_alives + 1 };
            let Some(command) = ticket.start() else { continue };
            let answer = self.guarded(writer, command);
            answers.push((ticket, answer));
        }
    }

    /// Applies one command; a panic makes the store unavailable for ever (J1).
    fn guarded(&self, writer: &mut Writer, command: Command) -> Answer {
        if self.is_dead() {
            return Err(Failure::Unavailable(Certainty::NotApplied));
        }
        let mut answer = Err(Failure::Unavailable(Certainty::Unknown));
        self.guard(|| answer = writer.apply(&self.clock, command));
        answer
    }

    fn guard(&self, work: impl FnOnce()) {
        if self.is_dead() {
            return;
        }
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.dead.store(true, Ordering::Relaxed);
            self.wake_waiting(u64::MAX);
        }
    }

    fn publish(&self, writer: &mut Writer) {
        writer.publisher.publish(&writer.machine, writer.last.mono);
        self.wake_waiting(writer.publisher.published_commit());
    }

    /// Tells the observer what happened, in commit order, after publication.
    fn tell(&self, writer: &mut Writer) {
        for event in writer.events.drain(..) {
            self.observer.observe(&event);
            if event == Event::Drained {
                free_off_the_lane(writer.publisher.clear());
            }
        }
        if let Some(retired) = writer.machine.take_retired() {
            free_off_the_lane(retired);
        }
    }

    /// Cleans up in slices, publishes what is due, and lets waiting commands in between two slices.
    fn serve_tick(&self, writer: &mut Writer, slices: usize) {
        for _ in 0..slices {
            let _swept = self.batch(writer, Some(Command::Sweep));
            let more = !self.is_dead() && writer.machine.has_dead(writer.last.mono);
            if !more {
                break;
            }
            if self.creations.len() > 0 || self.keep_alives.len() > 0 {
                let _others = self.batch(writer, None);
            }
        }
        self.guard(|| {
            if writer.publisher.is_behind(&writer.machine) {
                self.publish(writer);
            }
        });
    }

    /// The queue of a class.
    pub(super) fn queue(&self, class: Class) -> &super::BoundedQueue<Arc<Ticket>> {
        match class {
            Class::Creation => &self.creations,
            Class::KeepAlive => &self.keep_alives,
        }
    }

    // ---- waiting for a publication ----

    pub(super) fn poll_published(&self, commit: u64, context: &Context<'_>) -> Poll<()> {
        let is_there = || self.is_dead() || self.cell.with(|root| root.commit) >= commit;
        if is_there() {
            return Poll::Ready(());
        }
        {
            let mut waiting = self.waiting.lock();
            let waits = |(wanted, waker): &(u64, Waker)| *wanted == commit && waker.will_wake(context.waker());
            if !waiting.iter().any(waits) {
                waiting.push((commit, context.waker().clone()));
            }
        }
        // Once more after joining the waiters: a publication in between has not seen this one.
        if is_there() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn wake_waiting(&self, commit: u64) {
        let ready: Vec<_> = self.waiting.lock().extract_if(.., |(wanted, _)| *wanted <= commit).collect();
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// What is told to a caller whose batch was caught by the death of the store.
fn unknown(answer: &Answer) -> Failure {
    match answer {
        Ok(_) => Failure::Unavailable(Certainty::Unknown),
        Err(failure) => *failure,
    }
}

/// Drops a large value on a thread of its own, so that the lane does not wait for the allocator.
fn free_off_the_lane(value: impl Send + 'static) {
    #[cfg(not(loom))]
    {
        // Without a thread to be had the value is dropped here: slower, and just as right.
        drop(std::thread::Builder::new().name("rendezvous-free".into()).spawn(move || drop(value)));
    }
    #[cfg(loom)]
    drop(value);
}
