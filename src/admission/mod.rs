//! The command plane: durable commands to game sessions on hosts.
//!
//! A game back end or a player asks for a session and sends it commands; a host claims them, applies them and reports; a
//! sweep settles whatever nobody applied in time. Three ideas carry it:
//!
//! - **Only the lease is authority.** A host acts under a lease with an ever-growing epoch, and each new lease fences all
//!   before it. Capacity, placement and claims are proposals.
//! - **The journal is the evidence.** What a host begins and finishes is journaled first. Nothing is settled against it:
//!   a command that may have had an effect is never rejected by the sweep.
//! - **The store's clock decides.** Deadlines, claims and leases are compared inside the store's transaction.
//!
//! [`Service`] admits, [`HostService`] serves hosts, [`DispositionReconciler`] and [`Reconciler`] sweep, [`Upkeep`] runs the
//! sweeps and places sessions; [`Store`] is what they share. `docs/command-plane.md` tells the whole story.

mod configured;
mod counters;
mod disposition;
mod hosts;
pub mod model;
mod operator;
mod service;
pub mod store;
mod sweep;
mod system;
pub mod traits;
mod upkeep;
mod waits;

pub use configured::{ConfiguredBindings, ConfiguredTargets, KindAuthorizer};
pub use counters::{Counters, Counts};
pub use disposition::Disposition;
pub use hosts::{CAPACITY_MAX, HostConfig, HostLimits, HostService};
pub use model::*;
pub use operator::{AdmissionView, OperatorService};
pub use service::*;
pub use store::{OpenError, Settings, Store};
pub use sweep::*;
pub use system::{RuntimeClock, SystemUuids};
pub use traits::*;
pub use upkeep::{Upkeep, UpkeepParts};
pub use waits::{WAIT_MAX, Waits};
