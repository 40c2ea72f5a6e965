//! Creates (rules P2, P3).

use super::Service;
use super::fingerprint::Says;
use super::requests::{CreateRequest, LegacyCreateRequest, LegacyCreateResult, RequestPayload};
use crate::admission::model::{
    AdmitLegacyCommandRequest, AdmitPublicCreateRequest, AgentId, Bytes, Cause, CommandKind, CreateCatalogEntryRequest,
    DispositionInboxEntry, Error, ErrorCode, Idempotency, ObjectMetadata, Payload, PayloadOwner, PayloadRef,
    PreparePublicCreateRequest, Principal, ProtocolMode, PutCommandPayloadRequest, Refusal, RequestKey, SessionBinding,
    SessionBindingTemplate, SessionId, Sha256, Target, TenantPrincipal,
};
use crate::admission::traits::PublicCreateStore;

impl Service {
    /// Asks for a session, in three steps that may each be repeated: the same key resumes whatever was done, to the same
    /// session id. Until the last step there is nothing that a host could see.
    ///
    /// Gives the create command and `true`, or, when the same request had been admitted, that one and `false`.
    /// Errors: `forbidden`, `creates_unsupported`, `unknown_target`, `invalid`, `bad_payload`, `idempotency_mismatch`,
    /// `quota_exceeded`, `unavailable`.
    pub async fn admit_create(
        &self,
        principal: &Principal,
        request: CreateRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let admitted = self.create(principal, request).await;
        match &admitted {
            Ok((_, created)) => self.config.counters.count_admission(CommandKind::Create, *created),
            Err(error) => drop(self.config.counters.refuse(error.clone())),
        }
        admitted
    }

    async fn create(
        &self,
        principal: &Principal,
        request: CreateRequest,
    ) -> Result<(DispositionInboxEntry, bool), Error> {
        let proposed = SessionId(self.config.ids.new_uuid()?.0);
        let caller = self.authorize(principal, proposed, CommandKind::Create).await?;
        let (Some(creates), Some(template)) = (&self.config.public_creates, &self.config.binding) else {
            return Err(Error::new(ErrorCode::CreatesUnsupported));
        };
        let inline = Self::inline(&request.payload)?;
        let apply_within = self.apply_within(request.apply_within)?;
        let target = self.target(&request.agent).await?;
        let says = Says {
            kind: CommandKind::Create,
            session: None,
            agent: Some(&request.agent),
            payload: &request.payload,
            apply_within,
        };
        let idempotency =
            Idempotency { principal: caller.name.clone(), key: request.key.clone(), fingerprint: says.fingerprint() };
        let session = prepare(&**creates, caller, &idempotency, proposed, template).await?;
        let payload = match (inline, &request.payload) {
            (None, RequestPayload::Bytes(bytes)) => {
                let owner = PayloadOwner::Create { principal: caller.name.clone(), key: request.key.clone() };
                let put =
                    PutCommandPayloadRequest { tenant: caller.tenant.clone(), session, owner, bytes: bytes.clone() };
                match creates.put_command_payload(put).await {
                    Ok(stored) => Payload::Stored(PayloadRef { sha256: stored.sha256, len: stored.len }),
                    Err(error) => return Err(error.into()),
                }
            }
            (Some(payload), _) => payload,
            (None, RequestPayload::Stored(sha256)) => Payload::Stored(PayloadRef { sha256: *sha256, len: 0 }),
        };
        let admit = AdmitPublicCreateRequest {
            tenant: caller.tenant.clone(),
            idempotency,
            session,
            agent: request.agent,
            target,
            payload,
            apply_within,
        };
        creates.admit_public_create(admit).await.map_err(|error| match Error::from(error) {
            error if error.refusal() == Some(Refusal::UnknownPayload) => {
                Error { code: error.code, cause: Some(Cause::MissingPayload { session }) }
            }
            error => error,
        })
    }

    /// Stores what a create that was prepared under `key` refers to. It must be what `sha256` says.
    ///
    /// Errors: `forbidden`, `creates_unsupported`, `unknown_session` (also one that this key has not prepared, or has
    /// admitted), `bad_payload`, `quota_exceeded`, `unavailable`.
    pub async fn put_create_payload(
        &self,
        principal: &Principal,
        session: SessionId,
        key: RequestKey,
        sha256: Sha256,
        bytes: Bytes,
    ) -> Result<ObjectMetadata, Error> {
        let put = async {
            let caller = self.authorize(principal, session, CommandKind::Create).await?;
            let Some(creates) = &self.config.public_creates else {
                return Err(Error::new(ErrorCode::CreatesUnsupported));
            };
            super::admit::check_payload(sha256, &bytes)?;
            let owner = PayloadOwner::Create { principal: caller.name.clone(), key };
            let request = PutCommandPayloadRequest { tenant: caller.tenant.clone(), session, owner, bytes };
            Ok(creates.put_command_payload(request).await?)
        };
        put.await.map_err(|error| self.config.counters.refuse(error))
    }

    async fn target(&self, agent: &AgentId) -> Result<Target, Error> {
        self.config.targets.resolve_agent(agent).await?.ok_or(Error::new(ErrorCode::UnknownTarget))
    }

    /// Asks for a session of the legacy family. No host could ever run it, so it is refused as
    /// `legacy_session_unsupported`, before anything is written, unless the store was opened to take it (rule P2).
    pub async fn admit_legacy_create(
        &self,
        principal: &Principal,
        request: LegacyCreateRequest,
    ) -> Result<LegacyCreateResult, Error> {
        self.legacy_create(principal, request).await.map_err(|error| self.config.counters.refuse(error))
    }

    async fn legacy_create(
        &self,
        principal: &Principal,
        request: LegacyCreateRequest,
    ) -> Result<LegacyCreateResult, Error> {
        let session = SessionId(self.config.ids.new_uuid()?.0);
        let caller = self.authorize(principal, session, CommandKind::Create).await?;
        let Some(legacy) = &self.config.legacy else {
            return Err(Error::new(ErrorCode::LegacySessionUnsupported));
        };
        let apply_within = self.apply_within(None)?;
        let target = self.target(&request.agent_id).await?;
        let payload = RequestPayload::Bytes(request.blocks.clone());
        let Some(inline) = Self::inline(&payload)? else {
            return Err(Error::field(ErrorCode::BadPayload, "blocks", "must fit inline"));
        };
        let none = SessionBindingTemplate { storage_binding_id: String::new(), binding_version: String::new() };
        let template = self.config.binding.as_ref().unwrap_or(&none);
        let entry = CreateCatalogEntryRequest {
            tenant: caller.tenant.clone(),
            session,
            binding: SessionBinding::derive(template, &caller.tenant, session, ProtocolMode::Legacy),
            agent: request.agent_id.clone(),
            target,
            principal: caller.name.clone(),
        };
        self.config.catalog.create_catalog_entry(entry).await?;
        let kind = CommandKind::Create;
        let says = Says { kind, session: None, agent: Some(&request.agent_id), payload: &payload, apply_within };
        let key = RequestKey::new(session.to_string())?;
        let command = AdmitLegacyCommandRequest {
            tenant: caller.tenant.clone(),
            session,
            idempotency: Idempotency { principal: caller.name.clone(), key, fingerprint: says.fingerprint() },
            payload: inline,
            apply_within,
        };
        let (entry, _) = legacy.admit_legacy_command(command).await?;
        Ok(LegacyCreateResult { session_id: session, entry })
    }
}

async fn prepare(
    creates: &dyn PublicCreateStore,
    caller: &TenantPrincipal,
    idempotency: &Idempotency,
    proposed: SessionId,
    template: &SessionBindingTemplate,
) -> Result<SessionId, Error> {
    let request = PreparePublicCreateRequest {
        tenant: caller.tenant.clone(),
        idempotency: idempotency.clone(),
        proposed,
        template: template.clone(),
    };
    Ok(creates.prepare_public_create(request).await?.session)
}
