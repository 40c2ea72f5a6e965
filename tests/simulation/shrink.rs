//! From a plan that fails to a smaller one that fails alike.

use crate::plan::{Plan, Step};
use crate::report::Report;
use crate::world::simulate;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Runs that shrinking may take: some seconds.
const RUNS_MAX: usize = 600;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a plan; what broke, if anything did.
pub(crate) fn run(plan: &Plan, trace: bool) -> Result<Report, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                loud(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| simulate(plan, trace)));
    IS_QUIET.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// What kind of failure it is: the rule, or the first words. A smaller plan has to fail for the same reason.
fn kind(failure: &str) -> &str {
    failure.split([':', '\n']).next().unwrap_or_default()
}

/// The smallest plan found, with what it breaks by the word of `fails`.
pub(crate) fn shrink(plan: &Plan, failure: String, fails: impl Fn(&Plan) -> Option<String>) -> (Plan, String) {
    let mut best = (plan.clone(), failure);
    let mut runs = 0;
    let mut attempt = |candidate: Plan, best: &mut (Plan, String)| {
        runs += 1;
        let failure = if runs <= RUNS_MAX { fails(&candidate) } else { None };
        if let Some(failure) = failure.filter(|failure| kind(failure) == kind(&best.1)) {
            *best = (candidate, failure);
        }
    };
    // What comes after the failure is not needed for it: from the back, in halves, quarters and so on.
    let mut size = best.0.steps.len().div_ceil(2);
    while size > 0 {
        let mut end = best.0.steps.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let rest: Vec<Step> = [&best.0.steps[..start], &best.0.steps[end..]].concat();
            attempt(Plan { steps: rest, ..best.0.clone() }, &mut best);
            end = start;
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    for actor in 0..plan.knobs.actors() {
        let mut fewer = best.0.clone();
        fewer.absent.insert(actor);
        attempt(fewer, &mut best);
    }
    for calm in [
        |plan: &mut Plan| plan.knobs.lost = 0,
        |plan: &mut Plan| plan.knobs.doubled = 0,
        |plan: &mut Plan| (plan.knobs.request_lost, plan.knobs.answer_lost) = (0, 0),
        |plan: &mut Plan| plan.knobs.polls = false,
    ] {
        let mut easier = best.0.clone();
        calm(&mut easier);
        attempt(easier, &mut best);
    }
    best
}

/// All about a failure: what broke, the smallest plan, its trace, and how to see it again.
pub(crate) fn explain(seed: u64, failure: String) -> String {
    let (plan, failure) = shrink(&Plan::of(seed), failure, |plan| run(plan, false).err());
    println!("\nthe trace of the smallest plan of seed {seed} that fails alike:");
    let again = run(&plan, true);
    let steps: Vec<String> = plan.steps.iter().map(|step| format!("  {step:?}")).collect();
    format!(
        "{failure}\n\nsmallest plan: {:?}, without {:?}\n{}\nthe same again: {}\nreplay with RENDEZVOUS_SIMULATION_SEED={seed}",
        plan.knobs,
        plan.absent,
        steps.join("\n"),
        again.err() == Some(failure.clone()),
    )
}
