//! HTTP without HTTP: what a request's body says goes through the wire's own reader, then to the service, in a future that
//! may be slow, be answered to nobody, or be dropped at any point.

use rendezvous::clock::SharedClock;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::*;
use rendezvous::service::*;
use rendezvous::wire::FromJson;
use rendezvous::wire::request::{AttemptBody, DetailsBody, RegisterBody, RenewBody, VisibilityName};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// What is asked, as far as a request says it.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Register { key: String, body: String },
    Renew { listing: ListingId, token: String, version: u64, body: String },
    Delete { listing: ListingId, token: String },
    Lease { listing: ListingId, token: String },
    Offers { listing: ListingId, token: String, after: u64, wait_ms: u64 },
    Admit { attempt: AttemptId, token: String, admit: bool },
    Attempt { listing: ListingId, key: String, body: String },
    Watch { attempt: AttemptId, after: Option<u64>, wait_ms: u64 },
    Close { attempt: AttemptId },
    Report { attempt: AttemptId, path: Path },
    Revoke { tenant: TenantId, subject: NamedSubject, ttl_ms: u64, key: String },
    Lift { tenant: TenantId, subject: NamedSubject },
    Drain { window_ms: u32 },
    Status,
}

/// What comes back.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    Listing(Applied<ListingGrant>),
    Renewed(Applied<Renewed>),
    Lease(Applied<LeaseView>),
    Offers(HostOffers),
    Attempt(Applied<AttemptGrant>),
    Watched(AttemptStatus),
    Reported(Applied<Option<Family>>),
    Revoked(Applied<Revoked>),
    Draining(Applied<(MonoTime, WallTime)>),
    Counts(Applied<Status>),
    /// Deleted, admitted, refused, closed or lifted.
    Done(Applied<()>),
}

impl Granted {
    /// The commit that the answer stands for, where it has one.
    pub(crate) fn commit(&self) -> Option<u64> {
        match self {
            Self::Listing(it) => Some(it.commit),
            Self::Renewed(it) => Some(it.commit),
            Self::Lease(it) => Some(it.commit),
            Self::Attempt(it) => Some(it.commit),
            Self::Reported(it) => Some(it.commit),
            Self::Revoked(it) => Some(it.commit),
            Self::Draining(it) => Some(it.commit),
            Self::Counts(it) => Some(it.commit),
            Self::Done(it) => Some(it.commit),
            Self::Offers(_) | Self::Watched(_) => None,
        }
    }

    /// Whether it only says how things are.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Lease(_) | Self::Offers(_) | Self::Watched(_) | Self::Counts(_))
    }
}

pub(crate) type Answer = Result<Granted, Failure>;

/// The body of a registration.
pub(crate) fn register_body(
    protocol: &str,
    name: &str,
    ttl_ms: u64,
    public: bool,
    gate: bool,
    candidate: Option<String>,
) -> String {
    let body = RegisterBody {
        protocol: protocol.to_owned(),
        visibility: Some(if public { VisibilityName::Public } else { VisibilityName::Unlisted }),
        ttl_ms: Some(ttl_ms),
        details: DetailsBody { name: name.to_owned(), max_players: 8, ..DetailsBody::default() },
        candidates: candidate.into_iter().collect(),
        gate,
        session_id: None,
    };
    serde_json::to_string(&body).expect("a body")
}

/// The body of a renewal.
pub(crate) fn renew_body(ttl_ms: Option<u64>, name: Option<String>, public: Option<bool>) -> String {
    let details = name.map(|name| DetailsBody { name, max_players: 8, ..DetailsBody::default() });
    let visibility = public.map(|public| if public { VisibilityName::Public } else { VisibilityName::Unlisted });
    serde_json::to_string(&RenewBody { ttl_ms, details, visibility }).expect("a body")
}

/// The body of a try to join.
pub(crate) fn attempt_body(protocol: Option<String>, candidate: Option<String>) -> String {
    let body = AttemptBody { protocol, candidates: candidate.into_iter().collect(), payload: Some("hello".to_owned()) };
    serde_json::to_string(&body).expect("a body")
}

fn parsed<T: FromJson>(body: &str) -> T {
    T::from_body(&mut body.as_bytes().to_vec()).expect("our own bodies are well-formed")
}

fn details(body: DetailsBody) -> Details {
    let DetailsBody { name, players, max_players, .. } = body;
    Details::new(DetailsInput { name, players, max_players, ..DetailsInput::default() }).expect("details of ours")
}

fn visibility(name: VisibilityName) -> Visibility {
    match name {
        VisibilityName::Public => Visibility::Public,
        VisibilityName::Unlisted => Visibility::Unlisted,
    }
}

fn candidates(texts: &[String]) -> Candidates {
    Candidates::new(texts.iter().map(|text| text.parse().expect("an address"))).expect("private ones")
}

fn ttl(ms: u64, bounds: time::TtlBounds) -> Ttl {
    Ttl::checked(ms, bounds).expect("within the bounds")
}

/// Serves one request as the HTTP edge's handler does.
pub(crate) async fn serve(service: Arc<Service>, caller: Caller, request: Request) -> Answer {
    let bounds = service.limits().lease_ttl;
    Ok(match request {
        Request::Register { key, body } => {
            let body: RegisterBody = parsed(&body);
            let request = RegisterRequest {
                scope: Scope::new(caller.principal.tenant, &body.protocol).expect("a protocol of ours"),
                visibility: body.visibility.map_or(Visibility::Public, visibility),
                details: details(body.details),
                ttl: body.ttl_ms.map_or(bounds.default_ttl(), |ms| ttl(ms, bounds)),
                gate: body.gate,
                session: None,
                candidates: candidates(&body.candidates),
            };
            Granted::Listing(service.register(&caller, &key, request).await?)
        }
        Request::Renew { listing, token, version, body } => {
            let body: RenewBody = parsed(&body);
            let request = RenewRequest {
                version,
                ttl: body.ttl_ms.map(|ms| ttl(ms, bounds)),
                details: body.details.map(details),
                visibility: body.visibility.map(visibility),
            };
            Granted::Renewed(service.renew(&caller, listing, &token, request).await?)
        }
        Request::Delete { listing, token } => Granted::Done(service.delete(&caller, listing, &token).await?),
        Request::Lease { listing, token } => Granted::Lease(service.lease(&caller, listing, &token).await?),
        Request::Offers { listing, token, after, wait_ms } => {
            Granted::Offers(service.host_offers(&caller, listing, &token, after, wait_ms).await?)
        }
        Request::Admit { attempt, token, admit } => {
            Granted::Done(service.answer_gate(&caller, attempt, &token, admit).await?)
        }
        Request::Attempt { listing, key, body } => {
            let body: AttemptBody = parsed(&body);
            let request = AttemptRequest {
                listing,
                protocol: body.protocol.map(Arc::from),
                candidates: candidates(&body.candidates),
                payload: body.payload.map(Arc::from),
            };
            Granted::Attempt(service.create_attempt(&caller, &key, request).await?)
        }
        Request::Watch { attempt, after, wait_ms } => {
            Granted::Watched(service.attempt(&caller, attempt, after, wait_ms).await?)
        }
        Request::Close { attempt } => Granted::Done(service.close_attempt(&caller, attempt).await?),
        Request::Report { attempt, path } => Granted::Reported(service.report_path(&caller, attempt, path).await?),
        Request::Revoke { tenant, subject, ttl_ms, key } => {
            let ttl = ttl(ttl_ms, service.limits().revocation_ttl);
            Granted::Revoked(service.revoke(tenant, &subject, ttl, &key).await?)
        }
        Request::Lift { tenant, subject } => Granted::Done(service.lift_revocation(tenant, &subject).await?),
        Request::Drain { window_ms } => Granted::Draining(service.drain(Some(window_ms)).await?),
        Request::Status => Granted::Counts(service.status().await?),
    })
}

/// Says whether a future was woken; one that nobody wakes is never looked at again, as in any executor.
#[derive(Default)]
pub(crate) struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future with its waker.
pub(crate) struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    woken: Arc<Woken>,
    is_new: bool,
}

impl<T> Task<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), woken: Arc::default(), is_new: true }
    }

    /// Goes on, where it is new or was woken.
    pub(crate) fn go_on(&mut self) -> Option<T> {
        if !std::mem::take(&mut self.is_new) && !self.woken.0.swap(false, Ordering::SeqCst) {
            return None;
        }
        match self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self.woken)))) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether somebody has woken it since it was last looked at.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}

/// What becomes of a request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It never arrives.
    RequestLost,
    /// It is done, and nobody hears of it.
    AnswerLost,
}

/// One request under way.
pub(crate) struct Call {
    pub(crate) who: usize,
    /// Of the actor's lives, which one asked.
    pub(crate) life: u32,
    pub(crate) request: Request,
    pub(crate) task: Task<Answer>,
    pub(crate) fate: Fate,
    pub(crate) starts: MonoTime,
    pub(crate) gives_up: MonoTime,
}

/// The clock of the simulation as stores and edges take it.
pub(crate) fn shared(clock: &crate::support::ManualClock) -> SharedClock {
    Arc::new(clock.clone())
}
