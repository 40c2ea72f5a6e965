//! A service whose clock, ids and secrets are the target's: one input gives one history, on every machine.

#[allow(dead_code, reason = "the targets move time in fewer ways than the contract suite")]
#[path = "../../support/clock.rs"]
pub(crate) mod clock;
#[path = "input.rs"]
pub(crate) mod input;

pub(crate) use clock::ManualClock;
use rendezvous::clock::SharedClock;
use rendezvous::config::Config;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::{Candidates, Details, InstanceId, Limits, Scope, TenantId, Ttl, Visibility};
use rendezvous::service::{
    EntropyError, Fanout, IdSource, InstanceKeys, RegisterRequest, Service, ServiceParts, WaitingAttempts, Waits,
};
use rendezvous::store::AnyStore;
use rendezvous::store::lane::{Lane, LaneSettings};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

pub(crate) const TENANT: TenantId = TenantId(0);
pub(crate) const INSTANCE: InstanceId = InstanceId(77);

/// Counts instead of drawing: the ids of one input are always the same.
struct CountedIds(AtomicU64);

impl IdSource for CountedIds {
    fn created_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed)
    }

    fn random(&self) -> Result<u128, EntropyError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        // Spread over all bits, as entropy is.
        Ok(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
    }
}

pub(crate) fn keys() -> InstanceKeys {
    InstanceKeys::derive(&[7; 32], INSTANCE)
}

/// Ceilings that an input can reach.
pub(crate) fn small_limits() -> Limits {
    Limits {
        listings: 8,
        unproven_listings: 6,
        presence: 12,
        attempts: 8,
        idempotency: 64,
        replay: 8,
        revocations: 8,
        ..Limits::default()
    }
}

/// The listing `n{number}` of `arena/3`, for as long as may be.
pub(crate) fn registration(service: &Service, number: usize, gate: bool) -> RegisterRequest {
    let limits = service.limits();
    let details = DetailsInput { name: format!("n{number}"), max_players: 4, ..DetailsInput::default() };
    RegisterRequest {
        scope: Scope::new(TENANT, "arena/3").expect("legal"),
        visibility: Visibility::Public,
        details: Details::new(details).expect("valid"),
        ttl: Ttl::checked(limits.lease_ttl.max_ms.into(), limits.lease_ttl).expect("the longest"),
        gate,
        session: None,
        candidates: Candidates::default(),
    }
}

/// A service on a lane of its own.
pub(crate) fn service(clock: &ManualClock) -> Arc<Service> {
    let limits = small_limits();
    let clock: SharedClock = Arc::new(clock.clone());
    let (waits, waiting_attempts) = (Waits::new(8), Arc::new(WaitingAttempts::default()));
    let observer = Fanout::new(vec![waits.clone(), waiting_attempts.clone()]);
    let lane = Lane::new(limits.clone(), LaneSettings::default(), clock.clone(), observer).expect("limits that fit");
    Arc::new(Service::new(ServiceParts {
        store: AnyStore::Lane(lane),
        clock,
        instance: INSTANCE,
        keys: keys(),
        limits,
        policy: Config::default().policy(),
        ids: Box::new(CountedIds(AtomicU64::new(0))),
        waits,
        waiting_attempts,
    }))
}

/// An idle lane answers at the first poll.
#[allow(dead_code, reason = "the HTTP target has a runtime")]
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nobody else is at the lane"),
    }
}
