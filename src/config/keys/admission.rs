//! `[admission]`, `[[admission.profile]]` and `[[admission.host]]`.

use super::{Access, Key};
use crate::config::Config;
use crate::config::admission::{AdmissionStore, HostEntry, Profile};

const DAY_MS: u32 = 86_400_000;
const MILLION: u32 = 1_000_000;

pub(super) static KEYS: &[Key<Config>] = &[
    key!(
        "admission.store",
        "off, memory, sqlite or postgres",
        "The command plane: off, nowhere (for trying out), in one file, or in a database that several processes may share.",
        "",
        Access::Word {
            words: &["off", "memory", "sqlite", "postgres"],
            get: |c| Some(c.admission.store.name()),
            set: |c, word| {
                let store = AdmissionStore::ALL.into_iter().find(|store| store.name() == word);
                c.admission.store = store.unwrap_or_default();
            },
        }
    ),
    key!(
        "admission.path",
        "path",
        "The file of sqlite; it is created when it is not there. Only one process may have it open.",
        "\"/var/lib/rendezvous/commands.sqlite\"",
        Access::File { set: |c, value| c.admission.path = Some(value) }
    ),
    key!(
        "admission.postgres_url",
        "secret",
        "Where postgres is, with its password.",
        "\"postgres://rendezvous:secret@127.0.0.1/rendezvous\"",
        Access::Secret { set: |c, value| c.admission.postgres_url = Some(value) }
    ),
    key!(
        "admission.postgres_url_file",
        "path",
        "The same from a file.",
        "\"/run/secrets/rendezvous-postgres\"",
        Access::File { set: |c, value| c.admission.postgres_url_file = Some(value) }
    ),
    key!(
        "admission.storage_binding_id",
        "1 to 64 characters",
        "Where the objects of new sessions lie. A session keeps what it was created with, for ever.",
        "",
        Access::Text {
            get: |c| Some(&c.admission.storage_binding_id),
            set: |c, value| c.admission.storage_binding_id = value,
        }
    ),
    key!(
        "admission.binding_version",
        "1 to 64 characters",
        "The version of that place's layout.",
        "",
        Access::Text {
            get: |c| Some(&c.admission.binding_version),
            set: |c, value| c.admission.binding_version = value,
        }
    ),
    key!(
        "admission.scope",
        "word",
        "What the scope claim of a JWT must name for creates and commands; empty lets every JWT of the tenant.",
        "",
        Access::Text { get: |c| Some(&c.admission.scope), set: |c, value| c.admission.scope = value }
    ),
    millis!(
        "admission.apply_deadline_ms",
        100..=7 * DAY_MS,
        "How long a host has to begin a command whose caller doesn't say.",
        admission.apply_deadline
    ),
    millis!(
        "admission.sweep_interval_ms",
        10..=60_000,
        "Between two steps, each of which sweeps one shard of each family and places sessions.",
        admission.sweep_interval
    ),
    count!(
        "admission.sweep_page_rows",
        1..=10_000,
        "rows",
        "Due commands that a sweep reads at once.",
        admission.sweep_page_rows
    ),
    count!(
        "admission.sweep_pages",
        1..=10_000,
        "pages",
        "Pages of one sweep; what is left is the next one's.",
        admission.sweep_pages
    ),
    millis!(
        "admission.sweep_claim_ttl_ms",
        100..=600_000,
        "How long other sweepers leave a session to the one that began; never a fence.",
        admission.sweep_claim_ttl
    ),
    number!(
        "admission.control_shards",
        1..=4_096,
        "shards",
        "How due commands are divided. Counts when a store is created; afterwards the store says.",
        admission.settings.control_shards
    ),
    millis!(
        "admission.heartbeat_ttl_ms",
        100..=600_000,
        "How long a host's heartbeat counts; hosts send three in that time.",
        admission.hosts.heartbeat
    ),
    millis!(
        "admission.lease_ttl_ms",
        100..=3_600_000,
        "Lifetime of a session's lease and of a claim when the host names none.",
        admission.hosts.ttl_default
    ),
    millis!(
        "admission.lease_ttl_min_ms",
        100..=3_600_000,
        "Least lifetime that is granted: bounds the renewals.",
        admission.hosts.ttl_min
    ),
    millis!(
        "admission.lease_ttl_max_ms",
        100..=3_600_000,
        "Greatest lifetime that is granted: bounds how long a session waits for the next host after a crash.",
        admission.hosts.ttl_max
    ),
    millis!(
        "admission.placement_grace_ms",
        100..=600_000,
        "How long a host has to take the lease of a session that was proposed to it.",
        admission.settings.placement_grace
    ),
    millis!(
        "admission.placement_retry_ms",
        100..=600_000,
        "How long a session that no host can take waits until placement looks again.",
        admission.settings.placement_retry
    ),
    number!(
        "admission.inbox",
        1..=65_536,
        "commands",
        "Most open commands of a session.",
        admission.settings.inbox_max
    ),
    number!(
        "admission.deliveries",
        1..=65_536,
        "leases",
        "Most leases to which one command is delivered: bounds how many hosts one that crashes them takes down.",
        admission.settings.deliveries_max
    ),
    wide!(
        "admission.open_commands_per_tenant",
        1..=100 * MILLION,
        "commands",
        "Most open commands of a tenant.",
        admission.settings.open_commands_max
    ),
    wide!(
        "admission.sessions_per_tenant",
        1..=100 * MILLION,
        "sessions",
        "Most sessions of a tenant that are not closed.",
        admission.settings.sessions_max
    ),
    wide!(
        "admission.prepared_creates_per_tenant",
        1..=100 * MILLION,
        "creates",
        "Most creates of a tenant that were prepared and not admitted.",
        admission.settings.prepared_creates_max
    ),
    key!(
        "admission.payload_mib_per_tenant",
        "MiB",
        "Most bytes of stored payloads of a tenant.",
        "",
        Access::Number {
            min: 1,
            max: 16 * MILLION,
            get: |c| u32::try_from(c.admission.settings.payload_bytes_max >> 20).ok(),
            set: |c, value| c.admission.settings.payload_bytes_max = u64::from(value) << 20,
        }
    ),
    count!(
        "admission.payload_bytes",
        32_768..=8_388_608,
        "bytes",
        "Longest payload of one command.",
        admission.payload_bytes
    ),
    count!(
        "admission.uploads",
        1..=1_024,
        "uploads",
        "Payloads that may be on their way at a time: with payload_bytes it bounds the memory that they take.",
        admission.uploads
    ),
    count!(
        "admission.downloads",
        1..=1_024,
        "downloads",
        "The same for payloads that hosts fetch; one credential has a quarter of it.",
        admission.downloads
    ),
    count!(
        "admission.queue",
        1..=MILLION,
        "calls",
        "Calls that wait for the store; one more is refused.",
        admission.settings.queue_max
    ),
    count!(
        "admission.batch",
        1..=65_536,
        "calls",
        "Most calls of one transaction: with 1, each has a sync of its own.",
        admission.settings.batch_max
    ),
    count!("admission.long_polls", 1..=MILLION, "polls", "Most polls that wait.", admission.settings.waits_max),
    millis!(
        "admission.closed_retention_ms",
        1_000..=45 * DAY_MS,
        "How long a closed session is kept, with its commands and its idempotency keys.",
        admission.settings.closed_for
    ),
    millis!(
        "admission.prepared_retention_ms",
        1_000..=45 * DAY_MS,
        "How long a create that was prepared may be resumed.",
        admission.settings.prepared_for
    ),
];

pub(super) static PROFILE_KEYS: &[Key<Profile>] = &[
    key!(
        "name",
        "1 to 64 characters",
        "What creates ask for.",
        "\"arena\"",
        Access::Text { get: |p| Some(&p.name), set: |p, value| p.name = value }
    ),
    key!(
        "target_key",
        "1 to 128 characters",
        "What a host must be able to run: a build, a region, a size.",
        "\"arena/eu\"",
        Access::Text { get: |p| Some(&p.target_key), set: |p, value| p.target_key = value }
    ),
    key!(
        "workload",
        "text",
        "What the host launches; opaque to the server.",
        "\"arena --map dust\"",
        Access::Text { get: |p| Some(&p.workload), set: |p, value| p.workload = value }
    ),
];

pub(super) static HOST_KEYS: &[Key<HostEntry>] = &[
    key!(
        "name",
        "1 to 64 of a-z 0-9 . _ -",
        "Names the credential in logs and in what its hosts settle.",
        "\"eu-1\"",
        Access::Text { get: |h| Some(&h.name), set: |h, value| h.name = value }
    ),
    key!(
        "key",
        "secret of 16 characters and more, better 32",
        "The bearer token of its hosts.",
        "\"change-me-to-a-long-random-text\"",
        Access::Secret { set: |h, value| h.key = Some(value) }
    ),
    key!(
        "key_file",
        "path",
        "The same from a file.",
        "\"/run/secrets/rendezvous-host\"",
        Access::File { set: |h, value| h.key_file = Some(value) }
    ),
    key!(
        "tenants",
        "names",
        "Tenants whose sessions its hosts may run.",
        "[\"demo\"]",
        Access::Texts { get: |h| &h.tenants, set: |h, value| h.tenants = value }
    ),
    key!(
        "target_keys",
        "texts",
        "Target keys that its hosts may register under.",
        "[\"arena/eu\"]",
        Access::Texts { get: |h| &h.target_keys, set: |h, value| h.target_keys = value }
    ),
];
