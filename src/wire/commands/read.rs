//! Reading the command plane's requests out of the seam.

use super::request::{
    BeginBody, ClaimBody, CompleteBody, CreateSessionBody, HostBody, KindName, LeaseAction, LeaseBody, PayloadBody,
    ResultName, SendCommandBody,
};
use crate::wire::json::{Field, FieldError, Members};
use crate::wire::read::{EXACT_MAX, FromJson, boolean_or_false, text};

impl FromJson for CreateSessionBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            profile: required_text(members, "profile")?,
            payload: payload(members)?,
            apply_within_ms: unsigned(members, "apply_within_ms")?,
        })
    }
}

impl FromJson for SendCommandBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        let kind = members.required("kind")?;
        Ok(Self {
            kind: word(&kind, &KindName::ALL[1..])?,
            payload: payload(members)?,
            apply_within_ms: unsigned(members, "apply_within_ms")?,
        })
    }
}

impl FromJson for HostBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        let capacity = members.required("capacity")?.unsigned(u32::MAX.into())?;
        Ok(Self {
            target_key: required_text(members, "target_key")?,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
        })
    }
}

impl FromJson for LeaseBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        const ACTIONS: [(LeaseAction, &str); 3] =
            [(LeaseAction::Acquire, "acquire"), (LeaseAction::Renew, "renew"), (LeaseAction::Release, "release")];
        let action = word(&members.required("action")?, &ACTIONS)?;
        let host = required_text(members, "host")?;
        let empty = Self { action, host, epoch: None, ttl_ms: None, close: false };
        // Members of another action are not read, so they are refused like any that nobody knows.
        Ok(match action {
            LeaseAction::Acquire => Self { ttl_ms: unsigned(members, "ttl_ms")?, ..empty },
            LeaseAction::Renew => Self { epoch: Some(epoch(members)?), ttl_ms: unsigned(members, "ttl_ms")?, ..empty },
            LeaseAction::Release => {
                Self { epoch: Some(epoch(members)?), close: boolean_or_false(members, "close")?, ..empty }
            }
        })
    }
}

impl FromJson for ClaimBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self { host: required_text(members, "host")?, epoch: epoch(members)?, ttl_ms: unsigned(members, "ttl_ms")? })
    }
}

impl FromJson for BeginBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        Ok(Self { host: required_text(members, "host")?, epoch: epoch(members)? })
    }
}

impl FromJson for CompleteBody {
    fn read(members: &mut Members<'_>) -> Result<Self, FieldError> {
        const RESULTS: [(ResultName, &str); 2] = [(ResultName::Applied, "applied"), (ResultName::Rejected, "rejected")];
        let result = word(&members.required("result")?, &RESULTS)?;
        let code = match result {
            ResultName::Applied => None,
            ResultName::Rejected => Some(required_text(members, "code")?),
        };
        Ok(Self { host: required_text(members, "host")?, epoch: epoch(members)?, result, code })
    }
}

fn required_text(members: &mut Members<'_>, name: &str) -> Result<String, FieldError> {
    Ok(members.required(name)?.text()?.to_owned())
}

fn unsigned(members: &mut Members<'_>, name: &str) -> Result<Option<u64>, FieldError> {
    members.optional(name).map(|field| field.unsigned(EXACT_MAX)).transpose()
}

fn epoch(members: &mut Members<'_>) -> Result<u64, FieldError> {
    members.required("epoch")?.unsigned(EXACT_MAX)
}

fn word<T: Copy>(field: &Field<'_>, words: &[(T, &str)]) -> Result<T, FieldError> {
    let text = field.text()?;
    let refused = || {
        let known: Vec<_> = words.iter().map(|(_, word)| format!("{word:?}")).collect();
        field.refused(format!("must be one of {}", known.join(", ")))
    };
    words.iter().find(|(_, word)| *word == text).map(|(value, _)| *value).ok_or_else(refused)
}

fn payload(members: &mut Members<'_>) -> Result<PayloadBody, FieldError> {
    let body = PayloadBody {
        payload: members.optional("payload").map(|field| field.text_or_container()).transpose()?,
        payload_base64: text(members, "payload_base64")?,
        payload_ref: text(members, "payload_ref")?,
    };
    let given = [body.payload.is_some(), body.payload_base64.is_some(), body.payload_ref.is_some()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err(FieldError::new("", "must have at most one of payload, payload_base64 and payload_ref"));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T: FromJson>(text: &str) -> Result<T, String> {
        T::from_body(&mut text.as_bytes().to_vec()).map_err(|error| error.pointer)
    }

    #[test]
    fn a_create_carries_one_payload_or_none() {
        let none: CreateSessionBody = read(r#"{"profile":"arena"}"#).unwrap();
        assert_eq!(none.payload, PayloadBody::default());
        let object: CreateSessionBody =
            read(r#"{"profile":"arena","payload":{"z":[1,-2,true,1.5],"a":"x"},"apply_within_ms":5}"#).unwrap();
        let shown = object.payload.payload.unwrap();
        assert_eq!(shown, json!({"z": [1, -2, true, 1.5], "a": "x"}));
        for (bad, pointer) in [
            (r#"{"profile":"a","payload":"x","payload_ref":"y"}"#, ""),
            (r#"{"profile":"a","payload":5}"#, "/payload"),
            (r#"{"profile":"a","payload":null}"#, "/payload"),
            (r#"{"profile":"a","payload":[null]}"#, "/payload/0"),
            (r#"{"profile":"a","payload":{"a":1,"a":2}}"#, "/payload/a"),
            (r#"{"profile":5}"#, "/profile"),
            (r#"{"payload":"x"}"#, "/profile"),
            (r#"{"profile":"a","apply_within_ms":1.5}"#, "/apply_within_ms"),
            (r#"{"profile":"a","x":1}"#, "/x"),
        ] {
            assert_eq!(read::<CreateSessionBody>(bad).unwrap_err(), pointer, "{bad}");
        }
    }

    #[test]
    fn a_create_is_not_sent_as_a_command() {
        assert_eq!(read::<SendCommandBody>(r#"{"kind":"create"}"#).unwrap_err(), "/kind");
        assert_eq!(read::<SendCommandBody>(r#"{"kind":"input"}"#).unwrap().kind, KindName::Input);
        assert_eq!(read::<SendCommandBody>(r#"{"kind":"gate_response"}"#).unwrap().kind, KindName::GateResponse);
    }

    #[test]
    fn a_lease_takes_the_members_of_its_action_only() {
        let good = [
            r#"{"action":"acquire","host":"h"}"#,
            r#"{"action":"renew","host":"h","epoch":1,"ttl_ms":5}"#,
            r#"{"action":"release","host":"h","epoch":1,"close":true}"#,
        ];
        good.iter().for_each(|text| assert!(read::<LeaseBody>(text).is_ok(), "{text}"));
        for (bad, pointer) in [
            (r#"{"action":"acquire","host":"h","epoch":1}"#, "/epoch"),
            (r#"{"action":"renew","host":"h"}"#, "/epoch"),
            (r#"{"action":"release","host":"h","epoch":1,"ttl_ms":5}"#, "/ttl_ms"),
            (r#"{"action":"steal","host":"h"}"#, "/action"),
        ] {
            assert_eq!(read::<LeaseBody>(bad).unwrap_err(), pointer, "{bad}");
        }
    }

    #[test]
    fn a_rejection_says_why_and_an_application_does_not() {
        assert!(read::<CompleteBody>(r#"{"host":"h","epoch":1,"result":"rejected","code":"full"}"#).is_ok());
        assert_eq!(read::<CompleteBody>(r#"{"host":"h","epoch":1,"result":"rejected"}"#).unwrap_err(), "/code");
        assert_eq!(
            read::<CompleteBody>(r#"{"host":"h","epoch":1,"result":"applied","code":"x"}"#).unwrap_err(),
            "/code"
        );
    }
}
