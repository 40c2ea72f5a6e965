//! Reconciliation claims. Nothing outside of this file reads their row: a claim is never a fence (rule P8).

use super::Ruling;
use crate::admission::model::{
    AcquireReconciliationClaimRequest, ReconciliationClaimEntry, Refusal, ReleaseReconciliationClaimRequest,
};
use crate::admission::store::records::ReconciliationRow;
use crate::admission::store::unit::Unit;

pub(crate) fn acquire(
    unit: &mut Unit<'_>,
    request: &AcquireReconciliationClaimRequest,
) -> Ruling<ReconciliationClaimEntry> {
    let held = unit.get::<ReconciliationRow>(ReconciliationRow::key(&request.tenant, &request.session))?;
    if held.is_some_and(|row| row.holder != request.holder && !row.claimed_until.has_passed(unit.now)) {
        return Err(Refusal::ReconciliationClaimHeld.into());
    }
    let row = ReconciliationRow {
        tenant: request.tenant.clone(),
        session: request.session,
        holder: request.holder.clone(),
        claimed_until: unit.now.plus(request.ttl),
    };
    unit.put(&row);
    Ok(ReconciliationClaimEntry { holder: row.holder, until: row.claimed_until })
}

pub(crate) fn release(
    unit: &mut Unit<'_>,
    request: &ReleaseReconciliationClaimRequest,
) -> Ruling<ReconciliationClaimEntry> {
    let key = ReconciliationRow::key(&request.tenant, &request.session);
    let held = unit.get::<ReconciliationRow>(key.clone())?.filter(|row| row.holder == request.holder);
    let row = held.ok_or(Refusal::ReconciliationClaimHeld)?;
    // The row goes with the claim, so the table holds the sweeps in progress and what crashed ones left.
    unit.delete::<ReconciliationRow>(key);
    Ok(ReconciliationClaimEntry { holder: row.holder, until: unit.now })
}
