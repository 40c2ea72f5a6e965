//! From the writer to the edge, without a wait: a bounded queue of what UDP has to tell somebody.

use crate::domain::{AttemptId, Endpoint, Event, Introduction, ListingId, MonoTime};
use crate::service::Observer;
use crossbeam::queue::ArrayQueue;
use prometheus_client::metrics::counter::Counter;
use std::fmt;
use tokio::sync::Notify;

/// Notices that may wait. The edge empties the queue on every turn of its loop, so this bridges a pause of some tenths of a
/// second at the writer's full speed. What does not fit is dropped and counted: the same things are delivered by
/// answers and over HTTP.
pub(super) const NOTICES_MAX: usize = 16_384;

/// What the edge has to know of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Tell the host.
    Offer(Offer),
    /// No more offers of this attempt.
    Settled(AttemptId),
    /// Tell both sides.
    Introduced(Box<Introduction>),
    /// Nothing is told at or after this instant.
    DrainBegan(MonoTime),
    /// Nothing is told any more.
    Drained,
}

/// A pending attempt and the endpoint that hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) attempt: AttemptId,
    pub(super) listing: ListingId,
    pub(super) host: Endpoint,
    pub(super) deadline: MonoTime,
}

/// The observer that the store is built with, and the source of the edge's indications.
pub struct UdpNotices {
    queue: ArrayQueue<Notice>,
    wake: Notify,
    dropped: Counter,
}

impl UdpNotices {
    /// An empty queue.
    pub fn new() -> Self {
        Self { queue: ArrayQueue::new(NOTICES_MAX), wake: Notify::new(), dropped: Counter::default() }
    }

    /// Resolves when something has been added since the last time.
    pub(super) async fn added(&self) {
        self.wake.notified().await;
    }

    /// Whether anything waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The oldest notice.
    pub(super) fn take(&self) -> Option<Notice> {
        self.queue.pop()
    }

    /// Notices that found the queue full.
    pub(super) fn dropped(&self) -> Counter {
        self.dropped.clone()
    }

    /// In a full queue the oldest gives way: what ends everything is never lost.
    fn add_surely(&self, notice: Notice) {
        if self.queue.force_push(notice).is_some() {
            self.dropped.inc();
        }
        self.wake.notify_one();
    }

    fn add(&self, notice: Notice) {
        match self.queue.push(notice) {
            Ok(()) => self.wake.notify_one(),
            Err(_) => {
                self.dropped.inc();
            }
        }
    }
}

impl Default for UdpNotices {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for UdpNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpNotices").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}

impl Observer for UdpNotices {
    fn observe(&self, event: &Event) {
        match event {
            Event::AttemptCreated { attempt, listing, host, deadline } => {
                let offer = Offer { attempt: *attempt, listing: *listing, host: *host, deadline: *deadline };
                self.add(Notice::Offer(offer));
            }
            Event::AttemptChanged { attempt, host_bound: true } => self.add(Notice::Settled(*attempt)),
            Event::AttemptEnded { attempt, .. } => self.add(Notice::Settled(*attempt)),
            Event::Introduced(introduction) => self.add(Notice::Introduced(introduction.clone())),
            Event::DrainBegan { deadline } => self.add_surely(Notice::DrainBegan(*deadline)),
            Event::Drained => self.add_surely(Notice::Drained),
            // The attempts of a listing that ends are told one by one.
            Event::GateAsked { .. } | Event::AttemptChanged { host_bound: false, .. } | Event::ListingEnded { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_and_never_waits() {
        let notices = UdpNotices::new();
        for id in 0..NOTICES_MAX as u128 + 3 {
            notices.observe(&Event::AttemptChanged { attempt: AttemptId(id), host_bound: true });
        }
        assert_eq!(notices.dropped().get(), 3);
        assert_eq!(notices.take(), Some(Notice::Settled(AttemptId(0))), "oldest first");
        let rest = std::iter::from_fn(|| notices.take()).count();
        assert_eq!(rest, NOTICES_MAX - 1);
    }

    #[test]
    fn rule_j2_a_full_queue_does_not_lose_the_drain() {
        let notices = UdpNotices::new();
        for id in 0..NOTICES_MAX as u128 {
            notices.observe(&Event::AttemptChanged { attempt: AttemptId(id), host_bound: true });
        }
        notices.observe(&Event::DrainBegan { deadline: MonoTime(7) });
        notices.observe(&Event::Drained);
        let all: Vec<Notice> = std::iter::from_fn(|| notices.take()).collect();
        assert_eq!(all[NOTICES_MAX - 2..], [Notice::DrainBegan(MonoTime(7)), Notice::Drained]);
        assert_eq!(notices.dropped().get(), 2);
    }
}
