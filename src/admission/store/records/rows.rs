//! One type per table.

use super::{Col, Column, Index, Key, Record, Table, Value, record, take};
use crate::admission::model::{
    AgentId, Bytes, CatalogEntry, CommandClaim, CommandEntry, CommandKind, CommandSeq, CommandState, DueCommand,
    DuePosition, Epoch, HostEntry, HostId, HostTargetKey, JournalEntry, JournalStep, Lease, Outcome, OutcomeCode,
    Payload, PayloadRef, PrincipalName, ProtocolMode, RequestKey, Revision, RuntimeSessionId, SessionBinding,
    SessionId, Sha256, Target, Tenant, Timestamp, Unreadable, Workload,
};

record! {
    /// A session: catalog entry, inbox counters, lease, placement.
    SessionRow, SESSION = 0 "session" {
        key { tenant: Tenant, session: SessionId }
        mode: ProtocolMode,
        storage_binding_id: String,
        binding_version: String,
        runtime_session_id: RuntimeSessionId,
        agent: AgentId,
        target_key: HostTargetKey,
        workload: String,
        created_at: Timestamp,
        created_by: PrincipalName,
        closed_at: Option<Timestamp>,
        // The last command's number.
        commands: u64,
        // No command below this number is open.
        head: u64,
        open: u32,
        // Open commands that the journal says were begun.
        begun: u32,
        epoch: Epoch,
        lease_host: Option<HostId>,
        lease_until: Timestamp,
        journal_len: u64,
        payload_bytes: u64,
        wanted: bool,
        placed_host: Option<HostId>,
        // Until when the placed host may take its time to acquire the lease.
        placed_until: Timestamp,
        // When placement looks at the session again; a lower bound of when there can be something to do.
        placement_due: Option<Timestamp>,
        // When the session is forgotten; null until it is closed.
        forget_at: Option<Timestamp>,
    }
}

record! {
    /// A command of either family.
    CommandRow, COMMAND = 1 "command" {
        key { tenant: Tenant, session: SessionId, seq: CommandSeq }
        family: ProtocolMode,
        shard: u32,
        kind: CommandKind,
        state: CommandState,
        revision: Revision,
        // The deadline while the command is open, else null: it leaves the due index when it ends.
        due_at: Option<Timestamp>,
        deadline: Timestamp,
        admitted_at: Timestamp,
        admitted_by: PrincipalName,
        request_key: RequestKey,
        payload: Option<Bytes>,
        payload_sha256: Option<Sha256>,
        payload_len: u64,
        deliveries: u32,
        claim_host: Option<HostId>,
        claim_epoch: Option<Epoch>,
        claim_until: Option<Timestamp>,
        applying: Option<Epoch>,
        outcome_code: Option<OutcomeCode>,
        outcome_by: Option<String>,
        outcome_at: Option<Timestamp>,
        late: bool,
    }
}

record! {
    /// Which command a key stands for.
    CommandKeyRow, COMMAND_KEY = 2 "command_key" {
        key { tenant: Tenant, session: SessionId, digest: Sha256 }
        seq: CommandSeq,
        fingerprint: Sha256,
    }
}

record! {
    /// A create, from its preparation on.
    CreateRow, PUBLIC_CREATE = 3 "public_create" {
        key { tenant: Tenant, digest: Sha256 }
        session: SessionId,
        fingerprint: Sha256,
        storage_binding_id: String,
        binding_version: String,
        prepared_at: Timestamp,
        // When it is forgotten unless it is admitted; null once it is.
        prepared_until: Option<Timestamp>,
        payload_bytes: u64,
    }
}

record! {
    /// What a host began and finished. Fences have command number zero.
    JournalRow, JOURNAL = 4 "journal" {
        key { tenant: Tenant, session: SessionId, seq: CommandSeq, epoch: Epoch, step: JournalStep }
        position: u64,
        host: HostId,
        at: Timestamp,
        code: Option<OutcomeCode>,
    }
}

record! {
    /// Who sweeps a session. No write but the claim's own reads it.
    ReconciliationRow, RECONCILIATION_CLAIM = 5 "reconciliation_claim" {
        key { tenant: Tenant, session: SessionId }
        holder: String,
        claimed_until: Timestamp,
    }
}

record! {
    /// A stored payload, without its content.
    PayloadRow, PAYLOAD = 6 "payload" {
        key { tenant: Tenant, session: SessionId, sha256: Sha256 }
        len: u64,
        stored_at: Timestamp,
    }
}

record! {
    /// A stored payload's content.
    PayloadBytesRow, PAYLOAD_BYTES = 7 "payload_bytes" {
        key { tenant: Tenant, session: SessionId, sha256: Sha256 }
        bytes: Bytes,
    }
}

record! {
    /// A host.
    HostRow, HOST = 8 "host" {
        key { host: HostId }
        credential: PrincipalName,
        target_key: HostTargetKey,
        capacity: u32,
        placed: u32,
        seen_until: Timestamp,
    }
}

record! {
    /// What a tenant uses of its quotas.
    TenantRow, TENANT_USAGE = 9 "tenant_usage" {
        key { tenant: Tenant }
        open_commands: u64,
        sessions: u64,
        prepared_creates: u64,
        payload_bytes: u64,
    }
}

record! {
    /// What the store is committed to.
    MetaRow, META = 10 "meta" {
        key { name: String }
        value: u64,
    }
}

/// All tables, by id.
pub(crate) static TABLES: [&Table; 11] = [
    &SESSION,
    &COMMAND,
    &COMMAND_KEY,
    &PUBLIC_CREATE,
    &JOURNAL,
    &RECONCILIATION_CLAIM,
    &PAYLOAD,
    &PAYLOAD_BYTES,
    &HOST,
    &TENANT_USAGE,
    &META,
];

/// Due commands of a family's shard, by deadline.
pub(crate) static DUE: Index =
    Index { id: 0, table: &COMMAND, columns: &["family", "shard", "due_at", "tenant", "session", "seq"], sorted: 2 };
/// The commands of a session, in order.
pub(crate) static INBOX: Index = Index { id: 1, table: &COMMAND, columns: &["tenant", "session", "seq"], sorted: 2 };
/// What the journal says about one command.
pub(crate) static EVIDENCE: Index =
    Index { id: 2, table: &JOURNAL, columns: &["tenant", "session", "seq", "epoch", "step"], sorted: 3 };
/// Sessions placed at a host.
pub(crate) static PLACED: Index =
    Index { id: 3, table: &SESSION, columns: &["placed_host", "tenant", "session"], sorted: 1 };
/// Sessions that placement has to look at.
pub(crate) static PLACEMENT: Index =
    Index { id: 4, table: &SESSION, columns: &["placement_due", "tenant", "session"], sorted: 0 };
/// Hosts of a key.
pub(crate) static HOSTS: Index = Index { id: 5, table: &HOST, columns: &["target_key", "host"], sorted: 1 };

/// The keys of a session's commands.
pub(crate) static KEYS: Index =
    Index { id: 6, table: &COMMAND_KEY, columns: &["tenant", "session", "digest"], sorted: 2 };
/// The payloads of a session.
pub(crate) static PAYLOADS: Index =
    Index { id: 7, table: &PAYLOAD, columns: &["tenant", "session", "sha256"], sorted: 2 };
/// A session's whole journal.
pub(crate) static WHOLE_JOURNAL: Index =
    Index { id: 8, table: &JOURNAL, columns: &["tenant", "session", "seq", "epoch", "step"], sorted: 2 };
/// Sessions to forget.
pub(crate) static FORGOTTEN: Index =
    Index { id: 9, table: &SESSION, columns: &["forget_at", "tenant", "session"], sorted: 0 };
/// Creates that were prepared and may be forgotten.
pub(crate) static PREPARED: Index =
    Index { id: 10, table: &PUBLIC_CREATE, columns: &["prepared_until", "tenant", "digest"], sorted: 0 };

/// All indexes, by id.
pub(crate) static INDEXES: [&Index; 11] =
    [&DUE, &INBOX, &EVIDENCE, &PLACED, &PLACEMENT, &HOSTS, &KEYS, &PAYLOADS, &WHOLE_JOURNAL, &FORGOTTEN, &PREPARED];

/// What a due page reads: everything but payloads.
pub(crate) const DUE_COLUMNS: [&str; 7] = ["tenant", "session", "seq", "due_at", "state", "revision", "claim_until"];

/// Reads a row of [`DUE_COLUMNS`].
pub(crate) fn due_command(values: &[Value]) -> Result<DueCommand, Unreadable> {
    let mut values = values.iter();
    Ok(DueCommand {
        tenant: take(&mut values, COMMAND.name, "tenant")?,
        session: take(&mut values, COMMAND.name, "session")?,
        seq: take(&mut values, COMMAND.name, "seq")?,
        deadline: take(&mut values, COMMAND.name, "due_at")?,
        state: take(&mut values, COMMAND.name, "state")?,
        revision: take(&mut values, COMMAND.name, "revision")?,
        claimed_until: take(&mut values, COMMAND.name, "claim_until")?,
    })
}

/// Where the next page begins after such a row, whether it can be read or not.
pub(crate) fn due_position(values: &[Value]) -> Option<DuePosition> {
    match values {
        [Value::Text(tenant), Value::Blob(session), Value::Int(seq), Value::Int(due_at), ..] => Some(DuePosition {
            deadline: Timestamp(u64::try_from(*due_at).unwrap_or(0)),
            tenant: tenant.clone(),
            session: session.clone(),
            seq: u64::try_from(*seq).unwrap_or(0),
        }),
        _ => None,
    }
}

impl SessionRow {
    /// The last lease, live or not.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let host = self.lease_host.clone()?;
        Some(Lease { host, epoch: self.epoch, until: self.lease_until })
    }

    /// Whether somebody holds the lease at `now`.
    pub(crate) fn is_leased(&self, now: Timestamp) -> bool {
        self.lease_host.is_some() && !self.lease_until.has_passed(now)
    }

    /// Rule P5: a lapsed lease with something begun is itself desired placement, so that somebody settles it.
    pub(crate) fn needs_host(&self) -> bool {
        (self.wanted && self.closed_at.is_none()) || self.begun > 0
    }

    pub(crate) fn entry(&self) -> CatalogEntry {
        CatalogEntry {
            tenant: self.tenant.clone(),
            session: self.session,
            binding: SessionBinding {
                storage_binding_id: self.storage_binding_id.clone(),
                binding_version: self.binding_version.clone(),
                runtime_session_id: self.runtime_session_id,
                protocol_mode: self.mode,
            },
            agent: self.agent.clone(),
            target: Target { key: self.target_key.clone(), workload: Workload(self.workload.clone()) },
            created_at: self.created_at,
            created_by: self.created_by.clone(),
            closed_at: self.closed_at,
            commands: self.commands,
            open: self.open,
            lease: self.lease(),
            placed: self.placed_host.clone(),
        }
    }
}

impl CommandRow {
    /// The row as its readers see it; columns that contradict each other can't be read.
    pub(crate) fn entry(&self) -> Result<CommandEntry, Unreadable> {
        let broken = |column| Unreadable { table: COMMAND.name, column };
        let payload = match (&self.payload, self.payload_sha256) {
            (Some(bytes), None) => Payload::Inline(bytes.clone()),
            (None, Some(sha256)) => Payload::Stored(PayloadRef { sha256, len: self.payload_len }),
            (Some(_), Some(_)) | (None, None) => return Err(broken("payload")),
        };
        let claim = match (&self.claim_host, self.claim_epoch, self.claim_until) {
            (Some(host), Some(epoch), Some(until)) => Some(CommandClaim { host: host.clone(), epoch, until }),
            (None, None, None) => None,
            _ => return Err(broken("claim_host")),
        };
        let outcome = match (&self.outcome_code, &self.outcome_by, self.outcome_at) {
            (Some(code), Some(by), Some(at)) => {
                Some(Outcome { code: code.clone(), by: by.clone(), at, late: self.late })
            }
            (None, None, None) => None,
            _ => return Err(broken("outcome_code")),
        };
        if self.state.is_terminal() != outcome.is_some() {
            return Err(broken("state"));
        }
        Ok(CommandEntry {
            tenant: self.tenant.clone(),
            session: self.session,
            seq: self.seq,
            kind: self.kind,
            state: self.state.clone(),
            revision: self.revision,
            admitted_by: self.admitted_by.clone(),
            key: self.request_key.clone(),
            payload,
            admitted_at: self.admitted_at,
            deadline: self.deadline,
            deliveries: self.deliveries,
            claim,
            applying: self.applying,
            outcome,
        })
    }

    /// Whether its claim holds at `now`.
    pub(crate) fn is_claimed(&self, now: Timestamp) -> bool {
        self.state == CommandState::Claimed && self.claim_until.is_some_and(|until| !until.has_passed(now))
    }
}

impl JournalRow {
    pub(crate) fn entry(&self) -> JournalEntry {
        JournalEntry {
            tenant: self.tenant.clone(),
            session: self.session,
            seq: self.seq,
            epoch: self.epoch,
            step: self.step,
            at: self.at,
            position: self.position,
        }
    }
}

impl HostRow {
    pub(crate) fn entry(&self) -> HostEntry {
        HostEntry {
            host: self.host.clone(),
            credential: self.credential.clone(),
            key: self.target_key.clone(),
            capacity: self.capacity,
            placed: self.placed,
            seen_until: self.seen_until,
        }
    }
}
