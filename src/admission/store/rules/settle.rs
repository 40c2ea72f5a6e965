//! How commands end, and what the journal says about them.

use super::{Ruling, catalog, command, resident, session, usage};
use crate::admission::model::{
    CommandEntry, CommandKind, CommandSeq, CommandState, Epoch, JournalStep, OutcomeCode, Refusal, Revision,
    SettleCommandRequest, Timestamp,
};
use crate::admission::store::records::{Column, CommandRow, EVIDENCE, JournalRow, Record, Scan, SessionRow};
use crate::admission::store::unit::{Notice, Unit};

/// Most journal entries of one command that are read: two steps of each of this many epochs. A command is redelivered
/// once per lease, and leases last longer than a second.
const EVIDENCE_MAX: usize = 512;

/// What the journal says about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Nothing: it had no effect.
    None,
    /// It was begun, last at this epoch: it may have had one.
    Begun(Epoch),
    /// It was finished.
    Finished { step: JournalStep, code: Option<OutcomeCode>, at: Timestamp, epoch: Epoch },
}

/// Reads the journal, which alone proves what had an effect (rule P6).
pub(crate) fn evidence(unit: &mut Unit<'_>, row: &CommandRow) -> Ruling<Evidence> {
    let prefix = vec![row.tenant.to_value(), row.session.to_value(), row.seq.to_value()];
    let rows = unit.scan(&Scan::of(&EVIDENCE, prefix, EVIDENCE_MAX))?;
    let mut evidence = Evidence::None;
    for values in &rows {
        let entry = JournalRow::of_values(values)?;
        match entry.step {
            JournalStep::Fence => {}
            JournalStep::Begin => evidence = Evidence::Begun(entry.epoch),
            JournalStep::FinishApplied | JournalStep::FinishRejected => {
                let JournalRow { step, code, at, epoch, .. } = entry;
                return Ok(Evidence::Finished { step, code, at, epoch });
            }
        }
    }
    Ok(evidence)
}

/// How a command is to end.
pub(crate) struct Ending {
    pub(crate) state: CommandState,
    pub(crate) code: OutcomeCode,
    pub(crate) by: String,
    pub(crate) late: bool,
    /// Whether the journal has it as begun.
    pub(crate) had_evidence: bool,
}

impl Ending {
    /// As the journal says that it was finished.
    pub(crate) fn as_finished(
        row: &CommandRow,
        step: JournalStep,
        code: Option<OutcomeCode>,
        at: Timestamp,
        by: String,
    ) -> Self {
        let applied = step == JournalStep::FinishApplied;
        let state = if applied { CommandState::Applied } else { CommandState::Rejected };
        let code = code.unwrap_or_else(|| OutcomeCode::known(OutcomeCode::APPLIED));
        Self { state, code, by, late: row.deadline.has_passed(at), had_evidence: true }
    }
}

/// Ends a command: terminal, immutable, out of the due index and off all counters. The only place where that happens.
pub(crate) fn end(
    unit: &mut Unit<'_>,
    mut session: SessionRow,
    mut row: CommandRow,
    ending: Ending,
) -> Ruling<CommandEntry> {
    let mut usage = usage(unit, &row.tenant)?;
    let head = next_open(unit, &session, row.seq)?;

    usage.open_commands = usage.open_commands.saturating_sub(1);
    session.open = session.open.saturating_sub(1);
    session.begun = session.begun.saturating_sub(u32::from(ending.had_evidence));
    session.head = head;
    row.state = ending.state;
    row.revision = Revision(row.revision.0 + 1);
    row.due_at = None;
    row.outcome_code = Some(ending.code);
    row.outcome_by = Some(ending.by);
    row.outcome_at = Some(unit.now);
    row.late = ending.late;
    // A session is what its create made: one that was not applied made none, and nobody can run or close it later.
    if row.kind == CommandKind::Create && row.seq == CommandSeq(1) && row.state == CommandState::Rejected {
        catalog::close(unit, &mut session, &mut usage);
    }
    if !session.needs_host() && (session.placed_host.is_some() || session.placement_due.is_some()) {
        // Placement takes it off its host, and then looks no more.
        session.placement_due = Some(unit.now);
    }
    unit.put(&usage);
    unit.put(&session);
    unit.put(&row);
    unit.notify(Notice::Command(row.tenant.clone(), row.session, row.seq));
    if let Some(host) = session.placed_host {
        unit.notify(Notice::Host(host));
    }
    Ok(row.entry()?)
}

/// The lowest number that may be open once `ended` is not. Each number is passed once in a session's life.
fn next_open(unit: &mut Unit<'_>, session: &SessionRow, ended: CommandSeq) -> Ruling<u64> {
    let mut head = session.head;
    while head <= session.commands {
        if head != ended.0 {
            // A row that is gone or unreadable is not passed: nobody knows that it ended.
            let read = unit.get::<CommandRow>(CommandRow::key(&session.tenant, &session.session, &CommandSeq(head)));
            let row = unit.readable(read)?.flatten();
            if !row.is_some_and(|row| row.state.is_terminal()) {
                break;
            }
        }
        head += 1;
    }
    Ok(head)
}

/// Rule P5: the holder of a newer fence settles what an older epoch left, without a begin.
pub(crate) fn settle(unit: &mut Unit<'_>, request: &SettleCommandRequest) -> Ruling<CommandEntry> {
    let lease = &request.lease;
    let session = session(unit, &lease.tenant, lease.session)?;
    resident(unit, &session, lease)?;
    let row = command(unit, &lease.tenant, lease.session, request.seq)?;
    if row.state.is_terminal() {
        return Ok(row.entry()?);
    }
    if matches!(row.state, CommandState::Unrecognized(_)) {
        return Err(Refusal::Unrecognized.into());
    }
    let evidence = evidence(unit, &row)?;
    match settleable(unit.now, &row, evidence, lease.epoch) {
        Some(ending) => end(unit, session, row, Ending { by: lease.host.as_str().to_owned(), ..ending }),
        None => Err(Refusal::NotSettleable.into()),
    }
}

/// What a lease holder may settle, and how; also decides what the work list offers for settlement.
pub(crate) fn settleable(now: Timestamp, row: &CommandRow, evidence: Evidence, epoch: Epoch) -> Option<Ending> {
    let nobody = String::new();
    match evidence {
        Evidence::None => None,
        // An older epoch finished and its process died before it wrote the row.
        Evidence::Finished { step, code, at, epoch: finished } if finished < epoch => {
            Some(Ending::as_finished(row, step, code, at, nobody))
        }
        // Its own end: the host repeats its completion instead.
        Evidence::Finished { .. } => None,
        // In time it is redelivered. Under its own epoch only what never became applying is settled: the host was told
        // that it may not begin.
        Evidence::Begun(begun) => {
            let abandoned = begun < epoch || row.state != CommandState::Applying;
            (row.deadline.has_passed(now) && abandoned).then(|| Ending {
                state: CommandState::Rejected,
                code: OutcomeCode::known(OutcomeCode::CLAIMED_NOT_APPLIED),
                by: nobody,
                late: false,
                had_evidence: true,
            })
        }
    }
}
