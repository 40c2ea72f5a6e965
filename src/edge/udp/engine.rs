//! The loop: sockets, notices and timers of one task that owns all mutable state, and waits for none of its questions.

use super::answerer::Answerer;
use super::indications::{Indications, Said};
use super::lane::Lane;
use super::metrics::{AnswerKind, NoticeKind, UdpMetrics};
use super::notices::UdpNotices;
use super::question::{Arrival, Ask, Decision, Question, Silence, Transmit};
use super::responder::{Protocol, Responder};
use super::routes::Routes;
use super::socket::{Batch, Sockets};
use crate::clock::{Clock, SharedClock};
use crate::domain::MonoTime;
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
    async fn ask(self: Arc<Self>, question: Box<Question>) {
        let reply = &question.reply;
        let (kind, transmit) = match question.ask {
            Ask::Presence(presence) => {
                let result = self.lane.presence(presence).await;
                (AnswerKind::Presence, self.answerer.presence(reply, result, self.clock.mono()))
            }
            Ask::Bind(bind) => {
                let result = self.lane.bind(bind).await;
                (AnswerKind::Bind, self.answerer.bind(reply, result, self.clock.mono()))
            }
        };
        self.answer(kind, &transmit);
    }

    fn answer(&self, kind: AnswerKind, transmit: &Transmit) {
        self.metrics.answer(kind);
        self.sockets.send(transmit, &self.metrics);
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
    errors_in_a_row: u32,
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
            errors_in_a_row: 0,
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

    /// Reads one batch and judges each datagram.
    async fn receive(&mut self, socket: usize, batch: &mut Batch) {
        match self.asker.sockets.receive(socket, batch) {
            Ok(count) => {
                self.errors_in_a_row = 0;
                // What one system call read arrived at one instant.
                let now = self.asker.clock.mono();
                for (bytes, source, asked) in batch.datagrams(count) {
                    self.datagram(bytes, source, socket, asked, now);
                }
            }
            // Somebody woke us for nothing, or an earlier batch took everything.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.asker.metrics.receive_error(&error);
                self.errors_in_a_row += 1;
                if self.errors_in_a_row >= ERRORS_BEFORE_REST {
                    self.errors_in_a_row = 0;
                    tracing::warn!(socket, %error, "UDP receive keeps failing");
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
            Decision::Transmit(transmit) => asker.answer(AnswerKind::Direct, &transmit),
            Decision::Ask(question) => self.question(question),
            Decision::Note(note, answer) => {
                match answer {
                    Some(transmit) => asker.answer(AnswerKind::Direct, &transmit),
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

    /// Asks the lane, or refuses the question at once when too many wait.
    fn question(&mut self, question: Box<Question>) {
        if !self.has_room() {
            let transmit = self.asker.answerer.overloaded(&question.reply, self.asker.clock.mono());
            self.asker.answer(AnswerKind::Overloaded, &transmit);
            return;
        }
        let endpoint = question.reply.endpoint();
        let default = self.asker.sockets.default_route(endpoint.family());
        self.routes.note(endpoint, question.reply.local, default);
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
