//! Residency: leases with epochs, and the fence that each new one writes.

use super::placement::{place, unplace};
use super::{Ruling, catalog, fenced, resident, session, usage};
use crate::admission::model::{
    AcquireLeaseRequest, CatalogEntry, CommandSeq, Epoch, JournalStep, Lease, LeaseRef, ProtocolMode, Refusal,
    ReleaseLeaseRequest,
};
use crate::admission::store::records::{HostRow, JournalRow, SessionRow};
use crate::admission::store::unit::{Notice, Unit};
use std::time::Duration;

/// Grants the next epoch and writes its fence, in one write: whoever holds the lease has fenced all before it. A host
/// that asks again, because it crashed (case L10), gets a new epoch at once: only it could have used the old one.
pub(crate) fn acquire(unit: &mut Unit<'_>, request: &AcquireLeaseRequest) -> Ruling<Lease> {
    let mut row = session(unit, &request.tenant, request.session)?;
    if row.mode == ProtocolMode::Legacy {
        return Err(Refusal::LegacySessionUnsupported.into());
    }
    if row.target_key != request.key {
        return Err(Refusal::UnknownSession.into());
    }
    if row.is_leased(unit.now) && row.lease_host.as_ref() != Some(&request.host) {
        return Err(Refusal::LeaseHeld { until: row.lease_until }.into());
    }
    if row.closed_at.is_some() && row.begun == 0 {
        return Err(Refusal::SessionClosed.into());
    }
    let host = unit.get::<HostRow>(HostRow::key(&request.host))?.filter(|host| host.target_key == request.key);
    let host = host.ok_or(Refusal::UnknownHost)?;
    place(unit, &mut row, Some(host))?;
    row.epoch = Epoch(row.epoch.0 + 1);
    row.lease_host = Some(request.host.clone());
    row.lease_until = unit.now.plus(request.ttl);
    row.placement_due = Some(row.lease_until);
    row.journal_len += 1;
    unit.put(&JournalRow {
        tenant: row.tenant.clone(),
        session: row.session,
        seq: CommandSeq(0),
        epoch: row.epoch,
        step: JournalStep::Fence,
        position: row.journal_len,
        host: request.host.clone(),
        at: unit.now,
        code: None,
    });
    unit.put(&row);
    unit.notify(Notice::Host(request.host.clone()));
    granted(&row)
}

fn granted(row: &SessionRow) -> Ruling<Lease> {
    row.lease().ok_or(Refusal::LeaseLost { current: row.epoch }.into())
}

/// From now, not from the old end (case L3). Placement finds the new end when it looks at the old one (case L2).
pub(crate) fn renew(unit: &mut Unit<'_>, lease: &LeaseRef, ttl: Duration) -> Ruling<Lease> {
    let mut row = session(unit, &lease.tenant, lease.session)?;
    resident(unit, &row, lease)?;
    row.lease_until = unit.now.plus(ttl);
    unit.put(&row);
    granted(&row)
}

/// Lets go. The host stays placed nowhere, so the session is offered elsewhere unless it is closed.
pub(crate) fn release(unit: &mut Unit<'_>, request: &ReleaseLeaseRequest) -> Ruling<CatalogEntry> {
    let mut row = session(unit, &request.lease.tenant, request.lease.session)?;
    fenced(&row, &request.lease)?;
    if request.close {
        let mut usage = usage(unit, &row.tenant)?;
        catalog::close(unit, &mut row, &mut usage);
        unit.put(&usage);
    }
    row.lease_until = row.lease_until.min(unit.now);
    unplace(unit, &mut row)?;
    row.placement_due = row.needs_host().then_some(unit.now);
    unit.put(&row);
    Ok(row.entry())
}
