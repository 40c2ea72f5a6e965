//! Long polls: who waits for which listing or attempt, and what wakes them.
//!
//! A poll first asks the store (which authorises it), then enters here, then asks again, and waits only if there was
//! still nothing: an event of a transition that the second question did not see finds the poll already registered.
//! The registry decides nothing (rule A3): a woken poll asks the store once more.

use super::WAIT_MAX;
use crate::domain::{
    AttemptId, Event, Failure, ListingEnd, ListingId, PrincipalKey, Rejection, Resource, SessionRef, TenantId,
};
use crate::store::Observer;
use dashmap::{DashMap, Entry};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

/// Polls that may wait on one attempt: one of each side.
const PER_ATTEMPT: usize = 2;

/// Polls that may wait at one gate: the back ends of one session.
const PER_GATE: usize = 16;

/// What ends a wait besides news and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Drain began: whoever waits is told, whoever comes later may wait for what still goes on.
    Draining,
    /// Nothing will happen any more: the drain deadline passed, the store is lost, or the process is about to end.
    Over,
}

/// All waiting long polls: at most `ceiling` for listings and attempts, and as many at gates, which so take no place from
/// those that hosts and joiners need. The maps hold only what waits, so they are bounded by it too.
pub struct Waits {
    ceiling: u32,
    /// Read by the writer before it looks into a map. Relaxed is enough: a poll counts itself before it enters the lane
    /// with its second question, and a transition that comes after that question has synchronised with it in the lane.
    waiting: AtomicU32,
    /// The same for polls at gates.
    waiting_at_gates: AtomicU32,
    listings: DashMap<ListingId, Arc<Slot>>,
    attempts: DashMap<AttemptId, Sides>,
    gates: DashMap<Gate, Vec<Arc<Slot>>>,
    phase: watch::Sender<Phase>,
}

/// One waiting poll as the writer sees it.
#[derive(Debug, Default)]
struct Slot {
    news: Notify,
    ended: OnceLock<ListingEnd>,
    replaced: AtomicBool,
}

impl Slot {
    fn replace(&self) {
        // Relaxed: `notify_one` publishes it to the woken task.
        self.replaced.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }
}

/// The polls of an attempt's sides.
type Sides = [Option<(PrincipalKey, Arc<Slot>)>; PER_ATTEMPT];

/// The gate of a session of the command plane. Any number of back ends may wait at one.
type Gate = (TenantId, SessionRef);

/// What a poll waits for.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Listing(ListingId),
    Attempt(AttemptId),
    Gate(Gate),
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Something happened: ask again.
    News,
    /// The listing ended.
    Ended(ListingEnd),
    /// Time is over, drain began, the same caller polls anew, or nothing will happen any more: ask a last time, for what
    /// was true when the wait began may be dead.
    Last,
}

/// The place of one waiting poll; dropping it, also by a hang-up, frees the place.
pub(super) struct Place<'a> {
    waits: &'a Waits,
    subject: Subject,
    slot: Arc<Slot>,
    phase: watch::Receiver<Phase>,
    until: Instant,
}

impl Waits {
    /// A registry for at most `ceiling` polls that wait for listings and attempts, and as many at gates.
    pub fn new(ceiling: u32) -> Arc<Self> {
        Arc::new(Self {
            ceiling,
            waiting: AtomicU32::new(0),
            waiting_at_gates: AtomicU32::new(0),
            listings: DashMap::new(),
            attempts: DashMap::new(),
            gates: DashMap::new(),
            phase: watch::Sender::new(Phase::Running),
        })
    }

    /// Polls that wait now.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed) + self.waiting_at_gates.load(Ordering::Relaxed)
    }

    fn count(&self, subject: Subject) -> &AtomicU32 {
        match subject {
            Subject::Listing(_) | Subject::Attempt(_) => &self.waiting,
            Subject::Gate(_) => &self.waiting_at_gates,
        }
    }

    /// Lets every poll answer at once, those to come as well: the process is about to end or the store is lost.
    pub fn close(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// A place to wait for the listing; a poll that already waits for it is let go.
    pub(super) fn for_listing(&self, listing: ListingId, wait: Duration) -> Result<Place<'_>, Failure> {
        let place = self.place(Subject::Listing(listing), wait)?;
        if let Some(older) = self.listings.insert(listing, Arc::clone(&place.slot)) {
            older.replace();
        }
        Ok(place)
    }

    /// A place to wait for the attempt; a poll of the same caller that already waits for it is let go.
    pub(super) fn for_attempt(
        &self,
        attempt: AttemptId,
        caller: PrincipalKey,
        wait: Duration,
    ) -> Result<Place<'_>, Failure> {
        let place = self.place(Subject::Attempt(attempt), wait)?;
        let mut sides = self.attempts.entry(attempt).or_default();
        let own = sides.iter().position(|side| side.as_ref().is_some_and(|(who, _)| *who == caller));
        // The store has told this caller about the attempt, so it is one of two: without a place of its own, one is free.
        let position = own.or_else(|| sides.iter().position(Option::is_none)).unwrap_or(0);
        if let Some((_, older)) = sides[position].replace((caller, Arc::clone(&place.slot))) {
            older.replace();
        }
        drop(sides);
        Ok(place)
    }

    /// A place to wait at a session's gate. With all of its places taken none is let go for it: who was would come again.
    pub(super) fn for_gate(&self, tenant: TenantId, session: SessionRef, wait: Duration) -> Result<Place<'_>, Failure> {
        let place = self.place(Subject::Gate((tenant, session)), wait)?;
        let mut slots = self.gates.entry((tenant, session)).or_default();
        if slots.len() >= PER_GATE {
            // Leaving takes the same lock.
            drop(slots);
            return Err(Rejection::CapacityExceeded(Resource::LongPolls).into());
        }
        slots.push(Arc::clone(&place.slot));
        drop(slots);
        Ok(place)
    }

    fn place(&self, subject: Subject, wait: Duration) -> Result<Place<'_>, Failure> {
        let more = |waiting| (waiting < self.ceiling).then_some(waiting + 1);
        self.count(subject)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Rejection::CapacityExceeded(Resource::LongPolls))?;
        let until = Instant::now() + wait.min(WAIT_MAX);
        Ok(Place { waits: self, subject, slot: Arc::default(), phase: self.phase.subscribe(), until })
    }

    fn wake_attempt(&self, attempt: AttemptId) {
        if let Some(sides) = self.attempts.get(&attempt) {
            sides.iter().flatten().for_each(|(_, slot)| slot.news.notify_one());
        }
    }
}

impl Observer for Waits {
    /// Wakes whoever waits for what happened. A shard of a map is locked only for single look-ups, never across a wait.
    fn observe(&self, event: &Event) {
        match event {
            Event::DrainBegan { .. } => {
                self.phase.send_if_modified(|phase| {
                    let first = *phase == Phase::Running;
                    if first {
                        *phase = Phase::Draining;
                    }
                    first
                });
            }
            Event::Drained => self.close(),
            _ if self.waiting() == 0 => {}
            Event::AttemptCreated { listing, .. } => {
                if let Some(slot) = self.listings.get(listing) {
                    slot.news.notify_one();
                }
            }
            Event::GateAsked { tenant, session } => {
                if let Some(slots) = self.gates.get(&(*tenant, *session)) {
                    slots.iter().for_each(|slot| slot.news.notify_one());
                }
            }
            Event::AttemptChanged { attempt, .. } | Event::AttemptEnded { attempt, .. } => self.wake_attempt(*attempt),
            Event::Introduced(introduction) => self.wake_attempt(introduction.attempt),
            Event::ListingEnded { listing, reason } => {
                if let Some(slot) = self.listings.get(listing) {
                    let _ = slot.ended.set(*reason);
                    slot.news.notify_one();
                }
            }
        }
    }
}

impl Place<'_> {
    /// Waits for the next thing to happen.
    pub(super) async fn woken(&mut self) -> Woken {
        if *self.phase.borrow() == Phase::Over {
            return Woken::Last;
        }
        let happened = async {
            tokio::select! {
                () = self.slot.news.notified() => true,
                _ = self.phase.changed() => false,
            }
        };
        match timeout_at(self.until, happened).await {
            Ok(true) => self.reason(),
            Ok(false) | Err(_) => Woken::Last,
        }
    }

    fn reason(&self) -> Woken {
        if let Some(reason) = self.ended() {
            return Woken::Ended(reason);
        }
        if self.slot.replaced.load(Ordering::Relaxed) { Woken::Last } else { Woken::News }
    }

    /// How the listing ended, when that was heard.
    pub(super) fn ended(&self) -> Option<ListingEnd> {
        self.slot.ended.get().copied()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        match self.subject {
            Subject::Listing(listing) => {
                self.waits.listings.remove_if(&listing, |_, slot| Arc::ptr_eq(slot, &self.slot));
            }
            Subject::Attempt(attempt) => {
                if let Entry::Occupied(mut sides) = self.waits.attempts.entry(attempt) {
                    for side in sides.get_mut() {
                        if side.as_ref().is_some_and(|(_, slot)| Arc::ptr_eq(slot, &self.slot)) {
                            *side = None;
                        }
                    }
                    if sides.get().iter().all(Option::is_none) {
                        sides.remove();
                    }
                }
            }
            Subject::Gate(gate) => {
                if let Entry::Occupied(mut slots) = self.waits.gates.entry(gate) {
                    slots.get_mut().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
                    if slots.get().is_empty() {
                        slots.remove();
                    }
                }
            }
        }
        self.waits.count(self.subject).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::MonoTime;

    const LISTING: ListingId = ListingId(1);
    const ATTEMPT: AttemptId = AttemptId(2);
    const LONG: Duration = WAIT_MAX;

    fn ended(listing: ListingId) -> Event {
        Event::ListingEnded { listing, reason: ListingEnd::Deleted }
    }

    fn changed(attempt: AttemptId) -> Event {
        Event::AttemptChanged { attempt, host_bound: false }
    }

    #[tokio::test]
    async fn an_event_between_entering_and_waiting_is_not_lost() {
        let waits = Waits::new(8);
        let mut attempt = waits.for_attempt(ATTEMPT, PrincipalKey(1), LONG).unwrap();
        waits.observe(&changed(AttemptId(9)));
        waits.observe(&changed(ATTEMPT));
        assert_eq!(attempt.woken().await, Woken::News);
        let mut listing = waits.for_listing(LISTING, LONG).unwrap();
        waits.observe(&ended(LISTING));
        assert_eq!(listing.woken().await, Woken::Ended(ListingEnd::Deleted));
    }

    #[tokio::test]
    async fn a_newer_poll_of_the_same_caller_replaces_the_older() {
        let waits = Waits::new(8);
        let mut host = waits.for_attempt(ATTEMPT, PrincipalKey(1), LONG).unwrap();
        let mut joiner = waits.for_attempt(ATTEMPT, PrincipalKey(2), LONG).unwrap();
        let mut newer = waits.for_attempt(ATTEMPT, PrincipalKey(1), LONG).unwrap();
        assert_eq!(host.woken().await, Woken::Last);
        drop(host);
        waits.observe(&changed(ATTEMPT));
        assert_eq!((joiner.woken().await, newer.woken().await), (Woken::News, Woken::News));
        let mut old = waits.for_listing(LISTING, LONG).unwrap();
        let mut new = waits.for_listing(LISTING, LONG).unwrap();
        assert_eq!(old.woken().await, Woken::Last);
        drop(old);
        waits.observe(&ended(LISTING));
        assert_eq!(new.woken().await, Woken::Ended(ListingEnd::Deleted));
    }

    #[tokio::test]
    async fn the_ceiling_is_typed_and_a_dropped_poll_frees_its_place() {
        let waits = Waits::new(2);
        let first = waits.for_listing(LISTING, LONG).unwrap();
        let second = waits.for_attempt(ATTEMPT, PrincipalKey(1), LONG).unwrap();
        let full = Failure::Rejected(Rejection::CapacityExceeded(Resource::LongPolls));
        assert_eq!(waits.for_listing(ListingId(7), LONG).err(), Some(full));
        drop((first, second));
        assert_eq!((waits.waiting(), waits.listings.len(), waits.attempts.len()), (0, 0, 0));
        assert!(waits.for_listing(ListingId(7), LONG).is_ok());
    }

    #[tokio::test]
    async fn drain_lets_go_of_who_waits_and_not_of_who_comes_later() {
        let waits = Waits::new(8);
        let mut early = waits.for_listing(LISTING, LONG).unwrap();
        waits.observe(&Event::DrainBegan { deadline: MonoTime(1) });
        assert_eq!(early.woken().await, Woken::Last);
        let mut late = waits.for_attempt(ATTEMPT, PrincipalKey(1), LONG).unwrap();
        waits.observe(&changed(ATTEMPT));
        assert_eq!(late.woken().await, Woken::News);
        waits.observe(&Event::Drained);
        assert_eq!(late.woken().await, Woken::Last);
        let mut after = waits.for_listing(LISTING, LONG).unwrap();
        assert_eq!(after.woken().await, Woken::Last);
    }

    #[tokio::test]
    async fn everybody_at_a_gate_hears_of_a_knock_and_nobody_at_another() {
        let (waits, session) = (Waits::new(8), SessionRef(3));
        let mut first = waits.for_gate(TenantId(0), session, LONG).unwrap();
        let mut second = waits.for_gate(TenantId(0), session, LONG).unwrap();
        let mut elsewhere = waits.for_gate(TenantId(1), session, Duration::from_millis(5)).unwrap();
        waits.observe(&Event::GateAsked { tenant: TenantId(0), session });
        assert_eq!((first.woken().await, second.woken().await), (Woken::News, Woken::News));
        assert_eq!(elsewhere.woken().await, Woken::Last);
        drop((first, second, elsewhere));
        assert_eq!((waits.waiting(), waits.gates.len()), (0, 0));
    }

    #[tokio::test]
    async fn polls_at_gates_take_no_place_from_hosts_and_joiners() {
        let waits = Waits::new(20);
        let at = |session| waits.for_gate(TenantId(0), SessionRef(session), LONG);
        let one: Vec<_> = (0..PER_GATE).map(|_| at(1).unwrap()).collect();
        let full = Failure::Rejected(Rejection::CapacityExceeded(Resource::LongPolls));
        assert_eq!(at(1).err(), Some(full), "one gate has so many places");
        let more: Vec<_> = (2..6).map(|session| at(session).unwrap()).collect();
        assert_eq!(at(9).err(), Some(full), "all gates have so many");
        let hosts: Vec<_> = (0..20).map(|id| waits.for_listing(ListingId(id), LONG)).collect();
        assert!(hosts.iter().all(Result::is_ok));
        assert_eq!(waits.waiting(), 40);
        drop((one, more, hosts));
        assert_eq!((waits.waiting(), waits.gates.len()), (0, 0));
        assert!(at(1).is_ok());
    }

    #[tokio::test]
    async fn time_ends_a_wait() {
        let waits = Waits::new(8);
        assert_eq!(waits.for_listing(LISTING, Duration::from_millis(5)).unwrap().woken().await, Woken::Last);
    }
}
