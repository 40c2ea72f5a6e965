//! Loom models of the shipped lane and publisher; see `tests/`. Without `--cfg loom` this package is empty.
#![cfg(loom)]
#![allow(missing_docs, clippy::wildcard_enum_match_arm)]

#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "../tests/support/say.rs"]
mod say;

use loom::model::Builder;
use rendezvous::clock::Clock;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{
    Answer, Candidates, Command, Delete, Details, Endpoint, Failure, Fingerprint, Idempotency, IdempotencyKey,
    LeaseProof, Limits, ListingId, MonoTime, Outcome, Presence, Principal, PrincipalKey, Query, Register, Renew,
    ReplayKey, Reply, Revoke, Scope, Status, Subject, TenantId, Ttl, TtlBounds, Visibility, WallTime,
};
use rendezvous::store::lane::{Lane, LaneSettings, Reader};
use rendezvous::store::{BrowseQuery, NoObserver, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BOMB: &str = "the clock was told to panic";

/// A clock that stands still until a model moves it; it may be told to panic, which kills the lane that asks it.
#[derive(Clone, Default)]
pub struct ModelClock {
    now: Arc<AtomicU64>,
    bomb: Arc<AtomicBool>,
}

impl ModelClock {
    pub fn set(&self, ns: u64) {
        self.now.store(ns, Ordering::SeqCst);
    }

    pub fn arm(&self) {
        self.bomb.store(true, Ordering::SeqCst);
    }
}

impl Clock for ModelClock {
    fn mono(&self) -> MonoTime {
        if self.bomb.swap(false, Ordering::SeqCst) {
            std::panic::panic_any(BOMB);
        }
        MonoTime(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

pub type ModelLane = Lane<ModelClock>;

/// Explores the interleavings of `model`: all of them, or those with at most `preemptions` involuntary switches.
/// Prints how many there were, so that a model that stopped exploring is noticed.
pub fn explore(name: &str, preemptions: impl Into<Option<usize>>, model: impl Fn() + Send + Sync + 'static) {
    let interleavings = Arc::new(AtomicU64::new(0));
    let counted = interleavings.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.max_branches = 50_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let interleavings = interleavings.load(Ordering::Relaxed);
    say::say(format_args!("{name}: {interleavings} interleavings"));
    assert!(interleavings > 10, "{name} explored next to nothing");
}

/// Keeps the expected panic of a [`ModelClock`] from printing a backtrace per interleaving.
pub fn silence_the_bomb() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_bomb = panic.payload().downcast_ref::<&str>().is_some_and(|text| *text == BOMB);
        if !is_bomb {
            print(panic);
        }
    }));
}

pub fn lane(clock: &ModelClock) -> Arc<ModelLane> {
    clock.set(1_000_000_000);
    let limits = Limits {
        listings: 8,
        unproven_listings: 8,
        presence: 16,
        attempts: 8,
        idempotency: 16,
        replay: 4,
        revocations: 4,
        ..Limits::default()
    };
    let settings = LaneSettings { queue_creations: 4, queue_keep_alives: 4, ..LaneSettings::default() };
    Arc::new(Lane::new(limits, settings, clock.clone(), Arc::new(NoObserver)).expect("valid limits"))
}

pub fn scope(protocol: &str) -> Scope {
    Scope::new(TenantId(0), protocol).expect("a legal protocol")
}

pub fn owner(n: u128) -> Principal {
    Principal { tenant: TenantId(0), key: PrincipalKey(n) }
}

pub fn id(n: u64, protocol: &str) -> ListingId {
    ListingId::compose(n, n, Scope::tag(TenantId(0), protocol))
}

pub fn register(n: u64, protocol: &str) -> Command {
    let details = DetailsInput { name: format!("n{n}"), max_players: 2, ..DetailsInput::default() };
    Command::Register(Box::new(Register {
        id: id(n, protocol),
        owner: owner(1),
        source: None,
        idempotency: Idempotency { key: IdempotencyKey(n.into()), fingerprint: Fingerprint(1) },
        scope: scope(protocol),
        visibility: Visibility::Public,
        details: Details::new(details).expect("valid details"),
        ttl: ttl(60_000),
        gate: false,
        session: None,
        candidates: Candidates::default(),
        lease: Fingerprint(9),
        quota_per_owner: 8,
        quota_per_source: 8,
    }))
}

pub fn ttl(ms: u64) -> Ttl {
    Ttl::checked(ms, TtlBounds { min_ms: 1, max_ms: 1_000_000_000, default_ms: 1 }).expect("inside the bounds")
}

pub fn proof(n: u64, protocol: &str) -> LeaseProof {
    LeaseProof { listing: id(n, protocol), caller: owner(1), lease: Fingerprint(9) }
}

pub fn presence(n: u64, protocol: &str) -> Command {
    Command::Presence(Presence {
        listing: id(n, protocol),
        endpoint: Endpoint::new(([192, 0, 2, 1], 4000).into()).expect("a unicast endpoint"),
        datagram: Fingerprint(n.into()),
        sequence: Some(n),
        nonce_issued: MonoTime(1_000_000_000),
    })
}

pub fn delete(n: u64, protocol: &str) -> Command {
    Command::Delete(Delete { proof: proof(n, protocol) })
}

pub fn renew(n: u64, protocol: &str, version: u64, ttl_ms: u64) -> Command {
    Command::Renew(Renew {
        proof: proof(n, protocol),
        version,
        ttl: Some(ttl(ttl_ms)),
        details: None,
        visibility: None,
    })
}

pub fn revoke_owner() -> Command {
    Command::Revoke(Revoke { subject: Subject::Principal(PrincipalKey(1)), ttl: ttl(60_000), once: ReplayKey(1) })
}

pub fn done(result: Result<Reply, Failure>) -> Reply {
    result.expect("the model's command is accepted")
}

/// Registers, proves presence and publishes.
pub fn show(lane: &ModelLane, n: u64, protocol: &str) {
    done(lane.submit_blocking(register(n, protocol)));
    done(lane.submit_blocking(presence(n, protocol)));
    lane.tick();
}

/// The commit and number of rows that a browse of `protocol` sees.
pub fn browse(reader: &mut Reader<'_, ModelClock>, protocol: &str) -> (u64, usize) {
    let query = BrowseQuery { tenant: TenantId(0), protocol, after: None, limit: 50, filter: None };
    reader.browse(&query, |page| (page.commit, page.count)).expect("the store is available")
}

pub fn status(lane: &ModelLane) -> Status {
    match done(lane.submit_blocking(Command::Query(Query::Status))).outcome {
        Outcome::Answer(Answer::Status(status)) => *status,
        other => panic!("not a status: {other:?}"),
    }
}
