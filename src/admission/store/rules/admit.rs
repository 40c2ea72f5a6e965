//! Admission (rules P2, P4).

use super::{Ruling, session, usage};
use crate::admission::model::{
    AdmitDispositionCommandRequest, AdmitLegacyCommandRequest, CommandEntry, CommandKind, CommandSeq, CommandState,
    Epoch, Idempotency, Payload, PayloadRef, PrincipalName, ProtocolMode, Quota, Refusal, RequestKey, Revision,
    SessionId, Sha256, Tenant, control_shard,
};
use crate::admission::store::records::{CommandKeyRow, CommandRow, PayloadRow, SessionRow};
use crate::admission::store::unit::{Notice, Unit};
use std::time::Duration;

/// What a key is found by: a digest of (principal, kind, key), so that one caller's keys say nothing about another's and
/// the same key may serve different kinds of command (case I2). Tenant and session are in the row's key.
pub(crate) fn key_digest(principal: &PrincipalName, kind: CommandKind, key: &RequestKey) -> Sha256 {
    Sha256::of(format!("{}\0{}\0{}", principal.as_str(), kind.as_str(), key.as_str()).as_bytes())
}

/// A command before it is a row.
pub(crate) struct Draft {
    pub(crate) family: ProtocolMode,
    pub(crate) kind: CommandKind,
    pub(crate) idempotency: Idempotency,
    pub(crate) payload: Payload,
    pub(crate) apply_within: Duration,
}

pub(crate) fn disposition(
    unit: &mut Unit<'_>,
    request: &AdmitDispositionCommandRequest,
) -> Ruling<(CommandEntry, bool)> {
    let draft = Draft {
        family: ProtocolMode::Disposition,
        kind: request.kind,
        idempotency: request.idempotency.clone(),
        payload: request.payload.clone(),
        apply_within: request.apply_within,
    };
    admit(unit, &request.tenant, request.session, draft)
}

pub(crate) fn legacy(unit: &mut Unit<'_>, request: &AdmitLegacyCommandRequest) -> Ruling<(CommandEntry, bool)> {
    if !unit.settings.allow_legacy {
        return Err(Refusal::LegacySessionUnsupported.into());
    }
    let draft = Draft {
        family: ProtocolMode::Legacy,
        kind: CommandKind::Create,
        idempotency: request.idempotency.clone(),
        payload: request.payload.clone(),
        apply_within: request.apply_within,
    };
    admit(unit, &request.tenant, request.session, draft)
}

fn admit(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId, draft: Draft) -> Ruling<(CommandEntry, bool)> {
    let Idempotency { principal, key, fingerprint } = draft.idempotency.clone();
    let digest = key_digest(&principal, draft.kind, &key);
    if let Some(known) = unit.get::<CommandKeyRow>(CommandKeyRow::key(tenant, &id, &digest))? {
        if known.fingerprint != fingerprint {
            return Err(Refusal::IdempotencyMismatch.into());
        }
        let row = super::command(unit, tenant, id, known.seq)?;
        return Ok((row.entry()?, false));
    }
    let row = session(unit, tenant, id)?;
    if row.mode != draft.family {
        return Err(Refusal::LegacySessionUnsupported.into());
    }
    if row.closed_at.is_some() {
        return Err(Refusal::SessionClosed.into());
    }
    let payload = find_payload(unit, tenant, id, draft.payload)?;
    let draft = Draft { payload, ..draft };
    enter(unit, row, draft, digest).map(|entry| (entry, true))
}

/// A command never refers to what is not there: a host could not apply it. Gives the reference with its stored length.
pub(crate) fn find_payload(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId, payload: Payload) -> Ruling<Payload> {
    let Payload::Stored(reference) = payload else { return Ok(payload) };
    let stored = unit.get::<PayloadRow>(PayloadRow::key(tenant, &id, &reference.sha256))?;
    let row = stored.ok_or(Refusal::UnknownPayload)?;
    Ok(Payload::Stored(PayloadRef { sha256: row.sha256, len: row.len }))
}

/// Enters a checked draft as the session's next command.
pub(crate) fn enter(unit: &mut Unit<'_>, mut row: SessionRow, draft: Draft, digest: Sha256) -> Ruling<CommandEntry> {
    let limit = unit.settings.inbox_max;
    // The span bounds what a reader of the inbox walks over: ended commands between two open ones included.
    let span = row.commands.saturating_sub(row.head.saturating_sub(1));
    if row.open >= limit || span >= u64::from(limit) * u64::from(unit.settings.inbox_span) {
        return Err(Refusal::InboxFull { limit }.into());
    }
    let mut usage = usage(unit, &row.tenant)?;
    let quota = unit.settings.open_commands_max;
    if usage.open_commands >= quota {
        return Err(Refusal::QuotaExceeded { quota: Quota::OpenCommands, limit: quota }.into());
    }

    let seq = CommandSeq(row.commands + 1);
    let command = new_row(unit, &row, seq, &draft);
    let entry = command.entry()?;
    row.commands = seq.0;
    row.open += 1;
    usage.open_commands += 1;
    if row.needs_host() && !row.is_leased(unit.now) {
        // Whoever is placed and alive keeps its place; placement only looks.
        row.placement_due = Some(row.placement_due.unwrap_or(unit.now).min(unit.now));
    }
    unit.put(&CommandKeyRow {
        tenant: row.tenant.clone(),
        session: row.session,
        digest,
        seq,
        fingerprint: draft.idempotency.fingerprint,
    });
    unit.put(&command);
    unit.put(&usage);
    unit.put(&row);
    unit.notify(Notice::Command(row.tenant.clone(), row.session, seq));
    if let Some(host) = row.placed_host {
        unit.notify(Notice::Host(host));
    }
    Ok(entry)
}

fn new_row(unit: &Unit<'_>, session: &SessionRow, seq: CommandSeq, draft: &Draft) -> CommandRow {
    let deadline = unit.now.plus(draft.apply_within);
    let (payload, payload_sha256, payload_len) = match &draft.payload {
        Payload::Inline(bytes) => (Some(bytes.clone()), None, bytes.len() as u64),
        Payload::Stored(reference) => (None, Some(reference.sha256), reference.len),
    };
    CommandRow {
        tenant: session.tenant.clone(),
        session: session.session,
        seq,
        family: draft.family,
        shard: control_shard(&session.tenant, session.session, unit.settings.control_shards),
        kind: draft.kind,
        state: CommandState::Pending,
        revision: Revision(1),
        due_at: Some(deadline),
        deadline,
        admitted_at: unit.now,
        admitted_by: draft.idempotency.principal.clone(),
        request_key: draft.idempotency.key.clone(),
        payload,
        payload_sha256,
        payload_len,
        deliveries: 0,
        claim_host: None,
        claim_epoch: None::<Epoch>,
        claim_until: None,
        applying: None,
        outcome_code: None,
        outcome_by: None,
        outcome_at: None,
        late: false,
    }
}
