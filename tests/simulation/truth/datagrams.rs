//! What the UDP edge asks, and what it says.

use super::{Known, Truth};
use crate::network::{Flight, Network, Origin};
use rendezvous::domain::*;
use rendezvous::service::{Applied, Ask, BindRequest};
use rendezvous::stun::{AttributeType, Message};
use std::collections::BTreeSet;
use std::net::SocketAddr;

impl Truth {
    /// A question is asked only for the one whose credential it is, from where it is: a nonce is bound to its source, and
    /// bytes to their integrity.
    pub(crate) fn asked(&self, ask: &Ask, flight: &Flight) {
        let party = match ask {
            Ask::Presence(presence) => self.listings.get(&presence.listing).map(|listing| listing.owner),
            Ask::Bind(bind) => self.attempts.get(&bind.attempt).map(|attempt| attempt.party(bind.role())),
        };
        let endpoint = match ask {
            Ask::Presence(presence) => presence.endpoint,
            Ask::Bind(bind) => bind.endpoint,
        };
        match flight.origin {
            Origin::Actor(actor) | Origin::Repeated(actor) => {
                assert!(party.is_none_or(|party| party == actor), "another's credential was let in");
            }
            Origin::Attacker | Origin::Server => panic!("a datagram of the past was let in from {}", flight.from),
        }
        assert_eq!(endpoint.address(), flight.from, "the endpoint is not the source");
    }

    pub(crate) fn refreshed(&mut self, it: &Presence, result: &Result<Applied<Present>, Failure>, now: MonoTime) {
        if self.is_unavailable(result.as_ref().err().copied()) {
            return;
        }
        let family = it.endpoint.family().index();
        let ends = it.nonce_issued.plus_ms(self.limits.nonce_fresh_ms.into());
        let (is_aged, ttl_ms) = (ends.is_past(now), u64::from(self.limits.presence_ttl_ms));
        let live = self.live(it.listing, now).map(|listing| listing.presence[family]);
        match (result, live) {
            (Ok(_), None) => panic!("C3: presence of a dead listing at {now:?}"),
            (Ok(applied), Some(known)) => {
                let is_again =
                    known.is_some_and(|known| (known.datagram, known.endpoint) == (it.datagram, it.endpoint));
                if !is_again {
                    let in_order = known.is_none_or(|known| known.sequence < it.sequence);
                    assert!(in_order, "G1: an old sequence was accepted");
                    let is_same = known.is_some_and(|known| known.endpoint == it.endpoint);
                    assert!(!is_aged || is_same, "G1: an aged nonce from another endpoint");
                    self.present_now(it, now.plus_ms(ttl_ms), applied.commit, now);
                }
                let deadline =
                    self.listings[&it.listing].presence[family].map(|known| self.at_the_latest(known.deadline));
                assert_eq!(Some(applied.value.deadline), deadline, "G1: the presence's deadline");
                assert_eq!(applied.value.draining, self.drain, "J2");
                for offer in applied.value.offers.iter() {
                    let attempt = self.live_attempt(offer.attempt, now).expect("C3: a dead attempt is offered");
                    assert_eq!(attempt.listing, it.listing, "another listing's attempt is offered");
                    assert!(
                        !attempt.is_introduced() && !attempt.has_bound(Role::Host),
                        "an attempt that waits for nobody"
                    );
                }
            }
            (Err(Failure::Rejected(Rejection::Draining { .. })), _) => assert!(self.is_drained(now), "J2"),
            (Err(Failure::Rejected(Rejection::NotFound)), live) => {
                assert!(live.is_none(), "E5: a live listing is absent")
            }
            (Err(Failure::Rejected(Rejection::ReplayRejected(Replay::OldSequence { .. }))), Some(Some(known))) => {
                assert!(it.sequence <= known.sequence, "G1: a newer sequence was refused");
            }
            (Err(Failure::Rejected(Rejection::StaleNonce)), Some(_)) => assert!(is_aged, "a fresh nonce was refused"),
            (Err(Failure::Rejected(Rejection::CapacityExceeded(Resource::Presence))), Some(_)) => {
                assert_eq!(self.present(now), self.caps.presence as usize, "D2: presence");
            }
            (Err(other), live) => panic!("B1: {other:?} to a presence datagram of {live:?}"),
        }
    }

    fn present_now(&mut self, it: &Presence, deadline: MonoTime, commit: u64, now: MonoTime) {
        let was_fresh = self.live(it.listing, now).is_some_and(|listing| !self.fresh_until(listing).is_past(now));
        let Some(listing) = self.listings.get_mut(&it.listing) else { return };
        listing.unproven = None;
        if !was_fresh {
            listing.fresh_since = Some(commit);
        }
        let Presence { endpoint, datagram, sequence, .. } = *it;
        listing.presence[endpoint.family().index()] = Some(Known { endpoint, deadline, datagram, sequence });
    }

    pub(crate) fn bound(&mut self, it: &BindRequest, result: &Result<Applied<Bound>, Failure>, now: MonoTime) {
        if self.is_unavailable(result.as_ref().err().copied()) {
            return;
        }
        let (role, family) = (it.role().index(), it.endpoint.family().index());
        let slot = self.live_attempt(it.attempt, now).map(|attempt| attempt.bound[role][family]);
        match (result, slot) {
            (Ok(_), None) => panic!("C3: a bind of a dead attempt at {now:?}"),
            (Ok(_), Some(Some(slot))) => assert_eq!(slot, (it.endpoint, it.datagram), "H2: the first endpoint wins"),
            (Ok(_), Some(None)) => self.bind_now(it, now),
            (Err(Failure::Rejected(Rejection::Draining { .. })), _) => assert!(self.is_drained(now), "J2"),
            (Err(Failure::Rejected(Rejection::NotFound)), slot) => {
                assert!(slot.is_none(), "E5: a live attempt is absent")
            }
            (Err(Failure::Rejected(Rejection::Ended(_))), slot) => {
                assert!(slot.is_none(), "H5: a live attempt has ended")
            }
            (Err(Failure::Rejected(Rejection::ReplayRejected(Replay::OtherEndpoint))), Some(Some(slot))) => {
                assert_ne!(slot.0, it.endpoint, "H2");
            }
            (Err(Failure::Rejected(Rejection::ReplayRejected(Replay::OtherDatagram))), Some(Some(slot))) => {
                assert!(slot.0 == it.endpoint && slot.1 != it.datagram, "H2");
            }
            (Err(Failure::Rejected(Rejection::StaleNonce)), Some(None)) => {
                let ends = it.nonce_issued.plus_ms(self.limits.nonce_fresh_ms.into());
                assert!(ends.is_past(now), "a fresh nonce was refused");
            }
            (Err(other), slot) => panic!("B1: {other:?} to a bind of {slot:?}"),
        }
    }

    fn bind_now(&mut self, it: &BindRequest, now: MonoTime) {
        let Some(attempt) = self.attempts.get_mut(&it.attempt) else { return };
        attempt.bound[it.role().index()][it.endpoint.family().index()] = Some((it.endpoint, it.datagram));
        if it.role() == Role::Joiner {
            attempt.bind_until = None;
        }
        let both = attempt.has_bound(Role::Host) && attempt.has_bound(Role::Joiner);
        let at = now.plus_ms(self.limits.no_common_family_ms.into());
        attempt.common_until = (both && !attempt.has_common_family()).then(|| attempt.common_until.unwrap_or(at));
    }

    /// After the events of a bind were heard: its answer introduces exactly when the two were introduced.
    pub(crate) fn bind_told(&self, it: &BindRequest, bound: &Bound, now: MonoTime) {
        let attempt = &self.attempts[&it.attempt];
        let is_due = attempt.gate_is_open && attempt.has_common_family();
        assert_eq!(
            attempt.is_introduced(),
            is_due,
            "H3: introduced as soon as a common family is bound, and not before"
        );
        assert_eq!(bound.introduction.is_some(), is_due, "H3: an answer without its introduction, or the reverse");
        if let Some(introduction) = &bound.introduction {
            self.introduction(introduction, now);
        }
    }

    /// Whatever leaves the server: an introduction goes to the two sides only, and says what the server saw; an offer goes
    /// to the host.
    pub(crate) fn said(&self, to: SocketAddr, bytes: &[u8], network: &Network, now: MonoTime) {
        let message = Message::parse(bytes).expect("the server speaks STUN");
        for offer in message.offers().map(|offer| offer.expect("a well-formed offer")) {
            let attempt = self.live_attempt(AttemptId(offer.attempt), now).expect("C3: a dead attempt is offered");
            assert!(network.is_of(attempt.host, to), "an offer to a stranger");
        }
        let Some(id) = message.id(AttributeType::RV_INTRODUCTION).expect("a well-formed id") else { return };
        let attempt = self.live_attempt(AttemptId(id), now).expect("C3: a dead attempt is introduced");
        assert!(attempt.is_introduced(), "H3: told before it happened");
        let bound_to = |role: &Role| attempt.bound[role.index()].iter().flatten().any(|(it, _)| it.address() == to);
        let role = [Role::Host, Role::Joiner].into_iter().find(bound_to).expect("H3: an introduction to a stranger");
        let told: BTreeSet<_> = message.xor_addresses(AttributeType::RV_PEER_ADDRESS).flatten().collect();
        let seen: BTreeSet<_> = attempt.introduced_of(role.other()).into_iter().map(Endpoint::address).collect();
        assert_eq!(told, seen, "H4: the peer's endpoints as told, and as the server saw them");
    }
}

impl Truth {
    /// A note changes nothing that anybody but the owner sees.
    pub(crate) fn noted(&mut self, failure: Option<Failure>) {
        if self.is_unavailable(failure) {
            return;
        }
        let legal = matches!(
            failure,
            None | Some(Failure::Rejected(
                Rejection::NotFound
                    | Rejection::Draining { .. }
                    | Rejection::ReplayRejected(Replay::OldSequence { .. })
            ))
        );
        assert!(legal, "B1: {failure:?} to a note");
    }
}
