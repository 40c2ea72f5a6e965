//! What hosts do: register, find work, hold leases, apply commands.

use super::tenants::answer;
use super::{Commands, Poll, command_in, convert, problem, session_in};
use crate::admission::{
    CommandEntry, CommandSeq, Completion, Epoch, HostId, HostTargetKey, Lease, LeaseRef, OutcomeCode, Principal,
    Revision, SessionId, Task, Tenant, Work,
};
use crate::edge::http::answer::{Answer, Cache};
use crate::edge::http::call::Call;
use crate::edge::http::edge::Edge;
use crate::edge::http::headers::optional_if_match;
use crate::edge::http::problem::Problem;
use crate::wire::FieldError;
use crate::wire::commands::{
    BeginBody, ClaimBody, CompleteBody, HostAnswer, HostBody, LeaseAction, LeaseBody, LeaseGrantAnswer, ResultName,
    TaskAnswer, TaskName, WorkAnswer, WorkItem,
};
use hyper::StatusCode;
use std::time::Duration;

/// The host in the path: letters, digits and `. _ ~ -`, which need no escapes there.
fn host_in(call: &Call<'_>) -> Result<HostId, Problem> {
    let legal = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte));
    let host = call.routed.id.filter(legal).and_then(|text| HostId::new(text).ok());
    host.ok_or_else(|| Problem::invalid("a host's id has 1 to 64 letters, digits and . _ ~ -"))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) async fn put(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let credential = edge.host(call)?;
    let host = host_in(call)?;
    call.query()?;
    let body: HostBody = call.json(edge).await?;
    let key = HostTargetKey::new(&body.target_key)
        .map_err(|error| Problem::invalid_field(FieldError::new("/target_key", error.to_string())))?;
    let hosts = commands.plane.hosts();
    let entry = hosts.heartbeat(credential.principal(), host, key, body.capacity).await.map_err(problem::of)?;
    let body = HostAnswer {
        host: entry.host.to_string(),
        target_key: entry.key.to_string(),
        capacity: entry.capacity,
        placed: entry.placed,
        expires_at: convert::time(entry.seen_until),
        heartbeat_ttl_ms: millis(hosts.heartbeat_ttl()),
    };
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

pub(super) async fn work(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let credential = edge.host(call)?;
    let host = host_in(call)?;
    let mut query = call.query()?;
    let poll = Poll::of(call, &mut query)?;
    let released = commands.plane.polls_are_released();
    let asked = commands.plane.hosts().work(credential.principal(), &host, poll.wait(call));
    let work = poll.counted(edge, asked).await.map_err(problem::of)?;
    if work.is_empty() {
        poll.refuse_when_draining(edge, call, released)?;
    }
    let body = WorkAnswer { work: work.into_iter().map(item).collect() };
    Ok(poll.dress(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore)))
}

fn item(work: Work) -> WorkItem {
    let tasks = work.tasks.iter().map(|task| {
        let (task, entry) = match task {
            Task::Acquire => (TaskName::Acquire, None),
            Task::Deliver(entry) => (TaskName::Deliver, Some(entry)),
            Task::Settle(entry) => (TaskName::Settle, Some(entry)),
            Task::Release => (TaskName::Release, None),
        };
        let command = entry.map(|entry| convert::command_for_host(entry, convert::TO_DELIVER));
        TaskAnswer { task, command }
    });
    WorkItem {
        tenant: work.session.tenant.to_string(),
        session: convert::session(&work.session, None),
        tasks: tasks.collect(),
    }
}

pub(super) async fn lease(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let (tenant, credential) = edge.host_in_tenant(commands, call)?;
    call.query()?;
    let body: LeaseBody = call.json(edge).await?;
    let session = session_in(call)?;
    let host = convert::host(&body.host).map_err(Problem::invalid_field)?;
    let (by, hosts) = (credential.principal(), commands.plane.hosts());
    let ttl = convert::duration(body.ttl_ms);
    let named = || LeaseRef::new(tenant.clone(), session, host.clone(), Epoch(body.epoch.unwrap_or_default()));
    let lease = match body.action {
        LeaseAction::Acquire => hosts.acquire_lease(by, &host, tenant, session, ttl).await,
        LeaseAction::Renew => hosts.renew_lease(by, named(), ttl).await,
        LeaseAction::Release => {
            hosts.release_lease(by, named(), body.close).await.map_err(problem::of)?;
            return Ok(Answer::empty(StatusCode::NO_CONTENT));
        }
    };
    let Lease { host, epoch, until } = lease.map_err(problem::of)?;
    let body = LeaseGrantAnswer {
        session_id: session.to_string(),
        host: host.to_string(),
        epoch: epoch.0,
        expires_at: convert::time(until),
        ttl_ms: millis(hosts.granted(ttl)),
    };
    Ok(Answer::json(StatusCode::OK, &body).cache(Cache::PrivateNoStore))
}

/// One step of an application: the command in the path, under the lease in the body.
struct Step<'e> {
    tenant: Tenant,
    by: &'e Principal,
    session: SessionId,
    seq: CommandSeq,
}

impl<'e> Step<'e> {
    fn of(edge: &'e Edge, commands: &Commands, call: &Call<'_>) -> Result<Self, Problem> {
        let (tenant, credential) = edge.host_in_tenant(commands, call)?;
        call.query()?;
        Ok(Self { tenant, by: credential.principal(), session: session_in(call)?, seq: command_in(call)? })
    }

    fn lease(&self, host: &str, epoch: u64) -> Result<LeaseRef, Problem> {
        let host = convert::host(host).map_err(Problem::invalid_field)?;
        Ok(LeaseRef::new(self.tenant.clone(), self.session, host, Epoch(epoch)))
    }
}

fn stepped(entry: &CommandEntry) -> Answer {
    answer(&convert::command_for_host(entry, convert::JUST_WRITTEN))
}

pub(super) async fn claim(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let step = Step::of(edge, commands, call)?;
    let revision = optional_if_match(call.headers())?.map(Revision);
    let body: ClaimBody = call.json(edge).await?;
    let lease = step.lease(&body.host, body.epoch)?;
    let ttl = convert::duration(body.ttl_ms);
    let claimed = commands.plane.hosts().claim(step.by, lease, step.seq, ttl, revision).await;
    Ok(stepped(&*claimed.map_err(problem::of)?))
}

pub(super) async fn begin(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let step = Step::of(edge, commands, call)?;
    let body: BeginBody = call.json(edge).await?;
    let lease = step.lease(&body.host, body.epoch)?;
    let begun = commands.plane.hosts().begin(step.by, lease, step.seq).await;
    Ok(stepped(&*begun.map_err(problem::of)?))
}

pub(super) async fn complete(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let step = Step::of(edge, commands, call)?;
    let body: CompleteBody = call.json(edge).await?;
    let lease = step.lease(&body.host, body.epoch)?;
    let completion = completion(&body).map_err(Problem::invalid_field)?;
    let completed = commands.plane.complete(&edge.service, step.by, lease, step.seq, completion).await;
    Ok(stepped(&completed.map_err(|error| problem::of_completion(error, call.now.mono))?))
}

fn completion(body: &CompleteBody) -> Result<Completion, FieldError> {
    match body.result {
        ResultName::Applied => Ok(Completion::Applied),
        ResultName::Rejected => {
            let refused = |detail: String| FieldError::new("/code", detail);
            let word = body.code.as_deref().unwrap_or_default();
            let code = OutcomeCode::new(word).map_err(|error| refused(error.to_string()))?;
            if code.is_expiry() || code.as_str() == OutcomeCode::APPLIED {
                return Err(refused("must be a word of the host's own".to_owned()));
            }
            Ok(Completion::Rejected(code))
        }
    }
}

pub(super) async fn settle(edge: &Edge, commands: &Commands, call: &mut Call<'_>) -> Result<Answer, Problem> {
    let step = Step::of(edge, commands, call)?;
    let body: BeginBody = call.json(edge).await?;
    let lease = step.lease(&body.host, body.epoch)?;
    let settled = commands.plane.hosts().settle(step.by, lease, step.seq).await;
    Ok(stepped(&*settled.map_err(problem::of)?))
}
