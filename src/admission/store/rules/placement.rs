//! Which host a session is proposed to. A proposal only: the lease is the authority.

use super::hosts::PER_KEY_MAX;
use super::{Ruling, readable_rows, session};
use crate::admission::model::{DesiredWorkload, HostTargetKey, Refusal, SessionId, Tenant, Timestamp};
use crate::admission::store::records::{Column, HOSTS, HostRow, PLACEMENT, Scan, SessionRow};
use crate::admission::store::unit::{Notice, Unit};

/// A session that placement has to look at: its name, and until where it has looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DuePlacement {
    pub(crate) tenant: Tenant,
    pub(crate) session: SessionId,
    pub(crate) key: HostTargetKey,
}

/// Sees to it that the session has a host. Again is the same: a session that has one keeps it.
pub(crate) fn ensure(unit: &mut Unit<'_>, desired: &DesiredWorkload) -> Ruling<()> {
    let mut row = session(unit, &desired.tenant, desired.session)?;
    if row.closed_at.is_some() {
        return Err(Refusal::SessionClosed.into());
    }
    if row.target_key != desired.target.key {
        return Err(Refusal::UnknownSession.into());
    }
    row.wanted = true;
    drive(unit, row)
}

/// Lets go of the session's host. Again, and for a session that is unknown, is no error.
pub(crate) fn release(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId) -> Ruling<()> {
    let Some(mut row) = unit.get::<SessionRow>(SessionRow::key(tenant, &id))? else { return Ok(()) };
    if !row.wanted && row.placed_host.is_none() {
        return Ok(());
    }
    row.wanted = false;
    drive(unit, row)
}

/// Sessions that placement has to look at by now, earliest first.
pub(crate) fn due(unit: &mut Unit<'_>, limit: usize) -> Ruling<Vec<DuePlacement>> {
    let now = unit.now.to_value();
    let rows: Vec<SessionRow> =
        readable_rows(unit, Scan { upto: Some(now), ..Scan::of(&PLACEMENT, Vec::new(), limit) })?;
    Ok(rows
        .into_iter()
        .map(|row| DuePlacement { tenant: row.tenant, session: row.session, key: row.target_key })
        .collect())
}

/// Looks at a session that was due.
pub(crate) fn look(unit: &mut Unit<'_>, due: &DuePlacement) -> Ruling<()> {
    let row = session(unit, &due.tenant, due.session)?;
    drive(unit, row)
}

/// One step of a session's placement. Whatever it decides, the session is due again no earlier than something can change,
/// so no session that can't be placed keeps the head of the queue.
fn drive(unit: &mut Unit<'_>, mut row: SessionRow) -> Ruling<()> {
    let now = unit.now;
    if row.is_leased(now) {
        // A holder keeps its session until it lets go or lapses; one that is no longer wanted finds that in its work.
        row.placement_due = Some(row.lease_until);
        notify(unit, &row);
        unit.put(&row);
        return Ok(());
    }
    if !row.needs_host() {
        unplace(unit, &mut row)?;
        row.placement_due = None;
        unit.put(&row);
        return Ok(());
    }
    let placed = placed_host(unit, &row)?;
    if placed.is_some_and(|host| !host.seen_until.has_passed(now)) && !row.placed_until.has_passed(now) {
        row.placement_due = Some(row.placed_until);
        unit.put(&row);
        return Ok(());
    }
    let chosen = choose(unit, &row)?;
    row.placement_due = Some(match &chosen {
        Some(_) => now.plus(unit.settings.placement_grace),
        None => now.plus(unit.settings.placement_retry),
    });
    place(unit, &mut row, chosen)?;
    notify(unit, &row);
    unit.put(&row);
    Ok(())
}

fn notify(unit: &mut Unit<'_>, row: &SessionRow) {
    if let Some(host) = &row.placed_host {
        unit.notify(Notice::Host(host.clone()));
    }
}

fn placed_host(unit: &mut Unit<'_>, row: &SessionRow) -> Ruling<Option<HostRow>> {
    match &row.placed_host {
        // One whose row can't be read has shown no life.
        Some(host) => {
            let read = unit.get(HostRow::key(host));
            unit.readable(read).map(Option::flatten)
        }
        None => Ok(None),
    }
}

/// The accepting host with the least load; the one that let its time pass only when there is no other.
fn choose(unit: &mut Unit<'_>, row: &SessionRow) -> Ruling<Option<HostRow>> {
    let hosts: Vec<HostRow> = readable_rows(unit, Scan::of(&HOSTS, vec![row.target_key.to_value()], PER_KEY_MAX))?;
    let mut best: Option<(bool, u64, HostRow)> = None;
    for host in hosts {
        let was_here = row.placed_host.as_ref() == Some(&host.host);
        let is_alive = !host.seen_until.has_passed(unit.now);
        if !is_alive || !(was_here || host.placed < host.capacity) {
            continue;
        }
        let load = u64::from(host.placed) * 1_000_000 / u64::from(host.capacity.max(1));
        if best.as_ref().is_none_or(|(other, least, _)| (was_here, load) < (*other, *least)) {
            best = Some((was_here, load, host));
        }
    }
    Ok(best.map(|(_, _, host)| host))
}

/// Places the session at `host`, or nowhere; keeps the hosts' counts. The caller writes the session.
pub(crate) fn place(unit: &mut Unit<'_>, row: &mut SessionRow, host: Option<HostRow>) -> Ruling<()> {
    let Some(host) = host else { return unplace(unit, row) };
    if row.placed_host.as_ref() != Some(&host.host) {
        unplace(unit, row)?;
        row.placed_host = Some(host.host.clone());
        unit.put(&HostRow { placed: host.placed + 1, ..host });
    }
    row.placed_until = unit.now.plus(unit.settings.placement_grace);
    Ok(())
}

/// Takes the session off its host. The caller writes the session.
pub(crate) fn unplace(unit: &mut Unit<'_>, row: &mut SessionRow) -> Ruling<()> {
    row.placed_until = Timestamp(0);
    let Some(host) = row.placed_host.take() else { return Ok(()) };
    // A count that can't be read can't be kept either; the session goes on without.
    let read = unit.get::<HostRow>(HostRow::key(&host));
    if let Some(mut host) = unit.readable(read)?.flatten() {
        host.placed = host.placed.saturating_sub(1);
        unit.put(&host);
    }
    Ok(())
}
