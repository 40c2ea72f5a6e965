//! One store with its clock and its observer, and the phrases in which the tests talk to it.

use super::build::*;
use super::clock::ManualClock;
use super::exec::block_on;
use super::observer::Recorder;
use rendezvous::domain::limits::LimitsError;
use rendezvous::domain::*;
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{Availability, Observer, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Sizes that only one of the two stores has a use for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneShape {
    pub(crate) creations: usize,
    pub(crate) keep_alives: usize,
    pub(crate) publish_interval_ms: u32,
}

impl Default for LaneShape {
    fn default() -> Self {
        Self { creations: 4_096, keep_alives: 4_096, publish_interval_ms: 20 }
    }
}

/// A store that the suite can open.
pub(crate) trait Backend: Store + Sized {
    fn open(
        limits: Limits,
        shape: LaneShape,
        clock: ManualClock,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LimitsError>;
}

impl Backend for SingleLock<ManualClock> {
    fn open(
        limits: Limits,
        _shape: LaneShape,
        clock: ManualClock,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LimitsError> {
        Self::new(limits, clock, observer)
    }
}

impl Backend for Lane<ManualClock> {
    fn open(
        limits: Limits,
        shape: LaneShape,
        clock: ManualClock,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LimitsError> {
        let settings = LaneSettings {
            queue_creations: shape.creations,
            queue_keep_alives: shape.keep_alives,
            publish_interval_ms: shape.publish_interval_ms,
        };
        Self::new(limits, settings, clock, observer)
    }
}

/// A store under test.
pub(crate) struct World<S> {
    pub(crate) store: S,
    pub(crate) clock: ManualClock,
    pub(crate) observer: Arc<Recorder>,
    numbers: AtomicU64,
}

impl<S: Backend> World<S> {
    /// A store with the defaults of the table in section D.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A store with some limits changed. Presence and idempotency ceilings follow the others unless changed too.
    pub(crate) fn with(change: impl FnOnce(&mut Limits)) -> Self {
        Self::shaped(LaneShape::default(), change)
    }

    pub(crate) fn shaped(shape: LaneShape, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::on(ManualClock::new(), limits, shape).expect("limits that can be kept")
    }

    pub(crate) fn on(clock: ManualClock, limits: Limits, shape: LaneShape) -> Result<Self, LimitsError> {
        let observer = Arc::new(Recorder::default());
        let store = S::open(limits, shape, clock.clone(), observer.clone())?;
        Ok(Self { store, clock, observer, numbers: AtomicU64::new(1) })
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> MonoTime {
        self.clock.now()
    }

    pub(crate) fn store_commit(&self) -> u64 {
        self.store.last_commit()
    }

    pub(crate) fn store_availability(&self) -> Availability {
        self.store.availability()
    }

    pub(crate) fn submit(&self, command: Command) -> Result<Reply, Failure> {
        block_on(self.store.submit(command))
    }

    /// The reply of a command that must be accepted.
    #[track_caller]
    pub(crate) fn reply(&self, command: Command) -> Reply {
        let shown = format!("{command:?}");
        self.submit(command).unwrap_or_else(|failure| panic!("{failure:?} for {shown}"))
    }

    #[track_caller]
    pub(crate) fn ok(&self, command: Command) -> Outcome {
        self.reply(command).outcome
    }

    /// The rejection of a command that must be refused by the domain.
    #[track_caller]
    pub(crate) fn rejected(&self, command: Command) -> Rejection {
        let shown = format!("{command:?}");
        match self.submit(command) {
            Err(Failure::Rejected(rejection)) => rejection,
            other => panic!("{other:?} instead of a rejection of {shown}"),
        }
    }

    /// A registration of the usual scope, with a number of its own.
    pub(crate) fn register(&self, owner: u64) -> Register {
        register_in(scope(PROTOCOL), principal(owner), self.number())
    }

    #[track_caller]
    pub(crate) fn registered(&self, register: Register) -> Host {
        let host = Host::of(&register);
        match self.ok(Command::Register(Box::new(register))) {
            Outcome::Registered(registered) => assert_eq!((registered.id, registered.replayed), (host.id, false)),
            other => panic!("{other:?}"),
        }
        host
    }

    /// A listing without presence.
    #[track_caller]
    pub(crate) fn listing(&self, owner: u64) -> Host {
        self.registered(self.register(owner))
    }

    /// A fresh public listing.
    #[track_caller]
    pub(crate) fn host(&self, owner: u64) -> Host {
        self.fresh(self.register(owner))
    }

    /// Registers and sends one presence datagram from 192.0.2.1.
    #[track_caller]
    pub(crate) fn fresh(&self, register: Register) -> Host {
        let host = self.registered(register);
        self.present(&host, v4(1, 4_000));
        host
    }

    /// One accepted presence datagram with a fresh nonce.
    #[track_caller]
    pub(crate) fn present(&self, host: &Host, endpoint: Endpoint) -> Present {
        let datagram = presence(host, endpoint, self.number(), self.now());
        self.presence_ok(datagram)
    }

    #[track_caller]
    pub(crate) fn presence_ok(&self, datagram: Presence) -> Present {
        match self.ok(Command::Presence(datagram)) {
            Outcome::Present(present) => present,
            other => panic!("{other:?}"),
        }
    }

    /// An unbuilt attempt, with a number of its own.
    pub(crate) fn attempt(&self, host: &Host, joiner: u64) -> CreateAttempt {
        attempt_on(host, principal(joiner), self.number())
    }

    #[track_caller]
    pub(crate) fn created(&self, create: CreateAttempt, host: &Host) -> Try {
        let attempt = Try::of(&create, host);
        match self.ok(Command::CreateAttempt(Box::new(create))) {
            Outcome::AttemptCreated(created) => assert_eq!((created.id, created.replayed), (attempt.id, false)),
            other => panic!("{other:?}"),
        }
        attempt
    }

    #[track_caller]
    pub(crate) fn joins(&self, host: &Host, joiner: u64) -> Try {
        self.created(self.attempt(host, joiner), host)
    }

    /// A fresh listing with one attempt by principal 1000.
    #[track_caller]
    pub(crate) fn host_and_attempt(&self) -> (Host, Try) {
        let host = self.host(1);
        let attempt = self.joins(&host, 1_000);
        (host, attempt)
    }

    #[track_caller]
    pub(crate) fn bind(&self, attempt: &Try, role: Role, endpoint: Endpoint) -> Bound {
        self.bound(Command::Bind(attempt.bind(role, endpoint, self.now())))
    }

    #[track_caller]
    pub(crate) fn bind_and_consume(&self, attempt: &Try, role: Role, endpoint: Endpoint) -> Bound {
        self.bound(Command::BindAndConsume(attempt.bind(role, endpoint, self.now())))
    }

    #[track_caller]
    pub(crate) fn bound(&self, command: Command) -> Bound {
        match self.ok(command) {
            Outcome::Bound(bound) => bound,
            other => panic!("{other:?}"),
        }
    }

    /// Both roles bound in IPv4 by Bind, not introduced.
    #[track_caller]
    pub(crate) fn bind_both(&self, attempt: &Try) {
        self.bind(attempt, Role::Host, v4(1, 4_000));
        self.bind(attempt, Role::Joiner, v4(2, 5_000));
    }

    #[track_caller]
    pub(crate) fn answer(&self, query: Command) -> Answer {
        match self.ok(query) {
            Outcome::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn lease(&self, host: &Host) -> LeaseView {
        match self.answer(host.lease_query()) {
            Answer::Lease(view) => view,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn view(&self, attempt: &Try, caller: Principal) -> AttemptView {
        match self.answer(attempt.query(caller)) {
            Answer::Attempt(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// The reason of an ended attempt, as its joiner sees it.
    #[track_caller]
    pub(crate) fn ended(&self, attempt: &Try) -> EndReason {
        match self.view(attempt, attempt.joiner).state {
            AttemptState::Ended(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn pending(&self, host: &Host, after: u64) -> Vec<PendingAttempt> {
        match self.answer(Command::Query(Query::PendingAttempts { proof: host.proof(), after })) {
            Answer::Pending(pending) => pending,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        match self.answer(Command::Query(Query::Status)) {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Runs `body` while the writer stands still inside a transition that deletes `victim`.
    pub(crate) fn while_held<R>(&self, victim: &Host, body: impl FnOnce() -> R) -> R {
        thread::scope(|threads| {
            let held = self.observer.hold_next();
            let holder = threads.spawn(|| self.ok(victim.delete()));
            held.wait_entered();
            let result = body();
            held.release();
            assert_eq!(holder.join().expect("the held transition completes"), Outcome::Deleted);
            result
        })
    }
}
