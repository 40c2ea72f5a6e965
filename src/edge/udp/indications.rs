//! What the edge says without being asked: notices in, indications out. No socket, no waiting.

use super::answerer::Answerer;
use super::introduce::Introducer;
use super::notices::UdpNotices;
use super::responder::Protocol;
use super::schedule::{Accepted, Due, Schedule};
use crate::clock::{Clock, SharedClock};
use crate::domain::{Endpoint, MonoTime, Role};
use std::sync::Arc;

/// Notices taken, and offers sent, in one turn: a burst of them keeps datagrams waiting for less than a millisecond.
const PER_TURN: usize = 256;

/// What is to be done about a notice or an offer that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Tell a host of an attempt.
    Offer(Endpoint, Vec<u8>),
    /// Tell one side of its introduction.
    Introduction(Endpoint, Vec<u8>),
    /// A host has heard enough in this second.
    OfferLimited,
    /// Too many offers are scheduled.
    OfferDropped,
}

/// Notices on their way to hosts and joiners.
#[derive(Debug)]
pub struct Indications {
    introducer: Introducer,
    notices: Arc<UdpNotices>,
    schedule: Schedule,
}

impl Indications {
    /// Takes from `notices`; `answerer` is the responder's.
    pub fn new(protocol: &Protocol, answerer: Answerer, notices: Arc<UdpNotices>) -> Self {
        Self { introducer: Introducer::new(protocol, answerer), notices, schedule: Schedule::new() }
    }

    /// Takes in what has happened and says what is due, a bounded share of each.
    pub fn turn(&mut self, clock: &SharedClock, mut say: impl FnMut(Said)) {
        self.take_notices(clock, &mut say);
        for _ in 0..PER_TURN {
            let now = clock.mono();
            match self.schedule.next(now) {
                None => break,
                Some(Due::Limited) => say(Said::OfferLimited),
                Some(Due::Send(offer)) => say(Said::Offer(offer.host, self.introducer.offer(&offer, now))),
            }
        }
    }

    /// Takes in what has happened, and tells both sides of introductions.
    pub(super) fn take_notices(&mut self, clock: &SharedClock, say: &mut impl FnMut(Said)) {
        for _ in 0..PER_TURN {
            let Some(notice) = self.notices.take() else { return };
            let now = clock.mono();
            match self.schedule.accept(notice, now) {
                Accepted::Scheduled => {}
                Accepted::Full => say(Said::OfferDropped),
                Accepted::Introduce(introduction) => {
                    for role in [Role::Host, Role::Joiner] {
                        let (endpoint, bytes) = self.introducer.introduction(&introduction, role, now);
                        say(Said::Introduction(endpoint, bytes));
                    }
                }
            }
        }
    }

    /// When [`Indications::turn`] has something to say again, unless a notice comes before.
    pub fn next_due(&self) -> Option<MonoTime> {
        self.schedule.next_due()
    }

    /// Whether a notice waits.
    pub fn is_waiting(&self) -> bool {
        self.notices.is_waiting()
    }
}
