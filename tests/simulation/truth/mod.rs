//! What must be true, kept from outside: it hears each request with its answer at the instant of its transition, knows
//! the rules, and shares no code with the state machine. Everything that leaves the server is held against it.
//!
//! One thread runs the whole simulation, so there is nothing that it does not know exactly.

mod answers;
mod datagrams;
mod operator;
mod pages;

pub(crate) use answers::Asker;

use crate::plan::Caps;
use rendezvous::domain::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// In place of an actor's number.
pub(crate) const OPERATOR: usize = usize::MAX;

/// Everything that is true of one life of the server.
pub(crate) struct Truth {
    limits: Limits,
    caps: Caps,
    pub(crate) listings: BTreeMap<ListingId, Listing>,
    pub(crate) attempts: BTreeMap<AttemptId, Attempt>,
    /// Who, whether it was a try to join, and the key: what it made.
    keys: BTreeMap<(usize, bool, String), Made>,
    revoked: BTreeMap<Named, MonoTime>,
    /// Single-use keys of operators.
    once: BTreeMap<String, MonoTime>,
    pub(crate) drain: Option<MonoTime>,
    /// Of the newest view that a browser saw.
    seen_commit: u64,
    /// A panic was armed: from then on the store may be unavailable, and once it was it must stay so.
    pub(crate) may_be_lost: bool,
    pub(crate) is_lost: bool,
    /// Calls met in the lane: a full queue is legal, and in which state a refused one was decided is not known.
    pub(crate) is_contended: bool,
}

/// A revocation's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    Listing(ListingId),
    Actor(usize),
}

/// What a key led to, as first answered.
#[derive(Clone, Debug)]
struct Made {
    what: What,
    expires_at: WallTime,
    body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Listing(ListingId),
    Attempt(AttemptId),
}

/// A listing as its owner was told.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) owner: usize,
    pub(crate) tenant: TenantId,
    pub(crate) protocol: String,
    token: String,
    pub(crate) version: u64,
    ttl_ms: u64,
    lease: MonoTime,
    unproven: Option<MonoTime>,
    /// By [`Family::index`].
    presence: [Option<Known>; 2],
    shown: Vec<Shown>,
    /// The commit with which it became fresh, the last time.
    fresh_since: Option<u64>,
    gate: bool,
    candidate: Option<SocketAddr>,
    ended: Option<MonoTime>,
}

/// A family's presence.
#[derive(Clone, Copy, Debug)]
struct Known {
    endpoint: Endpoint,
    deadline: MonoTime,
    datagram: Fingerprint,
    sequence: Option<u64>,
}

/// What browsers see of a listing from one commit on.
#[derive(Clone, Copy, Debug)]
struct Shown {
    commit: u64,
    name: (usize, u64, u64),
    public: bool,
}

/// An attempt as its two sides were told.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) listing: ListingId,
    pub(crate) host: usize,
    pub(crate) joiner: usize,
    created: u64,
    deadline: MonoTime,
    bind_until: Option<MonoTime>,
    common_until: Option<MonoTime>,
    /// By [`Role::index`] and [`Family::index`].
    bound: [[Option<(Endpoint, Fingerprint)>; 2]; 2],
    gate_is_open: bool,
    /// How often the store said that it introduced the two.
    introduced: u32,
    candidate: Option<SocketAddr>,
    reported: [bool; 2],
    ended: Option<MonoTime>,
}

impl Attempt {
    pub(crate) fn party(&self, role: Role) -> usize {
        match role {
            Role::Host => self.host,
            Role::Joiner => self.joiner,
        }
    }

    fn role_of(&self, who: usize) -> Option<Role> {
        [Role::Host, Role::Joiner].into_iter().find(|role| self.party(*role) == who)
    }

    /// The endpoints of a role that its peer may know: of common families, IPv6 first.
    fn introduced_of(&self, role: Role) -> Vec<Endpoint> {
        let both = |family: &usize| self.bound.iter().all(|bound| bound[*family].is_some());
        let families = Family::BOTH.map(Family::index);
        families.into_iter().filter(both).filter_map(|family| Some(self.bound[role.index()][family]?.0)).collect()
    }

    fn has_common_family(&self) -> bool {
        !self.introduced_of(Role::Host).is_empty()
    }

    fn has_bound(&self, role: Role) -> bool {
        self.bound[role.index()].iter().any(Option::is_some)
    }

    fn is_introduced(&self) -> bool {
        self.introduced > 0
    }
}

impl Truth {
    pub(crate) fn new(limits: Limits, caps: Caps) -> Self {
        Self {
            limits,
            caps,
            listings: BTreeMap::new(),
            attempts: BTreeMap::new(),
            keys: BTreeMap::new(),
            revoked: BTreeMap::new(),
            once: BTreeMap::new(),
            drain: None,
            seen_commit: 0,
            may_be_lost: false,
            is_lost: false,
            is_contended: false,
        }
    }

    pub(crate) fn is_drained(&self, now: MonoTime) -> bool {
        self.drain.is_some_and(|deadline| deadline.is_past(now))
    }

    fn at_the_latest(&self, deadline: MonoTime) -> MonoTime {
        self.drain.map_or(deadline, |drain| drain.min(deadline))
    }

    /// When a listing is dead (C2, D5), as far as is known now.
    fn listing_end(&self, listing: &Listing) -> MonoTime {
        let ends = [listing.unproven, listing.ended].into_iter().flatten();
        self.at_the_latest(ends.fold(listing.lease, MonoTime::min))
    }

    pub(crate) fn fresh_until(&self, listing: &Listing) -> MonoTime {
        let presence = listing.presence.iter().flatten().map(|known| known.deadline).max();
        presence.unwrap_or_default().min(self.listing_end(listing))
    }

    fn attempt_end(&self, attempt: &Attempt) -> MonoTime {
        let listing = self.listings.get(&attempt.listing).map_or(MonoTime(0), |listing| self.listing_end(listing));
        let ends = [attempt.bind_until, attempt.common_until, attempt.ended].into_iter().flatten();
        ends.fold(attempt.deadline, MonoTime::min).min(listing)
    }

    /// The listing, when it lives.
    pub(crate) fn live(&self, id: ListingId, now: MonoTime) -> Option<&Listing> {
        self.listings.get(&id).filter(|listing| !self.listing_end(listing).is_past(now))
    }

    /// The attempt, when it lives.
    fn live_attempt(&self, id: AttemptId, now: MonoTime) -> Option<&Attempt> {
        self.attempts.get(&id).filter(|attempt| !self.attempt_end(attempt).is_past(now))
    }

    fn live_listings(&self, now: MonoTime) -> impl Iterator<Item = &Listing> {
        self.listings.values().filter(move |listing| !self.listing_end(listing).is_past(now))
    }

    fn live_attempts(&self, now: MonoTime) -> impl Iterator<Item = &Attempt> {
        self.attempts.values().filter(move |attempt| !self.attempt_end(attempt).is_past(now))
    }

    fn present(&self, now: MonoTime) -> usize {
        let of = |listing: &Listing| listing.presence.iter().flatten().filter(|it| !it.deadline.is_past(now)).count();
        self.live_listings(now).map(of).sum()
    }

    /// When the memory of a request ends (F3).
    fn remembered_until(&self, made: &Made) -> MonoTime {
        let end = match made.what {
            What::Listing(id) => self.listings.get(&id).map(|listing| self.listing_end(listing)),
            What::Attempt(id) => self.attempts.get(&id).map(|attempt| self.attempt_end(attempt)),
        };
        let kept = end.unwrap_or_default().plus_ms(self.limits.idempotency_retention_ms.into());
        self.at_the_latest(kept)
    }

    pub(crate) fn is_revoked(&self, subject: Named, now: MonoTime) -> bool {
        self.revoked.get(&subject).is_some_and(|until| !self.at_the_latest(*until).is_past(now))
    }

    /// Whether somebody ended it before its time.
    pub(crate) fn attempt_was_refused(&self, id: AttemptId) -> bool {
        self.attempts.get(&id).is_some_and(|attempt| attempt.ended.is_some())
    }

    /// The next instant at which something dies, for a clock that is aimed there.
    pub(crate) fn next_deadline(&self, now: MonoTime) -> Option<MonoTime> {
        let presence = self.listings.values().flat_map(|listing| listing.presence.iter().flatten());
        let all = self
            .listings
            .values()
            .map(|listing| self.listing_end(listing))
            .chain(presence.map(|known| known.deadline))
            .chain(self.attempts.values().map(|attempt| self.attempt_end(attempt)))
            .chain(self.keys.values().map(|made| self.remembered_until(made)))
            .chain(self.revoked.values().copied())
            .chain(self.drain);
        all.filter(|at| *at > now).min()
    }

    /// What transitions told others: each introduction once, of exactly the two that had bound.
    pub(crate) fn events(&mut self, events: &[Event], now: MonoTime) {
        for event in events {
            let Event::Introduced(introduction) = event else { continue };
            let Some(attempt) = self.attempts.get_mut(&introduction.attempt) else {
                panic!("H3: the introduction of an attempt that nobody made");
            };
            attempt.introduced += 1;
            assert_eq!(attempt.introduced, 1, "H3: introduced twice");
            assert!(attempt.gate_is_open, "H6: introduced behind a closed gate");
            self.introduction(introduction, now);
        }
    }

    /// One introduction: its endpoints are what the server saw, of exactly the two sides, while the attempt lives.
    fn introduction(&self, introduction: &Introduction, now: MonoTime) {
        let attempt = self.live_attempt(introduction.attempt, now);
        let attempt = attempt.unwrap_or_else(|| panic!("C3: the introduction of a dead attempt at {now:?}"));
        assert_eq!(introduction.listing, attempt.listing, "H3: of another listing");
        for role in [Role::Host, Role::Joiner] {
            let told: BTreeSet<_> = introduction.peers_of(role.other()).map(Endpoint::address).collect();
            let seen: BTreeSet<_> = attempt.introduced_of(role).into_iter().map(Endpoint::address).collect();
            assert_eq!(told, seen, "H4: endpoints of the {role:?} as told, and as the server saw them");
            assert!(!told.is_empty(), "H3: introduced without a common family");
        }
        let is_one_address =
            introduction.pairs.iter().flatten().any(|pair| pair.host.address().ip() == pair.joiner.address().ip());
        let listing = &self.listings[&attempt.listing];
        for (role, declared) in [(Role::Host, listing.candidate), (Role::Joiner, attempt.candidate)] {
            let told = introduction.candidates_for(role.other());
            let may: Vec<_> = declared.into_iter().filter(|_| is_one_address).collect();
            assert_eq!(told, may, "H4: candidates of the {role:?}");
        }
        assert_eq!(introduction.deadline, self.at_the_latest(attempt.deadline), "C3: its deadline");
    }
}
