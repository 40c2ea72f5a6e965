//! The shapes of the command plane: what back ends, hosts and operators send and get.
//!
//! Both directions are written and read by both sides, so that a client has them from here. A member that is absent is left
//! out, never `null`; a reader ignores members that it does not know, but the server refuses them in requests, as everywhere.

#[cfg(feature = "server")]
mod read;
mod request;
mod response;

pub use request::{
    BeginBody, ClaimBody, CompleteBody, CreateSessionBody, GateResponseBody, HostBody, KindName, LeaseAction,
    LeaseBody, PayloadBody, ResultName, SendCommandBody,
};
pub use response::{
    AdmissionAnswer, AdmissionCounts, BindingAnswer, ClaimAnswer, CommandAnswer, CreatedAnswer, DueAnswer, GateAnswer,
    GateItem, HostAnswer, LeaseGrantAnswer, OutcomeAnswer, OwnerAnswer, PayloadRefAnswer, SessionAnswer, StateName,
    StoredPayloadAnswer, SweepAnswer, TaskAnswer, TaskName, WorkAnswer, WorkItem,
};
