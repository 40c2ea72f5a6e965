//! One function for each endpoint: checks the caller, reads headers, query and body, asks the service, shapes the answer.

mod attempts;
mod browse;
mod convert;
mod guests;
mod health;
mod listings;
mod operator;

pub(super) use browse::{PAGE_START, PageQuery, PageTag};
pub(super) use listings::{renew_answer, renew_request};

use super::answer::Answer;
use super::call::Call;
use super::commands;
use super::edge::Edge;
use super::problem::Problem;
use super::routes::Endpoint;

/// Handles a routed request.
pub(super) async fn handle(edge: &Edge, call: &mut Call<'_>) -> Result<Answer, Problem> {
    edge.refuse_after_drain(call)?;
    match call.routed.route.endpoint {
        Endpoint::Browse => browse::page(edge, call).await,
        Endpoint::ReadListing => browse::listing(edge, call),
        Endpoint::CreateGuest => guests::create(edge, call).await,
        Endpoint::Register => listings::register(edge, call).await,
        Endpoint::Renew => listings::renew(edge, call).await,
        Endpoint::DeleteListing => listings::delete(edge, call).await,
        Endpoint::ReadLease => listings::lease(edge, call).await,
        Endpoint::CreateAttempt => attempts::create(edge, call).await,
        Endpoint::HostOffers => attempts::offers(edge, call).await,
        Endpoint::ReadAttempt => attempts::read(edge, call).await,
        Endpoint::CloseAttempt => attempts::close(edge, call).await,
        Endpoint::AnswerGate => attempts::answer_gate(edge, call).await,
        Endpoint::ReportPath => attempts::report_path(edge, call).await,
        Endpoint::Revoke => operator::revoke(edge, call).await,
        Endpoint::LiftRevocation => operator::lift(edge, call).await,
        Endpoint::Drain => operator::drain(edge, call).await,
        Endpoint::Status => operator::status(edge, call).await,
        Endpoint::Live => health::live(edge, call),
        Endpoint::Ready => health::ready(edge, call).await,
        Endpoint::Metrics => health::metrics(edge, call),
        Endpoint::OpenApi => health::openapi(edge, call),
        Endpoint::CreateSession
        | Endpoint::ReadSession
        | Endpoint::SendCommand
        | Endpoint::ReadCommand
        | Endpoint::PutPayload
        | Endpoint::GetPayload
        | Endpoint::SessionGate
        | Endpoint::PutHost
        | Endpoint::HostWork
        | Endpoint::SessionLease
        | Endpoint::ClaimCommand
        | Endpoint::BeginCommand
        | Endpoint::CompleteCommand
        | Endpoint::SettleCommand
        | Endpoint::Admission => commands::handle(edge, call).await,
        Endpoint::Page => health::page(edge, call),
    }
}
