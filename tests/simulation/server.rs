//! One life of the server, as it is composed in the product, but for its sockets.

use crate::calls::{Answer, Task, shared};
use crate::network::{SERVER_V4, SERVER_V6};
use crate::plan::{Caps, Plan};
use crate::rng::Rng;
use crate::support::ManualClock;
use rendezvous::clock::SharedClock;
use rendezvous::domain::time::TtlBounds;
use rendezvous::domain::*;
use rendezvous::edge::udp::*;
use rendezvous::service::*;
use rendezvous::store::AnyStore;
use rendezvous::store::lane::{Lane, LaneSettings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How often the server ticks.
pub(crate) const PUBLISH_MS: u64 = 300;

/// Hears what transitions did, from inside of the lane; there it can panic, and let other calls meet the one that runs.
#[derive(Default)]
pub(crate) struct Watch {
    events: Mutex<Vec<Event>>,
    panics_next: AtomicBool,
    meeting: Mutex<Meeting>,
}

/// Calls that enter the lane while it is held.
#[derive(Default)]
pub(crate) struct Meeting {
    pub(crate) waiting: Vec<Guest>,
    pub(crate) came: Vec<Guest>,
}

/// One of them, and what it got at once.
pub(crate) struct Guest {
    pub(crate) number: usize,
    pub(crate) task: Option<Task<Answer>>,
    pub(crate) answer: Option<Answer>,
    /// Whether it goes away as soon as it has to wait.
    pub(crate) is_impatient: bool,
}

impl Watch {
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn panic_next(&self) {
        self.panics_next.store(true, Ordering::SeqCst);
    }

    /// From the next event on `guests` are in the lane.
    pub(crate) fn invite(&self, guests: Vec<Guest>) {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner).waiting = guests;
    }

    pub(crate) fn part(&self) -> Meeting {
        std::mem::take(&mut self.meeting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Watch {
    fn observe(&self, event: &Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        if self.panics_next.swap(false, Ordering::SeqCst) {
            panic!("armed: the observer panics");
        }
        let guests = std::mem::take(&mut self.meeting.lock().unwrap_or_else(PoisonError::into_inner).waiting);
        for mut guest in guests {
            guest.answer = guest.task.as_mut().and_then(Task::go_on);
            if guest.is_impatient && guest.answer.is_none() {
                guest.task = None;
            }
            self.meeting.lock().unwrap_or_else(PoisonError::into_inner).came.push(guest);
        }
    }
}

/// Ids from a counter, mixed.
struct Ids {
    clock: ManualClock,
    count: AtomicU64,
}

impl IdSource for Ids {
    fn created_ms(&self) -> u64 {
        self.clock.now().0 / 1_000_000
    }

    fn random(&self) -> Result<u128, EntropyError> {
        let rng = Rng::new(self.count.fetch_add(1, Ordering::SeqCst));
        Ok(u128::from(rng.next()) << 64 | u128::from(rng.next()))
    }
}

/// One process.
pub(crate) struct Server {
    pub(crate) service: Arc<Service>,
    pub(crate) clock: SharedClock,
    pub(crate) responder: Responder,
    pub(crate) answerer: Answerer,
    pub(crate) indications: Indications,
    pub(crate) watch: Arc<Watch>,
    pub(crate) waits: Arc<Waits>,
}

/// Lifetimes of a few seconds, so that much lives and dies in one run.
pub(crate) fn limits(caps: &Caps) -> Limits {
    Limits {
        listings: caps.listings,
        unproven_listings: caps.unproven.min(caps.listings),
        presence: caps.presence,
        attempts: caps.attempts,
        idempotency: 4_096,
        replay: 64,
        revocations: caps.revocations,
        lease_ttl: TtlBounds { min_ms: 2_000, max_ms: 9_000, default_ms: 6_000 },
        unproven_window_ms: 4_000,
        presence_ttl_ms: 7_000,
        attempt_ttl_ms: 8_000,
        bind_window_ms: 4_000,
        no_common_family_ms: 2_000,
        idempotency_retention_ms: 9_000,
        ..Limits::default()
    }
}

impl Server {
    /// Life number `life` of the server of this plan.
    pub(crate) fn start(plan: &Plan, life: u32, clock: &ManualClock) -> Self {
        let (caps, shared) = (&plan.knobs.caps, shared(clock));
        let limits = limits(caps);
        let rng = Rng::new(plan.seed ^ u64::from(life) << 40);
        let instance = InstanceId(u128::from(rng.next()) << 64 | u128::from(life));
        // J4: the root may be the same in every life.
        let keys = InstanceKeys::derive(&[7; 32], instance);
        let (waits, waiting_attempts) = (Waits::new(caps.long_polls), Arc::new(WaitingAttempts::default()));
        let (notices, watch) = (Arc::new(UdpNotices::new()), Arc::new(Watch::default()));
        let observer = Fanout::new(vec![waits.clone(), waiting_attempts.clone(), notices.clone(), watch.clone()]);
        let settings = LaneSettings {
            queue_creations: caps.queue,
            queue_keep_alives: caps.queue,
            publish_interval_ms: PUBLISH_MS as u32,
        };
        let store = Lane::new(limits.clone(), settings, shared.clone(), observer).expect("limits that can be kept");
        let policy = Policy {
            listings_per_owner: caps.per_owner,
            attempts_per_tenant: caps.per_tenant,
            attempts_per_listing: caps.per_listing,
            attempts_per_principal: caps.per_principal,
            guest_listings_per_source: u32::MAX,
            guest_attempts_per_source: u32::MAX,
            long_polls: caps.long_polls,
            drain_window_ms: 1_000,
            turn: None,
        };
        let service = Arc::new(Service::new(ServiceParts {
            store: AnyStore::Lane(store),
            clock: shared.clone(),
            instance,
            keys: keys.clone(),
            limits,
            policy,
            ids: Box::new(Ids { clock: clock.clone(), count: AtomicU64::new(plan.seed ^ u64::from(life) << 48) }),
            waits: waits.clone(),
            waiting_attempts,
        }));
        let protocol = Protocol {
            credentials: service.key().clone(),
            entropy: Entropy::new(*keys.nonces.expose()),
            instance,
            nonce_fresh_ms: service.limits().nonce_fresh_ms,
        };
        let responder = Responder::new(&protocol, &Budgets::default(), vec![SERVER_V4, SERVER_V6], false);
        let answerer = responder.answerer().clone();
        let indications = Indications::new(&protocol, answerer.clone(), notices);
        Self { service, clock: shared, responder, answerer, indications, watch, waits }
    }
}
