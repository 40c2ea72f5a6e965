//! What a host finds to do.

use super::Ruling;
use super::apply::is_exhausted;
use super::settle::{evidence, settleable};
use crate::admission::model::{
    CommandSeq, CommandState, DispositionInboxEntry, HostId, JournalEntry, Payload, SessionId, StoreError, Task,
    Tenant, Work,
};
use crate::admission::store::records::{
    Column, CommandRow, EVIDENCE, INBOX, JournalRow, PLACED, Record, Scan, SessionRow, Value,
};
use crate::admission::store::unit::Unit;

/// Most sessions of a host that one call looks at; a host with more does them in turn, as the first ones run dry.
const SESSIONS_MAX: usize = 4096;
/// Most commands of one session in an answer.
const COMMANDS_MAX: usize = 32;

/// Most bytes of payloads in an answer: it is in memory as a whole, and so are those of all hosts that ask at a time. The
/// longest inline payload fits many times, so a host always gets on.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Up to `limit` sessions for which the host has something to do, with their tasks in order. What does not fit comes once
/// the host has taken what did in hand; what can't be read is passed over, for the host has work beside it.
pub(crate) fn list(unit: &mut Unit<'_>, host: &HostId, limit: usize) -> Ruling<Vec<Work>> {
    let rows = unit.scan(&Scan::of(&PLACED, vec![host.to_value()], SESSIONS_MAX))?;
    let (mut work, mut room) = (Vec::new(), PAYLOAD_BYTES_MAX);
    for values in &rows {
        if work.len() == limit || room == 0 {
            break;
        }
        let Some(row) = unit.readable(SessionRow::of_values(values).map_err(StoreError::from))? else { continue };
        let tasks = tasks(unit, host, &row, &mut room)?;
        if !tasks.is_empty() {
            work.push(Work { session: row.entry(), tasks });
        }
    }
    Ok(work)
}

/// The tasks of one session, as far as their payloads fit into `room`, which they make smaller; it is zero once one did not
/// fit.
fn tasks(unit: &mut Unit<'_>, host: &HostId, row: &SessionRow, room: &mut usize) -> Ruling<Vec<Task>> {
    if !row.is_leased(unit.now) {
        return Ok(if row.needs_host() { vec![Task::Acquire] } else { Vec::new() });
    }
    if row.lease_host.as_ref() != Some(host) {
        return Ok(Vec::new());
    }
    let mut tasks = Vec::new();
    if row.open > 0 {
        inbox(unit, row, &mut tasks, room)?;
    }
    if tasks.is_empty() && *room > 0 && !row.needs_host() {
        tasks.push(Task::Release);
    }
    Ok(tasks)
}

/// The tasks of the open commands, from the head of the inbox on.
fn inbox(unit: &mut Unit<'_>, session: &SessionRow, tasks: &mut Vec<Task>, room: &mut usize) -> Ruling<()> {
    let span = unit.settings.inbox_max as usize * unit.settings.inbox_span as usize;
    let mut scan = Scan::of(&INBOX, vec![session.tenant.to_value(), session.session.to_value()], COMMANDS_MAX);
    scan.after = Some(vec![Value::Int(i64::try_from(session.head.saturating_sub(1)).unwrap_or(i64::MAX))]);
    for _ in 0..span.div_ceil(COMMANDS_MAX) {
        let rows = unit.scan(&scan)?;
        for values in &rows {
            scan.after = Some(scan.position(values));
            let Some(row) = unit.readable(CommandRow::of_values(values).map_err(StoreError::from))? else { continue };
            let found = task(unit, session, row);
            if let Some(task) = unit.readable(found)?.flatten() {
                let Some(left) = room.checked_sub(payload_len(&task)).filter(|left| *left > 0) else {
                    *room = 0;
                    return Ok(());
                };
                *room = left;
                tasks.push(task);
            }
            if tasks.len() == COMMANDS_MAX {
                return Ok(());
            }
        }
        if rows.len() < COMMANDS_MAX {
            break;
        }
    }
    Ok(())
}

/// What the command of a task carries itself.
fn payload_len(task: &Task) -> usize {
    match task {
        Task::Deliver(entry) | Task::Settle(entry) => match &entry.payload {
            Payload::Inline(bytes) => bytes.len(),
            Payload::Stored(_) => 0,
        },
        Task::Acquire | Task::Release => 0,
    }
}

fn task(unit: &mut Unit<'_>, session: &SessionRow, row: CommandRow) -> Ruling<Option<Task>> {
    if row.state.is_terminal() || matches!(row.state, CommandState::Unrecognized(_)) {
        return Ok(None);
    }
    let is_expired = row.deadline.has_passed(unit.now);
    let is_own = row.claim_epoch == Some(session.epoch);
    // Only what was claimed can have left something behind.
    if row.deliveries > 0 && (is_expired || !is_own) {
        let evidence = evidence(unit, &row)?;
        if settleable(unit.now, &row, evidence, session.epoch).is_some() {
            return Ok(Some(Task::Settle(Box::new(DispositionInboxEntry(row.entry()?)))));
        }
    }
    let is_in_hand = is_own && (row.state == CommandState::Applying || row.is_claimed(unit.now));
    let is_left_alone = !is_own && is_exhausted(unit, &row);
    if is_expired || is_in_hand || is_left_alone {
        return Ok(None);
    }
    Ok(Some(Task::Deliver(Box::new(DispositionInboxEntry(row.entry()?)))))
}

/// A command's journal; with number zero, the session's fences.
pub(crate) fn journal(
    unit: &mut Unit<'_>,
    tenant: &Tenant,
    session: SessionId,
    seq: CommandSeq,
    limit: usize,
) -> Ruling<Vec<JournalEntry>> {
    let prefix = vec![tenant.to_value(), session.to_value(), seq.to_value()];
    let rows = unit.scan(&Scan::of(&EVIDENCE, prefix, limit))?;
    let rows = rows.iter().map(|values| JournalRow::of_values(values).map(|row| row.entry()));
    rows.collect::<Result<_, _>>().map_err(Into::into)
}
