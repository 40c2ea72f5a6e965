//! Reading request bodies out of the seam: every field by hand, every refusal with its pointer.

use super::json::{Document, Field, FieldError, Members};
use super::request::{
    AdmissionBody, AttemptBody, AttributeBody, DetailsBody, DrainBody, OutcomeBody, PathName, RegisterBody, RenewBody,
    RevocationBody, VisibilityName,
};
use crate::domain::details::bounds;
use crate::domain::endpoint::CANDIDATES_MAX;
use std::collections::BTreeMap;

/// Versions, sequence numbers and lifetimes stay below 2^53.
pub(super) const EXACT_MAX: u64 = (1 << 53) - 1;

/// A body that can be read from a [`Document`].
pub trait FromJson: Sized {
    /// Reads the known members.
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError>;

    /// Parses `body` and reads it as a whole; unknown members are refused by name.
    fn from_body(body: &mut [u8]) -> Result<Self, FieldError> {
        Document::read(body, |document| {
            let mut members = document.members()?;
            let value = Self::read(&mut members)?;
            members.finish()?;
            Ok(value)
        })
    }
}

/// No members at all.
impl FromJson for () {
    fn read(_: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(())
    }
}

impl FromJson for RegisterBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            protocol: members.required("protocol")?.text()?.to_owned(),
            visibility: members.optional("visibility").map(visibility).transpose()?,
            ttl_ms: members.optional("ttl_ms").map(|field| field.unsigned(EXACT_MAX)).transpose()?,
            details: details(&members.required("details")?)?,
            candidates: candidates(members)?,
            gate: boolean_or_false(members, "gate")?,
            session_id: text(members, "session_id")?,
        })
    }
}

impl FromJson for RenewBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            ttl_ms: members.optional("ttl_ms").map(|field| field.unsigned(EXACT_MAX)).transpose()?,
            details: members.optional("details").map(|field| details(&field)).transpose()?,
            visibility: members.optional("visibility").map(visibility).transpose()?,
        })
    }
}

impl FromJson for AttemptBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            protocol: text(members, "protocol")?,
            candidates: candidates(members)?,
            payload: text(members, "payload")?,
        })
    }
}

impl FromJson for AdmissionBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self { admit: members.required("admit")?.boolean()? })
    }
}

impl FromJson for OutcomeBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        let field = members.required("path")?;
        let path = match field.text()? {
            "direct" => PathName::Direct,
            "relayed" => PathName::Relayed,
            "failed" => PathName::Failed,
            _ => return Err(field.refused("must be \"direct\", \"relayed\" or \"failed\"")),
        };
        Ok(Self { path })
    }
}

impl FromJson for RevocationBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            tenant: members.required("tenant")?.text()?.to_owned(),
            listing_id: text(members, "listing_id")?,
            principal: text(members, "principal")?,
            ttl_ms: members.required("ttl_ms")?.unsigned(EXACT_MAX)?,
        })
    }
}

impl FromJson for DrainBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        let window = members.optional("window_ms").map(|field| field.unsigned(EXACT_MAX)).transpose()?;
        // What is longer than a month is refused as too long like any other.
        Ok(Self { window_ms: window.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)) })
    }
}

pub(super) fn text(members: &mut Members<'_>, name: &str) -> Result<Option<String>, FieldError> {
    members.optional(name).map(|field| field.text().map(str::to_owned)).transpose()
}

pub(super) fn boolean_or_false(members: &mut Members<'_>, name: &str) -> Result<bool, FieldError> {
    members.optional(name).map_or(Ok(false), |field| field.boolean())
}

fn visibility(field: Field<'_>) -> Result<VisibilityName, FieldError> {
    match field.text()? {
        "public" => Ok(VisibilityName::Public),
        "unlisted" => Ok(VisibilityName::Unlisted),
        _ => Err(field.refused("must be \"public\" or \"unlisted\"")),
    }
}

fn texts(members: &mut Members<'_>, name: &str, max: usize) -> Result<Vec<String>, FieldError> {
    let Some(field) = members.optional(name) else { return Ok(Vec::new()) };
    field.items(max)?.iter().map(|item| item.text().map(str::to_owned)).collect()
}

fn candidates(members: &mut Members<'_>) -> Result<Vec<String>, FieldError> {
    texts(members, "candidates", CANDIDATES_MAX)
}

fn details(field: &Field<'_>) -> Result<DetailsBody, FieldError> {
    let mut members = field.object()?;
    let small = |field: Field<'_>| {
        let value = field.unsigned(u16::MAX.into())?;
        u16::try_from(value).map_err(|_| field.refused("must be an integer from 0 to 65535"))
    };
    let body = DetailsBody {
        name: members.required("name")?.text()?.to_owned(),
        map: text(&mut members, "map")?,
        mode: text(&mut members, "mode")?,
        region: text(&mut members, "region")?,
        players: members.optional("players").map_or(Ok(0), small)?,
        max_players: small(members.required("max_players")?)?,
        password_required: boolean_or_false(&mut members, "password_required")?,
        tags: texts(&mut members, "tags", bounds::TAGS)?,
        attributes: members.optional("attributes").map_or(Ok(BTreeMap::new()), attributes)?,
    };
    members.finish()?;
    Ok(body)
}

fn attributes(field: Field<'_>) -> Result<BTreeMap<String, AttributeBody>, FieldError> {
    let mut attributes = BTreeMap::new();
    for (name, value) in field.object()?.rest() {
        if attributes.len() == bounds::ATTRIBUTES {
            return Err(field.refused(format!("must have at most {} members", bounds::ATTRIBUTES)));
        }
        let value = value.scalar(
            |text| AttributeBody::Text(text.to_owned()),
            AttributeBody::Integer,
            AttributeBody::Boolean,
        )?;
        attributes.insert(name.to_owned(), value);
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"protocol": "arena/3", "visibility": "public", "ttl_ms": 60000, "details": {"name": "Friday night",
        "map": "dust", "mode": "ctf", "region": "eu-west", "players": 3, "max_players": 16, "password_required": false,
        "tags": ["modded"], "attributes": {"skill": 1200, "voice": true, "note": "x"}}, "candidates": ["10.0.0.1:5000"], "gate": true}"#;

    fn parse<T: FromJson>(text: &str) -> Result<T, FieldError> {
        T::from_body(&mut text.as_bytes().to_vec())
    }

    #[test]
    fn case_i7_order_escapes_and_spelled_out_defaults_read_the_same() {
        let short: RegisterBody = parse(r#"{"protocol":"a","details":{"name":"A","max_players":2}}"#).unwrap();
        let long: RegisterBody = parse(
            r#" { "gate" : false, "details":{"password_required":false,"max_players":2,"tags":[],"players":0,
                "attributes":{},"name":"\u0041"}, "candidates":[], "protocol":"a" } "#,
        )
        .unwrap();
        assert_eq!(short, long);
        let number: RegisterBody =
            parse(r#"{"protocol":"a","details":{"name":"A","max_players":2,"attributes":{"k":1}}}"#).unwrap();
        let text: RegisterBody =
            parse(r#"{"protocol":"a","details":{"name":"A","max_players":2,"attributes":{"k":"1"}}}"#).unwrap();
        assert_ne!(number, text);
    }

    #[test]
    fn what_a_client_serialises_reads_back() {
        let body: RegisterBody = parse(FULL).unwrap();
        assert_eq!(parse::<RegisterBody>(&serde_json::to_string(&body).unwrap()).unwrap(), body);
        let renew = RenewBody { ttl_ms: None, details: Some(body.details), visibility: Some(VisibilityName::Unlisted) };
        assert_eq!(parse::<RenewBody>(&serde_json::to_string(&renew).unwrap()).unwrap(), renew);
        let attempt = AttemptBody { payload: Some("p".into()), ..AttemptBody::default() };
        assert_eq!(parse::<AttemptBody>(&serde_json::to_string(&attempt).unwrap()).unwrap(), attempt);
        for path in [PathName::Direct, PathName::Relayed, PathName::Failed] {
            let body = OutcomeBody { path };
            assert_eq!(parse::<OutcomeBody>(&serde_json::to_string(&body).unwrap()).unwrap(), body);
        }
    }

    #[test]
    fn every_field_refuses_null_and_unknown_neighbours_by_name() {
        let full: serde_json::Value = serde_json::from_str(FULL).unwrap();
        for pointer in [
            "/protocol",
            "/visibility",
            "/ttl_ms",
            "/details",
            "/candidates",
            "/gate",
            "/details/name",
            "/details/map",
            "/details/mode",
            "/details/region",
            "/details/players",
            "/details/max_players",
            "/details/password_required",
            "/details/tags",
            "/details/attributes",
            "/details/tags/0",
            "/details/attributes/skill",
            "/candidates/0",
        ] {
            let mut changed = full.clone();
            *changed.pointer_mut(pointer).unwrap() = serde_json::Value::Null;
            let error = parse::<RegisterBody>(&changed.to_string()).unwrap_err();
            assert_eq!(error.pointer, pointer);
        }
        for (object, pointer) in [("", "/extra"), ("/details", "/details/extra")] {
            let mut changed = full.clone();
            changed.pointer_mut(object).unwrap().as_object_mut().unwrap().insert("extra".into(), 1.into());
            assert_eq!(parse::<RegisterBody>(&changed.to_string()).unwrap_err().pointer, pointer);
        }
        assert_eq!(parse::<RegisterBody>("{}").unwrap_err().pointer, "/protocol");
        assert_eq!(parse::<()>(r#"{"a":1}"#).unwrap_err().pointer, "/a");
    }

    #[test]
    fn case_b5_numbers_out_of_range_name_their_field() {
        let players = |n: &str| {
            let text = format!(r#"{{"protocol":"a","details":{{"name":"A","max_players":{n}}}}}"#);
            parse::<RegisterBody>(&text).map(|body| body.details.max_players)
        };
        assert_eq!(players("65535"), Ok(65_535));
        for bad in ["-8", "65536", "9007199254740993", "16.0"] {
            assert_eq!(players(bad).unwrap_err().pointer, "/details/max_players", "{bad}");
        }
        let many: String = (0..33).map(|n| format!(",\"k{n}\":1")).collect();
        let text =
            format!(r#"{{"protocol":"a","details":{{"name":"A","max_players":1,"attributes":{{{}}}}}}}"#, &many[1..]);
        assert_eq!(parse::<RegisterBody>(&text).unwrap_err().pointer, "/details/attributes");
    }
}
