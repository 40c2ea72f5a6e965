//! What is measured against: listings, their leases and credentials, and pages of three sizes, the same bytes everywhere.

use super::error::{CompareError, system};
use super::http::{fetch_once, header};
use super::udp::prove;
use crate::client::http::{Directory, ListingDetails, Registered, Registration};
use crate::credentials::Secret;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Our server, in messages.
pub(super) const NAME: &str = "rendezvous";
/// Where pages lie as files, below the comparison's folder.
pub(super) const PAGES_FOLDER: &str = "pages";
/// The tenant of `serve --dev`.
pub(super) const TENANT: &str = "demo";
/// Between two looks whether listings are published.
const LOOK: Duration = Duration::from_millis(5);
/// Looks until they have to be: five seconds.
const LOOKS: u32 = 1_000;

/// A page: so many rows, and so much more text in each than a plain one has.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageShape {
    pub(super) name: &'static str,
    rows: usize,
    more_bytes: usize,
}

/// About 2, 16 and 64 KiB; a plain row has about 290 bytes.
pub(super) const PAGES: [PageShape; 3] = [
    PageShape { name: "2k", rows: 7, more_bytes: 0 },
    PageShape { name: "16k", rows: 50, more_bytes: 34 },
    PageShape { name: "64k", rows: 100, more_bytes: 350 },
];

/// A page as our server sent it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// On our server.
    pub(super) path: String,
    /// On the others.
    pub(super) file: String,
    pub(super) body: Vec<u8>,
    pub(super) etag: String,
    /// Its rows.
    pub(super) listings: Vec<Registered>,
}

impl Page {
    /// Keeps its rows visible for as long as one presence lasts.
    pub(super) fn refresh(&self, udp: SocketAddr) -> Result<(), CompareError> {
        prove(NAME, udp, &self.listings)
    }

    /// Whether our server still sends the same bytes: an error when it doesn't, for then nothing was compared.
    pub(super) fn is_unchanged(&self, server: SocketAddr) -> Result<(), CompareError> {
        if fetch_once(NAME, server, &self.path)?.1 == self.body {
            return Ok(());
        }
        let detail = format!("{} changed while it was measured: presence ran out, take fewer pairs", self.path);
        Err(CompareError::Answer { name: NAME, detail })
    }
}

/// Everything on our server.
pub(super) struct Population {
    pub(super) token: Secret,
    pub(super) listings: Vec<Registered>,
    pub(super) pages: Vec<Page>,
}

/// Registers `listings` listings and the pages' rows as one guest, and writes the pages to files.
pub(super) fn populate(
    server: SocketAddr,
    udp: SocketAddr,
    listings: usize,
    folder: &Path,
) -> Result<Population, CompareError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system("a runtime"))?;
    runtime.block_on(async {
        let directory = Directory::new(&format!("http://{server}"), TENANT)?;
        let token = directory.guest().await?.token;
        let directory = directory.with_token(token.clone());
        let mut registered = Vec::with_capacity(listings);
        for n in 0..listings {
            registered.push(directory.register(&registration("load/all", n, 0), &format!("all-{n}")).await?);
        }
        fs::create_dir_all(folder.join(PAGES_FOLDER)).map_err(system("the folder of pages"))?;
        let mut pages = Vec::new();
        for shape in PAGES {
            let protocol = format!("load/{}", shape.name);
            let mut rows = Vec::with_capacity(shape.rows);
            for n in 0..shape.rows {
                let registration = registration(&protocol, n, shape.more_bytes);
                rows.push(directory.register(&registration, &format!("{}-{n}", shape.name)).await?);
            }
            prove(NAME, udp, &rows)?;
            pages.push(publish(server, shape, rows, &protocol, folder).await?);
        }
        Ok(Population { token, listings: registered, pages })
    })
}

/// Waits until all rows of a page are published, and writes it to its file.
async fn publish(
    server: SocketAddr,
    shape: PageShape,
    listings: Vec<Registered>,
    protocol: &str,
    folder: &Path,
) -> Result<Page, CompareError> {
    let path = format!("/v1/tenants/{TENANT}/listings?protocol={protocol}&limit=100");
    for _ in 0..LOOKS {
        let (head, body) = fetch_once(NAME, server, &path)?;
        let rows = String::from_utf8_lossy(&body).matches("\"listing_id\"").count();
        if rows == shape.rows {
            let name = format!("{}.json", shape.name);
            fs::write(folder.join(PAGES_FOLDER).join(&name), &body).map_err(system("a page's file"))?;
            let etag = header(&head, "etag").unwrap_or_default().to_owned();
            return Ok(Page { path, file: format!("/{name}"), body, etag, listings });
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(CompareError::Answer { name: NAME, detail: format!("{path} never showed {} rows", shape.rows) })
}

/// A registration like a game's.
fn registration(protocol: &str, n: usize, more_bytes: usize) -> Registration {
    let mut attributes = std::collections::BTreeMap::from([
        ("skill".to_owned(), serde_json::json!(1200)),
        ("voice".to_owned(), serde_json::json!(true)),
    ]);
    // An attribute's text has at most 256 characters.
    let (mut missing, mut part) = (more_bytes, 0);
    while missing > 0 {
        let length = missing.min(250);
        attributes.insert(format!("text{part}"), serde_json::json!("x".repeat(length)));
        missing -= length;
        part += 1;
    }
    Registration {
        protocol: protocol.to_owned(),
        details: ListingDetails {
            name: format!("Friday night {n}"),
            map: Some("dust".into()),
            mode: Some("ctf".into()),
            region: Some("eu-west".into()),
            players: (n % 16) as u16,
            max_players: 16,
            tags: vec!["modded".into()],
            attributes,
            ..ListingDetails::default()
        },
        ..Registration::default()
    }
}
