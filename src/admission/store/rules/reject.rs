//! The sweep's one write (rule P6).

use super::settle::{Ending, Evidence, end, evidence};
use super::{Ruling, command, session};
use crate::admission::model::{
    CommandEntry, CommandSeq, CommandState, OutcomeCode, PrincipalName, ProtocolMode, Refusal, Revision, SessionId,
    Tenant,
};
use crate::admission::store::records::CommandRow;
use crate::admission::store::unit::Unit;

/// What both families' rejections say.
pub(crate) struct Reject<'a> {
    pub(crate) family: ProtocolMode,
    pub(crate) tenant: &'a Tenant,
    pub(crate) session: SessionId,
    pub(crate) seq: CommandSeq,
    pub(crate) revision: Revision,
    pub(crate) by: &'a PrincipalName,
}

/// Rejects an expired command, or says which part of rule P6 forbids it. `false` when this very rejection had happened.
pub(crate) fn reject(unit: &mut Unit<'_>, request: &Reject<'_>) -> Ruling<(CommandEntry, bool)> {
    let row = command(unit, request.tenant, request.session, request.seq)?;
    if row.family != request.family {
        return Err(Refusal::UnknownCommand.into());
    }
    if row.state.is_terminal() {
        let is_repeat = row.state == CommandState::Rejected
            && row.revision.0 == request.revision.0 + 1
            && row.outcome_by.as_deref() == Some(request.by.as_str());
        return if is_repeat { Ok((row.entry()?, false)) } else { Err(Refusal::Settled.into()) };
    }
    forbidden(unit, &row, request.revision)?;
    // Legacy sessions have no journal: nothing of theirs was ever applied at an epoch.
    if evidence(unit, &row)? != Evidence::None {
        return Err(Refusal::Evidence.into());
    }
    let session = session(unit, request.tenant, request.session)?;
    // Rule P5: what was claimed may have run, what was not did not, and the caller is told which.
    let code = if row.deliveries == 0 { OutcomeCode::NEVER_CLAIMED } else { OutcomeCode::CLAIMED_NOT_APPLIED };
    let ending = Ending {
        state: CommandState::Rejected,
        code: OutcomeCode::known(code),
        by: request.by.as_str().to_owned(),
        late: false,
        had_evidence: false,
    };
    end(unit, session, row, ending).map(|entry| (entry, true))
}

/// Everything of rule P6 but the journal.
fn forbidden(unit: &Unit<'_>, row: &CommandRow, revision: Revision) -> Ruling<()> {
    if row.revision != revision {
        return Err(Refusal::RevisionMoved { current: row.revision }.into());
    }
    if matches!(row.state, CommandState::Unrecognized(_)) {
        return Err(Refusal::Unrecognized.into());
    }
    if !row.deadline.has_passed(unit.now) {
        return Err(Refusal::Unexpired.into());
    }
    if row.is_claimed(unit.now) {
        return Err(Refusal::ClaimLive.into());
    }
    if row.state == CommandState::Applying {
        return Err(Refusal::Applying.into());
    }
    Ok(())
}
