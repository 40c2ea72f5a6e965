//! The table of routes: the router and the OpenAPI document are both made from it, so neither knows a path that the
//! other does not.

mod commands;

use super::limiter::{HostBudget, PrincipalBudget, SourceBudget};
use hyper::Method;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Endpoint {
    CreateGuest,
    Register,
    Browse,
    ReadListing,
    Renew,
    DeleteListing,
    CreateAttempt,
    HostOffers,
    ReadAttempt,
    CloseAttempt,
    AnswerGate,
    ReportPath,
    ReadLease,
    Revoke,
    LiftRevocation,
    Drain,
    Status,
    Live,
    Ready,
    Metrics,
    OpenApi,
    CreateSession,
    ReadSession,
    SendCommand,
    ReadCommand,
    PutPayload,
    GetPayload,
    SessionGate,
    PutHost,
    HostWork,
    SessionLease,
    ClaimCommand,
    BeginCommand,
    CompleteCommand,
    SettleCommand,
    Admission,
    Page,
}

/// The methods that routes know. HEAD is served wherever GET is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    pub(super) fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::POST => Some(Self::Post),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }

    /// As listed in `Allow`.
    fn allowed(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerKind {
    /// Anyone, token or not.
    Anyone,
    /// Who wants to become a guest, or is one.
    Guest,
    /// Anyone, or principals only: the tenant decides.
    Browser,
    /// A principal of the tenant in the path.
    Principal,
    /// A principal of the tenant in the path who may create sessions and command them.
    Commander,
    /// A host of the command plane.
    Host,
    /// An operator.
    Operator,
}

/// A header that a route reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    IdempotencyKey,
    /// The key of a create that is prepared only.
    CreateKey,
    LeaseToken,
    IfMatch,
    /// May be left out.
    IfMatchRevision,
    IfNoneMatch,
    Prefer,
}

/// One answer of a route besides problems.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) status: u16,
    /// Name of the schema of its JSON, if it has a body.
    pub(super) schema: Option<&'static str>,
    pub(super) meaning: &'static str,
}

/// One route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) endpoint: Endpoint,
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    /// Unique among all routes.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) caller: CallerKind,
    /// Whether it can change something: its answers carry a commit whatever they say.
    pub(super) mutation: bool,
    pub(super) source_budget: Option<SourceBudget>,
    pub(super) principal_budget: Option<PrincipalBudget>,
    /// Of the host credential, where hosts only may call.
    pub(super) host_budget: Option<HostBudget>,
    /// Known query parameters; all others are refused.
    pub(super) query: &'static [&'static str],
    pub(super) headers: &'static [Header],
    /// Name of the schema of the body, and whether it must be there.
    pub(super) body: Option<(&'static str, bool)>,
    /// Most bytes of the body; the edge's own bound when absent.
    pub(super) body_bytes: Option<usize>,
    pub(super) outcomes: &'static [Outcome],
}

const fn outcome(status: u16, schema: &'static str, meaning: &'static str) -> Outcome {
    Outcome { status, schema: Some(schema), meaning }
}

const fn no_content(meaning: &'static str) -> Outcome {
    Outcome { status: 204, schema: None, meaning }
}

/// A route that only reads; the starting point of all rows.
const fn read(endpoint: Endpoint, path: &'static str, id: &'static str, summary: &'static str) -> Route {
    Route {
        endpoint,
        verb: Verb::Get,
        path,
        id,
        summary,
        caller: CallerKind::Anyone,
        mutation: false,
        source_budget: None,
        principal_budget: None,
        host_budget: None,
        query: &[],
        headers: &[],
        body: None,
        body_bytes: None,
        outcomes: &[],
    }
}

/// A route that changes something.
const fn change(endpoint: Endpoint, path: &'static str, id: &'static str, summary: &'static str) -> Route {
    Route { verb: Verb::Post, mutation: true, ..read(endpoint, path, id, summary) }
}

const GUESTS: &str = "/v1/tenants/{tenant}/guests";
const LISTINGS: &str = "/v1/tenants/{tenant}/listings";
const LISTING: &str = "/v1/tenants/{tenant}/listings/{id}";
const RENEW: &str = "/v1/tenants/{tenant}/listings/{id}/renew";
const LISTING_ATTEMPTS: &str = "/v1/tenants/{tenant}/listings/{id}/attempts";
const LEASE: &str = "/v1/tenants/{tenant}/listings/{id}/lease";
const ATTEMPT: &str = "/v1/tenants/{tenant}/attempts/{id}";
const ADMISSION: &str = "/v1/tenants/{tenant}/attempts/{id}/admission";
const OUTCOME: &str = "/v1/tenants/{tenant}/attempts/{id}/outcome";
const REVOCATIONS: &str = "/v1/operator/revocations";

/// All routes: the directory's, then the command plane's.
pub(super) static ROUTES: [&Route; DIRECTORY.len() + commands::ROUTES.len()] = {
    let mut all = [&DIRECTORY[0]; DIRECTORY.len() + commands::ROUTES.len()];
    let mut place = 0_usize;
    while place < all.len() {
        let after = place.checked_sub(DIRECTORY.len());
        all[place] = match after {
            Some(after) => &commands::ROUTES[after],
            None => &DIRECTORY[place],
        };
        place += 1;
    }
    all
};

static DIRECTORY: &[Route] = &[
    Route {
        caller: CallerKind::Guest,
        source_budget: Some(SourceBudget::Guests),
        body: Some(("Nothing", false)),
        outcomes: &[
            outcome(201, "GuestAnswer", "A new guest."),
            outcome(200, "GuestAnswer", "The guest of the token that was sent, with a new token."),
        ],
        ..change(Endpoint::CreateGuest, GUESTS, "create_guest", "Become a guest, or renew a guest's token")
    },
    Route {
        caller: CallerKind::Principal,
        source_budget: Some(SourceBudget::Creations),
        principal_budget: Some(PrincipalBudget::Creations),
        headers: &[Header::IdempotencyKey],
        body: Some(("RegisterBody", true)),
        outcomes: &[
            outcome(201, "ListingAnswer", "Registered."),
            outcome(200, "ListingAnswer", "Registered before, by an exact duplicate of this request."),
        ],
        ..change(Endpoint::Register, LISTINGS, "register_listing", "Register a listing")
    },
    Route {
        caller: CallerKind::Browser,
        source_budget: Some(SourceBudget::Browsing),
        query: &["protocol", "limit", "cursor", "filter", "min_commit"],
        headers: &[Header::IfNoneMatch],
        outcomes: &[
            outcome(200, "PageAnswer", "A page in listing-id order; short pages may have a cursor."),
            Outcome { status: 304, schema: None, meaning: "The page is what If-None-Match names." },
        ],
        ..read(Endpoint::Browse, LISTINGS, "browse_listings", "Browse visible public listings")
    },
    Route {
        caller: CallerKind::Browser,
        source_budget: Some(SourceBudget::Browsing),
        outcomes: &[outcome(200, "ListingRow", "A fresh listing, public or unlisted.")],
        ..read(Endpoint::ReadListing, LISTING, "read_listing", "Read one listing by its id")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::KeepAlives),
        headers: &[Header::IfMatch, Header::LeaseToken],
        body: Some(("RenewBody", false)),
        outcomes: &[outcome(200, "RenewAnswer", "Renewed; the new version is also in ETag.")],
        ..change(Endpoint::Renew, RENEW, "renew_listing", "Renew a lease by compare-and-swap")
    },
    Route {
        verb: Verb::Delete,
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::KeepAlives),
        headers: &[Header::LeaseToken],
        body: Some(("Nothing", false)),
        outcomes: &[no_content("Deleted, now or before.")],
        ..change(Endpoint::DeleteListing, LISTING, "delete_listing", "Delete a listing")
    },
    Route {
        caller: CallerKind::Principal,
        source_budget: Some(SourceBudget::Creations),
        principal_budget: Some(PrincipalBudget::Creations),
        headers: &[Header::IdempotencyKey],
        body: Some(("AttemptBody", false)),
        outcomes: &[
            outcome(201, "AttemptAnswer", "Created."),
            outcome(200, "AttemptAnswer", "Created before, by an exact duplicate of this request."),
        ],
        ..change(Endpoint::CreateAttempt, LISTING_ATTEMPTS, "create_attempt", "Try to join a listing")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::Reads),
        query: &["after", "wait_ms"],
        headers: &[Header::LeaseToken, Header::Prefer],
        outcomes: &[outcome(200, "OffersAnswer", "Pending attempts newer than `after`, maybe none.")],
        ..read(Endpoint::HostOffers, LISTING_ATTEMPTS, "host_offers", "Wait for join attempts, as the host")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::Reads),
        query: &["after", "wait_ms"],
        headers: &[Header::Prefer],
        outcomes: &[outcome(200, "AttemptStateAnswer", "The caller's view of the attempt.")],
        ..read(Endpoint::ReadAttempt, ATTEMPT, "read_attempt", "Follow an attempt, as its joiner or its host")
    },
    Route {
        verb: Verb::Delete,
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::KeepAlives),
        body: Some(("Nothing", false)),
        outcomes: &[no_content("Closed by its joiner, or refused by its host.")],
        ..change(Endpoint::CloseAttempt, ATTEMPT, "close_attempt", "End an attempt early")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::KeepAlives),
        headers: &[Header::LeaseToken],
        body: Some(("AdmissionBody", true)),
        outcomes: &[no_content("The gate is open, or the attempt refused.")],
        ..change(Endpoint::AnswerGate, ADMISSION, "answer_gate", "Answer a gated attempt, as the host")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::KeepAlives),
        body: Some(("OutcomeBody", true)),
        outcomes: &[no_content("Counted; once for each side.")],
        ..change(Endpoint::ReportPath, OUTCOME, "report_outcome", "Report over which path the peers spoke")
    },
    Route {
        caller: CallerKind::Principal,
        principal_budget: Some(PrincipalBudget::Reads),
        headers: &[Header::LeaseToken],
        outcomes: &[outcome(200, "LeaseAnswer", "The lease and what the server sees of its host.")],
        ..read(Endpoint::ReadLease, LEASE, "read_lease", "Read one's own lease")
    },
    Route {
        caller: CallerKind::Operator,
        headers: &[Header::IdempotencyKey],
        body: Some(("RevocationBody", true)),
        outcomes: &[outcome(200, "RevocationAnswer", "Revoked; what it removed, and until when it stands.")],
        ..change(Endpoint::Revoke, REVOCATIONS, "revoke", "Revoke a listing or a principal")
    },
    Route {
        verb: Verb::Delete,
        caller: CallerKind::Operator,
        query: &["tenant", "listing_id", "principal"],
        body: Some(("Nothing", false)),
        outcomes: &[no_content("Lifted.")],
        ..change(Endpoint::LiftRevocation, REVOCATIONS, "lift_revocation", "Lift a revocation")
    },
    Route {
        caller: CallerKind::Operator,
        body: Some(("DrainBody", false)),
        outcomes: &[outcome(202, "DrainAnswer", "Draining, since now or before.")],
        ..change(Endpoint::Drain, "/v1/operator/drain", "drain", "Begin drain")
    },
    Route {
        caller: CallerKind::Operator,
        outcomes: &[outcome(200, "StatusAnswer", "Counts against ceilings, queues, availability.")],
        ..read(Endpoint::Status, "/v1/operator/status", "status", "Look at the instance")
    },
    Route { outcomes: LIVE, ..read(Endpoint::Live, "/livez", "livez", "Whether the process should go on") },
    Route { outcomes: LIVE, ..read(Endpoint::Live, "/health/live", "health_live", "The same as /livez") },
    Route { outcomes: READY, ..read(Endpoint::Ready, "/readyz", "readyz", "Whether to send work here") },
    Route { outcomes: READY, ..read(Endpoint::Ready, "/health/ready", "health_ready", "The same as /readyz") },
    Route {
        outcomes: &[Outcome { status: 200, schema: None, meaning: "Prometheus text; 404 unless on this listener." }],
        ..read(Endpoint::Metrics, "/metrics", "metrics", "Metrics, where configured")
    },
    Route {
        outcomes: &[Outcome { status: 200, schema: None, meaning: "This document." }],
        ..read(Endpoint::OpenApi, "/openapi.json", "openapi", "This document")
    },
    Route {
        outcomes: &[Outcome { status: 200, schema: None, meaning: "HTML: a server browser and the server's state." }],
        ..read(Endpoint::Page, "/", "page", "The web page")
    },
];

/// Where the route of a browse stands in [`ROUTES`].
pub(super) const BROWSE_INDEX: usize = 2;
/// The route of a browse.
pub(super) static BROWSE: &Route = &DIRECTORY[BROWSE_INDEX];
/// Where the route of a renewal stands in [`ROUTES`].
pub(super) const RENEW_INDEX: usize = 4;

const LIVE: &[Outcome] =
    &[outcome(200, "HealthAnswer", "Alive, draining or not."), outcome(503, "HealthAnswer", "Lost for ever.")];
const READY: &[Outcome] = &[outcome(200, "HealthAnswer", "Ready."), outcome(503, "HealthAnswer", "Draining or lost.")];

/// A request's route and what its path names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routed<'p> {
    pub(super) route: &'static Route,
    /// Its position in [`ROUTES`].
    pub(super) index: usize,
    pub(super) tenant: Option<&'p str>,
    pub(super) id: Option<&'p str>,
    /// The command or the payload inside of the session.
    pub(super) part: Option<&'p str>,
}

/// Why a request has no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// No such path.
    Path,
    /// The path knows other methods, as listed in `Allow`.
    Method(String),
}

/// Finds routes by path, then by method.
pub(super) struct Router {
    paths: matchit::Router<Vec<usize>>,
}

impl Router {
    /// A router over all of [`ROUTES`].
    pub(super) fn new() -> Self {
        let mut paths = matchit::Router::new();
        for route in ROUTES {
            let same_path = ROUTES.iter().enumerate().filter(|(_, other)| other.path == route.path);
            // A path with several methods is met several times; the first insertion has them all.
            let _ = paths.insert(route.path, same_path.map(|(index, _)| index).collect::<Vec<_>>());
        }
        Self { paths }
    }

    pub(super) fn find<'p>(&self, method: &Method, path: &'p str) -> Result<Routed<'p>, NoRoute> {
        let found = self.paths.at(path).map_err(|_| NoRoute::Path)?;
        let routes = || found.value.iter().filter_map(|index| ROUTES.get(*index).map(|route| (*index, *route)));
        let verb = Verb::of(method);
        let Some((index, route)) = routes().find(|(_, route)| Some(route.verb) == verb) else {
            let allowed = routes().map(|(_, route)| route.verb.allowed()).chain(["OPTIONS"]);
            return Err(NoRoute::Method(allowed.collect::<Vec<_>>().join(", ")));
        };
        let parameter = |name| found.params.get(name);
        let part = parameter("command").or_else(|| parameter("sha256"));
        Ok(Routed { route, index, tenant: parameter("tenant"), id: parameter("id"), part })
    }

    /// Whether the path can be read by GET, for CORS preflights.
    pub(super) fn is_readable(&self, path: &str) -> bool {
        self.find(&Method::GET, path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_found_by_its_own_path_and_method() {
        let router = Router::new();
        for (index, route) in ROUTES.iter().enumerate() {
            let method = match route.verb {
                Verb::Get => Method::GET,
                Verb::Post => Method::POST,
                Verb::Put => Method::PUT,
                Verb::Delete => Method::DELETE,
            };
            let found = router.find(&method, route.path).unwrap();
            assert_eq!((found.index, found.route.id), (index, route.id));
            assert_eq!(found.tenant.is_some(), route.path.contains("{tenant}"));
            assert_eq!(found.id.is_some(), route.path.contains("{id}"));
            let is_inside = route.path.contains("{command}") || route.path.contains("{sha256}");
            assert_eq!(found.part.is_some(), is_inside);
        }
        assert_eq!(ROUTES[BROWSE_INDEX].endpoint, Endpoint::Browse);
        assert_eq!(ROUTES[RENEW_INDEX].endpoint, Endpoint::Renew);
        assert_eq!(BROWSE.endpoint, Endpoint::Browse);
        let ids: HashSet<_> = ROUTES.iter().map(|route| route.id).collect();
        assert_eq!(ids.len(), ROUTES.len());
    }

    #[test]
    fn unknown_paths_and_methods_are_told_apart() {
        let router = Router::new();
        let find = |method: Method, path| router.find(&method, path).map(|found| found.route.endpoint);
        assert_eq!(find(Method::HEAD, "/livez"), Ok(Endpoint::Live));
        assert_eq!(find(Method::GET, "/v1/tenants/a/listings/b"), Ok(Endpoint::ReadListing));
        assert_eq!(find(Method::PUT, LISTINGS), Err(NoRoute::Method("POST, GET, HEAD, OPTIONS".into())));
        for path in ["", "/livez/", "/v1", "/v1/tenants//listings", "/v1/tenants/a/listings/b/c", "/LIVEZ", "*"] {
            assert_eq!(find(Method::GET, path), Err(NoRoute::Path), "{path}");
        }
    }

    /// Whoever has to say who it is has a budget of its own, reads and polls included; an operator is trusted.
    #[test]
    fn every_caller_with_a_token_has_a_budget() {
        for route in ROUTES {
            let (principal, host) = (route.principal_budget.is_some(), route.host_budget.is_some());
            let expected = match route.caller {
                CallerKind::Principal | CallerKind::Commander => (true, false),
                CallerKind::Host => (false, true),
                CallerKind::Anyone | CallerKind::Guest | CallerKind::Browser | CallerKind::Operator => (false, false),
            };
            assert_eq!((principal, host), expected, "{}", route.id);
            let is_open = matches!(route.caller, CallerKind::Guest | CallerKind::Browser);
            assert!(!is_open || route.source_budget.is_some(), "{}", route.id);
            let is_read =
                matches!(route.principal_budget, Some(PrincipalBudget::Reads | PrincipalBudget::CommandReads));
            assert!(!principal || is_read == (route.verb == Verb::Get), "{}", route.id);
        }
    }

    #[test]
    fn rule_d4_keep_alives_have_no_budget_by_source() {
        for route in ROUTES.iter().filter(|route| route.principal_budget == Some(PrincipalBudget::KeepAlives)) {
            assert_eq!(route.source_budget, None, "{}", route.id);
        }
    }
}
