//! Registration of hosts, and which could take a session.

use super::{Ruling, readable_rows};
use crate::admission::model::{
    HostEntry, HostId, HostTargetKey, HostTargetPage, ListCompatibleHostsRequest, Refusal, RegisterHostRequest,
    StoreError,
};
use crate::admission::store::records::{Column, HOST, HOSTS, HostRow, Record, Scan};
use crate::admission::store::unit::{Notice, Unit};

/// Most hosts of a key: as many as one placement looks at.
pub(crate) const PER_KEY_MAX: usize = 1_024;

/// Makes room for a new host: the longest gone one goes, if it has no session.
fn make_room(unit: &mut Unit<'_>, key: &HostTargetKey) -> Ruling<()> {
    let rows: Vec<HostRow> = readable_rows(unit, Scan::of(&HOSTS, vec![key.to_value()], PER_KEY_MAX))?;
    if rows.len() < PER_KEY_MAX {
        return Ok(());
    }
    let now = unit.now;
    let gone = rows.into_iter().filter(|row| row.placed == 0 && row.seen_until.has_passed(now));
    let longest = gone.min_by_key(|row| row.seen_until).ok_or(Refusal::TooManyHosts { limit: PER_KEY_MAX })?;
    unit.delete::<HostRow>(HostRow::key(&longest.host));
    Ok(())
}

/// Registers or refreshes. A host id belongs to the credential that registered it first, as long as it counts as seen or
/// has sessions; its key can't change under its sessions.
/// `expected` is the key under which it was found before the locks were taken: a host that moved since is somebody's who
/// is quicker.
pub(crate) fn register(
    unit: &mut Unit<'_>,
    request: &RegisterHostRequest,
    expected: Option<&HostTargetKey>,
) -> Ruling<HostEntry> {
    let known = unit.get::<HostRow>(HostRow::key(&request.host))?;
    if known.as_ref().is_some_and(|row| expected != Some(&row.target_key) && row.target_key != request.key) {
        return Err(Refusal::HostTaken.into());
    }
    let mut placed = 0;
    if known.is_none() {
        make_room(unit, &request.key)?;
    }
    if let Some(row) = &known {
        let is_in_use = row.placed > 0 || !row.seen_until.has_passed(unit.now);
        let is_other = row.credential != request.credential;
        let moves = row.placed > 0 && row.target_key != request.key;
        if (is_other && is_in_use) || moves {
            return Err(Refusal::HostTaken.into());
        }
        placed = row.placed;
    }
    let row = HostRow {
        host: request.host.clone(),
        credential: request.credential.clone(),
        target_key: request.key.clone(),
        capacity: request.capacity,
        placed,
        seen_until: unit.now.plus(request.ttl),
    };
    unit.put(&row);
    unit.notify(Notice::Host(row.host.clone()));
    Ok(row.entry())
}

pub(crate) fn get(unit: &mut Unit<'_>, host: &HostId) -> Ruling<HostEntry> {
    let row = unit.get::<HostRow>(HostRow::key(host))?.ok_or(Refusal::UnknownHost)?;
    Ok(row.entry())
}

pub(crate) fn candidates(unit: &mut Unit<'_>, request: &ListCompatibleHostsRequest) -> Ruling<HostTargetPage> {
    let rows = unit.scan(&Scan {
        after: request.after.as_ref().map(|host| vec![host.to_value()]),
        ..Scan::of(&HOSTS, vec![request.key.to_value()], request.limit)
    })?;
    let is_last = rows.len() < request.limit;
    let mut hosts: Vec<HostRow> = Vec::new();
    for values in &rows {
        hosts.extend(unit.readable(HostRow::of_values(values).map_err(StoreError::from))?);
    }
    // The next page comes after the last row, whether all of it can be read or not.
    let last = rows.last().and_then(|values| HostId::of_value(&values[HOST.position("host")]));
    let next = if is_last { None } else { last };
    let now = unit.now;
    let accepting = hosts.iter().map(HostRow::entry).filter(|host| host.accepts(now)).collect();
    Ok(HostTargetPage { hosts: accepting, next })
}
