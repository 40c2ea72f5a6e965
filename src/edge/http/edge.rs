//! From a request to a response: route, handle, and dress the answer with what every answer carries.

use super::answer::{Answer, COMMIT, INSTANCE};
use super::auth::{Authenticator, Now};
use super::call::{Call, Link};
use super::commands::Commands;
use super::compress::Compressor;
use super::cors::CorsPolicy;
use super::express::Heads;
use super::forwarded::{Cidr, client_address};
use super::framing::{Flaw, HEADERS_MAX};
use super::handlers;
use super::headers::{FORWARDED_FOR, REQUEST_ID, TRACEPARENT, request_id, traceparent};
use super::limiter::Limiter;
use super::metrics::HttpMetrics;
use super::page::Page;
use super::problem::Problem;
use super::raw::RawAnswers;
use super::routes::{NoRoute, Routed, Router};
use super::settings::{HttpLimits, HttpSettings, MetricsText};
use super::tls::Tls;
use super::tracked::{OpenRequest, Tracked};
use crate::clock::Clock;
use crate::domain::MonoTime;
use crate::service::Service;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tracing::{Instrument, Span, field};

/// Everything that requests share.
pub(super) struct Edge {
    pub(super) service: Arc<Service>,
    pub(super) auth: Authenticator,
    pub(super) limiter: Option<Limiter>,
    pub(super) limits: HttpLimits,
    pub(super) metrics: HttpMetrics,
    pub(super) metrics_text: Option<MetricsText>,
    pub(super) openapi: Bytes,
    pub(super) compressor: Compressor,
    pub(super) page: Page,
    trusted_proxies: Vec<Cidr>,
    pub(super) proxy_protocol: bool,
    pub(super) tls: Option<Tls>,
    pub(super) plain_keys: bool,
    pub(super) raw_answers: Arc<RawAnswers>,
    pub(super) heads: Heads,
    pub(super) commands: Option<Commands>,
    router: Router,
    cors: CorsPolicy,
    instance: HeaderValue,
}

impl Edge {
    /// Fails only where TLS can't be set up.
    pub(super) fn new(mut settings: HttpSettings, service: Arc<Service>) -> io::Result<Self> {
        let instance = service.instance();
        // 32 hex digits are a legal header value.
        let header = HeaderValue::from_str(&instance.to_string()).unwrap_or(HeaderValue::from_static(""));
        let cors = CorsPolicy::new(settings.cors.clone());
        let auth = Authenticator::from_settings(&mut settings, instance);
        Ok(Self {
            commands: settings.commands.map(Commands::new),
            raw_answers: Arc::new(RawAnswers::new(&header)),
            heads: Heads::new(&header, cors.varies()),
            limiter: settings.rates.map(|rates| Limiter::new(rates, auth.hosts())),
            auth,
            limits: settings.limits,
            metrics: HttpMetrics::new(),
            metrics_text: settings.metrics,
            compressor: Compressor::new(),
            page: Page::new(),
            openapi: super::openapi::openapi_bytes(),
            trusted_proxies: settings.trusted_proxies,
            proxy_protocol: settings.proxy_protocol,
            tls: settings.tls.map(Tls::new).transpose()?,
            plain_keys: settings.plain_keys,
            router: Router::new(),
            cors,
            instance: header,
            service,
        })
    }

    /// Whether HTTP is the first thing on a connection.
    pub(super) fn is_direct(&self) -> bool {
        self.tls.is_none() && !self.proxy_protocol
    }

    /// Whether the address is a trusted proxy's.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|range| range.contains(address))
    }

    pub(super) fn now(&self) -> Now {
        let at = self.service.clock().at();
        Now { mono: at.mono, wall: at.wall }
    }

    pub(super) fn mono(&self) -> MonoTime {
        self.service.clock().mono()
    }

    /// Answers one request. Dropping the future cancels what it has queued (rule K1).
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        link: &Link,
        open: OpenRequest,
    ) -> Response<Tracked> {
        let began = self.mono();
        let number = open.number();
        let (parts, body) = request.into_parts();
        let routed = self.router.find(&parts.method, parts.uri.path());
        let index = routed.as_ref().ok().map(|routed| routed.index);
        let span = self.span(&parts, routed.as_ref().ok());
        let in_flight = self.metrics.in_flight();
        let handled = self.answer(&parts, body, routed, link, number).instrument(span.clone());
        let answer = caught(handled).await.unwrap_or_else(|| {
            tracing::error!(parent: &span, "a handler panicked");
            Problem::internal().into_answer()
        });
        drop(in_flight);
        let answer = self.dress(answer, &parts, index, link);
        let elapsed = Duration::from_nanos(self.mono().0.saturating_sub(began.0));
        self.metrics.answered(index, &parts.method, answer.status(), elapsed);
        span.record("status", answer.status().as_u16());
        let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(parent: &span, elapsed_us, "answered");
        answer.into_response(|body| Tracked::new(body, open))
    }

    /// One span a request, with a fixed set of fields; never a raw path, a token or a body.
    fn span(&self, parts: &Parts, routed: Option<&Routed<'_>>) -> Span {
        let span = tracing::debug_span!(
            "http_request",
            method = method_class(&parts.method),
            route = routed.map_or("unmatched", |routed| routed.route.path),
            status = field::Empty,
            request_id = field::Empty,
            traceparent = field::Empty,
        );
        if !span.is_disabled() {
            let safe = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok().map(str::to_owned));
            safe(request_id(&parts.headers)).inspect(|id| {
                span.record("request_id", id.as_str());
            });
            safe(traceparent(&parts.headers)).inspect(|id| {
                span.record("traceparent", id.as_str());
            });
        }
        span
    }

    async fn answer(
        &self,
        parts: &Parts,
        body: Incoming,
        routed: Result<Routed<'_>, NoRoute>,
        link: &Link,
        number: u64,
    ) -> Answer {
        match link.connection.flaw_of(number) {
            Some(Flaw::Ambiguous) => return Problem::ambiguous_framing().into_answer(),
            Some(Flaw::HeadersTooLarge) => return Problem::headers_too_large().into_answer(),
            None => {}
        }
        if parts.version == Version::HTTP_2 && parts.headers.len() > HEADERS_MAX {
            return Problem::headers_too_large().into_answer();
        }
        if !names_its_host(parts) {
            return Problem::invalid_header(&HOST, "must be given exactly once").and_close().into_answer();
        }
        let routed = match routed {
            Ok(routed) => routed,
            // The server as a whole (RFC 9112 section 3.2.4).
            Err(NoRoute::Path) if parts.method == Method::OPTIONS && parts.uri.path() == "*" => {
                return options(ALL_METHODS);
            }
            Err(NoRoute::Path) => return Problem::route_not_found().into_answer(),
            Err(NoRoute::Method(allow)) if parts.method == Method::OPTIONS => return self.options_of(parts, &allow),
            Err(NoRoute::Method(allow)) => return Problem::method_not_allowed(&allow).into_answer(),
        };
        let client = self.client(&parts.headers, link.peer);
        let mut call = Call { parts, routed, link, number, client, now: self.now(), body: Some(body) };
        match handlers::handle(self, &mut call).await {
            Ok(answer) => answer,
            Err(problem) => problem.into_answer(),
        }
    }

    /// A preflight that is not granted is an ordinary OPTIONS: its answer lets no page of another origin do anything.
    fn options_of(&self, parts: &Parts, allow: &str) -> Answer {
        let readable = self.router.is_readable(parts.uri.path());
        let preflight = if readable { self.cors.preflight(&parts.headers) } else { None };
        preflight.map_or_else(|| options(allow), |granted| granted.header(ALLOW, allow_value(allow)))
    }

    fn client(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let lines = headers.get_all(FORWARDED_FOR).iter();
        // A line that is not text ends the chain, like any hop that is not an address.
        client_address(peer, lines.map(|line| line.to_str().unwrap_or_default()), &self.trusted_proxies)
    }

    /// The answer with what each of the route at `index` says of the instance and of its commits.
    pub(super) fn with_instance(&self, answer: Answer, index: Option<usize>) -> Answer {
        let answer = answer.header(INSTANCE, self.instance.clone());
        let mutation = index.and_then(|index| super::routes::ROUTES.get(index)).is_some_and(|route| route.mutation);
        if mutation && !answer.headers().contains_key(COMMIT) {
            return answer.commit(self.service.last_commit());
        }
        answer
    }

    fn dress(&self, mut answer: Answer, parts: &Parts, index: Option<usize>, link: &Link) -> Answer {
        answer = self.with_instance(answer, index);
        if let Some(id) = request_id(&parts.headers) {
            answer = answer.header(REQUEST_ID, id.clone());
        }
        if let Some(parent) = traceparent(&parts.headers) {
            answer = answer.header(TRACEPARENT, parent.clone());
        }
        if matches!(parts.method, Method::GET | Method::HEAD) {
            answer = self.cors.dress(answer, &parts.headers);
        }
        if parts.version != Version::HTTP_2 && link.connection.is_ending() && !answer.headers().contains_key(CONNECTION)
        {
            answer = answer.close();
        }
        answer
    }
}

/// What the paths of this server take between them.
const ALL_METHODS: &str = "GET, HEAD, POST, PUT, DELETE, OPTIONS";

/// What a path takes (RFC 9110 section 9.3.7).
fn options(allow: &str) -> Answer {
    Answer::empty(StatusCode::NO_CONTENT).header(ALLOW, allow_value(allow))
}

fn allow_value(allow: &str) -> HeaderValue {
    // Names of methods are legal in a header.
    HeaderValue::from_str(allow).unwrap_or(HeaderValue::from_static(ALL_METHODS))
}

/// RFC 9112 section 3.2: one `Host`, which only HTTP/1.0 may leave out. With two of them a proxy in front and this server
/// may mean different ones. In HTTP/2 `:authority` takes its place, and a `Host` beside it says the same (RFC 9113 section
/// 8.3.1).
fn names_its_host(parts: &Parts) -> bool {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let first = hosts.next();
    if hosts.next().is_some() {
        return false;
    }
    match (parts.version, parts.uri.authority(), first) {
        (Version::HTTP_2, Some(authority), Some(host)) => {
            host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
        }
        (Version::HTTP_2, authority, first) => authority.is_some() || first.is_some(),
        (version, _, first) => first.is_some() || version == Version::HTTP_10,
    }
}

/// The method as a bounded label.
pub(super) fn method_class(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Runs a handler; `None` when it panicked. The connection is closed then, and no state outlives the handler but what
/// the service guards itself.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_handler_is_contained() {
        assert_eq!(caught(async { 7 }).await, Some(7));
        let panics = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "expected in this test");
            7
        };
        assert_eq!(caught(panics).await, None);
    }
}
