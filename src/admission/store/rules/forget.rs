//! What is over is forgotten, in bounded steps: closed sessions after their retention, and creates that nobody resumed.

use super::admit::key_digest;
use super::{Ruling, readable_rows, usage};
use crate::admission::model::{CommandKind, SessionId, Sha256, Tenant};
use crate::admission::store::records::{
    Column, CommandKeyRow, CommandRow, CreateRow, FORGOTTEN, INBOX, Index, JournalRow, KEYS, PAYLOADS, PREPARED,
    PayloadBytesRow, PayloadRow, ReconciliationRow, Record, Scan, SessionRow, WHOLE_JOURNAL,
};
use crate::admission::store::unit::Unit;

/// Most rows of each kind that one step removes: bounds how long others wait for it.
const STEP: usize = 128;

/// A session or a create whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Session(Tenant, SessionId),
    Create(Tenant, Sha256, SessionId),
}

/// Up to `limit` of each.
pub(crate) fn due(unit: &mut Unit<'_>, limit: usize) -> Ruling<Vec<Due>> {
    let upto = Some(unit.now.to_value());
    let sessions = Scan { upto: upto.clone(), ..Scan::of(&FORGOTTEN, Vec::new(), limit) };
    let sessions: Vec<SessionRow> = readable_rows(unit, sessions)?;
    let creates: Vec<CreateRow> = readable_rows(unit, Scan { upto, ..Scan::of(&PREPARED, Vec::new(), limit) })?;
    let sessions = sessions.into_iter().map(|row| Due::Session(row.tenant, row.session));
    let creates = creates.into_iter().map(|row| Due::Create(row.tenant, row.digest, row.session));
    Ok(sessions.chain(creates).collect())
}

/// Puts off what a step could not do, because some row of it can't be read: it would keep the front of the queue.
pub(crate) fn put_off(unit: &mut Unit<'_>, due: &Due) -> Ruling<()> {
    match due {
        Due::Session(tenant, session) => {
            if let Some(row) = unit.get::<SessionRow>(SessionRow::key(tenant, session))? {
                unit.put(&SessionRow { forget_at: Some(unit.now.plus(unit.settings.closed_for)), ..row });
            }
        }
        Due::Create(tenant, digest, _) => {
            let row = unit.get::<CreateRow>(CreateRow::key(tenant, digest))?;
            if let Some(row) = row.filter(|row| row.prepared_until.is_some()) {
                unit.put(&CreateRow { prepared_until: Some(unit.now.plus(unit.settings.prepared_for)), ..row });
            }
        }
    }
    Ok(())
}

/// One step about one of them; `true` when nothing of it is left.
pub(crate) fn step(unit: &mut Unit<'_>, due: &Due) -> Ruling<bool> {
    match due {
        Due::Session(tenant, session) => forget_session(unit, tenant, *session),
        Due::Create(tenant, digest, _) => forget_create(unit, tenant, *digest),
    }
}

fn rows<R: Record>(unit: &mut Unit<'_>, index: &'static Index, tenant: &Tenant, session: SessionId) -> Ruling<Vec<R>> {
    let found = unit.scan(&Scan::of(index, vec![tenant.to_value(), session.to_value()], STEP))?;
    found.iter().map(|values| R::of_values(values).map_err(Into::into)).collect()
}

fn forget_session(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId) -> Ruling<bool> {
    let key = SessionRow::key(tenant, &id);
    let Some(session) = unit.get::<SessionRow>(key.clone())? else { return Ok(true) };
    if session.open > 0 || session.begun > 0 || session.is_leased(unit.now) {
        // Somebody still owes it an end; it is looked at again when there can be one.
        unit.put(&SessionRow { forget_at: Some(unit.now.plus(unit.settings.closed_for)), ..session });
        return Ok(true);
    }
    let commands: Vec<CommandRow> = rows(unit, &INBOX, tenant, id)?;
    let keys: Vec<CommandKeyRow> = rows(unit, &KEYS, tenant, id)?;
    let journal: Vec<JournalRow> = rows(unit, &WHOLE_JOURNAL, tenant, id)?;
    let payloads: Vec<PayloadRow> = rows(unit, &PAYLOADS, tenant, id)?;
    let is_last = [commands.len(), keys.len(), journal.len(), payloads.len()].iter().all(|count| *count < STEP);
    for row in &commands {
        if row.kind == CommandKind::Create {
            let digest = key_digest(&row.admitted_by, CommandKind::Create, &row.request_key);
            unit.delete::<CreateRow>(CreateRow::key(tenant, &digest));
        }
        unit.delete::<CommandRow>(CommandRow::key(tenant, &id, &row.seq));
    }
    keys.iter().for_each(|row| unit.delete::<CommandKeyRow>(CommandKeyRow::key(tenant, &id, &row.digest)));
    for row in &journal {
        unit.delete::<JournalRow>(JournalRow::key(tenant, &id, &row.seq, &row.epoch, &row.step));
    }
    forget_payloads(unit, tenant, id, &payloads)?;
    if is_last {
        unit.delete::<ReconciliationRow>(key.clone());
        unit.delete::<SessionRow>(key);
    }
    Ok(is_last)
}

fn forget_payloads(unit: &mut Unit<'_>, tenant: &Tenant, id: SessionId, payloads: &[PayloadRow]) -> Ruling<()> {
    let mut usage = usage(unit, tenant)?;
    for row in payloads {
        usage.payload_bytes = usage.payload_bytes.saturating_sub(row.len);
        unit.delete::<PayloadRow>(PayloadRow::key(tenant, &id, &row.sha256));
        unit.delete::<PayloadBytesRow>(PayloadBytesRow::key(tenant, &id, &row.sha256));
    }
    unit.put(&usage);
    Ok(())
}

fn forget_create(unit: &mut Unit<'_>, tenant: &Tenant, digest: Sha256) -> Ruling<bool> {
    let key = CreateRow::key(tenant, &digest);
    let create = unit.get::<CreateRow>(key.clone())?;
    // It may have been admitted since it was found.
    let Some(create) = create.filter(|row| row.prepared_until.is_some_and(|until| until.has_passed(unit.now))) else {
        return Ok(true);
    };
    let payloads: Vec<PayloadRow> = rows(unit, &PAYLOADS, tenant, create.session)?;
    let is_last = payloads.len() < STEP;
    forget_payloads(unit, tenant, create.session, &payloads)?;
    if is_last {
        let mut usage = usage(unit, tenant)?;
        usage.prepared_creates = usage.prepared_creates.saturating_sub(1);
        unit.put(&usage);
        unit.delete::<CreateRow>(key);
    }
    Ok(is_last)
}
