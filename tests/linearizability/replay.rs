//! Linearizability without a search: every accepted answer carries the commit that it stands for, so the order is known.
//! What remains is to replay it on the model, and to see that it agrees with real time.

use crate::history::{Asked, Call, Heard, History};
use crate::judge::agrees;
use crate::naive::Model;
use crate::support::{PROTOCOL, scope};
use rendezvous::domain::*;

/// From which to which commit a call may have seen, by the beginnings and ends of the others.
#[derive(Clone, Copy, Debug)]
struct Window {
    at_least: u64,
    at_most: u64,
}

/// The commit that a call's answer stands for; refusals have none.
fn commit_of(call: &Call) -> Option<u64> {
    match &call.heard {
        Heard::Answer(answer) => answer.as_ref().as_ref().ok().map(|reply| reply.commit),
        Heard::Page(page) => Some(page.commit),
    }
}

fn command_of(call: &Call) -> Option<&Command> {
    match &call.asked {
        Asked::Command(command) => Some(command),
        Asked::Browse => None,
    }
}

fn answer_of(call: &Call) -> Option<&Result<Reply, Failure>> {
    match &call.heard {
        Heard::Answer(answer) => Some(answer),
        Heard::Page(_) => None,
    }
}

/// Says what is wrong with a history, if anything is.
pub(crate) fn check(history: &History) -> Result<(), String> {
    let windows = windows(history);
    let mut waiting: Vec<usize> =
        (0..history.calls.len()).filter(|at| commit_of(&history.calls[*at]).is_none()).collect();
    let mut by_commit: Vec<usize> =
        (0..history.calls.len()).filter(|at| commit_of(&history.calls[*at]).is_some()).collect();
    by_commit.sort_by_key(|at| (commit_of(&history.calls[*at]), history.calls[*at].begun));
    let last = by_commit.last().and_then(|at| commit_of(&history.calls[*at])).unwrap_or(0);
    let mut model = Model::new(Limits::default());
    let mut group = by_commit.as_slice();
    for commit in 0..=last {
        let size = group.iter().take_while(|at| commit_of(&history.calls[**at]) == Some(commit)).count();
        let (here, rest) = group.split_at(size);
        group = rest;
        let writer = match commit {
            0 => read_all(history, here, None, &windows, &model, 0).map(|()| None)?,
            _ => Some(advance(history, here, &windows, &mut model, commit)?),
        };
        if let Some(at) = writer
            && !(windows[at].at_least < commit && commit <= windows[at].at_most)
        {
            let (window, call) = (windows[at], &history.calls[at]);
            return Err(format!("commit {commit} is not in the order of real time, {window:?}: {call:?}"));
        }
        waiting.retain(|at| {
            let window = windows[*at];
            let is_open = window.at_least <= commit && commit <= window.at_most;
            !(is_open && is_right(history, *at, &model, commit))
        });
        if let Some(late) = waiting.iter().find(|at| windows[**at].at_most.min(last) <= commit) {
            return Err(format!("no state explains this refusal, {:?}: {:?}", windows[*late], history.calls[*late]));
        }
    }
    Ok(())
}

/// Applies the one command that took this number: one that changes something here, after which all others that answered
/// with this number are right.
fn advance(
    history: &History,
    here: &[usize],
    windows: &[Window],
    model: &mut Model,
    commit: u64,
) -> Result<usize, String> {
    let mut why = "nobody changed anything".to_owned();
    for at in here {
        let call = &history.calls[*at];
        let (Some(command), Some(answer)) = (command_of(call), answer_of(call)) else { continue };
        let mut next = model.clone();
        let verdict = next.apply(history.at, command, commit);
        if !(verdict.changes && agrees(&next, command, &verdict, answer)) {
            continue;
        }
        match read_all(history, here, Some(*at), windows, &next, commit) {
            Ok(()) => {
                *model = next;
                return Ok(*at);
            }
            Err(other) => why = other,
        }
    }
    let calls: Vec<_> = here.iter().map(|at| &history.calls[*at]).collect();
    Err(format!("nothing explains commit {commit}, {why}: {calls:?}"))
}

/// All answers with this number but the writer's.
fn read_all(
    history: &History,
    here: &[usize],
    writer: Option<usize>,
    windows: &[Window],
    model: &Model,
    commit: u64,
) -> Result<(), String> {
    let mut others = here.iter().filter(|at| Some(**at) != writer);
    others.try_for_each(|at| reads(history, *at, windows[*at], model, commit))
}

/// An accepted answer that changed nothing, or a page: as of its commit, and not older than real time allows.
fn reads(history: &History, at: usize, window: Window, model: &Model, commit: u64) -> Result<(), String> {
    let call = &history.calls[at];
    let is_in_time = window.at_least <= commit && commit <= window.at_most;
    let is_right = match &call.heard {
        Heard::Answer(_) => is_right(history, at, model, commit),
        Heard::Page(page) => {
            let shown = model.projection(&scope(PROTOCOL), history.at.mono, false);
            let rows = page.rows.iter().map(|row| (row.id, row.name().to_owned()));
            shown.iter().map(|listing| (listing.asked.id, listing.asked.details.fields().name.clone())).eq(rows)
        }
    };
    if is_right && is_in_time {
        return Ok(());
    }
    Err(format!("not what commit {commit} says, or not in time, {window:?}: {call:?}"))
}

/// Whether the model answers a call alike, without a change.
fn is_right(history: &History, at: usize, model: &Model, commit: u64) -> bool {
    let call = &history.calls[at];
    let (Some(command), Some(answer)) = (command_of(call), answer_of(call)) else { return false };
    let mut copy = model.clone();
    let verdict = copy.apply(history.at, command, commit);
    !verdict.changes && agrees(&copy, command, &verdict, answer)
}

/// What had been answered before a call began is in what it saw; what began after its end is not.
fn windows(history: &History) -> Vec<Window> {
    let ends_of: Vec<(u64, u64)> = sorted(history.calls.iter().filter_map(|call| Some((call.ended, commit_of(call)?))));
    let begun: Vec<(u64, u64)> = sorted(history.calls.iter().filter_map(|call| Some((call.begun, commit_of(call)?))));
    let highest_before: Vec<u64> = ends_of
        .iter()
        .scan(0, |most, (_, commit)| {
            *most = (*most).max(*commit);
            Some(*most)
        })
        .collect();
    let mut lowest_after: Vec<u64> = begun
        .iter()
        .rev()
        .scan(u64::MAX, |least, (_, commit)| {
            *least = (*least).min(*commit);
            Some(*least)
        })
        .collect();
    lowest_after.reverse();
    let window = |call: &Call| {
        let ended = ends_of.partition_point(|(at, _)| *at < call.begun);
        let later = begun.partition_point(|(at, _)| *at <= call.ended);
        Window {
            at_least: ended.checked_sub(1).map_or(0, |last| highest_before[last]),
            at_most: lowest_after.get(later).copied().unwrap_or(u64::MAX),
        }
    };
    history.calls.iter().map(window).collect()
}

fn sorted(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<_> = pairs.collect();
    sorted.sort_unstable();
    sorted
}
