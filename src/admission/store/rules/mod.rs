//! The rules of the plane over rows, once for all stores. Plain synchronous functions of (rows, now, request): no I/O of
//! their own, no clock, no randomness.
//!
//! A rule that refuses leaves nothing behind: its unit of work takes back what it wrote. It scans before it writes.

pub(crate) mod admit;
pub(crate) mod apply;
pub(crate) mod catalog;
pub(crate) mod claims;
pub(crate) mod create;
pub(crate) mod due;
pub(crate) mod forget;
pub(crate) mod hosts;
pub(crate) mod leases;
pub(crate) mod payloads;
pub(crate) mod placement;
pub(crate) mod reject;
pub(crate) mod settle;
pub(crate) mod work;

use super::records::{CommandRow, Record, Scan, SessionRow, TenantRow};
use super::unit::Unit;
use crate::admission::model::{CommandSeq, LeaseRef, Refusal, SessionId, StoreError, Tenant};

/// What a rule gives.
pub(crate) type Ruling<T> = Result<T, StoreError>;

/// Most pages that are read past rows that can't be read, before what lies behind them has to wait for their repair.
const UNREADABLE_PAGES_MAX: usize = 64;

/// The rows of a scan of whole rows that can be read, up to its limit. Those that can't be are counted and walked past, so
/// that the front of a queue is never theirs (rule P9).
fn readable_rows<R: Record>(unit: &mut Unit<'_>, mut scan: Scan) -> Ruling<Vec<R>> {
    let mut found = Vec::new();
    for _ in 0..UNREADABLE_PAGES_MAX {
        let rows = unit.scan(&scan)?;
        for values in &rows {
            found.extend(unit.readable(R::of_values(values).map_err(StoreError::from))?);
        }
        scan.after = rows.last().map(|last| scan.position(last));
        if rows.len() < scan.limit || found.len() >= scan.limit {
            break;
        }
    }
    found.truncate(scan.limit);
    Ok(found)
}

/// A session, or `unknown_session`.
pub(crate) fn session(unit: &mut Unit<'_>, tenant: &Tenant, session: SessionId) -> Ruling<SessionRow> {
    unit.get(SessionRow::key(tenant, &session))?.ok_or(Refusal::UnknownSession.into())
}

/// A command, or `unknown_command`.
pub(crate) fn command(unit: &mut Unit<'_>, tenant: &Tenant, session: SessionId, seq: CommandSeq) -> Ruling<CommandRow> {
    unit.get(CommandRow::key(tenant, &session, &seq))?.ok_or(Refusal::UnknownCommand.into())
}

/// What a tenant uses; nothing yet when it has no row.
pub(crate) fn usage(unit: &mut Unit<'_>, tenant: &Tenant) -> Ruling<TenantRow> {
    let none =
        TenantRow { tenant: tenant.clone(), open_commands: 0, sessions: 0, prepared_creates: 0, payload_bytes: 0 };
    Ok(unit.get(TenantRow::key(tenant))?.unwrap_or(none))
}

/// Rule P5: an older epoch can do nothing once a newer one wrote its fence, which it did when it was granted.
pub(crate) fn fenced(row: &SessionRow, lease: &LeaseRef) -> Ruling<()> {
    let is_holder = row.epoch == lease.epoch && row.lease_host.as_ref() == Some(&lease.host);
    if is_holder { Ok(()) } else { Err(Refusal::LeaseLost { current: row.epoch }.into()) }
}

/// Rule P5: only the holder of the live lease may begin anything.
pub(crate) fn resident(unit: &Unit<'_>, row: &SessionRow, lease: &LeaseRef) -> Ruling<()> {
    fenced(row, lease)?;
    if row.is_leased(unit.now) { Ok(()) } else { Err(Refusal::LeaseLost { current: row.epoch }.into()) }
}
