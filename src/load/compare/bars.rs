//! The bars: which servers are asked what, and the least ratio of each.

use super::child::Server;
use super::error::{CompareError, system};
use super::http::{Fetch, Renewals, fetch_once, header};
use super::machine::{Cores, congestion_control};
use super::measure::{Contender, Load, Sample, rounds};
use super::peers::{self, Ours};
use super::prepare::{Page, Population, TENANT, populate};
use super::redis::Scripted;
use super::report::{Comparison, Row, RowResult};
use super::tcp::ClosedLoop;
use super::udp::UdpLoop;
use super::{Options, Timing};
use std::net::SocketAddr;
use std::path::Path;

/// A promise about the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bar {
    /// HTTP browse of 2, 16 and 64 KiB against nginx and against bare hyper.
    P5,
    /// HTTP 304 against nginx.
    P6,
    /// HTTP renewals against Redis.
    P7,
    /// UDP presence against a loop that only receives and sends.
    P8,
}

/// P5 against nginx, by page.
const BROWSE_NGINX: [f64; 3] = [1.2, 1.0, 0.8];
/// P5 against bare hyper, every page.
const BROWSE_HYPER: f64 = 0.95;
/// P6.
const UNCHANGED_NGINX: f64 = 1.15;
/// P7.
const RENEWALS_REDIS: f64 = 2.0;
/// P8 against a loop that only receives and sends.
const PRESENCE_LOOP: f64 = 0.6;
/// P8: heartbeat cycles a second of dpmaster on one core, without authentication, as measured apart from this.
const DPMASTER_PER_SECOND: f64 = 125_000.0;

/// What other processes may take of the servers' core before the figures are in doubt.
const OTHERS_MAX: f64 = 0.1;

const NO_NGINX: &str = "nginx is not installed";
const NO_REDIS: &str = "redis-server is not installed";

/// Everything that rows share.
struct Bench<'a> {
    options: &'a Options,
    timing: &'a Timing<'a>,
    cores: Cores,
    folder: &'a Path,
    ours: Ours,
    population: Population,
}

pub(super) fn measure(
    options: &Options,
    timing: &Timing<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Comparison, CompareError> {
    let folder =
        tempfile::Builder::new().prefix("rendezvous-compare").tempdir().map_err(system("a temporary folder"))?;
    let cores = timing.cores;
    progress("starting the server and registering listings");
    let ours = peers::ours(cores, folder.path())?;
    let population = populate(ours.http, ours.udp, options.listings, folder.path())?;
    let bench = Bench { options, timing, cores, folder: folder.path(), ours, population };
    let mut rows = Vec::new();
    if options.bars.contains(&Bar::P5) || options.bars.contains(&Bar::P6) {
        rows.extend(bench.pages(progress)?);
    }
    if options.bars.contains(&Bar::P7) {
        progress("P7: renewals");
        rows.push(bench.renewals()?);
    }
    if options.bars.contains(&Bar::P8) {
        progress("P8: presence over UDP");
        rows.extend(bench.presence()?);
    }
    let notes = notes(options, cores, Comparison::others(&rows));
    Ok(Comparison { rows, notes })
}

impl Bench<'_> {
    fn connect(&self, server: &Server, address: SocketAddr) -> Result<ClosedLoop, CompareError> {
        ClosedLoop::connect(server.name(), address, self.options.connections)
    }

    /// A GET, again and again.
    fn fetch<'a>(
        &self,
        server: &'a Server,
        address: SocketAddr,
        path: &str,
        etag: Option<&str>,
    ) -> Result<Contender<'a>, CompareError> {
        let fetch = Fetch::new(address, path, etag);
        Ok(Contender { server, load: Load::Tcp(self.connect(server, address)?, Box::new(fetch)) })
    }

    /// P5 and P6.
    fn pages(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, CompareError> {
        let nginx = peers::nginx(self.cores, self.folder)?;
        let hyper = peers::bare_hyper(self.cores, self.folder)?;
        let mut rows = Vec::new();
        if self.options.bars.contains(&Bar::P5) {
            for (page, bar) in self.population.pages.iter().zip(BROWSE_NGINX) {
                progress(&format!("P5: browsing, a page of {} bytes", page.body.len()));
                rows.extend(self.page(page, bar, nginx.as_ref(), &hyper)?);
            }
        }
        if self.options.bars.contains(&Bar::P6) {
            progress("P6: browsing what has not changed");
            rows.push(self.unchanged(nginx.as_ref())?);
        }
        Ok(rows)
    }

    fn page(
        &self,
        page: &Page,
        bar: f64,
        nginx: Option<&(Server, SocketAddr)>,
        (hyper, hyper_address): &(Server, SocketAddr),
    ) -> Result<[Row; 2], CompareError> {
        page.refresh(self.ours.udp)?;
        let mut contenders = vec![
            self.fetch(&self.ours.server, self.ours.http, &page.path, None)?,
            self.fetch(hyper, *hyper_address, &page.file, None)?,
        ];
        if let Some((nginx, address)) = nginx {
            contenders.push(self.fetch(nginx, *address, &page.file, None)?);
        }
        let mut samples = rounds(&mut contenders, self.timing)?.into_iter();
        page.is_unchanged(self.ours.http)?;
        let (ours, by_hyper) = (samples.next().unwrap_or_default(), samples.next().unwrap_or_default());
        let row =
            |peer, bar, result| Row { id: "P5", what: format!("browse, {} B", page.body.len()), peer, bar, result };
        Ok([
            row("nginx", bar, against(ours.clone(), samples.next(), NO_NGINX)),
            row("bare hyper", BROWSE_HYPER, against(ours, Some(by_hyper), "")),
        ])
    }

    fn unchanged(&self, nginx: Option<&(Server, SocketAddr)>) -> Result<Row, CompareError> {
        let page = &self.population.pages[0];
        page.refresh(self.ours.udp)?;
        let mut contenders = vec![self.fetch(&self.ours.server, self.ours.http, &page.path, Some(&page.etag))?];
        if let Some((nginx, address)) = nginx {
            let (head, _) = fetch_once(nginx.name(), *address, &page.file)?;
            let etag = header(&head, "etag").unwrap_or_default();
            contenders.push(self.fetch(nginx, *address, &page.file, Some(etag))?);
        }
        let mut samples = rounds(&mut contenders, self.timing)?.into_iter();
        page.is_unchanged(self.ours.http)?;
        let result = against(samples.next().unwrap_or_default(), samples.next(), NO_NGINX);
        Ok(Row { id: "P6", what: "browse, 304".to_owned(), peer: "nginx", bar: UNCHANGED_NGINX, result })
    }

    fn renewals(&self) -> Result<Row, CompareError> {
        let (options, population) = (self.options, &self.population);
        let exchange =
            Renewals::new(self.ours.http, TENANT, &population.token, &population.listings, options.connections);
        let connections = self.connect(&self.ours.server, self.ours.http)?;
        let mut contenders =
            vec![Contender { server: &self.ours.server, load: Load::Tcp(connections, Box::new(exchange)) }];
        let redis = peers::redis(self.cores, self.folder)?;
        if let Some((redis, address)) = &redis {
            let exchange = Scripted::prepare(*address, options.listings, options.connections)?;
            let connections = self.connect(redis, *address)?;
            contenders.push(Contender { server: redis, load: Load::Tcp(connections, Box::new(exchange)) });
        }
        let mut samples = rounds(&mut contenders, self.timing)?.into_iter();
        let result = against(samples.next().unwrap_or_default(), samples.next(), NO_REDIS);
        Ok(Row { id: "P7", what: "renewal".to_owned(), peer: "redis, script", bar: RENEWALS_REDIS, result })
    }

    fn presence(&self) -> Result<[Row; 2], CompareError> {
        let ours = &self.ours.server;
        let (sources, lengths) = UdpLoop::presence(ours.name(), self.ours.udp, &self.population.listings)?;
        let (bare, address) = peers::bare_udp(self.cores, self.folder, lengths.answer)?;
        let constant = UdpLoop::constant(bare.name(), address, lengths.request)?;
        let mut contenders = [
            Contender { server: ours, load: Load::Udp(sources) },
            Contender { server: &bare, load: Load::Udp(constant) },
        ];
        let mut samples = rounds(&mut contenders, self.timing)?.into_iter();
        let (ours, by_loop) = (samples.next().unwrap_or_default(), samples.next());
        let what = format!("presence, {} B in, {} B out", lengths.request, lengths.answer);
        let stated = RowResult::Stated { ours: ours.clone(), peer_per_second: DPMASTER_PER_SECOND };
        Ok([
            Row { id: "P8", what, peer: "bare UDP", bar: PRESENCE_LOOP, result: against(ours, by_loop, "") },
            Row { id: "P8", what: "presence, raw rate".to_owned(), peer: "dpmaster", bar: 1.0, result: stated },
        ])
    }
}

fn against(ours: Vec<Sample>, peer: Option<Vec<Sample>>, missing: &str) -> RowResult {
    match peer {
        Some(peer) => RowResult::Measured { ours, peer },
        None => RowResult::NotRun(missing.to_owned()),
    }
}

fn notes(options: &Options, cores: Cores, others: f64) -> Vec<String> {
    let pinned = match cores {
        Cores::Apart { server, generator } => format!("servers on core {server}, generator on core {generator}"),
        Cores::Shared => "servers and generator on one core, so the figures say little".to_owned(),
    };
    let doubt = if others > OTHERS_MAX { ": the machine was busy, do not trust these figures" } else { "" };
    vec![
        format!("other processes took {:.0} % of the servers' core{doubt}.", others * 100.0),
        "ratio: median of the pairs' ratios of answers per second of server CPU time (user and system); raw: answers a \
         second; busy: server CPU over wall time, ours and the peer's."
            .to_owned(),
        format!(
            "{} pairs of {} ms after {} ms, interleaved; {} connections, {} listings; {pinned}; congestion control {}.",
            options.pairs,
            options.length.as_millis(),
            options.warm_up.as_millis(),
            options.connections,
            options.listings,
            congestion_control(),
        ),
        "dpmaster: 125,000 heartbeat cycles a second of one core, without authentication; a stated figure, not run here.".to_owned(),
    ]
}
