//! Sessions without a command, and who owns one.

use super::{Ruling, session, usage};
use crate::admission::model::{
    CatalogEntry, CreateCatalogEntryRequest, Epoch, GetCatalogEntryRequest, OwnerObservation, ProtocolMode, Quota,
    Refusal, SessionId, Tenant, Timestamp,
};
use crate::admission::store::records::{SessionRow, TenantRow};
use crate::admission::store::unit::Unit;

pub(crate) fn get(unit: &mut Unit<'_>, request: &GetCatalogEntryRequest) -> Ruling<CatalogEntry> {
    session(unit, &request.tenant, request.session).map(|row| row.entry())
}

pub(crate) fn create(unit: &mut Unit<'_>, request: &CreateCatalogEntryRequest) -> Ruling<(CatalogEntry, bool)> {
    let mode = request.binding.protocol_mode;
    if mode == ProtocolMode::Legacy && !unit.settings.allow_legacy {
        return Err(Refusal::LegacySessionUnsupported.into());
    }
    if let Some(row) = unit.get::<SessionRow>(SessionRow::key(&request.tenant, &request.session))? {
        let entry = row.entry();
        // A binding is immutable: another one for the same session is another request.
        let same = entry.binding == request.binding;
        return if same { Ok((entry, false)) } else { Err(Refusal::IdempotencyMismatch.into()) };
    }
    let mut usage = usage(unit, &request.tenant)?;
    let limit = unit.settings.sessions_max;
    if usage.sessions >= limit {
        return Err(Refusal::QuotaExceeded { quota: Quota::Sessions, limit }.into());
    }
    usage.sessions += 1;
    let row = new_session(unit.now, request.clone());
    unit.put(&usage);
    unit.put(&row);
    Ok((row.entry(), true))
}

/// A session that nobody has run yet; one of the disposition family waits for a host from now on.
pub(super) fn new_session(now: Timestamp, request: CreateCatalogEntryRequest) -> SessionRow {
    let CreateCatalogEntryRequest { tenant, session, binding, agent, target, principal } = request;
    let is_runnable = binding.protocol_mode == ProtocolMode::Disposition;
    SessionRow {
        tenant,
        session,
        mode: binding.protocol_mode,
        storage_binding_id: binding.storage_binding_id,
        binding_version: binding.binding_version,
        runtime_session_id: binding.runtime_session_id,
        agent,
        target_key: target.key,
        workload: target.workload.0,
        created_at: now,
        created_by: principal,
        closed_at: None,
        commands: 0,
        head: 1,
        open: 0,
        begun: 0,
        epoch: Epoch(0),
        lease_host: None,
        lease_until: Timestamp(0),
        journal_len: 0,
        payload_bytes: 0,
        wanted: is_runnable,
        placed_host: None,
        placed_until: Timestamp(0),
        placement_due: is_runnable.then_some(now),
        forget_at: None,
    }
}

/// Closes a session, once: no command is admitted any more, nobody has to run it, it counts for no quota, and it is
/// forgotten after its retention. The caller writes both rows.
pub(super) fn close(unit: &Unit<'_>, row: &mut SessionRow, usage: &mut TenantRow) {
    if row.closed_at.is_some() {
        return;
    }
    row.closed_at = Some(unit.now);
    row.forget_at = Some(unit.now.plus(unit.settings.closed_for));
    row.wanted = false;
    usage.sessions = usage.sessions.saturating_sub(1);
}

pub(crate) fn owner(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId) -> Ruling<Option<OwnerObservation>> {
    let Some(row) = unit.get::<SessionRow>(SessionRow::key(tenant, &id))? else { return Ok(None) };
    let observed_at = unit.now;
    let live = row.lease().filter(|lease| lease.is_live(observed_at));
    Ok(live.map(|lease| OwnerObservation { lease, key: row.target_key, observed_at }))
}
