//! The loop: sockets, notices and timers of one task that owns all mutable state, and waits for none of its questions.

use super::answerer::Answerer;
use super::indications::{Indications, Said};
use super::lane::Lane;
use super::metrics::{AnswerKind, NoticeKind, UdpMetrics};
use super::notices::UdpNotices;
use super::question::{Arrival, Decision, Question, Silence, Transmit};
use super::responder::{Protocol, Responder};
use super::routes::Routes;
use super::socket::{Batch, Sockets};
use crate::clock::{Clock, SharedClock};
use crate::domain::MonoTime;
use crate::repeats::Repeats;
use crate::service::{Ask, TOGETHER_MAX, Together};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Receive errors in a row after which the loop rests: a socket that fails for ever must not take a core.
const ERRORS_BEFORE_REST: u32 = 64;
const ERROR_REST: Duration = Duration::from_millis(5);

/// What a question's task needs.
pub(super) struct Asker<L> {
    pub(super) lane: Arc<L>,
    pub(super) clock: SharedClock,
    pub(super) sockets: Arc<Sockets>,
    pub(super) metrics: Arc<UdpMetrics>,
    pub(super) answerer: Answerer,
}

impl<L: Lane> Asker<L> {
    /// Asks the lane and sends its answer, with lifetimes as of the moment of sending.
    async fn ask(self: Arc<Self>, question: Question) {
        let result = self.lane.ask(question.ask).await;
        self.metrics.answer(kind_of(&question.ask));
        let transmit = self.answerer.answer(&question.reply, result, self.clock.mono());
        self.sockets.send(&transmit, &self.metrics);
    }

    /// Sends an indication the way its endpoint was heard.
    fn indicate(&self, routes: &Routes, said: Said) {
        let (kind, to, bytes) = match said {
            Said::Offer(to, bytes) => (NoticeKind::Offer, to, bytes),
            Said::Introduction(to, bytes) => (NoticeKind::Introduction, to, bytes),
            Said::OfferLimited => return self.metrics.notice(NoticeKind::OfferLimited),
            Said::OfferDropped => return self.metrics.notice(NoticeKind::OfferDropped),
        };
        let Some(local) = routes.to(to).or_else(|| self.sockets.default_route(to.family())) else { return };
        self.metrics.notice(kind);
        self.sockets.send(&Transmit { to: to.address(), local, bytes }, &self.metrics);
    }
}

/// How the lane's word on a question is counted.
fn kind_of(ask: &Ask) -> AnswerKind {
    match ask {
        Ask::Presence(_) => AnswerKind::Presence,
        Ask::Bind(_) => AnswerKind::Bind,
    }
}

/// What one batch has come to so far, and memory that is kept for the next one.
#[derive(Default)]
struct Judged {
    /// For the lane, at most [`TOGETHER_MAX`].
    questions: Vec<Question>,
    together: Together,
    /// For the network.
    answers: Vec<Transmit>,
}

/// All state of the loop.
pub(super) struct Engine<L> {
    asker: Arc<Asker<L>>,
    responder: Responder,
    indications: Indications,
    notices: Arc<UdpNotices>,
    routes: Routes,
    /// One permit per question that waits for the lane.
    permits: Arc<Semaphore>,
    /// Their tasks; dropping the set cancels them.
    questions: JoinSet<()>,
    judged: Judged,
    errors_in_a_row: u32,
    failures: Repeats,
}

/// Why the loop turns.
enum Woken {
    Readable(usize),
    Upkeep,
}

impl<L: Lane> Engine<L> {
    pub(super) fn new(
        asker: Asker<L>,
        responder: Responder,
        protocol: &Protocol,
        notices: Arc<UdpNotices>,
        questions_max: usize,
    ) -> Self {
        Self {
            indications: Indications::new(protocol, asker.answerer.clone(), Arc::clone(&notices)),
            asker: Arc::new(asker),
            responder,
            notices,
            routes: Routes::default(),
            permits: Arc::new(Semaphore::new(questions_max.min(Semaphore::MAX_PERMITS))),
            questions: JoinSet::new(),
            judged: Judged::default(),
            errors_in_a_row: 0,
            failures: Repeats::default(),
        }
    }

    /// Turns for ever: no error of a socket, of the lane or of a datagram ends it.
    pub(super) async fn run(&mut self) {
        let mut batch = Batch::new();
        let mut first = 0;
        loop {
            match self.wait(first).await {
                Woken::Readable(socket) => {
                    self.receive(socket, &mut batch).await;
                    // The next search begins behind this socket, so that a flooded one keeps no other waiting.
                    first = socket + 1;
                }
                Woken::Upkeep => {}
            }
            let Self { indications, asker, routes, .. } = self;
            indications.turn(&asker.clock, |said| asker.indicate(routes, said));
            while self.questions.try_join_next().is_some() {}
        }
    }

    /// Receives nothing more; waits for the answers to what was asked, and tells what has happened.
    pub(super) async fn finish(&mut self) {
        while self.questions.join_next().await.is_some() {}
        let Self { indications, asker, routes, .. } = self;
        while indications.is_waiting() {
            indications.take_notices(&asker.clock, &mut |said| asker.indicate(routes, said));
        }
    }

    async fn wait(&self, first: usize) -> Woken {
        let sockets = &self.asker.sockets;
        let until_due = self.indications.next_due().map(|due| {
            let ms = due.ms_since(self.asker.clock.mono());
            // Rounded up, or the last part of a millisecond would be spent turning.
            Duration::from_millis(if due.is_past(self.asker.clock.mono()) { 0 } else { ms + 1 })
        });
        tokio::select! {
            biased;
            socket = poll_fn(|context| sockets.poll_readable(first, context)) => Woken::Readable(socket),
            () = std::future::ready(()), if self.notices.is_waiting() => Woken::Upkeep,
            () = self.notices.added() => Woken::Upkeep,
            () = tokio::time::sleep(until_due.unwrap_or_default()), if until_due.is_some() => Woken::Upkeep,
        }
    }

    /// Reads one batch, judges each datagram, asks the lane for all that want it, and sends the answers.
    async fn receive(&mut self, socket: usize, batch: &mut Batch) {
        match self.asker.sockets.receive(socket, batch) {
            Ok(count) => {
                self.errors_in_a_row = 0;
                // What one system call read arrived at one instant.
                let now = self.asker.clock.mono();
                for (bytes, source, asked) in batch.datagrams(count) {
                    self.datagram(bytes, source, socket, asked, now);
                    if self.judged.questions.len() == TOGETHER_MAX {
                        self.conclude();
                    }
                }
                self.conclude();
            }
            // Somebody woke us for nothing, or an earlier batch took everything.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.asker.metrics.receive_error(&error);
                self.errors_in_a_row += 1;
                if self.errors_in_a_row >= ERRORS_BEFORE_REST {
                    self.errors_in_a_row = 0;
                    if let Some(repeated) = self.failures.note(&error.to_string(), self.asker.clock.mono()) {
                        tracing::warn!(event = "udp_receive_failed", socket, %error, repeated);
                    }
                    tokio::time::sleep(ERROR_REST).await;
                }
            }
        }
    }

    fn datagram(&mut self, bytes: &[u8], source: SocketAddr, socket: usize, asked: Option<IpAddr>, now: MonoTime) {
        let Self { asker, responder, .. } = self;
        asker.metrics.received();
        let local = asker.sockets.local(socket, asked);
        let arrival = Arrival { source, local, listener: asker.sockets.listener(socket) };
        match responder.receive(bytes, arrival, now) {
            Decision::Silence(cause) => asker.metrics.silence(cause),
            Decision::Transmit(transmit) => self.answer(AnswerKind::Direct, transmit),
            Decision::Ask(question) => {
                let endpoint = question.reply.endpoint();
                let default = asker.sockets.default_route(endpoint.family());
                self.routes.note(endpoint, question.reply.local, default);
                self.judged.questions.push(*question);
            }
            Decision::Note(note, answer) => {
                match answer {
                    Some(transmit) => self.answer(AnswerKind::Direct, transmit),
                    None => asker.metrics.silence(Silence::Budget),
                }
                if self.has_room() {
                    let asker = Arc::clone(&self.asker);
                    self.begin(async move {
                        // Only the owner's view shows it; there is nobody to tell when it was refused.
                        let _ = asker.lane.note(note).await;
                    });
                }
            }
        }
    }

    fn answer(&mut self, kind: AnswerKind, transmit: Transmit) {
        self.asker.metrics.answer(kind);
        self.judged.answers.push(transmit);
    }

    /// Asks the lane for everything that waits to be asked, in one pass where it is idle, and sends what has been answered.
    fn conclude(&mut self) {
        let mut questions = std::mem::take(&mut self.judged.questions);
        let mut together = std::mem::take(&mut self.judged.together);
        let (asker, asks) = (Arc::clone(&self.asker), questions.iter().map(|question| question.ask));
        let mut asked = questions.iter();
        let has_begun = questions.is_empty()
            || asker.lane.ask_together(asks, &mut together, |result| {
                let Some(question) = asked.next() else { return };
                let transmit = asker.answerer.answer(&question.reply, result, asker.clock.mono());
                self.answer(kind_of(&question.ask), transmit);
            });
        if has_begun {
            questions.clear();
        } else {
            questions.drain(..).for_each(|question| self.question(question));
        }
        let Judged { answers, .. } = &mut self.judged;
        asker.sockets.send_all(answers, &asker.metrics);
        answers.clear();
        self.judged.questions = questions;
        self.judged.together = together;
    }

    /// Asks the busy lane, or refuses the question at once when too many wait.
    fn question(&mut self, question: Question) {
        if !self.has_room() {
            let transmit = self.asker.answerer.overloaded(&question.reply, self.asker.clock.mono());
            return self.answer(AnswerKind::Overloaded, transmit);
        }
        let asker = Arc::clone(&self.asker);
        self.begin(asker.ask(question));
    }

    /// Whether one more question may wait. Only this loop takes permits, so what it sees here it gets.
    fn has_room(&self) -> bool {
        self.permits.available_permits() > 0
    }

    /// Runs `asking` as far as it goes. An idle lane answers at once, and then nothing is left to wait for; only a busy one
    /// is worth a task. Its first poll there sees what came meanwhile, so it does not matter that nobody hears this waker.
    fn begin(&mut self, asking: impl Future<Output = ()> + Send + 'static) {
        let mut asking = Box::pin(asking);
        if asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let permit = self.permit();
        self.questions.spawn(async move {
            asking.await;
            drop(permit);
        });
    }

    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}
