//! What is due in a control shard: a range of one index, so the cost is that of the rows examined (rule P7).

use super::Ruling;
use crate::admission::model::{
    CommandState, DueCommand, DueCommandPage, DueInShard, DuePosition, ListDueCommandsRequest, ProtocolMode,
};
use crate::admission::store::records::{Column, DUE, DUE_COLUMNS, Scan, Value, due_command, due_position};
use crate::admission::store::unit::Unit;

pub(crate) fn list(
    unit: &mut Unit<'_>,
    family: ProtocolMode,
    request: &ListDueCommandsRequest,
) -> Ruling<DueCommandPage> {
    let after = request.after.as_ref().map(sorted_values);
    let rows = unit.scan(&Scan {
        upto: Some(request.due_by.to_value()),
        after,
        columns: Some(&DUE_COLUMNS),
        ..Scan::of(&DUE, vec![family.to_value(), request.shard.to_value()], request.limit)
    })?;
    let is_last = rows.len() < request.limit;
    let next = if is_last { None } else { rows.last().and_then(|values| due_position(values)) };
    let readable: Vec<_> = rows.iter().filter_map(|values| readable(family, values)).collect();
    Ok(DueCommandPage {
        examined: rows.len(),
        unreadable: rows.len() - readable.len(),
        commands: readable,
        next,
        read_at: unit.now,
    })
}

/// Most rows that a summary counts.
const COUNTED_MAX: usize = 1_000;

/// How much is due in a shard of the disposition family, without reading all of it.
pub(crate) fn summary(unit: &mut Unit<'_>, shard: u32) -> Ruling<DueInShard> {
    let rows = unit.scan(&Scan {
        upto: Some(unit.now.to_value()),
        columns: Some(&DUE_COLUMNS),
        ..Scan::of(&DUE, vec![ProtocolMode::Disposition.to_value(), shard.to_value()], COUNTED_MAX + 1)
    })?;
    let oldest = rows.first().and_then(|values| due_position(values)).map(|position| position.deadline);
    let (due, is_more) = (rows.len().min(COUNTED_MAX), rows.len() > COUNTED_MAX);
    Ok(DueInShard { shard, due, is_more, oldest, read_at: unit.now })
}

/// The legacy states are all there will ever be, so another one is a damaged row; the disposition family may grow.
fn readable(family: ProtocolMode, values: &[Value]) -> Option<DueCommand> {
    let command = due_command(values).ok()?;
    let is_foreign = matches!(command.state, CommandState::Unrecognized(_));
    if family == ProtocolMode::Legacy && is_foreign { None } else { Some(command) }
}

fn sorted_values(position: &DuePosition) -> Vec<Value> {
    vec![
        position.deadline.to_value(),
        Value::Text(position.tenant.clone()),
        Value::Blob(position.session.clone()),
        position.seq.to_value(),
    ]
}
