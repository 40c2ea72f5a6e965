//! Random pages, as browsers ask for them.

use super::{Random, SCOPES, TENANT};
use rendezvous::domain::Filter;
use rendezvous::store::{BrowseQuery, PageView};
use std::hint::black_box;

/// What the queries are made of, made before the measurement.
pub struct Queries {
    protocols: Vec<String>,
    listings: u64,
}

impl Queries {
    pub fn new(listings: u64) -> Self {
        Self { protocols: (0..SCOPES).map(super::protocol).collect(), listings }
    }

    /// A random scope, and the cursor behind a random one of its listings.
    pub fn with<R>(&self, random: &mut Random, browse: impl FnOnce(&BrowseQuery<'_>) -> R) -> R {
        let scope = random.below(SCOPES);
        let n = random.below(self.listings / SCOPES) * SCOPES + scope;
        let (protocol, after) = (&self.protocols[scope as usize], Some(super::listing_id(n)));
        browse(&BrowseQuery { tenant: TENANT, protocol, after, limit: 50, filter: None })
    }
}

/// Every second row matches: a page of 50 examines about a hundred, and reads all that a filter can ask for.
pub const HALF: &str =
    r#"players < 8 and region in ["eu-west", "eu-north"] and tags has "modded" and attributes.voice"#;
/// No row matches: a page examines all that are left of its scope, and reads as much of each.
pub const NONE: &str = r#"players > max_players or tags has "ranked" or attributes.skill > 2000"#;

pub fn filter(text: &str) -> Filter {
    Filter::parse(text).expect("a filter")
}

/// What a caller does with a page at the least: looks at its runs.
pub fn touch(page: &PageView<'_>) {
    page.for_each_run(|run| {
        black_box(run.as_ptr());
    });
    black_box((page.count, page.next));
}
