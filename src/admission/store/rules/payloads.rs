//! Payloads, by their content.

use super::admit::key_digest;
use super::{Ruling, session, usage};
use crate::admission::model::{
    Bytes, CommandKind, GetCommandPayloadRequest, ObjectMetadata, PayloadOwner, PutCommandPayloadRequest, Quota,
    Refusal, Sha256,
};
use crate::admission::store::records::{CreateRow, PayloadBytesRow, PayloadRow};
use crate::admission::store::unit::Unit;

pub(crate) fn put(unit: &mut Unit<'_>, sha256: Sha256, request: &PutCommandPayloadRequest) -> Ruling<ObjectMetadata> {
    let PutCommandPayloadRequest { tenant, session: id, owner, bytes } = request;
    if let Some(row) = unit.get::<PayloadRow>(PayloadRow::key(tenant, id, &sha256))? {
        return Ok(ObjectMetadata { sha256, len: row.len, stored_at: row.stored_at });
    }
    let len = bytes.len() as u64;
    let mut usage = usage(unit, tenant)?;
    let limit = unit.settings.payload_bytes_max;
    if usage.payload_bytes.saturating_add(len) > limit {
        return Err(Refusal::QuotaExceeded { quota: Quota::PayloadBytes, limit }.into());
    }
    match owner {
        PayloadOwner::Session => {
            let mut row = session(unit, tenant, *id)?;
            if row.closed_at.is_some() {
                return Err(Refusal::SessionClosed.into());
            }
            row.payload_bytes += len;
            unit.put(&row);
        }
        PayloadOwner::Create { principal, key } => {
            let digest = key_digest(principal, CommandKind::Create, key);
            let row = unit.get::<CreateRow>(CreateRow::key(tenant, &digest))?;
            let prepared = row.filter(|row| row.session == *id && row.prepared_until.is_some());
            let mut create = prepared.ok_or(Refusal::UnknownSession)?;
            create.payload_bytes += len;
            unit.put(&create);
        }
    }
    usage.payload_bytes += len;
    let row = PayloadRow { tenant: tenant.clone(), session: *id, sha256, len, stored_at: unit.now };
    unit.put(&usage);
    unit.put(&row);
    unit.put(&PayloadBytesRow { tenant: tenant.clone(), session: *id, sha256, bytes: bytes.clone() });
    Ok(ObjectMetadata { sha256, len, stored_at: row.stored_at })
}

pub(crate) fn get(unit: &mut Unit<'_>, request: &GetCommandPayloadRequest) -> Ruling<Bytes> {
    let key = PayloadBytesRow::key(&request.tenant, &request.session, &request.sha256);
    let row = unit.get::<PayloadBytesRow>(key)?;
    row.map(|row| row.bytes).ok_or(Refusal::UnknownPayload.into())
}
