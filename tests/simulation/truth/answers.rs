//! Answers to hosts and joiners.

use super::{Attempt, Listing, Made, Named, OPERATOR, Shown, Truth, What};
use crate::calls::{Answer, Granted, Request};
use crate::support::parse_name;
use rendezvous::domain::*;
use rendezvous::service::{Applied, AttemptGrant, ListingGrant};
use rendezvous::wire::FromJson;
use rendezvous::wire::request::{AttemptBody, RegisterBody, RenewBody, VisibilityName};
use std::net::SocketAddr;

/// What the caller is, besides its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) who: usize,
    pub(crate) tenant: TenantId,
}

impl Truth {
    /// A request and its answer, at the instant of its transition.
    pub(crate) fn answered(&mut self, asker: Asker, request: &Request, answer: &Answer, now: MonoTime) {
        // A poll that heard of its listing's end says so, also when the store is lost meanwhile: nothing of it lives on.
        let is_end = matches!(answer, Ok(Granted::Offers(offers)) if offers.ended.is_some());
        if is_end && self.is_lost || self.is_unavailable(answer.as_ref().err().copied()) {
            return;
        }
        match answer {
            Ok(granted) => self.accepted(asker, request, granted, now),
            // In which state it was refused is known only of who had the lane to itself.
            Err(Failure::Overloaded) => assert!(self.is_contended, "D4: a full queue without a crowd: {request:?}"),
            Err(_) if self.is_contended => {}
            Err(Failure::Rejected(rejection)) => self.rejected(asker, request, *rejection, now),
            Err(other) => panic!("B1: {other:?} to {request:?}"),
        }
    }

    /// J1: unavailable is for ever, and never for nothing. True when the answer says no more than that.
    pub(super) fn is_unavailable(&mut self, failure: Option<Failure>) -> bool {
        if matches!(failure, Some(Failure::Unavailable(_))) {
            assert!(self.may_be_lost, "J1: unavailable without a panic");
            self.is_lost = true;
            return true;
        }
        let is_local = matches!(failure, Some(Failure::Rejected(Rejection::CapacityExceeded(Resource::LongPolls))));
        assert!(!self.is_lost || is_local, "J1: available again: {failure:?}");
        self.is_lost
    }

    fn accepted(&mut self, asker: Asker, request: &Request, granted: &Granted, now: MonoTime) {
        if self.is_drained(now) {
            assert!(matches!(granted, Granted::Counts(_)), "J2: {granted:?} after the drain's deadline");
        }
        match (request, granted) {
            (Request::Register { key, body }, Granted::Listing(it)) => self.registered(asker, key, body, it, now),
            (Request::Renew { listing, token, version, body }, Granted::Renewed(it)) => {
                self.owned(asker, *listing, token, now);
                self.renewed(*listing, *version, body, it, now);
            }
            (Request::Delete { listing, token }, Granted::Done(_)) => {
                let known = self.listings.get_mut(listing).expect("E4: a deletion of nothing");
                assert!(known.owner == asker.who && known.token == *token, "E5: deleted by a stranger");
                known.ended.get_or_insert(now);
            }
            (Request::Lease { listing, token }, Granted::Lease(it)) => {
                self.owned(asker, *listing, token, now);
                self.lease(*listing, &it.value, now);
            }
            (Request::Offers { listing, after, .. }, Granted::Offers(it)) => {
                for offer in &it.attempts {
                    let attempt = self.live_attempt(offer.pending.id, now).expect("C3: a dead attempt is offered");
                    assert!(attempt.listing == *listing && attempt.host == asker.who, "E5: another's attempt");
                    assert!(!attempt.is_introduced() && attempt.created > *after, "an attempt that is not news");
                    assert_eq!(offer.pending.gated, !attempt.gate_is_open, "H6");
                }
            }
            (Request::Admit { attempt, token, admit }, Granted::Done(_)) => {
                let known = self.live_attempt(*attempt, now).expect("C3: an answer to a dead attempt").clone();
                self.owned(asker, known.listing, token, now);
                let known = self.attempts.get_mut(attempt).expect("it is known");
                match admit {
                    true => known.gate_is_open = true,
                    false => known.ended = Some(now),
                }
            }
            (Request::Attempt { listing, key, body }, Granted::Attempt(it)) => {
                self.created(asker, *listing, key, body, it, now);
            }
            (Request::Watch { attempt, .. }, Granted::Watched(it)) => {
                self.watched(asker, *attempt, &it.state, now);
            }
            (Request::Close { attempt }, Granted::Done(_)) => {
                let known = self.attempts.get_mut(attempt).expect("E5: an end of nothing");
                assert!(known.role_of(asker.who).is_some(), "E5: closed by a stranger");
                known.ended.get_or_insert(now);
            }
            (Request::Report { attempt, .. }, Granted::Reported(it)) => {
                let known = self.attempts.get_mut(attempt).expect("E5: a report about nothing");
                let role = known.role_of(asker.who).expect("E5: a stranger's report");
                assert!(!std::mem::replace(&mut known.reported[role.index()], true), "reported twice");
                assert!(
                    it.value.is_some() == known.is_introduced() && (it.value.is_none() || known.has_common_family())
                );
            }
            (
                Request::Revoke { .. } | Request::Lift { .. } | Request::Drain { .. } | Request::Status,
                Granted::Revoked(_) | Granted::Done(_) | Granted::Draining(_) | Granted::Counts(_),
            ) => {
                assert_eq!(asker.who, OPERATOR);
                self.ordered(request, granted, now);
            }
            (request, granted) => panic!("B1: {granted:?} to {request:?}"),
        }
    }

    fn registered(&mut self, asker: Asker, key: &str, body: &str, it: &Applied<ListingGrant>, now: MonoTime) {
        let grant = &it.value;
        assert!(!self.is_revoked(Named::Actor(asker.who), now), "I2: a revoked principal registers");
        let known = (asker.who, false, key.to_owned());
        if let Some(made) = self.keys.get(&known).filter(|made| !self.remembered_until(made).is_past(now)) {
            assert!(it.replayed, "F2: done twice for one key");
            assert_eq!(body, made.body, "F2: another request under the same key");
            assert_eq!((What::Listing(grant.listing), grant.expires_at), (made.what, made.expires_at), "F2");
            let listing = self.live(grant.listing, now).expect("F2: the grant of a dead listing");
            assert_eq!(grant.lease_token.expose(), listing.token, "F2: the same tokens");
            return;
        }
        assert!(!it.replayed, "F2: replayed for a key that is not known");
        assert!(self.drain.is_none(), "J2: a registration during drain");
        let owned = self.live_listings(now).filter(|listing| listing.owner == asker.who).count();
        assert!(owned < self.caps.per_owner as usize, "D3: listings of one owner");
        assert!(self.live_listings(now).count() < self.caps.listings as usize, "D2: listings");
        let unproven = self.live_listings(now).filter(|listing| listing.unproven.is_some()).count();
        assert!(unproven < self.caps.unproven as usize, "D5: unproven listings");
        let text = body;
        let body = RegisterBody::from_body(&mut text.as_bytes().to_vec()).expect("our own body");
        let ttl_ms = body.ttl_ms.expect("given");
        let listing = Listing {
            owner: asker.who,
            tenant: asker.tenant,
            protocol: body.protocol,
            token: grant.lease_token.expose().to_owned(),
            version: 1,
            ttl_ms,
            lease: now.plus_ms(ttl_ms),
            unproven: Some(now.plus_ms(self.limits.unproven_window_ms.into())),
            presence: [None, None],
            shown: vec![Shown {
                commit: it.commit,
                name: parse_name(&body.details.name),
                public: body.visibility == Some(VisibilityName::Public),
            }],
            fresh_since: None,
            gate: body.gate,
            candidate: body.candidates.first().map(|text| address(text)),
            ended: None,
        };
        assert!(self.listings.insert(grant.listing, listing).is_none(), "E1: an id twice");
        let made = Made { what: What::Listing(grant.listing), expires_at: grant.expires_at, body: text.to_owned() };
        self.keys.insert(known, made);
    }

    /// E5: whoever is let in is the owner of a live listing, with its token.
    fn owned(&self, asker: Asker, id: ListingId, token: &str, now: MonoTime) {
        let listing = self.live(id, now).unwrap_or_else(|| panic!("C3: a dead listing was used at {now:?}"));
        assert!(listing.owner == asker.who && listing.token == token, "E5: a stranger was let in");
    }

    fn renewed(&mut self, id: ListingId, version: u64, body: &str, it: &Applied<Renewed>, now: MonoTime) {
        assert!(self.drain.is_none(), "J2: a renewal during drain");
        let body = RenewBody::from_body(&mut body.as_bytes().to_vec()).expect("our own body");
        let listing = self.listings.get_mut(&id).expect("it lives");
        assert_eq!((version, it.value.version), (listing.version, version + 1), "E2: compare and swap");
        listing.version = it.value.version;
        listing.ttl_ms = body.ttl_ms.unwrap_or(listing.ttl_ms);
        assert_eq!(u64::from(it.value.ttl_ms), listing.ttl_ms, "E2: the lifetime");
        listing.lease = now.plus_ms(listing.ttl_ms);
        let last = *listing.shown.last().expect("there is always one");
        listing.shown.push(Shown {
            commit: it.commit,
            name: body.details.map_or(last.name, |details| parse_name(&details.name)),
            public: body.visibility.map_or(last.public, |visibility| visibility == VisibilityName::Public),
        });
    }

    fn lease(&self, id: ListingId, view: &LeaseView, now: MonoTime) {
        let listing = &self.listings[&id];
        assert_eq!(view.version, listing.version, "E2: the current version");
        for seen in view.endpoints.iter().filter(|view| view.state != PresenceState::Unverified) {
            let known = listing.presence[seen.family.index()].expect("G1: an endpoint that nobody had");
            let state = if known.deadline.is_past(now) { PresenceState::Stale } else { PresenceState::Verified };
            assert_eq!((seen.endpoint, seen.state), (known.endpoint, state), "G1: the endpoint as verified");
        }
        let verified = listing.presence.iter().flatten().filter(|known| !known.deadline.is_past(now)).count();
        let shown = view.endpoints.iter().filter(|view| view.state == PresenceState::Verified).count();
        assert_eq!(shown, verified, "C3: verified endpoints");
    }

    fn created(
        &mut self,
        asker: Asker,
        listing: ListingId,
        key: &str,
        body: &str,
        it: &Applied<AttemptGrant>,
        now: MonoTime,
    ) {
        let grant = &it.value;
        assert!(!self.is_revoked(Named::Actor(asker.who), now), "I2: a revoked principal joins");
        let known = (asker.who, true, key.to_owned());
        if let Some(made) = self.keys.get(&known).filter(|made| !self.remembered_until(made).is_past(now)) {
            assert!(it.replayed, "F2: done twice for one key");
            assert_eq!((What::Attempt(grant.attempt), grant.expires_at), (made.what, made.expires_at), "F2");
            assert!(self.live_attempt(grant.attempt, now).is_some(), "F2: the grant of a dead attempt");
            return;
        }
        assert!(!it.replayed, "F2: replayed for a key that is not known");
        assert!(self.drain.is_none(), "J2: an attempt during drain");
        let target = self.live(listing, now).expect("H1: a try to join a dead listing").clone();
        assert!(!self.fresh_until(&target).is_past(now), "H1: a try to join a listing that is not fresh");
        assert_eq!(target.tenant, asker.tenant, "H1: across tenants");
        assert_ne!(target.owner, asker.who, "H1: of its own listing");
        let count = |of: &dyn Fn(&Attempt) -> bool| self.live_attempts(now).filter(|it| of(it)).count();
        let tenant_of = |attempt: &Attempt| self.listings[&attempt.listing].tenant;
        assert!(count(&|_| true) < self.caps.attempts as usize, "D2: attempts");
        assert!(count(&|it| tenant_of(it) == asker.tenant) < self.caps.per_tenant as usize, "D3: of a tenant");
        assert!(count(&|it| it.listing == listing) < self.caps.per_listing as usize, "D3: of a listing");
        assert!(count(&|it| it.joiner == asker.who) < self.caps.per_principal as usize, "D3: of a principal");
        let text = body;
        let body = AttemptBody::from_body(&mut text.as_bytes().to_vec()).expect("our own body");
        let attempt = Attempt {
            listing,
            host: target.owner,
            joiner: asker.who,
            created: it.commit,
            deadline: now.plus_ms(self.limits.attempt_ttl_ms.into()),
            bind_until: Some(now.plus_ms(self.limits.bind_window_ms.into())),
            common_until: None,
            bound: [[None; 2]; 2],
            gate_is_open: !target.gate,
            introduced: 0,
            candidate: body.candidates.first().map(|text| address(text)),
            reported: [false; 2],
            ended: None,
        };
        assert!(self.attempts.insert(grant.attempt, attempt).is_none(), "an id twice");
        let made = Made { what: What::Attempt(grant.attempt), expires_at: grant.expires_at, body: text.to_owned() };
        self.keys.insert(known, made);
    }

    fn watched(&self, asker: Asker, id: AttemptId, state: &AttemptState, now: MonoTime) {
        let attempt = self.attempts.get(&id).expect("E5: a view of nothing");
        let role = attempt.role_of(asker.who).expect("E5: a stranger's view of an attempt");
        let is_live = self.live_attempt(id, now).is_some();
        let mut own_seen: Vec<_> =
            attempt.bound[role.index()].iter().flatten().map(|(endpoint, _)| *endpoint).collect();
        own_seen.sort_unstable_by_key(|endpoint| endpoint.address());
        let sorted = |endpoints: &[Endpoint]| {
            let mut sorted = endpoints.to_vec();
            sorted.sort_unstable_by_key(|endpoint| endpoint.address());
            sorted
        };
        match state {
            AttemptState::Waiting { own, .. } => {
                assert!(is_live && !attempt.is_introduced(), "C3, H3: a view that waits");
                assert_eq!(sorted(own), own_seen, "own endpoints as observed");
            }
            AttemptState::Introduced { own, peers, introduction, .. } => {
                assert!(is_live && attempt.is_introduced(), "C3, H3: a view that is introduced");
                assert_eq!(sorted(own), own_seen, "own endpoints as observed");
                assert_eq!(sorted(peers), sorted(&attempt.introduced_of(role.other())), "H4: the peer's endpoints");
                self.introduction(introduction, now);
            }
            AttemptState::Ended(_) => assert!(!is_live, "H5: a live attempt is said to have ended"),
        }
    }

    fn rejected(&mut self, asker: Asker, request: &Request, rejection: Rejection, now: MonoTime) {
        match rejection {
            Rejection::Draining { deadline, .. } => {
                assert_eq!(Some(deadline), self.drain, "J2: draining to {request:?}");
                return;
            }
            _ if self.is_drained(now) => panic!("J2: {rejection:?} after the drain's deadline"),
            Rejection::CapacityExceeded(resource) => return self.at_its_bound(asker, request, resource, now),
            _ => {}
        }
        let is_revoked = self.is_revoked(Named::Actor(asker.who), now);
        let remembered = |it: &Self, key: &str, joins: bool| {
            let made = it.keys.get(&(asker.who, joins, key.to_owned()));
            made.is_some_and(|made| !it.remembered_until(made).is_past(now))
        };
        let right = match (request, rejection) {
            (Request::Register { .. } | Request::Attempt { .. }, Rejection::Revoked) => is_revoked,
            (Request::Register { key, body }, Rejection::IdempotencyMismatch) => {
                remembered(self, key, false) && self.keys[&(asker.who, false, key.clone())].body != *body
            }
            (Request::Register { key, .. }, Rejection::Expired) => remembered(self, key, false),
            (Request::Attempt { key, .. }, Rejection::Expired) => remembered(self, key, true),
            (Request::Attempt { listing, .. }, Rejection::NotFound) => {
                self.live(*listing, now).is_none_or(|it| self.fresh_until(it).is_past(now) || it.tenant != asker.tenant)
            }
            (Request::Attempt { listing, .. }, Rejection::Invalid(Invalid::OwnListing)) => {
                self.live(*listing, now).is_some_and(|it| it.owner == asker.who)
            }
            (Request::Renew { listing, version, .. }, Rejection::VersionConflict { current }) => {
                self.live(*listing, now).is_some_and(|it| it.version == current && current != *version)
            }
            (
                Request::Renew { listing, token, .. }
                | Request::Delete { listing, token }
                | Request::Lease { listing, token }
                | Request::Offers { listing, token, .. },
                Rejection::NotFound,
            ) => self.live(*listing, now).is_none_or(|it| it.owner != asker.who || it.token != *token),
            (Request::Admit { attempt, token, .. }, Rejection::NotFound) => self
                .live_attempt(*attempt, now)
                .is_none_or(|it| it.host != asker.who || self.listings[&it.listing].token != *token),
            (
                Request::Watch { attempt, .. } | Request::Close { attempt } | Request::Report { attempt, .. },
                Rejection::NotFound,
            ) => self
                .attempts
                .get(attempt)
                .is_none_or(|it| it.role_of(asker.who).is_none() || self.attempt_is_forgotten(it, now)),
            (
                Request::Watch { after: Some(after), .. } | Request::Offers { after, .. },
                Rejection::Invalid(Invalid::FutureCommit),
            ) => *after > self.seen_commit,
            (Request::Report { attempt, .. }, Rejection::ReplayRejected(Replay::Reported)) => {
                let attempt = &self.attempts[attempt];
                attempt.role_of(asker.who).is_some_and(|role| attempt.reported[role.index()])
            }
            (Request::Revoke { key, .. }, Rejection::ReplayRejected(Replay::KeyUsed)) => {
                self.once.get(key).is_some_and(|until| !until.is_past(now))
            }
            (Request::Lift { .. }, Rejection::NotFound) => true,
            _ => false,
        };
        assert!(right, "B1: {rejection:?} to {request:?} of {} at {now:?}", asker.who);
    }

    fn attempt_is_forgotten(&self, attempt: &Attempt, now: MonoTime) -> bool {
        self.attempt_end(attempt).plus_ms(self.limits.idempotency_retention_ms.into()).is_past(now)
    }

    /// D2, D3: whoever is refused for lack of room meets a bound that is really reached.
    fn at_its_bound(&self, asker: Asker, request: &Request, resource: Resource, now: MonoTime) {
        let listings = |of: &dyn Fn(&Listing) -> bool| self.live_listings(now).filter(|it| of(it)).count();
        let attempts = |of: &dyn Fn(&Attempt) -> bool| self.live_attempts(now).filter(|it| of(it)).count();
        let target = match request {
            Request::Attempt { listing, .. } => Some(*listing),
            _ => None,
        };
        let (live, bound) = match resource {
            Resource::Listings => (listings(&|_| true), self.caps.listings),
            Resource::UnprovenListings => (listings(&|it| it.unproven.is_some()), self.caps.unproven),
            Resource::ListingsPerOwner => (listings(&|it| it.owner == asker.who), self.caps.per_owner),
            Resource::Attempts => (attempts(&|_| true), self.caps.attempts),
            Resource::AttemptsPerTenant => {
                (attempts(&|it| self.listings[&it.listing].tenant == asker.tenant), self.caps.per_tenant)
            }
            Resource::AttemptsPerListing => (attempts(&|it| Some(it.listing) == target), self.caps.per_listing),
            Resource::AttemptsPerPrincipal => (attempts(&|it| it.joiner == asker.who), self.caps.per_principal),
            Resource::Presence => (self.present(now), self.caps.presence),
            Resource::Revocations => (self.standing(now), self.caps.revocations),
            Resource::LongPolls => return,
            other => panic!("D2: {} is never full here", other.name()),
        };
        assert_eq!(live, bound as usize, "D2, D3: {} refused to {request:?}", resource.name());
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address of ours")
}
