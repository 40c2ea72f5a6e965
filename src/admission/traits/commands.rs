//! What a service asks of the store.

use super::settlement::{Claims, DispositionDue, DispositionSettlement, DueCommands, Settlement};
use super::{Pending, StoreAnswer};
use crate::admission::model::{
    AdmitDispositionCommandRequest, AdmitLegacyCommandRequest, AdmitPublicCreateRequest, AgentId, CatalogEntry,
    CreateCatalogEntryRequest, DispositionInboxEntry, Error, GetCatalogEntryRequest, GetDispositionCommandRequest,
    HostTargetKey, InboxEntry, ObjectMetadata, PreparePublicCreateRequest, PublicCreatePreparation,
    PutCommandPayloadRequest, SessionBindingTemplate, Target, Timestamp,
};

/// The sessions of a store.
pub trait Catalog: Send + Sync {
    /// A session's entry, or `unknown_session`.
    fn get_catalog_entry(&self, request: GetCatalogEntryRequest) -> StoreAnswer<'_, CatalogEntry>;

    /// Enters a session without a command; `false` when it was there. A legacy binding is refused unless the store was
    /// opened for it (rule P2).
    fn create_catalog_entry(&self, request: CreateCatalogEntryRequest) -> StoreAnswer<'_, (CatalogEntry, bool)>;
}

/// The durable plane into which every command but a create is admitted: the disposition family and only that, for no
/// host could ever apply a command of the other.
pub trait CommandStore: Send + Sync {
    /// Admits a command; `false` when the same request had been admitted before (rule P4).
    fn admit_disposition_command(
        &self,
        request: AdmitDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)>;

    /// A command with the store's time at the reading.
    fn get_disposition_command(
        &self,
        request: GetDispositionCommandRequest,
    ) -> StoreAnswer<'_, (DispositionInboxEntry, Timestamp)>;

    /// Stores a payload by its content; again is the same. Here and not only in [`PublicCreateStore`], which is optional:
    /// a deployment without creates takes large inputs all the same.
    fn put_command_payload(&self, request: PutCommandPayloadRequest) -> StoreAnswer<'_, ObjectMetadata>;
}

/// The durable plane of creates, in three steps that may each be repeated (rule P3).
pub trait PublicCreateStore: Send + Sync {
    /// Reserves a session id under the caller's key. Nothing that a host could see.
    fn prepare_public_create(&self, request: PreparePublicCreateRequest) -> StoreAnswer<'_, PublicCreatePreparation>;

    /// Stores what the create carries.
    fn put_command_payload(&self, request: PutCommandPayloadRequest) -> StoreAnswer<'_, ObjectMetadata>;

    /// Enters the session, its first command, and that it wants a host, in one write; `false` when that had happened.
    fn admit_public_create(&self, request: AdmitPublicCreateRequest) -> StoreAnswer<'_, (DispositionInboxEntry, bool)>;
}

/// The legacy family's admission: for tests and migrations, refused by a store that was not opened for it (rule P2).
pub trait LegacyCreates: Send + Sync {
    /// Admits a command to a legacy-bound session.
    fn admit_legacy_command(&self, request: AdmitLegacyCommandRequest) -> StoreAnswer<'_, (InboxEntry, bool)>;
}

/// The whole durable command plane: what a store is, in one bound. The legacy half is what its sweep needs, and no more:
/// nothing admits through it.
pub trait Commands: CommandStore + DispositionSettlement + DispositionDue + Settlement + DueCommands + Claims {}

impl<T: CommandStore + DispositionSettlement + DispositionDue + Settlement + DueCommands + Claims> Commands for T {}

/// The configured targets.
pub trait TargetResolver: Send + Sync {
    /// What a profile launches; `None` when there is no such profile.
    fn resolve_agent<'a>(&'a self, agent: &'a AgentId) -> Pending<'a, Result<Option<Target>, Error>>;

    /// Whether any profile uses this key.
    fn is_known<'a>(&'a self, key: &'a HostTargetKey) -> Pending<'a, Result<bool, Error>>;
}

/// Where sessions' objects lie. Asked when a service is built: a session that was bound to a place nobody can resolve
/// would be unreadable for ever (rule P3).
pub trait ObjectStoreResolver: Send + Sync {
    /// Whether this deployment knows the place.
    fn knows(&self, template: &SessionBindingTemplate) -> bool;
}
