//! Between the wire's shapes and the plane's.

use crate::admission::{
    AgentId, Bytes, CallerState, CatalogEntry, CommandEntry, CommandKind, HostId, OwnerObservation, Payload,
    RequestPayload, Sha256, Timestamp,
};
use crate::domain::WallTime;
use crate::wire::commands::{
    BindingAnswer, ClaimAnswer, CommandAnswer, GateResponseBody, KindName, OutcomeAnswer, OwnerAnswer, PayloadBody,
    PayloadRefAnswer, SessionAnswer, StateName,
};
use crate::wire::{FieldError, timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;

/// A state that was just written: its claim holds.
pub(super) const JUST_WRITTEN: Timestamp = Timestamp(0);
/// A command that is to be delivered: whatever claims there were count no more.
pub(super) const TO_DELIVER: Timestamp = Timestamp(i64::MAX as u64);

pub(super) fn time(at: Timestamp) -> String {
    timestamp(WallTime(at.0))
}

pub(super) fn duration(ms: Option<u64>) -> Option<Duration> {
    ms.map(Duration::from_millis)
}

pub(super) fn profile(text: &str) -> Result<AgentId, FieldError> {
    AgentId::new(text).map_err(|error| FieldError::new("/profile", error.to_string()))
}

pub(super) fn host(text: &str) -> Result<HostId, FieldError> {
    HostId::new(text).map_err(|error| FieldError::new("/host", error.to_string()))
}

/// What a request carries: nothing is an empty content.
pub(super) fn payload(body: PayloadBody) -> Result<RequestPayload, FieldError> {
    let bytes = match body {
        PayloadBody { payload: Some(serde_json::Value::String(text)), .. } => text.into_bytes(),
        PayloadBody { payload: Some(value), .. } => value.to_string().into_bytes(),
        PayloadBody { payload_base64: Some(text), .. } => {
            let refused = |_| FieldError::new("/payload_base64", "must be base64 with padding");
            STANDARD.decode(text).map_err(refused)?
        }
        PayloadBody { payload_ref: Some(text), .. } => {
            let refused = || FieldError::new("/payload_ref", "must be a SHA-256 as 64 lower-case hex digits");
            return Sha256::parse(&text).map(RequestPayload::Stored).ok_or_else(refused);
        }
        PayloadBody { payload: None, payload_base64: None, payload_ref: None } => Vec::new(),
    };
    Ok(RequestPayload::Bytes(Bytes::from(bytes)))
}

/// The payload of a `gate_response`: an object with exactly two members.
pub(super) fn gate_response(body: PayloadBody) -> Result<(u128, bool), FieldError> {
    let shape =
        || FieldError::new("/payload", "must be {\"attempt_id\": \"<32 hex digits>\", \"admit\": true or false}");
    let Some(serde_json::Value::Object(members)) = body.payload else { return Err(shape()) };
    if members.len() != 2 {
        return Err(shape());
    }
    let answer = GateResponseBody {
        attempt_id: members.get("attempt_id").and_then(|value| value.as_str()).ok_or_else(shape)?.to_owned(),
        admit: members.get("admit").and_then(serde_json::Value::as_bool).ok_or_else(shape)?,
    };
    let attempt = crate::domain::AttemptId::parse(&answer.attempt_id);
    let refused = || FieldError::new("/payload/attempt_id", "must be 32 lower-case hex digits");
    Ok((attempt.ok_or_else(refused)?.0, answer.admit))
}

fn kind(kind: CommandKind) -> KindName {
    match kind {
        CommandKind::Create => KindName::Create,
        CommandKind::Input => KindName::Input,
        CommandKind::Interrupt => KindName::Interrupt,
        CommandKind::GateResponse => KindName::GateResponse,
        CommandKind::Restore => KindName::Restore,
    }
}

fn state(state: CallerState) -> StateName {
    match state {
        CallerState::Admitted => StateName::Admitted,
        CallerState::Claimed => StateName::Claimed,
        CallerState::Applying => StateName::Applying,
        CallerState::Applied => StateName::Applied,
        CallerState::Rejected => StateName::Rejected,
        CallerState::Expired => StateName::Expired,
    }
}

/// A command as a tenant's principal sees it, at `now` by the store's clock.
pub(super) fn command(entry: &CommandEntry, now: Timestamp) -> CommandAnswer {
    CommandAnswer {
        session_id: entry.session.to_string(),
        command: entry.seq.0,
        kind: kind(entry.kind),
        state: state(entry.caller_state(now)),
        disposition: entry.outcome.as_ref().map(|outcome| outcome.code.to_string()),
        revision: entry.revision.0,
        admitted_at: time(entry.admitted_at),
        admitted_by: entry.admitted_by.to_string(),
        deadline: time(entry.deadline),
        deliveries: entry.deliveries,
        claim: entry.claim.as_ref().map(|claim| ClaimAnswer {
            host: claim.host.to_string(),
            epoch: claim.epoch.0,
            until: time(claim.until),
        }),
        applying_epoch: entry.applying.map(|epoch| epoch.0),
        outcome: entry.outcome.as_ref().map(|outcome| OutcomeAnswer {
            code: outcome.code.to_string(),
            by: outcome.by.clone(),
            at: time(outcome.at),
            late: outcome.late,
        }),
        payload: None,
        payload_base64: None,
        payload_ref: None,
    }
}

/// A command as a host sees it: with what it carries.
pub(super) fn command_for_host(entry: &CommandEntry, now: Timestamp) -> CommandAnswer {
    let mut answer = command(entry, now);
    match &entry.payload {
        Payload::Inline(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => answer.payload = Some(text.to_owned()),
            Err(_) => answer.payload_base64 = Some(STANDARD.encode(bytes)),
        },
        Payload::Stored(stored) => {
            answer.payload_ref = Some(PayloadRefAnswer { sha256: stored.sha256.to_string(), len: stored.len });
        }
    }
    answer
}

pub(super) fn session(entry: &CatalogEntry, owner: Option<&OwnerObservation>) -> SessionAnswer {
    SessionAnswer {
        session_id: entry.session.to_string(),
        profile: entry.agent.to_string(),
        target_key: entry.target.key.to_string(),
        workload: entry.target.workload.0.clone(),
        state: if entry.closed_at.is_some() { "closed" } else { "open" }.to_owned(),
        created_at: time(entry.created_at),
        created_by: entry.created_by.to_string(),
        closed_at: entry.closed_at.map(time),
        commands: entry.commands,
        open_commands: entry.open,
        placed: entry.placed.as_ref().map(ToString::to_string),
        owner: owner.map(|owner| OwnerAnswer {
            host: owner.lease.host.to_string(),
            epoch: owner.lease.epoch.0,
            expires_at: time(owner.lease.until),
        }),
        binding: BindingAnswer {
            storage_binding_id: entry.binding.storage_binding_id.clone(),
            binding_version: entry.binding.binding_version.clone(),
            runtime_session_id: entry.binding.runtime_session_id.to_string(),
            protocol_mode: entry.binding.protocol_mode.as_str().to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_is_the_same_however_it_is_sent() {
        let content = |body| match payload(body) {
            Ok(RequestPayload::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        let value = |value| PayloadBody { payload: Some(value), ..PayloadBody::default() };
        assert_eq!(content(PayloadBody::default()), "");
        assert_eq!(content(value(json!("{}"))), "{}");
        assert_eq!(content(value(json!({"b": [1, "x"], "a": true}))), r#"{"a":true,"b":[1,"x"]}"#, "sorted by name");
        let base64 = |text: &str| PayloadBody { payload_base64: Some(text.into()), ..PayloadBody::default() };
        assert_eq!(content(base64("AP8=")), &[0, 255][..]);
        for bad in ["AP8", "A P8=", "AP9=", "-_8="] {
            assert_eq!(payload(base64(bad)).unwrap_err().pointer, "/payload_base64", "{bad}");
        }
        let stored = |text: String| payload(PayloadBody { payload_ref: Some(text), ..PayloadBody::default() });
        assert!(matches!(stored("ab".repeat(32)), Ok(RequestPayload::Stored(_))));
        assert_eq!(stored("AB".repeat(32)).unwrap_err().pointer, "/payload_ref");
    }

    #[test]
    fn a_gate_response_has_exactly_two_members() {
        let id = "0123456789abcdef0123456789abcdef";
        let read = |value| gate_response(PayloadBody { payload: Some(value), ..PayloadBody::default() });
        assert_eq!(
            read(json!({"attempt_id": id, "admit": false})),
            Ok((0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, false))
        );
        for bad in [
            json!("x"),
            json!({"attempt_id": id}),
            json!({"attempt_id": id, "admit": "yes"}),
            json!({"attempt_id": id, "admit": true, "x": 1}),
            json!({"attempt_id": "x", "admit": true}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        assert!(gate_response(PayloadBody::default()).is_err());
    }
}
