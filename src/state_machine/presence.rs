//! Presence: authenticated datagrams move a family's endpoint; newer ones win (section G, `docs/udp-protocol.md`).

use super::record::{Anchor, FamilyPresence, Gate};
use super::{Change, ListingObject, Machine};
use crate::domain::{
    Endpoint, MonoTime, NoteUnverified, OFFERS_MAX, Offer, Offers, Outcome, Presence, Present, Rejection, Replay,
    Resource, Role,
};

/// A first sequence at or above this leaves no room to grow.
const FIRST_SEQUENCE_MAX: u64 = 1 << 62;
/// A longer advance is not a clock's.
const ADVANCE_MAX: u64 = 1 << 40;

/// What an acceptable datagram does.
enum Step {
    /// The same bytes again: the same answer, no extension.
    Repeat,
    /// A fresh exchange: replaces the endpoint and sets the anchor.
    Exchange { deadline: MonoTime },
    /// A refresh that could not read the newer nonce: extends, the anchor stays.
    OneWay { deadline: MonoTime },
}

impl<O: ListingObject> Machine<O> {
    pub(crate) fn refresh_presence(&mut self, now: MonoTime, command: Presence) -> Result<Outcome, Rejection> {
        let slot = self.live_listing(command.listing, now).ok_or(Rejection::NotFound)?;
        let family = command.endpoint.family();
        match self.presence_step(slot, now, &command)? {
            Step::Repeat => {}
            Step::Exchange { deadline } => {
                self.accept_presence(slot, now, &command, deadline, None)?;
            }
            Step::OneWay { deadline } => {
                let known = self.state.listings[slot as usize].known(family);
                let anchor = known.map(|known| known.anchor(self.limits.presence_ttl_ms));
                self.accept_presence(slot, now, &command, deadline, anchor)?;
            }
        }
        let deadline = self.state.listings[slot as usize].known(family).map(|known| known.deadline);
        Ok(Outcome::Present(Present {
            deadline: self.at_the_latest(deadline.unwrap_or_default()),
            offers: self.offers(slot, now),
            draining: self.drain.map(|drain| drain.deadline),
        }))
    }

    fn presence_step(&self, slot: u32, now: MonoTime, command: &Presence) -> Result<Step, Rejection> {
        let listing = &self.state.listings[slot as usize];
        let known = listing.known(command.endpoint.family());
        let same_bytes =
            |known: &FamilyPresence| known.datagram() == command.datagram && known.endpoint == command.endpoint;
        if known.is_some_and(same_bytes) {
            return Ok(Step::Repeat);
        }
        let full_ttl = now.plus_ms(self.limits.presence_ttl_ms.into());
        let nonce_ends = command.nonce_issued.plus_ms(self.limits.nonce_fresh_ms.into());
        if nonce_ends.is_past(now) {
            return self.one_way_step(known, now, command, full_ttl);
        }
        let highest = known.and_then(FamilyPresence::sequence);
        match command.sequence {
            Some(sequence) => {
                let old = match highest {
                    Some(highest) => sequence <= highest || sequence - highest > ADVANCE_MAX,
                    None => sequence >= FIRST_SEQUENCE_MAX,
                };
                if old { Err(old_sequence(highest)) } else { Ok(Step::Exchange { deadline: full_ttl }) }
            }
            None if listing.sequenced || !self.limits.sequence_optional => Err(old_sequence(highest)),
            None => {
                let old = known.is_some_and(|known| {
                    command.nonce_issued < known.nonce_issued()
                        || (command.nonce_issued == known.nonce_issued() && command.endpoint != known.endpoint)
                });
                let capped = nonce_ends.plus_ms(self.limits.presence_ttl_ms.into()).min(full_ttl);
                if old { Err(old_sequence(highest)) } else { Ok(Step::Exchange { deadline: capped }) }
            }
        }
    }

    /// A refresh with an aged nonce, from a host that no longer reads raw datagrams.
    fn one_way_step(
        &self,
        known: Option<&FamilyPresence>,
        now: MonoTime,
        command: &Presence,
        deadline: MonoTime,
    ) -> Result<Step, Rejection> {
        let (Some(known), Some(sequence)) = (known, command.sequence) else { return Err(Rejection::StaleNonce) };
        let grows = known.sequence().is_some_and(|highest| sequence > highest && sequence - highest <= ADVANCE_MAX);
        if known.endpoint != command.endpoint || !grows {
            return Err(Rejection::StaleNonce);
        }
        let anchor = known.anchor(self.limits.presence_ttl_ms);
        let advance = sequence.saturating_sub(anchor.sequence);
        let in_step = advance.abs_diff(now.ms_since(anchor.at)) <= self.limits.one_way_tolerance_ms.into();
        if in_step { Ok(Step::OneWay { deadline }) } else { Err(Rejection::StaleNonce) }
    }

    fn accept_presence(
        &mut self,
        slot: u32,
        now: MonoTime,
        command: &Presence,
        deadline: MonoTime,
        anchor: Option<Anchor>,
    ) -> Result<(), Rejection> {
        let family = command.endpoint.family();
        let is_counted = self.state.listings[slot as usize].known(family).is_some_and(|known| known.is_counted);
        let has_room = |it: &Self| it.state.present < it.limits.presence;
        if !is_counted && !self.clean_up_until(now, has_room) {
            return Err(Rejection::CapacityExceeded(Resource::Presence));
        }
        let listing = &mut self.state.listings[slot as usize];
        let shown = listing.is_shown();
        let fresh_before = listing.fresh_until();
        let first = std::mem::take(&mut listing.is_unproven);
        listing.sequenced |= command.sequence.is_some();
        listing.refreshed_last = family;
        if let Some(rare) = &mut listing.rare
            && rare.unverified.is_some_and(|unverified| unverified.family() == family)
        {
            rare.unverified = None;
        }
        self.state.set_presence(slot, family, FamilyPresence::new(command, deadline, anchor));
        let moved = self.state.listings[slot as usize].fresh_until() != fresh_before;
        self.state.unproven -= u32::from(first);
        self.state.reschedule_listing(slot);
        self.commit_next();
        if !shown {
            self.changes.push(Change::Show { slot });
        } else if moved {
            self.changes.push(Change::Moved { slot });
        }
        Ok(())
    }

    /// Up to four pending attempts, least delivered first; handing one out counts as a delivery.
    fn offers(&mut self, slot: u32, now: MonoTime) -> Offers {
        /// After every pending attempt, by how often it was offered, its creation and its slot.
        const NOBODY: (u32, u64, u32) = (u32::MAX, u64::MAX, u32::MAX);
        let mut least = [NOBODY; OFFERS_MAX];
        for due in self.state.listings[slot as usize].attempts().iter() {
            let attempt = &self.state.attempts[due.slot as usize];
            let waits = attempt.introduced_at.is_none() && !attempt.has_bound(Role::Host) && !due.at.is_past(now);
            let mut candidate = (attempt.offered, attempt.created, due.slot);
            if waits {
                for place in &mut least {
                    if candidate < *place {
                        std::mem::swap(&mut candidate, place);
                    }
                }
            }
        }
        let at_the_latest = self.at_the_latest(MonoTime::NEVER);
        let pending = least.into_iter().filter(|place| *place != NOBODY);
        let offer = |(_, _, slot): (u32, u64, u32)| {
            let attempt = &mut self.state.attempts[slot as usize];
            attempt.offered = attempt.offered.saturating_add(1);
            Offer { attempt: attempt.id, deadline: attempt.deadline.min(at_the_latest) }
        };
        pending.map(offer).collect()
    }

    pub(crate) fn note_unverified(&mut self, now: MonoTime, command: NoteUnverified) -> Result<Outcome, Rejection> {
        let slot = self.live_listing(command.listing, now).ok_or(Rejection::NotFound)?;
        let listing = &mut self.state.listings[slot as usize];
        let highest = listing.known(command.endpoint.family()).and_then(FamilyPresence::sequence);
        if highest.is_some_and(|highest| command.sequence <= highest) {
            return Err(old_sequence(highest));
        }
        listing.rare_mut().unverified = Some(command.endpoint);
        Ok(Outcome::Noted)
    }

    /// Whether new attempts on this listing wait for its host.
    pub(crate) fn gate_of(&self, slot: u32) -> Gate {
        if self.state.listings[slot as usize].gate { Gate::Waiting } else { Gate::Open }
    }

    /// The endpoint to which an offer goes.
    pub(crate) fn host_endpoint(&self, slot: u32, now: MonoTime) -> Option<Endpoint> {
        self.state.listings[slot as usize].offer_endpoint(now)
    }
}

fn old_sequence(highest: Option<u64>) -> Rejection {
    Rejection::ReplayRejected(Replay::OldSequence { highest: highest.unwrap_or(0) })
}
