//! The edge's metrics. Labels are route templates, method classes and statuses: their number does not depend on clients
//! (case O1).

use super::edge::method_class;
use super::routes::ROUTES;
use crate::domain::{Family as AddressFamily, Path};
use hyper::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::OnceLock;
use std::time::Duration;

/// Upper bounds of the buckets of durations, in seconds: a page is built in microseconds, a long poll waits 30 s.
const DURATION_BUCKETS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 2.5, 30.5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    path: &'static str,
    family: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

/// Counts what goes in and out.
pub(super) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    /// Counters of every route by method and status, found once, so that the hot path takes no lock of the family.
    request_of: Vec<OnceLock<Counter>>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// The histograms of all routes and of unmatched requests, so that the hot path takes no lock of the family.
    duration_of: Vec<Histogram>,
    in_flight: Gauge,
    rate_limited: Family<RouteLabels, Counter>,
    connections: Gauge,
    long_polls: Gauge,
    refused: Family<RefusalLabels, Counter>,
    reports: Family<PathLabels, Counter>,
}

/// Adds one to a gauge until it is dropped.
pub(super) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The values of `method_class`.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "other"];
/// Statuses of answers that are frequent, or could be in a flood; the others are counted by a look into the family.
const STATUSES: [u16; 16] = [200, 201, 202, 204, 304, 400, 401, 403, 404, 409, 410, 412, 422, 429, 500, 503];

/// Where a counter stands among the resolved ones.
fn position(index: Option<usize>, labels: &RequestLabels) -> Option<usize> {
    let method = METHODS.iter().position(|method| *method == labels.method)?;
    let status = STATUSES.iter().position(|status| *status == labels.status)?;
    Some((index.unwrap_or(ROUTES.len()) * METHODS.len() + method) * STATUSES.len() + status)
}

fn route_label(index: Option<usize>) -> &'static str {
    index.and_then(|index| ROUTES.get(index)).map_or("unmatched", |route| route.path)
}

impl HttpMetrics {
    pub(super) fn new() -> Self {
        let durations = Family::new_with_constructor((|| Histogram::new(DURATION_BUCKETS)) as fn() -> Histogram);
        let labels = (0..ROUTES.len()).map(Some).chain([None]).map(|index| RouteLabels { route: route_label(index) });
        Self {
            requests: Family::default(),
            request_of: (0..(ROUTES.len() + 1) * METHODS.len() * STATUSES.len()).map(|_| OnceLock::new()).collect(),
            duration_of: labels.map(|labels| durations.get_or_create_owned(&labels)).collect(),
            durations,
            in_flight: Gauge::default(),
            rate_limited: Family::default(),
            connections: Gauge::default(),
            long_polls: Gauge::default(),
            refused: Family::default(),
            reports: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rendezvous_http_requests",
            "HTTP requests answered, by route template, method and status",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "rendezvous_http_request_duration",
            "From a request's last header to its answer, waiting of long polls included",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register("rendezvous_http_requests_in_flight", "HTTP requests in progress", self.in_flight.clone());
        registry.register(
            "rendezvous_http_rate_limited",
            "HTTP requests refused by a token bucket",
            self.rate_limited.clone(),
        );
        registry.register("rendezvous_http_connections", "Open HTTP connections", self.connections.clone());
        registry.register("rendezvous_http_long_polls", "HTTP requests that may wait", self.long_polls.clone());
        registry.register(
            "rendezvous_http_connections_refused",
            "Connections that found no place, or gave up theirs to another",
            self.refused.clone(),
        );
        registry.register(
            "rendezvous_path_reports",
            "Paths that joiners and hosts reported, by the family of their introduction",
            self.reports.clone(),
        );
    }

    pub(super) fn in_flight(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_flight)
    }

    pub(super) fn connection(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    pub(super) fn long_poll(&self) -> GaugeGuard {
        GaugeGuard::new(&self.long_polls)
    }

    /// A connection found no place (`ceiling`), or had to go (`evicted`).
    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }

    /// One side said over which path the peers spoke.
    pub(super) fn reported(&self, path: Path, family: Option<AddressFamily>) {
        let path = match path {
            Path::Direct => "direct",
            Path::Relayed => "relayed",
            Path::Failed => "failed",
        };
        self.reports.get_or_create(&PathLabels { path, family: family.map_or("none", AddressFamily::name) }).inc();
    }

    pub(super) fn rate_limited(&self, index: usize) {
        self.rate_limited.get_or_create(&RouteLabels { route: route_label(Some(index)) }).inc();
    }

    pub(super) fn answered(&self, index: Option<usize>, method: &Method, status: StatusCode, elapsed: Duration) {
        let labels = RequestLabels { route: route_label(index), method: method_class(method), status: status.as_u16() };
        match position(index, &labels).and_then(|position| self.request_of.get(position)) {
            Some(counter) => counter.get_or_init(|| self.requests.get_or_create_owned(&labels)).inc(),
            None => self.requests.get_or_create(&labels).inc(),
        };
        if let Some(histogram) = self.duration_of.get(index.unwrap_or(ROUTES.len())) {
            histogram.observe(elapsed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_o1_series_do_not_grow_with_what_clients_send() {
        let metrics = HttpMetrics::new();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let count = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with('#')).count()
        };
        metrics.answered(None, &Method::from_bytes(b"WEIRD0").unwrap(), StatusCode::NOT_FOUND, Duration::ZERO);
        let before = count();
        for n in 1..1_000 {
            let method = Method::from_bytes(format!("WEIRD{n}").as_bytes()).unwrap();
            metrics.answered(None, &method, StatusCode::NOT_FOUND, Duration::ZERO);
        }
        assert_eq!(count(), before);
    }

    #[test]
    fn gauges_go_back() {
        let metrics = HttpMetrics::new();
        let guards = (metrics.in_flight(), metrics.connection(), metrics.long_poll());
        assert_eq!((metrics.in_flight.get(), metrics.connections.get(), metrics.long_polls.get()), (1, 1, 1));
        drop(guards);
        assert_eq!((metrics.in_flight.get(), metrics.connections.get(), metrics.long_polls.get()), (0, 0, 0));
    }
}
