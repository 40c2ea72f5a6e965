//! The vocabulary: ids, time, listings, endpoints, commands, outcomes and limits.
//!
//! Everything here is valid by construction and knows neither clocks nor randomness nor formats of the wire.

pub mod command;
pub mod details;
pub mod endpoint;
pub mod event;
pub mod filter;
pub mod id;
pub mod limits;
pub mod outcome;
pub mod query;
pub mod text;
pub mod time;
mod wait;

pub use command::*;
pub use details::{AttributeValue, Details};
pub use endpoint::{Candidates, Endpoint, Family, Role, Source};
pub use event::Event;
pub use filter::Filter;
pub use id::{
    AttemptId, Fingerprint, IdempotencyKey, InstanceId, ListingId, PrincipalKey, ReplayKey, SessionRef, TenantId,
};
pub use limits::Limits;
pub use outcome::*;
pub use query::*;
pub use time::{At, MonoTime, Ttl, TtlBounds, WallTime};
pub use wait::Wait;
