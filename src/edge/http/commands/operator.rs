//! What an operator sees of the command plane.

use super::{Commands, convert, problem};
use crate::admission::{AdmissionView, Counts, LastSweep, PrincipalName, SweepResult};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::problem::Problem;
use crate::wire::commands::{AdmissionAnswer, AdmissionCounts, DueAnswer, SweepAnswer};
use hyper::StatusCode;

pub(super) async fn view(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.operator(call)?;
    call.query()?;
    // A legal name, and the same for every key: which of them it was is nobody's business.
    let name = PrincipalName::new("operator").map_err(|_| Problem::internal())?;
    let view = commands.plane.view(name).await.map_err(problem::of)?;
    let body = admission(commands.plane.store(), view);
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

fn admission(store: &str, view: AdmissionView) -> AdmissionAnswer {
    let oldest = view.oldest_due();
    AdmissionAnswer {
        store: store.to_owned(),
        control_shards: u32::try_from(view.due.len()).unwrap_or(u32::MAX),
        oldest_due: oldest.map(|(deadline, _)| convert::time(deadline)),
        oldest_due_age_ms: oldest.map_or(0, |(_, age)| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        due: view
            .due
            .into_iter()
            .map(|due| DueAnswer {
                shard: due.shard,
                due: due.due,
                is_more: due.is_more,
                oldest: due.oldest.map(convert::time),
            })
            .collect(),
        disposition_sweeps: view.disposition_sweeps.into_iter().map(sweep).collect(),
        legacy_sweeps: view.legacy_sweeps.into_iter().map(sweep).collect(),
        waiting_polls: view.waiting,
        counts: counts(&view.counts),
    }
}

fn sweep(last: LastSweep) -> SweepAnswer {
    let SweepResult {
        shard,
        pages,
        examined,
        unreadable,
        due,
        rejected,
        claimed,
        released,
        dispositions,
        queries,
        release_failures,
        truncated,
        resumed,
    } = last.result;
    SweepAnswer {
        shard,
        at: convert::time(last.at),
        pages,
        examined,
        unreadable,
        due,
        rejected,
        claimed,
        released,
        release_failures,
        queries,
        truncated,
        resumed,
        dispositions: dispositions.into_iter().map(|(fate, count)| (fate.to_string(), count)).collect(),
    }
}

fn counts(counts: &Counts) -> AdmissionCounts {
    AdmissionCounts {
        admitted: counts.admitted.iter().map(|(kind, count)| (kind.as_str().to_owned(), *count)).collect(),
        refused: counts.refused.iter().map(|(code, count)| (code.as_str().to_owned(), *count)).collect(),
        dispositions: counts.dispositions.iter().map(|(fate, count)| (fate.to_string(), *count)).collect(),
        events: counts.events().into_iter().map(|(name, _, count)| (name.to_owned(), count)).collect(),
    }
}
