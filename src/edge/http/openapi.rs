//! The OpenAPI 3.1 document, made from the table of routes and the schemas of the wire shapes.

use super::routes::{CallerKind, Endpoint, Header, Outcome, ROUTES, Route, Verb};
use crate::domain::filter::CHARACTERS_MAX;
use crate::wire::{commands, request, response};
use bytes::Bytes;
use std::sync::LazyLock;
use utoipa::ToSchema;
use utoipa::openapi::header::{Header as HeaderObject, HeaderBuilder};
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathsBuilder,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, Required, Response,
    ResponseBuilder,
};

/// The document as it is served and as it is committed at `docs/openapi.json`.
pub fn openapi_json() -> String {
    // The document has string keys only, which JSON can always express.
    let mut json = document().to_pretty_json().unwrap_or_default();
    json.push('\n');
    json
}

/// The same, rendered once in the life of the process.
pub(super) fn openapi_bytes() -> Bytes {
    static RENDERED: LazyLock<Bytes> = LazyLock::new(|| openapi_json().into());
    RENDERED.clone()
}

fn document() -> OpenApi {
    let info = InfoBuilder::new()
        .title("rendezvous")
        .version("1")
        .description(Some(
            "Session directory and NAT rendezvous. Hosts register listings, players browse and try to join, and both are \
             introduced over UDP (docs/udp-protocol.md). Problems are application/problem+json; read `status` and `code`.",
        ))
        .build();
    let mut paths = PathsBuilder::new();
    for route in ROUTES {
        paths = paths.path(named_path(route), PathItem::new(http_method(route.verb), operation(route)));
    }
    OpenApiBuilder::new().info(info).paths(paths.build()).components(Some(components().build())).build()
}

/// The router calls every id `{id}`; readers want to know which.
fn named_path(route: &Route) -> String {
    route.path.replace("{id}", &format!("{{{}}}", id_name(route)))
}

fn id_name(route: &Route) -> &'static str {
    let names = [("/attempts/{id}", "attempt_id"), ("/sessions/{id}", "session_id"), ("/hosts/{id}", "host")];
    names.iter().find(|(part, _)| route.path.contains(part)).map_or("listing_id", |(_, name)| name)
}

fn http_method(verb: Verb) -> HttpMethod {
    match verb {
        Verb::Get => HttpMethod::Get,
        Verb::Post => HttpMethod::Post,
        Verb::Put => HttpMethod::Put,
        Verb::Delete => HttpMethod::Delete,
    }
}

fn operation(route: &Route) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(route.id))
        .summary(Some(route.summary))
        .request_body(route.body.map(|(schema, required)| request_body(schema, required)));
    for parameter in parameters(route) {
        operation = operation.parameter(parameter);
    }
    for outcome in route.outcomes {
        operation = operation.response(outcome.status.to_string(), success(route, outcome));
    }
    operation = operation.response("default", problem());
    match security(route.caller) {
        Some(requirements) => operation.securities(Some(requirements)).build(),
        None => operation.build(),
    }
}

fn security(caller: CallerKind) -> Option<Vec<SecurityRequirement>> {
    let bearer = |name: &str| SecurityRequirement::new(name, Vec::<String>::new());
    match caller {
        CallerKind::Anyone => None,
        CallerKind::Guest | CallerKind::Browser => Some(vec![SecurityRequirement::default(), bearer("principal")]),
        CallerKind::Principal | CallerKind::Commander => Some(vec![bearer("principal")]),
        CallerKind::Host => Some(vec![bearer("host")]),
        CallerKind::Operator => Some(vec![bearer("operator")]),
    }
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// Up to what every JSON reader can hold exactly.
fn integer(minimum: u32) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(minimum)).maximum(Some((1_u64 << 53) - 1))
}

fn tenant() -> ObjectBuilder {
    text().pattern(Some("^[a-z0-9._-]{1,64}$"))
}

fn parameters(route: &Route) -> Vec<Parameter> {
    let parameter = |name: &str, place: ParameterIn, required: bool, schema: ObjectBuilder, meaning: &str| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(if required { Required::True } else { Required::False })
            .schema(Some(Schema::Object(schema.build())))
            .description(Some(meaning))
            .build()
    };
    let mut all = Vec::new();
    if route.path.contains("{tenant}") {
        all.push(parameter("tenant", ParameterIn::Path, true, tenant(), "The tenant's name."));
    }
    if route.path.contains("{id}") {
        let (id, meaning) = match id_name(route) {
            "host" => (text().pattern(Some("^[0-9A-Za-z._~-]{1,64}$")), "The host's id, as it chose it."),
            _ => (text().pattern(Some("^[0-9a-f]{32}$")), "32 lower-case hex digits."),
        };
        all.push(parameter(id_name(route), ParameterIn::Path, true, id, meaning));
    }
    if route.path.contains("{command}") {
        let meaning = "The command's number in its session.";
        all.push(parameter("command", ParameterIn::Path, true, integer(1), meaning));
    }
    if route.path.contains("{sha256}") {
        let digest = text().pattern(Some("^[0-9a-f]{64}$"));
        all.push(parameter("sha256", ParameterIn::Path, true, digest, "The content's SHA-256, in lower-case hex."));
    }
    for name in route.query {
        let (required, schema, meaning) = query_parameter(name);
        all.push(parameter(name, ParameterIn::Query, required, schema, meaning));
    }
    for header in route.headers {
        let (name, required, schema, meaning) = header_parameter(*header);
        all.push(parameter(name, ParameterIn::Header, required, schema, meaning));
    }
    all
}

fn query_parameter(name: &str) -> (bool, ObjectBuilder, &'static str) {
    match name {
        "protocol" => (true, text().pattern(Some("^[a-z0-9._/-]{1,64}$")), "Only listings of this protocol."),
        "limit" => (false, integer(1), "Most rows, 50 when left out; more than 100 is 100."),
        "cursor" => (false, text().min_length(Some(1)), "`next_cursor` of the page before, of the same query."),
        "filter" => {
            let filter = text().min_length(Some(1)).max_length(Some(CHARACTERS_MAX));
            let meaning = "Only listings whose details match, such as `players < max_players and tags has \"modded\"`; \
                at most 32 terms.";
            (false, filter, meaning)
        }
        "min_commit" => (false, integer(0), "Waits up to 2 s until browsing is at least this new."),
        "after" => (false, integer(0), "`commit` of the answer before."),
        "wait_ms" => (false, integer(0), "How long to wait for news; more than 30000 is 30000."),
        "host" => (true, text(), "The host that holds the session's lease."),
        "epoch" => (true, integer(1), "Its lease's number."),
        "tenant" => (true, tenant(), "The tenant's name."),
        "listing_id" => (false, text().pattern(Some("^[0-9a-f]{32}$")), "The revoked listing; or give `principal`."),
        _ => (false, text(), "The revoked principal's full name; or give `listing_id`."),
    }
}

fn header_parameter(header: Header) -> (&'static str, bool, ObjectBuilder, &'static str) {
    match header {
        Header::IdempotencyKey => {
            let key = text().pattern(Some(r#"^(?:[!#-~][!-~]{0,127}|"(?:[!#-\[\]-~]|\\["\\]){1,128}")$"#));
            ("Idempotency-Key", true, key, "1 to 128 visible ASCII characters, bare or as a quoted string.")
        }
        Header::CreateKey => {
            ("Idempotency-Key", false, text(), "That of a create which is prepared and waits for this payload.")
        }
        Header::LeaseToken => {
            let token = text().pattern(Some("^[!-~]{1,128}$"));
            ("Lease-Token", true, token, "`lease_token` of the registration.")
        }
        Header::IfMatch => ("If-Match", true, version(), "The version last seen."),
        Header::IfMatchRevision => ("If-Match", false, version(), "The revision last seen, to lose a race."),
        Header::IfNoneMatch => ("If-None-Match", false, text(), "ETags of pages that the caller has."),
        Header::Prefer => ("Prefer", false, text(), "`wait=N` in seconds, in place of `wait_ms`."),
    }
}

fn content_type(schema: &str) -> &'static str {
    if schema == "Bytes" { "application/octet-stream" } else { "application/json" }
}

fn request_body(schema: &str, required: bool) -> RequestBody {
    RequestBodyBuilder::new()
        .content(content_type(schema), Content::new(Some(Ref::from_schema_name(schema))))
        .required(Some(if required { Required::True } else { Required::False }))
        .build()
}

fn header(meaning: &str) -> HeaderObject {
    HeaderBuilder::new().schema(Some(Schema::Object(text().build()))).description(Some(meaning)).build()
}

fn success(route: &Route, outcome: &Outcome) -> Response {
    let mut response = ResponseBuilder::new()
        .description(outcome.meaning)
        .header("Rendezvous-Instance", header("This life of the process."));
    if route.mutation || route.caller == CallerKind::Browser {
        response = response.header("Rendezvous-Commit", header("The commit that the answer saw or made."));
    }
    if route.endpoint == Endpoint::Browse {
        response = response.header("ETag", header("A weak tag over the rows and the cursor, for If-None-Match."));
    }
    if route.endpoint == Endpoint::Renew {
        response = response.header("ETag", header("The new version, for the next If-Match."));
    }
    if outcome.schema == Some("CommandAnswer") && outcome.status == 200 {
        response = response.header("ETag", header("The command's revision."));
    }
    if matches!(route.endpoint, Endpoint::CreateSession | Endpoint::SendCommand) {
        response = response
            .header("Location", header("The command, to be followed."))
            .header("Idempotent-Replayed", header("`true`: admitted before, by this very request."));
    }
    if outcome.status == 200 && matches!(route.endpoint, Endpoint::Register | Endpoint::CreateAttempt) {
        response = response.header("Idempotent-Replayed", header("`true`: the first answer, again."));
    }
    if let Some(schema) = outcome.schema {
        response = response.content(content_type(schema), Content::new(Some(Ref::from_schema_name(schema))));
    }
    response.build()
}

fn problem() -> Response {
    ResponseBuilder::new()
        .description("A problem.")
        .header("Rendezvous-Instance", header("This life of the process."))
        .header("Retry-After", header("Seconds; with 429 and 503."))
        .header("ETag", header("With 412, the version in force."))
        .content("application/problem+json", Content::new(Some(Ref::from_schema_name("ProblemAnswer"))))
        .build()
}

type Schemas = Vec<(String, RefOr<Schema>)>;

fn add<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

fn components() -> ComponentsBuilder {
    let mut schemas: Schemas = vec![("Nothing".to_owned(), nothing()), ("Bytes".to_owned(), any_bytes())];
    for add in [
        add::<request::RegisterBody>,
        add::<request::RenewBody>,
        add::<request::AttemptBody>,
        add::<request::AdmissionBody>,
        add::<request::OutcomeBody>,
        add::<request::RevocationBody>,
        add::<request::DrainBody>,
        add::<response::GuestAnswer>,
        add::<response::ListingAnswer>,
        add::<response::PageAnswer>,
        add::<response::RenewAnswer>,
        add::<response::AttemptAnswer>,
        add::<response::OffersAnswer>,
        add::<response::AttemptStateAnswer>,
        add::<response::LeaseAnswer>,
        add::<response::RevocationAnswer>,
        add::<response::DrainAnswer>,
        add::<response::StatusAnswer>,
        add::<response::HealthAnswer>,
        add::<response::ProblemAnswer>,
        add::<commands::CreateSessionBody>,
        add::<commands::SendCommandBody>,
        add::<commands::GateResponseBody>,
        add::<commands::HostBody>,
        add::<commands::LeaseBody>,
        add::<commands::ClaimBody>,
        add::<commands::BeginBody>,
        add::<commands::CompleteBody>,
        add::<commands::CreatedAnswer>,
        add::<commands::CommandAnswer>,
        add::<commands::SessionAnswer>,
        add::<commands::StoredPayloadAnswer>,
        add::<commands::GateAnswer>,
        add::<commands::HostAnswer>,
        add::<commands::WorkAnswer>,
        add::<commands::LeaseGrantAnswer>,
        add::<commands::AdmissionAnswer>,
    ] {
        add(&mut schemas);
    }
    let bearer = |meaning: &str| {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(meaning)).build();
        SecurityScheme::Http(scheme)
    };
    ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme("principal", bearer("A JWT of the tenant, or a guest token."))
        .security_scheme("host", bearer("The key of a host credential."))
        .security_scheme("operator", bearer("An operator's key."))
}

/// A version or a revision as an entity tag.
fn version() -> ObjectBuilder {
    text().pattern(Some("^\"[1-9][0-9]{0,14}\"$"))
}

fn any_bytes() -> RefOr<Schema> {
    RefOr::T(Schema::Object(text().description(Some("Any bytes.")).build()))
}

/// The body of routes that take none: nothing at all, or an object without members.
fn nothing() -> RefOr<Schema> {
    let object = ObjectBuilder::new().schema_type(Type::Object).description(Some("No members."));
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(false)));
    RefOr::T(Schema::Object(object.build()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn parsed() -> Value {
        serde_json::from_str(&openapi_json()).unwrap()
    }

    #[test]
    fn the_committed_document_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        if std::env::var_os("RENDEZVOUS_WRITE_OPENAPI").is_some() {
            std::fs::write(path, openapi_json()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(committed, openapi_json(), "run this test once with RENDEZVOUS_WRITE_OPENAPI=1 and commit the file");
    }

    #[test]
    fn every_routed_path_is_documented_and_every_documented_one_is_routed() {
        let document = parsed();
        let documented: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let router = super::super::routes::Router::new();
        for (path, method) in &documented {
            let concrete = path.replace(['{', '}'], "");
            let method = hyper::Method::from_bytes(method.as_bytes()).unwrap();
            let found = router.find(&method, &concrete).expect(path);
            assert_eq!(&named_path(found.route), path);
        }
        assert_eq!(documented.len(), ROUTES.len());
    }

    #[test]
    fn the_headers_that_a_client_acts_on_are_documented() {
        let document = parsed();
        let has = |path: &str, method: &str, status: &str, header: &str| {
            !document["paths"][path][method]["responses"][status]["headers"][header].is_null()
        };
        let listings = "/v1/tenants/{tenant}/listings";
        let one = "/v1/tenants/{tenant}/listings/{listing_id}";
        assert!(has(listings, "get", "200", "ETag") && has(listings, "get", "304", "ETag"));
        assert!(has(&format!("{one}/renew"), "post", "200", "ETag") && !has(one, "get", "200", "ETag"));
        assert!(
            has(listings, "post", "200", "Idempotent-Replayed") && !has(listings, "post", "201", "Idempotent-Replayed")
        );
        for header in ["Retry-After", "Rendezvous-Instance"] {
            assert!(has("/livez", "get", "default", header), "{header}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                    Some(target) if name == "$ref" => {
                        found.insert(target.to_owned());
                    }
                    _ => references(value, found),
                }),
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = parsed();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for target in found {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
        }
        assert_eq!(document["openapi"], "3.1.0");
    }
}
