//! `rendezvous browse`: the list of games, once or live.

use super::output::{Output, ServerArgs, block_on, exit, printable, stop_signal};
use crate::client::http::{BrowseQuery, Browsed, Directory, Listing, Page};
use crate::client::{Code, Error};
use crate::clock::{Clock, SystemClock};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks with `--watch`; a page that has not changed costs one 304.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// Longest pause after looks that failed.
const WATCH_PAUSE_MAX: Duration = Duration::from_secs(15);
/// Pages walked: 100,000 games. More are not for a terminal.
const PAGES_MAX: usize = 1_000;
/// Rows of one page.
const PAGE_ROWS: u32 = 100;

/// Show the games that can be joined now
///
/// Prints id, name, players, region and age of every public game of a protocol. With --watch the table is kept up to
/// date; where the output isn't a terminal, each change is one line. With --filter only those games are shown whose
/// details match: comparisons, `in`, `has`, `and`, `or`, `not` and parentheses over name, map, mode, region, players,
/// max_players, password_required, tags and attributes.KEY.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  rendezvous browse --server http://127.0.0.1:8080 --tenant demo --protocol arena/3 --watch
  rendezvous browse --protocol arena/3 --filter 'players < max_players and region in [\"eu-west\", \"eu-north\"]'

Events with --json: listing, and with --watch: added, changed, removed, retrying; failed

Exit codes: 0 it worked, 2 wrong command line, 3 server unreachable, 4 refused by the server")]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Your game and its version, such as `arena/3`
    #[arg(long, value_name = "PROTOCOL")]
    protocol: String,
    /// Only games that match, such as `tags has "modded" and not password_required`
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Keep the table up to date until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// Runs once, or until a signal.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    block_on(async move {
        let query = BrowseQuery {
            protocol: args.protocol.clone(),
            limit: Some(PAGE_ROWS),
            filter: args.filter.clone(),
            ..BrowseQuery::default()
        };
        let result = match args.server.directory() {
            Ok(directory) if args.watch => watch(Walk::new(directory, query), output).await,
            Ok(directory) => once(Walk::new(directory, query), output).await,
            Err(error) => Err(error),
        };
        result.map_or_else(|error| output.error("browse", &error), |()| ExitCode::from(exit::OK))
    })
}

/// Every page, with what is needed to fetch only what changed.
struct Walk {
    directory: Directory,
    fixed_token: bool,
    query: BrowseQuery,
    pages: Vec<Page>,
}

impl Walk {
    fn new(directory: Directory, query: BrowseQuery) -> Self {
        Self { fixed_token: directory.has_token(), directory, query, pages: Vec::new() }
    }

    /// Fetches every page, those known already with their ETag. True when any of them has changed.
    async fn refresh(&mut self) -> Result<bool, Error> {
        let mut known = std::mem::take(&mut self.pages).into_iter();
        let (mut cursor, mut changed) = (None, false);
        // On a failure what was known is dropped, and the next look fetches everything.
        for _ in 0..PAGES_MAX {
            let query = BrowseQuery { cursor: cursor.clone(), ..self.query.clone() };
            let earlier = known.next();
            let etag = earlier.as_ref().and_then(|page| page.etag.as_deref());
            let page = match (self.browse(&query, etag).await?, earlier) {
                (Browsed::NotModified, Some(earlier)) => earlier,
                (Browsed::NotModified, None) => break,
                (Browsed::Page(page), earlier) => {
                    // Pages after a changed boundary have another cursor, so what was known of them doesn't fit.
                    if earlier.as_ref().is_some_and(|earlier| earlier.next_cursor != page.next_cursor) {
                        known = Vec::new().into_iter();
                    }
                    changed |= earlier.is_none_or(|earlier| earlier.listings != page.listings);
                    page
                }
            };
            cursor = page.next_cursor.clone();
            self.pages.push(page);
            if cursor.is_none() {
                break;
            }
        }
        Ok(changed || known.next().is_some())
    }

    /// One page; as a guest where the tenant lets only its principals browse.
    async fn browse(&mut self, query: &BrowseQuery, etag: Option<&str>) -> Result<Browsed, Error> {
        match self.directory.browse(query, etag).await {
            Err(error) if error.code() == Some(&Code::Unauthenticated) && !self.fixed_token => {
                let token = self.directory.clone().without_token().guest().await?.token;
                self.directory = self.directory.clone().with_token(token);
                self.directory.browse(query, etag).await
            }
            answer => answer,
        }
    }

    fn listings(&self) -> impl Iterator<Item = &Listing> {
        self.pages.iter().flat_map(|page| &page.listings)
    }
}

async fn once(mut walk: Walk, output: Output) -> Result<(), Error> {
    walk.refresh().await?;
    if output.is_json() {
        walk.listings().for_each(|listing| output.event("listing", fields(listing), ""));
    } else {
        table(&walk, output);
    }
    Ok(())
}

async fn watch(mut walk: Walk, output: Output) -> Result<(), Error> {
    let mut shown: BTreeMap<String, Listing> = BTreeMap::new();
    let mut stop = std::pin::pin!(stop_signal());
    let (mut first, mut pause) = (true, WATCH_PERIOD);
    loop {
        let looked = tokio::select! {
            () = &mut stop => return Ok(()),
            looked = walk.refresh() => looked,
        };
        match looked {
            // A server that was never reached is a mistake in the command; one that goes away may come back.
            Err(error) if first => return Err(error),
            Err(error) => {
                pause = (pause * 2).min(WATCH_PAUSE_MAX);
                output.event("retrying", json!({ "message": error.to_string() }), &error.to_string());
            }
            Ok(changed) => {
                pause = WATCH_PERIOD;
                if output.is_live() {
                    // Ages move even when no listing changes, so the screen is drawn at each look.
                    output.line("\x1b[2J\x1b[H");
                    table(&walk, output);
                } else if changed || first {
                    tell_changes(&walk, &mut shown, output);
                }
                first = false;
            }
        }
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn tell_changes(walk: &Walk, shown: &mut BTreeMap<String, Listing>, output: Output) {
    let now: BTreeMap<String, Listing> =
        walk.listings().map(|listing| (listing.listing_id.to_string(), listing.clone())).collect();
    for (id, listing) in &now {
        let text = format!("{id} {} {}", players(listing), listing.details.name);
        match shown.get(id) {
            None => output.event("added", fields(listing), &text),
            Some(earlier) if earlier != listing => output.event("changed", fields(listing), &text),
            Some(_) => {}
        }
    }
    for (id, listing) in shown.iter().filter(|(id, _)| !now.contains_key(*id)) {
        output.event("removed", json!({ "listing_id": id }), &format!("{id} {}", listing.details.name));
    }
    *shown = now;
}

fn fields(listing: &Listing) -> serde_json::Value {
    serde_json::to_value(listing).unwrap_or_default()
}

fn players(listing: &Listing) -> String {
    format!("{}/{}", listing.details.players, listing.details.max_players)
}

fn table(walk: &Walk, output: Output) {
    let now_ms = SystemClock::new().wall().0;
    let mut rows = vec![["ID", "NAME", "PLAYERS", "REGION", "AGE"].map(str::to_owned)];
    for listing in walk.listings() {
        let region = listing.details.region.as_deref().map_or_else(|| "-".to_owned(), printable);
        let id = listing.listing_id.to_string();
        rows.push([id, printable(&listing.details.name), players(listing), region, age(&listing.created_at, now_ms)]);
    }
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for (position, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        output.line(&if position == 0 { output.bold(line.trim_end()) } else { line.trim_end().to_owned() });
    }
    match rows.len() - 1 {
        0 => output.line("no games; list one with `rendezvous host`"),
        _ => output.line("join one with `rendezvous join ID`"),
    }
}

/// From creation to now; informational, for two wall clocks are compared.
fn age(created_at: &str, now_ms: u64) -> String {
    let Ok(created) = created_at.parse::<jiff::Timestamp>() else { return "?".into() };
    let created_ms = u64::try_from(created.as_millisecond()).unwrap_or(0);
    let seconds = now_ms.saturating_sub(created_ms) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_well() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond() as u64;
        let now = at("2026-03-01T12:00:00.000Z");
        for (created, expected) in [
            ("2026-03-01T11:59:18.500Z", "41s"),
            ("2026-03-01T11:58:59.000Z", "1m"),
            ("2026-03-01T09:00:00.000Z", "3h"),
            ("2026-02-27T09:00:00.000Z", "2d"),
            ("2026-03-01T12:00:05.000Z", "0s"),
            ("yesterday", "?"),
        ] {
            assert_eq!(age(created, now), expected, "{created}");
        }
    }
}
