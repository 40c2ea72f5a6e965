//! From the wire's shapes to the domain's values. Every refusal points at its field.

use crate::domain::details::DetailsInput;
use crate::domain::endpoint::CandidateError;
use crate::domain::time::TtlBounds;
use crate::domain::{AttributeValue, Candidates, Details, Family, Scope, TenantId, Ttl, Visibility};
use crate::service::{Credential, TurnGrant};
use crate::wire::FieldError;
use crate::wire::request::{AttributeBody, DetailsBody, VisibilityName};
use crate::wire::response::{CredentialAnswer, TurnAnswer};
use std::net::SocketAddr;
use std::sync::Arc;

/// Most bytes of an attempt's payload.
const PAYLOAD_BYTES_MAX: usize = 1_024;

pub(super) fn scope(tenant: TenantId, protocol: &str) -> Result<Scope, FieldError> {
    Scope::new(tenant, protocol).ok_or_else(|| FieldError::new("/protocol", "must be 1 to 64 of a-z 0-9 . _ - /"))
}

pub(super) fn ttl(ms: u64, bounds: TtlBounds) -> Result<Ttl, FieldError> {
    let expected = || format!("must be from {} to {}", bounds.min_ms, bounds.max_ms);
    Ttl::checked(ms, bounds).ok_or_else(|| FieldError::new("/ttl_ms", expected()))
}

pub(super) fn visibility(name: VisibilityName) -> Visibility {
    match name {
        VisibilityName::Public => Visibility::Public,
        VisibilityName::Unlisted => Visibility::Unlisted,
    }
}

pub(super) fn details(body: DetailsBody) -> Result<Details, FieldError> {
    let attributes = body.attributes.into_iter().map(|(name, value)| {
        let value = match value {
            AttributeBody::Text(text) => AttributeValue::Text(text),
            AttributeBody::Integer(integer) => AttributeValue::Integer(integer),
            AttributeBody::Boolean(boolean) => AttributeValue::Boolean(boolean),
        };
        (name, value)
    });
    let input = DetailsInput {
        name: body.name,
        map: body.map,
        mode: body.mode,
        region: body.region,
        players: body.players,
        max_players: body.max_players,
        password_required: body.password_required,
        tags: body.tags,
        attributes: attributes.collect(),
    };
    Details::new(input).map_err(|error| FieldError::new(format!("/details{}", error.pointer), error.detail))
}

pub(super) fn candidates(texts: &[String]) -> Result<Candidates, FieldError> {
    let at = |position: usize, detail: &str| FieldError::new(format!("/candidates/{position}"), detail);
    let mut addresses = Vec::with_capacity(texts.len());
    for (position, text) in texts.iter().enumerate() {
        addresses.push(text.parse::<SocketAddr>().map_err(|_| at(position, "must be ip:port"))?);
    }
    Candidates::new(addresses).map_err(|error| match error {
        CandidateError::TooMany => FieldError::new("/candidates", "must have at most 4 items"),
        CandidateError::NotPrivate(position) => at(position, "must be a private or unique-local address"),
        CandidateError::Port(position) => at(position, "must have a port of 1024 or above"),
    })
}

pub(super) fn payload(text: Option<String>) -> Result<Option<Arc<str>>, FieldError> {
    match text {
        Some(text) if text.len() > PAYLOAD_BYTES_MAX => {
            Err(FieldError::new("/payload", format!("must be at most {PAYLOAD_BYTES_MAX} bytes of UTF-8")))
        }
        text => Ok(text.map(Arc::from)),
    }
}

pub(super) fn credential(credential: Credential) -> CredentialAnswer {
    CredentialAnswer { username: credential.username, password: credential.password }
}

pub(super) fn turn(grants: Vec<TurnGrant>) -> Vec<TurnAnswer> {
    let one = |grant: TurnGrant| TurnAnswer {
        uris: grant.uris.to_vec(),
        username: grant.username,
        credential: grant.credential,
        ttl_ms: grant.ttl_ms,
    };
    grants.into_iter().map(one).collect()
}

pub(super) fn family(family: Family) -> String {
    family.name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> DetailsBody {
        DetailsBody { name: "x".into(), max_players: 2, ..DetailsBody::default() }
    }

    #[test]
    fn refusals_point_at_their_field() {
        let pointer = |body: DetailsBody| details(body).unwrap_err().pointer;
        assert_eq!(pointer(DetailsBody { name: "\u{200b}".into(), ..body() }), "/details/name");
        assert_eq!(pointer(DetailsBody { players: 3, ..body() }), "/details/players");
        assert_eq!(pointer(DetailsBody { tags: vec!["a".into(), "\t".into()], ..body() }), "/details/tags/1");
        let attribute = |value| DetailsBody { attributes: [("k/".to_owned(), value)].into(), ..body() };
        assert_eq!(pointer(attribute(AttributeBody::Integer(1 << 53))), "/details/attributes/k~1");
        assert!(details(attribute(AttributeBody::Integer(-(1 << 53) + 1))).is_ok());
        assert_eq!(scope(TenantId(0), "Arena").unwrap_err().pointer, "/protocol");
        assert_eq!(payload(Some("x".repeat(1_025))).unwrap_err().pointer, "/payload");
        assert!(payload(Some("x".repeat(1_024))).is_ok());
        let bounds = TtlBounds { min_ms: 10, max_ms: 20, default_ms: 15 };
        assert_eq!(ttl(21, bounds).unwrap_err(), FieldError::new("/ttl_ms", "must be from 10 to 20"));
    }

    #[test]
    fn rule_h4_candidates_are_refused_one_by_one() {
        let pointer = |list: &[&str]| {
            candidates(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap_err().pointer
        };
        assert_eq!(pointer(&["10.0.0.1:5000", "203.0.113.1:5000"]), "/candidates/1");
        assert_eq!(pointer(&["10.0.0.1"]), "/candidates/0");
        assert_eq!(pointer(&["10.0.0.1:80"]), "/candidates/0");
        assert_eq!(pointer(&["10.0.0.1:5000"; 5]), "/candidates");
    }
}
