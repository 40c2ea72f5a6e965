//! How far a command has come, and who runs a session.

use super::Service;
use crate::admission::model::{
    CallerState, CatalogEntry, CommandKind, CommandSeq, DispositionInboxEntry, Error, GetCatalogEntryRequest,
    GetDispositionCommandRequest, OwnerObservation, Principal, SessionId, Timestamp,
};
use crate::admission::store::Notice;
use crate::domain::Wait;

/// A command as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandView {
    /// The command.
    pub entry: DispositionInboxEntry,
    /// How far it has come.
    pub state: CallerState,
    /// The store's time at the reading.
    pub read_at: Timestamp,
}

/// A session as its tenant sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// The session.
    pub entry: CatalogEntry,
    /// The host that holds its lease now.
    pub owner: Option<OwnerObservation>,
}

impl Service {
    /// A command; waits up to `wait` for its end. Who may send a session input may see its commands.
    ///
    /// Errors: `forbidden`, `unknown_session`, `unknown_command`, `overloaded`, `unavailable`.
    pub async fn command(
        &self,
        principal: &Principal,
        session: SessionId,
        seq: CommandSeq,
        wait: impl Wait,
    ) -> Result<CommandView, Error> {
        let read = async {
            let caller = self.authorize(principal, session, CommandKind::Input).await?;
            let tenant = caller.tenant.clone();
            let notice = Notice::Command(tenant.clone(), session, seq);
            let ask = || async {
                let request = GetDispositionCommandRequest { tenant: tenant.clone(), session, seq };
                let (entry, read_at) = self.config.commands.get_disposition_command(request).await?;
                let state = entry.caller_state(read_at);
                Ok((CommandView { entry, state, read_at }, state.is_terminal()))
            };
            self.config.waits.until(&*self.config.clock, notice, wait, ask).await
        };
        read.await.map_err(|error| self.config.counters.refuse(error))
    }

    /// A session, with who runs it.
    pub async fn session(&self, principal: &Principal, session: SessionId) -> Result<SessionView, Error> {
        let read = async {
            let caller = self.authorize(principal, session, CommandKind::Input).await?;
            let request = GetCatalogEntryRequest { tenant: caller.tenant.clone(), session };
            let entry = self.config.catalog.get_catalog_entry(request).await?;
            let owner = self.config.directory.owner(caller.tenant.clone(), session).await?;
            Ok(SessionView { entry, owner })
        };
        read.await.map_err(|error| self.config.counters.refuse(error))
    }
}
