//! Commands to sessions that exist (rules P2, P4).

use super::Service;
use super::fingerprint::Says;
use super::requests::{GateResponseRequest, InputRequest, InterruptRequest, RequestPayload, RestoreRequest};
use crate::admission::model::{
    AdmitDispositionCommandRequest, Bytes, CatalogEntry, CommandKind, DispositionInboxEntry, Error, ErrorCode,
    GateDecision, GetCatalogEntryRequest, Idempotency, ObjectMetadata, Payload, PayloadOwner, PayloadRef, Principal,
    ProtocolMode, PutCommandPayloadRequest, RequestKey, SessionId, Sha256, TenantPrincipal,
};
use std::time::Duration;

/// A content must be what its digest says, and not too long.
pub(super) fn check_payload(sha256: Sha256, bytes: &Bytes) -> Result<(), Error> {
    if bytes.len() > super::PAYLOAD_MAX {
        let must = format!("must have at most {} bytes", super::PAYLOAD_MAX);
        return Err(Error::field(ErrorCode::BadPayload, "payload", must));
    }
    if Sha256::of(bytes) != sha256 {
        return Err(Error::field(ErrorCode::BadPayload, "sha256", "must be the digest of the payload"));
    }
    Ok(())
}

/// What the four kinds have in common.
struct Ask {
    kind: CommandKind,
    session: SessionId,
    key: RequestKey,
    payload: RequestPayload,
    apply_within: Option<Duration>,
}

impl Service {
    /// Sends a session something to take in.
    ///
    /// Gives the command and `true`, or, when the same request had been admitted, that one and `false`. Errors:
    /// `forbidden`, `unknown_session`, `session_closed`, `legacy_session_unsupported`, `invalid`, `bad_payload`,
    /// `idempotency_mismatch`, `inbox_full`, `quota_exceeded`, `unavailable`.
    pub async fn admit_input(
        &self,
        principal: &Principal,
        request: InputRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let InputRequest { session, key, payload, apply_within } = request;
        self.admit(principal, Ask { kind: CommandKind::Input, session, key, payload, apply_within }).await
    }

    /// Stops what is under way; as [`admit_input`](Self::admit_input).
    pub async fn admit_interrupt(
        &self,
        principal: &Principal,
        request: InterruptRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let InterruptRequest { session, key, payload, apply_within } = request;
        self.admit(principal, Ask { kind: CommandKind::Interrupt, session, key, payload, apply_within }).await
    }

    /// Answers a join attempt at the session's gate; as [`admit_input`](Self::admit_input). The command carries a
    /// [`GateDecision`].
    pub async fn admit_gate_response(
        &self,
        principal: &Principal,
        request: GateResponseRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let GateResponseRequest { session, key, attempt_id, admit, apply_within } = request;
        let payload = RequestPayload::Bytes(Bytes::from(GateDecision { attempt_id, admit }.to_text()));
        self.admit(principal, Ask { kind: CommandKind::GateResponse, session, key, payload, apply_within }).await
    }

    /// Takes a session back to a saved state; as [`admit_input`](Self::admit_input).
    pub async fn admit_restore(
        &self,
        principal: &Principal,
        request: RestoreRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let RestoreRequest { session, key, payload, apply_within } = request;
        self.admit(principal, Ask { kind: CommandKind::Restore, session, key, payload, apply_within }).await
    }

    /// Stores a content that later commands of the session refer to. It must be what `sha256` says.
    pub async fn put_payload(
        &self,
        principal: &Principal,
        session: SessionId,
        sha256: Sha256,
        bytes: Bytes,
    ) -> Result<ObjectMetadata, Error> {
        let put = async {
            let caller = self.authorize(principal, session, CommandKind::Input).await?;
            check_payload(sha256, &bytes)?;
            self.runnable(caller, session).await?;
            self.store_payload(caller, session, &bytes).await
        };
        put.await.map_err(|error| self.config.counters.refuse(error))
    }

    async fn admit(&self, principal: &Principal, ask: Ask) -> Result<(DispositionInboxEntry, bool), Error> {
        let kind = ask.kind;
        let admitted = self.decide(principal, ask).await;
        match &admitted {
            Ok((_, created)) => self.config.counters.count_admission(kind, *created),
            Err(error) => drop(self.config.counters.refuse(error.clone())),
        }
        admitted
    }

    async fn decide(&self, principal: &Principal, ask: Ask) -> Result<(DispositionInboxEntry, bool), Error> {
        let caller = self.authorize(principal, ask.session, ask.kind).await?;
        let inline = Self::inline(&ask.payload)?;
        let apply_within = self.apply_within(ask.apply_within)?;
        let says =
            Says { kind: ask.kind, session: Some(ask.session), agent: None, payload: &ask.payload, apply_within };
        let fingerprint = says.fingerprint();
        let payload = match (inline, &ask.payload) {
            (None, RequestPayload::Bytes(bytes)) => {
                // Rule P2: a legacy session is refused before anything is written, also its payload. Without one to store,
                // the admission itself is the first write, and refuses.
                self.runnable(caller, ask.session).await?;
                let stored = self.store_payload(caller, ask.session, bytes).await?;
                Payload::Stored(PayloadRef { sha256: stored.sha256, len: stored.len })
            }
            (Some(payload), _) => payload,
            (None, RequestPayload::Stored(sha256)) => Payload::Stored(PayloadRef { sha256: *sha256, len: 0 }),
        };
        let request = AdmitDispositionCommandRequest {
            tenant: caller.tenant.clone(),
            session: ask.session,
            kind: ask.kind,
            idempotency: Idempotency { principal: caller.name.clone(), key: ask.key, fingerprint },
            payload,
            apply_within,
        };
        Ok(self.config.commands.admit_disposition_command(request).await?)
    }

    async fn runnable(&self, caller: &TenantPrincipal, session: SessionId) -> Result<CatalogEntry, Error> {
        let request = GetCatalogEntryRequest { tenant: caller.tenant.clone(), session };
        let entry = self.config.catalog.get_catalog_entry(request).await?;
        match entry.binding.protocol_mode {
            ProtocolMode::Disposition => Ok(entry),
            ProtocolMode::Legacy => Err(Error::new(ErrorCode::LegacySessionUnsupported)),
        }
    }

    async fn store_payload(
        &self,
        caller: &TenantPrincipal,
        session: SessionId,
        bytes: &Bytes,
    ) -> Result<ObjectMetadata, Error> {
        let request = PutCommandPayloadRequest {
            tenant: caller.tenant.clone(),
            session,
            owner: PayloadOwner::Session,
            bytes: bytes.clone(),
        };
        Ok(self.config.commands.put_command_payload(request).await?)
    }
}
