//! Registration, leases and presence.

use super::{End, Known, Listing, Model, room};
use rendezvous::domain::*;

/// First values from here on are refused, so that no host starts where it can't grow.
const FIRST_SEQUENCE_BOUND: u64 = 1 << 62;
/// A single step above this is refused.
const ADVANCE_MAX: u64 = 1 << 40;

impl Listing {
    /// When it dies by itself: its lease, or the window in which it has to prove itself.
    pub(crate) fn death(&self, limits: &Limits) -> MonoTime {
        match self.was_present() {
            true => self.deadline,
            false => self.deadline.min(self.registered_at.plus_ms(limits.unproven_window_ms.into())),
        }
    }

    pub(crate) fn was_present(&self) -> bool {
        self.known.iter().any(Option::is_some)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.end.is_none()
    }

    pub(crate) fn is_fresh(&self, now: MonoTime) -> bool {
        self.is_live() && self.known.iter().flatten().any(|known| known.deadline > now)
    }

    pub(crate) fn proven_by(&self, proof: &LeaseProof) -> bool {
        self.asked.id == proof.listing && self.asked.owner == proof.caller && self.asked.lease == proof.lease
    }
}

impl Model {
    pub(super) fn live_listing(&mut self, id: ListingId) -> Result<&mut Listing, Rejection> {
        let found = self.listings.iter_mut().find(|listing| listing.is_live() && listing.asked.id == id);
        found.ok_or(Rejection::NotFound)
    }

    fn count_listings(&self, wanted: impl Fn(&Listing) -> bool) -> usize {
        self.listings.iter().filter(|listing| listing.is_live() && wanted(listing)).count()
    }

    pub(super) fn register(&mut self, asked: &Register) -> Result<Outcome, Rejection> {
        if self.is_revoked(asked.owner) {
            return Err(Rejection::Revoked);
        }
        if let Some(before) = self.listings.iter().find(|l| l.asked.idempotency.key == asked.idempotency.key) {
            if before.asked.idempotency.fingerprint != asked.idempotency.fingerprint {
                return Err(Rejection::IdempotencyMismatch);
            }
            return match before.is_live() {
                true => Ok(Outcome::Registered(Registered { replayed: true, ..before.first })),
                false => Err(Rejection::Expired),
            };
        }
        self.check_drain()?;
        let (of_holder, resource) = match asked.session {
            None => (self.count_listings(|l| l.asked.owner == asked.owner), Resource::ListingsPerOwner),
            Some(session) => {
                let tenant = asked.owner.tenant;
                let is_its = |l: &Listing| l.asked.owner.tenant == tenant && l.asked.session == Some(session);
                (self.count_listings(is_its), Resource::ListingsPerSession)
            }
        };
        room(of_holder, asked.quota_per_owner, resource)?;
        if asked.source.is_some() {
            let same = self.count_listings(|listing| listing.asked.source == asked.source);
            room(same, asked.quota_per_source, Resource::ListingsPerSource)?;
        }
        room(self.count_listings(|_| true), self.limits.listings, Resource::Listings)?;
        let unproven = self.count_listings(|listing| !listing.was_present());
        room(unproven, self.limits.unproven_listings, Resource::UnprovenListings)?;
        room(self.remembered_requests(), self.limits.idempotency, Resource::Idempotency)?;

        let ttl_ms = asked.ttl.ms();
        let expires_at = self.at.wall.plus_ms(ttl_ms.into());
        let first = Registered { id: asked.id, expires_at, ttl_ms, replayed: false };
        self.listings.push(Listing {
            asked: asked.clone(),
            registered_at: self.now(),
            first,
            version: 1,
            ttl_ms,
            deadline: self.now().plus_ms(ttl_ms.into()),
            expires_at,
            known: [None, None],
            unverified: None,
            end: None,
            deleted: false,
        });
        self.changes = true;
        Ok(Outcome::Registered(first))
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Result<Outcome, Rejection> {
        self.check_drain()?;
        let at = self.at;
        let listing = self.live_listing(renew.proof.listing)?;
        if !listing.proven_by(&renew.proof) {
            return Err(Rejection::NotFound);
        }
        if listing.version != renew.version {
            return Err(Rejection::VersionConflict { current: listing.version });
        }
        listing.version += 1;
        listing.ttl_ms = renew.ttl.map_or(listing.ttl_ms, Ttl::ms);
        listing.deadline = at.mono.plus_ms(listing.ttl_ms.into());
        listing.expires_at = at.wall.plus_ms(listing.ttl_ms.into());
        if let Some(details) = &renew.details {
            listing.asked.details = (**details).clone();
        }
        if let Some(visibility) = renew.visibility {
            listing.asked.visibility = visibility;
        }
        let renewed = Renewed {
            version: listing.version,
            expires_at: listing.expires_at,
            ttl_ms: listing.ttl_ms,
            visibility: listing.asked.visibility,
        };
        self.changes = true;
        Ok(Outcome::Renewed(renewed))
    }

    pub(super) fn delete(&mut self, proof: &LeaseProof) -> Result<Outcome, Rejection> {
        let now = self.now();
        let listing = self.listings.iter_mut().find(|listing| listing.proven_by(proof)).ok_or(Rejection::NotFound)?;
        if listing.deleted {
            return Ok(Outcome::Deleted);
        }
        if !listing.is_live() {
            return Err(Rejection::NotFound);
        }
        listing.deleted = true;
        listing.end = Some(End { at: now, reasons: Vec::new() });
        self.end_attempts(EndReason::ListingGone, |attempt| attempt.asked.listing == proof.listing);
        self.changes = true;
        Ok(Outcome::Deleted)
    }

    pub(super) fn presence(&mut self, sent: &Presence) -> Result<Outcome, Rejection> {
        let now = self.now();
        let draining = self.drain.map(|(deadline, _)| deadline);
        let family = sent.endpoint.family().index();
        let limits = self.limits.clone();
        let presences = self.present_families();
        let listing = self.live_listing(sent.listing)?;
        let present = |deadline: MonoTime| {
            let deadline = draining.map_or(deadline, |drain| drain.min(deadline));
            Outcome::Present(Present { deadline, offers: Default::default(), draining })
        };
        if let Some(known) = listing.known[family].as_ref().filter(|known| known.datagram == sent.datagram) {
            return Ok(present(known.deadline));
        }
        let aged = sent.nonce_issued.plus_ms(limits.nonce_fresh_ms.into()) <= now;
        match aged {
            true if one_way_refresh(listing.known[family].as_ref(), sent, now, &limits) => {}
            true => return Err(Rejection::StaleNonce),
            false => in_order(listing, sent, &limits)?,
        }
        if listing.known[family].as_ref().is_none_or(|known| known.lapsed) {
            room(presences, limits.presence, Resource::Presence)?;
        }
        let mut deadline = now.plus_ms(limits.presence_ttl_ms.into());
        if sent.sequence.is_none() {
            let reach = u64::from(limits.nonce_fresh_ms) + u64::from(limits.presence_ttl_ms);
            deadline = deadline.min(sent.nonce_issued.plus_ms(reach));
        }
        let anchor = match aged {
            true => listing.known[family].as_ref().and_then(|known| known.anchor),
            false => sent.sequence.map(|sequence| (sequence, now)),
        };
        listing.known[family] = Some(Known {
            endpoint: sent.endpoint,
            deadline,
            datagram: sent.datagram,
            nonce_issued: sent.nonce_issued,
            highest: sent.sequence,
            anchor,
            lapsed: false,
        });
        // A family that has proven itself needs no guess any more.
        listing.unverified = listing.unverified.filter(|noted| noted.family().index() != family);
        self.changes = true;
        Ok(present(deadline))
    }

    pub(super) fn note_unverified(&mut self, note: &NoteUnverified) -> Result<Outcome, Rejection> {
        let listing = self.live_listing(note.listing)?;
        let highest = listing.known[note.endpoint.family().index()].as_ref().and_then(|known| known.highest);
        match highest.filter(|highest| note.sequence <= *highest) {
            Some(highest) => Err(Rejection::ReplayRejected(Replay::OldSequence { highest })),
            None => {
                listing.unverified = Some(note.endpoint);
                Ok(Outcome::Noted)
            }
        }
    }

    pub(super) fn present_families(&self) -> usize {
        let live = self.listings.iter().filter(|listing| listing.is_live());
        live.map(|listing| listing.known.iter().flatten().filter(|known| !known.lapsed).count()).sum()
    }
}

/// Latest wins, for datagrams whose nonce is fresh.
fn in_order(listing: &Listing, sent: &Presence, limits: &Limits) -> Result<(), Rejection> {
    let known = listing.known[sent.endpoint.family().index()].as_ref();
    let highest = known.and_then(|known| known.highest);
    let old = Err(Rejection::ReplayRejected(Replay::OldSequence { highest: highest.unwrap_or(0) }));
    let uses_sequence = listing.known.iter().flatten().any(|known| known.highest.is_some());
    let fine = match (sent.sequence, highest) {
        (Some(sequence), Some(highest)) => sequence > highest && sequence - highest <= ADVANCE_MAX,
        (Some(sequence), None) => sequence < FIRST_SEQUENCE_BOUND,
        (None, _) if uses_sequence || !limits.sequence_optional => false,
        (None, _) => known.is_none_or(|known| {
            sent.nonce_issued > known.nonce_issued
                || (sent.nonce_issued == known.nonce_issued && sent.endpoint == known.endpoint)
        }),
    };
    if fine { Ok(()) } else { old }
}

/// Whether a datagram with an aged nonce keeps pace with the server's clock since the last fresh exchange.
fn one_way_refresh(known: Option<&Known>, sent: &Presence, now: MonoTime, limits: &Limits) -> bool {
    let Some(known) = known.filter(|known| known.endpoint == sent.endpoint) else { return false };
    let (Some(sequence), Some(highest), Some((first, since))) = (sent.sequence, known.highest, known.anchor) else {
        return false;
    };
    let elapsed_ms = now.ms_since(since);
    sequence > highest && (sequence - first).abs_diff(elapsed_ms) <= limits.one_way_tolerance_ms.into()
}
