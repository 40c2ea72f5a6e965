//! Browsers: after each step they look at everything, by pages and by ids.

use super::World;
use crate::actors::PROTOCOL;
use rendezvous::domain::*;
use rendezvous::service::view::BrowseQuery;

/// The last listings, each looked up by its id after each step.
const LOOKED_UP: usize = 6;

impl World {
    /// Every browser looks at everything, and by each id.
    pub(super) fn look(&mut self) {
        if !self.is_serving() {
            return;
        }
        let limit = 1 + self.rng.below(3) as usize;
        // Nobody of the second tenant hosts: whoever browses it sees nothing.
        let tenants = if self.rng.chance(250) { &[TenantId(0), TenantId(1)][..] } else { &[TenantId(0)] };
        for tenant in tenants.iter().copied() {
            self.walk(&Scope::new(tenant, PROTOCOL).expect("a protocol"), limit);
        }
        let ids: Vec<_> = self.truth.listings.iter().map(|(id, listing)| (*id, listing.tenant)).collect();
        for (id, tenant) in ids.into_iter().rev().take(LOOKED_UP) {
            let tenant = if self.rng.chance(100) { TenantId(1) } else { tenant };
            self.look_up(tenant, id);
        }
    }

    fn walk(&mut self, scope: &Scope, limit: usize) {
        let (mut after, mut pages, mut rows) = (None, Vec::new(), Vec::new());
        let now = self.now();
        loop {
            let Some(server) = &self.server else { return };
            let query = BrowseQuery { tenant: scope.tenant, protocol: &scope.protocol, after, limit, filter: None };
            let page = server.service.browse(&query, |view| {
                let mut bytes = vec![b'['];
                view.write_rows(&mut bytes);
                bytes.push(b']');
                assert!(view.count <= limit, "a page longer than asked for");
                (view.commit, view.next, bytes)
            });
            let Some((commit, next, bytes)) = self.read(page) else { return };
            let page: Vec<serde_json::Value> = serde_json::from_slice(&bytes).expect("S3: a page is JSON");
            rows.extend(page.iter().map(|row| {
                let text = |member: &str| row[member].as_str().unwrap_or_else(|| panic!("S3: a row without {member}"));
                (ListingId::parse(text("listing_id")).expect("an id"), text("name").to_owned())
            }));
            pages.push(commit);
            match next {
                Some(next) => assert!(after.replace(next) < Some(next), "S4: a cursor moves on"),
                None => break,
            }
        }
        self.report.rows += rows.len() as u64;
        self.truth.walked(scope, &pages, &rows, now);
    }

    fn look_up(&mut self, tenant: TenantId, id: ListingId) {
        let now = self.now();
        let Some(server) = &self.server else { return };
        let row = server.service.listing(tenant, id, |row, commit| (row.to_vec(), commit));
        if matches!(row, Err(Failure::Rejected(Rejection::NotFound))) && !self.truth.is_lost {
            assert!(!self.truth.is_drained(now), "J2: not found after the drain's deadline");
            return self.truth.looked_up(tenant, id, None, now);
        }
        let Some((row, commit)) = self.read(row) else { return };
        let row: serde_json::Value = serde_json::from_slice(&row).expect("S3: a row is JSON");
        self.truth.looked_up(tenant, id, Some((row["name"].as_str().expect("S3: a name"), commit)), now);
    }

    /// What a reader got, unless the store is lost or drained; then that is right.
    fn read<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        let now = self.now();
        match result {
            Ok(value) => {
                assert!(!self.truth.is_lost, "J1: browsing goes on in a lost store");
                assert!(!self.truth.is_drained(now), "J2: browsing goes on after the drain's deadline");
                Some(value)
            }
            Err(Failure::Rejected(Rejection::Draining { deadline, .. })) => {
                assert!(self.truth.drain == Some(deadline) && deadline <= now, "J2: draining to a browser");
                None
            }
            Err(Failure::Unavailable(_)) => {
                assert!(self.truth.may_be_lost, "J1: unavailable without a panic");
                self.truth.is_lost = true;
                self.ends_at.get_or_insert(now.plus_ms(700));
                None
            }
            Err(other) => panic!("B1: {other:?} to a browser"),
        }
    }
}
