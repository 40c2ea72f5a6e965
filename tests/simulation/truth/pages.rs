//! What browsers see.

use super::{Listing, Truth};
use crate::support::parse_name;
use rendezvous::domain::*;

impl Listing {
    /// What a view of `commit` shows of it.
    fn shown_at(&self, commit: u64) -> Option<(bool, (usize, u64, u64))> {
        let shown = self.shown.iter().rev().find(|shown| shown.commit <= commit)?;
        Some((shown.public, shown.name))
    }

    pub(crate) fn is_public(&self) -> bool {
        self.shown.last().is_some_and(|shown| shown.public)
    }

    /// Since which commit it is as public, or as unlisted, as it is now.
    fn public_since(&self) -> Option<u64> {
        let public = self.shown.iter().rev().take_while(|shown| shown.public);
        public.last().map(|shown| shown.commit)
    }
}

impl Truth {
    /// A whole walk through one scope: the commit of each page, and the rows.
    pub(crate) fn walked(&mut self, scope: &Scope, pages: &[u64], rows: &[(ListingId, String)], now: MonoTime) {
        for commit in pages {
            assert!(*commit >= self.seen_commit, "S6: a view of {commit} after one of {}", self.seen_commit);
            self.seen_commit = *commit;
        }
        assert!(rows.is_sorted_by(|one, next| one.0 < next.0), "S4: rows in the order of ids, each once");
        let commit = self.seen_commit;
        for (id, name) in rows {
            let listing = self.row(*id, name, commit, now);
            assert!(listing.tenant == scope.tenant && listing.protocol == *scope.protocol, "a row of another scope");
            assert!(listing.is_public(), "S1: shown though unlisted");
            assert_eq!(
                listing.shown_at(commit).map(|(public, _)| public),
                Some(true),
                "S3: shown before it was public"
            );
        }
        for (id, listing) in &self.listings {
            let is_here = listing.tenant == scope.tenant && listing.protocol == *scope.protocol;
            let is_fresh = !self.fresh_until(listing).is_past(now);
            let since = listing.public_since().zip(listing.fresh_since).map(|(public, fresh)| public.max(fresh));
            if is_here && is_fresh && since.is_some_and(|since| since <= commit) {
                assert!(rows.iter().any(|(shown, _)| shown == id), "S4: a live listing is missing from {commit}");
            }
        }
    }

    /// One listing, looked up by its id.
    pub(crate) fn looked_up(&mut self, tenant: TenantId, id: ListingId, row: Option<(&str, u64)>, now: MonoTime) {
        if let Some((name, commit)) = row {
            assert!(commit >= self.seen_commit, "S6: a view of {commit} after one of {}", self.seen_commit);
            self.seen_commit = commit;
            assert_eq!(self.row(id, name, commit, now).tenant, tenant, "a row of another tenant");
            return;
        }
        if let Some(listing) = self.listings.get(&id).filter(|listing| listing.tenant == tenant) {
            let was_there = listing.fresh_since.is_some_and(|since| since <= self.seen_commit);
            let is_fresh = !self.fresh_until(listing).is_past(now);
            assert!(!(was_there && is_fresh), "S4: a live listing is not found by its id");
        }
    }

    fn row(&self, id: ListingId, name: &str, commit: u64, now: MonoTime) -> &Listing {
        let listing = self.listings.get(&id).unwrap_or_else(|| panic!("S3: a row of nobody"));
        assert!(listing.ended.is_none(), "S1: shown after its end");
        assert!(self.live(id, now).is_some(), "S2: shown after its lease at {now:?}");
        assert!(!self.fresh_until(listing).is_past(now), "S2: shown after its presence at {now:?}");
        let shown = listing.shown_at(commit).unwrap_or_else(|| panic!("S3: shown before it was registered"));
        assert_eq!(parse_name(name), shown.1, "S3: the name in a view of {commit}");
        listing
    }
}
