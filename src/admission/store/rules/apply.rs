//! The three steps of an application: claim, begin, complete; the last two with the journal first (rule P5).

use super::settle::{Ending, Evidence, end, evidence, settleable};
use super::{Ruling, command, fenced, resident, session};
use crate::admission::model::{
    BeginCommandRequest, ClaimCommandRequest, CommandEntry, CommandSeq, CommandState, CompleteCommandRequest,
    Completion, Epoch, JournalEntry, JournalStep, LeaseRef, OutcomeCode, ProtocolMode, Refusal, Revision,
};
use crate::admission::store::records::{CommandRow, JournalRow, SessionRow};
use crate::admission::store::unit::{Notice, Unit};

/// A command that a host of this build may touch.
fn runnable(row: &CommandRow) -> Ruling<()> {
    if row.family == ProtocolMode::Legacy {
        return Err(Refusal::LegacySessionUnsupported.into());
    }
    if matches!(row.state, CommandState::Unrecognized(_)) {
        return Err(Refusal::Unrecognized.into());
    }
    Ok(())
}

/// The session and one of its commands that has not ended, for who holds the lease.
fn open_command(unit: &mut Unit<'_>, lease: &LeaseRef, seq: CommandSeq) -> Ruling<(SessionRow, CommandRow)> {
    let session = session(unit, &lease.tenant, lease.session)?;
    resident(unit, &session, lease)?;
    let row = command(unit, &lease.tenant, lease.session, seq)?;
    runnable(&row)?;
    if row.state.is_terminal() { Err(Refusal::Settled.into()) } else { Ok((session, row)) }
}

fn in_time(unit: &Unit<'_>, row: &CommandRow) -> Ruling<()> {
    if row.deadline.has_passed(unit.now) { Err(Refusal::Late { deadline: row.deadline }.into()) } else { Ok(()) }
}

/// Claims, extends, or takes over from an older epoch. What an older epoch had finished is settled instead of handed out
/// again.
pub(crate) fn claim(unit: &mut Unit<'_>, request: &ClaimCommandRequest) -> Ruling<CommandEntry> {
    let lease = &request.lease;
    let (session, mut row) = open_command(unit, lease, request.seq)?;
    if request.revision.is_some_and(|revision| revision != row.revision) {
        return Err(Refusal::RevisionMoved { current: row.revision }.into());
    }
    let evidence = evidence(unit, &row)?;
    if matches!(evidence, Evidence::Finished { .. }) {
        return match settleable(unit.now, &row, evidence, lease.epoch) {
            Some(ending) => end(unit, session, row, Ending { by: lease.host.as_str().to_owned(), ..ending }),
            None => Err(Refusal::Applying.into()),
        };
    }
    in_time(unit, &row)?;
    if row.state == CommandState::Applying && row.applying == Some(lease.epoch) {
        return Err(Refusal::Applying.into());
    }
    // A claim of this epoch is extended, also a lapsed one; one of an older epoch fell with its fence.
    if row.claim_epoch != Some(lease.epoch) {
        if is_exhausted(unit, &row) {
            return Err(Refusal::DeliveredTooOften { limit: unit.settings.deliveries_max }.into());
        }
        row.deliveries += 1;
    }
    row.state = CommandState::Claimed;
    row.applying = None;
    row.claim_host = Some(lease.host.clone());
    row.claim_epoch = Some(lease.epoch);
    row.claim_until = Some(unit.now.plus(request.ttl).min(row.deadline));
    write(unit, row)
}

/// Whether as many leases have had it as may: a command that takes down each host that applies it must not take down all
/// of them. It may have run, so nothing but its deadline ends it (rules P5, P6).
pub(crate) fn is_exhausted(unit: &Unit<'_>, row: &CommandRow) -> bool {
    row.deliveries >= unit.settings.deliveries_max
}

fn write(unit: &mut Unit<'_>, mut row: CommandRow) -> Ruling<CommandEntry> {
    row.revision = Revision(row.revision.0 + 1);
    unit.put(&row);
    unit.notify(Notice::Command(row.tenant.clone(), row.session, row.seq));
    Ok(row.entry()?)
}

/// The claim of this very epoch, alive.
fn claimed(unit: &Unit<'_>, row: &CommandRow, epoch: Epoch) -> Ruling<()> {
    let is_own = row.claim_epoch == Some(epoch) && row.is_claimed(unit.now);
    if is_own { Ok(()) } else { Err(Refusal::ClaimLost.into()) }
}

pub(crate) fn journal_begin(unit: &mut Unit<'_>, request: &BeginCommandRequest) -> Ruling<JournalEntry> {
    let lease = &request.lease;
    let (mut session, row) = open_command(unit, lease, request.seq)?;
    in_time(unit, &row)?;
    let key = JournalRow::key(&lease.tenant, &lease.session, &request.seq, &lease.epoch, &JournalStep::Begin);
    if let Some(known) = unit.get::<JournalRow>(key)? {
        return Ok(known.entry());
    }
    claimed(unit, &row, lease.epoch)?;
    if evidence(unit, &row)? == Evidence::None {
        session.begun += 1;
    }
    Ok(append(unit, session, &lease.host, request, JournalStep::Begin, None))
}

pub(crate) fn begin_applying(unit: &mut Unit<'_>, request: &BeginCommandRequest) -> Ruling<CommandEntry> {
    let lease = &request.lease;
    let (_, mut row) = open_command(unit, lease, request.seq)?;
    if row.state == CommandState::Applying && row.applying == Some(lease.epoch) {
        return Ok(row.entry()?);
    }
    in_time(unit, &row)?;
    let key = JournalRow::key(&lease.tenant, &lease.session, &request.seq, &lease.epoch, &JournalStep::Begin);
    if unit.get::<JournalRow>(key)?.is_none() {
        return Err(Refusal::NotBegun.into());
    }
    if row.claim_epoch != Some(lease.epoch) {
        return Err(Refusal::ClaimLost.into());
    }
    row.state = CommandState::Applying;
    row.applying = Some(lease.epoch);
    write(unit, row)
}

/// Journals how it went. A lapsed lease does not matter as long as no newer fence was written: nobody else can have
/// settled the command, and the epoch had begun in time (rule P5).
pub(crate) fn journal_finish(unit: &mut Unit<'_>, request: &CompleteCommandRequest) -> Ruling<JournalEntry> {
    let lease = &request.lease;
    let session = session(unit, &lease.tenant, lease.session)?;
    fenced(&session, lease)?;
    let row = command(unit, &lease.tenant, lease.session, request.seq)?;
    runnable(&row)?;
    if let Some(known) = finished(unit, request)? {
        return if says(&known, &request.completion) { Ok(known.entry()) } else { Err(Refusal::Settled.into()) };
    }
    if row.state.is_terminal() {
        return Err(Refusal::Settled.into());
    }
    if row.state != CommandState::Applying || row.applying != Some(lease.epoch) {
        return Err(Refusal::NotBegun.into());
    }
    let (step, code) = match &request.completion {
        Completion::Applied => (JournalStep::FinishApplied, None),
        Completion::Rejected(code) => (JournalStep::FinishRejected, Some(code.clone())),
    };
    let begin = BeginCommandRequest { lease: lease.clone(), seq: request.seq };
    Ok(append(unit, session, &lease.host, &begin, step, code))
}

pub(crate) fn complete(unit: &mut Unit<'_>, request: &CompleteCommandRequest) -> Ruling<CommandEntry> {
    let lease = &request.lease;
    let session = session(unit, &lease.tenant, lease.session)?;
    fenced(&session, lease)?;
    let row = command(unit, &lease.tenant, lease.session, request.seq)?;
    runnable(&row)?;
    let Some(known) = finished(unit, request)? else {
        let refusal = if row.state.is_terminal() { Refusal::Settled } else { Refusal::NotBegun };
        return Err(refusal.into());
    };
    if !says(&known, &request.completion) {
        return Err(Refusal::Settled.into());
    }
    if row.state.is_terminal() {
        // A repeated completion (case Q3): the journal has it at this epoch, so it is this one that ended the command.
        return Ok(row.entry()?);
    }
    let by = lease.host.as_str().to_owned();
    let ending = Ending::as_finished(&row, known.step, known.code, known.at, by);
    end(unit, session, row, ending)
}

/// What the journal has about this command's end at this epoch.
fn finished(unit: &mut Unit<'_>, request: &CompleteCommandRequest) -> Ruling<Option<JournalRow>> {
    let CompleteCommandRequest { lease, seq, .. } = request;
    for step in [JournalStep::FinishApplied, JournalStep::FinishRejected] {
        let key = JournalRow::key(&lease.tenant, &lease.session, seq, &lease.epoch, &step);
        if let Some(row) = unit.get::<JournalRow>(key)? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn says(row: &JournalRow, completion: &Completion) -> bool {
    match completion {
        Completion::Applied => row.step == JournalStep::FinishApplied,
        Completion::Rejected(code) => row.step == JournalStep::FinishRejected && row.code.as_ref() == Some(code),
    }
}

fn append(
    unit: &mut Unit<'_>,
    mut session: SessionRow,
    host: &crate::admission::model::HostId,
    request: &BeginCommandRequest,
    step: JournalStep,
    code: Option<OutcomeCode>,
) -> JournalEntry {
    session.journal_len += 1;
    let row = JournalRow {
        tenant: session.tenant.clone(),
        session: session.session,
        seq: request.seq,
        epoch: request.lease.epoch,
        step,
        position: session.journal_len,
        host: host.clone(),
        at: unit.now,
        code,
    };
    unit.put(&session);
    unit.put(&row);
    row.entry()
}
