//! Who runs what, and who could.

use super::{Pending, StoreAnswer};
use crate::admission::model::{
    DesiredWorkload, Error, HostTargetPage, ListCompatibleHostsRequest, OwnerObservation, SessionId, Tenant,
};

/// Which host owns a session, as observed.
pub trait OwnerDirectory: Send + Sync {
    /// The holder of the session's live lease; `None` when there is none, which is no error.
    fn owner(&self, tenant: Tenant, session: SessionId) -> StoreAnswer<'_, Option<OwnerObservation>>;
}

/// Which host owns a session, and which could.
pub trait Directory: OwnerDirectory {
    /// A page of accepting hosts. Capacity is not authority: being a candidate confers nothing until the lease is acquired.
    fn candidates(&self, request: ListCompatibleHostsRequest) -> StoreAnswer<'_, HostTargetPage>;
}

/// Drives desired placement; idempotent both ways.
pub trait PlacementController: Send + Sync {
    /// Sees to it that the session gets a host. Again creates nothing twice.
    fn ensure_placement(&self, desired: DesiredWorkload) -> Pending<'_, Result<(), Error>>;

    /// Lets go of the session's host. Again, and for a session that nobody knows, is no error.
    fn release_placement(&self, tenant: Tenant, session: SessionId) -> Pending<'_, Result<(), Error>>;
}
