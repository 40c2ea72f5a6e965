//! Creates in three steps that may each be repeated, and of which the last alone is seen by anybody (rule P3).

use super::admit::{Draft, enter, find_payload, key_digest};
use super::{Ruling, catalog, usage};
use crate::admission::model::{
    AdmitPublicCreateRequest, CommandEntry, CommandKind, CommandSeq, CreateCatalogEntryRequest,
    PreparePublicCreateRequest, ProtocolMode, PublicCreatePreparation, Quota, Refusal, SessionBinding,
    SessionBindingTemplate, Timestamp,
};
use crate::admission::store::records::{CreateRow, SessionRow};
use crate::admission::store::unit::Unit;

fn binding(row: &CreateRow) -> SessionBinding {
    let template = SessionBindingTemplate {
        storage_binding_id: row.storage_binding_id.clone(),
        binding_version: row.binding_version.clone(),
    };
    SessionBinding::derive(&template, &row.tenant, row.session, ProtocolMode::Disposition)
}

pub(crate) fn prepare(unit: &mut Unit<'_>, request: &PreparePublicCreateRequest) -> Ruling<PublicCreatePreparation> {
    let key = &request.idempotency;
    let digest = key_digest(&key.principal, CommandKind::Create, &key.key);
    if let Some(row) = unit.get::<CreateRow>(CreateRow::key(&request.tenant, &digest))? {
        if row.fingerprint != key.fingerprint {
            return Err(Refusal::IdempotencyMismatch.into());
        }
        let binding = binding(&row);
        return Ok(PublicCreatePreparation {
            session: row.session,
            binding,
            resumed: true,
            admitted: row.prepared_until.is_none(),
        });
    }
    let mut usage = usage(unit, &request.tenant)?;
    let limit = unit.settings.prepared_creates_max;
    if usage.prepared_creates >= limit {
        return Err(Refusal::QuotaExceeded { quota: Quota::PreparedCreates, limit }.into());
    }
    let row = CreateRow {
        tenant: request.tenant.clone(),
        digest,
        session: request.proposed,
        fingerprint: key.fingerprint,
        storage_binding_id: request.template.storage_binding_id.clone(),
        binding_version: request.template.binding_version.clone(),
        prepared_at: unit.now,
        prepared_until: Some(unit.now.plus(unit.settings.prepared_for)),
        payload_bytes: 0,
    };
    usage.prepared_creates += 1;
    unit.put(&row);
    unit.put(&usage);
    Ok(PublicCreatePreparation { session: row.session, binding: binding(&row), resumed: false, admitted: false })
}

pub(crate) fn admit(unit: &mut Unit<'_>, request: &AdmitPublicCreateRequest) -> Ruling<(CommandEntry, bool)> {
    let key = &request.idempotency;
    let digest = key_digest(&key.principal, CommandKind::Create, &key.key);
    let prepared = unit.get::<CreateRow>(CreateRow::key(&request.tenant, &digest))?;
    let Some(mut create) = prepared.filter(|row| row.session == request.session) else {
        return Err(Refusal::UnknownSession.into());
    };
    if create.fingerprint != key.fingerprint {
        return Err(Refusal::IdempotencyMismatch.into());
    }
    if create.prepared_until.is_none() {
        let row = super::command(unit, &request.tenant, request.session, CommandSeq(1))?;
        return Ok((row.entry()?, false));
    }
    let payload = find_payload(unit, &request.tenant, request.session, request.payload.clone())?;
    let mut usage = usage(unit, &request.tenant)?;
    let limit = unit.settings.sessions_max;
    if usage.sessions >= limit {
        return Err(Refusal::QuotaExceeded { quota: Quota::Sessions, limit }.into());
    }

    create.prepared_until = None;
    usage.sessions += 1;
    usage.prepared_creates = usage.prepared_creates.saturating_sub(1);
    let session = new_session(unit.now, request, &create);
    let draft = Draft {
        family: ProtocolMode::Disposition,
        kind: CommandKind::Create,
        idempotency: key.clone(),
        payload,
        apply_within: request.apply_within,
    };
    unit.put(&create);
    unit.put(&usage);
    enter(unit, session, draft, digest).map(|entry| (entry, true))
}

fn new_session(now: Timestamp, request: &AdmitPublicCreateRequest, create: &CreateRow) -> SessionRow {
    let entry = CreateCatalogEntryRequest {
        tenant: request.tenant.clone(),
        session: request.session,
        binding: binding(create),
        agent: request.agent.clone(),
        target: request.target.clone(),
        principal: request.idempotency.principal.clone(),
    };
    SessionRow { payload_bytes: create.payload_bytes, ..catalog::new_session(now, entry) }
}
