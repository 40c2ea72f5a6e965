//! The seams of the command plane: what each part may ask of the others, and no more.
//!
//! All are object-safe, for a deployment composes them at run time. Each is as narrow as what its user may do: a sweep
//! gets [`Settlement`] and can't claim, a service gets [`CommandStore`] and can't reach the legacy family.

mod authority;
mod clock;
mod commands;
mod directory;
mod hosts;
mod settlement;

pub use authority::{Authorizer, HostAuthorizer};
pub use clock::{Clock, UuidSource};
pub use commands::{
    Catalog, CommandStore, Commands, LegacyCreates, ObjectStoreResolver, PublicCreateStore, TargetResolver,
};
pub use directory::{Directory, OwnerDirectory, PlacementController};
pub use hosts::HostStore;
pub use settlement::{Claims, DispositionDue, DispositionSettlement, DueCommands, Settlement};

use super::model::StoreError;
use std::future::Future;
use std::pin::Pin;

/// An answer to come.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer to come from a store. Dropping it withdraws the question if the store has not begun with it.
pub type StoreAnswer<'a, T> = Pending<'a, Result<T, StoreError>>;
