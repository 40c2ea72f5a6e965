-- Times are milliseconds since 1970 on the store's clock. Ids are 16 bytes, digests 32.
-- A null in the first sorted column of a partial index keeps a row out of it.

CREATE TABLE session (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    mode TEXT NOT NULL,
    storage_binding_id TEXT NOT NULL,
    binding_version TEXT NOT NULL,
    runtime_session_id BLOB NOT NULL,
    agent TEXT NOT NULL,
    target_key TEXT NOT NULL,
    workload TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    closed_at INTEGER,
    commands INTEGER NOT NULL,
    head INTEGER NOT NULL,
    open INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    lease_host TEXT,
    lease_until INTEGER NOT NULL,
    journal_len INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    wanted INTEGER NOT NULL,
    placed_host TEXT,
    placed_until INTEGER NOT NULL,
    placement_due INTEGER,
    forget_at INTEGER,
    PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_placed ON session (placed_host, tenant, session) WHERE placed_host IS NOT NULL;
CREATE INDEX session_placement ON session (placement_due, tenant, session) WHERE placement_due IS NOT NULL;
CREATE INDEX session_forgotten ON session (forget_at, tenant, session) WHERE forget_at IS NOT NULL;

-- Rows of up to the inline limit lie in the order of admission, so that a batch fills pages instead of touching one each;
-- the key is an index of its own.
CREATE TABLE command (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    family TEXT NOT NULL,
    shard INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    revision INTEGER NOT NULL,
    due_at INTEGER,
    deadline INTEGER NOT NULL,
    admitted_at INTEGER NOT NULL,
    admitted_by TEXT NOT NULL,
    request_key TEXT NOT NULL,
    payload BLOB,
    payload_sha256 BLOB,
    payload_len INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    claim_host TEXT,
    claim_epoch INTEGER,
    claim_until INTEGER,
    applying INTEGER,
    outcome_code TEXT,
    outcome_by TEXT,
    outcome_at INTEGER,
    late INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, seq)
) STRICT;

CREATE INDEX command_due ON command (family, shard, due_at, tenant, session, seq) WHERE due_at IS NOT NULL;

CREATE TABLE command_key (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    digest BLOB NOT NULL,
    seq INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    PRIMARY KEY (tenant, session, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE public_create (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    session BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    storage_binding_id TEXT NOT NULL,
    binding_version TEXT NOT NULL,
    prepared_at INTEGER NOT NULL,
    prepared_until INTEGER,
    payload_bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX public_create_prepared ON public_create (prepared_until, tenant, digest) WHERE prepared_until IS NOT NULL;

CREATE TABLE journal (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    step TEXT NOT NULL,
    position INTEGER NOT NULL,
    host TEXT NOT NULL,
    at INTEGER NOT NULL,
    code TEXT,
    PRIMARY KEY (tenant, session, seq, epoch, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE reconciliation_claim (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    holder TEXT NOT NULL,
    claimed_until INTEGER NOT NULL,
    PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE payload (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    len INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE payload_bytes (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (tenant, session, sha256)
) STRICT;

CREATE TABLE host (
    host TEXT NOT NULL,
    credential TEXT NOT NULL,
    target_key TEXT NOT NULL,
    capacity INTEGER NOT NULL,
    placed INTEGER NOT NULL,
    seen_until INTEGER NOT NULL,
    PRIMARY KEY (host)
) STRICT, WITHOUT ROWID;

CREATE INDEX host_key ON host (target_key, host);

CREATE TABLE tenant_usage (
    tenant TEXT NOT NULL,
    open_commands INTEGER NOT NULL,
    sessions INTEGER NOT NULL,
    prepared_creates INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;
