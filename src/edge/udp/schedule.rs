//! When a host hears of an attempt: 0, 250 and 750 ms after it was created, unless it has answered. No I/O, no clock.

use super::budget::{BucketTable, Rate};
use super::notices::{Notice, Offer};
use crate::domain::{AttemptId, Introduction, MonoTime};
use std::collections::{BTreeSet, HashMap};

/// When the same offer is sent, after the first.
const REPEATS_MS: [u64; 2] = [250, 750];

/// Attempts whose offers are not all sent yet. Each stays 750 ms, so this is more than 20,000 attempts a second; beyond
/// it an offer is counted as dropped, since presence answers and HTTP also deliver.
pub(super) const OFFERS_SCHEDULED_MAX: usize = 16_384;

/// Ten at once and ten a second are at most twenty in any second (the contract's bound per host).
const HOST_OFFERS_PER_S: u32 = 10;
const HOST_OFFERS_BURST: u32 = 10;

/// One attempt's remaining offers.
#[derive(Clone, Copy, Debug)]
struct Pending {
    offer: Offer,
    begun: MonoTime,
    /// How many of [`REPEATS_MS`] have been sent.
    repeats_sent: usize,
    next: MonoTime,
}

/// What is to be done with an offer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Send it.
    Send(Offer),
    /// Its host has heard enough in this second.
    Limited,
}

/// What became of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is in the schedule, or changed it.
    Scheduled,
    /// Too many are scheduled.
    Full,
    /// To be told at once.
    Introduce(Box<Introduction>),
}

/// Pending offers in the order of their due time.
#[derive(Debug)]
pub(super) struct Schedule {
    pending: HashMap<AttemptId, Pending>,
    due: BTreeSet<(MonoTime, AttemptId)>,
    hosts: BucketTable,
    /// The drain deadline: everything's last deadline.
    end: MonoTime,
}

impl Schedule {
    /// An empty schedule.
    pub(super) fn new() -> Self {
        Self {
            pending: HashMap::new(),
            due: BTreeSet::new(),
            hosts: BucketTable::new(Rate::new(HOST_OFFERS_PER_S, HOST_OFFERS_BURST)),
            end: MonoTime::NEVER,
        }
    }

    /// Takes a notice in.
    pub(super) fn accept(&mut self, notice: Notice, now: MonoTime) -> Accepted {
        match notice {
            Notice::Offer(offer) => return self.begin(offer, now),
            Notice::Settled(attempt) => self.cancel(attempt),
            Notice::Introduced(introduction) => {
                self.cancel(introduction.attempt);
                let over = introduction.deadline.min(self.end).is_past(now);
                return if over { Accepted::Scheduled } else { Accepted::Introduce(introduction) };
            }
            Notice::DrainBegan(deadline) => self.end = self.end.min(deadline),
            Notice::Drained => {
                self.pending.clear();
                self.due.clear();
            }
        }
        Accepted::Scheduled
    }

    /// When [`Schedule::next`] has something again.
    pub(super) fn next_due(&self) -> Option<MonoTime> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next offer that is due, and plans its repetition.
    pub(super) fn next(&mut self, now: MonoTime) -> Option<Due> {
        while let Some((at, attempt)) = self.due.first().copied() {
            if at > now {
                return None;
            }
            self.due.pop_first();
            let Some(mut pending) = self.pending.remove(&attempt) else { continue };
            let offer = pending.offer;
            if offer.until.min(self.end).is_past(now) {
                continue;
            }
            if let Some(repeat_ms) = REPEATS_MS.get(pending.repeats_sent) {
                pending.repeats_sent += 1;
                pending.next = pending.begun.plus_ms(*repeat_ms);
                self.insert(pending);
            }
            let allowed = self.hosts.take(offer.listing, now);
            return Some(if allowed { Due::Send(offer) } else { Due::Limited });
        }
        None
    }

    fn begin(&mut self, offer: Offer, now: MonoTime) -> Accepted {
        if self.pending.len() >= OFFERS_SCHEDULED_MAX {
            return Accepted::Full;
        }
        self.cancel(offer.attempt);
        self.insert(Pending { offer, begun: now, repeats_sent: 0, next: now });
        Accepted::Scheduled
    }

    fn insert(&mut self, pending: Pending) {
        self.due.insert((pending.next, pending.offer.attempt));
        self.pending.insert(pending.offer.attempt, pending);
    }

    fn cancel(&mut self, attempt: AttemptId) {
        if let Some(pending) = self.pending.remove(&attempt) {
            self.due.remove(&(pending.next, attempt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Endpoint, ListingId};

    const START: MonoTime = MonoTime(1_000_000_000);

    fn offer(attempt: u128, listing: u128) -> Offer {
        let host = Endpoint::new("192.0.2.1:4000".parse().unwrap()).unwrap();
        Offer {
            attempt: AttemptId(attempt),
            listing: ListingId(listing),
            host,
            deadline: START.plus_ms(30_000),
            until: START.plus_ms(20_000),
        }
    }

    fn introduction_of(attempt: u128) -> Introduction {
        let Offer { attempt, listing, host, deadline, .. } = offer(attempt, 1);
        Introduction {
            attempt,
            listing,
            pairs: [None, None],
            candidates: [Vec::new(), Vec::new()],
            last_bound: [host, host],
            at: START,
            deadline,
        }
    }

    /// Milliseconds at which something was sent, looking every millisecond.
    fn sent(schedule: &mut Schedule, from_ms: u64, to_ms: u64) -> Vec<u64> {
        let mut at = Vec::new();
        for ms in from_ms..to_ms {
            while let Some(due) = schedule.next(START.plus_ms(ms)) {
                if matches!(due, Due::Send(_)) {
                    at.push(ms);
                }
            }
        }
        at
    }

    #[test]
    fn an_offer_goes_out_three_times() {
        let mut schedule = Schedule::new();
        assert_eq!(schedule.accept(Notice::Offer(offer(1, 1)), START), Accepted::Scheduled);
        assert_eq!(schedule.next_due(), Some(START));
        assert_eq!(sent(&mut schedule, 0, 5_000), [0, 250, 750]);
        assert_eq!((schedule.next_due(), schedule.pending.len()), (None, 0));
    }

    #[test]
    fn a_bind_refusal_end_or_introduction_cancels_the_rest() {
        let mut schedule = Schedule::new();
        schedule.accept(Notice::Offer(offer(1, 1)), START);
        assert_eq!(sent(&mut schedule, 0, 100), [0]);
        schedule.accept(Notice::Settled(AttemptId(1)), START.plus_ms(100));
        assert!(sent(&mut schedule, 100, 5_000).is_empty());
        assert!(schedule.pending.is_empty() && schedule.due.is_empty());

        schedule.accept(Notice::Offer(offer(2, 1)), START.plus_ms(6_000));
        assert_eq!(sent(&mut schedule, 6_000, 6_100), [6_000]);
        let introduction = Box::new(introduction_of(2));
        let accepted = schedule.accept(Notice::Introduced(introduction.clone()), START.plus_ms(6_100));
        assert_eq!(accepted, Accepted::Introduce(introduction));
        assert!(sent(&mut schedule, 6_100, 9_000).is_empty());
    }

    #[test]
    fn rule_c3_nothing_is_told_at_or_after_a_deadline() {
        let mut schedule = Schedule::new();
        let short = Offer { until: START.plus_ms(250), ..offer(1, 1) };
        schedule.accept(Notice::Offer(short), START);
        assert_eq!(sent(&mut schedule, 0, 5_000), [0]);

        schedule.accept(Notice::Offer(offer(2, 1)), START.plus_ms(6_000));
        schedule.accept(Notice::DrainBegan(START.plus_ms(6_750)), START.plus_ms(6_000));
        assert_eq!(sent(&mut schedule, 6_000, 9_000), [6_000, 6_250]);
        let late = schedule.accept(Notice::Introduced(Box::new(introduction_of(3))), START.plus_ms(6_750));
        assert_eq!(late, Accepted::Scheduled, "an introduction that nobody may use any more");
    }

    #[test]
    fn case_x5_one_host_hears_at_most_twenty_offers_a_second() {
        let mut schedule = Schedule::new();
        for attempt in 0..64 {
            schedule.accept(Notice::Offer(offer(attempt, 1)), START);
        }
        schedule.accept(Notice::Offer(offer(64, 2)), START);
        let times = sent(&mut schedule, 0, 3_000);
        for start in &times {
            let in_window = times.iter().filter(|at| (*start..start + 1_000).contains(at)).count();
            assert!(in_window <= 20 + 3, "{in_window}: the 20 of the first host and the 3 of the second");
        }
        assert!(times.iter().filter(|at| **at == 0).count() == 11, "the other host is not disturbed");
    }

    #[test]
    fn the_schedule_is_bounded() {
        let mut schedule = Schedule::new();
        for attempt in 0..OFFERS_SCHEDULED_MAX as u128 {
            assert_eq!(schedule.accept(Notice::Offer(offer(attempt, attempt)), START), Accepted::Scheduled);
        }
        assert_eq!(schedule.accept(Notice::Offer(offer(u128::MAX, 1)), START), Accepted::Full);
    }
}
