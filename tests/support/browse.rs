//! Reading a store as browsers do, parsed by a strict JSON parser.

use super::build::{Host, PROTOCOL, scope};
use super::world::{Backend, World};
use rendezvous::domain::{Failure, Filter, ListingId, Rejection, Scope};
use rendezvous::store::BrowseQuery;

/// One row of a page, as a strict JSON parser sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: ListingId,
    pub(crate) json: serde_json::Value,
}

impl Row {
    pub(crate) fn name(&self) -> &str {
        self.json["name"].as_str().expect("every row has a name")
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) commit: u64,
    pub(crate) next: Option<ListingId>,
    pub(crate) rows: Vec<Row>,
    pub(crate) bytes: Vec<u8>,
}

impl<S: Backend> World<S> {
    /// One page, parsed.
    pub(crate) fn page(&self, scope: &Scope, after: Option<ListingId>, limit: usize) -> Result<Page, Failure> {
        self.page_of(scope, after, limit, None)
    }

    /// One page of the rows that match, parsed.
    pub(crate) fn page_of(
        &self,
        scope: &Scope,
        after: Option<ListingId>,
        limit: usize,
        filter: Option<&Filter>,
    ) -> Result<Page, Failure> {
        let query = BrowseQuery { tenant: scope.tenant, protocol: &scope.protocol, after, limit, filter };
        self.store.browse(&query, |view| {
            let mut bytes = vec![b'['];
            view.write_rows(&mut bytes);
            bytes.push(b']');
            let rows: Vec<serde_json::Value> = serde_json::from_slice(&bytes).expect("a page is valid JSON");
            assert_eq!((rows.len(), bytes.len() - 2), (view.count, view.rows_len()), "count and length of the page");
            let row = |json: serde_json::Value| {
                let id = ListingId::parse(json["listing_id"].as_str().expect("an id")).expect("an id's spelling");
                Row { id, json }
            };
            Page { commit: view.commit, next: view.next, rows: rows.into_iter().map(row).collect(), bytes }
        })
    }

    /// Every visible row of a scope, by pages of `limit`.
    #[track_caller]
    pub(crate) fn walk(&self, scope: &Scope, limit: usize) -> Vec<Row> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(scope, after, limit).expect("browsing works");
            rows.extend(page.rows);
            match page.next {
                Some(next) => assert!(after.replace(next) < Some(next), "a cursor moves on"),
                None => return rows,
            }
        }
    }

    /// The ids that browsing the usual scope shows now, without any tick.
    #[track_caller]
    pub(crate) fn browsed(&self) -> Vec<ListingId> {
        self.walk(&scope(PROTOCOL), 100).into_iter().map(|row| row.id).collect()
    }

    /// Ticks, then browses the usual scope.
    #[track_caller]
    pub(crate) fn visible(&self) -> Vec<ListingId> {
        self.store.tick();
        self.browsed()
    }

    /// Whether the row of one listing can be had by its id, without any tick.
    pub(crate) fn found(&self, host: &Host) -> bool {
        match self.store.listing(host.scope.tenant, host.id, |_, _| ()) {
            Ok(()) => true,
            Err(Failure::Rejected(Rejection::NotFound)) => false,
            Err(other) => panic!("{other:?}"),
        }
    }
}
